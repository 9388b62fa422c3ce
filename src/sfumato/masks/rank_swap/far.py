"""Values that stand far from all others: who has too few others within both bounds, and what is done.

Whoever has fewer than ``min_candidates`` others within both bounds would stay, or go where anybody can
guess. Such a value is a matter of the values alone (its ties are as far as it is), so that it can be found
again in the file before and the file after.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.data.microdata import BoolArray, IntArray
from sfumato.masks.rank_swap.ranks import AnyArray, Ranked
from sfumato.stats.rank_bounds import BoundedLaw, Bounds, calibrate, window_share

Span = tuple[int, int]
_SOME = 20_000  # ranks from which the distribution of candidates is told
_MANY = 0.2  # the share of far values above which a small column is swapped by ranks alone
_HEAP = 4  # times `min_candidates`: a value that so many share isn't coded for a far neighbour's sake


@dataclass(frozen=True)
class Far:
    """The ranks that aren't swapped with the others: spans of ranks, from one to before the other."""

    core: BoolArray
    """Which ranks are swapped within both bounds."""
    few: int
    """How many values have too few others near them."""
    groups: tuple[Span, ...] = ()
    """Exchanged among themselves."""
    codes: tuple[tuple[Span, Any], ...] = ()
    """Set to a code, which is nobody's value."""

    @property
    def coded(self) -> int:
        return sum(stop - start for (start, stop), _ in self.codes)

    @property
    def grouped(self) -> int:
        return sum(stop - start for start, stop in self.groups)


