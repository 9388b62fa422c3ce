"""What a window of ranks is expected to do to a column: from all its values, or from bins of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sfumato.data.microdata import FloatArray, IntArray
from sfumato.masks.rank_swap.ranks import Ranked, window_ranks
from sfumato.stats.rank_law import SCALE_PER_WINDOW

Partner = Literal["uniform", "geometric"]

_COARSE_BINS = 8_192  # that a search looks at first, where there are more values than
_COARSE_ABOVE = 65_536
_FINER = 8  # times as many bins may be looked at then
_WIDE = 32  # bins that a window must span to be judged by them
# The geometric law, whose prediction costs bins × reach steps, is searched coarsely above so many values.
_DENSE_ABOVE = 1_024
_COARSE_STEPS, _FINE_STEPS = 500_000, 8_000_000
_EXPECT_STEPS = 600_000  # of one that only looks at expected values, which vary slowly with the rank


@dataclass(frozen=True)
class Spread:
    """What the targets need to know of the values that may move."""

    n: int
    mean: float
    variance: float
    low: float
    high: float
    positive: int

    @classmethod
    def of(cls, ranked: Ranked) -> Spread:
        from sfumato.kernels.rank_law import moments

        if not len(ranked):
            return cls(0, 0.0, 0.0, 0.0, 0.0, 0)
        used = np.flatnonzero(ranked.sizes)
        low = ranked.values[ranked.starts[used]].min()
        high = ranked.values[ranked.starts[used + 1] - 1].max()
        values, starts = ranked.values, ranked.starts
        positive = sum(
            int(starts[s + 1] - starts[s] - np.searchsorted(values[starts[s] : starts[s + 1]], 0, "right"))
            for s in used
        )
        # The middle value is the median of one stratum; of several, a first pass finds the mean.
        centre = float(values[len(values) // 2])
        if len(used) > 1:
            centre = float(moments(values, centre)[0])
        mean, variance = moments(values, centre)
        variance = max(variance, 0.0)
        if low == high:  # a mean that isn't quite the constant would leave a trace of variance
            mean, variance = float(low), 0.0
        return cls(len(ranked), float(mean), float(variance), float(low), float(high), int(positive))

    def correlation(self, squares: float) -> float:
        """R(a,a′) = 1 − Σ(a′−a)² / (2 n Var(a)): exact, since a′ is a permutation of a."""
        return 1.0 - squares / (2.0 * self.n * self.variance) if self.variance > 0 else math.nan

    def mean_change(self, relative: float) -> float:
        """K = mean of |a′−a|/a over positive a."""
        return relative / self.positive if self.positive else math.nan


@dataclass(frozen=True)
class Bins:
    """Neighbouring ranks taken together: where each stratum's bins start, how many ranks a bin has,
    four averages (value less the centre, its square, 1/a and share of positive values)."""

    starts: IntArray
    sizes: IntArray
    averages: list[FloatArray]
    centre: float


@dataclass(frozen=True)
class Law:
    """The predicted effect of windows on one ranked column."""

    ranked: Ranked
    spread: Spread
    partner: Partner
    _kept: dict[tuple[int, bool], Bins] = field(default_factory=dict, repr=False)
    _dense_bins: dict[int, Bins] = field(default_factory=dict, repr=False)
    _seen: dict[tuple[int, bool, int], float] = field(default_factory=dict, repr=False)

    @property
    def is_large(self) -> bool:
        """Whether a coarse look comes first. (Uniform windows within strata need none of it: their
        prediction is one pass, and small strata would make poor bins.)"""
        if self.partner == "geometric":
            return len(self.ranked) > _DENSE_ABOVE
        return len(self.ranked) > _COARSE_ABOVE and len(self.ranked.starts) == 2

    def windows(self, percent: float) -> IntArray | FloatArray:
        """Ranks (uniform) or scales (geometric) of each stratum for a window of ``percent``."""
        ranks = window_ranks(percent, self.ranked.sizes)
        if self.partner == "uniform":
            return ranks
        exact = np.maximum(1.0, self.ranked.sizes * (percent / 100)) if percent > 0 else 0.0 * ranks
        return np.asarray(exact * SCALE_PER_WINDOW, dtype=np.float64)

    def effect(self, percent: float, *, relative: bool, group: int = 0) -> float:
        """The expected R(a,a′), or K if ``relative``, of a window of ``percent``.

        From all values; or, with a ``group``, from bins (see ``groups``).
        """
        total = self._total(self.windows(percent), relative, group)
        return self.spread.mean_change(total) if relative else self.spread.correlation(total)

    def _total(self, windows: IntArray | FloatArray, relative: bool, group: int) -> float:
        from sfumato.kernels.rank_law import changes_uniform, squares_uniform

        if self.partner == "geometric":
            return self._dense(windows, _COARSE_STEPS if group else _FINE_STEPS)[1][int(relative)]
        if group and windows[0] > 0:
            return self._binned_total(float(windows[0]), relative, group)
        values, starts = self.ranked.values, self.ranked.starts
        if relative:
            return float(changes_uniform(values, starts, windows))
        return float(squares_uniform(values, starts, windows, float(values[len(values) // 2])))

    # -- uniform windows on bins of neighbouring ranks --------------------------------------------

    @property
    def _most_bins(self) -> int:
        finest = _COARSE_BINS * _FINER
        return finest if len(self.ranked) >= 4 * finest else _COARSE_BINS

    @property
    def groups(self) -> tuple[int, ...]:
        """How many of the finest bins may be taken together, the most first."""
        if self.partner == "geometric" or self._most_bins == _COARSE_BINS:
            return (1,)
        return (_FINER, 1)

    def group_for(self, window: float) -> int:
        """The group of bins whose prediction can be trusted for a window; 0 for none but single values."""
        size = -(-len(self.ranked) // self._most_bins)
        return next((g for g in self.groups if window >= _WIDE * g * size), 0)

    def _binned_total(self, window: float, relative: bool, group: int) -> float:
        """Σ(a′−a)², or Σ|a′−a|/a, of one stratum, from bins and from bins of twice their size.

        A window of W ranks is one of W/b − 1 bins of b ranks, nearly. What is wrong with that grows in
        proportion to b, so that the line through both figures ends at the right one.
        """
        fine, rough = (self._on_bins(window, relative, g) for g in (group, 2 * group))
        return max(0.0, 2.0 * fine - rough)

    def _on_bins(self, window: float, relative: bool, group: int) -> float:
        from sfumato.kernels.rank_law import changes_binned, squares_binned

        bins = self._grouped(group, relative)
        m1, m2, mi, mp = bins.averages
        size = float(bins.sizes[0])

        def at(width: int) -> float:
            key = (group, relative, width)
            if key not in self._seen:
                if relative:
                    one = changes_binned(m1, mi, mp, bins.centre, width)
                else:
                    one = squares_binned(m1, m2, width)
                self._seen[key] = float(one) * size
            return self._seen[key]

        span = max(window / size - 1.0, 1.0)
        low = int(span)
        below, above = at(low), at(low + 1)
        if below <= 0 or above <= 0:
            return below + (above - below) * (span - low)
        share = math.log(span / low) / math.log((low + 1) / low)  # a power law between two windows
        return float(below * (above / below) ** share)

    def _grouped(self, group: int, relative: bool) -> Bins:
        """The finest bins of the only stratum, taken together in groups (again from both ends)."""
        from sfumato.kernels.rank_law import bin_ranks

        key = (group, relative)
        if key not in self._kept:
            fine = self._kept.get((1, relative)) or self._bins(self._most_bins, reciprocals=relative)
            self._kept[1, relative] = fine
            if group > 1:
                n, none = int(fine.starts[-1]), np.empty(0)
                starts, count = np.array([0, n]), -(-n // group)
                averages = []
                for part in fine.averages:
                    mean, square = np.empty(min(count, len(part))), np.empty(min(count, len(part)))
                    if len(part):
                        bin_ranks(
                            part,
                            starts,
                            np.array([0, count]),
                            np.array([group]),
                            0.0,
                            mean,
                            square,
                            none,
                            none,
                        )
                    averages.append(mean)
                self._kept[key] = Bins(np.array([0, count]), fine.sizes * group, averages, fine.centre)
        return self._kept[key]

    def _bins(self, most: int, *, reciprocals: bool = True) -> Bins:
        """About ``most`` bins of ranks a stratum."""
        from sfumato.kernels.rank_law import bin_ranks

        sizes = np.maximum(1, -(-self.ranked.sizes // most))
        starts = np.concatenate([[0], np.cumsum(-(-self.ranked.sizes // sizes))]).astype(np.int64)
        averages = [np.empty(starts[-1] if k < 2 or reciprocals else 0) for k in range(4)]
        centre = float(self.ranked.values[len(self.ranked) // 2])
        bin_ranks(self.ranked.values, self.ranked.starts, starts, sizes, centre, *averages)
        return Bins(starts, sizes, averages, centre)

    # -- any law, more slowly ---------------------------------------------------------------------

    def _dense(
        self, windows: IntArray | FloatArray, steps: int
    ) -> tuple[Bins, tuple[float, float], FloatArray, FloatArray]:
        """Σ(a′−a)² and Σ|a′−a|/a expected, and the value and square that each bin expects."""
        from sfumato.kernels.rank_law import predict_dense

        geometric = self.partner == "geometric"
        widest = float(windows.max(initial=1)) * (20 if geometric else 1)
        n = int(self.ranked.sizes.max(initial=1))
        most = max(256, int(math.sqrt(steps * n / max(widest, 1.0))))
        if most not in self._dense_bins:
            self._dense_bins.clear()  # one set at a time: a search asks for the same one again and again
            self._dense_bins[most] = self._bins(most)
        bins = self._dense_bins[most]
        if geometric:  # ⌈Exp(L)⌉ has the mean L + ½ nearly: kept when ranks become bins
            scales = np.where(windows > 0, np.maximum((windows + 0.5) / bins.sizes - 0.5, 0.05), 0.0)
        else:
            scales = np.where(windows > 0, np.maximum(1.0, np.rint((windows + 1) / bins.sizes - 1)), 0.0)
        e1, e2 = np.empty(bins.starts[-1]), np.empty(bins.starts[-1])
        centre, weights = bins.centre, bins.sizes.astype(np.float64)
        m1, m2, mi, mp = bins.averages
        totals = predict_dense(m1, m2, mi, mp, centre, bins.starts, scales, geometric, weights, e1, e2)
        # The squares are about the centre c: E a′² = E(a′−c)² + 2c·E(a′−c) + c².
        return bins, totals, e1 + centre, e2 + 2 * centre * e1 + centre**2

    def expected(self, windows: IntArray | FloatArray, ranks: IntArray) -> tuple[FloatArray, FloatArray]:
        """The expected swapped value and its expected square at some ranks."""
        bins, _, e1, e2 = self._dense(windows, _EXPECT_STEPS)
        s = np.searchsorted(self.ranked.starts, ranks, side="right") - 1
        into, n = ranks - self.ranked.starts[s], self.ranked.sizes[s]
        size, count = bins.sizes[s], np.diff(bins.starts)[s]
        from_top = count - 1 - (n - 1 - into) // size
        at = bins.starts[s] + np.where(into < (count // 2) * size, into // size, from_top)
        return e1[at], e2[at]
