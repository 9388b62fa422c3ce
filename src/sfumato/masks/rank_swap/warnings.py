"""What a careful person would want to know of a swapped column."""

from __future__ import annotations

from typing import Any

from sfumato.errors import counted
from sfumato.masks.rank_swap.law import Spread
from sfumato.masks.rank_swap.targets import Solution, Target

NEAR_CORRELATION, NEAR_CHANGE = 0.001, 0.01
"""How far from its goal a column may end before it is said: R, and K relative to K0."""


def column_warnings(
    column: str,
    spread: Spread,
    target: Target,
    solution: Solution,
    figures: dict[str, Any],
    interval: str,
    least: int,
) -> list[str]:
    """Cautions for the notes: targets out of reach or missed, narrow windows, values that K0 leaves out."""
    if not spread.n:
        return [f"{column} has no value that may move"]
    if spread.n == 1:
        return [f"{column} has only one value that may move, which stays"]
    if spread.variance == 0:
        return [f"{column} is constant among the values that may move: a swap changes nothing"]
    return [
        *_judged(column, spread, target, solution, figures, interval),
        *_narrow(column, target, figures, least),
    ]


def _judged(
    column: str, spread: Spread, target: Target, solution: Solution, figures: dict[str, Any], interval: str
) -> list[str]:
    """What is to be said of the target."""
    out = []
    if target.kind == "mean_change" and spread.positive < spread.n:
        out.append(
            f"K0 of {column} is the mean of |a′−a|/a over its {spread.positive:,} positive values; "
            f"{spread.n - spread.positive:,} others are swapped but not counted"
        )
    if target.goal is None:
        return out
    if solution.bounded is not None:
        return [*out, *_far(column, solution, figures), *_missed(column, target.goal, figures)]
    word = "K" if target.kind == "mean_change" else "R(a,a′)"
    achieved = figures["achieved"]
    if not solution.within_reach and solution.reach is not None:
        low, high = solution.reach
        too_far = target.goal < low if target.kind == "mean_change" else target.goal > high
        which = "every window changes it more" if too_far else "even a full shuffle changes it less"
        out.append(
            f"{column} can't be brought to {word} = {target.goal:.4g}: {which}; windows reach {low:.4g} to "
            f"{high:.4g}, and this swap has {achieved:.4g}. A few values far from all others, or strata, "
            "leave no more room: top-code the column, or give it `window_percent`"
        )
    else:
        near = NEAR_CHANGE * target.goal if target.kind == "mean_change" else NEAR_CORRELATION
        if not abs(achieved - target.goal) <= max(near, 0.0):
            reason = (
                'the theorem assumes evenly spread values; interval = "calibrated" keeps to the target'
                if interval == "theorem"
                else "ties or a few values far from all others leave no nearer swap"
            )
            out.append(f"{column} was to have {word} = {target.goal:.4g} and has {achieved:.4g}: {reason}")
    return out


def _narrow(column: str, target: Target, figures: dict[str, Any], least: int) -> list[str]:
    """A window of a few ranks hides nobody: exchanging neighbours of the release undoes most of it."""
    ranks = figures.get("window_ranks") or figures.get("scale_ranks")
    if not ranks or ranks >= least:
        return []
    cure = 'interval = "calibrated"' if target.kind == "correlation" else "a wider window"
    return [
        f"{column} is swapped in a window of {ranks:.3g} rank{'s' if ranks != 1 else ''}: whoever exchanges "
        f"neighbouring ranks of the release has most values back, without the seed; take {cure}"
    ]


def _far(column: str, solution: Solution, figures: dict[str, Any]) -> list[str]:
    """How many far values there are, what was done with them and what it cost."""
    far = solution.bounded.far if solution.bounded else None
    if far is None:
        return []
    done = []
    if far.coded:
        done.append(f"{far.coded:,} values at its ends took a code")
    if far.grouped:
        done.append(f"{far.grouped:,} were exchanged among themselves in {counted(len(far.groups), 'group')}")
    return [
        f"{counted(far.few, 'value')} of {column} stand too far from all others to be swapped within both "
        f"bounds: {' and '.join(done)}; with them R(a,a′) is {figures['correlation_with_far']:.4f}"
    ]


def _missed(column: str, goal: float, figures: dict[str, Any]) -> list[str]:
    """Both correlations are to be the goal or above it."""
    out = []
    for name, word in (("correlation", "R(a,a′)"), ("rank_correlation", "a correlation of ranks")):
        achieved = figures.get(name)
        if achieved is not None and achieved < goal - NEAR_CORRELATION:
            out.append(
                f"{column} was to have {word} of {goal:.4f} and has {achieved:.4f}: ties, strata or a few "
                "values far from all others leave no nearer swap"
            )
    return out
