"""A rank swap within two bounds: from R0 to a window of ranks and a distance of value.

A window of ranks alone spends the whole loss Σ(a′−a)² = 2 N Var(a) (1−R) on a few far values and leaves
the others nothing. So a partner must be within W ranks *and* within a distance c of value. W follows from
the law of the swap (E u² = 0.39196): the correlation of ranks is 1 − 6·0.39196·(W/N)², so that

    W/N = √((1 − √R0) / (6 · 0.39196)),

10.4 percent of the ranks for R0 = 0.95, whatever the column. c is the distance at which the correlation of
values is √R0 too, and infinite where the window alone keeps it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import FloatArray, IntArray
from sfumato.stats.rank_law import MEAN_SQUARE_SHIFT

_SINGLE = 16_384  # so many values are looked at one by one; of more, neighbours are taken together
_BULK = 12_288  # bins of the bulk of a long column
_TAPER = 64  # at r ranks from an end of its stratum, a bin holds at most 1 + r/_TAPER ranks
_CLOSE = 1e-3  # of the loss that is wanted; re-pairing mends more than that
_ONE_PAIR = 1 / 8  # of the whole loss that one exchange may cost
_EXPECT_STEPS = 600_000


def window_share(goal: float) -> float:
    """W/N for a correlation of ranks of ``goal`` = √R0.

    >>> round(window_share(0.95 ** 0.5), 4), round(window_share(0.9 ** 0.5), 4)
    (0.1038, 0.1477)
    """
    return min(1.0, math.sqrt((1.0 - goal) / (6.0 * MEAN_SQUARE_SHIFT)))


@dataclass(frozen=True)
class Bounds:
    """How far a value may go: ranks of each stratum, and a distance of value."""

    windows: IntArray
    distance: float
    loss: float
    """1 − R(a,a′) as the law of the swap expects it."""


class BoundedLaw:
    """What a swap within two bounds does to sorted values (stratum after stratum)."""

    def __init__(
        self, values: npt.NDArray[Any], starts: IntArray, most: int = _BULK, single: int = _SINGLE
    ) -> None:
        self.values, self.starts = values, starts
        self.n = len(values)
        self._most, self._single = most, single

    @cached_property
    def _bins(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, IntArray, IntArray]:
        """Mean value (less the centre), mean square, size and middle rank of each bin; where each
        stratum's bins start; where each bin starts."""
        edges, bin_starts = [], [0]
        bulk = 1 if self.n <= max(self._single, self._most) else -(-self.n // self._most)
        for start, stop in zip(self.starts[:-1], self.starts[1:], strict=True):
            inner = _edges(int(stop - start), bulk)
            edges.append(inner[:-1] + start)
            bin_starts.append(bin_starts[-1] + len(inner) - 1)
        begin = np.concatenate([*edges, [self.n]]).astype(np.int64)
        sizes = np.diff(begin)
        x = self.values.astype(np.float64) - self.centre
        if bulk == 1:
            m1, m2 = x, x * x
        else:
            m1 = np.add.reduceat(x, begin[:-1]) / sizes
            m2 = np.add.reduceat(x * x, begin[:-1]) / sizes
        places = begin[:-1] + 0.5 * (sizes - 1)
        return m1, m2, sizes.astype(np.float64), places, np.array(bin_starts, dtype=np.int64), begin

    @cached_property
    def centre(self) -> float:
        return float(self.values[self.n // 2]) if self.n else 0.0

    def squares(self, windows: IntArray, distance: float) -> float:
        """E Σ(a′−a)²."""
        return self._pass(windows, distance)[0]

    def chances(
        self, windows: IntArray, distance: float
    ) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
        """log h, log A, the lowest rank that reaches each and the highest that each reaches: rank j takes
        k > j with the chance h_j · A(j)/A(first(k)), if top(j) ≥ k. (Of single ranks only.)"""
        _, top, log_h, log_a, first = self._pass(windows, distance)
        return log_h, log_a, first, top

    def _pass(
        self, windows: IntArray, distance: float
    ) -> tuple[float, IntArray, FloatArray, FloatArray, IntArray]:
        from sfumato.kernels.rank_bounds_law import bounded_squares, tops

        m1, m2, sizes, places, starts, _ = self._bins
        top, first = np.empty(len(m1), np.int64), np.empty(len(m1), np.int64)
        log_h, log_a = np.empty(len(m1)), np.empty(len(m1))
        # Distances are those of the values themselves: less a centre they would be rounded otherwise.
        x = self.values.astype(np.float64) if len(m1) == self.n else m1
        tops(x, places, sizes, starts, windows, distance, top)
        total = bounded_squares(m1, m2, sizes, starts, top, log_h, log_a, first)
        return float(total), top, log_h, log_a, first

    def widest(self, windows: IntArray) -> float:
        """The greatest distance of value that the windows alone allow (nearly, where there are bins)."""
        m1, top = self._bins[0], self._pass(windows, math.inf)[1]
        return float((m1[top] - m1).max(initial=0.0))

    def expected(self, windows: IntArray, distance: float, ranks: IntArray) -> tuple[FloatArray, FloatArray]:
        """The expected swapped value and its expected square at some ranks."""
        from sfumato.kernels.rank_bounds_law import bounded_expected

        share = max(float(windows.max(initial=1)) / max(int(np.diff(self.starts).max(initial=1)), 1), 1e-9)
        fewer = max(512, int(math.sqrt(_EXPECT_STEPS / share)))
        law = self if self.n <= fewer else BoundedLaw(self.values, self.starts, fewer, single=fewer)
        _, top, log_h, log_a, first = law._pass(windows, distance)
        m1, m2, sizes, _, starts, begin = law._bins
        e1, e2 = np.empty(len(m1)), np.empty(len(m1))
        bounded_expected(m1, m2, sizes, starts, top, log_h, log_a, first, e1, e2)
        at = np.searchsorted(begin, ranks, side="right") - 1
        c = self.centre
        return e1[at] + c, e2[at] + 2 * c * e1[at] + c * c


def _edges(n: int, bulk: int) -> IntArray:
    """Where bins of n ranks start (and the last one ends): single ranks at both ends, ``bulk`` in between."""
    if bulk == 1:
        return np.arange(n + 1, dtype=np.int64)
    half = n // 2
    steps, r = [0], 0
    while r < half and r < _TAPER * (bulk - 1):
        r += 1 + r // _TAPER
        steps.append(min(r, half))
    low = np.concatenate([steps, np.arange(r + bulk, half, bulk), [half]])
    return np.unique(np.concatenate([low, n - low]))


def calibrate(law: BoundedLaw, windows: IntArray, variance: float, goal: float) -> Bounds:
    """The distance at which the correlation of values is the goal; infinite where ranks alone keep it.

    No single exchange may cost more than an eighth of the whole loss, c²/(N Var) ≤ (1−R)/8: else chance
    would decide whether one far value meets the target or misses it by as much again.
    """
    whole = 2.0 * law.n * variance
    wanted = 1.0 - goal
    most = math.sqrt(_ONE_PAIR * law.n * variance * wanted)

    def loss(distance: float) -> float:
        return law.squares(windows, distance) / whole

    free = loss(math.inf)
    if free <= wanted and law.widest(windows) <= most:
        return Bounds(windows, math.inf, free)
    # A reach c on both sides loses at most 0.39196 c² a value, so c is no smaller than this (nearly).
    least = math.sqrt(2.0 * variance * wanted / MEAN_SQUARE_SHIFT)
    high = min(most, float(law.values.max()) - float(law.values.min()))
    at_high = loss(high)
    if at_high <= wanted:
        return Bounds(windows, high, at_high)
    low, at_low = min(0.5 * least, high), 0.0
    c = min(1.05 * least, high)
    for step in range(60):
        now = loss(c)
        if abs(now - wanted) <= _CLOSE * wanted:
            return Bounds(windows, c, now)
        if now < wanted:
            low, at_low = c, now
        else:
            high, at_high = c, now
        if high / low < 1 + 1e-7:
            break
        if at_low > 0 and step % 3 != 2:  # a power law between the ends; now and then a bisection
            share = (math.log(wanted) - math.log(at_low)) / (math.log(at_high) - math.log(at_low))
            c = low * (high / low) ** min(max(share, 0.02), 0.98)
        else:
            c = min(1.3 * c, math.sqrt(low * high)) if now < wanted else math.sqrt(low * high)
            c = max(c, low * (1 + 1e-7))
    # Values in steps: the wider distance holds the wanted loss within it, and re-pairing narrows a swap.
    return Bounds(windows, high, at_high)
