"""Kernels of microaggregation: MDAV for several columns, the optimal grouping for one.

MDAV asks again and again for the record farthest from a point and for the k nearest to one. Both come from
a tree of boxes (Bentley 1975) that shrink as records are taken: a box whose nearest (or farthest) corner is
worse than what was found is passed over. Distances are summed in one order everywhere, and rounding is
monotone, so a corner's distance bounds those of the box's records exactly: the groups are those of plain
MDAV to the last tie.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


_LEAF = 12  # records of a box that isn't cut further


@nb.njit(nogil=True, cache=True)
def _select(x: FloatArray, order: IntArray, begin: int, end: int, nth: int, axis: int) -> None:
    """Bring the records of ``order[begin:end]`` below and above the ``nth`` by this column to its sides."""
    low, high = begin, end - 1
    while low < high:
        pivot = x[order[(low + high) // 2], axis]
        i, j = low, high
        while i <= j:
            while x[order[i], axis] < pivot:
                i += 1
            while x[order[j], axis] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if nth <= j:
            high = j
        elif nth >= i:
            low = i
        else:
            return


@nb.njit(nogil=True, cache=True)
def _fit(x: FloatArray, order: IntArray, start: IntArray, live: IntArray, node: int, box: FloatArray) -> None:
    """The box of a leaf's records: its lower corner, then its upper one."""
    m = x.shape[1]
    for j in range(m):
        box[node, j], box[node, m + j] = np.inf, -np.inf
    for z in range(start[node], start[node] + live[node]):
        for j in range(m):
            box[node, j] = min(box[node, j], x[order[z], j])
            box[node, m + j] = max(box[node, m + j], x[order[z], j])


@nb.njit(nogil=True, cache=True)
def _join(node: int, live: IntArray, box: FloatArray) -> None:
    """The box and the number of the records of both halves."""
    m = box.shape[1] // 2
    one, two = 2 * node + 1, 2 * node + 2
    live[node] = live[one] + live[two]
    for j in range(m):
        box[node, j] = min(box[one, j], box[two, j])
        box[node, m + j] = max(box[one, m + j], box[two, m + j])


@nb.njit(nogil=True, cache=True)
def _corner(box: FloatArray, node: int, point: FloatArray, far: bool) -> float:
    """The distance of a box's farthest corner, or of its nearest place."""
    m = point.size
    total = 0.0
    for j in range(m):
        below, above = box[node, j] - point[j], box[node, m + j] - point[j]
        if far:
            step = above if abs(above) > abs(below) else below
        else:
            step = below if below > 0.0 else (above if above < 0.0 else 0.0)
        total += step * step
    return total


@nb.njit(nogil=True, cache=True)
def _distance(x: FloatArray, i: int, point: FloatArray) -> float:
    total = 0.0
    for j in range(point.size):
        step = x[i, j] - point[j]
        total += step * step
    return total


@nb.njit(nogil=True, cache=True)
def _farthest(x: FloatArray, order: IntArray, start: IntArray, live: IntArray, box: FloatArray,
              inner: int, point: FloatArray, stack: IntArray) -> int:  # fmt: skip
    """The record farthest from a point; of equal ones, the one that comes first in the file."""
    best, most = -1, -1.0
    stack[0], size = 0, 1
    while size:
        size -= 1
        node = stack[size]
        if live[node] == 0 or _corner(box, node, point, True) < most:
            continue
        if node >= inner:
            for z in range(start[node], start[node] + live[node]):
                d = _distance(x, order[z], point)
                if d > most or (d == most and order[z] < best):
                    best, most = order[z], d
            continue
        one, two = 2 * node + 1, 2 * node + 2
        if live[one] and live[two] and _corner(box, one, point, True) > _corner(box, two, point, True):
            one, two = two, one
        stack[size], stack[size + 1] = one, two
        size += 2
    return best