@dataclass(frozen=True)
class Bounded:
    """A column within two bounds: the values that are swapped, how far they may go, and the others."""

    bounds: Bounds
    variance: float
    far: Far | None = None

    def part(self, ranked: Ranked) -> Ranked:
        """Those ranks of the column that are swapped within both bounds."""
        return ranked if self.far is None else _part(ranked, self.far.core)

    def candidates(self, ranked: Ranked) -> tuple[int, int, int]:
        """How many others the values have within both bounds: the least, that of a twentieth, the median."""
        from sfumato.kernels.rank_bounds import count_candidates

        core = self.part(ranked)
        if not len(core):
            return 0, 0, 0
        counts = np.empty(len(core), dtype=np.int64)
        count_candidates(core.values, core.starts, self.bounds.windows, self.bounds.distance, counts)
        some = counts[:: 1 + len(core) // _SOME]
        low, median = np.quantile(some, [0.05, 0.5], method="inverted_cdf")
        return int(counts.min()), int(low), int(median)


def windows_of(sizes: IntArray, goal: float, least: int) -> IntArray:
    """The window of each stratum: its share of the ranks by the law, no less than ``least`` ranks."""
    ranks = np.floor(sizes * window_share(goal) + 1e-9).astype(np.int64)
    return np.asarray(np.minimum(np.maximum(ranks, least), np.maximum(sizes - 1, 0)))


def find_bounds(
    ranked: Ranked,
    goal: float,
    least: int,
    between: Callable[[Any, Any], Any] | None = None,
) -> Bounded:
    """Both bounds of a column, and what is done with its far values.

    ``between`` gives a code between two values of the column's type, or None where there is none;
    without it, far values can't be coded and are exchanged in groups. Taking far values out makes the
    variance of the others smaller, and with it the distance: round by round, until everybody has
    enough others near. In a column so small that the window is hardly wider than ``least`` ranks, most
    values may have too few; it is swapped within the window alone.
    """
    from sfumato.kernels.rank_bounds import short_of

    small = len(ranked.starts) == 2 and len(ranked) * window_share(goal) < 2 * least
    part, core, far = ranked, np.ones(len(ranked), dtype=np.bool_), None
    few = 0
    while True:
        out = replace(_bounds(part, goal, least), far=far)
        short = np.empty(len(part), dtype=np.bool_)
        found = int(short_of(part.values, part.starts, out.bounds.distance, least, short))
        if not found:
            return out
        few += found
        if small and few > _MANY * len(ranked):
            return _by_ranks(ranked, goal, least)
        core[np.flatnonzero(short) if far is None else np.flatnonzero(core)[short]] = False
        far = _treated(ranked, Far(core, few), least, between)
        core = far.core.copy()
        part = _part(ranked, core, places=False)


def _by_ranks(ranked: Ranked, goal: float, least: int) -> Bounded:
    """The window alone: a small column has no room for both bounds, and protection comes before R0."""
    found = _bounds(ranked, goal, least)
    windows = found.bounds.windows
    lost = BoundedLaw(ranked.values, ranked.starts).squares(windows, math.inf)
    loss = lost / (2.0 * len(ranked) * found.variance)
    return replace(found, bounds=Bounds(windows, math.inf, loss))


def _bounds(core: Ranked, goal: float, least: int) -> Bounded:
    """Both bounds of values that are all swapped."""
    from sfumato.kernels.rank_law import moments

    windows = windows_of(core.sizes, goal, least)
    distance, loss, variance = math.inf, 0.0, 0.0
    if len(core) > 1:
        values = core.values
        centre = float(values[len(values) // 2])
        if len(core.starts) > 2:
            centre = float(moments(values, centre)[0])
        variance = max(0.0, float(moments(values, centre)[1]))
        if not values.max() > values.min():
            variance = 0.0
        if variance > 0:
            found = calibrate(BoundedLaw(values, core.starts), windows, variance, goal)
            distance, loss = found.distance, found.loss
    return Bounded(Bounds(windows, distance, loss), variance)


def _part(ranked: Ranked, core: BoolArray, places: bool = True) -> Ranked:
    before = np.concatenate([[0], np.cumsum(core)])[ranked.starts] if len(ranked.starts) > 2 else None
    starts = np.array([0, int(core.sum())]) if before is None else before
    where = ranked.places[core] if places else ranked.places[:0]
    return Ranked(ranked.values[core], where, starts.astype(np.int64), ranked.distinct)


def _treated(ranked: Ranked, far: Far, least: int, between: Callable[[Any, Any], Any] | None) -> Far:
    """Far values in codes (the ends of the column) and groups (all others) of at least ``least``."""
    core, values = far.core.copy(), ranked.values
    groups: list[Span] = []
    codes: list[tuple[Span, Any]] = []
    for stratum in range(len(ranked.starts) - 1):
        start, stop = int(ranked.starts[stratum]), int(ranked.starts[stratum + 1])
        runs = _runs(core, start, stop)
        for run in (runs[:1], runs[-1:]) if between is not None else ():
            ends = run and (run[0][0] == start) != (run[0][1] == stop)
            code = _coded(values, run[0], (start, stop), least, between) if ends else None  # type: ignore[arg-type]
            if code is not None:
                codes.append(code)
                low, high = code[0]
                start, stop = (high, stop) if low == start else (start, low)
        wide: list[Span] = []
        for low, high in _runs(core, start, stop):
            low, high = _widened(values, (low, high), (start, stop), least)
            if wide and low <= wide[-1][1]:
                low = wide.pop()[0]
            wide.append((low, high))
        groups += [group for low, high in wide for group in _split(low, high, least)]
    for low, high in [*groups, *(span for span, _ in codes)]:
        core[low:high] = False
    return replace(far, core=core, groups=tuple(groups), codes=tuple(codes))


def _runs(core: BoolArray, start: int, stop: int) -> list[Span]:
    """The runs of far ranks in a stratum."""
    edge = np.flatnonzero(np.diff(np.concatenate([[True], core[start:stop], [True]]).astype(np.int8)))
    return [(start + int(a), start + int(b)) for a, b in zip(edge[::2], edge[1::2], strict=True)]


def _widened(values: AnyArray, run: Span, stratum: Span, least: int) -> Span:
    """A run with its nearest neighbours, until it has ``least`` members (or takes the whole stratum)."""
    (low, high), (start, stop) = run, stratum
    while high - low < least and (low > start or high < stop):
        below = float(values[low]) - float(values[low - 1]) if low > start else math.inf
        above = float(values[high]) - float(values[high - 1]) if high < stop else math.inf
        low, high = (low - 1, high) if below <= above else (low, high + 1)
    return low, high


def _split(low: int, high: int, least: int) -> list[Span]:
    """A long run in groups of ``least`` or a few more."""
    parts = max(1, (high - low) // least)
    edges = np.linspace(low, high, parts + 1).astype(int)
    return [(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def _coded(
    values: AnyArray, run: Span, stratum: Span, least: int, between: Callable[[Any, Any], Any]
) -> tuple[Span, Any] | None:
    """The span that a code takes at one end of the column, and the code; None where a heap is in the way.

    At least ``least`` records share a code, whole ties at a time, and there must be room for a code
    between them and the others.
    """
    (low, high), (start, stop) = run, stratum
    top = high == stop
    most = high - low + _HEAP * least
    while True:
        if top:
            while low > start and values[low - 1] == values[low]:
                low -= 1
        else:
            while high < stop and values[high - 1] == values[high]:
                high += 1
        if high - low > most or (low == start and high == stop):
            return None
        if high - low >= least:
            code = between(values[low - 1], values[low]) if top else between(values[high - 1], values[high])
            if code is not None:
                return (low, high), code
        low, high = (low - 1, high) if top else (low, high + 1)


def round_between(low: float, high: float, whole: bool) -> float | None:
    """The roundest number strictly between two others; None where there is none.

    >>> round_between(93_412.0, 128_730.0, True), round_between(4, 5, True), round_between(4, 5, False)
    (100000, None, 4.5)
    """
    gap = float(high) - float(low)
    if not (math.isfinite(gap) and gap > 0):
        return None
    for power in range(math.floor(math.log10(gap)) + 1, -18, -1):
        for step in (5, 1):
            unit = step * 10.0**power
            code = (math.floor(low / unit) + 1) * unit
            if whole:
                code = round(code)
            elif power < 0:
                code = round(code, -power)
            if low < code < high:
                return code
        if whole and power <= 0:
            return None
    return None
