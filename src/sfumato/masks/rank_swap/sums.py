"""Columns that add up, under a rank swap: which are swapped, which follow, and how.

``rebuild``: the components are swapped, each on its own, and the total is added up again. What the
total had beyond its components (the residual) is swapped as one more component among the records
that have one, so that it isn't released as it was. ``scale``: the total is swapped and its
components are scaled by the same factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.data.rules import broken_sums
from sfumato.data.schema import Schema
from sfumato.data.sums import circular, from_the_bottom, leaves
from sfumato.errors import MaskError

Way = Literal["rebuild", "scale"]


@dataclass(frozen=True)
class SumPlan:
    """What a mask of some columns does to a file with sum rules.

    ``swapped`` maps each column that is swapped to the named column whose target it follows;
    ``rules`` are the rules to mend afterwards, in the order in which they must be mended;
    ``follows`` maps each total with a residual of its own to the column whose target that follows.
    """

    swapped: dict[str, str]
    rules: tuple[tuple[str, tuple[str, ...]], ...]
    follows: dict[str, str]
    mended: tuple[str, ...]
    """Columns that change without being swapped: totals added up again, or components scaled."""


def plan_sums(schema: Schema, columns: Sequence[str], way: Way, together: bool) -> SumPlan:
    """The sum rules that swapping these columns would break, and what to do about each."""
    sums = schema.sums
    if together:  # a rule that travels as a whole needs nothing
        sums = {t: parts for t, parts in sums.items() if not {t, *parts} <= set(columns)}
    if (ring := circular(sums)) is not None:
        raise MaskError(f"rank_swap: the sum rules of {ring} go round in a circle")
    order = from_the_bottom(sums)
    return _rebuild(sums, order, columns) if way == "rebuild" else _scale(sums, order, columns)


def _rebuild(sums: Mapping[str, tuple[str, ...]], order: list[str], columns: Sequence[str]) -> SumPlan:
    swapped = {c: c for c in columns}
    # From the top down: a named total stands for its components, where none of them is named.
    for total in reversed(order):
        if total in swapped:
            lead = swapped.pop(total)
            if not any(part in swapped for part in sums[total]):
                swapped |= dict.fromkeys(sums[total], lead)
    touched = set(swapped)
    rules, follows = [], {}
    for total in order:
        if touched & set(sums[total]):
            rules.append((total, sums[total]))
            lead = next(swapped[p] for p in leaves(sums, total) if p in swapped)
            follows[total] = total if total in columns else lead
            touched.add(total)
    return SumPlan(swapped, tuple(rules), follows, tuple(total for total, _ in rules))


def _scale(sums: Mapping[str, tuple[str, ...]], order: list[str], columns: Sequence[str]) -> SumPlan:
    above: dict[str, list[str]] = {}
    for total in order:
        for part in sums[total]:
            above.setdefault(part, []).append(total)
    swapped: dict[str, str] = {}
    for column in columns:
        top = column
        while top in above:
            if len(above[top]) > 1:
                raise MaskError(
                    f"rank_swap: {top} is a component of {' and of '.join(above[top])}, "
                    "so it can't be scaled with both",
                    hint='sum_rule = "rebuild" swaps the components and adds them up again',
                )
            top = above[top][0]
        if top not in swapped or column == top:
            swapped[top] = column
    rules, reached = [], set(swapped)
    for total in reversed(order):
        if total in reached:
            rules.append((total, sums[total]))
            reached |= set(sums[total])
    mended = tuple(dict.fromkeys(part for _, parts in rules for part in parts))
    return SumPlan(swapped, tuple(rules), {}, mended)


# -- on the values --------------------------------------------------------------------------------


def added(data: Microdata, parts: Sequence[str]) -> FloatArray:
    """The sum of the components, missing ones counting as 0."""
    out = np.zeros(len(data))
    for part in parts:
        out += data.numbers(part, missing=0.0)
    return out


def residual(data: Microdata, total: str, parts: Sequence[str]) -> FloatArray:
    """What a total has beyond its components: 0 where the rule holds, NaN where the total is missing."""
    value = data.numbers(total)
    rest = value - added(data, parts)
    held = ~broken_sums(data, total, parts)
    complete = np.logical_and.reduce([~data.missing(part) for part in parts])
    rest[held & complete & np.isfinite(value)] = 0.0
    return rest


def fixed_totals(data: Microdata, rules: Sequence[tuple[str, tuple[str, ...]]]) -> dict[str, BoolArray]:
    """For each component, the records where it must stay because a total above it may not move.

    A top-coded (or imputed) total stays as it is; where it was the sum of its components, those stay
    with it.
    """
    out: dict[str, BoolArray] = {}
    for total, parts in reversed(rules):  # from the top down
        stuck = ~data.eligible(total) & ~data.missing(total) & ~broken_sums(data, total, parts)
        if total in out:
            stuck |= out[total]
        if stuck.any():
            for part in parts:
                out[part] = out.get(part, False) | stuck
    return out


def scalable(data: Microdata, total: str, rules: Sequence[tuple[str, tuple[str, ...]]]) -> BoolArray:
    """Where a total may be scaled: it isn't 0, and no component below it is coded or imputed."""
    sums_of = dict(rules)
    out: BoolArray = data.numbers(total, missing=0.0) != 0
    below = [total]
    while below:
        for part in sums_of.get(below.pop(), ()):
            out &= data.eligible(part) | data.missing(part)
            below.append(part)
    return out


