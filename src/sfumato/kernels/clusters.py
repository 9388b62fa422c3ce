"""Kernels that put alike records into clusters: by values alone, whatever the order of the records.

An *atom* is all records that look alike to the clusters (or one unit with all its records): it is never
torn apart, so no tie has to be broken by a record's place. Atoms come in an order that their values
decide; of equal distances the earlier atom wins. A cluster is whole where its records are at least
``k`` times those of its largest unit (``cap`` is 1 where every record is a unit of its own).
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float64]
PointArray = npt.NDArray[np.float32]


@nb.njit(nogil=True, cache=True, inline="always")
def _mixed(word: np.uint64) -> np.uint64:
    """The finisher of splitmix64: every bit of the word moves every bit of the result."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@nb.njit(nogil=True, cache=True)
def add_digest(codes: npt.NDArray[np.int32], column: int, digest: WordArray) -> None:
    """Add one column's codes to every record's digest."""
    salt = _mixed(np.uint64(column + 1) * np.uint64(0x9E3779B97F4A7C15))
    for i in range(codes.size):
        digest[i] += _mixed(np.uint64(codes[i]) * np.uint64(0xD1B54A32D192ED03) + salt)


@nb.njit(nogil=True, cache=True)
def sum_digests(digest: WordArray, group: IntArray, n_groups: int) -> WordArray:
    """The digest of each group's records, whatever their order."""
    out = np.zeros(n_groups, np.uint64)
    for i in range(digest.size):
        out[group[i]] += _mixed(digest[i] + np.uint64(0x9E3779B97F4A7C15))
    return out


@nb.njit(nogil=True, cache=True)
def by_group(group: IntArray, order: IntArray, at: IntArray) -> IntArray:
    """``order`` group by group, otherwise as it is; ``at`` has where each group begins."""
    at = at.copy()
    out = np.empty(order.size, np.int64)
    for z in range(order.size):
        g = group[order[z]]
        out[at[g]] = order[z]
        at[g] += 1
    return out


@nb.njit(nogil=True, cache=True)
def longest_axis(points: PointArray, rows: IntArray, weight: IntArray, most: int) -> FloatArray:
    """The first principal axis of these atoms (of at most about ``most`` of them, evenly taken).

    Power iteration, in an order that the atoms' order decides; the largest entry is made positive.
    """
    q = points.shape[1]
    step = rows.size // most + 1
    mean = np.zeros(q)
    total = 0.0
    for z in range(0, rows.size, step):
        i = rows[z]
        total += weight[i]
        for u in range(q):
            mean[u] += weight[i] * points[i, u]
    mean /= total
    cov = np.zeros((q, q))
    d = np.empty(q)
    for z in range(0, rows.size, step):
        i = rows[z]
        for u in range(q):
            d[u] = points[i, u] - mean[u]
        for u in range(q):
            x = weight[i] * d[u]
            for v in range(u + 1):
                cov[u, v] += x * d[v]
    for u in range(q):
        for v in range(u):
            cov[v, u] = cov[u, v]
    axis = np.empty(q)
    for u in range(q):
        axis[u] = cov[u, u] * (1.0 + 1e-3 * u) + 1e-12
    for _ in range(60):
        size = 0.0
        for u in range(q):  # by hand: a library's product may depend on its threads
            d[u] = 0.0
            for v in range(q):
                d[u] += cov[u, v] * axis[v]
            size += d[u] * d[u]
        if size <= 0.0:
            break
        moved = 0.0
        for u in range(q):
            fresh = d[u] / np.sqrt(size)
            moved = max(moved, abs(fresh - axis[u]))
            axis[u] = fresh
        if moved < 1e-7:
            break
    top = 0
    for u in range(1, q):
        if np.abs(axis[u]) > np.abs(axis[top]):
            top = u
    return axis if axis[top] >= 0 else -axis


@nb.njit(nogil=True, cache=True)
def project(points: PointArray, rows: IntArray, axis: FloatArray) -> FloatArray:
    out = np.empty(rows.size)
    for z in range(rows.size):
        t = 0.0
        for u in range(axis.size):
            t += axis[u] * points[rows[z], u]
        out[z] = t
    return out


@nb.njit(nogil=True, cache=True)
def best_cut(order: IntArray, rows: IntArray, weight: IntArray, cap: IntArray, k: int) -> int:
    """How many atoms go left: nearest to half of the records with both sides whole; 0 where no cut does."""
    m = order.size
    whole = np.zeros(m + 1, np.bool_)  # whether the atoms from here on are whole
    total, largest = 0, 0
    for z in range(m - 1, -1, -1):
        i = rows[order[z]]
        total += weight[i]
        largest = max(largest, cap[i])
        whole[z] = total >= k * largest
    best, least = 0, total + 1
    left, largest = 0, 0
    for z in range(m - 1):
        i = rows[order[z]]
        left += weight[i]
        largest = max(largest, cap[i])
        if left >= k * largest and whole[z + 1]:
            off = abs(2 * left - total)
            if off < least:
                least, best = off, z + 1
    return best


