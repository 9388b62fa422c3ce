"""Where two columns or frames differ, cheaply."""

from __future__ import annotations

from typing import Final

import polars as pl

_NO_ADDRESS: Final = (pl.Categorical, pl.Enum, pl.Object, pl.Int128, pl.UInt128)


def changed_rows(one: pl.DataFrame, two: pl.DataFrame) -> pl.Series:
    """Which records differ in any column (null equals null, NaN equals NaN)."""
    out = pl.Series([False]).new_from_index(0, one.height)
    for name in one.columns:
        if not same_memory(one[name], two[name]):
            out = out | one[name].ne_missing(two[name])
    return out


def same_memory(one: pl.Series, two: pl.Series) -> bool:
    """Whether two columns share their memory, so that they can't differ."""
    if len(one) != len(two) or one.dtype != two.dtype or one.n_chunks() != two.n_chunks() or not len(one):
        return False
    if one.dtype in _NO_ADDRESS or one.dtype.is_nested():
        return False
    return _addresses(one) == _addresses(two)


def _addresses(series: pl.Series) -> list[tuple[int, int, int]]:
    """Where each buffer of a column stands (Arrow hands it over without a copy)."""
    newest = pl.CompatLevel.newest()
    out = []
    for chunk in series.get_chunks():
        array = chunk.to_arrow(compat_level=newest)
        out += [
            (array.offset, len(array), 0 if buffer is None else buffer.address) for buffer in array.buffers()
        ]
    return out


def changed(one: pl.Series, two: pl.Series) -> int:
    """In how many records two columns differ (null equals null, NaN equals NaN)."""
    if one.dtype != two.dtype:
        if one.dtype.is_numeric() and two.dtype.is_numeric():
            one, two = one.cast(pl.Float64), two.cast(pl.Float64)
        else:
            one, two = one.cast(pl.String), two.cast(pl.String)
    return int(one.ne_missing(two).sum())
