"""The intruder who knows that ranks were swapped within a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.draws import Draws
from sfumato.errors import MeasureError, Problem
from sfumato.masks.base import in_threads, threads
from sfumato.measures import Result
from sfumato.microdata import FloatArray, IntArray, Microdata
from sfumato.parameters import parameter
from sfumato.risk.base import Attack
from sfumato.risk.linkage.assign import Links, solve_sparse
from sfumato.risk.linkage.blocks import Blocks, make_blocks
from sfumato.risk.linkage.compare import joint_codes, known_columns
from sfumato.risk.linkage.results import attack_result, block_notes, true_links
from sfumato.schema import Schema

_FAR = 1e12  # where values that a swap leaves alone are put: far from all ranks and from one another
_LISTED = 256
_SOME = 4000


@dataclass(frozen=True, kw_only=True)
class RankAttack(Attack):
    """Re-identify records of a rank-swapped file: whoever is within the window on every column.

    Swapping moves no value by more ranks than the window, so the candidates of a known record are
    the released records whose ranks lie within the window on every known column. The truth is
    always among them: a single candidate is a certain re-identification (``certain_rate``). Who is
    certain is nobody else's candidate, and so on (``propagated_rate``). The rate itself adds the
    law of the displacements, f(s) ∝ 2^(|s|/W) within the window W, and the 1-1 assignment of the
    greatest likelihood. Ties are intervals of ranks; values that a swap leaves alone (missing, top-
    and bottom-coded, imputed) must be the same.

    Without ``window_percent`` the window is the smallest that leaves nobody without a candidate,
    refined column by column from the certain links. More than ``records`` records are attacked by a
    random sample.

    Reference: Nin, Herranz and Torra (2008), Rethinking rank swapping to decrease disclosure risk,
    Data & Knowledge Engineering 64, 346-364; the law of displacements and the assignment are ours.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> ranks = np.arange(30.0)
    >>> people = pl.DataFrame({"A": ranks, "B": ranks[::-1], "C": (ranks * 7) % 30})
    >>> swapped = people.with_columns(pl.all().gather([i ^ 1 for i in range(30)]))
    >>> sf.RankAttack(columns=["A"], window_percent=100 / 30).measure(people, swapped).certain_rate
    0.0
    """

    name: ClassVar[str] = "rank_attack"
    reference: ClassVar[str] = "Nin, Herranz and Torra (2008)"

    columns: tuple[str, ...] = parameter(
        (), doc="The columns that were swapped by rank.", columns="sensitive", numeric=True
    )
    window_percent: float | dict[str, float] | None = parameter(  # noqa: RUF009
        None,
        doc="The window in percent of the ranks (one number, or one a column); estimated if not given.",
        above=0,
        at_most=100,
    )
    known: tuple[str, ...] = parameter(
        (), doc="Those of the columns that the intruder knows; all of them by default.", columns=True
    )
    block_on: tuple[str, ...] = parameter(
        (), doc="Columns that weren't swapped and that the intruder knows exactly.", columns=True
    )
    within: tuple[str, ...] = parameter((), doc="The strata within which the swap was done.", columns=True)
    records: int = parameter(5_000, doc="Attack at most so many records, drawn at random.", at_least=1)
    truth: str | None = parameter(
        None, doc="The id column with the true links; by default record i belongs to record i.", columns=True
    )

    def _check(self) -> Sequence[tuple[str, str | None]]:
        strange = [c for c in self.known if self.columns and c not in self.columns]
        return [(f"`known` names {strange[0]}, which isn't in `columns`", None)] if strange else ()

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        return self.check_columns(types)

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        known = known_columns(original, masked, self.known or self.columns, numbers=True)
        truth = true_links(original, masked, self.truth)
        attacked = np.ones(len(original), dtype=np.bool_)
        sampled = len(original) > self.records
        if sampled:
            pick = draws.stream(purpose="sample").permutation(len(original))[: self.records]
            attacked[:] = False
            attacked[pick] = True
        on = tuple(dict.fromkeys([*self.block_on, *self.within]))
        blocks = make_blocks(original, masked, on, draws, left=np.flatnonzero(attacked))
        if not len(blocks):
            raise MeasureError("no known record shares its block with a released one")
        ranks = _Ranks.of(original, masked, known, self.within, blocks)
        notes = block_notes(on, known, truth=self.truth)
        share, refined = self._window(ranks, known, notes)
        counts, starts, cols, weights = ranks.candidates(share)
        links = self._links(ranks, blocks, truth, starts, cols, weights)
        figures = self._certain(blocks, truth, counts, starts, cols, full=not sampled, n_right=len(masked))
        figures |= {
            "truth_among_candidates": ranks.holds(share, blocks, truth),
            "window_percent": {c: round(100 * float(s), 6) for c, s in zip(known, share, strict=True)},
            "window_known": self.window_percent is not None,
            "window_refined": refined,
        }
        if self.window_percent is None:
            notes.append("a single candidate is certain only if the estimated window isn't too small")
        if sampled:
            notes.append(f"a random sample of {self.records:,} of {len(original):,} records was attacked")
        result = attack_result(
            links, [blocks], truth, one_to_one=True, notes=notes, figures=figures, attacked=attacked
        )
        return result

    def _window(self, ranks: _Ranks, known: Sequence[str], notes: list[str]) -> tuple[FloatArray, bool]:
        """The window of each column as a share of its ranks."""
        if isinstance(self.window_percent, Mapping):
            absent = [c for c in known if c not in self.window_percent]
            if absent:
                raise MeasureError(f"`window_percent` leaves out {', '.join(absent)}")
            notes.append("he knows that ranks were swapped, and the windows")
            return np.array([self.window_percent[c] / 100 for c in known]), False
        if self.window_percent is not None:
            notes.append("he knows that ranks were swapped, and the window")
            return np.full(len(known), self.window_percent / 100), False
        notes.append("he knows that ranks were swapped and estimates the window")
        share = np.full(len(known), ranks.needed())
        # Columns may have windows of their own: certain links show how far each column moved.
        refined = False
        for _ in range(3):
            rows = ranks.some()
            counts, starts, cols, _ = ranks.candidates(share, rows)
            sure = np.flatnonzero(counts == 1)
            if len(sure) < 100:
                break
            moved = ranks.moved(rows[sure], cols[starts[:-1][sure]])
            tighter = np.minimum(share, moved * (1 + 5 / len(sure)))
            if not (tighter < 0.95 * share).any():
                break
            share, refined = tighter, True
        return share, refined

    def _links(
        self,
        ranks: _Ranks,
        blocks: Blocks,
        truth: IntArray,
        starts: IntArray,
        cols: IntArray,
        weights: FloatArray,
    ) -> Links:
        outside = np.full(len(blocks.left), (weights.min() if len(weights) else 0.0) - 100.0)
        edge = solve_sparse(starts, cols, weights, len(blocks.right), outside)
        match = np.full(len(truth), -1, dtype=np.int64)
        weight = np.full(len(truth), np.nan)
        has = edge >= 0
        match[blocks.left[has]] = blocks.right[cols[edge[has]]]
        weight[blocks.left[has]] = weights[edge[has]]
        nearest = np.zeros(len(truth))
        rows = np.repeat(np.arange(len(blocks.left)), np.diff(starts))
        top = np.full(len(blocks.left), -np.inf)
        np.maximum.at(top, rows, weights)
        tied = weights >= top[rows] - 1e-9
        hit = tied & (blocks.right[cols] == truth[blocks.left][rows])
        number = np.bincount(rows[tied], minlength=len(blocks.left))
        nearest[blocks.left] = np.divide(
            np.bincount(rows[hit], minlength=len(blocks.left)),
            number,
            out=np.zeros(len(blocks.left)),
            where=number > 0,
        )
        return Links(match, weight, nearest, blocks.pairs)

    def _certain(
        self,
        blocks: Blocks,
        truth: IntArray,
        counts: IntArray,
        starts: IntArray,
        cols: IntArray,
        *,
        full: bool,
        n_right: int,
    ) -> dict[str, Any]:
        """Single candidates, and what propagation makes of them."""
        from sfumato.kernels import rank_attack as kernels

        goal = truth[blocks.left]
        n = int((goal >= 0).sum())
        listed = np.diff(starts)
        whole = counts == listed  # rows whose candidates are all listed
        single = counts == 1
        sure = (
            blocks.right[cols[np.minimum(starts[:-1], max(len(cols) - 1, 0))]] if len(cols) else goal * 0 - 1
        )
        right = single & (sure == goal)
        # Rows with more candidates than are listed can't be decided by propagation.
        keep = np.repeat(whole, listed)
        part = np.concatenate([[0], np.cumsum(np.where(whole, listed, 0))]).astype(np.int64)
        every = full and bool(whole.all()) and len(blocks.left) == len(blocks.right) == n_right
        fixed = np.asarray(kernels.propagate(part, cols[keep], len(blocks.right), every))
        settled = (fixed >= 0) & (blocks.right[fixed] == goal)
        return {
            "certain_rate": float(right.sum()) / max(n, 1),
            "false_certain": int((single & ~right).sum()),
            "propagated_rate": float(settled.sum()) / max(n, 1),
            "false_propagated": int(((fixed >= 0) & ~settled).sum()),
            "mean_candidates": float(counts.mean()),
            "without_candidate": int((counts == 0).sum()),
        }


@dataclass(frozen=True)
class _Ranks:
    """Both files' values as intervals of ranks in the release (columns × records, by block)."""

    low: FloatArray
    high: FloatArray
    other_low: FloatArray
    other_high: FloatArray
    size: FloatArray
    """How many values were ranked in the record's stratum."""
    start: IntArray
    stop: IntArray
    right_block: IntArray

    @classmethod
    def of(
        cls,
        original: Microdata,
        masked: Microdata,
        known: Sequence[str],
        within: Sequence[str],
        blocks: Blocks,
    ) -> _Ranks:
        n, N, m = len(original), len(masked), len(known)
        low, high, size = np.empty((m, n)), np.empty((m, n)), np.ones((m, n))
        other_low, other_high = np.empty((m, N)), np.empty((m, N))
        if within:
            left_stratum, right_stratum, strata = joint_codes(original, masked, within)
        else:
            left_stratum, right_stratum, strata = np.zeros(n, np.int64), np.zeros(N, np.int64), 1
        for j, column in enumerate(known):
            a, b = original.numbers(column, missing=np.inf), masked.numbers(column, missing=np.inf)
            a_moves, b_moves = original.eligible(column), masked.eligible(column)
            # Values that stay: each distinct one a place of its own, the same in both files.
            stays = np.unique(np.concatenate([a[~a_moves], b[~b_moves]]))
            for values, moves, lows, highs in (
                (a, a_moves, low[j], high[j]),
                (b, b_moves, other_low[j], other_high[j]),
            ):
                lows[~moves] = _FAR * (1 + np.searchsorted(stays, values[~moves]))
                highs[~moves] = lows[~moves] + 1
            order = np.lexsort((b, right_stratum))
            order = order[b_moves[order]]
            first = np.searchsorted(right_stratum[order], np.arange(strata + 1))
            for s in range(strata):
                ranked = b[order[first[s] : first[s + 1]]]
                for values, moves, stratum, lows, highs in (
                    (a, a_moves, left_stratum, low[j], high[j]),
                    (b, b_moves, right_stratum, other_low[j], other_high[j]),
                ):
                    mine = np.flatnonzero(moves & (stratum == s)) if strata > 1 else np.flatnonzero(moves)
                    lows[mine] = np.searchsorted(ranked, values[mine], "left")
                    highs[mine] = np.maximum(np.searchsorted(ranked, values[mine], "right"), lows[mine] + 1)
                size[j, left_stratum == s] = max(len(ranked), 1)
        left_sizes, right_sizes = blocks.sizes
        return cls(
            np.ascontiguousarray(low[:, blocks.left]),
            np.ascontiguousarray(high[:, blocks.left]),
            np.ascontiguousarray(other_low[:, blocks.right]),
            np.ascontiguousarray(other_high[:, blocks.right]),
            np.ascontiguousarray(size[:, blocks.left]),
            np.repeat(blocks.right_starts[:-1], left_sizes),
            np.repeat(blocks.right_starts[1:], left_sizes),
            np.repeat(np.arange(len(blocks)), right_sizes),
        )

    def _parts(self, rows: IntArray | None = None) -> list[IntArray]:
        rows = np.arange(len(self.start)) if rows is None else rows
        return np.array_split(rows, min(len(rows), 4 * threads()))

    def some(self) -> IntArray:
        """Enough records to estimate windows from, spread over the blocks."""
        n = len(self.start)
        return np.arange(n) if n <= _SOME else np.linspace(0, n - 1, _SOME).astype(np.int64)

    def needed(self) -> float:
        """The least window, as a share, that leaves nobody without a candidate."""
        from sfumato.kernels import rank_attack as kernels

        def run(rows: IntArray) -> float:
            out = np.empty(len(rows))
            kernels.needed_window(
                rows,
                self.start[rows],
                self.stop[rows],
                self.low,
                self.high,
                self.other_low,
                self.other_high,
                self.size,
                out,
            )
            return float(out[out < 1.0].max(initial=0.0))

        rows = self.some()
        least = max(in_threads(run, self._parts(rows)))
        # The greatest of a sample falls a little short of the greatest of all.
        return least if len(rows) == len(self.start) else least * (1 + 2 / len(rows))

    def windows(self, share: FloatArray) -> FloatArray:
        """Each record's window in ranks: at least one, unless nothing moved at all."""
        least = np.where(share > 0, 1.0, 0.0)[:, None]
        return np.ascontiguousarray(np.maximum(least, np.floor(share[:, None] * self.size + 1e-6)))

    def candidates(
        self, share: FloatArray, rows: IntArray | None = None
    ) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """How many candidates each record (or each of ``rows``) has, and the likeliest of them."""
        from sfumato.kernels import rank_attack as kernels

        window = self.windows(share)
        top = int(min(_LISTED, max(1, (self.stop - self.start).max())))
        lead = self._lead(share)
        order = np.lexsort((self.other_low[lead], self.right_block))
        other_low = np.ascontiguousarray(self.other_low[:, order])
        other_high = np.ascontiguousarray(self.other_high[:, order])

        def run(rows: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
            counts = np.empty(len(rows), dtype=np.int64)
            places, weights = np.empty((len(rows), top), dtype=np.int64), np.empty((len(rows), top))
            kernels.rank_candidates(
                rows,
                self.start[rows],
                self.stop[rows],
                lead,
                self.low,
                self.high,
                other_low,
                other_high,
                window,
                counts,
                places,
                weights,
            )
            held = np.arange(top) < np.minimum(counts, top)[:, None]
            return counts, places[held], weights[held]

        parts = in_threads(run, self._parts(rows))
        counts, places, weights = (np.concatenate([p[k] for p in parts]) for k in range(3))
        starts = np.concatenate([[0], np.cumsum(np.minimum(counts, top))]).astype(np.int64)
        return counts, starts, order[places], weights

    def _lead(self, share: FloatArray) -> int:
        """The column whose window leaves the fewest records."""
        left = np.empty(len(share))
        n = self.other_low.shape[1]
        for j in range(len(share)):
            stays = self.other_low[j] >= _FAR
            _, counts = np.unique(self.other_low[j][stays], return_counts=True)
            moves = 1 - stays.mean()
            left[j] = moves * moves * min(1.0, 2 * share[j]) + float(((counts / n) ** 2).sum())
        return int(left.argmin())

    def holds(self, share: FloatArray, blocks: Blocks, truth: IntArray) -> float:
        """The share of records whose true counterpart is among their candidates."""
        place = np.full(max(int(truth.max(initial=0)), int(blocks.right.max(initial=0))) + 2, -1)
        place[blocks.right] = np.arange(len(blocks.right))
        goal = place[truth[blocks.left]]
        rows = np.flatnonzero((goal >= self.start) & (goal < self.stop))
        gap, window = self._gap(rows, goal[rows]), self.windows(share)[:, rows]
        return float((gap <= window).all(axis=0).sum()) / max(int((truth[blocks.left] >= 0).sum()), 1)

    def _gap(self, rows: IntArray, places: IntArray) -> FloatArray:
        after = self.other_low[:, places] - (self.high[:, rows] - 1)
        before = self.low[:, rows] - (self.other_high[:, places] - 1)
        return np.asarray(np.maximum(0.0, np.maximum(after, before)))

    def moved(self, rows: IntArray, places: IntArray) -> FloatArray:
        """The greatest displacement of these links by column, as a share of the ranks."""
        return np.asarray((self._gap(rows, places) / self.size[:, rows]).max(axis=1))
