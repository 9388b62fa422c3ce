"""How far a rank swap may go: from a target (P, R0 or K0) to a window of ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from sfumato.data.microdata import FloatArray, IntArray
from sfumato.masks.rank_swap.far import Bounded
from sfumato.masks.rank_swap.law import Law, Partner, Spread
from sfumato.masks.rank_swap.ranks import Ranked
from sfumato.stats.rank_law import MEAN_SHIFT, MEAN_SQUARE_SHIFT

Kind = Literal["window_percent", "correlation", "mean_change"]
KINDS: tuple[Kind, ...] = ("window_percent", "correlation", "mean_change")

_NARROW = 20  # windows of fewer ranks are rounded up: re-pairing can narrow a swap, never widen it


@dataclass(frozen=True)
class Target:
    """What was asked of one column: a window P in percent, R0 or K0."""

    kind: Kind
    value: float

    @property
    def goal(self) -> float | None:
        """What the column itself must reach: R(a,a′) = √R0 (Corollary 2), or K0."""
        if self.kind == "window_percent":
            return None
        return math.sqrt(self.value) if self.kind == "correlation" else self.value


@dataclass(frozen=True)
class Solution:
    """A window (or scale) for each stratum, and what it should do to the column."""

    percent: float
    windows: IntArray | FloatArray
    spread: Spread
    predicted: float
    """The R(a,a′) that the window should give, or K where K0 was asked for."""
    within_reach: bool = True
    reach: tuple[float, float] | None = None
    """What the narrowest and the widest window would give, where the goal is beyond one of them."""
    bounded: Bounded | None = None
    """Both bounds, where a distance of value bounds the swap too."""


def theorem_percent(target: Target, spread: Spread, top: float | None, bottom: float | None) -> float:
    """Moore's Theorems 3 and 4, as printed.

    P/100 = √(2 Var(a)(1−R0)) / (a_top − a_bot), and P/100 = √(8/3) K0 mean(a) / (a_top − a_bot).
    Where a column has no code, its extreme value among those that may move stands in for it.
    """
    width = (spread.high if top is None else top) - (spread.low if bottom is None else bottom)
    if width <= 0:
        return 0.0
    if target.kind == "correlation":
        share = math.sqrt(2.0 * spread.variance * (1.0 - target.value)) / width
    else:
        share = math.sqrt(8.0 / 3.0) * target.value * spread.mean / width
    return min(100.0, 100.0 * share)


def solve(
    ranked: Ranked,
    spread: Spread,
    target: Target,
    interval: str,
    partner: Partner,
    top: float | None = None,
    bottom: float | None = None,
    adjust: bool = True,
) -> Solution:
    """The window that a target asks for; with ``adjust``, one that re-pairing can work in."""
    law = Law(ranked, spread, partner)
    if target.kind != "window_percent" and interval != "theorem":
        return _calibrate(law, target, adjust)
    percent = target.value
    if target.kind != "window_percent":
        percent = theorem_percent(target, spread, top, bottom)
    return _solution(law, percent, relative=target.kind == "mean_change")


def _solution(law: Law, percent: float, *, relative: bool) -> Solution:
    effect = math.nan
    if law.spread.variance > 0:
        group = law.group_for(law.windows(percent).max()) if law.is_large else 0
        effect = law.effect(percent, relative=relative, group=group)
    return Solution(percent, law.windows(percent), law.spread, effect)


def _calibrate(law: Law, target: Target, adjust: bool) -> Solution:
    """The window whose expected effect is the goal: from bins first, then from all values.

    Where re-pairing follows, what bins say is enough for a uniform window that spans many of them.
    """
    goal = target.goal
    assert goal is not None
    relative = target.kind == "mean_change"
    widest = int(law.ranked.sizes.max(initial=0))
    if widest < 2 or law.spread.variance == 0 or (relative and not law.spread.positive):
        return Solution(0.0, law.windows(0.0), law.spread, math.nan, within_reach=False)
    wanted = goal if relative else 1.0 - goal
    uniform, highest = law.partner == "uniform", widest - 1
    by_bins = uniform and adjust and law.is_large
    # How the loss grows with the window, to begin with, and how near to the wanted loss is enough:
    # re-pairing mends more than that.
    power, close = (
        (1.0 if relative else 2.0),
        (1e-2 if by_bins else 2e-3 if adjust and law.is_large else 5e-4),
    )

    def loss(ranks: float, group: int = 0) -> float:
        effect = law.effect(100.0 * ranks / widest, relative=relative, group=group)
        return effect if relative else 1.0 - effect

    guess = max(1.0, widest * min(1.0, _first_guess(law, target)))
    ranks = final = 0.0
    reached = done = False
    for group in law.groups if law.is_large else ():
        near = 1e-3 if by_bins else 5e-4
        binned = partial(loss, group=group)
        ranks, final, reached = search(binned, wanted, highest, guess, power, near, uniform)
        done = by_bins and reached and ranks >= _NARROW and law.group_for(ranks) >= group
        if done:
            break
        guess, wider = ranks, min(float(highest), 1.1 * ranks + 1.0)
        there = loss(wider, group)
        if wider > ranks and 0 < final < there:  # the slope that the next search starts with
            power = min(max(math.log(there / final) / math.log(wider / ranks), 0.2), 4.0)
    if not done:
        ranks, final, reached = search(
            loss, wanted, highest, guess, power, close, uniform, uniform and adjust
        )
    percent = 100.0 * ranks / widest
    reach = None
    if not reached:
        ends = sorted((loss(1), loss(highest, law.groups[0] if law.is_large else 0)))
        reach = (ends[0], ends[1]) if relative else (1.0 - ends[1], 1.0 - ends[0])
    effect = final if relative else 1.0 - final
    return Solution(percent, law.windows(percent), law.spread, effect, within_reach=reached, reach=reach)


def _first_guess(law: Law, target: Target) -> float:
    """The share of ranks that evenly spread values would need."""
    width = max(law.spread.high - law.spread.low, 1e-300)
    if target.kind == "correlation":
        loss = 1.0 - math.sqrt(target.value)
        return math.sqrt(2.0 * law.spread.variance * loss / MEAN_SQUARE_SHIFT) / width
    return abs(law.spread.mean) * target.value / (MEAN_SHIFT * width)


def search(
    loss: Callable[[float], float],
    wanted: float,
    highest: float,
    guess: float,
    power: float,
    close: float,
    whole: bool,
    up: bool = False,
) -> tuple[float, float, bool]:
    """The w in 1 … highest whose increasing loss comes nearest to what is wanted, its loss, and whether
    the wanted loss lies between those of the ends. ``close`` is relative; ``up`` rounds narrow windows up.

    Secant steps in log w against log loss (a power law, nearly), kept inside a bracket.
    """
    fit = round if whole else float
    low = high = 0.0
    seen: dict[float, float] = {}

    def at(w: float) -> float:
        if w not in seen:
            seen[w] = loss(w)
        return seen[w]

    w = float(fit(min(max(guess, 1.0), highest)))
    for step in range(60):
        value = at(w)
        if abs(value - wanted) <= close * wanted:
            return w, value, True
        if value < wanted:
            low = w
            if w >= highest:
                return w, value, False
        else:
            high = w
            if w <= 1:
                return w, value, False
        if low and high:
            if (whole and high - low <= 1) or high / low < 1 + 1e-9:
                break
            a, b = max(at(low), 1e-300), max(at(high), 1e-300)
            share = (
                (math.log(max(wanted, 1e-300)) - math.log(a)) / (math.log(b) - math.log(a)) if b > a else 0.5
            )
            if step % 3 == 2:  # a bisection now and then, so that a bent curve can't stall the secant
                share = 0.5
            w = low * (high / low) ** min(max(share, 0.02), 0.98)
        else:
            # A power law from here; after two such steps a little beyond it, to bracket the root.
            factor = (wanted / value) ** (1.0 / power) if value > 0 else 10.0
            beyond = 1.0 if step < 2 else 1.01 if low else 0.99
            w *= min(max(factor * beyond, 0.02), 50.0)
        w = float(fit(w))
        if low:
            w = max(w, low + 1 if whole else low)
        if high:
            w = min(w, high - 1 if whole else high)
        w = min(max(w, 1.0), float(highest))
    if up and low and high and low < _NARROW:
        # Steps of one rank are coarse here. The wider window holds the wanted loss within it.
        return high, seen[high], True
    best = min(seen, key=lambda x: abs(seen[x] - wanted))
    return best, seen[best], True
