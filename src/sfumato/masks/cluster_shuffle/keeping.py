"""What a repair brings back: features of each column, and which of their mean products are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.stats.levels import CUTS, CodeArray, Levels, named_features, scores

Keep = Literal["pairs", "moments", "values", "none"]
"""What is kept, from much to nothing; ``values`` are moments of values, without scores and flags."""
FeatureArray = npt.NDArray[np.float32]

MOST_KEPT: Final = 0.1
"""Kept numbers a cell, at most: with more of them a repair can rebuild whole people."""


@dataclass(frozen=True)
class Kept:
    """What is kept of each column: tables of features by level, and which products of two are."""

    keep: Keep
    tables: tuple[tuple[FloatArray, ...], ...] = ()
    kinds: tuple[tuple[str, ...], ...] = ()
    """What each feature is (:func:`sfumato.stats.levels.named_features`)."""
    scores: tuple[FloatArray, ...] = ()
    weights: FloatArray | None = None
    """By level of the column of weights, a weight whose mean is 1: weighted products are kept, too."""
    weight: int = -1
    more: bool = False
    """Whether squares and weighted moments were asked for."""
    tied: bool = False
    """Whether the deal has the pooled correlations, before any repair."""

    @cached_property
    def first(self) -> IntArray:
        """Where each column's features begin."""
        return np.concatenate([[0], np.cumsum([len(t) for t in self.tables])]).astype(np.int64)

    @cached_property
    def _kinds(self) -> npt.NDArray[np.str_]:
        return np.array([k for own in self.kinds for k in own], dtype="U8")

    @cached_property
    def _owner(self) -> IntArray:
        return np.repeat(np.arange(len(self.tables)), np.diff(self.first))

    @cached_property
    def on(self) -> BoolArray:
        """Which products of two features are kept: those of two columns. A square is kept beside being
        missing (so that variances among pairs of known values are) and beside the weight, not else."""
        square = self._kinds == "square"
        beside = (self._kinds == "missing") | ((self._kinds == "value") & (self._owner == self.weight))
        out = self._owner[:, None] != self._owner[None, :]
        out &= ~square[:, None] | beside[None, :]
        out &= ~square[None, :] | beside[:, None]
        return np.asarray(out)

    @cached_property
    def plain(self) -> bool:
        """Whether all products of two columns' features are kept, and nothing else."""
        return self.weights is None and not (self._kinds == "square").any()

    @cached_property
    def main(self) -> IntArray:
        """The features whose weighted products are kept: values, but for the weight's own."""
        if self.weights is None:
            return np.empty(0, np.int64)
        return np.flatnonzero((self._kinds == "value") & (self._owner != self.weight))

    @property
    def numbers(self) -> int:
        """Cross moments, weighted ones, and pooled correlations of one region."""
        if self.keep == "none":
            return 0
        p, m = len(self.tables), len(self.main)
        pooled = p * (p - 1) // 2 if self.tied else 0
        return int(self.on.sum()) // 2 + m * (m - 1) // 2 + pooled

    def features(
        self, codes: CodeArray, aims: Sequence[npt.NDArray[np.float32] | None] | None = None
    ) -> FeatureArray:
        """Rows × features of these codes; with ``aims``, values as they were before they were blurred."""
        out = np.empty((len(codes), int(self.first[-1])), np.float32)
        u = 0
        for j, (tables, kinds) in enumerate(zip(self.tables, self.kinds, strict=True)):
            aim = aims[j] if aims is not None else None
            for table, kind in zip(tables, kinds, strict=True):
                if aim is not None and kind == "value":
                    out[:, u] = aim
                else:
                    out[:, u] = table.astype(np.float32)[codes[:, j]]
                u += 1
        return out

    def row_weights(self, codes: CodeArray) -> FloatArray:
        """Each row's weight; none where weighted moments aren't kept."""
        return np.empty(0) if self.weights is None else self.weights[codes[:, self.weight]]

    def gaps(
        self, now: FeatureArray, now_weight: FloatArray, then: FeatureArray, then_weight: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Mean products now less those then: all that are kept, and (by ``main``) the weighted ones."""
        from sfumato.kernels.shuffle import moment_gap

        gap = moment_gap(now, then)
        gap[~self.on] = 0.0
        m = len(self.main)
        if not m:
            return gap, np.zeros((0, 0))
        sides = [
            (x[:, self.main] * np.sqrt(w)[:, None]).astype(np.float32)
            for x, w in ((now, now_weight), (then, then_weight))
        ]
        heavy = moment_gap(*sides)
        heavy[np.eye(m, dtype=np.bool_)] = 0.0
        return gap, heavy


def kept(columns: Sequence[Levels], keep: Keep, weight: str | None = None, *, more: bool = True) -> Kept:
    """What ``keep`` means for these columns; ``weight`` is one whose weighted moments are kept, too.

    Without ``more``, neither these nor squares are; ``values`` without it leave pooled correlations away.
    """
    if keep == "none":
        return Kept(keep)
    cuts = CUTS if keep == "pairs" else ()
    tied = more or keep != "values"
    more = more and keep != "values"
    found = [named_features(c, cuts=cuts) for c in columns]
    names = [c.name for c in columns]
    at = names.index(weight) if more and weight in names else -1
    weights = _weights(columns[at]) if at >= 0 else None
    if weights is None:
        at = -1
    if more:
        gone = {j for j, own in enumerate(found) if any(kind == "missing" for kind, _ in own)}
        if gone or at >= 0:
            found = [
                named_features(c, cuts=cuts, square=bool(gone - {j}) or (at >= 0 and at != j))
                for j, c in enumerate(columns)
            ]
    if keep == "values":
        found = [own[:1] for own in found]
    return Kept(
        keep,
        tuple(tuple(f for _, f in own) for own in found),
        tuple(tuple(kind for kind, _ in own) for own in found),
        tuple(scores(c) for c in columns),
        weights,
        at,
        more,
        tied,
    )


def _weights(levels: Levels) -> FloatArray | None:
    """Each level's weight over the mean weight; None where they aren't weights."""
    own = np.where(np.isfinite(levels.numbers), levels.numbers, 0.0)
    mean = float((own * levels.counts).sum() / max(int(levels.counts.sum()), 1))
    return own / mean if levels.ordered and mean > 0 and own.min(initial=0.0) >= 0 else None
