"""Logistic regression of a few hundred records in one compiled call, for tables of many small fits.

The same estimate as :func:`sfumato.kernels.logistic.fit_logistic` without a ridge; that module says why
there are three.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from sfumato.kernels.logistic_pairs import factor, solve

FloatArray = npt.NDArray[np.float64]

LARGEST = 30.0
"""A standardised coefficient beyond this means that the classes are separated."""


@njit(nogil=True, cache=True)
def _evaluate(Z: FloatArray, y: FloatArray, b: FloatArray, g: FloatArray, H: FloatArray) -> float:
    """−log likelihood, with its gradient and Hessian; Z's first column is 1."""
    n, k = Z.shape
    g[:] = 0.0
    H[:] = 0.0
    loss = 0.0
    for i in range(n):
        e = 0.0
        for j in range(k):
            e += Z[i, j] * b[j]
        t = np.exp(-abs(e))
        p = 1.0 / (1.0 + t) if e >= 0 else t / (1.0 + t)
        loss += max(e, 0.0) + np.log1p(t) - y[i] * e
        w = t / (1.0 + t) ** 2
        r = p - y[i]
        for j in range(k):
            g[j] += r * Z[i, j]
            wz = w * Z[i, j]
            for m in range(j + 1):
                H[j, m] += wz * Z[i, m]
    for j in range(k):
        for m in range(j):
            H[m, j] = H[j, m]
    return loss


@njit(nogil=True, cache=True)
def small_logistic(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, bool]:
    """Estimates and standard errors of (intercept, coefficients), and whether they exist.

    Every column of X must vary and none be a combination of the others; both values of y must occur.
    """
    n, p = X.shape
    k = p + 1
    mean, sd = np.zeros(k), np.ones(k)
    Z = np.ones((n, k))
    ones = 0.0
    for i in range(n):
        ones += y[i]
    # Plain loops: numpy's functions would triple the time that this takes to compile.
    for j in range(p):
        total = 0.0
        for i in range(n):
            total += X[i, j]
        middle = total / n
        square = 0.0
        for i in range(n):
            square += (X[i, j] - middle) ** 2
        mean[j + 1], sd[j + 1] = middle, np.sqrt(square / n)
        for i in range(n):
            Z[i, j + 1] = (X[i, j] - middle) / sd[j + 1]
    b, new, step = np.zeros(k), np.zeros(k), np.zeros(k)
    b[0] = np.log(ones / (n - ones))
    g, H, L = np.zeros(k), np.zeros((k, k)), np.zeros((k, k))
    g2, H2 = np.zeros(k), np.zeros((k, k))
    loss = _evaluate(Z, y, b, g, H)
    ok = False
    for _ in range(50):
        factor(H, k, L)
        solve(L, g, k, step)
        gain = 0.0
        for j in range(k):
            gain += g[j] * step[j]
        last = gain <= 1e-10 * (abs(loss) + 0.1)
        size = 1.0
        better = False
        value = loss
        while size > 1e-8 and not better:
            for j in range(k):
                new[j] = b[j] - size * step[j]
            value = _evaluate(Z, y, new, g2, H2)
            better = value <= loss
            size *= 0.5
        if better:
            loss = value
            for j in range(k):
                b[j], g[j] = new[j], g2[j]
                for m in range(k):
                    H[j, m] = H2[j, m]
        if last or not better:
            ok = last
            break
    for j in range(1, k):
        ok = ok and abs(b[j]) <= LARGEST
    # (intercept, coefficients) = J b in X's own units, with J's first row 1, −mean/sd; its variances
    # are the squared lengths of L⁻¹J's columns.
    factor(H, k, L)
    estimate, error = np.empty(k), np.empty(k)
    for j in range(k):
        for m in range(k):
            new[m] = 0.0
        if j == 0:
            new[0] = 1.0
            for m in range(1, k):
                new[m] = -mean[m] / sd[m]
        else:
            new[j] = 1.0 / sd[j]
        solve(L, new, k, step)
        at = 0.0
        variance = 0.0
        for m in range(k):
            at += new[m] * b[m]
            variance += new[m] * step[m]
        estimate[j], error[j] = at, np.sqrt(max(variance, 0.0))
    return estimate, error, ok
