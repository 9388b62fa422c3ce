"""Propensity distances of many pairs of strata in one compiled call: Newton's method on the shared terms.

Nothing of a pair is copied: strata are runs of columns of one array (terms × records), and a pair's means
and scales come from its strata's moments. Each fit starts from the discriminant function, which these
moments give, and keeps a Hessian for as long as its steps shrink the objective's decrement tenfold:
a gradient costs a tenth of a Hessian. The optimum is that of
:func:`sfumato.kernels.logistic.fit_logistic`, with the same ridge on standardised terms.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

BLOCK = 512
"""Records looked at together: their terms stay in the nearest cache, and Π(1 + t) ≤ 2^512 is finite."""


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"})
def _pass(
    terms: FloatArray,
    start: int,
    stop: int,
    y: float,
    used: IntArray,
    mean: FloatArray,
    b: FloatArray,
    centre: float,
    gradient: FloatArray,
    hessian: FloatArray,
    second: bool,
    work: FloatArray,
    eta: FloatArray,
    root: FloatArray,
) -> tuple[float, float]:
    """One stratum's −log likelihood and Σ(p − centre)²; adds to the gradient and, if asked, the Hessian."""
    k = len(used)
    loss = 0.0
    square = 0.0
    for at in range(start, stop, BLOCK):
        n = min(BLOCK, stop - at)
        for i in range(n):
            eta[i] = b[0]
        for j in range(k):
            m = mean[j]
            slope = b[j + 1]
            row = terms[used[j]]
            for i in range(n):
                v = row[at + i] - m
                work[j + 1, i] = v
                eta[i] += slope * v
        product = 1.0
        linear = 0.0
        for i in range(n):
            e = eta[i]
            t = np.exp(-abs(e))
            up = 1.0 + t
            p = 1.0 / up if e >= 0 else t / up
            product *= up  # Σ log(1 + t) = log Π(1 + t): one logarithm a block
            linear += max(e, 0.0) - y * e
            eta[i] = p - y
            square += (p - centre) * (p - centre)
            root[i] = t / (up * up)
        loss += np.log(product) + linear
        g = 0.0
        for i in range(n):
            g += eta[i]
        gradient[0] += g
        for j in range(1, k + 1):
            g = 0.0
            for i in range(n):
                g += eta[i] * work[j, i]
            gradient[j] += g
        if second:
            for i in range(n):
                root[i] = np.sqrt(root[i])
                work[0, i] = root[i]
            for j in range(1, k + 1):
                for i in range(n):
                    work[j, i] *= root[i]
            # Two rows by two, so that each loaded value is used twice.
            for j in range(0, k + 1, 2):
                last = j + 1 > k
                for m2 in range(0, j + 1, 2):
                    h00 = 0.0
                    h01 = 0.0
                    h10 = 0.0
                    h11 = 0.0
                    a0, a1 = work[j], work[k if last else j + 1]
                    c0, c1 = work[m2], work[k if m2 + 1 > k else m2 + 1]
                    for i in range(n):
                        h00 += a0[i] * c0[i]
                        h01 += a0[i] * c1[i]
                        h10 += a1[i] * c0[i]
                        h11 += a1[i] * c1[i]
                    hessian[j, m2] += h00
                    if m2 + 1 <= j:
                        hessian[j, m2 + 1] += h01
                    if not last:
                        hessian[j + 1, m2] += h10
                        hessian[j + 1, m2 + 1] += h11
    return loss, square


@njit(nogil=True, cache=True)
def _both(
    terms: FloatArray,
    spans: IntArray,
    used: IntArray,
    mean: FloatArray,
    b: FloatArray,
    penalty: FloatArray,
    centre: float,
    gradient: FloatArray,
    hessian: FloatArray,
    second: bool,
    work: FloatArray,
    eta: FloatArray,
    root: FloatArray,
) -> tuple[float, float]:
    """The penalised objective of a pair and Σ(p − centre)²; its gradient and, if asked, Hessian."""
    gradient[:] = 0.0
    if second:
        hessian[:] = 0.0
    loss = 0.0
    square = 0.0
    for side in range(2):
        one, two = _pass(
            terms, spans[2 * side], spans[2 * side + 1], float(side), used, mean, b, centre, gradient,
            hessian, second, work, eta, root,
        )  # fmt: skip
        loss += one
        square += two
    for j in range(1, len(used) + 1):
        loss += 0.5 * penalty[j] * b[j] * b[j]
        gradient[j] += penalty[j] * b[j]
        if second:
            hessian[j, j] += penalty[j]
    return loss, square


