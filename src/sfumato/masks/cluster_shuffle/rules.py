"""Columns that follow others: what is dealt, what travels along, and what is added up again.

A total is never dealt where its parts are: parts are dealt one by one, and what the total had beyond
them (its residual, nearly always 0) is dealt like one more part, so a rule holds in as many records of
each cluster as before. A flag of imputed values travels with the value it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.data.schema import Schema
from sfumato.data.sums import TOLERANCE, circular
from sfumato.errors import MaskError


@dataclass(frozen=True)
class Following:
    """What a shuffle of some columns deals, and what follows from it."""

    dealt: tuple[str, ...]
    riders: Mapping[str, tuple[str, ...]]
    """Dealt column → columns that travel with it."""
    totals: tuple[tuple[str, tuple[str, ...]], ...]
    """Total → parts, each total after those that it is made of."""

    @property
    def changed(self) -> tuple[str, ...]:
        riding = [r for c in self.dealt for r in self.riders.get(c, ())]
        return (*self.dealt, *riding, *(t for t, _ in self.totals))


def following(schema: Schema, columns: Sequence[str]) -> Following:
    """What dealing these columns means under a schema's rules.

    A named total stands for all its parts; a total of which one part is named follows it.

    >>> schema = Schema(variables={"ALL": {"sum_of": ["A", "B"]}})
    >>> following(schema, ["ALL", "AGE"]).dealt
    ('AGE', 'A', 'B')
    """
    sums = schema.sums
    if (ring := circular(sums)) is not None:
        raise MaskError(f"cluster_shuffle: the sum rules of {ring} go round in a circle")
    names = dict.fromkeys(columns)
    while more := [p for c in names if c in sums for p in sums[c] if p not in names]:
        names |= dict.fromkeys(more)
    touched, order = set(names), list[str]()

    def visit(total: str) -> None:
        for part in sums[total]:
            if part in sums:
                visit(part)
        if total not in order and touched & set(sums[total]):
            order.append(total)
            touched.add(total)

    for total in sums:
        visit(total)
    free = [c for c in names if c not in order]
    riders: dict[str, tuple[str, ...]] = {}
    for column in free:
        flag = schema[column].imputed
        if flag is not None and flag not in {r for rs in riders.values() for r in rs}:
            riders[column] = (flag,)
    riding = {r for rs in riders.values() for r in rs}
    dealt = tuple(c for c in free if c not in riding)
    return Following(dealt, riders, tuple((t, sums[t]) for t in order))


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
    series = before.column(total.name)
    dtype = series.dtype
    gone = np.isnan(out)
    made = pl.Series(np.where(gone, 0.0, np.rint(out) if dtype.is_integer() else out))
    try:
        made = made.cast(dtype, strict=True)
    except pl.exceptions.InvalidOperationError:
        raise MaskError(
            f"cluster_shuffle: {total.name} can't hold the sum of its dealt parts as {dtype}",
            hint="read the column in a wider type",
        ) from None
    if gone.any():
        missing = series.filter(pl.Series(before.missing(total.name)))
        blank = missing[0] if len(missing) else None
        made = made.scatter(np.flatnonzero(gone), pl.Series([blank] * int(gone.sum()), dtype=dtype))
    return made.rename(total.name)