def rebuilt(
    before: Microdata, after: Microdata, total: str, parts: Sequence[str], rest: FloatArray
) -> pl.Series:
    """The total added up again from the components in ``after`` and the (swapped) residual."""
    old = before.column(total)
    moves = before.eligible(total)
    value = added(after, parts) + np.nan_to_num(rest)
    # Records in which nothing moved keep their total to the last bit.
    moves &= value != added(before, parts) + np.nan_to_num(residual(before, total, parts))
    return _written(before, total, old, moves, value)


def scaled(before: Microdata, after: Microdata, total: str, parts: Sequence[str]) -> dict[str, pl.Series]:
    """The components scaled as the total was, rounded to their units so that the rule still holds."""
    old, new = before.numbers(total), after.numbers(total)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = new / old
    moves = np.isfinite(factor) & (old != new)
    factor[~moves] = 1.0
    present = [moves & ~before.missing(part) for part in parts]
    exact = [before.numbers(part, missing=0.0) * factor for part in parts]
    units = [unit_of(before, part) for part in parts]
    values = [np.rint(x / u) * u if u else x for x, u in zip(exact, units, strict=True)]
    if all(units):
        _settle(before, total, parts, new, moves, present, exact, values, units)
    return {
        part: _written(before, part, before.column(part), here, value)
        for part, here, value in zip(parts, present, values, strict=True)
    }


def _settle(
    before: Microdata,
    total: str,
    parts: Sequence[str],
    new: FloatArray,
    moves: BoolArray,
    present: Sequence[BoolArray],
    exact: Sequence[FloatArray],
    values: list[FloatArray],
    units: Sequence[float],
) -> None:
    """Give what rounding took from the sum to the components that were rounded furthest (in place)."""
    rows = np.flatnonzero(moves & ~broken_sums(before, total, parts) & np.logical_and.reduce(list(present)))
    if not len(rows):
        return
    unit = max(units)
    x = np.stack([e[rows] for e in exact], axis=1)
    v = np.stack([w[rows] for w in values], axis=1)
    off = np.rint((new[rows] - v.sum(axis=1)) / unit).astype(np.int64)
    # Rounding shifts each component by at most half a unit, so |off| never exceeds their number.
    gap = (x - v) * np.sign(off)[:, None]
    gap[x == 0] = -np.inf  # a component of nothing stays nothing
    place = np.argsort(np.argsort(-gap, axis=1, kind="stable"), axis=1, kind="stable")
    v += np.where(place < np.abs(off)[:, None], np.sign(off)[:, None] * unit, 0.0)
    for k, value in enumerate(values):
        value[rows] = v[:, k]


def unit_of(data: Microdata, column: str) -> float:
    """The step of a column's values: the schema's unit, 1 for whole numbers, else 0 (none)."""
    said = data.schema[column].unit
    return float(said) if said else (1.0 if data.dtype(column).is_integer() else 0.0)


def _written(data: Microdata, column: str, old: pl.Series, where: BoolArray, value: FloatArray) -> pl.Series:
    if not where.any():
        return old
    if old.dtype.is_integer():
        value = np.rint(value)
        info = np.iinfo(old.head(0).to_numpy().dtype)
        if value[where].min() < info.min or value[where].max() > info.max:
            raise MaskError(
                f"rank_swap: {column} would need numbers beyond its type {old.dtype}",
                hint="store it in a wider type",
            )
    rows = pl.Series(np.flatnonzero(where))
    return old.clone().scatter(rows, pl.Series(value[where]).cast(old.dtype))
