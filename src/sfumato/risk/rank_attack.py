"""The intruder who knows that ranks were swapped within a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Exchanged, of_kind
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import MeasureError, Problem
from sfumato.linkage.assign import Links, solve_sparse
from sfumato.linkage.blocks import Blocks, make_blocks
from sfumato.linkage.fields import known_columns
from sfumato.linkage.rank_bounds import BoundedRanks
from sfumato.linkage.rank_intervals import Candidates, RankIntervals
from sfumato.linkage.results import attack_result, block_notes, true_links, wilson
from sfumato.stats.rank_law import MEAN_GEOMETRIC_SHIFT, SCALE_PER_WINDOW

_FITTED = 250  # records from which the scales of geometric displacements are estimated
_ROUNDS = 5


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

    A swap within two bounds moves no value further than ``reach`` either. Its law follows from the
    released values: with h and A of the one-pass law, rank j was exchanged with k > j with the chance
    h_j A(j)/A(first(k)). Whoever has hardly anybody within both bounds was exchanged with a neighbour.

    Without ``window_percent`` the window is the smallest that leaves nobody without a candidate,
    refined column by column from the certain links. More than ``records`` records are attacked by a
    random sample. A list of everybody would find more of them, since each takes away a record from the
    others: the interval then reaches to the rate of somebody who is told which released records are those of
    the sample (``rate_at_most``).

    A swap with ``partner="geometric"`` has no window. Against it the intruder uses the law of its
    displacements, f(s) = ln 2 · e^(−v) · 2^(−e^(−v)) / L with v = |s|/L: everybody is a candidate,
    nobody is certain, and the rate is that of the likeliest assignment. ``window_percent`` then names
    the uniform window of the same mean square displacement, as in the mask; else the scale L of each
    column is estimated (EM over the likeliest candidates). Who knows the method knows the law:
    ``partner="auto"`` tries both and tells of the one that finds more people; where a window was given,
    it is a bound.

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
    compares_all: ClassVar[bool] = False

    columns: tuple[str, ...] = parameter(
        (), doc="The columns that were swapped by rank.", columns="sensitive", numeric=True
    )
    window_percent: float | dict[str, float] | None = parameter(  # noqa: RUF009
        None,
        doc="The window in percent of the ranks (one number, or one a column); estimated if not given.",
        above=0,
        at_most=100,
    )
    reach: float | dict[str, float] | None = parameter(  # noqa: RUF009
        None,
        doc="How far in value a swap within two bounds went at most (one number, or one a column).",
        above=0,
    )
    partner: Literal["auto", "uniform", "geometric"] = parameter(
        "auto",
        doc="The law of the swap that he knows; by default the one that finds more people.",
    )
    known: tuple[str, ...] = parameter(
        (), doc="Those of the columns that the intruder knows; all of them by default.", columns=True
    )
    block_on: tuple[str, ...] = parameter(
        (), doc="Columns that weren't swapped and that the intruder knows exactly.", columns=True
    )
    within: tuple[str, ...] = parameter((), doc="The strata within which the swap was done.", columns=True)
    records: int = parameter(20_000, doc="Attack at most so many records, drawn at random.", at_least=1)
    truth: str | None = parameter(
        None, doc="The id column with the true links; by default record i belongs to record i.", columns=True
    )

    @classmethod
    def against(cls, step: Mask, data: Microdata, intruder: Intruder) -> Sequence[Attack]:
        out: list[Attack] = []
        for fact in of_kind(Exchanged, step.discloses(data)):
            windows = {c: w for c, w in fact.window_percent.items() if c in intruder.numbers}
            if not windows:
                continue
            same = len(set(windows.values())) == 1
            out.append(
                cls(
                    columns=tuple(windows),
                    block_on=tuple(c for c in intruder.block_on if c not in fact.columns),
                    window_percent=next(iter(windows.values())) if same else windows,
                    reach={c: r for c, r in fact.reach.items() if c in windows} or None,
                    within=fact.within,
                    partner="geometric" if fact.law == "geometric" else "uniform",
                )
            )
        return out

    def _check(self) -> Sequence[Fault]:
        strange = [c for c in self.known if self.columns and c not in self.columns]
        return [(f"`known` names {strange[0]}, which isn't in `columns`", None, "known")] if strange else ()

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
        ranks = RankIntervals.of(original, masked, known, self.within, blocks)
        bounded = self._bounded(ranks, original, masked, known, blocks)
        notes = block_notes(on, known, truth=self.truth)
        tried = [
            self._attempt(
                law,
                share,
                refined,
                ranks,
                bounded,
                blocks,
                truth,
                known,
                full=not sampled,
                n_right=len(masked),
            )
            for law, (share, refined) in self._laws(ranks, known).items()
        ]
        links, figures, said = max(tried, key=lambda one: float((one[0].match == truth)[attacked].mean()))
        notes += said
        if len(tried) > 1:
            notes.append("he tries swaps with and without a bound; this is the one that finds more people")
        result = attack_result(
            links, [blocks], truth, one_to_one=True, notes=notes, figures=figures, attacked=attacked
        )
        if not sampled or result.interval is None:
            return result
        most = float(figures["rate_at_most"])
        told = (
            f"a random sample of {self.records:,} of {len(original):,} records was attacked; a list of "
            f"everybody finds more of them, {100 * most:.1f}% at most, and the interval reaches as far"
        )
        high = max(result.interval[1], wilson(most * self.records, self.records)[1])
        return replace(result, notes=(*result.notes, told), interval=(result.interval[0], high))

    def _laws(self, ranks: RankIntervals, known: Sequence[str]) -> dict[str, tuple[FloatArray, bool]]:
        """The laws that he tries, with the window (or scale) of each column as a share of its ranks, and
        whether certain links told columns apart."""
        given = self._given(known)
        if given is not None:
            geometric = self.partner == "geometric"
            return (
                {"geometric": (given * SCALE_PER_WINDOW, False)} if geometric else {"uniform": (given, False)}
            )
        out = {}
        if self.partner != "geometric":
            out["uniform"] = self._window(ranks)
        if self.partner != "uniform":
            out["geometric"] = fitted_scales(ranks), False
        if self.partner == "auto":
            rows = ranks.some(_FITTED)
            bounded = evidence(ranks.candidates(out["uniform"][0], rows))
            unbounded = evidence(ranks.likeliest(out["geometric"][0], rows))
            if bounded.mean() > unbounded.mean() + 1.0:  # no doubt about it, so no need to try
                del out["geometric"]
        return out

    def _attempt(
        self,
        law: str,
        share: FloatArray,
        refined: bool,
        ranks: RankIntervals,
        within_both: BoundedRanks | None,
        blocks: Blocks,
        truth: IntArray,
        known: Sequence[str],
        *,
        full: bool,
        n_right: int,
    ) -> tuple[Links, dict[str, Any], list[str]]:
        """The links that one law of displacements leads to, its figures and what to say of it."""
        given = self.window_percent is not None
        bounded = law == "uniform"
        notes = [
            f"he knows that ranks were swapped {'within a window' if bounded else 'without a bound'}, "
            f"and {'the window' if given else 'estimates how far'}"
        ]
        if within_both is not None:
            windows, reach = share, share
            counts, starts, cols, weights = within_both.candidates()
            notes.append("he knows how far in value the swap went at most")
        elif bounded:
            windows, reach = share, share
            counts, starts, cols, weights = ranks.candidates(share)
            if not given:
                notes.append("a single candidate is certain only if the estimated window isn't too small")
        else:
            windows, reach = share / SCALE_PER_WINDOW, np.full(len(share), np.inf)
            counts, starts, cols, weights = ranks.likeliest(share)
        links = self._links(blocks, truth, starts, cols, weights)
        figures = self._certain(blocks, truth, counts, starts, cols, full=full, n_right=n_right)
        if not full:
            figures["rate_at_most"] = self._among_themselves(blocks, truth, starts, cols, weights)
        figures |= {
            "truth_among_candidates": (
                ranks.holds(reach, blocks, truth) if within_both is None else within_both.holds(blocks, truth)
            ),
            "window_percent": {c: round(100 * float(s), 6) for c, s in zip(known, windows, strict=True)},
            "window_known": given,
            "window_refined": refined,
            "law": law if within_both is None else "two bounds",
        }
        held = figures["truth_among_candidates"]
        if given and held < 0.99:
            notes.append(
                f"only {held:.0%} of the records moved within this window: it is too small, or there was "
                'none (partner = "geometric")'
            )
        return links, figures, notes

    def _bounded(
        self,
        ranks: RankIntervals,
        original: Microdata,
        masked: Microdata,
        known: Sequence[str],
        blocks: Blocks,
    ) -> BoundedRanks | None:
        """The law of a swap within two bounds, where he knows both."""
        share = self._given(known)
        if share is None or self.reach is None or self.partner == "geometric":
            return None
        given = self.reach if isinstance(self.reach, Mapping) else dict.fromkeys(known, self.reach)
        reach = np.array([float(given.get(column, np.inf)) for column in known])
        return BoundedRanks.of(ranks, share, reach, original, masked, known, self.within, blocks)

    def _given(self, known: Sequence[str]) -> FloatArray | None:
        if isinstance(self.window_percent, Mapping):
            absent = [c for c in known if c not in self.window_percent]
            if absent:
                raise MeasureError(f"`window_percent` leaves out {', '.join(absent)}")
            return np.array([self.window_percent[c] / 100 for c in known])
        return None if self.window_percent is None else np.full(len(known), self.window_percent / 100)

    def _window(self, ranks: RankIntervals) -> tuple[FloatArray, bool]:
        """The estimated window of each column as a share of its ranks, and whether certain links
        told columns apart."""
        share = np.full(len(ranks.low), ranks.needed())
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
        rows, top = _tops(starts, weights)
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

    def _among_themselves(
        self, blocks: Blocks, truth: IntArray, starts: IntArray, cols: IntArray, weights: FloatArray
    ) -> float:
        """The rate if he were told which released records are those of the persons attacked.

        Who isn't attacked takes no record away from those who are; an assignment of everybody would find
        more of them, and no more than this.
        """
        theirs = np.zeros(int(max(truth.max(initial=-1), blocks.right.max(initial=-1))) + 1, np.bool_)
        theirs[truth[blocks.left]] = True
        held = theirs[blocks.right[cols]]
        rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))[held]
        fewer = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(starts) - 1))])
        links = self._links(blocks, truth, fewer.astype(np.int64), cols[held], weights[held])
        return float((links.match[blocks.left] == truth[blocks.left]).mean())

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


def _tops(starts: IntArray, weights: FloatArray) -> tuple[IntArray, FloatArray]:
    """The record of each listed candidate, and the greatest log-likelihood of each record."""
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    top = np.full(len(starts) - 1, -np.inf)
    np.maximum.at(top, rows, weights)
    return rows, top


def evidence(candidates: Candidates) -> FloatArray:
    """Each record's log-likelihood with all of its candidates alike, −100 where it has none."""
    _, starts, _, weights = candidates
    rows, top = _tops(starts, weights)
    total = np.bincount(rows, np.exp(weights - top[rows]), minlength=len(top))
    out = np.full(len(top), -100.0)
    out[total > 0] = top[total > 0] + np.log(total[total > 0])
    return out


def fitted_scales(ranks: RankIntervals) -> FloatArray:
    """The scale of geometric displacements of each column, as a share of its ranks.

    Rounds of expectation and maximisation: how likely each candidate is with the scales so far, and
    the mean displacement of all of them so weighted, over that of a scale of one.
    """
    rows = ranks.some(_FITTED)
    share = np.full(len(ranks.low), max(ranks.needed(), 1e-9) / 3)
    for _ in range(_ROUNDS):
        _, starts, cols, weights = ranks.likeliest(share, rows)
        if not len(cols):
            break
        at, top = _tops(starts, weights)
        chance = np.exp(weights - top[at])
        chance /= np.bincount(at, chance)[at]
        moved = ranks.gap(rows[at], cols) / ranks.size[:, rows[at]]
        new = np.maximum((moved * chance).sum(axis=1) / chance.sum() / MEAN_GEOMETRIC_SHIFT, 1e-9)
        if np.allclose(new, share, rtol=0.03):
            return np.asarray(new)
        share = np.asarray(new)
    return share
