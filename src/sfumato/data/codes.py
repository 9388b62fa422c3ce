"""Integer codes of keys: each key's distinct values in order, and where each record stands in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.differences import same_memory
from sfumato.data.microdata import IntArray, Microdata
from sfumato.errors import InputError

MAX_LEVELS: Final = 5_000_000
"""A column with more distinct values identifies people by itself; it isn't a key to be counted."""

_DENSE: Final = 1 << 22
_LIMIT: Final = 1 << 62
_LARGEST: Final = (1 << 63) - 1
CodeArray = npt.NDArray[Any]


def code_column(data: Microdata, key: str) -> tuple[npt.NDArray[np.int32], pl.Series]:
    """A record's level (its place among the distinct values in order; the number of levels where
    the value is missing), and the levels."""
    series = data.column(key)
    gone = (
        data.missing(key) if series.null_count() or series.dtype.is_float() or _has_codes(data, key) else None
    )
    if series.dtype.is_integer() or series.dtype == pl.Boolean:
        codes, levels = _code_integers(series, gone)
    else:
        codes, levels = _code_others(series, gone)
    if len(levels) > MAX_LEVELS:
        raise InputError(
            f"the key {key} has {len(levels):,} levels, more than a key can have ({MAX_LEVELS:,})",
            hint="recode or truncate it; a column that names one person each belongs in the role `id`",
        )
    return codes, levels


def _has_codes(data: Microdata, key: str) -> bool:
    return bool(data.schema[key].missing)


def _code_integers(
    series: pl.Series, gone: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[np.int32], pl.Series]:
    kept = series if gone is None else series.filter(~pl.Series(gone))
    if not len(kept):
        return np.zeros(len(series), np.int32), series.clear()
    if series.dtype == pl.Boolean:
        low, high = 0, 1
    else:
        low, high = int(kept.min()), int(kept.max())  # type: ignore[arg-type]
    span = high - low + 1
    if span > max(_DENSE, 2 * len(series)) or high > _LARGEST:
        return _code_others(series, gone)
    fill = series.fill_null(kept[0]) if series.null_count() else series
    offset = fill.cast(pl.Int64).to_numpy() - low
    if gone is not None:
        offset[gone] = 0
    present = np.zeros(span, np.bool_)
    present[offset if gone is None else offset[~gone]] = True
    remap = (np.cumsum(present) - 1).astype(np.int32)
    codes = remap[offset]
    levels = pl.Series(series.name, np.flatnonzero(present) + low)
    if gone is not None:
        codes[gone] = len(levels)
    return codes, levels.cast(series.dtype)


def _code_others(
    series: pl.Series, gone: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[np.int32], pl.Series]:
    """Any type: sorted distinct values, then each record's place by hashing (text) or bisection."""
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    kept = series if gone is None else series.filter(~pl.Series(gone))
    levels = kept.unique().sort()
    if not len(levels):
        return np.zeros(len(series), np.int32), levels
    if series.dtype == pl.String:
        codes = series.cast(pl.Enum(levels), strict=False).to_physical().cast(pl.Int32)
        out = codes.fill_null(len(levels)).to_numpy(writable=True)
    elif (series.dtype.is_numeric() and not series.dtype.is_decimal()) or series.dtype.is_temporal():
        values = series.to_physical().fill_null(levels.to_physical()[0]).to_numpy()
        out = np.searchsorted(levels.to_physical().to_numpy(), values).astype(np.int32)
    else:
        table = pl.DataFrame({"v": levels, "code": np.arange(len(levels), dtype=np.int32)})
        joined = pl.DataFrame({"v": series}).join(table, on="v", how="left", maintain_order="left")
        out = joined["code"].fill_null(len(levels)).to_numpy(writable=True)
    if gone is not None:
        out[gone] = len(levels)
    return out, levels


def pack(columns: Sequence[CodeArray], sizes: Sequence[int]) -> tuple[IntArray, int]:
    """One number for each item's codes (mixed radix, the first key slowest), and how many there can be.

    Where the product of the sizes passes 2⁶² the codes so far are labelled densely first, so that
    any number of keys fits.
    """
    from sfumato.kernels.cells import label_sparse

    if not len(columns):
        raise ValueError("at least one key")
    total = int(sizes[0])
    packed = columns[0].astype(np.int64)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        if total * size >= 1 << 62:
            labels, first = label_sparse(packed)
            packed, total = labels.astype(np.int64), len(first)
        packed *= size
        packed += column
        total *= int(size)
    return packed, total


def label(packed: IntArray, total: int) -> tuple[npt.NDArray[np.int32], IntArray]:
    """Dense labels of packed codes and the first place of each label."""
    from sfumato.kernels.cells import label_dense, label_sparse

    if total <= max(1 << 16, 4 * len(packed)):
        return label_dense(packed, total)
    return label_sparse(packed)


def dense(values: IntArray, width: int | None = None) -> tuple[IntArray, int]:
    """Numbers 0 … k−1 in the order of the values, without gaps, and k."""
    from sfumato.kernels import edits

    if not len(values):
        return values, 0
    if width is not None and width <= 4 * len(values) + 1024:
        there = np.zeros(width, np.bool_)
        there[values] = True
        place = np.cumsum(there) - 1
        return place[values], int(place[-1]) + 1
    ids, found = edits.distinct(np.ascontiguousarray(values))
    order = np.argsort(found)
    place = np.empty(len(found), np.int64)
    place[order] = np.arange(len(found))
    return place[ids], len(found)


def joint(parts: Sequence[tuple[IntArray, int]], n: int) -> tuple[IntArray, int]:
    """Dense numbers of the combinations of several columns, ordered by the first column first."""
    total, width = np.zeros(n, np.int64), 1
    for code, size in parts:
        if width * size >= _LIMIT:
            total, width = dense(total, width)
        if width * size >= _LIMIT:
            code, size = dense(code, size)
        total = total * size + code if width > 1 else code
        width *= size
    return dense(total, width)


def joint_codes(
    original: Microdata, masked: Microdata, columns: Sequence[str]
) -> tuple[IntArray, IntArray, int]:
    """Codes of the combinations of these columns, the same code for the same values in both files, and
    how many there are."""
    if all(same_memory(original.column(c), masked.column(c)) for c in columns):
        codes, size = original.codes(columns)
        return codes, codes, size
    first, second = original.select(list(columns)), masked.select(list(columns))
    text = [
        c
        for c in columns
        if (
            first.schema[c] != second.schema[c]
            and not (first.schema[c].is_numeric() and second.schema[c].is_numeric())
        )
        or first.schema[c] in (pl.Categorical, pl.Enum)
    ]
    if text:
        first, second = (f.with_columns(pl.col(text).cast(pl.String)) for f in (first, second))
    both = Microdata(pl.concat([first, second], how="vertical_relaxed"))
    codes, size = both.codes(columns)
    return codes[: len(original)], codes[len(original) :], size
