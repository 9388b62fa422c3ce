"""The mixed-integer program behind SAFE, and its solution with HiGHS.

Every cell with count n is 0 or at least the tolerance t afterwards. A cell below t becomes
x = t·r + y with r ∈ {0, 1} and 0 ≤ y ≤ U·r; its cost |x − n| is n + (t − 2n)·r + y, linear in r and
y, and the relaxation 0 ≤ r ≤ 1 is the convex hull of the cell. A cell of at least t becomes
x = n + p − m and costs p + m; in the exact program it may be emptied too. Each cell of a kept
margin is one equation. A vertex of the relaxation has at most as many broken r as there are
equations, so nearly all of them are whole: they are fixed, and a small program decides the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Objective = Literal["l1", "l2", "max"]

SEGMENTS = 12
"""Whole steps of the l2 objective's convex cost; beyond them the last slope goes on (a lower bound)."""


@dataclass(frozen=True)
class Problem:
    """A table as flat arrays: only the cells that may hold something after the adjustment."""

    counts: Counts
    tolerance: int
    weights: Floats
    margins: tuple[npt.NDArray[np.int64], ...]
    """For each kept margin: the margin cell of every cell."""
    totals: tuple[Counts, ...]
    """For each kept margin: its counts."""
    objective: Objective

    @property
    def upper(self) -> Counts:
        """No cell can exceed the smallest margin it stands in."""
        tops = [total[cells] for cells, total in zip(self.margins, self.totals, strict=True)]
        return np.minimum.reduce(tops) if tops else np.full(len(self.counts), self.counts.sum())

    def cost(self, table: Counts) -> float:
        """The distance of an adjusted table from the original."""
        off = np.abs(table - self.counts)
        if self.objective == "l2":
            return float((self.weights * off.astype(np.float64) ** 2).sum())
        weighted = self.weights * off
        if self.objective == "max":
            return float(weighted.max(initial=0.0))
        return float(weighted.sum())

    def valid(self, table: Counts) -> bool:
        """Whether a table keeps the margins and has no cell below the tolerance."""
        if ((table < 0) | ((table > 0) & (table < self.tolerance))).any():
            return False
        return all(
            np.array_equal(np.bincount(cells, table, len(total)).astype(np.int64), total)
            for cells, total in zip(self.margins, self.totals, strict=True)
        )


@dataclass(frozen=True)
class Solution:
    """What the solver found: a table (None where there is none) and a bound below its cost."""

    table: Counts | None
    bound: float
    status: str
    fractions: Floats | None = None
    """The relaxation's r of every cell (1 for cells of at least the tolerance)."""
    rough: Floats | None = None
    """The table before rounding (of a relaxed or loose program)."""
    slack: Floats | None = None
    """By how much each margin equation had to give, in an elastic program."""


class _Model:
    """Columns, rows and entries of a linear program, gathered and handed to HiGHS."""

    def __init__(self, *, all_whole: bool = True) -> None:
        self.all_whole = all_whole
        self.columns = 0
        self.rows = 0
        self._cost: list[Floats] = []
        self._low: list[Floats] = []
        self._high: list[Floats] = []
        self._whole: list[npt.NDArray[np.bool_]] = []
        self._row_low: list[Floats] = []
        self._row_high: list[Floats] = []
        self._entries: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]] = []

    def add(self, n: int, *, cost: Any = 0.0, low: Any = 0.0, high: Any = np.inf, whole: bool = True) -> Any:
        """n columns; their numbers are returned."""
        for place, value in ((self._cost, cost), (self._low, low), (self._high, high)):
            place.append(np.broadcast_to(np.asarray(value, dtype=np.float64), n))
        self._whole.append(np.full(n, whole))
        first = self.columns
        self.columns += n
        return np.arange(first, first + n)

    def row(self, n: int, low: Any, high: Any) -> Any:
        """n rows; their numbers are returned."""
        self._row_low.append(np.broadcast_to(np.asarray(low, dtype=np.float64), n))
        self._row_high.append(np.broadcast_to(np.asarray(high, dtype=np.float64), n))
        first = self.rows
        self.rows += n
        return np.arange(first, first + n)

    def put(self, rows: Any, columns: Any, values: Any) -> None:
        rows = np.asarray(rows, dtype=np.int64)
        columns = np.broadcast_to(np.asarray(columns, dtype=np.int64), rows.shape)
        values = np.broadcast_to(np.asarray(values, dtype=np.float64), rows.shape)
        self._entries.append((rows, columns, values))

    def solve(
        self, *, relaxed: bool, seconds: float, gap: float = 0.0, start: Floats | None = None
    ) -> tuple[str, Floats | None, float]:
        """Status ("optimal", "feasible", "infeasible", "unknown"), the values, and the bound."""
        import highspy
        from scipy.sparse import csc_matrix

        rows = np.concatenate([e[0] for e in self._entries])
        columns = np.concatenate([e[1] for e in self._entries])
        values = np.concatenate([e[2] for e in self._entries])
        matrix = csc_matrix((values, (rows, columns)), shape=(self.rows, self.columns))
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self.columns, self.rows
        lp.col_cost_ = np.concatenate(self._cost)
        lp.col_lower_, lp.col_upper_ = np.concatenate(self._low), np.concatenate(self._high)
        lp.row_lower_, lp.row_upper_ = np.concatenate(self._row_low), np.concatenate(self._row_high)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = (
            matrix.indptr,
            matrix.indices,
            matrix.data,
        )
        whole = np.concatenate(self._whole)
        if not relaxed:
            kinds = np.array([highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger])
            lp.integrality_ = kinds[whole.astype(int)]
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.silent()
        solver.setOptionValue("time_limit", float(max(seconds, 0.1)))
        solver.setOptionValue("mip_rel_gap", float(gap))
        solver.setOptionValue("threads", 1)  # more wait for each other than they work
        solver.setOptionValue("mip_detect_symmetry", False)  # it may outlast any time limit
        solver.passModel(lp)
        if start is not None and not relaxed:
            given = highspy.HighsSolution()
            given.col_value = list(start)
            solver.setSolution(given)
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        found = info.primal_solution_status == 2
        out = np.array(solver.getSolution().col_value) if found else None
        optimal = status == highspy.HighsModelStatus.kOptimal
        if relaxed:
            bound = float(info.objective_function_value) if optimal else -np.inf
        else:
            bound = float(info.mip_dual_bound)
        if status in (
            highspy.HighsModelStatus.kInfeasible,
            highspy.HighsModelStatus.kUnboundedOrInfeasible,
        ):
            return "infeasible", None, np.inf
        return ("optimal" if optimal else "feasible" if found else "unknown"), out, bound


