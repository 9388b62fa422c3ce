"""Logistic regression by Newton's method: standardised, lightly penalised, with step halving.

A small ridge keeps the fit defined where two groups are separated or columns add up, without moving
the coefficients elsewhere. Blocks are standardised on the fly, so no copy of X is made.

Three modules reach this optimum, each where the others are slow (CPU time on one core, the same data):

- this one for a large file: blocks, threads, weights, a covariance;
- ``logistic_small`` for tables of many small fits, one compiled call each: 47 times faster than this one at
  100 records × 3 columns, 7 times at 300 × 4, 3 times at 1,000 × 6, and no faster from 4,000 on;
- ``logistic_pairs`` for all pairs of strata of one file, which share their terms and moments and are
  never copied: 32 times faster for the 780 pairs of 40 strata of 150 records × 8 terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from numba import njit

from sfumato.parallel import in_threads, threads

FloatArray = npt.NDArray[np.float64]

BLOCK = 4096


@dataclass(frozen=True)
class LogisticFit:
    """A fitted model P(y = 1 | x) = 1 / (1 + exp(−intercept − x·coefficients)).

    ``covariance`` is the inverse information of (intercept, coefficients) in the units of X; a column
    that doesn't vary has coefficient 0 and variance NaN. ``deviance`` is −2 log likelihood.
    """

    intercept: float
    coefficients: FloatArray
    probabilities: FloatArray
    deviance: float
    converged: bool
    iterations: int
    information: tuple[FloatArray, npt.NDArray[np.int64], FloatArray, FloatArray, int]
    """What the covariance follows from: the Hessian of the standardised columns, and how they were."""

    @cached_property
    def covariance(self) -> FloatArray:
        return _covariance(*self.information)  # an inverse that most callers don't ask for

    def distance(
        self, y: FloatArray, weights: FloatArray | None = None, centre: float | None = None
    ) -> float:
        """U_p = mean of (p̂ − c)², c the share of y = 1 (or ``centre``)."""
        w = np.ones(len(y)) if weights is None else weights
        c = float(w @ y / w.sum()) if centre is None else centre
        return float(w @ np.square(self.probabilities - c) / w.sum())


def fit_logistic(
    X: FloatArray,
    y: npt.ArrayLike,
    weights: FloatArray | None = None,
    *,
    ridge: float = 1e-6,
    max_iterations: int = 100,
    tolerance: float = 1e-10,
) -> LogisticFit:
    """Fit a logistic regression with an intercept.

    Maximises Σ w log P(y | x) − ½ ridge Σ b², b the coefficients of standardised columns. Newton
    steps are halved until the objective grows. Converged when a step would raise the objective by
    less than ``tolerance`` of it.
    """
    X = np.asarray(X, dtype=np.float64)
    y = np.ascontiguousarray(y, dtype=np.float64)
    n, p = X.shape
    w = np.ones(n) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    total, ones = float(w.sum()), float(w @ y)
    mean, scale = _standardise(X, w, total)
    used = np.flatnonzero(scale > 0)
    full = len(used) == p
    A, m, s = (X, mean, scale) if full else (np.ascontiguousarray(X[:, used]), mean[used], scale[used])
    k = len(used)
    penalty = np.r_[0.0, np.full(k, ridge)]

    share = min(max(ones / total, 1e-12), 1 - 1e-12)
    b = np.zeros(k + 1)
    b[0] = np.log(share / (1 - share))
    runs = np.array_split(np.arange(0, n, BLOCK), max(1, min(-(-n // (8 * BLOCK)), 4 * threads())))
    prob = np.empty(n)

    def evaluate(b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        def part(starts: npt.NDArray[np.int64]) -> tuple[float, FloatArray, FloatArray]:
            return _run(A, y, w, m, s, b, prob, starts)

        loss, gradient, hessian = 0.0, np.zeros(k + 1), np.zeros((k + 1, k + 1))
        for one, two, three in in_threads(part, runs):
            loss, gradient, hessian = loss + one, gradient + two, hessian + three
        return (
            loss + 0.5 * float(penalty @ (b * b)),
            gradient + penalty * b,
            hessian + np.diag(penalty),
        )

    loss, gradient, hessian = evaluate(b)
    converged, iterations = False, 0
    while iterations < max_iterations and not converged:
        iterations += 1
        step = _solve(hessian, gradient)
        gain = float(gradient @ step)
        # Newton's error squares with each step, so the last, tiny one is still taken.
        converged = gain <= tolerance * (abs(loss) + 0.1)
        size = 1.0
        while size > 1e-8:
            new = b - size * step
            state = evaluate(new)
            if state[0] <= loss:
                break
            size *= 0.5
        else:
            evaluate(b)  # the probabilities of the last good point
            converged = converged or gain <= 1e-6 * (abs(loss) + 0.1)
            break
        b, (loss, gradient, hessian) = new, state

    coefficients = np.zeros(p)
    coefficients[used] = b[1:] / s
    intercept = float(b[0] - (b[1:] / s) @ m)
    return LogisticFit(
        intercept,
        coefficients,
        prob,
        2.0 * (loss - 0.5 * float(penalty @ (b * b))),
        converged,
        iterations,
        (hessian, used, m, s, p),
    )


def _standardise(X: FloatArray, w: FloatArray, total: float) -> tuple[FloatArray, FloatArray]:
    """Weighted means and standard deviations; 0 for a column that doesn't vary (or isn't finite)."""
    p = X.shape[1]
    mean, scale = np.zeros(p), np.zeros(p)
    for j in range(p):
        mean[j], scale[j] = _column(X[:, j], w, total)
    return mean, scale


@njit(nogil=True, cache=True)
def _column(x: FloatArray, w: FloatArray, total: float) -> tuple[float, float]:
    mean = 0.0
    largest = 0.0
    for i in range(len(x)):
        mean += w[i] * x[i]
        if w[i] > 0 and abs(x[i]) > largest:
            largest = abs(x[i])
    mean /= total
    square = 0.0
    for i in range(len(x)):
        square += w[i] * (x[i] - mean) ** 2
    sd = np.sqrt(square / total)
    if not sd > 1e-12 * largest:
        sd = 0.0
    return mean, sd


def _run(
    A: FloatArray,
    y: FloatArray,
    w: FloatArray,
    m: FloatArray,
    s: FloatArray,
    b: FloatArray,
    prob: FloatArray,
    starts: npt.NDArray[np.int64],
) -> tuple[float, FloatArray, FloatArray]:
    k = len(b)
    work = np.empty((k, min(BLOCK, len(y))))
    loss, gradient, hessian = 0.0, np.zeros(k), np.zeros((k, k))
    for start in starts:
        stop = min(start + BLOCK, len(y))
        rows = work[:, : stop - start]
        loss += _block(A, y, w, m, s, b, prob, start, stop, rows, gradient)
        hessian += rows @ rows.T
    return loss, gradient, hessian


@njit(nogil=True, cache=True)
def _block(
    A: FloatArray,
    y: FloatArray,
    w: FloatArray,
    m: FloatArray,
    s: FloatArray,
    b: FloatArray,
    prob: FloatArray,
    start: int,
    stop: int,
    rows: FloatArray,
    gradient: FloatArray,
) -> float:
    """−log likelihood of a block; adds to the gradient and writes √(w p (1−p)) · (1, x) to ``rows``."""
    n = stop - start
    k = len(b) - 1
    eta = np.full(n, b[0])
    for j in range(k):
        factor = 1.0 / s[j]
        for i in range(n):
            v = (A[start + i, j] - m[j]) * factor
            rows[j + 1, i] = v
            eta[i] += v * b[j + 1]
    residual = np.empty(n)
    root = np.empty(n)
    loss = 0.0
    for i in range(n):
        e = eta[i]
        t = np.exp(-abs(e))
        p = 1.0 / (1.0 + t) if e >= 0 else t / (1.0 + t)
        weight = w[start + i]
        # −log P(y) = log(1 + exp(e)) − y e, written so that no exponential overflows.
        loss += weight * (max(e, 0.0) + np.log1p(t) - y[start + i] * e)
        prob[start + i] = p
        residual[i] = weight * (p - y[start + i])
        root[i] = np.sqrt(weight * t) / (1.0 + t)
        gradient[0] += residual[i]
        rows[0, i] = root[i]
    for j in range(1, k + 1):
        g = 0.0
        for i in range(n):
            g += residual[i] * rows[j, i]
            rows[j, i] *= root[i]
        gradient[j] += g
    return loss


def _solve(hessian: FloatArray, gradient: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.linalg.solve(hessian, gradient))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(hessian, gradient, rcond=None)[0])


def _covariance(
    hessian: FloatArray, used: npt.NDArray[np.int64], m: FloatArray, s: FloatArray, p: int
) -> FloatArray:
    """The inverse information of the coefficients in X's own units."""
    k = len(used)
    inverse = np.linalg.pinv(hessian, hermitian=True)
    # (intercept, coefficients) = J b, b for standardised columns.
    J = np.zeros((k + 1, k + 1))
    J[0, 0] = 1.0
    J[0, 1:] = -m / s
    J[np.arange(1, k + 1), np.arange(1, k + 1)] = 1.0 / s
    out = np.full((p + 1, p + 1), np.nan)
    places = np.r_[0, used + 1]
    out[np.ix_(places, places)] = J @ inverse @ J.T
    return out