@nb.njit(nogil=True, cache=True)
def _farthest(x: PointArray, place: IntArray, left: int, point: FloatArray) -> int:
    best, most, q = 0, -1.0, x.shape[1]
    for z in range(left):
        i = place[z]
        d = 0.0
        for u in range(q):
            step = x[i, u] - point[u]
            d += step * step
        if d > most or (d == most and i < place[best]):
            most, best = d, z
    return best


@nb.njit(nogil=True, cache=True)
def _take(
    x: PointArray, weight: IntArray, cap: IntArray, place: IntArray, left: int, seed: int, k: int,
    distance: FloatArray, near: IntArray, label: IntArray, number: int,
) -> int:  # fmt: skip
    """Put the seed's nearest atoms into a cluster until it is whole; how many atoms are left.

    Nothing is taken (and −1 returned) where the rest would not be whole.
    """
    q = x.shape[1]
    centre = place[seed]
    room = 0
    for z in range(left):
        room = max(room, cap[place[z]])
    room = min(left, k * room)
    have = 0
    for z in range(left):
        i = place[z]
        d = 0.0
        for u in range(q):
            step = np.float64(x[i, u]) - np.float64(x[centre, u])
            d += step * step
        if i == centre:
            d = -1.0
        distance[z] = d
        if have == room:
            last = near[room - 1]
            if d > distance[last] or (d == distance[last] and i > place[last]):
                continue
        at = have if have < room else room - 1
        while at > 0:
            before = near[at - 1]
            if distance[before] < d or (distance[before] == d and place[before] < i):
                break
            near[at] = before
            at -= 1
        near[at] = z
        if have < room:
            have += 1
    total, largest, taken = 0, 0, 0
    while taken < have:
        i = place[near[taken]]
        total += weight[i]
        largest = max(largest, cap[i])
        taken += 1
        if total >= k * largest:
            break
    if total < k * largest:
        return -1
    for z in range(taken):
        distance[near[z]] = -2.0
    rest, most = 0, 0
    for z in range(left):
        if distance[z] != -2.0:
            rest += weight[place[z]]
            most = max(most, cap[place[z]])
    if rest < k * most or rest == 0:
        return -1
    kept = 0
    for z in range(left):
        if distance[z] == -2.0:
            label[place[z]] = number
        else:
            place[kept] = place[z]
            kept += 1
    return kept


@nb.njit(nogil=True, cache=True)
def gather_alike(
    points: PointArray, rows: IntArray, weight: IntArray, cap: IntArray, k: int, label: IntArray
) -> int:
    """MDAV on these atoms: their cluster's number is written into ``label``; how many clusters there are.

    As in :func:`sfumato.kernels.mdav.mdav`, but a cluster is filled with whole atoms until it is whole,
    and what is left over when the rest would not be whole forms the last cluster with it.
    """
    m, q = rows.size, points.shape[1]
    x = np.empty((m, q), np.float32)
    w = np.empty(m, np.int64)
    c = np.empty(m, np.int64)
    total = np.zeros(q)
    mass, largest = 0, 0
    for z in range(m):
        i = rows[z]
        w[z], c[z] = weight[i], cap[i]
        mass += w[z]
        largest = max(largest, c[z])
        for u in range(q):
            x[z, u] = points[i, u]
            total[u] += w[z] * x[z, u]
    place = np.arange(m)
    own = np.zeros(m, np.int64)
    distance = np.empty(m)
    near = np.empty(min(m, k * max(largest, 1)), np.int64)
    left, number = m, 0
    point = np.empty(q)
    while left > 1 and mass >= 2 * k:
        both = mass >= 3 * k
        for u in range(q):
            point[u] = total[u] / mass
        r = _farthest(x, place, left, point)
        first = place[r]
        for u in range(q):
            point[u] = x[first, u]
        s = place[_farthest(x, place, left, point)]
        after = _take(x, w, c, place, left, r, k, distance, near, own, number)
        if after < 0:
            break
        left = after
        number += 1
        if both:
            at = -1
            for z in range(left):
                if place[z] == s:
                    at = z
            if at >= 0:
                after = _take(x, w, c, place, left, at, k, distance, near, own, number)
                if after < 0:
                    break
                left = after
                number += 1
        mass = 0
        total[:] = 0.0
        for z in range(left):
            i = place[z]
            mass += w[i]
            for u in range(q):
                total[u] += w[i] * x[i, u]
    for z in range(left):
        own[place[z]] = number
    for z in range(m):
        label[rows[z]] = own[z]
    return number + 1
