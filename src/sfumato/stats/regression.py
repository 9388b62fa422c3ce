"""A ridge regression on normal scores, for predictions of one column from others in two files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.data.microdata import FloatArray, IntArray, Microdata

_RIDGE = 1.0
_LEVELS = 30  # categories of a column that get a coefficient of their own
_FEWEST = 5  # records that a category must have for one


@dataclass(frozen=True)
class Regression:
    """Features of both files: normal scores of numbers by the ranks of the released file, their squares, and
    the frequent categories."""

    left: FloatArray
    right: FloatArray

    @classmethod
    def of(cls, original: Microdata, masked: Microdata, columns: Sequence[str]) -> Regression:
        sides: list[list[FloatArray]] = [[np.ones(len(original))], [np.ones(len(masked))]]
        for column in columns:
            if all(
                d.kind(column) == "continuous" and d.dtype(column).is_numeric() for d in (original, masked)
            ):
                one, two = original.numbers(column), masked.numbers(column)
                sorted_values = np.sort(two[~np.isnan(two)])
                for side, values in zip(sides, (one, two), strict=True):
                    z = np.where(np.isnan(values), 0.0, scores(values, sorted_values))
                    side += [z, z * z, np.isnan(values).astype(np.float64)]
                continue
            first = original.column(column).cast(str).fill_null("")
            second = masked.column(column).cast(str).fill_null("")
            counts = second.value_counts(sort=True).head(_LEVELS)
            for level, count in counts.iter_rows():
                if count >= _FEWEST:
                    sides[0].append((first == level).to_numpy().astype(np.float64))
                    sides[1].append((second == level).to_numpy().astype(np.float64))
        return cls(np.column_stack(sides[0]), np.column_stack(sides[1]))

    def _fit(self, rows: IntArray, target: FloatArray) -> FloatArray:
        x = self.right[rows]
        ridge = _RIDGE * np.eye(x.shape[1])
        ridge[0, 0] = 1e-9
        return np.asarray(np.linalg.solve(x.T @ x + ridge, x.T @ target))

    def number(self, rows: IntArray, values: FloatArray, people: IntArray) -> FloatArray:
        """Predicted numbers: the score is predicted, and turned back into a value of the release."""
        ordered = np.sort(values)
        z = self.left[people] @ self._fit(rows, scores(values, ordered))
        grid = scores(ordered, ordered)
        return np.asarray(np.interp(z, grid, ordered))

    def category(self, rows: IntArray, values: FloatArray, people: IntArray) -> FloatArray:
        """Predicted categories: the one with the greatest predicted share."""
        levels = np.unique(values)
        shares = self.left[people] @ self._fit(rows, (values[:, None] == levels[None, :]).astype(np.float64))
        return np.asarray(levels[np.argmax(shares, axis=1)])


def scores(values: FloatArray, ordered: FloatArray) -> FloatArray:
    """Normal scores of values by their place among the ordered ones, ties in the middle.

    >>> scores(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])).round(3).tolist()
    [-0.967, 0.0, 0.967]
    """
    from scipy.special import ndtri

    n = max(len(ordered), 1)
    low, high = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    return np.asarray(ndtri(np.clip((low + high) / 2 / n, 0.5 / n, 1 - 0.5 / n)))
