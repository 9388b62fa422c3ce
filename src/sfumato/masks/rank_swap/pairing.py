"""Who takes whose value: pairs drawn in the window (or within both bounds) and mended towards the target."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.data.microdata import FloatArray, IntArray
from sfumato.draws import Draws
from sfumato.masks.rank_swap.far import Bounded
from sfumato.masks.rank_swap.law import Partner
from sfumato.masks.rank_swap.ranks import AnyArray, Ranked
from sfumato.masks.rank_swap.targets import Solution, Target

_DRAWS, _DRAWN_AGAIN = 8, 200_000  # draws of the pairs of so many values, where re-pairing ends off target
_GOOD_CORRELATION, _GOOD_CHANGE = 2e-4, 2e-3  # no further draw if it ends so near (R; K relative to K0)
_BLOCKS = 65_536  # in which a swap looks for pairs whose change matters
_SLACK = 1e-6  # of what is aimed at; re-pairing stops there


@dataclass(frozen=True)
class Way:
    """What of a mask's parameters the pairing looks at."""

    partner: Partner
    leftover: str
    mended: bool
    """Whether a swap is re-paired until it is on target."""


@dataclass(frozen=True)
class Paired:
    """Who takes whose value, how many stay, how many moves mended it, and the correlation of the ranks."""

    source: AnyArray
    left_over: int
    moves: int
    rank_correlation: float | None = None


def pair(way: Way, column: str, ranked: Ranked, target: Target, solution: Solution, draws: Draws) -> Paired:
    """Pair the ranks of a column."""
    if solution.bounded is not None:
        return _pair_in_bounds(way, column, ranked, target, solution.bounded, draws)
    return _pair_in_window(way, column, ranked, target, solution, draws)


# -- a window of ranks ----------------------------------------------------------------------------


def _pair_in_window(
    way: Way, column: str, ranked: Ranked, target: Target, solution: Solution, draws: Draws
) -> Paired:
    """Where a few far values leave re-pairing no way to the target, the pairs are drawn again, and the
    nearest of all draws is taken."""
    from sfumato.kernels.rank_swap import pair_geometric, pair_uniform

    spread = solution.spread
    kernel = pair_uniform if way.partner == "uniform" else pair_geometric
    calibrated = target.goal is not None and way.mended
    calibrated = calibrated and spread.variance > 0 and solution.within_reach
    reach = (solution.windows if way.partner == "uniform" else ranked.sizes).astype(np.int64)
    best: Paired | None = None
    nearest = math.inf
    for draw in range(1 if not calibrated else _DRAWS if len(ranked) <= _DRAWN_AGAIN else 2):
        source = np.empty(len(ranked), dtype=ranked.places.dtype)
        name = "pairs" if draw == 0 else f"pairs {draw}"
        generator = draws.stream(column, purpose=name).generator()
        left_over = int(kernel(ranked.starts, solution.windows, generator, source))
        if left_over:
            left_over = _settled(column, ranked, source, reach, math.inf, draws)
        moves, off = 0, 0.0
        if calibrated:
            moves, off = _adjust(way, ranked, source, target, solution, generator)
        if off < nearest:
            best, nearest = Paired(source, left_over, moves), off
        if off <= (_GOOD_CHANGE if target.kind == "mean_change" else _GOOD_CORRELATION):
            break
    assert best is not None
    stay = _cycled(way, ranked, best.source, reach, math.inf, best.left_over)
    return Paired(best.source, stay, best.moves)


def _settled(
    column: str, ranked: Ranked, source: AnyArray, windows: IntArray, distance: float, draws: Draws
) -> int:
    """Put what is left over at a random place (in place); how many stay."""
    from sfumato.kernels.rank_bounds import settle

    generator = draws.stream(column, purpose="left over").generator()
    return int(settle(ranked.values, ranked.starts, windows, distance, source, generator))


def _cycled(
    way: Way, ranked: Ranked, source: AnyArray, windows: IntArray, distance: float, left_over: int
) -> int:
    """Let what is left over join near pairs in cycles of three, if asked (in place); how many stay."""
    from sfumato.kernels.rank_bounds import close_cycles

    if not left_over or way.leftover == "stay":
        return left_over
    return int(close_cycles(ranked.values, ranked.starts, windows, distance, source))


