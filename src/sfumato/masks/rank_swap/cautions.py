"""What a careful person would want to know of a swapped column."""

from __future__ import annotations

from typing import Any

from sfumato.masks.rank_swap.targets import Solution, Spread, Target

# How far from its goal a calibrated column may end before it is said: R, and K relative to K0.
NEAR_CORRELATION, NEAR_CHANGE = 0.002, 0.02


def cautions(
    column: str, spread: Spread, target: Target, solution: Solution, figures: dict[str, Any], interval: str
) -> list[str]:
    """Cautions for the notes: targets out of reach or missed, values that K0 leaves out."""
    if not spread.n:
        return [f"{column} has no value that may move"]
    if spread.n == 1:
        return [f"{column} has only one value that may move, which stays"]
    if spread.variance == 0:
        return [f"{column} is constant among the values that may move: a swap changes nothing"]
    out = []
    if target.kind == "mean_change" and spread.positive < spread.n:
        out.append(
            f"K0 of {column} is the mean of |a′−a|/a over its {spread.positive:,} positive values; "
            f"{spread.n - spread.positive:,} others are swapped but not counted"
        )
    if target.goal is None:
        return out
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
