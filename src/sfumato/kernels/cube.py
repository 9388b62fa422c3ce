"""The cube method: a random sample with given inclusion probabilities and balanced totals.

Deville and Tillé (2004), with the fast flight phase of Chauvet and Tillé (2006): a random walk on the
inclusion probabilities that stays on the balancing equations until each is 0 or 1. What can't be met
exactly at the end is given up constraint by constraint, from the last to the first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

EDGE = 1e-9
"""A probability nearer than this to 0 or 1 counts as decided."""


@njit(nogil=True, cache=True)
def null_vector(rows: FloatArray, c: int, m: int, out: FloatArray) -> bool:
    """A vector u ≠ 0 with rows[:c, :m] u = 0, by elimination with pivoting; False where none exists.

    ``rows`` is used up.
    """
    pivot_of = np.full(c, -1, np.int64)
    is_pivot = np.zeros(m, np.bool_)
    largest = 0.0
    for r in range(c):
        for j in range(m):
            largest = max(largest, abs(rows[r, j]))
    zero = 1e-11 * max(largest, 1e-300)
    for r in range(c):
        # The largest entry of the row is the pivot: each row is cleared from all the others.
        best = -1
        size = zero
        for j in range(m):
            if not is_pivot[j] and abs(rows[r, j]) > size:
                size = abs(rows[r, j])
                best = j
        if best < 0:
            continue
        is_pivot[best] = True
        pivot_of[r] = best
        factor = 1.0 / rows[r, best]
        for j in range(m):
            rows[r, j] *= factor
        for other in range(c):
            if other != r and rows[other, best] != 0.0:
                take = rows[other, best]
                for j in range(m):
                    rows[other, j] -= take * rows[r, j]
                rows[other, best] = 0.0
    free = -1
    for j in range(m):
        if not is_pivot[j]:
            free = j
            break
    if free < 0:
        return False
    for j in range(m):
        out[j] = 0.0
    out[free] = 1.0
    for r in range(c):
        if pivot_of[r] >= 0:
            out[pivot_of[r]] = -rows[r, free]
    return True


@njit(nogil=True, cache=True)
def cube(
    probabilities: FloatArray, balance: FloatArray, order: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Inclusion probabilities walked to 0 or 1 so that Σ balance[i] · s_i stays (nearly) Σ balance[i] · π_i.

    ``balance`` has a row for each unit and a column for each constraint, the most important first: the
    first ones hold exactly where their totals allow it. ``order`` is the order in which units come in.
    """
    pi = probabilities.copy()
    q = balance.shape[1]
    work = np.empty(q + 1, np.int64)
    rows = np.empty((q, q + 1))
    u = np.empty(q + 1)
    m = 0
    following = 0
    while True:
        kept = 0
        for j in range(m):
            i = work[j]
            if EDGE < pi[i] < 1.0 - EDGE:
                work[kept] = i
                kept += 1
            else:
                pi[i] = 0.0 if pi[i] < 0.5 else 1.0
        m = kept
        while m < q + 1 and following < len(order):
            i = order[following]
            following += 1
            if EDGE < pi[i] < 1.0 - EDGE:
                work[m] = i
                m += 1
            else:
                pi[i] = 0.0 if pi[i] < 0.5 else 1.0
        if m == 0:
            break
        c = q
        found = False
        while not found:
            for r in range(c):
                for j in range(m):
                    rows[r, j] = balance[work[j], r]
            found = null_vector(rows, c, m, u)
            if not found:
                c = min(c - 1, m)  # landing: the last constraint is given up
        up = np.inf
        down = np.inf
        for j in range(m):
            p = pi[work[j]]
            if u[j] > 1e-12:
                up = min(up, (1.0 - p) / u[j])
                down = min(down, p / u[j])
            elif u[j] < -1e-12:
                up = min(up, -p / u[j])
                down = min(down, -(1.0 - p) / u[j])
        step = up if rng.random() * (up + down) < down else -down
        for j in range(m):
            pi[work[j]] += step * u[j]
    return pi
