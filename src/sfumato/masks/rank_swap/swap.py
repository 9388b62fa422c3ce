"""A rank swap carried out: every column swapped, sums mended, and what there is to tell of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from sfumato.contract.mask import Notes
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MaskError, Problem, counted
from sfumato.masks.rank_swap import sums
from sfumato.masks.rank_swap.far import Bounded
from sfumato.masks.rank_swap.law import Law, Spread
from sfumato.masks.rank_swap.on_file import OnFile, codes_of, in_type_of
from sfumato.masks.rank_swap.pairing import Way, pair
from sfumato.masks.rank_swap.pairs import Expected, Sampled, expected_far, pair_figures, sample
from sfumato.masks.rank_swap.ranks import AnyArray, Ranked, order_ties, rank
from sfumato.masks.rank_swap.targets import Solution, Target, solve
from sfumato.masks.rank_swap.warnings import column_warnings
from sfumato.parallel import in_threads


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
    codes: dict[str, Any]
    """The codes that far values took: "top", "bottom"."""


class Swap(OnFile):
    """One mask carried out on one file."""

    def carry_out(self, draws: Draws, notes: Notes) -> Microdata:
        """Swap every column, mend the sums, and say what happened."""
        data = self.data
        leads = [self._block[0]] if self.mask.together else list(self.plan.swapped)
        several = len(leads) > 1

        def one(lead: str) -> tuple[dict[str, pl.Series], Swapped] | Problem:
            movable = None if self.may_all_move(lead) else self.may_move(lead)
            scores = self.scores(lead)
            label = "+".join(self._block) if self.mask.together else lead
            ranked, rows = self.ranked(lead, scores.values, movable)
            target = self.mask.target(self.plan.swapped[lead])
            direct = scores.values if scores.exact and not self.mask.together else None
            solution = self.solution(lead, ranked, target)
            problem = self.refused(lead, ranked, target, solution)
            if problem is not None:
                return problem
            swapped = self._swap(label, ranked, rows, draws, target, solution, several, direct)
            if self.mask.keep_zeros:
                swapped.figures["zeros_kept"] = self._zeros(lead)
            if swapped.values is not None:
                return {lead: in_type_of(data.column(lead), swapped.values)}, swapped
            take = _sources(len(data), swapped)
            block = self._block if self.mask.together else (lead,)
            return {column: data.column(column).gather(take) for column in block}, swapped

        new: dict[str, pl.Series] = {}
        done: list[Swapped] = []
        problems: list[Problem] = []
        for outcome in in_threads(one, leads):
            if isinstance(outcome, Problem):
                problems.append(outcome)
            else:
                new |= outcome[0]
                done.append(outcome[1])
        if problems:
            raise MaskError(
                "; ".join(f"rank_swap: {p.message}" for p in problems),
                hint="; ".join(f"{p.hint}" for p in problems),
            )
        out = data.with_columns(new)
        for swapped in done:
            self._note(swapped, notes)
            if swapped.codes:
                out = out.with_variable(swapped.column, **swapped.codes)
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
        from sfumato.kernels.rank_swap import changes, sum_in_core, write_values

        mask, bounded = self.mask, solution.bounded
        order_ties(ranked, draws, column)
        way = Way(mask.partner, mask.leftover, mask.adjust and mask.interval != "theorem")
        paired = pair(way, column, ranked, target, solution, draws)
        source, spread = paired.source, solution.spread
        far = None if bounded is None else bounded.far
        new = ranked.values
        if far is not None and far.codes:
            new = ranked.values.copy()
            for (start, stop), code in far.codes:
                new[start:stop] = code
        values = None
        if old is None:
            squares, relative, moved = changes(new, source)
        else:
            all_rows = np.empty(0, dtype=np.int64) if rows is None else rows
            values = np.empty_like(old) if rows is None else old.copy()
            squares, relative, moved = write_values(new, ranked.places, all_rows, source, values)
        if far is not None:  # the target is that of the values that are swapped within both bounds
            squares = sum_in_core(ranked.values, source, far.core)
        positive = spread.positive if far is None else int((ranked.values > 0).sum())
        uniform = mask.partner == "uniform"
        figures: dict[str, Any] = {
            "eligible": len(ranked),
            "records_swapped": int(moved),
            "left_over": paired.left_over,
            "window_percent": solution.percent,
            "window_ranks": int(solution.windows.max(initial=0)) if uniform else None,
            "scale_ranks": None if uniform else float(solution.windows.max(initial=0)),
            "target": target.goal,
            "predicted": solution.predicted,
            "correlation": spread.correlation(squares),
            "rank_correlation": paired.rank_correlation,
            "mean_change": relative / positive if positive else math.nan,
            "re_paired_percent": 100.0 * 4 * paired.moves / len(ranked) if len(ranked) else 0.0,
        }
        figures["achieved"] = figures["mean_change" if target.kind == "mean_change" else "correlation"]
        if bounded is not None:
            figures |= _bounds_figures(bounded, ranked, new, source)
        warnings = column_warnings(
            column, spread, target, solution, figures, mask.interval, mask.min_candidates
        )
        sampled = None
        if several and spread.variance > 0:
            sampled = sample(
                column,
                ranked,
                rows,
                new,
                source,
                self._expected(ranked, new, solution),
                figures["correlation"],
                len(self.data),
            )
        codes = {} if old is None else codes_of(solution)
        return Swapped(column, ranked, rows, source, values, figures, warnings, sampled, codes)

    def _expected(self, ranked: Ranked, new: AnyArray, solution: Solution) -> Callable[[IntArray], Expected]:
        """The expected swapped value and square at some ranks."""
        if solution.bounded is not None:
            return partial(expected_far, ranked, new, solution.bounded)
        law = Law(ranked, solution.spread, self.mask.partner)
        return partial(law.expected, solution.windows)

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
        mask = self.mask
        if self._two_bounds(target) and spread.variance > 0:
            solution = self._within_bounds(label, ranked, target, False)
        else:
            solution = solve(ranked, spread, target, mask.interval, mask.partner, adjust=mask.adjust)
        swapped = self._swap(label, ranked, rows, draws, target, solution, False, rest)
        self._note(swapped, notes)
        assert swapped.values is not None
        return swapped.values

    def _note_block(self, out: Microdata, swapped: Swapped, notes: Notes) -> None:
        """The correlation of each column that travelled with what it was."""
        if len(self._block) > 1:
            notes.warn(
                f"the values of {', '.join(self._block)} travel as one string, so that every string of the "
                "original is in the release: whoever knows several of them finds it there"
            )
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
        elif swapped.codes:
            listed = np.flatnonzero(swapped.source == np.arange(len(swapped.source)))
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

    def refused(self, column: str, ranked: Ranked, target: Target, solution: Solution) -> Problem | None:
        """What is wrong where far values aren't to be treated, and what each way of treating them costs."""
        far = None if solution.bounded is None else solution.bounded.far
        if far is None or self.mask.far_values != "refuse":
            return None
        ways = []
        for code in (True, False):
            tried = self._within_bounds(column, ranked, target, code).bounded
            if tried is None or tried.far is None or (code and not tried.far.codes):
                continue
            word = "code" if code else "group"
            ways.append(f'far_values = "{word}" ({_cost(ranked, tried)})')
        return Problem(
            0,
            f"{counted(far.few, 'value')} of {column} with fewer than {self.mask.min_candidates} others "
            "within both bounds: anybody could say where they went",
            " or ".join(ways),
        )