def _adjust(
    way: Way,
    ranked: Ranked,
    source: AnyArray,
    target: Target,
    solution: Solution,
    generator: np.random.Generator,
) -> tuple[int, float]:
    """Re-pair inside the window until the target is met; at most a tenth of the pairs.

    Returns the number of moves and how far from the target the swap still is: R, or K over K0.
    """
    from sfumato.kernels.rank_swap import change, leverage, re_pair

    assert target.goal is not None
    spread = solution.spread
    by_change = target.kind == "mean_change"
    now = change(ranked.values, source, by_change)
    whole = float(spread.positive) if by_change else 2.0 * spread.n * spread.variance
    wanted = (target.goal if by_change else 1.0 - target.goal) * whole
    windows = solution.windows
    if way.partner == "geometric":  # moves of a usual length; there is no bound to keep to
        windows = np.ceil(3.0 * windows)
    windows = windows.astype(np.int64)
    n = len(ranked)
    size = -(-n // _BLOCKS)
    lever = np.empty(-(-n // size))
    leverage(ranked.values, ranked.starts, windows, by_change, size, lever)
    reached, moves = re_pair(
        ranked.values,
        source,
        ranked.starts,
        windows,
        now,
        wanted,
        _SLACK * whole,
        by_change,
        lever,
        size,
        generator,
        n // 40 + 8,
        max(200_000, n // 10),
    )
    off = abs(float(reached) - wanted) / (wanted if by_change else whole)
    return int(moves), off


# -- two bounds -----------------------------------------------------------------------------------


def _pair_in_bounds(
    way: Way, column: str, ranked: Ranked, target: Target, bounded: Bounded, draws: Draws
) -> Paired:
    """Pairs of the values that have enough others near; far values are exchanged in their groups."""
    from sfumato.kernels.rank_bounds import pair_bounded
    from sfumato.kernels.rank_law import moments

    core, bounds = bounded.part(ranked), bounded.bounds
    near = core.values, core.starts, bounds.windows, bounds.distance
    source = np.empty(len(core), dtype=core.places.dtype)
    generator = draws.stream(column, purpose="pairs").generator()
    left_over = int(pair_bounded(*near, generator, source))
    if left_over:
        left_over = _settled(column, core, source, bounds.windows, bounds.distance, draws)
    middle = _middle_ranks(core)
    variance = float(moments(middle, float(len(core)) / 2)[1]) if len(core) else 0.0
    ranks = 0.0
    moves = 0
    if len(core):
        ranks = _squares(middle, source)
        if way.mended and target.goal is not None and core.values[0] != core.values[-1]:
            ranks, moves = _adjust_in_bounds(
                core, bounded, source, middle, ranks, 2.0 * len(core) * variance, target.goal, generator
            )
        left_over = _cycled(way, core, source, bounds.windows, bounds.distance, left_over)
    correlation = 1.0 - ranks / (2.0 * len(core) * variance) if variance > 0 else None
    return Paired(_with_far(ranked, bounded, source, column, draws), left_over, moves, correlation)


def _middle_ranks(core: Ranked) -> FloatArray:
    """Ranks over all strata, ties sharing theirs."""
    from sfumato.kernels.rank_re_pair import middle_ranks

    if core.distinct and len(core.starts) == 2:
        return np.arange(len(core), dtype=np.float64)
    if len(core.starts) == 2:
        out = np.empty(len(core))
        middle_ranks(core.values, core.starts, out)
        return out
    # Of several strata: the ranks of the whole column, which an analyst would look at.
    order = np.argsort(core.values, kind="stable")
    whole, out = np.empty(len(core)), np.empty(len(core))
    middle_ranks(core.values[order], np.array([0, len(core)]), whole)
    out[order] = whole
    return out


def _squares(x: AnyArray, source: AnyArray) -> float:
    from sfumato.kernels.rank_swap import change

    return float(change(x, source, False))


def _adjust_in_bounds(
    core: Ranked,
    bounded: Bounded,
    source: AnyArray,
    middle: FloatArray,
    ranks: float,
    whole_ranks: float,
    goal: float,
    generator: np.random.Generator,
) -> tuple[float, int]:
    """Re-pair within both bounds: first until the correlation of ranks is kept, then that of values."""
    from sfumato.kernels.rank_re_pair import calm_ranks, leverage_bounded, re_pair_bounded

    n, bounds = len(core), bounded.bounds
    starts, windows, distance = core.starts, bounds.windows, bounds.distance
    allowed = (1.0 - goal) * whole_ranks
    ranks, moves = calm_ranks(
        core.values, middle, starts, windows, distance, source, ranks, allowed, generator
    )
    if math.isinf(bounds.distance):  # the window alone keeps the correlation of values, and more
        return float(ranks), int(moves)
    now, whole = _squares(core.values, source), 2.0 * n * bounded.variance
    wanted = (1.0 - goal) * whole
    size = -(-n // _BLOCKS)
    lever = np.empty(-(-n // size))
    leverage_bounded(core.values, starts, windows, distance, size, lever)
    tries = max(200_000, n // 10) if now > wanted else 20_000
    _, ranks, more = re_pair_bounded(
        core.values,
        middle,
        source,
        starts,
        windows,
        distance,
        now,
        wanted,
        _SLACK * whole,
        ranks,
        max(float(ranks), allowed),
        lever,
        size,
        generator,
        n // 8 + 8,
        tries,
    )
    return float(ranks), int(moves + more)


def _with_far(ranked: Ranked, bounded: Bounded, source: AnyArray, column: str, draws: Draws) -> AnyArray:
    """The sources of all ranks: those of the core, and a random cycle through each group of far values."""
    if bounded.far is None:
        return source
    out = np.arange(len(ranked), dtype=ranked.places.dtype)
    at = np.flatnonzero(bounded.far.core)
    out[at] = at[source]
    generator = draws.stream(column, purpose="far values").generator()
    for start, stop in bounded.far.groups:
        members = start + generator.permutation(stop - start)
        out[members] = np.roll(members, 1)
    return out
