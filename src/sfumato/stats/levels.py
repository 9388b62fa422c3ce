"""A column as a shuffle sees it: its levels in order, and what distances and moments look at in them.

All that is computed here is a function of a column's values and how often each occurs; the order of the
records has no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.data.steps import snapped

CodeArray = npt.NDArray[np.int32]

CUTS: Final = (0.1, 0.35, 0.65, 0.9)
"""Where ranks are cut for the moments of ``pairs``."""
MOST_LEVELS: Final = 12
"""Levels of a category that have a feature of their own, the most frequent ones."""
_FLAG_SHARE: Final = 0.005
_DECIMALS: Final = (1.0, 0.01, 0.001, 0.0001, 0.00001, 0.000001)


@dataclass(frozen=True)
class Levels:
    """One column in codes.

    ``codes`` has each record's level; levels are in the order of their values, missing ones last.
    ``numbers`` has each level's number (NaN where it is missing, and throughout a category without
    order); ``values`` what stands for a level in each column that travels with this one, itself first.
    """

    name: str
    codes: CodeArray
    counts: IntArray
    numbers: FloatArray
    missing: npt.NDArray[np.bool_]
    values: dict[str, pl.Series]
    ordered: bool
    aim: npt.NDArray[np.float32] | None = None
    """Each record's number before it was averaged with its neighbours, standardised (0 where it is missing):
    what moments are to be near to. None where no number was."""

    def __len__(self) -> int:
        return len(self.counts)

    def with_codes(self, codes: CodeArray) -> Levels:
        return replace(self, codes=codes, aim=None)


def levels_of(data: Microdata, column: str, riders: Sequence[str] = ()) -> Levels:
    """A column's levels; ``riders`` are columns that keep to its values (a flag of imputed ones, coarser
    codes)."""
    series = _comparable(data.column(column))
    codes, first = _dense(series)
    for rider in riders:
        extra, _ = _dense(_comparable(data.column(rider)))
        codes, first = _dense(pl.Series(codes.astype(np.int64) * (int(extra.max(initial=0)) + 1) + extra))
    names = [column, *riders]
    small = data.with_frame(data.select(names)[first])
    gone = small.missing(column)
    numbers, ordered = _numbers(small, column)
    rank = (
        np.lexsort((np.arange(len(first)), np.where(gone, 0.0, numbers), gone))
        if ordered
        else (np.argsort(gone, kind="stable"))
    )
    if (rank[1:] < rank[:-1]).any():
        back = np.empty(len(rank), np.int32)
        back[rank] = np.arange(len(rank), dtype=np.int32)
        codes = back[codes]
        small, gone, numbers = small.with_frame(small.frame[rank]), gone[rank], numbers[rank]
    counts = np.bincount(codes, minlength=len(first))
    values = {c: small.column(c) for c in names}
    return Levels(column, codes, counts, numbers, gone, values, ordered)


def _comparable(series: pl.Series) -> pl.Series:
    """The column in a type whose order its values decide: no codes of categories, no −0.0."""
    if series.dtype in (pl.Categorical, pl.Enum):
        return series.cast(pl.String)
    return series + 0.0 if series.dtype.is_float() else series


def _dense(series: pl.Series) -> tuple[CodeArray, IntArray]:
    """Dense ranks (missing values last) and a place where each stands."""
    from sfumato.kernels.sort import sorted_with_places

    n = len(series)
    physical = series.to_physical() if series.dtype.is_temporal() else series
    plain = physical.dtype.is_float() or (physical.dtype.is_integer() and physical.dtype.is_signed_integer())
    if plain and not series.null_count() and n and physical.dtype != pl.Int128:
        wide = physical.cast(pl.Float64 if physical.dtype.is_float() else pl.Int64).to_numpy()
        if wide.dtype != np.float64 or not np.isnan(wide).any():
            values, places, _ = sorted_with_places(np.ascontiguousarray(wide))
            fresh = np.ones(n, np.bool_)
            np.not_equal(values[1:], values[:-1], out=fresh[1:])
            codes = np.empty(n, np.int32)
            codes[places] = np.cumsum(fresh, dtype=np.int32) - 1
            return codes, places[fresh].astype(np.int64)
    ranks = series.rank("dense")
    top = int(ranks.max() or 0)  # type: ignore[arg-type]
    codes = (ranks.cast(pl.Int64).fill_null(top + 1).to_numpy() - 1).astype(np.int32)
    first = np.empty(int(codes.max(initial=-1)) + 1, np.int64)
    first[codes[::-1]] = np.arange(n)[::-1]
    return codes, first


def _numbers(small: Microdata, column: str) -> tuple[FloatArray, bool]:
    """The number of each level, and whether levels have an order that means something."""
    kind, dtype = small.kind(column), small.dtype(column)
    if kind == "categorical":
        return np.full(len(small), np.nan), False
    if dtype.is_numeric() or dtype.is_temporal():
        return small.numbers(column), True
    told = [str(c) for c in small.schema[column].order]
    text = [str(v) for v in small.column(column).to_list()]
    order = {name: i for i, name in enumerate(told)} or {name: i for i, name in enumerate(sorted(set(text)))}
    out = np.array([order.get(name, np.nan) for name in text], dtype=np.float64)
    out[small.missing(column)] = np.nan
    return out, True


# -- blur -----------------------------------------------------------------------------------------


def blurred(levels: Levels, least: int, *, step: float | None = None, ordinal: bool = False) -> Levels:
    """The column with no number of fewer than ``least`` records.

    Such numbers, the largest and smallest included, become the means of neighbouring ones, ``least``
    records or more to a group, equal values alike (in an ordinal column, the group's middle value). Where
    all of them are fewer than ``least`` records, they become the nearest of the others. Means are
    rounded to the ``step`` that the column's numbers have.

    Categories and missing codes stay: they have no mean.
    """
    from sfumato.kernels.shuffle import blur_groups

    there = np.isfinite(levels.numbers)
    if least < 2 or not levels.ordered or not there.any():
        return levels
    number, inverse = np.unique(levels.numbers[there], return_inverse=True)
    count = np.bincount(inverse, weights=levels.counts[there]).astype(np.int64)
    rare = np.flatnonzero((count > 0) & (count < least))
    if not len(rare):
        return levels
    fresh = number.copy()
    if count[rare].sum() >= least:
        group = blur_groups(number[rare], count[rare], least)
        centre = number[rare] - number[rare].mean()
        mean = np.bincount(group, centre * count[rare]) / np.bincount(group, count[rare])
        new = mean[group] + number[rare].mean()
        if ordinal:
            new = np.array([_middle(number[rare], count[rare], group, g) for g in group])
        fresh[rare] = _rounded(new, number, step)
    else:
        common = np.flatnonzero(count >= least)
        if not len(common):
            return levels
        for i in rare:
            fresh[i] = number[common[np.abs(number[common] - number[i]).argmin()]]
    wanted = fresh[inverse]
    was = dict(named_features(levels)).get("value")
    aim = None if was is None else was.astype(np.float32)[levels.codes]
    return replace(_with_numbers(levels, there, wanted), aim=aim)


def _middle(numbers: FloatArray, counts: IntArray, group: IntArray, one: int) -> float:
    own = np.repeat(numbers[group == one], counts[group == one])
    return float(own[len(own) // 2])


def _rounded(means: FloatArray, numbers: FloatArray, step: float | None) -> FloatArray:
    """Means in the step of the column's numbers: as told, else with as many decimals as all of them have."""
    for one in (step,) if step else _DECIMALS:
        scaled = numbers / one
        if step or (np.abs(scaled - np.rint(scaled)) <= 1e-9 * np.maximum(np.abs(scaled), 1.0)).all():
            return snapped(means, one)
    return means


def _with_numbers(levels: Levels, there: npt.NDArray[np.bool_], wanted: FloatArray) -> Levels:
    """The levels with new numbers, those that have become equal joined."""
    changed = np.flatnonzero(there)[wanted != levels.numbers[there]]
    new = levels.numbers.copy()
    new[there] = wanted
    series = levels.values[levels.name]
    physical = series.to_physical()
    if physical.dtype.is_numeric():
        entries = pl.Series(np.rint(new[changed]) if physical.dtype.is_integer() else new[changed])
        physical = physical.scatter(changed, entries.cast(physical.dtype))
        series = physical.cast(series.dtype)
    else:  # an ordered category: the level that has this number
        holder = {float(x): i for i, x in enumerate(levels.numbers) if np.isfinite(x)}
        at = np.arange(len(new))
        at[changed] = [holder[float(x)] for x in new[changed]]
        series = series[at]
    values = {**levels.values, levels.name: series.rename(levels.name)}
    # Again in order and without repeats: by number, then missing levels as they were, then riders.
    keys = [np.where(np.isfinite(new), new, np.inf), np.where(np.isfinite(new), -1, np.arange(len(new)))]
    keys += [_dense(_comparable(v))[0] for n, v in values.items() if n != levels.name]
    order = np.lexsort(tuple(reversed(keys)))
    same = np.logical_and.reduce([k[order][1:] == k[order][:-1] for k in keys])
    number = np.zeros(len(order), np.int32)
    number[order] = np.concatenate([[0], np.cumsum(~same)])
    first = order[np.concatenate([[True], ~same])]
    return Levels(
        levels.name,
        number[levels.codes],
        np.bincount(number, weights=levels.counts).astype(np.int64),
        new[first],
        levels.missing[first],
        {n: v[first] for n, v in values.items()},
        levels.ordered,
    )


# -- what moments and distances look at -----------------------------------------------------------


def scores(levels: Levels) -> FloatArray:
    """The normal score of each level's middle rank, in the order in which levels are dealt, standardised."""
    from scipy.special import ndtri

    upto = np.cumsum(levels.counts)
    middle = (upto - (levels.counts - 1) / 2) / (upto[-1] + 1) if len(upto) else upto.astype(float)
    return _standard(np.asarray(ndtri(middle)), levels.counts)


def features(levels: Levels, *, cuts: Sequence[float] = ()) -> list[FloatArray]:
    """Functions of a column's levels whose mean products with those of other columns are kept.

    Of a number: itself, its normal score, its rank above each cut, and whether it is missing or 0 (where
    that is neither rare nor the rule). Of a category: being at each of its most frequent levels. All have
    mean 0 and variance 1; a constant one is left out.
    """
    return [f for _, f in named_features(levels, cuts=cuts)]


def named_features(
    levels: Levels, *, cuts: Sequence[float] = (), square: bool = False
) -> list[tuple[str, FloatArray]]:
    """The same, each with what it is: value, score, cut, missing, zero, level; with ``square``, a number's
    square too, last."""
    counts = levels.counts
    if not levels.ordered:
        return _kept([("level", _level(levels, i)) for i in _frequent(levels)], counts)
    there = np.isfinite(levels.numbers)
    parts: list[tuple[str, FloatArray]] = []
    squares: list[tuple[str, FloatArray]] = []
    if counts[there].any():
        from scipy.special import ndtri

        own = np.where(there, counts, 0)
        known = int(own.sum())
        centre = float((levels.numbers[there] * (counts[there] / known)).sum())
        rank = (np.cumsum(own) - (own - 1) / 2) / (known + 1)
        value = np.where(there, levels.numbers - centre, 0.0)
        parts = [
            ("value", value),
            ("score", np.where(there, ndtri(np.where(there, rank, 0.5)), 0.0)),
            *(("cut", np.where(there, rank > c, c < 0.5).astype(np.float64)) for c in cuts),
        ]
        if square:
            size = float(np.abs(value).max())
            squares = [("square", (value / size) ** 2 if size else value)]
    return [*_kept(parts, counts), *_kept(_flags(levels), counts), *_kept(squares, counts)]


def _flags(levels: Levels) -> list[tuple[str, FloatArray]]:
    """Whether a level is missing, and whether it is 0, where that is neither rare nor the rule."""
    total = levels.counts.sum()
    return [
        (name, flag.astype(np.float64))
        for name, flag in (("missing", levels.missing), ("zero", levels.numbers == 0.0))
        if _FLAG_SHARE < float(levels.counts[flag].sum()) / total < 1 - _FLAG_SHARE
    ]


def points(columns: Sequence[Levels], records: IntArray) -> npt.NDArray[np.float32]:
    """Where these records stand: alike records are near. One column counts about as much as another."""
    made: list[tuple[Levels, FloatArray]] = []
    for one in columns:
        found = named_features(one)
        for kind, f in found:
            half = 4.0 if kind in ("missing", "zero") else 2.0
            made.append((one, f / np.sqrt(half if one.ordered else len(found))))
    out = np.empty((len(records), len(made)), np.float32)
    for u, (one, feature) in enumerate(made):
        out[:, u] = feature.astype(np.float32)[one.codes[records]]
    return out


def _frequent(levels: Levels) -> list[int]:
    """The most frequent levels but for one (which the others imply), in order of frequency, then of value."""
    order = np.lexsort((np.arange(len(levels)), -levels.counts))
    return [int(i) for i in order[: min(MOST_LEVELS, len(levels) - 1)]]


def _level(levels: Levels, one: int) -> FloatArray:
    out = np.zeros(len(levels))
    out[one] = 1.0
    return out


def _standard(values: FloatArray, counts: IntArray) -> FloatArray:
    share = counts / max(int(counts.sum()), 1)
    mean = float((values * share).sum())
    spread = float(np.sqrt(((values - mean) ** 2 * share).sum()))
    return (values - mean) / spread if spread > 1e-12 * max(abs(mean), 1e-300) else np.zeros(len(values))


def _kept(parts: Sequence[tuple[str, FloatArray]], counts: IntArray) -> list[tuple[str, FloatArray]]:
    made = [(name, _standard(p, counts)) for name, p in parts]
    return [(name, p) for name, p in made if p.any()]
