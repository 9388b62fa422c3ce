"""Boosted trees on the ranks of two files' columns, for predictions of one column from others.

Each round grows a tree on what the rounds before left over and adds a share of its leaves' means (Friedman
2001, Annals of Statistics 29, 1189-1232, with squared loss). A category is predicted by the shares of its
levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sfumato.data.codes import joint_codes
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.kernels.trees import BINS, SMALL, fall, grow
from sfumato.stats.regression import scores

ROUNDS: Final = 40
RATE: Final = 0.15
LEAF: Final = 10
_LEVELS: Final = 12  # levels of a category that are predicted

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Boosting:
    """Features of both files as whole numbers: ranks of numbers, levels of categories."""

    left: Codes
    right: Codes
    named: BoolArray
    """Which features are categories: their levels are put in the order of the response."""

    @classmethod
    def of(cls, original: Microdata, masked: Microdata, columns: Sequence[str]) -> Boosting:
        sides: list[list[IntArray]] = [[], []]
        named = []
        for column in columns:
            number = all(
                d.kind(column) == "continuous" and d.dtype(column).is_numeric() for d in (original, masked)
            )
            named.append(not number)
            if number:
                one, two = original.numbers(column), masked.numbers(column)
                values = np.unique(np.concatenate([one, two]))
                codes = [np.where(np.isnan(v), -1, np.searchsorted(values, v)) for v in (one, two)]
            else:
                codes = list(joint_codes(original, masked, [column])[:2])
            for side, code in zip(sides, codes, strict=True):
                side.append(code)
        stacked = [
            np.ascontiguousarray(np.stack(s), np.int32) if s else np.zeros((0, 0), np.int32) for s in sides
        ]
        return cls(stacked[0], stacked[1], np.array(named, np.bool_))

    def number(self, rows: IntArray, values: FloatArray, people: IntArray) -> FloatArray:
        """Predicted numbers: the normal score is predicted, and turned back into a value of the release."""
        ordered = np.sort(values)
        z = self._fitted(rows, scores(values, ordered)[:, None], people)[:, 0]
        return np.asarray(np.interp(z, scores(ordered, ordered), ordered))

    def category(self, rows: IntArray, values: FloatArray, people: IntArray) -> FloatArray:
        """Predicted categories: the one with the greatest predicted share."""
        levels, counts = np.unique(values, return_counts=True)
        levels = levels[np.argsort(-counts, kind="stable")[:_LEVELS]]
        shares = self._fitted(rows, (values[:, None] == levels[None, :]).astype(np.float64), people)
        return np.asarray(levels[np.argmax(shares, axis=1)])

    def _fitted(self, rows: IntArray, response: FloatArray, people: IntArray) -> FloatArray:
        if len(rows) > SMALL:  # evenly through the file, whose order says nothing
            some = np.linspace(0, len(rows) - 1, SMALL).astype(np.int64)
            rows, response = rows[some], response[some]
        seen, asked = self.right[:, rows].copy(), self.left[:, people].copy()
        for f in np.flatnonzero(self.named):
            seen[f], asked[f] = _in_order(seen[f], asked[f], response)
        mean = response.mean(axis=0)
        out = np.repeat(mean[None, :], len(people), axis=0)
        rest = np.ascontiguousarray(response - mean)
        n = len(rows)
        fixed = (
            np.zeros((n, len(seen)), np.uint8),
            np.zeros((len(seen), BINS), np.int32),
        )
        starts, classes, mass = np.array([0, n], np.int64), np.zeros(n, np.int32), np.ones(n)
        roots = np.zeros(len(people), np.int32)
        for _ in range(ROUNDS):
            order = np.arange(n, dtype=np.int32)
            feature, cut, below, low, high = grow(seen, *fixed, order, starts, rest, classes, 1, mass, LEAF)
            leaves = np.flatnonzero(feature < 0)
            leaves = leaves[np.argsort(low[leaves])]
            size = (high - low)[leaves]
            means = np.zeros((len(feature), response.shape[1]))
            means[leaves] = RATE * np.add.reduceat(rest[order], low[leaves]) / size[:, None]
            rest[order] -= np.repeat(means[leaves], size, axis=0)
            out += means[fall(feature, cut, below, roots, asked)]
        return np.asarray(out)


def _in_order(seen: Codes, asked: Codes, response: FloatArray) -> tuple[Codes, Codes]:
    """Levels by their mean response (along its widest direction); unknown ones in the middle."""
    size = int(max(seen.max(initial=0), asked.max(initial=0))) + 1
    count = np.bincount(seen, minlength=size)
    sums = np.column_stack([np.bincount(seen, y, minlength=size) for y in response.T])
    centred = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None] - response.mean(axis=0), 0.0)
    axis = np.linalg.svd(centred * np.sqrt(count)[:, None], full_matrices=False)[2][0]
    place = np.argsort(np.argsort(centred @ axis, kind="stable"), kind="stable").astype(np.int32)
    return place[seen], place[asked]
