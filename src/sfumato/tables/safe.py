"""SAFE: every cell of a frequency table empty or large enough, and the chosen margins kept exactly."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.drawing.face import face, table
from sfumato.errors import InputError, ParameterError, did_you_mean, suggesting
from sfumato.tables.build import FrequencyTable, as_table
from sfumato.tables.program import Counts, Objective, Problem, Solution, solve
from sfumato.tables.search import Cubes, search, sharp

_SHORTLY = 5.0
"""Seconds for each option that might help where there is no table."""


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

    def _repr_html_(self) -> str:
        changed = self.to_frame().filter(pl.col("count") != pl.col("safe"))
        rows = [[_plain(v) for v in row] for row in changed.head(41).iter_rows()]
        heads = [*self.keys, "before", "after"]
        return face(repr(self), table(heads, rows), "" if rows else "No cell was changed.")


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float)) else str(value)


@suggesting
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
    cubes = Cubes(given.counts.shape, active) if any(len(names) > 1 for names in kept) else None
    solution = search(problem, time_limit, cubes)
    if solution.table is None:
        helps: list[str] = []
        if solution.status == "infeasible":
            helps = _what_helps(given, tolerance, kept, objective, weights, structural_zeros)
        raise _no_table(problem, solution, given, kept, tolerance, time_limit, helps)
    counts = np.zeros(given.counts.size, dtype=np.int64)
    counts[active] = solution.table
    distance = problem.cost(solution.table)
    bound = min(sharp(problem, solution.bound), distance)
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


def _no_table(
    problem: Problem,
    solution: Solution,
    given: FrequencyTable,
    kept: Sequence[tuple[str, ...]],
    tolerance: int,
    time_limit: float,
    helps: Sequence[str],
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
        hint="; or ".join([*helps, *([f"change margins, by the least: {listed}"] if words else [])])
        or "lower the tolerance",
    )


def _what_helps(
    given: FrequencyTable,
    tolerance: int,
    kept: Sequence[tuple[str, ...]],
    objective: Objective,
    weights: Any,
    zeros: Any,
) -> list[str]:
    """The options under which there is a table: each is tried, shortly."""

    def works(tolerance: int, kept: Sequence[tuple[str, ...]], zeros: Any) -> bool:
        problem, _ = _problem(given, tolerance, kept, objective, weights, zeros)
        return solve(problem, seconds=_SHORTLY).table is not None

    out = []
    if zeros is not False and works(tolerance, kept, False):
        out.append("let empty cells be filled: --fill-zeros (structural_zeros=False)")
    single = margin_sets("one_way", given.keys)
    if any(len(names) > 1 for names in kept) and works(tolerance, single, zeros):
        out.append("keep fewer margins: --margins one_way")
    smaller = sorted({t for t in (tolerance - 1, tolerance // 2, 3, 2) if 1 < t < tolerance}, reverse=True)
    lower = next((t for t in smaller if works(t, kept, zeros)), None)
    if lower is not None:
        out.append(f"lower the tolerance: --tolerance {lower}")
    return out


def _whole_number(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ParameterError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)