def solve(
    problem: Problem,
    *,
    relaxed: bool = False,
    exact: bool = True,
    fixed: Floats | None = None,
    hold: Floats | None = None,
    elastic: bool = False,
    loose: bool = False,
    seconds: float = 60.0,
    gap: float = 0.0,
    start: Counts | None = None,
) -> Solution:
    """Build and solve one program, from a valid table where one is known (``start``).

    ``relaxed`` leaves integrality out (a bound); ``exact`` lets large cells be emptied and small
    ones exceed the tolerance; ``fixed`` holds an r of 0 or 1 for each cell (NaN where free),
    ``hold`` a count for each cell of at least the tolerance (NaN where free); ``elastic`` lets
    margins give, and minimises by how much they do; ``loose`` asks only r to be whole (the table is
    then None, ``fractions`` says which small cells are filled, and ``rough`` how the others move).
    """
    n, t, w, upper = problem.counts, problem.tolerance, problem.weights, problem.upper
    model = _Model(all_whole=not loose)
    small, large = np.flatnonzero(n < t), np.flatnonzero(n >= t)
    price = 0.0 if elastic or problem.objective == "max" else 1.0
    beyond = exact or relaxed
    # Cells below the tolerance: r, and y above the tolerance where that is allowed.
    low, high = np.zeros(len(small)), np.ones(len(small))
    high[upper[small] < t] = 0.0
    if fixed is not None:
        held = ~np.isnan(fixed[small])
        low[held] = np.minimum(fixed[small][held], high[held])
        high[held] = low[held]
    quadratic = problem.objective == "l2"
    step = (t - 2.0 * n[small]) * (t if quadratic else 1.0)
    r = model.add(len(small), cost=price * w[small] * step, low=low, high=high)
    parts: list[tuple[Any, Any, float]] = [(small, r, float(t))]
    rises: list[Any] = []
    if beyond:
        rises = _steps(model, problem, small, np.maximum(upper[small] - t, 0), (t - n[small]), price)
        parts += [(small, y, 1.0) for y in rises]
        if not relaxed and len(small):
            link = model.row(len(small), -np.inf, 0.0)
            for y in rises:
                model.put(link, y, 1.0)
            model.put(link, r, -np.maximum(upper[small] - t, 0))
    # Cells of at least the tolerance: up by p, down by m, emptied only in the exact program.
    zero = np.zeros(len(large))
    rise = np.maximum(upper[large] - n[large], 0)
    depth = n[large] if beyond else n[large] - t
    least_rise, least_depth = zero, zero
    if hold is not None:
        held = ~np.isnan(hold[large])
        move = np.where(held, hold[large] - n[large], 0.0)
        rise, depth = (np.where(held, np.maximum(m, 0.0), room) for m, room in ((move, rise), (-move, depth)))
        least_rise, least_depth = (np.where(held, np.maximum(m, 0.0), 0.0) for m in (move, -move))
    ups = _steps(model, problem, large, rise, zero, price, least_rise)
    downs = _steps(model, problem, large, depth, zero, price, least_depth)
    parts += [(large, p, 1.0) for p in ups] + [(large, m, -1.0) for m in downs]
    if exact and not relaxed and len(large):
        emptied = model.add(len(large), high=1.0)
        at_least = model.row(len(large), t - n[large], np.inf)
        nothing = model.row(len(large), -np.inf, upper[large] - n[large])
        for rows in (at_least, nothing):
            for p in ups:
                model.put(rows, p, 1.0)
            for m in downs:
                model.put(rows, m, -1.0)
        model.put(at_least, emptied, t)
        model.put(nothing, emptied, upper[large])
    if problem.objective == "max" and not elastic:
        _peak(model, problem, small, large, r, rises, ups, downs)
    slack = _margins(model, problem, small, large, parts, elastic)
    known = None if start is None else _columns_of(start, problem, model, small, large, r, rises, ups, downs)
    status, values, bound = model.solve(relaxed=relaxed, seconds=seconds, gap=gap, start=known)
    base = 0.0
    if not elastic and problem.objective != "max":
        base = float((w[small] * n[small].astype(np.float64) ** (2 if quadratic else 1)).sum())
    if values is None:
        return Solution(None, bound + base, status)
    table = n.astype(np.float64).copy()
    table[small] = 0.0
    for cells, columns, size in parts:
        table[cells] += size * values[columns]
    share = np.ones(len(n))
    share[small] = values[r]
    whole = np.rint(table).astype(np.int64)
    gave = values[slack] if slack is not None else None
    return Solution(None if relaxed or loose else whole, bound + base, status, share, table, gave)


