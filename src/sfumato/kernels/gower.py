"""Kernel of microaggregation with mixed data: MDAV by Gower's distance."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@nb.njit(nogil=True, cache=True)
def _distances(
    x: FloatArray, c: IntArray, left: int, point: FloatArray, code: IntArray, out: FloatArray
) -> None:
    for i in range(left):
        total = 0.0
        for j in range(x.shape[1]):
            total += abs(x[i, j] - point[j])
        for j in range(c.shape[1]):
            if c[i, j] != code[j]:
                total += 1.0
        out[i] = total


@nb.njit(nogil=True, cache=True)
def _before(distance: FloatArray, names: IntArray, i: int, j: int) -> bool:
    """Whether i is nearer than j; of equals, the record that comes first in the file."""
    return bool(distance[i] < distance[j] or (distance[i] == distance[j] and names[i] < names[j]))


@nb.njit(nogil=True, cache=True)
def mdav_gower(numbers: FloatArray, codes: IntArray, k: int) -> IntArray:
    """The group of each record: MDAV with Σ |x − y| over scaled numbers plus 1 for each code that differs.

    The centre of the records left has the means of their numbers and the most frequent code of each
    column (of equals, the lowest). Groups have k to 2k − 1 records.
    """
    n, p = numbers.shape
    q = codes.shape[1]
    x, c = numbers.copy(), codes.copy()
    names = np.arange(n)
    group = np.full(n, -1, np.int64)
    total = np.zeros(p)
    levels = 1
    for i in range(n):
        for j in range(p):
            total[j] += x[i, j]
        for j in range(q):
            levels = max(levels, c[i, j] + 1)
    tally = np.zeros((q, levels), np.int64)
    for i in range(n):
        for j in range(q):
            tally[j, c[i, j]] += 1
    distance = np.empty(n)
    found = np.empty(k, np.int64)
    centre = np.empty(q, np.int64)
    left, number = n, 0
    while left >= 2 * k:
        for j in range(q):
            centre[j] = np.argmax(tally[j])
        _distances(x, c, left, total / left, centre, distance)
        rounds = 2 if left >= 3 * k else 1
        far = 0
        for i in range(1, left):
            if distance[i] > distance[far] or (distance[i] == distance[far] and names[i] < names[far]):
                far = i
        point, code = x[far].copy(), c[far].copy()
        for turn in range(rounds):
            _distances(x, c, left, point, code, distance)
            if turn == 0 and rounds == 2:
                other = 0
                for i in range(1, left):
                    if distance[i] > distance[other] or (
                        distance[i] == distance[other] and names[i] < names[other]
                    ):
                        other = i
                point, code = x[other].copy(), c[other].copy()
            have = 0
            for i in range(left):
                if have == k and not _before(distance, names, i, found[k - 1]):
                    continue
                at = have if have < k else k - 1
                while at > 0 and _before(distance, names, i, found[at - 1]):
                    found[at] = found[at - 1]
                    at -= 1
                found[at] = i
                if have < k:
                    have += 1
            places = np.sort(found[:k])
            for z in range(k - 1, -1, -1):
                i = places[z]
                group[names[i]] = number
                left -= 1
                for j in range(p):
                    total[j] -= x[i, j]
                    x[i, j] = x[left, j]
                for j in range(q):
                    tally[j, c[i, j]] -= 1
                    c[i, j] = c[left, j]
                names[i] = names[left]
            number += 1
    for i in range(left):
        group[names[i]] = number
    return group
