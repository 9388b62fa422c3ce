"""Totals and ratios under a shuffle.

A total is never dealt where its parts are: parts are dealt one by one, and what the total had beyond
them (its residual, nearly always 0) is dealt like one more part, so a rule holds in as many records of
each cluster as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.data.rules import TOLERANCE, RatioOf, values_of
from sfumato.data.steps import plainly
from sfumato.errors import MaskError


@dataclass(frozen=True)
class Total:
    """A total that is added up again, and what it has beyond its parts in each record."""

    name: str
    parts: tuple[str, ...]
    residual: FloatArray
    """Total less parts; 0 where it can't be told, NaN where the total alone is missing."""
    skips_missing: bool
    """Whether a missing part counts as 0, as it does in the file."""

    @property
    def exact(self) -> bool:
        return not self.residual.any()


def total_of(data: Microdata, name: str, parts: Sequence[str]) -> Total:
    value = data.numbers(name)
    added, some = _added(data, parts, skip=True)
    scale = np.maximum(np.abs(value), 1.0)
    for part in parts:
        scale = np.fmax(scale, np.abs(data.numbers(part)))
    gap = value - added
    with np.errstate(invalid="ignore"):
        gap[np.abs(gap) <= TOLERANCE * scale] = 0.0
    open_ = some & np.isfinite(value)
    skips = bool(open_.any() and not gap[open_].any())
    if not skips:
        gap[some] = 0.0
    return Total(name, tuple(parts), gap, skips)


def _added(data: Microdata, parts: Sequence[str], *, skip: bool) -> tuple[FloatArray, BoolArray]:
    """The sum of the parts, and where one of them is missing."""
    out, some = np.zeros(len(data)), np.zeros(len(data), np.bool_)
    for part in parts:
        x = data.numbers(part)
        gone = np.isnan(x)
        some |= gone
        out += np.where(gone, 0.0, x) if skip else x
    return out, some


def added_up(total: Total, before: Microdata, after: Microdata, residual: FloatArray | None) -> pl.Series:
    """The total of the dealt parts, in its own type; missing where a part or the dealt residual is."""
    out, _ = _added(after, total.parts, skip=total.skips_missing)
    if residual is not None:
        out = out + residual
    out = plainly(out, before.schema[total.name].unit)
    return _in_type(before, total.name, out)


def divided(rule: RatioOf, before: Microdata, after: Microdata) -> pl.Series:
    """The ratio of what was dealt, in the steps that the column has; missing where it has no value."""
    out = rule.solve(rule.result, values_of(after, rule.members))
    if rule.unit:
        out = plainly(np.rint(out / rule.unit) * rule.unit, rule.unit)
    return _in_type(before, rule.result, out)


def _in_type(before: Microdata, name: str, out: FloatArray) -> pl.Series:
    """Numbers in the type of a column, its own missing value where there is none."""
    series = before.column(name)
    dtype = series.dtype
    gone = np.isnan(out)
    made = pl.Series(np.where(gone, 0.0, np.rint(out) if dtype.is_integer() else out))
    try:
        made = made.cast(dtype, strict=True)
    except pl.exceptions.InvalidOperationError:
        raise MaskError(
            f"cluster_shuffle: {name} can't hold what its dealt parts make as {dtype}",
            hint="read the column in a wider type",
        ) from None
    if gone.any():
        missing = series.filter(pl.Series(before.missing(name)))
        blank = missing[0] if len(missing) else None
        made = made.scatter(np.flatnonzero(gone), pl.Series([blank] * int(gone.sum()), dtype=dtype))
    return made.rename(name)
