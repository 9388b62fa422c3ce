"""Known and released values within two bounds of one another, by the law of such a swap.

A swap keeps each column's values, so its law follows from the release: its sorted values, the window and
the reach are all that is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.data.codes import joint_codes
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.linkage.blocks import Blocks
from sfumato.linkage.rank_intervals import FAR, Candidates, RankIntervals
from sfumato.stats.rank_bounds import BoundedLaw

_FEW = 5  # whoever has fewer others within both bounds is exchanged in a group of neighbours,
_GROUP = 10.0  # who are at most so many ranks away


@dataclass(frozen=True)
class BoundedRanks:
    """The law of each column's swap, beside the intervals of ranks (columns × ranks, by stratum)."""

    ranks: RankIntervals
    share: FloatArray
    reach: FloatArray
    values: FloatArray
    offset: IntArray
    ordered: FloatArray
    lonely: BoolArray
    log_h: FloatArray
    log_a: FloatArray
    first: IntArray

    @classmethod
    def of(
        cls,
        ranks: RankIntervals,
        share: FloatArray,
        reach: FloatArray,
        original: Microdata,
        masked: Microdata,
        known: Sequence[str],
        within: Sequence[str],
        blocks: Blocks,
    ) -> BoundedRanks:
        from sfumato.kernels.rank_bounds import count_candidates

        m, n, size = len(known), len(original), len(masked)
        if within:
            left, right, strata = joint_codes(original, masked, within)
        else:
            left, right, strata = np.zeros(n, np.int64), np.zeros(size, np.int64), 1
        values, offset = np.empty((m, n)), np.empty((m, n), np.int64)
        ordered, log_h, log_a = np.zeros((m, size + 1)), np.zeros((m, size + 1)), np.zeros((m, size + 1))
        lonely, first = np.zeros((m, size + 1), np.bool_), np.zeros((m, size + 1), np.int64)
        for j, column in enumerate(known):
            values[j] = original.numbers(column, missing=np.inf)
            b, moves = masked.numbers(column, missing=np.inf), masked.eligible(column)
            order = np.lexsort((b, right))
            order = order[moves[order]]
            starts = np.searchsorted(right[order], np.arange(strata + 1)).astype(np.int64)
            x, k = b[order], len(order)
            windows = np.maximum(1, np.floor(share[j] * np.diff(starts) + 1e-6)).astype(np.int64)
            law = BoundedLaw(x, starts, most=max(k, 1))
            ordered[j, :k] = x
            log_h[j, :k], log_a[j, :k], first[j, :k], _ = law.chances(windows, float(reach[j]))
            few = np.empty(k, np.int64)
            count_candidates(x, starts, windows, float(reach[j]), few)
            lonely[j, :k] = few < _FEW
            offset[j] = starts[left]
        return cls(
            ranks,
            share,
            reach,
            np.ascontiguousarray(values[:, blocks.left]),
            np.ascontiguousarray(offset[:, blocks.left]),
            ordered,
            lonely,
            log_h,
            log_a,
            first,
        )

    def candidates(self, rows: IntArray | None = None) -> Candidates:
        """The records within both bounds on every column."""
        from sfumato.kernels import rank_attack_bounds as kernels

        window = self.ranks.windows(self.share)
        kernel: Any = kernels.bounded_candidates

        def run(*arguments: Any) -> None:
            kernel(
                *arguments[:8],
                window,
                FAR / 10,
                self.values,
                self.offset,
                self.reach,
                _GROUP,
                self.ordered,
                self.lonely,
                self.log_h,
                self.log_a,
                self.first,
                *arguments[8:],
            )

        return self.ranks.listed(run, self.ranks.lead(self.share), rows)

    def holds(self, blocks: Blocks, truth: IntArray) -> float:
        """The share of records whose true counterpart is among their candidates."""
        rows, goal = self.ranks.true_places(blocks, truth)
        gap, window = self.ranks.gap(rows, goal), self.ranks.windows(self.share)[:, rows]
        inside = gap <= window
        low, other = self.ranks.low[:, rows], self.ranks.other_low[:, goal]
        for j in range(len(self.reach)):
            moves = (low[j] < FAR / 10) & (other[j] < FAR / 10)
            p = (self.offset[j, rows] + np.where(moves, low[j], 0)).astype(np.int64)
            q = (self.offset[j, rows] + np.where(moves, other[j], 0)).astype(np.int64)
            near = np.abs(self.ordered[j, q] - self.values[j, rows]) <= self.reach[j]
            group = (gap[j] <= _GROUP) & (self.lonely[j, p] | self.lonely[j, q])
            inside[j] &= near | group | ~moves
        return float(inside.all(axis=0).sum()) / max(int((truth[blocks.left] >= 0).sum()), 1)
