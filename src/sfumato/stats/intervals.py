"""Estimates of a regression with their standard errors, and the overlap of two intervals."""

from __future__ import annotations

import math

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray
from sfumato.errors import MeasureError


def overlap(one: tuple[float, float], two: tuple[float, float]) -> float:
    """J_k of two intervals. One without a length (an exact fit) overlaps with itself alone: else NaN.

    >>> overlap((0.0, 2.0), (0.0, 2.0)), overlap((0.0, 2.0), (1.0, 3.0)), overlap((0.0, 1.0), (2.0, 3.0))
    (1.0, 0.5, -1.0)
    """
    shared = min(one[1], two[1]) - max(one[0], two[0])
    lengths = (one[1] - one[0], two[1] - two[0])
    if min(lengths) <= 0:
        return 1.0 if one == two else math.nan
    return 0.5 * (shared / lengths[0] + shared / lengths[1])


def estimable(X: FloatArray, tolerance: float = 1e-7) -> BoolArray:
    """Which columns aren't combinations of those before them (the rule of R's lm)."""
    n, p = X.shape
    keep = np.zeros(p, dtype=np.bool_)
    basis = np.zeros((n, 0))
    for j in range(p):
        size = float(np.linalg.norm(X[:, j]))
        if size == 0 or not math.isfinite(size):
            continue
        v = X[:, j] / size
        for _ in range(2):  # twice is enough to be orthogonal to rounding
            v = v - basis @ (basis.T @ v)
        rest = float(np.linalg.norm(v))
        if rest > tolerance:
            keep[j] = True
            basis = np.column_stack([basis, v / rest])
    return keep


def least_squares(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients and standard errors of a full-rank linear regression."""
    scale = np.linalg.norm(X, axis=0)
    q, r = np.linalg.qr(X / scale)
    beta = np.linalg.solve(r, q.T @ y)
    residual = y - (X / scale) @ beta
    inverse = np.linalg.inv(r)
    variance = float(residual @ residual) / (len(y) - X.shape[1])
    return beta / scale, np.sqrt(variance * (inverse * inverse).sum(axis=1)) / scale


def exact_or_not(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """As :func:`least_squares`; where the response is a sum of the terms to rounding (a total and its parts)
    the coefficients have no error, and are the same in two files if they are so to rounding."""
    estimate, error = least_squares(X, y)
    unit = 1e-9 * float(np.linalg.norm(y)) / np.linalg.norm(X, axis=0)
    if float(np.linalg.norm(y - X @ estimate)) > 1e-10 * float(np.linalg.norm(y - y.mean())):
        return estimate, error
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(unit > 0, np.round(estimate / unit) * unit, estimate), np.zeros_like(error)


def logistic(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients and standard errors; NaN where the groups are separated."""
    from sfumato.kernels.logistic import fit_logistic

    constant = np.flatnonzero((X[0] == X).all(axis=0))
    rest = np.setdiff1d(np.arange(X.shape[1]), constant)
    estimate, error = np.full(X.shape[1], np.nan), np.full(X.shape[1], np.nan)
    if not len(constant):
        raise MeasureError("a logistic regression without an intercept isn't offered", hint="remove `- 1`")
    fit = fit_logistic(np.asfortranarray(X[:, rest]), y, ridge=0.0, max_iterations=50)
    standard = np.abs(fit.coefficients) * X[:, rest].std(axis=0)
    separated = not fit.converged or (len(rest) and float(standard.max()) > 30)
    if not separated:
        se = np.sqrt(np.clip(np.diag(fit.covariance), 0, None))
        estimate[rest], error[rest] = fit.coefficients, se[1:]
        first = constant[0]
        estimate[first], error[first] = fit.intercept / X[0, first], se[0] / abs(X[0, first])
    return estimate, error
