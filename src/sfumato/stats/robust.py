"""A robust centre and covariance: the half of the records that lies closest together, without draws.

Reference: Hubert, M., Rousseeuw, P. J., Verdonck, T. (2012). A deterministic algorithm for robust location
and scatter. Journal of Computational and Graphical Statistics 21, 618-637.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sfumato.stats.ranks import mid_ranks

FloatArray = npt.NDArray[np.float64]

STEPS = 100
_CUT = 0.975


def robust_distances(values: FloatArray) -> FloatArray:
    """Robust Mahalanobis distances of records × columns, from the minimum covariance determinant.

    Columns that others determine (a total and its parts) don't count twice: directions without
    spread are left out. A missing value stands at its column's centre.

    >>> import numpy as np
    >>> line = np.arange(21.0)[:, None] / 10
    >>> far = robust_distances(np.vstack([line, [[50.0]]]))
    >>> bool(far[-1] > 20 > 3 > far[:-1].max())
    True
    """
    complete = values[~np.isnan(values).any(axis=1)]
    if len(complete) < 2:
        return np.zeros(len(values))
    middle = np.median(complete, axis=0)
    spread = _spread(complete - middle)
    z = (values - middle) / spread
    inside = z[~np.isnan(z).any(axis=1)]
    centre, covariance = _reweighted(inside, *_best(inside))
    z = np.where(np.isnan(z), centre, z)
    return np.sqrt(_squared(z, centre, covariance))


def _spread(centred: FloatArray) -> FloatArray:
    """Each column's median absolute deviation (for normal data its standard deviation); where more than
    half of the values are one, the standard deviation itself."""
    mad = 1.4826 * np.median(np.abs(centred), axis=0)
    usual = centred.std(axis=0)
    return np.where(mad > 0, mad, np.where(usual > 0, usual, 1.0))


def _squared(z: FloatArray, centre: FloatArray, covariance: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(covariance)
    held = values > 1e-10 * max(values[-1], 1e-300)
    scores = (z - centre) @ vectors[:, held]
    return np.asarray((scores**2 / values[held]).sum(axis=1))


def _log_determinant(covariance: FloatArray) -> tuple[int, float]:
    values = np.linalg.eigvalsh(covariance)
    held = values > 1e-10 * max(values[-1], 1e-300)
    return int(held.sum()), float(np.log(values[held]).sum())


def _best(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centre and covariance of the half of least determinant, from several starts."""
    n, p = z.shape
    half = min(n, max((n + p + 1) // 2, 2))
    best: tuple[tuple[int, float], FloatArray, FloatArray] | None = None
    for scatter in _starts(z):
        vectors = np.linalg.eigh(scatter)[1]
        scores = z @ vectors
        scale = _spread(scores - np.median(scores, axis=0))
        distance = (((scores - np.median(scores, axis=0)) / scale) ** 2).sum(axis=1)
        chosen = np.argsort(distance, kind="stable")[:half]
        last = None
        for _ in range(STEPS):
            centre, covariance = z[chosen].mean(axis=0), np.atleast_2d(np.cov(z[chosen].T, bias=True))
            size = _log_determinant(covariance)
            if last is not None and size >= last:
                break
            last = size
            chosen = np.argsort(_squared(z, centre, covariance), kind="stable")[:half]
        if best is None or size < best[0]:
            best = (size, centre, covariance)
    assert best is not None
    return best[1], best[2]


def _starts(z: FloatArray) -> Iterator[FloatArray]:
    """Scatter matrices that few far records can't bend: of squashed values, ranks, their normal scores,
    and directions alone."""
    from scipy.special import ndtri

    ranks = np.column_stack([mid_ranks(column) for column in z.T])
    for values in (np.tanh(z), ranks, ndtri((ranks - 1 / 3) / (len(z) + 1 / 3))):
        yield _correlations(values)
    length = np.linalg.norm(z, axis=1, keepdims=True)
    signs = z / np.where(length > 0, length, 1.0)
    yield signs.T @ signs / len(z)


def _correlations(values: FloatArray) -> FloatArray:
    centred = values - values.mean(axis=0)
    scale = centred.std(axis=0)
    standard = centred / np.where(scale > 0, scale, 1.0)
    return np.asarray(standard.T @ standard / len(values))


def _reweighted(z: FloatArray, centre: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scaled to be right for normal data, then once more from the records that aren't far."""
    from scipy.special import chdtr, gammaincinv

    p = _log_determinant(covariance)[0] or 1
    distance = _squared(z, centre, covariance)
    scale = float(np.median(distance)) / float(2 * gammaincinv(p / 2, 0.5))
    if not math.isfinite(scale) or scale <= 0:
        return centre, covariance
    cut = float(2 * gammaincinv(p / 2, _CUT))  # of χ² with p degrees of freedom
    near = distance <= scale * cut
    if near.sum() < 2:
        return centre, covariance * scale
    # Cutting the far 2.5 percent of normal data makes the covariance too small by this factor.
    factor = _CUT / float(chdtr(p + 2, cut))
    return z[near].mean(axis=0), factor * np.atleast_2d(np.cov(z[near].T, bias=True))
