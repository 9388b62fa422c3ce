"""Covariances of real files and their square roots: missing values, exact sums, constants.

Everything is done on the correlation scale, so that a column of cents and one of millions are
treated alike, and every root is rank-revealing: a direction in which the data don't vary (a sum, a
constant) gets no noise, so that what holds exactly in the file holds in the noise.
"""

from __future__ import annotations

import numpy as np

from sfumato.data.microdata import FloatArray, IntArray

RANK_TOLERANCE = 1e-10
"""An eigenvalue (or pivot) of the correlation matrix below this is a direction without variance."""


def from_products(sums: FloatArray, counts: IntArray) -> tuple[FloatArray, bool]:
    """The covariance from lower triangles of pairwise products and counts, and whether it was mended.

    Each element uses the records in which both values are there, as deviations from each column's
    own mean, divided by their number less one. Such a matrix can fail to be a covariance; then the
    negative eigenvalues of its correlation matrix are set to 0 and the variances restored.
    """
    m = len(sums)
    lower = np.tril(sums) / np.maximum(np.tril(counts) - 1, 1)
    lower[np.tril(counts) < 2] = 0.0
    covariance = lower + np.tril(lower, -1).T
    if np.all(counts[np.tril_indices(m)] == counts[0, 0]):
        return covariance, False
    deviation, correlation = standardise(covariance)
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= -1e-12 * m:
        return covariance, False
    mended = (vectors * np.clip(values, 0.0, None)) @ vectors.T
    scale = np.sqrt(np.diag(mended))
    scale[scale == 0] = 1.0
    mended = mended / np.outer(scale, scale)
    return mended * np.outer(deviation, deviation), True


