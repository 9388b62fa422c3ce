"""One trial of the 2000 edit: who swaps with whom, and what it does to class means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.masks.edits.key_order import KeyClasses
from sfumato.masks.edits.partners import find_partners

REACH = 64
"""How many classes to either side are looked at before the rest of the stratum is."""


@dataclass(frozen=True)
class Pairs:
    """A trial's outcome: partners (−1: none), the key swapped, classes left, and T and N of the paper.

    ``far`` counts the classes whose neighbours couldn't be partners.
    """

    partner: IntArray
    via: IntArray
    left: IntArray
    far: int
    changed: int
    helpers: int

    @property
    def first(self) -> IntArray:
        some = np.flatnonzero(self.partner >= 0)
        return some[some < self.partner[some]]


@dataclass(frozen=True)
class Swapper:
    """All that a trial needs and that doesn't depend on the order of the keys."""

    classes: KeyClasses
    tolerance: int
    mode: int
    area: IntArray
    values: FloatArray
    likeness: FloatArray
    offset: IntArray
    priority: IntArray
    """A random rank of the classes below tolerance: a smaller share keeps a part of a larger one."""

    @property
    def failing(self) -> BoolArray:
        return self.classes.counts < self.tolerance

    def kept(self, share: float) -> BoolArray:
        """The classes below tolerance that are swapped when only a share of them is."""
        below = self.failing
        out = np.zeros(len(self.classes), np.bool_)
        n = int(below.sum())
        out[np.flatnonzero(below)[self.priority < round(share * n)]] = True
        return out

    def first_keys(self, order: Sequence[str]) -> IntArray:
        """Each class's first key, in this order, at which it falls below tolerance (its index, else −1)."""
        c = self.classes
        out = np.full(len(c), -1, np.int64)
        for level in range(1, len(order) + 1):
            group, k = c.grouped(order[:level])
            small = np.bincount(group, weights=c.counts, minlength=k) < self.tolerance
            place = c.keys.index(order[level - 1])
            out[(out < 0) & small[group] & (c.digits[:, place] >= 0)] = place
        return out

    def pair(self, order: Sequence[str], share: float, window: int, rng: np.random.Generator) -> Pairs:
        """Pair in this order; who finds nobody near is looked for in the rest of the stratum."""
        from sfumato.kernels import edits

        c, n = self.classes, len(self.classes.ids)
        kept = self.kept(share)
        key = self.first_keys(order) if self.mode == edits.FIRST_KEY else np.full(len(c), -1, np.int64)
        partner, via = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        left = edits.neighbour_pairs(
            c.sequence(order), c.ids, c.stratum, c.counts, c.starts, c.members, self.offset, kept,
            self.mode, self.area, self.values, c.digits, key, self.likeness, window, REACH, partner, via,
        )  # fmt: skip
        far = len(left)
        if far:
            left = self._settle(left, key, partner, via, rng)
        swapped = partner >= 0
        return Pairs(partner, via, left, far, int(swapped.sum()), int((swapped & ~kept[c.ids]).sum()))

    def _settle(
        self, left: IntArray, key: IntArray, partner: IntArray, via: IntArray, rng: np.random.Generator
    ) -> IntArray:
        """Look in the whole stratum, one swapped column at a time, for classes that found nobody near."""
        from sfumato.kernels import edits

        c = self.classes
        bucket = c.stratum[c.ids]
        n_buckets = int(c.stratum.max(initial=0)) + 1
        columns = {edits.GEOGRAPHY: 1, edits.SENSITIVE: self.values.shape[1]}.get(self.mode, len(c.keys))
        for j in range(columns):
            if self.mode == edits.GEOGRAPHY:
                area, mine = self.area, left
            elif self.mode == edits.SENSITIVE:
                column = self.values[:, j]
                area = np.full(len(column), -1, np.int64)
                there = np.isfinite(column)
                area[there] = np.unique(column[there], return_inverse=True)[1]
                mine = left
            else:
                area, mine = c.digits[c.ids, j], left[key[left] == j]
            movable = area >= 0
            seekers = self._one_of_each(mine, movable & (partner < 0), rng)
            find_partners(seekers, bucket, n_buckets, np.maximum(area, 0), movable, partner, rng)
            via[seekers[partner[seekers] >= 0]] = j
            got = partner >= 0
            via[partner[seekers[partner[seekers] >= 0]]] = j
            done = np.zeros(len(c), np.bool_)
            done[c.ids[got]] = True
            left = left[~done[left]]
        return left

    def _one_of_each(self, which: IntArray, ok: BoolArray, rng: np.random.Generator) -> IntArray:
        """A record that may move, at random, from each of some classes that have one."""
        c = self.classes
        asked = np.zeros(len(c), np.bool_)
        asked[which] = True
        rows = np.flatnonzero(ok & asked[c.ids])
        rows = rows[rng.permutation(len(rows))]
        out: IntArray = rows[np.unique(c.ids[rows], return_index=True)[1]]
        return out


