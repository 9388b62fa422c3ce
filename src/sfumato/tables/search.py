"""The search for the safe table of least distortion: exact where it can be, else within the time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sfumato.draws import Seed
from sfumato.tables.program import Problem, Solution, solve

EXACT_CELLS: Final = 150
"""Up to this many cells the exact program is solved at once, to the end."""
PROVABLE_CELLS: Final = 20_000
"""Up to this many cells the exact program is tried for a better bound; beyond, a search."""
GOOD_GAP: Final = 0.01
"""A solution this near to its bound isn't worked on further."""
STEPS_A_SECOND: Final = 800_000
"""How many cube moves are tried in a second, roughly."""
FREE_CELLS: Final = 1_000
"""How many small cells each round of the search decides anew."""


@dataclass(frozen=True)
class Cubes:
    """Where the problem's cells stand in the table, for moves on the corners of cubes."""

    shape: tuple[int, ...]
    active: npt.NDArray[np.int64]

    def search(self, problem: Problem, seconds: float) -> Solution:
        """The best table that annealed cube moves reach in about this time."""
        from sfumato.kernels.safe import anneal

        size = math.prod(self.shape)
        counts = np.zeros(size, dtype=np.int64)
        stays = np.ones(size, dtype=np.bool_)
        weights = np.ones(size)
        counts[self.active], stays[self.active] = problem.counts, False
        weights[self.active] = problem.weights
        steps = int(min(40_000 * size, STEPS_A_SECOND * seconds))
        # Measured on 10 x 10 x 10 and 20 x 20 x 20: a start at the tolerance, a penalty of twice that
        # and a slow end beat hotter starts and softer penalties by 5 to 25 percent of the distance.
        heat = problem.tolerance * float(np.median(problem.weights))
        draws = Seed.from_int(0).draws("safe").stream("cubes").generator()
        best, found = anneal(
            counts, stays, np.array(self.shape), problem.tolerance, weights, steps,
            heat, 0.08 * heat, 2.0 * heat, draws,
        )  # fmt: skip
        return Solution(best[self.active] if found else None, -np.inf, "feasible" if found else "unknown")


def search(problem: Problem, time_limit: float, cubes: Cubes | None = None) -> Solution:
    """The best table within the time, and the best bound."""
    end = time.perf_counter() + time_limit

    def left() -> float:
        return end - time.perf_counter()

    if problem.valid(problem.counts):
        return Solution(problem.counts, 0.0, "optimal")
    if len(problem.counts) <= EXACT_CELLS:
        found = solve(problem, seconds=left())
        if found.status in ("optimal", "infeasible"):
            return found
    relaxation = solve(problem, relaxed=True, seconds=left())
    if relaxation.status == "infeasible":
        return relaxation
    bound = relaxation.bound
    best: Solution | None = None
    share = relaxation.fractions
    if cubes is not None:
        # Margins of several keys leave many cells broken at a vertex: moves on cubes do better.
        best = _better(problem, best, cubes.search(problem, left() * 0.6))
    if share is not None and best is None:
        # A vertex has few broken cells: hold the whole ones, decide the broken ones, and only then
        # ask the moves of the large cells to be whole.
        fixed = np.where(np.abs(share - np.rint(share)) <= 1e-6, np.rint(share), np.nan)
        rough = solve(
            problem,
            exact=False,
            loose=True,
            fixed=fixed,
            seconds=left() / (4 if cubes else 2),
            gap=GOOD_GAP / 5,
        )
        best = _whole(problem, rough, left)
    if best is None and left() > 0:
        best = _better(problem, best, solve(problem, exact=False, seconds=left() / 2, gap=GOOD_GAP))
    if best is not None and len(problem.counts) > PROVABLE_CELLS:
        best = _improve(problem, best, bound, share, end)
    if (best is None or _gap(problem, best, bound) > GOOD_GAP) and left() > 0:
        start = None if best is None else best.table
        found = solve(problem, seconds=left(), gap=GOOD_GAP, start=start)
        if found.status == "infeasible" and best is None:
            return found
        if np.isfinite(found.bound):
            bound = max(bound, found.bound)
        best = _better(problem, best, found)
    if best is None:
        return Solution(None, bound, "unknown")
    return Solution(best.table, bound, "feasible")


def _whole(problem: Problem, rough: Solution, left: Callable[[], float]) -> Solution | None:
    """A whole table from one whose large cells moved by broken numbers: few did, so few are decided.

    The broken ones and a few hundred more are free at first; then all of them.
    """
    if rough.fractions is None or rough.rough is None:
        return None
    fixed = np.rint(rough.fractions)
    broken = np.abs(rough.rough - np.rint(rough.rough)) > 1e-6
    order = Seed.from_int(0).draws("safe").stream("whole").generator().permutation(len(broken))
    best: Solution | None = None
    for more in (0, 300, 3_000, len(broken)):
        if best is not None or left() <= 0:
            break
        free = broken.copy()
        free[order[:more]] = True
        hold = np.where(free, np.nan, np.rint(rough.rough))
        seconds = left() / 2 if more == len(broken) else min(left() / 4, 5.0)
        found = solve(problem, exact=False, fixed=fixed, hold=hold, seconds=seconds, gap=GOOD_GAP / 5)
        best = _better(problem, best, found)
    return best


def _improve(problem: Problem, best: Solution, bound: float, share: Any, end: float) -> Solution:
    """Free a random part of the small cells again and again, and keep what is better.

    The choice of parts is fixed (it decides nothing secret, only where the search looks).
    """
    small = np.flatnonzero(problem.counts < problem.tolerance)
    broken = np.zeros(len(problem.counts), dtype=bool)
    if share is not None:
        broken = np.abs(share - np.rint(share)) > 1e-6
    order = Seed.from_int(0).draws("safe").stream("search").generator()
    free, idle = min(FREE_CELLS, len(small)), 0
    while end - time.perf_counter() > 1.0 and idle < 4 and _gap(problem, best, bound) > GOOD_GAP:
        assert best.table is not None
        chosen = broken.copy()
        chosen[order.choice(small, free, replace=False)] = True
        fixed = np.where(chosen, np.nan, (best.table > 0).astype(np.float64))
        seconds = 0.25 * (end - time.perf_counter())
        found = solve(problem, exact=False, fixed=fixed, seconds=seconds, gap=GOOD_GAP / 5, start=best.table)
        better = _better(problem, best, found)
        assert better is not None
        idle = 0 if better is not best else idle + 1
        best = better
    return best


def _better(problem: Problem, best: Solution | None, found: Solution) -> Solution | None:
    if found.table is None or not problem.valid(found.table):
        return best
    if best is None or best.table is None or problem.cost(found.table) < problem.cost(best.table):
        return found
    return best


def _gap(problem: Problem, best: Solution, bound: float) -> float:
    assert best.table is not None
    cost = problem.cost(best.table)
    return (cost - sharp(problem, bound)) / cost if cost else 0.0


def sharp(problem: Problem, bound: float) -> float:
    """A bound made whole: with unit weights l1 distances are even (the total stays)."""
    if not np.isfinite(bound) or not bool((problem.weights == 1).all()):
        return max(bound, 0.0) if np.isfinite(bound) else 0.0
    if problem.objective == "l1":
        return max(2.0 * math.ceil(bound / 2 - 1e-6), 0.0)
    return max(float(math.ceil(bound - 1e-6)), 0.0)
