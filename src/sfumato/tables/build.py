"""Frequency tables: from an array, from records, from a file of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.errors import InputError, ParameterError, did_you_mean

MOST_CELLS = 50_000_000


@dataclass(frozen=True)
class FrequencyTable:
    """Counts of every combination of some keys: one axis a key, one place a level."""

    counts: npt.NDArray[np.int64]
    keys: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]

    def cell_name(self, names: Sequence[str], cell: int) -> str:
        """A margin cell in words: "North" or "the total"."""
        if not names:
            return "the total"
        axes = [self.keys.index(k) for k in names]
        where = np.unravel_index(cell, [self.counts.shape[a] for a in axes])
        return ", ".join(f"{k} {self.levels[a][int(i)]}" for k, a, i in zip(names, axes, where, strict=True))

    def to_frame(self, *, zeros: bool = False) -> pl.DataFrame:
        """One row a cell: its levels and its count."""
        flat = self.counts.ravel()
        cells = np.arange(flat.size) if zeros else np.flatnonzero(flat)
        places = np.unravel_index(cells, self.counts.shape)
        columns = {
            key: pl.Series(key, list(self.levels[axis])).gather(places[axis])
            for axis, key in enumerate(self.keys)
        }
        return pl.DataFrame({**columns, "count": flat[cells]})


def as_table(table: Any, keys: Sequence[str] | None = None) -> FrequencyTable:
    """A frequency table from whatever holds one."""
    if isinstance(table, FrequencyTable):
        return table
    if isinstance(table, Microdata):
        return tabulate(table, keys if keys is not None else table.schema.keys)
    if isinstance(table, pl.DataFrame):
        return from_frame(table, keys)
    try:
        counts = np.asarray(table)
    except ValueError:
        raise InputError("the table's rows have different lengths") from None
    whole = _whole_counts(counts)
    if keys is not None and len(keys) != whole.ndim:
        raise ParameterError(f"the table has {whole.ndim} dimensions, but {len(keys)} keys are named")
    names = tuple(keys) if keys is not None else tuple(f"key{a + 1}" for a in range(whole.ndim))
    return FrequencyTable(whole, names, tuple(tuple(range(1, k + 1)) for k in whole.shape))


def tabulate(data: Microdata, keys: Sequence[str]) -> FrequencyTable:
    """The table of these keys; a missing value is a level of its own."""
    if not keys:
        raise ParameterError("a table needs keys", hint="keys=[…], or roles with keys")
    places, levels = [], []
    for key in keys:
        values = data.column(key)
        if values.dtype in (pl.Categorical, pl.Enum):
            values = values.cast(pl.String)
        present = values.unique().sort()
        rank = values.rank("dense").fill_null(0).to_numpy().astype(np.int64)
        places.append(rank if values.null_count() else rank - 1)
        levels.append(tuple(present.to_list()))
    shape = tuple(len(level) for level in levels)
    _check_size(shape)
    flat = np.ravel_multi_index(tuple(places), shape) if len(data) else np.zeros(0, dtype=np.int64)
    counts = np.bincount(flat, minlength=math.prod(shape)).reshape(shape)
    return FrequencyTable(counts.astype(np.int64), tuple(keys), tuple(levels))


def from_frame(
    frame: pl.DataFrame, keys: Sequence[str] | None = None, count: str = "count"
) -> FrequencyTable:
    """A table from a frame of cells: key columns and a column of counts."""
    if count not in frame.columns:
        raise InputError(f"the table has no column {count!r}", hint=did_you_mean(count, frame.columns))
    names = tuple(keys) if keys is not None else tuple(c for c in frame.columns if c != count)
    for name in names:
        if name not in frame.columns:
            raise InputError(f"the table has no column {name!r}", hint=did_you_mean(name, frame.columns))
    if not names:
        raise InputError("the table has counts but no keys")
    if frame.select(names).is_duplicated().any():
        n = int(frame.select(names).is_duplicated().sum())
        raise InputError(f"{n} rows of the table name a cell that another row names too")
    if not frame[count].dtype.is_numeric() or frame[count].null_count():
        raise InputError(f"{count!r} must hold a number in every row")
    values = _whole_counts(frame[count].to_numpy())
    levels = tuple(tuple(frame[name].unique().sort().to_list()) for name in names)
    shape = tuple(len(level) for level in levels)
    _check_size(shape)
    counts = np.zeros(shape, dtype=np.int64)
    places = [
        frame[name].replace_strict(list(level), list(range(len(level))), return_dtype=pl.Int64).to_numpy()
        for name, level in zip(names, levels, strict=True)
    ]
    counts[tuple(places)] = values
    return FrequencyTable(counts, names, levels)


def _whole_counts(counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    if counts.ndim == 0 or counts.size == 0:
        raise InputError("the table has no cells")
    if counts.dtype == bool or not np.issubdtype(counts.dtype, np.number):
        raise InputError("the table's cells must be counts")
    _check_size(counts.shape)
    if not np.isfinite(counts).all() or (counts != np.rint(counts)).any():
        bad = int((~np.isfinite(counts) | (counts != np.rint(counts))).sum())
        raise InputError(
            f"{bad} cells aren't whole numbers", hint="SAFE works on counts, not on weighted totals"
        )
    if (counts < 0).any():
        raise InputError(f"{int((counts < 0).sum())} cells are negative")
    return counts.astype(np.int64)


def _check_size(shape: tuple[int, ...]) -> None:
    if math.prod(shape) > MOST_CELLS:
        size = " × ".join(map(str, shape))
        raise InputError(
            f"a table of {size} has {math.prod(shape):,} cells; {MOST_CELLS:,} is the most",
            hint="recode a key into fewer classes, or take fewer keys",
        )
