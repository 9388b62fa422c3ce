"""SAFE: every cell of a frequency table empty or large enough, and the chosen margins kept exactly."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.draws import Seed
from sfumato.errors import InputError, ParameterError, did_you_mean
from sfumato.tables.build import FrequencyTable, as_table
from sfumato.tables.program import Counts, Objective, Problem, Solution, solve

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
class SafeTable:
    """An adjusted table and how far it is from the original.

    ``counts`` has the original's shape; ``distance`` is the objective's value, ``bound`` a proven
    lower bound of it, ``gap`` their relative distance (0: provably the least distortion).
    """

    table: FrequencyTable
    counts: Counts
    tolerance: int
    margins: tuple[tuple[str, ...], ...]
    objective: str
    distance: float
    bound: float
    seconds: float

    @property
    def original(self) -> Counts:
        return self.table.counts

    @property
    def keys(self) -> tuple[str, ...]:
        return self.table.keys

    @property
    def gap(self) -> float:
        return 0.0 if self.distance <= self.bound else (self.distance - self.bound) / self.distance

    @property
    def optimal(self) -> bool:
        """Whether no valid table is nearer to the original."""
        return self.distance <= self.bound + 1e-9

    @property
    def cells_changed(self) -> int:
        return int((self.counts != self.original).sum())

    @property
    def largest_change(self) -> int:
        return int(np.abs(self.counts - self.original).max(initial=0))

    @property
    def dissimilarity(self) -> float:
        """D = ½ Σ |before/total − after/total|."""
        total = self.original.sum()
        return float(np.abs(self.counts - self.original).sum() / (2 * total)) if total else 0.0

    def to_frame(self) -> pl.DataFrame:
        """One row a cell: its keys, the count before and the count after."""
        frame = self.table.to_frame(zeros=True)
        after = pl.Series("safe", self.counts.ravel())
        return frame.with_columns(after).filter((pl.col("count") > 0) | (pl.col("safe") > 0))

    def __repr__(self) -> str:
        shape = " × ".join(str(k) for k in self.counts.shape)
        proof = "proved least" if self.optimal else f"bound {self.bound:g}, gap {self.gap:.2%}"
        return (
            f"SafeTable({shape}, tolerance {self.tolerance}: {self.objective} distance "
            f"{self.distance:g} ({proof}), {self.cells_changed} cells changed)"
        )


def safe_table(
    table: Any,
    tolerance: int,
    *,
    margins: str | Sequence[Sequence[str | int] | str | int] = "one_way",
    objective: Objective = "l1",
    weights: Any = None,
    structural_zeros: bool | npt.ArrayLike = True,
    keys: Sequence[str] | None = None,
    time_limit: float = 60.0,
) -> SafeTable:
    """Make a table safe: every cell 0 or at least the tolerance, the chosen margins exactly kept.

    Parameters
    ----------
    table
        An array of counts, a frame with key columns and a ``count`` column, or Microdata (tabulated
        by ``keys``, by default the schema's).
    tolerance
        The smallest count that a non-empty cell may have.
    margins
        "one_way" (all totals along one key), "two_way" (all tables of two keys), or a list of the
        key sets whose tables must stay, by name or by axis number.
    objective
        "l1": the sum of absolute changes; "l2": of squared changes; "max": the largest change.
    weights
        What a unit of change costs in each cell (1 by default).
    structural_zeros
        True: an empty cell stays empty. False: it may be filled. An array of flags: those stay.
    time_limit
        In seconds; then the best table found so far is returned with its gap.

    The published SAFE of the German statistical offices is a heuristic; here the distortion is
    proved to be the least, or its gap to a proven bound is given.

    Reference: Moore (1996), Improving the 1990 confidentiality edit, section V.

    >>> import numpy as np
    >>> education = [[19, 10, 10, 15], [4, 10, 10, 1], [11, 14, 8, 2], [15, 1, 2, 2]]
    >>> safe = safe_table(np.array(education), tolerance=5)
    >>> safe.distance, safe.optimal
    (14.0, True)
    >>> [int(total) for total in safe.counts.sum(axis=0)]
    [49, 35, 30, 20]
    """
    started = time.perf_counter()
    given = as_table(table, keys)
    tolerance = _whole_number(tolerance, "tolerance", 1)
    if objective not in ("l1", "l2", "max"):
        raise ParameterError(
            f"there is no objective {objective!r}", hint=did_you_mean(objective, ["l1", "l2", "max"])
        )
    if not time_limit > 0:
        raise ParameterError(f"time_limit must be above 0 seconds, not {time_limit}")
    kept = margin_sets(margins, given.keys)
    problem, active = _problem(given, tolerance, kept, objective, weights, structural_zeros)
    cubes = _Cubes(given.counts.shape, active) if any(len(names) > 1 for names in kept) else None
    solution = _search(problem, time_limit, cubes)
    if solution.table is None:
        raise _no_table(problem, solution, given, kept, tolerance, time_limit)
    counts = np.zeros(given.counts.size, dtype=np.int64)
    counts[active] = solution.table
    distance = problem.cost(solution.table)
    bound = min(_sharp(problem, solution.bound), distance)
    return SafeTable(
        given, counts.reshape(given.counts.shape), tolerance, kept, objective, distance, bound,
        time.perf_counter() - started,
    )  # fmt: skip


def margin_sets(margins: Any, keys: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The kept margins as key sets; sets inside other sets are left out (they follow)."""
    if isinstance(margins, str) and margins in ("one_way", "two_way"):
        size = 1 if margins == "one_way" else 2
        if size >= len(keys) and len(keys) > 1:
            raise ParameterError(
                f"a table of {len(keys)} keys has no two-way margins to keep but itself",
                hint='use margins="one_way"',
            )
        sets: list[tuple[str, ...]] = list(itertools.combinations(keys, min(size, len(keys) - 1)))
        return tuple(sets) if len(keys) > 1 else ((),)
    if isinstance(margins, str):
        raise ParameterError(
            f"there are no margins {margins!r}", hint=did_you_mean(margins, ["one_way", "two_way"])
        )
    sets = []
    for one in margins:
        names = (one,) if isinstance(one, (str, int)) else tuple(one)
        resolved = []
        for name in names:
            if isinstance(name, int) and 0 <= name < len(keys):
                name = keys[name]
            if name not in keys:
                raise ParameterError(f"a margin names {name!r}", hint=did_you_mean(str(name), keys))
            resolved.append(str(name))
        if set(resolved) == set(keys):
            raise ParameterError("a margin of all keys is the table itself; nothing could change")
        sets.append(tuple(k for k in keys if k in resolved))
    if not sets:
        raise ParameterError("no margin is kept", hint="a list of key sets, or one_way, or two_way")
    uncovered = [k for k in keys if not any(k in s for s in sets)]
    if uncovered:
        raise ParameterError(
            f"the margins don't cover {', '.join(uncovered)}",
            hint="add a set with it, so that at least its own totals are kept",
        )
    unique = list(dict.fromkeys(sets))
    return tuple(s for s in unique if not any(set(s) < set(other) for other in unique))


def _problem(
    given: FrequencyTable,
    tolerance: int,
    kept: Sequence[tuple[str, ...]],
    objective: Objective,
    weights: Any,
    zeros: Any,
) -> tuple[Problem, npt.NDArray[np.int64]]:
    shape, flat = given.counts.shape, given.counts.ravel()
    stay = np.ones(flat.size, dtype=bool) if zeros is True else np.zeros(flat.size, dtype=bool)
    if not isinstance(zeros, bool):
        flags = np.asarray(zeros, dtype=bool)
        if flags.shape != shape:
            raise ParameterError(f"structural_zeros has the shape {flags.shape}, the table {shape}")
        stay = flags.ravel()
        if (flat[stay] > 0).any():
            n = int((flat[stay] > 0).sum())
            raise ParameterError(f"{n} cells that should be structurally empty have counts")
    price = np.ones(flat.size)
    if weights is not None:
        price = np.asarray(weights, dtype=np.float64)
        if price.shape != shape:
            raise ParameterError(f"weights have the shape {price.shape}, the table {shape}")
        price = price.ravel()
        if not (np.isfinite(price) & (price > 0)).all():
            raise ParameterError("weights must be finite and above 0")
    active = np.flatnonzero((flat > 0) | ~stay)
    axes = {key: axis for axis, key in enumerate(given.keys)}
    coordinates = np.unravel_index(active, shape)
    cells, totals = [], []
    for names in kept:
        sizes = [shape[axes[k]] for k in names]
        if names:
            place = np.ravel_multi_index(tuple(coordinates[axes[k]] for k in names), sizes)
        else:
            place = np.zeros(len(active), dtype=np.int64)
        cells.append(np.asarray(place, dtype=np.int64))
        totals.append(np.bincount(place, flat[active], math.prod(sizes)).astype(np.int64))
    return Problem(flat[active], tolerance, price[active], tuple(cells), tuple(totals), objective), active


@dataclass(frozen=True)
class _Cubes:
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


def _search(problem: Problem, time_limit: float, cubes: _Cubes | None = None) -> Solution:
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
    return (cost - _sharp(problem, bound)) / cost if cost else 0.0


def _sharp(problem: Problem, bound: float) -> float:
    """A bound made whole: with unit weights l1 distances are even (the total stays)."""
    if not np.isfinite(bound) or not bool((problem.weights == 1).all()):
        return max(bound, 0.0) if np.isfinite(bound) else 0.0
    if problem.objective == "l1":
        return max(2.0 * math.ceil(bound / 2 - 1e-6), 0.0)
    return max(float(math.ceil(bound - 1e-6)), 0.0)


def _no_table(
    problem: Problem,
    solution: Solution,
    given: FrequencyTable,
    kept: Sequence[tuple[str, ...]],
    tolerance: int,
    time_limit: float,
) -> InputError:
    """Say that there is no such table, and the smallest change of margins that would help."""
    if solution.status != "infeasible":
        return InputError(
            f"no table was found within {time_limit:g} seconds",
            hint="give it more time_limit, or fewer margins",
        )
    elastic = solve(problem, elastic=True, seconds=max(10.0, time_limit))
    words: list[str] = []
    if elastic.slack is not None:
        at = 0
        for names, totals in zip(kept, problem.totals, strict=True):
            over = elastic.slack[at : at + len(totals)]
            under = elastic.slack[at + len(totals) : at + 2 * len(totals)]
            at += 2 * len(totals)
            for cell in np.flatnonzero(np.rint(over - under) != 0):
                change = int(np.rint(over[cell] - under[cell]))
                words.append(f"{given.cell_name(names, int(cell))} by {change:+d}")
    listed = "; ".join(words[:6]) + (f"; … ({len(words)} in all)" if len(words) > 6 else "")
    return InputError(
        f"no table with these margins has every cell empty or at least {tolerance}",
        hint=f"the smallest change of margins that helps: {listed}" if words else "lower the tolerance",
    )


def _whole_number(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ParameterError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def as_mapping(importance: Any, keys: Sequence[str]) -> Mapping[str, float]:
    """What changing each key costs: a dict, or a list from least to most important."""
    if importance is None:
        return dict.fromkeys(keys, 1.0)
    if isinstance(importance, Mapping):
        unknown = [k for k in importance if k not in keys]
        if unknown:
            raise ParameterError(f"importance names {unknown[0]!r}", hint=did_you_mean(unknown[0], keys))
        out = {k: float(importance.get(k, 1.0)) for k in keys}
    else:
        order = list(importance)
        if sorted(order) != sorted(keys):
            raise ParameterError("importance must list every key once", hint="least important first")
        out = {k: 1.0 + order.index(k) / len(keys) for k in keys}
    if not all(math.isfinite(v) and v > 0 for v in out.values()):
        raise ParameterError("importance must be above 0")
    return out
