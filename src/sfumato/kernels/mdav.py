"""Kernels of microaggregation: MDAV for several columns, the optimal grouping for one."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@nb.njit(nogil=True, cache=True)
def _distances(x: FloatArray, left: int, point: FloatArray, out: FloatArray) -> None:
    for i in range(left):
        total = 0.0
        for j in range(x.shape[1]):
            step = x[i, j] - point[j]
            total += step * step
        out[i] = total


@nb.njit(nogil=True, cache=True)
def _farthest(distance: FloatArray, names: IntArray, left: int) -> int:
    """The place of the largest distance; of equal ones, the record that comes first in the file."""
    best = 0
    for i in range(1, left):
        if distance[i] > distance[best] or (distance[i] == distance[best] and names[i] < names[best]):
            best = i
    return best


@nb.njit(nogil=True, cache=True)
def _nearest(distance: FloatArray, names: IntArray, left: int, k: int, found: IntArray) -> None:
    """The places of the k smallest distances, kept in order by insertion (k is small)."""
    have = 0
    for i in range(left):
        d = distance[i]
        if have == k:
            last = found[k - 1]
            if d > distance[last] or (d == distance[last] and names[i] > names[last]):
                continue
        at = have if have < k else k - 1
        while at > 0:
            before = found[at - 1]
            if distance[before] < d or (distance[before] == d and names[before] < names[i]):
                break
            found[at] = before
            at -= 1
        found[at] = i
        if have < k:
            have += 1


@nb.njit(nogil=True, cache=True)
def _take(
    x: FloatArray, names: IntArray, left: int, found: IntArray, k: int, total: FloatArray,
    group: IntArray, number: int,
) -> int:  # fmt: skip
    """Put k records into a group and close the gaps with the last records that are left."""
    places = np.sort(found[:k])
    for z in range(k - 1, -1, -1):
        i = places[z]
        group[names[i]] = number
        for j in range(x.shape[1]):
            total[j] -= x[i, j]
        left -= 1
        for j in range(x.shape[1]):
            x[i, j] = x[left, j]
        names[i] = names[left]
    return left


@nb.njit(nogil=True, cache=True)
def mdav(values: FloatArray, k: int) -> IntArray:
    """The group of each record, by maximum distance to the average vector.

    While at least 3k records are left: r is the record farthest from their centroid, s the one
    farthest from r; r and its k − 1 nearest form a group, then s and its k − 1 nearest. Of 2k to
    3k − 1 the farthest from the centroid and its nearest form one group, the others one; fewer form
    one. Groups have k to 2k − 1 records.
    """
    n, m = values.shape
    x = values.copy()
    names = np.arange(n)
    group = np.full(n, -1, np.int64)
    total = np.zeros(m)
    for i in range(n):
        for j in range(m):
            total[j] += x[i, j]
    distance = np.empty(n)
    found = np.empty(k, np.int64)
    left, number = n, 0
    while left >= 2 * k:
        _distances(x, left, total / left, distance)
        r = x[_farthest(distance, names, left)].copy()
        _distances(x, left, r, distance)
        s = x[_farthest(distance, names, left)].copy()
        _nearest(distance, names, left, k, found)
        both = left >= 3 * k
        left = _take(x, names, left, found, k, total, group, number)
        number += 1
        if both:
            _distances(x, left, s, distance)
            _nearest(distance, names, left, k, found)
            left = _take(x, names, left, found, k, total, group, number)
            number += 1
    for i in range(left):
        group[names[i]] = number
    return group


@nb.njit(nogil=True, cache=True)
def group_sorted(values: FloatArray, k: int) -> IntArray:
    """The grouping of sorted values with the least within-group sum of squares (groups of k to 2k−1).

    Dynamic programming over the last group (Hansen, Mukherjee 2003).
    """
    n = values.size
    sums = np.zeros(n + 1)
    squares = np.zeros(n + 1)
    centre = values.mean()
    for i in range(n):
        sums[i + 1] = sums[i] + (values[i] - centre)
        squares[i + 1] = squares[i] + (values[i] - centre) ** 2
    best = np.full(n + 1, np.inf)
    start = np.zeros(n + 1, np.int64)
    best[0] = 0.0
    for end in range(k, n + 1):
        for size in range(k, min(2 * k - 1, end) + 1):
            begin = end - size
            if best[begin] == np.inf:
                continue
            part = sums[end] - sums[begin]
            cost = best[begin] + squares[end] - squares[begin] - part * part / size
            if cost < best[end]:
                best[end] = cost
                start[end] = begin
    group = np.empty(n, np.int64)
    end, number = n, 0
    while end > 0:
        for i in range(start[end], end):
            group[i] = number
        end = start[end]
        number += 1
    return group
