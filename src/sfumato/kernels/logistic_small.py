"""Logistic regression of a few hundred records in one compiled call, for tables of many small fits.

The same estimate as :func:`sfumato.kernels.logistic.fit_logistic` without a ridge; that one's blocks and
threads pay from some thousand records on.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

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
    for j in range(p):
        mean[j + 1] = X[:, j].mean()
        sd[j + 1] = X[:, j].std()
        for i in range(n):
            Z[i, j + 1] = (X[i, j] - mean[j + 1]) / sd[j + 1]
    b = np.zeros(k)
    share = y.mean()
    b[0] = np.log(share / (1.0 - share))
    g, H = np.zeros(k), np.zeros((k, k))
    g2, H2 = np.zeros(k), np.zeros((k, k))
    loss = _evaluate(Z, y, b, g, H)
    ok = False
    for _ in range(50):
        step = np.linalg.solve(H, g)
        last = float(g @ step) <= 1e-10 * (abs(loss) + 0.1)
        size = 1.0
        better = False
        while size > 1e-8 and not better:
            new = b - size * step
            value = _evaluate(Z, y, new, g2, H2)
            better = value <= loss
            size *= 0.5
        if better:
            b = new
            loss = value
            g[:] = g2
            H[:] = H2
        if last or not better:
            ok = last
            break
    ok = ok and np.abs(b[1:]).max() <= LARGEST if p else ok
    # (intercept, coefficients) = J b in X's own units.
    J = np.zeros((k, k))
    J[0, 0] = 1.0
    for j in range(1, k):
        J[0, j] = -mean[j] / sd[j]
        J[j, j] = 1.0 / sd[j]
    covariance = J @ np.linalg.inv(H) @ J.T
    error = np.empty(k)
    for j in range(k):
        error[j] = np.sqrt(max(covariance[j, j], 0.0))
    return J @ b, error, ok