def _bounds_figures(bounded: Bounded, ranked: Ranked, new: AnyArray, source: AnyArray) -> dict[str, Any]:
    """What two bounds left each value to be exchanged with, and what far values cost."""
    n = max(len(ranked), 1)
    least, low, median = bounded.candidates(ranked)
    out: dict[str, Any] = {
        "candidates_median_percent": 100.0 * median / n,
        "candidates_low_percent": 100.0 * low / n,
        "candidates_least": least,
    }
    if bounded.far is not None:
        out["far_values"] = bounded.far.few
        out["far_coded"] = bounded.far.coded
        out["far_grouped"] = bounded.far.grouped
        out["correlation_with_far"] = _correlation(ranked.values, new[source])
    return out


def _cost(ranked: Ranked, bounded: Bounded) -> str:
    """What coding or grouping far values would cost: how many, and R(a,a′) with them."""
    assert bounded.far is not None
    from sfumato.kernels.rank_law import moments

    values = ranked.values.astype(np.float64)
    mean, variance = moments(values, float(values.mean()))
    squares = bounded.bounds.loss * 2.0 * bounded.far.core.sum() * bounded.variance
    code_shift = 0.0
    for (start, stop), code in bounded.far.codes:
        squares += float(((values[start:stop] - code) ** 2).sum())
        code_shift += float((code - values[start:stop]).sum())
    for start, stop in bounded.far.groups:
        x = values[start:stop] - values[start:stop].mean()
        squares += 2.0 * (stop - start) / max(stop - start - 1, 1) * float((x * x).sum())
    parts = []
    if bounded.far.coded:
        change = 100 * code_shift / len(values) / mean if mean else 0.0
        parts.append(f"{bounded.far.coded:,} values coded, the mean changes by {change:+.2g}%")
    if bounded.far.grouped:
        parts.append(f"{bounded.far.grouped:,} exchanged among themselves")
    return f"{', '.join(parts)}, R(a,a′) about {1.0 - squares / (2.0 * len(values) * variance):.4f} with them"


def _correlation(x: AnyArray, y: AnyArray) -> float:
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(float((x * x).sum()) * float((y * y).sum()))
    return float((x * y).sum()) / scale if scale > 0 else math.nan


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
