"""The law of a swap within two bounds: one pass whose upper end moves with the values.

Let A(j) = Π_{i<j} (1 − h_i) and first(k) the lowest rank that reaches k. Rank k is still unswapped at j's
turn with chance A(j)/A(first(k)), since only the ranks from first(k) to j − 1 could have taken it; so

    p_j = A(j)/A(first(j)),   h_j = p_j / Σ_{j<k≤top(j)} A(j)/A(first(k)),
    P(j takes k) = h_j A(j)/A(first(k)).

The sums over the window are carried along: they shrink by 1 − h_j together, lose rank j + 1 and gain what
the end passes. On bins of n_j neighbouring ranks h_j is n_j p_j over the pool, and the rest stays as it is.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

_SURE = 1.0 - 1e-9
_SQUARES = 0.173  # true / predicted is 1 + c/W for narrow windows (kernels.rank_law)


@nb.njit(nogil=True, cache=True)
def tops(m1, places, sizes, starts, windows, distance, out):  # type: ignore[no-untyped-def]
    """The highest bin that each bin reaches: within the window of its stratum and the distance.

    ``places`` are the middle ranks of the bins, ``m1`` their mean values. A bin must lie within the window
    to its last rank: that makes up for the bin's own later ranks, which are left out.
    """
    for s in range(starts.size - 1):
        stop, window = starts[s + 1], windows[s] + 0.5
        by_rank = by_value = starts[s]
        for j in range(starts[s], stop):
            by_rank, by_value = max(by_rank, j), max(by_value, j)
            while (
                by_rank + 1 < stop
                and places[by_rank + 1] + 0.5 * (sizes[by_rank + 1] - 1.0) - places[j] <= window
            ):
                by_rank += 1
            while by_value + 1 < stop and m1[by_value + 1] - m1[j] <= distance:
                by_value += 1
            out[j] = min(by_rank, by_value)


@nb.njit(nogil=True, cache=True)
def bounded_squares(m1, m2, sizes, starts, top, log_h, log_a, first):  # type: ignore[no-untyped-def]
    """E Σ(a′−a)² of a swap within the bounds, from means, mean squares and sizes of bins.

    ``top`` comes from ``tops``. Fills log h_j, log A(j) and first(j), from which every chance follows.
    """
    total = 0.0
    for s in range(starts.size - 1):
        start, stop = starts[s], starts[s + 1]
        u0 = s1 = s2 = 0.0
        log = 0.0
        end = start
        f = start
        for j in range(start, stop):
            while top[f] < j:
                f += 1
            first[j] = f
            log_a[j] = log
            p = math.exp(log - log_a[f])
            n = sizes[j]
            if j > start and end >= j:
                u0 -= n * p
                s1 -= n * p * m1[j]
                s2 -= n * p * m2[j]
            else:
                u0 = s1 = s2 = 0.0
                end = j
            while end < top[j]:
                end += 1
                u0 += sizes[end]
                s1 += sizes[end] * m1[end]
                s2 += sizes[end] * m2[end]
            if u0 <= 1e-9:
                log_h[j] = -np.inf
                continue
            h = min(n * p / u0, _SURE)
            reach = 0.5 * n + 0.5 * sizes[top[j]] + (top[j] - j - 1.0)  # exact where bins are single ranks
            narrow = 1.0 + _SQUARES / reach if n == 1.0 and reach > 1.0 else 1.0
            total += 2.0 * narrow * max(0.0, h * (s2 - 2.0 * m1[j] * s1 + m2[j] * u0))
            keep = 1.0 - h
            u0 *= keep
            s1 *= keep
            s2 *= keep
            log_h[j] = math.log(h)
            log += math.log(keep)
    return total


@nb.njit(nogil=True, cache=True)
def bounded_expected(m1, m2, sizes, starts, top, log_h, log_a, first, e1, e2):  # type: ignore[no-untyped-def]
    """The expected value and square that each bin receives; bins × reach steps."""
    for j in range(m1.size):
        e1[j] = e2[j] = 0.0
    gone = np.zeros(m1.size)
    for j in range(m1.size):
        if log_h[j] == -np.inf:
            continue
        n = sizes[j]
        for k in range(j + 1, top[j] + 1):
            pairs = (
                math.exp(log_h[j] + log_a[j] - log_a[first[k]]) * sizes[k]
            )  # so many of n · p_j take from k
            e1[j] += pairs * m1[k] / n
            e2[j] += pairs * m2[k] / n
            e1[k] += pairs * m1[j] / sizes[k]
            e2[k] += pairs * m2[j] / sizes[k]
            gone[j] += pairs / n
            gone[k] += pairs / sizes[k]
    for j in range(m1.size):
        e1[j] += (1.0 - gone[j]) * m1[j]
        e2[j] += (1.0 - gone[j]) * m2[j]