@njit(nogil=True, cache=True)
def factor(a: FloatArray, k: int, out: FloatArray) -> None:
    """Cholesky's factor of the lower triangle; a pivot that isn't positive is set by the diagonal."""
    largest = 0.0
    for j in range(k):
        largest = max(largest, a[j, j])
    for j in range(k):
        d = a[j, j]
        for m in range(j):
            d -= out[j, m] * out[j, m]
        d = np.sqrt(max(d, 1e-14 * max(largest, 1e-300)))
        out[j, j] = d
        for i in range(j + 1, k):
            v = a[i, j]
            for m in range(j):
                v -= out[i, m] * out[j, m]
            out[i, j] = v / d


@njit(nogil=True, cache=True)
def solve(factor: FloatArray, right: FloatArray, k: int, out: FloatArray) -> None:
    for i in range(k):
        v = right[i]
        for m in range(i):
            v -= factor[i, m] * out[m]
        out[i] = v / factor[i, i]
    for i in range(k - 1, -1, -1):
        v = out[i]
        for m in range(i + 1, k):
            v -= factor[m, i] * out[m]
        out[i] = v / factor[i, i]


@njit(nogil=True, cache=True)
def pair_distances(
    terms: FloatArray,
    starts: IntArray,
    means: FloatArray,
    scatter: FloatArray,
    first: IntArray,
    second: IntArray,
    ridge: float,
    tolerance: float,
) -> tuple[FloatArray, BoolArray, IntArray]:
    """U_p with c = the second stratum's share for each pair, whether it converged, and its Hessians.

    ``terms`` is terms × records, stratum s in columns starts[s] … starts[s + 1]; ``means[s]`` and
    ``scatter[s]`` (Σ (x − x̄)(x − x̄)ᵀ) are its moments.
    """
    p = terms.shape[0]
    count = len(first)
    u = np.empty(count)
    good = np.zeros(count, np.bool_)
    hessians = np.zeros(count, np.int64)
    work = np.empty((p + 1, BLOCK))
    eta, root = np.empty(BLOCK), np.empty(BLOCK)
    b, new, step = np.zeros(p + 1), np.zeros(p + 1), np.zeros(p + 1)
    g, g2 = np.zeros(p + 1), np.zeros(p + 1)
    H, L = np.zeros((p + 1, p + 1)), np.zeros((p + 1, p + 1))
    penalty, mean = np.zeros(p + 1), np.zeros(p)
    used, spans = np.empty(p, np.int64), np.empty(4, np.int64)
    for q in range(count):
        s0, s1 = first[q], second[q]
        n0, n1 = starts[s0 + 1] - starts[s0], starts[s1 + 1] - starts[s1]
        n = n0 + n1
        c = n1 / n
        k = 0
        for j in range(p):
            d = means[s1, j] - means[s0, j]
            middle = (1 - c) * means[s0, j] + c * means[s1, j]
            variance = (scatter[s0, j, j] + scatter[s1, j, j]) / n + c * (1 - c) * d * d
            if variance > 1e-20 * max(1.0, middle * middle):  # else it doesn't vary in this pair
                used[k] = j
                mean[k] = middle
                penalty[k + 1] = ridge * variance
                k += 1
        best_null = -n0 * np.log(1 - c) - n1 * np.log(c)
        # The discriminant function: W⁻¹(m1 − m0), W the covariance within.
        for j in range(k):
            for m in range(j + 1):
                H[j, m] = (scatter[s0, used[j], used[m]] + scatter[s1, used[j], used[m]]) / n
            H[j, j] += 1e-6 * H[j, j] + 1e-9
            g[j] = means[s1, used[j]] - means[s0, used[j]]
        factor(H, k, L)
        solve(L, g, k, step)
        b[0] = np.log(n1 / n0)
        for j in range(k):
            b[j + 1] = step[j]
            # The middle of the two means, seen from the pair's own mean.
            b[0] -= step[j] * ((means[s0, used[j]] + means[s1, used[j]]) / 2 - mean[j])
        spans[0], spans[1] = starts[s0], starts[s0 + 1]
        spans[2], spans[3] = starts[s1], starts[s1 + 1]
        loss, square = _both(
            terms, spans, used[:k], mean, b, penalty, c, g, H, True, work, eta, root
        )  # fmt: skip
        hessians[q] = 1
        if not loss <= best_null:  # a poor start (skewed terms): begin at the shares, with a new Hessian
            b[:] = 0.0
            b[0] = np.log(n1 / n0)
            g[:] = 0.0
            loss = np.inf
        before = np.inf
        fresh = loss < np.inf
        if fresh:
            factor(H, k + 1, L)
        for _ in range(200):
            if not fresh:
                loss, square = _both(
                    terms, spans, used[:k], mean, b, penalty, c, g, H, True, work, eta, root
                )  # fmt: skip
                hessians[q] += 1
                factor(H, k + 1, L)
                fresh = True
                before = np.inf
            solve(L, g, k + 1, step)
            gain = 0.0
            for j in range(k + 1):
                gain += g[j] * step[j]
            last = gain <= tolerance * (abs(loss) + 0.1)
            if gain > 0.1 * before and not last:
                fresh = False  # the old Hessian no longer serves
                continue
            size = 1.0
            better = False
            value, square2 = loss, square
            while size > 1e-8 and not better:
                for j in range(k + 1):
                    new[j] = b[j] - size * step[j]
                value, square2 = _both(
                    terms, spans, used[:k], mean, new, penalty, c, g2, H, False, work, eta, root
                )  # fmt: skip
                better = value <= loss + 1e-12 * abs(loss)  # rounding may hide the last, tiny gain
                size *= 0.5
            if better:
                for j in range(k + 1):
                    b[j], g[j] = new[j], g2[j]
                loss, square = value, square2
            if last or not better:
                if last or before == np.inf:
                    good[q] = last or gain <= 1e-6 * (abs(loss) + 0.1)
                    break
                fresh = False
                continue
            before = gain
            if size < 0.5:  # a halved step: far from the optimum, where Hessians change
                fresh = False
        u[q] = min(square / n, c * (1 - c))
    return u, good, hessians


