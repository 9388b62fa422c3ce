"""Known and released values as intervals of ranks: who is near whom, and how likely.

A value takes the ranks of its ties in the released file. Values that a swap leaves alone stand far
from all ranks and from one another, so that only the same value meets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.data.codes import joint_codes
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.linkage.blocks import Blocks
from sfumato.parallel import in_threads, threads

FAR = 1e12
"""Where values that a swap leaves alone are put."""
_LISTED = 256
_SOME = 4000

Candidates = tuple[IntArray, IntArray, IntArray, FloatArray]
"""How many candidates each record has; where its listed ones start; those, and their log-likelihoods."""


@dataclass(frozen=True)
class RankIntervals:
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
    ) -> RankIntervals:
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
                lows[~moves] = FAR * (1 + np.searchsorted(stays, values[~moves]))
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

    def some(self, most: int = _SOME) -> IntArray:
        """Enough records to estimate windows from, spread over the blocks."""
        n = len(self.start)
        return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.int64)

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

    def scales(self, share: FloatArray) -> FloatArray:
        """Each record's scale of geometric displacements, in ranks."""
        return np.ascontiguousarray(np.maximum(0.25, share[:, None] * self.size))

    def candidates(self, share: FloatArray, rows: IntArray | None = None) -> Candidates:
        """The records within the window, a ``share`` of the ranks, on every column."""
        from sfumato.kernels import rank_attack as kernels

        window = self.windows(share)
        kernel: Any = kernels.rank_candidates

        def run(*arguments: Any) -> None:
            kernel(*arguments[:8], window, *arguments[8:])

        return self.listed(run, self.lead(share), rows)

    def likeliest(self, share: FloatArray, rows: IntArray | None = None) -> Candidates:
        """The likeliest records where displacements have a scale, a ``share`` of the ranks, but no bound."""
        from sfumato.kernels import rank_attack as kernels

        scale = self.scales(share)
        kernel: Any = kernels.likeliest

        def run(*arguments: Any) -> None:
            kernel(*arguments[:8], scale, FAR / 10, *arguments[8:])

        return self.listed(run, self.lead(np.minimum(1.0, 3 * share)), rows)

    def listed(self, kernel: Callable[..., None], lead: int, rows: IntArray | None) -> Candidates:
        top = int(min(_LISTED, max(1, (self.stop - self.start).max())))
        order = np.lexsort((self.other_low[lead], self.right_block))
        other_low = np.ascontiguousarray(self.other_low[:, order])
        other_high = np.ascontiguousarray(self.other_high[:, order])

        def run(rows: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
            counts = np.empty(len(rows), dtype=np.int64)
            places, weights = np.empty((len(rows), top), dtype=np.int64), np.empty((len(rows), top))
            block = self.start[rows], self.stop[rows]
            kernel(rows, *block, lead, self.low, self.high, other_low, other_high, counts, places, weights)
            held = np.arange(top) < np.minimum(counts, top)[:, None]
            return counts, places[held], weights[held]

        parts = in_threads(run, self._parts(rows))
        counts, places, weights = (np.concatenate([p[k] for p in parts]) for k in range(3))
        starts = np.concatenate([[0], np.cumsum(np.minimum(counts, top))]).astype(np.int64)
        return counts, starts, order[places], weights

    def lead(self, share: FloatArray) -> int:
        """The column whose window leaves the fewest records."""
        left = np.empty(len(share))
        n = self.other_low.shape[1]
        for j in range(len(share)):
            stays = self.other_low[j] >= FAR
            _, counts = np.unique(self.other_low[j][stays], return_counts=True)
            moves = 1 - stays.mean()
            left[j] = moves * moves * min(1.0, 2 * share[j]) + float(((counts / n) ** 2).sum())
        return int(left.argmin())

    def true_places(self, blocks: Blocks, truth: IntArray) -> tuple[IntArray, IntArray]:
        """The records whose true counterpart is in their block, and where it stands."""
        place = np.full(max(int(truth.max(initial=0)), int(blocks.right.max(initial=0))) + 2, -1)
        place[blocks.right] = np.arange(len(blocks.right))
        goal = place[truth[blocks.left]]
        rows = np.flatnonzero((goal >= self.start) & (goal < self.stop))
        return rows, goal[rows]

    def holds(self, share: FloatArray, blocks: Blocks, truth: IntArray) -> float:
        """The share of records whose true counterpart is among their candidates."""
        rows, goal = self.true_places(blocks, truth)
        gap, window = self.gap(rows, goal), self.windows(share)[:, rows]
        return float((gap <= window).all(axis=0).sum()) / max(int((truth[blocks.left] >= 0).sum()), 1)

    def gap(self, rows: IntArray, places: IntArray) -> FloatArray:
        """How many ranks apart records and released records are, column by column."""
        after = self.other_low[:, places] - (self.high[:, rows] - 1)
        before = self.low[:, rows] - (self.other_high[:, places] - 1)
        return np.asarray(np.maximum(0.0, np.maximum(after, before)))

    def moved(self, rows: IntArray, places: IntArray) -> FloatArray:
        """The greatest displacement of these links by column, as a share of the ranks."""
        return np.asarray((self.gap(rows, places) / self.size[:, rows]).max(axis=1))