def standardise(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Standard deviations and correlations; a constant column has deviation 0 and correlations 0."""
    deviation = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    divisor = np.where(deviation > 0, deviation, 1.0)
    return deviation, covariance / np.outer(divisor, divisor)


def principal_root(covariance: FloatArray) -> FloatArray:
    """U·Λ^½ of the covariance, largest component first, 0 where there is no variance.

    The sign of each component makes its largest entry positive. Where the variances are so far
    apart (1e12 and more) that the small ones would drown in rounding errors, the root of the
    correlation matrix is taken, each row multiplied by its standard deviation.
    """
    deviation, correlation = standardise(covariance)
    root = _eigen_root(covariance, rank_of(covariance))
    divisor = np.where(deviation > 0, deviation, 1.0)
    scaled = root / divisor[:, None]
    if np.abs(scaled @ scaled.T - correlation).max(initial=0.0) > 1e-6:
        root = _eigen_root(correlation, rank_of(covariance)) * deviation[:, None]
    return root


def _eigen_root(matrix: FloatArray, rank: int) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1], vectors[:, ::-1]
    values = np.where(np.arange(len(values)) < rank, np.clip(values, 0.0, None), 0.0)
    largest = np.abs(vectors).argmax(axis=0)
    sign = np.sign(vectors[largest, np.arange(len(values))])
    root: FloatArray = vectors * np.where(sign == 0, 1.0, sign) * np.sqrt(values)
    return root


def cholesky_root(covariance: FloatArray) -> FloatArray:
    """The lower triangular root; a column that the earlier ones determine has a zero pivot."""
    deviation, correlation = standardise(covariance)
    m = len(deviation)
    lower = np.zeros((m, m))
    for j in range(m):
        pivot = correlation[j, j] - lower[j, :j] @ lower[j, :j]
        if pivot > RANK_TOLERANCE:
            lower[j, j] = np.sqrt(pivot)
            below = correlation[j + 1 :, j] - lower[j + 1 :, :j] @ lower[j, :j]
            lower[j + 1 :, j] = below / lower[j, j]
    return lower * deviation[:, None]


def symmetric_root(covariance: FloatArray) -> FloatArray:
    """U·Λ^½·U′, the symmetric root of the covariance (of the correlations where that is too coarse)."""
    deviation, correlation = standardise(covariance)
    rank = rank_of(covariance)

    def symmetric(matrix: FloatArray) -> FloatArray:
        values, vectors = np.linalg.eigh(matrix)
        keep = np.arange(len(values)) >= len(values) - rank
        out: FloatArray = (vectors * np.sqrt(np.where(keep, np.clip(values, 0.0, None), 0.0))) @ vectors.T
        return out

    root = symmetric(covariance)
    scaled = root / np.where(deviation > 0, deviation, 1.0)[:, None]
    if np.abs(scaled @ scaled.T - correlation).max(initial=0.0) > 1e-6:
        root = symmetric(correlation) * deviation[:, None]
    return root


def rank_of(covariance: FloatArray) -> int:
    """The number of directions in which the data vary, judged on the correlation scale."""
    values = np.linalg.eigvalsh(standardise(covariance)[1])
    return int((values > RANK_TOLERANCE).sum())


ROOTS = {"principal": principal_root, "cholesky": cholesky_root, "symmetric": symmetric_root}


def polished(root: FloatArray, covariance: FloatArray) -> FloatArray:
    """The root nearest to a given one whose square is the covariance to 1e-10 of each pair of deviations.

    A triangular root that drops a small pivot drops its covariances with later columns too, which can
    be as large as its square root; exact moments need better.
    """
    deviation, correlation = standardise(covariance)
    values, vectors = np.linalg.eigh(correlation)
    keep = values > RANK_TOLERANCE
    base = vectors[:, keep] * np.sqrt(values[keep])
    divisor = np.where(deviation > 0, deviation, 1.0)
    turn = (vectors[:, keep] / np.sqrt(values[keep])).T @ (root / divisor[:, None])
    left, _, right = np.linalg.svd(turn, full_matrices=False)
    out: FloatArray = (base @ (left @ right)) * deviation[:, None]
    return out


def whitener(covariance: FloatArray) -> FloatArray:
    """T (rank × m) with T·Σ·T′ = I: x̃ = T·(x − mean) has identity covariance."""
    deviation, correlation = standardise(covariance)
    values, vectors = np.linalg.eigh(correlation)
    keep = values > RANK_TOLERANCE
    divisor = np.where(deviation > 0, deviation, 1.0)
    whitening: FloatArray = (vectors[:, keep] / np.sqrt(values[keep])).T / divisor
    return whitening


def identities(covariance: FloatArray, limit: int = 8) -> list[tuple[int, dict[int, int]]]:
    """Whole-number linear identities among the columns that the covariance suggests.

    Each is (column, {other column: coefficient}): column − Σ coefficient·other doesn't vary. Where
    it can be told, the column is the total and the others its parts. They must be verified on the
    data: the covariance has only 1e-10 of accuracy.
    """
    deviation, correlation = standardise(covariance)
    found: list[tuple[int, dict[int, int]]] = []
    basis: list[int] = []
    for j in range(len(deviation)):
        if deviation[j] == 0:
            continue
        if basis:
            inner = correlation[np.ix_(basis, basis)]
            weight = np.linalg.solve(inner, correlation[basis, j])
            if correlation[j, j] - weight @ correlation[basis, j] <= RANK_TOLERANCE:
                raw = weight * deviation[j] / deviation[basis]
                whole = np.rint(raw)
                if np.abs(raw - whole).max() < 1e-4 and 0 < np.count_nonzero(whole) <= limit:
                    parts = {basis[i]: int(whole[i]) for i in np.flatnonzero(whole)}
                    found.append(_as_total(j, parts))
                continue
        basis.append(j)
    taken: set[int] = set()
    out = []
    for total, parts in found:
        if total not in taken and not taken & set(parts):
            out.append((total, parts))
            taken.add(total)
    return out


def _as_total(column: int, parts: dict[int, int]) -> tuple[int, dict[int, int]]:
    """a = t − b rewritten as t = a + b."""
    positive = [k for k, c in parts.items() if c == 1]
    negative = [k for k, c in parts.items() if c == -1]
    if len(positive) == 1 and len(negative) == len(parts) - 1 and negative:
        return positive[0], {column: 1, **{k: 1 for k in negative}}
    return column, parts