@nb.njit(nogil=True, cache=True)
def _nearest(x: FloatArray, order: IntArray, start: IntArray, live: IntArray, box: FloatArray, inner: int,
             point: FloatArray, k: int, stack: IntArray, found: IntArray,
             distance: FloatArray) -> None:  # fmt: skip
    """The k records nearest to a point, kept in order by insertion (k is small)."""
    have = 0
    stack[0], size = 0, 1
    while size:
        size -= 1
        node = stack[size]
        if live[node] == 0 or (have == k and _corner(box, node, point, False) > distance[k - 1]):
            continue
        if node >= inner:
            for z in range(start[node], start[node] + live[node]):
                i = order[z]
                d = _distance(x, i, point)
                if have == k and (d > distance[k - 1] or (d == distance[k - 1] and i > found[k - 1])):
                    continue
                at = have if have < k else k - 1
                while at > 0 and (distance[at - 1] > d or (distance[at - 1] == d and found[at - 1] > i)):
                    found[at], distance[at] = found[at - 1], distance[at - 1]
                    at -= 1
                found[at], distance[at] = i, d
                have = min(have + 1, k)
            continue
        one, two = 2 * node + 1, 2 * node + 2
        if live[one] and live[two] and _corner(box, one, point, False) < _corner(box, two, point, False):
            one, two = two, one
        stack[size], stack[size + 1] = one, two
        size += 2


@nb.njit(nogil=True, cache=True)
def mdav(values: FloatArray, k: int) -> IntArray:
    """The group of each record, by maximum distance to the average vector.

    While at least 3k records are left: r is the record farthest from their centroid, s the one
    farthest from r; r and its k − 1 nearest form a group, then s and its k − 1 nearest. Of 2k to
    3k − 1 the farthest from the centroid and its nearest form one group, the others one; fewer form
    one. Groups have k to 2k − 1 records.
    """
    n, m = values.shape
    group = np.full(n, -1, np.int64)
    levels = 0
    while n >> levels > _LEAF:
        levels += 1
    inner = (1 << levels) - 1  # nodes that are cut; their halves are nodes 2i + 1 and 2i + 2
    nodes = 2 * inner + 1
    start, live = np.zeros(nodes + 1, np.int64), np.zeros(nodes, np.int64)
    box = np.empty((nodes, 2 * m))
    order = np.arange(n)
    live[0] = n
    for node in range(inner):
        begin, size = start[node], live[node]
        axis, widest = 0, -1.0
        for j in range(m):
            least, most = np.inf, -np.inf
            for z in range(begin, begin + size):
                least, most = min(least, values[order[z], j]), max(most, values[order[z], j])
            if most - least > widest:
                axis, widest = j, most - least
        half = size // 2
        _select(values, order, begin, begin + size, begin + half, axis)
        start[2 * node + 1], live[2 * node + 1] = begin, half
        start[2 * node + 2], live[2 * node + 2] = begin + half, size - half
    leaf, at = np.empty(n, np.int64), np.empty(n, np.int64)  # where each record is
    for node in range(inner, nodes):
        _fit(values, order, start, live, node, box)
        for z in range(start[node], start[node] + live[node]):
            leaf[order[z]], at[order[z]] = node, z
    for node in range(inner - 1, -1, -1):
        _join(node, live, box)
    # Sums go down in the order of a list that is closed from its end, as plain MDAV keeps its records.
    names, seat = np.arange(n), np.arange(n)
    total = np.zeros(m)
    for i in range(n):
        for j in range(m):
            total[j] += values[i, j]
    stack, found, distance = np.empty(2 * levels + 4, np.int64), np.empty(k, np.int64), np.empty(k)
    seats = np.empty(k, np.int64)
    left, number = n, 0
    while left >= 2 * k:
        both = left >= 3 * k
        r = _farthest(values, order, start, live, box, inner, total / left, stack)
        s = _farthest(values, order, start, live, box, inner, values[r], stack)
        for turn in range(2 if both else 1):
            point = values[r] if turn == 0 else values[s]
            _nearest(values, order, start, live, box, inner, point, k, stack, found, distance)
            for z in range(k):
                i = found[z]
                group[i] = number
                place = z  # the seats in order
                while place > 0 and seats[place - 1] > seat[i]:
                    seats[place] = seats[place - 1]
                    place -= 1
                seats[place] = seat[i]
                node = leaf[i]
                live[node] -= 1
                last = start[node] + live[node]
                order[at[i]] = order[last]
                at[order[last]] = at[i]
                _fit(values, order, start, live, node, box)
                while node:
                    node = (node - 1) // 2
                    _join(node, live, box)
            for z in range(k - 1, -1, -1):
                i = names[seats[z]]
                for j in range(m):
                    total[j] -= values[i, j]
                left -= 1
                names[seats[z]] = names[left]
                seat[names[left]] = seats[z]
            number += 1
    for i in range(n):
        if group[i] < 0:
            group[i] = number
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
