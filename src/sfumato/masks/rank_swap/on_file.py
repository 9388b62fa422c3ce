"""A rank swap and one file: what may move, its ranks, how far it may go, what its guarantees look at."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.data.schema import Variable
from sfumato.errors import MaskError
from sfumato.masks.rank_swap import order, sums
from sfumato.masks.rank_swap.far import find_bounds, round_between
from sfumato.masks.rank_swap.guarantees import Compared, Moves
from sfumato.masks.rank_swap.law import Spread
from sfumato.masks.rank_swap.ranks import AnyArray, Ranked, rank, window_ranks
from sfumato.masks.rank_swap.settings import Settings
from sfumato.masks.rank_swap.targets import Solution, Target, solve
from sfumato.stats.rank_bounds import window_share

# What a mask found on a file: an attack asks again, and the window doesn't depend on chance.
_SOLVED: WeakKeyDictionary[Microdata, dict[tuple[str, str], Solution]] = WeakKeyDictionary()


class OnFile:
    """One mask on one file."""

    def __init__(self, mask: Settings, data: Microdata) -> None:
        self.mask, self.data = mask, data
        self.plan = mask.sum_plan(data)

    @cached_property
    def _fixed(self) -> dict[str, BoolArray]:
        return sums.fixed_totals(self.data, self.plan.rules) if self.mask.sum_rule == "rebuild" else {}

    @cached_property
    def _codes(self) -> tuple[IntArray | None, int]:
        return self.data.codes(self.mask.within) if self.mask.within else (None, 1)

    @property
    def _block(self) -> tuple[str, ...]:
        return tuple(self.plan.swapped)

    # -- what moves -------------------------------------------------------------------------------

    def may_all_move(self, column: str) -> bool:
        """Whether the schema and the type alone leave only NaN as what may not move: then the sort,
        which puts NaN at the ends, shows at no cost whether all values may."""
        variable, data = self.data.schema[column], self.data
        codes = (
            variable.missing or variable.imputed or variable.top is not None or variable.bottom is not None
        )
        tied = self.mask.together or self.mask.keep_zeros or self.mask.order_by or self.plan.rules
        return not (codes or tied or self._fixed or data.is_lazy or data.column(column).null_count())

    def may_move(self, column: str) -> BoolArray:
        """Which values of a column (of its whole block, if columns travel together) may move."""
        data, mask = self.data, self.mask
        block = self._block if mask.together else (column,)
        out = data.eligible(block[0])
        for one in block:
            if one != block[0]:
                out &= data.eligible(one)
            if one in self._fixed:
                out &= ~self._fixed[one]
            if mask.keep_zeros and data.is_numeric(one):
                out &= data.numbers(one) != 0
            if mask.sum_rule == "scale" and self.plan.rules:
                out &= sums.scalable(data, one, self.plan.rules)
        return out

    def scores(self, column: str) -> order.Scores:
        if self.mask.together and self.mask.rank_by == "principal":
            return order.principal(self.data, self._block, self.may_move(column))
        lead = self._block[0] if self.mask.together else column
        return order.scores(self.data, lead, self.mask.order_by.get(lead))

    def strata(self, column: str) -> tuple[IntArray | None, int]:
        codes, n = self._codes
        if self.mask.sum_rule == "scale" and column in dict(self.plan.rules):
            # A total may not change its sign: its components are scaled by new / old.
            above = (self.data.numbers(column, missing=0.0) > 0).astype(np.int64)
            return (above, 2) if codes is None else (2 * codes + above, 2 * n)
        return codes, n

    def ranked(
        self, column: str, values: AnyArray, movable: BoolArray | None
    ) -> tuple[Ranked, IntArray | None]:
        """The ranks of the values that may move, and their records (None for all)."""
        strata, n_strata = self.strata(column)
        if movable is None:
            ranked = rank(values, strata, n_strata)
            if values.dtype != np.float64 or ranked.is_finite:
                return ranked, None
            movable = self.may_move(column)
        rows = None if movable.all() else np.flatnonzero(movable)
        if rows is not None:
            values = values[rows]
            strata = None if strata is None else strata[rows]
        if values.dtype == np.float64 and not np.isfinite(values).all():
            n = int((~np.isfinite(values)).sum())
            raise MaskError(
                f"rank_swap: {column} holds {n:,} infinite value{'s' if n > 1 else ''}",
                hint=f"declare them in variables.{column}.missing, or give it a top and a bottom code",
            )
        return rank(values, strata, n_strata), rows

    def solution(self, column: str, ranked: Ranked | None = None, target: Target | None = None) -> Solution:
        """The window of a column; remembered, since the guarantees ask for it too."""
        kept = _SOLVED.setdefault(self.data, {})
        key = (repr(self.mask), column if not self.mask.together else "")
        if key not in kept:
            if ranked is None:
                movable = None if self.may_all_move(column) else self.may_move(column)
                ranked = self.ranked(column, self.scores(column).values, movable)[0]
            kept[key] = self._solve(column, ranked, target or self.mask.target(self.plan.swapped[column]))
        return kept[key]

    def _solve(self, column: str, ranked: Ranked, target: Target) -> Solution:
        spread, variable = Spread.of(ranked), self.data.schema[column]
        if self.mask.together and self.mask.rank_by == "principal":
            variable = Variable()  # a component has no codes
        if (
            target.kind == "mean_change"
            and spread.n
            and (not spread.positive or (self.mask.interval == "theorem" and spread.mean <= 0))
        ):
            why = "no positive value" if not spread.positive else "a mean that isn't positive"
            raise MaskError(
                f"rank_swap: K0 is the mean of |a′−a|/a over positive values, and {column} has {why}",
                hint="use `correlation` (R0) or `window_percent`",
            )
        if target.kind != "window_percent" and not math.isfinite(spread.variance):
            raise MaskError(
                f"rank_swap: the values of {column} are too large to have a variance",
                hint="use `window_percent`, which needs ranks only, or other units",
            )
        mask = self.mask
        codes = variable.top, variable.bottom
        if self._two_bounds(target) and spread.variance > 0:
            return self._within_bounds(column, ranked, target)
        return solve(ranked, spread, target, mask.interval, mask.partner, *codes, adjust=mask.adjust)

    def _two_bounds(self, target: Target) -> bool:
        mask = self.mask
        return target.kind == "correlation" and mask.interval == "calibrated" and mask.partner == "uniform"

    def _within_bounds(
        self, column: str, ranked: Ranked, target: Target, code: bool | None = None
    ) -> Solution:
        """Both bounds of a column; far values are coded where the mask says so and the column can be."""
        goal = target.goal
        assert goal is not None
        code = self.mask.far_values != "group" if code is None else code
        between = self._between(column) if code and len(ranked.starts) == 2 else None
        found = find_bounds(ranked, goal, self.mask.min_candidates, between)
        percent = 100.0 * window_share(goal)
        spread = Spread.of(found.part(ranked))
        return Solution(percent, found.bounds.windows, spread, 1.0 - found.bounds.loss, bounded=found)

    def _between(self, column: str) -> Callable[[Any, Any], Any] | None:
        """How a code between two values of a column is found; None where it can't be coded."""
        if self.mask.together or column not in self.data.columns or not self.scores(column).exact:
            return None
        dtype, variable = self.data.dtype(column), self.data.schema[column]
        if not dtype.is_numeric() or variable.top is not None or variable.bottom is not None:
            return None  # a column that has codes already keeps those
        whole = dtype.is_integer()

        def between(low: Any, high: Any) -> Any:
            code = round_between(low, high, whole)
            if code is not None and dtype == pl.Float32:
                code = float(np.float32(code))
                code = code if low < code < high else None
            return None if code is not None and variable.is_missing_code(code) else code

        return between

    def coded(self, column: str) -> dict[str, Any]:
        """The codes that far values of a column take here: "top", "bottom", or none."""
        target = self.mask.target(self.plan.swapped[column])
        if self.mask.far_values != "code" or not self._two_bounds(target):
            return {}
        return codes_of(self.solution(column))

    def with_codes(self) -> Microdata:
        """The file with far values coded, and nothing swapped: what anybody can do to his own list."""
        out, data = self.data, self.data
        for column in () if self.mask.together else self.plan.swapped:
            codes = self.coded(column)
            if codes:
                values, movable = self.scores(column).values.copy(), self.may_move(column)
                if "top" in codes:
                    values[movable & (values > codes["top"])] = codes["top"]
                if "bottom" in codes:
                    values[movable & (values < codes["bottom"])] = codes["bottom"]
                out = out.with_columns({column: in_type_of(data.column(column), values)})
                out = out.with_variable(column, **codes)
        return out

    def compared(self, after: Microdata, column: str) -> Compared:
        """What the guarantees look at."""
        scores = self.scores(column)
        strata, n_strata = self.strata(column)
        old, new = scores.values, scores.of(after)
        movable = None if self.may_all_move(column) and old.dtype != np.float64 else self.may_move(column)
        if movable is not None and not movable.all():
            rows = np.flatnonzero(movable)
            old, new, strata = old[rows], new[rows], None if strata is None else strata[rows]
        lead = not self.mask.together or column == self._block[0]
        moves = partial(self.moves, column) if lead and self.mask.partner == "uniform" else None
        exact = scores.exact and not self.mask.together
        return Compared(old, new, strata, n_strata, moves, exact)

    def moves(self, column: str, ranked: Ranked) -> Moves:
        """How far the values of a column may go, worked out anew from the file as it was."""
        target = self.mask.target(self.plan.swapped.get(column, column))
        if target.kind == "window_percent":
            return Moves(window_ranks(target.value, ranked.sizes))
        solution = self._solve(column, ranked, target)
        if solution.bounded is None:
            return Moves(solution.windows.astype(np.int64))
        bounds = solution.bounded.bounds
        return Moves(bounds.windows, bounds.distance, solution.bounded.far)


def codes_of(solution: Solution) -> dict[str, Any]:
    """The codes of a column's far values."""
    far = None if solution.bounded is None else solution.bounded.far
    return {} if far is None else {"bottom" if span[0] == 0 else "top": code for span, code in far.codes}


def in_type_of(series: pl.Series, values: AnyArray) -> pl.Series:
    """The new values (physical ones, of dates) as a column of the old one's type."""
    new = pl.Series(series.name, values)
    if series.dtype.is_temporal():
        new = new.cast(series.to_physical().dtype)
    new = new.cast(series.dtype)
    if series.null_count():
        new = pl.select(pl.when(series.is_not_null()).then(new).alias(series.name)).to_series()
    return new