def _steps(
    model: _Model, problem: Problem, cells: Any, room: Any, first: Any, price: float, least: Any = 0.0
) -> list[Any]:
    """Columns for a move of ``least`` to ``room`` units away from a deviation of ``first`` units.

    One column for a linear cost; for l2, one per whole step (the k-th unit costs 2k − 1 more).
    """
    w = price * problem.weights[cells]
    if problem.objective != "l2" or price == 0.0:
        return [model.add(len(cells), cost=w, low=least, high=room, whole=model.all_whole)]
    out = []
    for k in range(1, SEGMENTS + 1):
        last = k == SEGMENTS
        size = np.maximum(room - (k - 1), 0) if last else np.clip(room - (k - 1), 0, 1)
        floor = np.maximum(least - (k - 1), 0) if last else np.clip(least - (k - 1), 0, 1)
        slope = w * (2.0 * (first + k) - 1.0)
        out.append(model.add(len(cells), cost=slope, low=floor, high=size, whole=model.all_whole))
    return out


def _columns_of(
    table: Counts,
    problem: Problem,
    model: _Model,
    small: Any,
    large: Any,
    r: Any,
    rises: Any,
    ups: Any,
    downs: Any,
) -> Floats:
    """A known table as values of the columns."""
    values = np.zeros(model.columns)
    n, t = problem.counts, problem.tolerance
    values[r] = table[small] >= t
    moves = (
        (rises, np.maximum(table[small] - t, 0)),
        (ups, np.maximum(table[large] - n[large], 0)),
        (downs, np.maximum(n[large] - table[large], 0)),
    )
    for columns, size in moves:
        left = size.astype(np.float64)
        for k, column in enumerate(columns):
            step = left if k == len(columns) - 1 else np.minimum(left, 1.0)
            values[column] = step
            left = left - step
    last = downs[-1][-1] + 1 if len(large) else 0
    emptied = np.arange(last, last + len(large))
    if len(large) and emptied[-1] < model.columns:
        values[emptied] = table[large] == 0
    if problem.objective == "max":
        values[-1] = problem.cost(table)
    return values


def _peak(
    model: _Model, problem: Problem, small: Any, large: Any, r: Any, rises: Any, ups: Any, downs: Any
) -> None:
    """One column M above every weighted deviation."""
    n, t, w = problem.counts, problem.tolerance, problem.weights
    peak = model.add(1, cost=1.0, whole=False)[0]
    rows = model.row(len(small), -np.inf, -w[small] * n[small])
    model.put(rows, r, w[small] * (t - 2.0 * n[small]))
    for y in rises:
        model.put(rows, y, w[small])
    model.put(rows, peak, -1.0)
    rows = model.row(len(large), -np.inf, 0.0)
    for columns in (*ups, *downs):
        model.put(rows, columns, w[large])
    model.put(rows, peak, -1.0)


def _margins(
    model: _Model,
    problem: Problem,
    small: Any,
    large: Any,
    parts: Sequence[tuple[Any, Any, float]],
    elastic: bool,
) -> Any:
    """One equation for each cell of each kept margin; elastic ones may give at a price."""
    loose = []
    for cells, totals in zip(problem.margins, problem.totals, strict=True):
        held = np.bincount(cells[large], problem.counts[large], len(totals))
        rows = model.row(len(totals), totals - held, totals - held)
        for members, columns, size in parts:
            model.put(rows[cells[members]], columns, size)
        if elastic:
            over = model.add(len(totals), cost=1.0)
            under = model.add(len(totals), cost=1.0)
            model.put(rows, over, -1.0)
            model.put(rows, under, 1.0)
            loose.append((over, under))
    if not elastic:
        return None
    return np.concatenate([np.concatenate(pair) for pair in loose])
