"""Declared edits under a deal of records: mended after it, and never broken by a repair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sfumato.data.edits import Edit
from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.draws import Stream
from sfumato.masks.cluster_shuffle.clauses import Clauses, add_edits
from sfumato.masks.cluster_shuffle.keeping import Kept
from sfumato.stats.levels import CodeArray, Levels

_MENDS: Final = 400


@dataclass(frozen=True)
class Edited:
    """The edits of a file whose columns are dealt one by one."""

    rules: Clauses
    numbers: FloatArray
    at: IntArray

    def broken(self, codes: CodeArray) -> BoolArray:
        """The rows that break an edit."""
        from sfumato.kernels.blocks import count_broken

        return np.asarray(count_broken(codes, *self.rules.arrays(), self.numbers, self.at) > 0)

    def mended(
        self, own: CodeArray, codes: CodeArray, cluster: CodeArray, start: IntArray, stream: Stream
    ) -> BoolArray:
        """Mend the dealt rows, in place. Clusters that can't be mended keep the columns of the edits
        as they stood together, and are told, so that a repair leaves them alone."""
        from sfumato.kernels.blocks import mend

        p = codes.shape[1]
        tied = [j for j in range(p) if self.rules.touching(j, j + 1)]
        moves = np.array([(j, j + 1, 0) for j in tied], np.int64)
        of, places, members = _pool(cluster, start)
        words = stream.bits(0, _MENDS * max(int(self.broken(codes).sum()), 1))
        left = mend(codes, moves, of, places, members, *self.rules.arrays(), self.numbers, self.at, words)
        fixed = np.asarray(np.isin(cluster, cluster[left]))
        rows = np.flatnonzero(fixed)
        for j in tied:
            codes[rows, j] = own[rows, j]
        return fixed

    def repaired(
        self, features: Any, what: Kept, codes: CodeArray, cluster: CodeArray, start: IntArray,
        fixed: BoolArray, gap: FloatArray, weight: FloatArray, heavy: FloatArray, words: Any, goal: float,
    ) -> tuple[int, float]:  # fmt: skip
        """As ``kernels.shuffle.repair``, but no exchange breaks an edit that held; moments of some pairs
        of features only, and weighted ones, are kept where ``what`` says so."""
        from sfumato.kernels.blocks import repair_blocks

        # What weights have to do with the others changes when the others move.
        tries = [j for j in range(codes.shape[1]) if j != what.weight]
        moves = np.array([(j, j + 1, 0, 0) for j in tries], np.int64)
        touching = [self.rules.touching(j, j + 1) for j in tries]
        touched = np.array([c for own in touching for c in own], np.int64)
        touched_at = np.concatenate([[0], np.cumsum([len(c) for c in touching])]).astype(np.int64)
        kind = np.zeros(1, np.int32)
        work: Callable[..., tuple[int, int, float]] = repair_blocks
        on = np.empty((0, 0), np.bool_) if what.plain else what.on
        done, _, left = work(
            features, what.first, codes, moves, kind, self.at, *_pool(cluster, start), fixed, touched,
            touched_at, *self.rules.arrays(), self.numbers, self.at, gap, on, what.main, weight, heavy, words,
            goal,
        )  # fmt: skip
        return done, left


def without_edits(columns: int) -> Edited:
    """No edits at all: for a repair that keeps more than plain moments."""
    return Edited(Clauses(), np.empty(0), np.zeros(columns + 1, np.int64))


def _pool(cluster: CodeArray, start: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """The clusters as the kernels' only pool."""
    n = len(cluster)
    return (
        cluster.reshape(-1, 1).astype(np.int64),
        start.reshape(1, -1).astype(np.int64),
        np.arange(n, dtype=np.int64).reshape(-1, 1),
    )


def edited(columns: Sequence[Levels], edits: Sequence[Edit]) -> Edited | None:
    """The edits of one record that speak of dealt columns only; None where there are none."""
    names = [c.name for c in columns]
    rules = Clauses()

    def where(name: str, slot: int) -> int:
        return names.index(name) if name in names else -1

    add_edits(rules, [e for e in edits if e.members == 1], where, lambda j: columns[j], [0])
    if not rules.literals:
        return None
    at = np.concatenate([[0], np.cumsum([len(c) for c in columns])]).astype(np.int64)
    made = [
        c.numbers if c.ordered else np.where(c.missing, np.nan, np.arange(float(len(c)))) for c in columns
    ]
    return Edited(rules, np.concatenate(made), at)
