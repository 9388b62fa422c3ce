"""A rank swap at work on one file: what may move, its ranks, the window, the swap, the report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from sfumato.contract.mask import Notes
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.data.schema import Variable
from sfumato.draws import Draws
from sfumato.errors import MaskError
from sfumato.masks.rank_swap import order, sums
from sfumato.masks.rank_swap.cautions import NEAR_CHANGE, NEAR_CORRELATION, cautions
from sfumato.masks.rank_swap.guarantees import Moves
from sfumato.masks.rank_swap.pairs import Sampled, pair_figures, sample
from sfumato.masks.rank_swap.ranks import AnyArray, Ranked, order_ties, rank
from sfumato.masks.rank_swap.targets import Law, Solution, Spread, Target, solve
from sfumato.parallel import in_threads

if TYPE_CHECKING:
    from sfumato.masks.rank_swap.rank_swap import RankSwap

_DRAWS, _DRAWN_AGAIN = 8, 200_000  # draws of the pairs of so many values, where re-pairing ends off target
_BLOCKS = 65_536  # in which a swap looks for pairs whose change matters

# What a mask found on a file: its guarantees ask again, and the window doesn't depend on chance.
_SOLVED: WeakKeyDictionary[Microdata, dict[tuple[str, str], Solution]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Swapped:
    """The outcome for one column (or block): records moved, and what to tell of it."""

    column: str
    ranked: Ranked
    rows: IntArray | None
    source: AnyArray
    values: AnyArray | None
    """The new values of all records, where they were written straight away."""
    figures: dict[str, Any]
    warnings: list[str]
    sampled: Sampled | None


class Work:
    """One mask on one file."""

    def __init__(self, mask: RankSwap, data: Microdata) -> None:
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
        return solve(ranked, spread, target, mask.interval, mask.partner, *codes, adjust=mask.adjust)

    def moves(self, after: Microdata, column: str) -> Moves:
        """What the guarantee of a bounded displacement looks at."""
        movable = self.may_move(column)
        scores = self.scores(column)
        strata, n_strata = self.strata(column)
        windows = self.solution(column).windows.astype(np.int64)
        old, new = scores.values, scores.of(after)
        if not movable.all():
            rows = np.flatnonzero(movable)
            old, new, strata = old[rows], new[rows], None if strata is None else strata[rows]
        return Moves(old, new, strata, n_strata, windows)

    # -- the swap ---------------------------------------------------------------------------------

    def carry_out(self, draws: Draws, notes: Notes) -> Microdata:
        """Swap every column, mend the sums, and say what happened."""
        data = self.data
        leads = [self._block[0]] if self.mask.together else list(self.plan.swapped)
        several = len(leads) > 1

        def one(lead: str) -> tuple[dict[str, pl.Series], Swapped]:
            movable = None if self.may_all_move(lead) else self.may_move(lead)
            scores = self.scores(lead)
            label = "+".join(self._block) if self.mask.together else lead
            ranked, rows = self.ranked(lead, scores.values, movable)
            target = self.mask.target(self.plan.swapped[lead])
            direct = scores.values if scores.exact and not self.mask.together else None
            solution = self.solution(lead, ranked, target)
            swapped = self._swap(label, ranked, rows, draws, target, solution, several, direct)
            if self.mask.keep_zeros:
                swapped.figures["zeros_kept"] = self._zeros(lead)
            if swapped.values is not None:
                return {lead: _in_type_of(data.column(lead), swapped.values)}, swapped
            take = _sources(len(data), swapped)
            block = self._block if self.mask.together else (lead,)
            return {column: data.column(column).gather(take) for column in block}, swapped

        new: dict[str, pl.Series] = {}
        done: list[Swapped] = []
        for columns, swapped in in_threads(one, leads):
            new |= columns
            done.append(swapped)
        out = data.with_columns(new)
        for swapped in done:
            self._note(swapped, notes)
        if self.mask.together:
            self._note_block(out, done[0], notes)
        pairs = pair_figures([s.sampled for s in done if s.sampled is not None])
        if pairs:
            notes.figure("pair_correlations", pairs)
        return self._mend(out, draws, notes)

    def _zeros(self, lead: str) -> int:
        """In how many records a zero (of any column that travels along) keeps the values where they are."""
        zero = np.zeros(len(self.data), dtype=np.bool_)
        for column in self._block if self.mask.together else (lead,):
            if self.data.is_numeric(column):
                zero |= self.data.eligible(column) & (self.data.numbers(column) == 0)
        return int(zero.sum())

    def _swap(
        self,
        column: str,
        ranked: Ranked,
        rows: IntArray | None,
        draws: Draws,
        target: Target,
        solution: Solution,
        several: bool,
        old: AnyArray | None = None,
    ) -> Swapped:
        """Swap one ranked column; ``old`` are all its values, if they may be written straight away."""
        from sfumato.kernels.rank_swap import changes, close_cycles, write_values

        mask = self.mask
        order_ties(ranked, draws, column)
        source, left_over, re_paired = self._paired(column, ranked, target, solution, draws)
        spread = solution.spread
        stay = left_over
        if left_over and mask.leftover == "cycle":
            bounds = solution.windows if mask.partner == "uniform" else ranked.sizes
            stay = int(close_cycles(source, ranked.starts, bounds.astype(np.int64)))
        values = None
        if old is None:
            squares, relative, moved = changes(ranked.values, source)
        else:
            all_rows = np.empty(0, dtype=np.int64) if rows is None else rows
            values = np.empty_like(old) if rows is None else old.copy()
            squares, relative, moved = write_values(ranked.values, ranked.places, all_rows, source, values)
        figures: dict[str, Any] = {
            "eligible": len(ranked),
            "records_swapped": int(moved),
            "left_over": stay,
            "window_percent": solution.percent,
            "window_ranks": int(solution.windows.max(initial=0)) if mask.partner == "uniform" else None,
            "scale_ranks": float(solution.windows.max(initial=0)) if mask.partner == "geometric" else None,
            "target": target.goal,
            "predicted": solution.predicted,
            "correlation": spread.correlation(squares),
            "mean_change": spread.mean_change(relative),
            "re_paired_percent": 100.0 * 4 * re_paired / len(ranked) if len(ranked) else 0.0,
        }
        figures["achieved"] = figures["mean_change" if target.kind == "mean_change" else "correlation"]
        warnings = cautions(column, spread, target, solution, figures, mask.interval)
        sampled = None
        if several and spread.variance > 0:
            law = Law(ranked, spread, mask.partner)
            sampled = sample(
                column, ranked, rows, source, law, solution, figures["correlation"], len(self.data)
            )
        return Swapped(column, ranked, rows, source, values, figures, warnings, sampled)

    def _paired(
        self, column: str, ranked: Ranked, target: Target, solution: Solution, draws: Draws
    ) -> tuple[AnyArray, int, int]:
        """Who takes whose value, how many are left over, and how many moves brought it to the target.

        Where a few far values leave re-pairing no way to the target, the pairs are drawn again, and the
        nearest of all draws is taken.
        """
        from sfumato.kernels.rank_swap import pair_geometric, pair_uniform

        mask, spread = self.mask, solution.spread
        pair = pair_uniform if mask.partner == "uniform" else pair_geometric
        calibrated = target.goal is not None and mask.interval == "calibrated" and mask.adjust
        calibrated = calibrated and spread.variance > 0 and solution.within_reach
        best: tuple[AnyArray, int, int] | None = None
        nearest = math.inf
        for draw in range(1 if not calibrated else _DRAWS if len(ranked) <= _DRAWN_AGAIN else 2):
            source = np.empty(len(ranked), dtype=ranked.places.dtype)
            name = "pairs" if draw == 0 else f"pairs {draw}"
            generator = draws.stream(column, purpose=name).generator()
            left_over = int(pair(ranked.starts, solution.windows, generator, source))
            moves, off = 0, 0.0
            if calibrated:
                moves, off = self._adjust(ranked, source, target, solution, generator)
            if off < nearest:
                best, nearest = (source, left_over, moves), off
            if off <= (NEAR_CHANGE if target.kind == "mean_change" else NEAR_CORRELATION) / 10:
                break
        assert best is not None
        return best

    def _adjust(
        self,
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
        if self.mask.partner == "geometric":  # moves of a usual length; there is no bound to keep to
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
            1e-6 * whole,
            by_change,
            lever,
            size,
            generator,
            n // 40 + 8,
            max(200_000, n // 10),
        )
        off = abs(float(reached) - wanted) / (wanted if by_change else whole)
        return int(moves), off

    # -- sums, and what is told -------------------------------------------------------------------

    def _mend(self, out: Microdata, draws: Draws, notes: Notes) -> Microdata:
        for total, parts in self.plan.rules:
            if self.mask.sum_rule == "scale":
                out = out.with_columns(sums.scaled(self.data, out, total, parts))
                continue
            rest = self._swapped_residual(total, sums.residual(self.data, total, parts), draws, notes)
            out = out.with_columns({total: sums.rebuilt(self.data, out, total, parts, rest)})
            beyond = (out.top_coded(total) | out.bottom_coded(total)) & self.data.eligible(total)
            if beyond.any():
                n = int(beyond.sum())
                notes.warn(
                    f"{total} was added up again beyond its top or bottom code in {n:,} records; "
                    "code it after this step"
                )
        return out

    def _swapped_residual(self, total: str, rest: FloatArray, draws: Draws, notes: Notes) -> FloatArray:
        """The part of a total beyond its components, swapped among the records that have one."""
        movable = self.data.eligible(total) & np.isfinite(rest) & (rest != 0)
        if total in self._fixed:
            movable &= ~self._fixed[total]
        if not movable.any():
            return rest
        if not self.data.schema[total].residual:
            notes.warn(
                f"{total} isn't the sum of its components in {int(movable.sum()):,} records; what it holds "
                f"beyond them is swapped as one more component (variables.{total}.residual = true expects it)"
            )

        label = f"{total} (residual)"
        strata, n_strata = self._codes
        rows = np.flatnonzero(movable)
        ranked = rank(rest[rows], None if strata is None else strata[rows], n_strata)
        target = self.mask.target(self.plan.follows[total])
        spread = Spread.of(ranked)
        if target.kind == "mean_change" and not spread.positive:
            notes.warn(
                f"the residual of {total} has no positive value to hold K0 to; "
                "it is swapped in a window of 5 percent"
            )
            target = Target("window_percent", 5.0)
        solution = solve(
            ranked, spread, target, self.mask.interval, self.mask.partner, adjust=self.mask.adjust
        )
        swapped = self._swap(label, ranked, rows, draws, target, solution, False, rest)
        self._note(swapped, notes)
        assert swapped.values is not None
        return swapped.values

    def _note_block(self, out: Microdata, swapped: Swapped, notes: Notes) -> None:
        """The correlation of each column that travelled with what it was."""
        for column in self._block:
            if self.data.is_numeric(column) and len(swapped.ranked) > 1:
                before, after = self.data.numbers(column), out.numbers(column)
                if swapped.rows is not None:
                    before, after = before[swapped.rows], after[swapped.rows]
                if before.std() > 0:
                    notes.figure("correlation", float(np.corrcoef(before, after)[0, 1]), column)

    def _note(self, swapped: Swapped, notes: Notes) -> None:
        from sfumato.kernels.rank_swap import staying

        for name, value in swapped.figures.items():
            if value is not None and not (isinstance(value, float) and math.isnan(value)):
                notes.figure(name, value, swapped.column)
        for warning in swapped.warnings:
            notes.warn(warning)
        if self.mask.log_pairs:
            listed = np.arange(len(swapped.source))
        else:
            listed = staying(swapped.source, swapped.figures["left_over"])
        if len(listed):
            place = swapped.ranked.places
            record, origin = place[listed], place[swapped.source[listed]]
            if swapped.rows is not None:
                record, origin = swapped.rows[record], swapped.rows[origin]
            notes.add_log(
                pl.DataFrame(
                    {
                        "column": [swapped.column] * len(listed),
                        "record": record.astype(np.int64),
                        "value_from": origin.astype(np.int64),
                    }
                )
            )


def _in_type_of(series: pl.Series, values: AnyArray) -> pl.Series:
    """The new values (physical ones, of dates) as a column of the old one's type."""
    new = pl.Series(series.name, values)
    if series.dtype.is_temporal():
        new = new.cast(series.to_physical().dtype)
    new = new.cast(series.dtype)
    if series.null_count():
        new = pl.select(pl.when(series.is_not_null()).then(new).alias(series.name)).to_series()
    return new


def _sources(n: int, swapped: Swapped) -> pl.Series:
    """Which record each record's values come from."""
    from sfumato.kernels.rank_swap import write_sources

    if swapped.rows is None:
        out = np.empty(n, dtype=swapped.ranked.places.dtype)
        write_sources(swapped.ranked.places, swapped.source, out)
        return pl.Series(out)
    inner = np.empty(len(swapped.rows), dtype=swapped.ranked.places.dtype)
    write_sources(swapped.ranked.places, swapped.source, inner)
    whole = np.arange(n, dtype=np.int64)
    whole[swapped.rows] = swapped.rows[inner]
    return pl.Series(whole)
