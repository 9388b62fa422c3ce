"""Key combinations as whole numbers: the classes, buckets and areas that the edits work on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.data.codes import dense, joint
from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.errors import MaskError, counted

_LIMIT = 1 << 62


def digits(data: Microdata, column: str) -> tuple[IntArray, int]:
    """A column as whole numbers in the order of its values (null 0), and one more than the largest."""
    series = data.column(column)
    dtype = series.dtype
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        if dtype != pl.String:
            series = series.cast(pl.String)
        order = series.unique().drop_nulls().sort()
        code = series.cast(pl.Enum(order)).to_physical().cast(pl.Int64)
        return (code + 1).fill_null(0).to_numpy(), len(order) + 1
    if dtype.is_temporal():
        series = series.to_physical()
    if series.dtype.is_integer() or dtype == pl.Boolean:
        low, high = series.min(), series.max()
        if low is None or high is None:
            return np.zeros(len(series), np.int64), 1
        # A narrow range needs no ranking; a wide one (identifiers, dollars) does.
        least, most = int(low), int(high)  # type: ignore[arg-type]
        if most - least < max(1 << 16, 4 * len(series)) and -_LIMIT < least <= most < _LIMIT:
            wide = series.cast(pl.Int64) - (least - 1)
            return wide.fill_null(0).to_numpy(), most - least + 2
    code = series.rank("dense").cast(pl.Int64).fill_null(0)
    return code.to_numpy(), int(code.max() or 0) + 1  # type: ignore[arg-type]


def classes(data: Microdata, columns: Sequence[str]) -> tuple[IntArray, int]:
    """Dense numbers of the combinations of these columns (as ``Microdata.codes``, but linear)."""
    return joint([digits(data, c) for c in columns], len(data))


def missing_any(data: Microdata, columns: Sequence[str]) -> BoolArray:
    """Which records miss one of these columns."""
    out = np.zeros(len(data), np.bool_)
    for column in columns:
        out |= data.missing(column)
    return out


@dataclass(frozen=True)
class Units:
    """Households (or records, where a file has one record per household).

    ``of`` is each record's unit, ``first`` each unit's first record, ``size`` its number of records.
    """

    of: IntArray
    first: IntArray
    size: IntArray
    column: str | None

    def __len__(self) -> int:
        return len(self.first)

    @property
    def single(self) -> bool:
        """Whether every unit is one record."""
        return len(self.first) == len(self.of)

    def names(self, data: Microdata, which: IntArray) -> pl.Series:
        """The units' names: the household's identifier, else the record's place in the file."""
        rows = self.first[which]
        if self.column is None:
            return pl.Series("household", rows)
        return data.column(self.column).gather(rows).rename("household")


def units(data: Microdata, household: str | None) -> Units:
    """The file's households; without a household column, its records."""
    n = len(data)
    if household is None:
        every = np.arange(n, dtype=np.int64)
        return Units(every, every, np.ones(n, np.int64), None)
    gone = data.missing(household)
    code, k = classes(data, [household])
    if gone.any():
        # A record without a household is a household of its own.
        code = np.where(gone, k + np.cumsum(gone), code)
        code, k = dense(code, None)
    if k == n:
        every = np.arange(n, dtype=np.int64)
        return Units(every, every, np.ones(n, np.int64), household)
    first = np.full(k, n, np.int64)
    first[code[::-1]] = np.arange(n - 1, -1, -1)
    return Units(code, first, np.bincount(code, minlength=k), household)


def check_same_in_unit(data: Microdata, of: Units, columns: Sequence[str], who: str) -> None:
    """Refuse households whose members disagree on a column that belongs to the household."""
    if of.single:
        return
    for column in columns:
        code, _ = digits(data, column)
        off = code != code[of.first][of.of]
        if off.any():
            # Whose household it is is nobody's business who reads a log: places lead there all the same.
            one = int(np.argmax(off))
            places = f"records {of.first[of.of[one]] + 1:,} and {one + 1:,}"
            bad = len(np.unique(of.of[off]))
            where = f"{places}; {counted(bad, 'household')} in all"
            raise MaskError(
                f"{who}: members of one household disagree on {column} ({where})",
                hint=f"{column} must be a household's: mend it, or leave it out",
            )