@njit(nogil=True, cache=True)
def linear_pairs(
    sizes: FloatArray,
    means: FloatArray,
    scatter: FloatArray,
    first: IntArray,
    second: IntArray,
    half: bool,
    ridge: float,
) -> FloatArray:
    """U_p of the linear probability model for each pair, from the strata's moments alone.

    k·kD²/(1 + kD²) with k = c(1−c) and D² the Mahalanobis distance of the means by the pooled
    covariance within; with ``half``, (c − ½)² more.
    """
    p = means.shape[1]
    out = np.empty(len(first))
    W, L = np.zeros((p, p)), np.zeros((p, p))
    d, x = np.zeros(p), np.zeros(p)
    for q in range(len(first)):
        a, b = first[q], second[q]
        n = sizes[a] + sizes[b]
        c = sizes[b] / n
        for i in range(p):
            for j in range(i + 1):
                W[i, j] = (scatter[a, i, j] + scatter[b, i, j]) / n
            W[i, i] += ridge
            d[i] = means[b, i] - means[a, i]
        factor(W, p, L)
        solve(L, d, p, x)
        far = 0.0
        for i in range(p):
            far += d[i] * x[i]
        k = c * (1 - c)
        out[q] = k * (k * far / (1 + k * far))
        if half:
            out[q] += (c - 0.5) ** 2
    return out