@dataclass(frozen=True)
class Level:
    """A level of classes for the bias of one variable: each record's class, totals and sizes."""

    keys: tuple[str, ...]
    ids: IntArray
    sums: FloatArray
    sizes: FloatArray


def levels_of(classes: KeyClasses, values: FloatArray, levels: Sequence[tuple[str, ...]]) -> list[Level]:
    """The levels' classes, from the table of the finest ones."""
    there = np.isfinite(values)
    k = len(classes)
    n = np.bincount(classes.ids[there], minlength=k).astype(np.float64)
    total = np.bincount(classes.ids[there], weights=values[there], minlength=k)
    out = []
    for keys in levels:
        group, size = classes.grouped(keys)
        out.append(
            Level(
                tuple(keys),
                group,
                np.bincount(group, weights=total, minlength=size).astype(np.float64),
                np.bincount(group, weights=n, minlength=size).astype(np.float64),
            )
        )
    return out


def percentage_bias(classes: KeyClasses, level: Level, pairs: Pairs, values: FloatArray) -> float:
    """PERCENTAGE BIAS of a level's class means when the pairs exchange their values (section XI)."""
    from sfumato.kernels import edits

    first = pairs.first
    total = level.sums.sum() / level.sizes.sum() if level.sizes.sum() else 0.0
    if not len(first) or total == 0:
        return 0.0
    # Only the records in pairs are looked up, so the level's classes are spread to those alone.
    both = np.r_[first, pairs.partner[first]]
    half = len(first)
    near = np.arange(2 * half)
    ids = level.ids[classes.ids[both]]
    squares = edits.squared_bias(
        ids, len(level.sums), level.sums, level.sizes, near[:half], near[half:], values[both]
    )
    return float(100.0 * math.sqrt(squares / level.sizes.sum()) / abs(total))


def largest_share(
    share: float,
    theorem: float,
    trial: Callable[[float], Pairs],
    bias: Callable[[Pairs], float],
    limit: float,
    steps: int = 10,
) -> tuple[float, Pairs]:
    """The largest share found whose bias is below the limit: Theorem A.3 says where to start.

    A bisection makes sure, since the theorem is an approximation.
    """
    low, high = 0.0, share
    best = (0.0, trial(0.0))
    at = theorem
    for _ in range(steps):
        now = trial(at)
        if bias(now) < limit:
            low, best = at, (at, now)
        else:
            high = at
        at = (low + high) / 2
    return best


def swap_log(data: Microdata, classes: KeyClasses, pairs: Pairs, kept: BoolArray) -> pl.DataFrame:
    """The confidential list: who was swapped with whom, and which combinations found nobody."""
    rows = np.flatnonzero(pairs.partner >= 0)
    alone = classes.members[classes.starts[:-1]][pairs.left]

    def named(which: IntArray) -> pl.Series:
        if data.schema.id is None:
            return pl.Series(which).cast(pl.String)
        return data.column(data.schema.id).gather(pl.Series(which.astype(np.uint64))).cast(pl.String)

    swapped = pl.DataFrame(
        {
            "record": rows,
            "id": named(rows),
            "partner": named(pairs.partner[rows]),
            "below_tolerance": kept[classes.ids[rows]],
        }
    )
    left = pl.DataFrame({"record": alone, "id": named(alone)})
    return pl.concat(
        [
            swapped.with_columns(what=pl.lit("swapped")),
            left.with_columns(below_tolerance=pl.lit(True), what=pl.lit("unmatched")),
        ],
        how="diagonal_relaxed",
    )


def standardised(x: FloatArray) -> FloatArray:
    """Mean 0 and standard deviation 1 over the values that are there."""
    there = x[np.isfinite(x)]
    sd = float(there.std()) if len(there) else 0.0
    return (x - there.mean()) / sd if sd else np.where(np.isfinite(x), 0.0, np.nan)
