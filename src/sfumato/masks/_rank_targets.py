"""How far a rank swap may go: from a target (P, R0 or K0) to a window of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sfumato.masks._rank_ranks import Ranked
from sfumato.microdata import FloatArray, IntArray


@dataclass(frozen=True)
class Target:
    """What was asked of one column: a window P in percent, R0 or K0."""

    kind: Literal["window_percent", "correlation", "mean_change"]
    value: float

    @property
    def goal(self) -> float | None:
        """What the column itself must reach: R(a,a′) = √R0 (Corollary 2), or K0."""
        if self.kind == "window_percent":
            return None
        return float(np.sqrt(self.value)) if self.kind == "correlation" else self.value


@dataclass(frozen=True)
class Spread:
    """The moments of the values that may move."""

    n: int
    mean: float
    variance: float
    low: float
    high: float
    positive: int

    @classmethod
    def of(cls, ranked: Ranked) -> Spread:
        n = len(ranked)
        if not n:
            return cls(0, 0.0, 0.0, 0.0, 0.0, 0)
        mean, variance = float(ranked.values.mean()), float(ranked.values.var())
        ends = (
            ranked.values[ranked.starts[:-1][ranked.sizes > 0]],
            ranked.values[ranked.starts[1:][ranked.sizes > 0] - 1],
        )
        return cls(n, mean, variance, float(ends[0].min()), float(ends[1].max()), 0)


@dataclass(frozen=True)
class Solution:
    """A window and what it should do."""

    percent: float
    windows: IntArray | FloatArray
    spread: Spread
    predicted_correlation: float = float("nan")
    predicted_mean_change: float = float("nan")
    warning: str | None = None


def theorem_percent(target: Target, spread: Spread, top: float | None, bottom: float | None) -> float:
    """Moore's Theorems 3 and 4, as printed.

    P/100 = √(2 Var(a)(1−R0)) / (a_top − a_bot), and P/100 = √(8/3) K0 mean(a) / (a_top − a_bot).
    Where a column has no code, its extreme value among those that may move stands in for it.
    """
    width = (spread.high if top is None else top) - (spread.low if bottom is None else bottom)
    if width <= 0:
        return 0.0
    if target.kind == "correlation":
        share = np.sqrt(2.0 * spread.variance * (1.0 - target.value)) / width
    else:
        share = np.sqrt(8.0 / 3.0) * target.value * spread.mean / width
    return float(min(100.0, 100.0 * share))
