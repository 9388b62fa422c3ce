"""Means and cross-products of pairs of columns, from blocks of records that are combined in order.

A mean is over the records that have its column, a product over those that have both. Each block is
centred at its own means and combined by Chan, Golub and LeVeque's rule (1983), so that neither large
means nor the number of blocks cost digits.

>>> x = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
>>> whole = PairMoments.of(x, np.isfinite(x))
>>> parts = [PairMoments.of(x[:2], np.isfinite(x[:2])), PairMoments.of(x[2:], np.isfinite(x[2:]))]
>>> bool(np.allclose(combined(parts).products, whole.products)), whole.mean.tolist()
(True, [[3.0, 3.0], [4.0, 4.0]])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class PairMoments:
    """For columns j and k, over the records that have both: how many, the mean of j, the squares of j about
    it, and the products of the two."""

    n: FloatArray
    mean: FloatArray
    squares: FloatArray
    products: FloatArray

    @classmethod
    def of(cls, x: FloatArray, there: BoolArray) -> PairMoments:
        """Those of some records (records × columns), where ``there`` says which values count."""
        with np.errstate(invalid="ignore"):  # what is undefined is judged, not hidden
            return cls._of(x, there)

    @classmethod
    def _of(cls, x: FloatArray, there: BoolArray) -> PairMoments:
        if there.all():
            n = np.full((x.shape[1], x.shape[1]), float(len(x)))
            middle = x.mean(axis=0) if len(x) else np.zeros(x.shape[1])
            centred = x - middle
            products = centred.T @ centred
            return cls(n, _across(middle), _across(np.diag(products)), products)
        flag = there.astype(np.float64)
        n = flag.T @ flag
        some = np.maximum(n, 1.0)
        middle = np.where(there, x, 0.0).sum(axis=0) / np.diag(some)
        centred = np.where(there, x - middle, 0.0)
        shift = centred.T @ flag / some
        squares = np.square(centred).T @ flag - n * np.square(shift)
        products = centred.T @ centred - n * shift * shift.T
        return cls(n, _across(middle) + shift, squares, products)

    def joined(self, other: PairMoments) -> PairMoments:
        n = self.n + other.n
        share = self.n * other.n / np.maximum(n, 1.0)
        # A part that has no record of a pair has no mean to differ by.
        apart = np.where(share > 0, other.mean - self.mean, 0.0)
        mean = np.where(self.n > 0, self.mean, other.mean) + apart * other.n / np.maximum(n, 1.0)
        return PairMoments(
            n,
            mean,
            self.squares + other.squares + np.square(apart) * share,
            self.products + other.products + apart * apart.T * share,
        )

    def error(self, after: PairMoments, order: int = 2, factor: float = 1.0) -> float:
        """The largest error of a mean in standard deviations, or (order 2) of a product that should be
        ``factor`` times as large, relative to both; an undefined one stays undefined."""
        judged = self.n >= 2
        if order == 1:
            judged &= np.eye(len(self.n), dtype=np.bool_)
        if not judged.any():
            return 0.0
        n = np.maximum(self.n, 1.0)
        scale = np.sqrt(np.maximum(self.squares, 0.0) / n)
        scale = np.where(scale == 0, np.maximum(np.abs(self.mean), 1.0), scale)
        error = np.abs(self.mean - after.mean) / scale
        if order == 2:
            change = np.abs(factor * self.products - after.products) / (scale * scale.T) / n
            error = np.maximum(error, change)
        return float(np.max(error[judged]))  # NaN where any is


def combined(parts: Iterable[PairMoments]) -> PairMoments:
    """The moments of all parts, joined in their order."""
    return reduce(PairMoments.joined, parts)


def _across(values: FloatArray) -> FloatArray:
    """Row j holds the value of column j."""
    return np.tile(values[:, None], (1, len(values)))
