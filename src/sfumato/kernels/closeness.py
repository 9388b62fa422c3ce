"""Kernels of attribute risk: how far the values of each cell are from those of the whole file.

All take the counts of each cell's values that occur, sorted by cell and value: those of cell i stand at
``starts[i] … starts[i + 1] − 1``. A cell without a value has distance 0: it tells nothing.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@nb.njit(nogil=True, cache=True)
def equal_distances(starts: IntArray, value: IntArray, count: IntArray, share: FloatArray) -> FloatArray:
    """½ Σ |p − q| over all values: q of the values that don't occur in the cell is what is left of 1."""
    out = np.zeros(starts.size - 1)
    for i in range(out.size):
        total = 0
        for z in range(starts[i], starts[i + 1]):
            total += count[z]
        if total == 0:
            continue
        gain = 0.0
        for z in range(starts[i], starts[i + 1]):
            over = count[z] / total - share[value[z]]
            if over > 0:
                gain += over
        # Both sides of ½ Σ |p − q| are equal: what some values have too much, others lack.
        out[i] = gain
    return out


@nb.njit(nogil=True, cache=True)
def _first_above(below: FloatArray, low: int, high: int, p: float) -> int:
    while low < high:
        middle = (low + high) // 2
        if below[middle] > p:
            high = middle
        else:
            low = middle + 1
    return low


@nb.njit(nogil=True, cache=True)
def ordered_distances(starts: IntArray, value: IntArray, count: IntArray, share: FloatArray) -> FloatArray:
    """Σ_i |Σ_{j ≤ i} (p_j − q_j)| / (m − 1) over the m values in order.

    Between two values that occur in the cell its cumulated share P stands still while the file's, Q,
    grows; the sum of |P − Q| over such a stretch comes from the running sums of Q, cut where Q
    passes P. The work is that of the values that occur, not of all m.
    """
    m = share.size
    out = np.zeros(starts.size - 1)
    if m < 2:
        return out
    below = np.cumsum(share)
    running = np.zeros(m + 1)
    for j in range(m):
        running[j + 1] = running[j] + below[j]
    for i in range(out.size):
        total = 0
        for z in range(starts[i], starts[i + 1]):
            total += count[z]
        if total == 0:
            continue
        # The stretch before the first value that occurs: P = 0.
        distance = running[value[starts[i]]]
        so_far = 0
        for z in range(starts[i], starts[i + 1]):
            so_far += count[z]
            p = so_far / total
            left = value[z]
            right = value[z + 1] if z + 1 < starts[i + 1] else m
            cut = _first_above(below, left, right, p)
            distance += p * (cut - left) - (running[cut] - running[left])
            distance += running[right] - running[cut] - p * (right - cut)
        out[i] = max(distance / (m - 1), 0.0)
    return out


@nb.njit(nogil=True, cache=True)
def hierarchical_distances(
    starts: IntArray, value: IntArray, count: IntArray, share: FloatArray, ancestors: IntArray
) -> FloatArray:
    """Σ over inner nodes of (height / H) · min(what its children have too much, what they lack).

    ``ancestors[h, v]`` is the node of level h that value v lies in (level 0: the value itself; level
    H is the root, in which all meet).
    """
    levels, m = ancestors.shape
    top = levels - 1
    out = np.zeros(starts.size - 1)
    if top < 1:
        return out
    sizes = np.zeros(levels, np.int64)
    for h in range(levels):
        for v in range(m):
            sizes[h] = max(sizes[h], ancestors[h, v] + 1)
    widest = sizes.max()
    # The file's share in every node, and a value under each node (its way up to the next level).
    held = np.zeros((levels, widest))
    member = np.zeros((levels, widest), np.int64)
    for h in range(levels):
        for v in range(m):
            held[h, ancestors[h, v]] += share[v]
            member[h, ancestors[h, v]] = v
    extra = np.zeros((levels, widest))
    over = np.zeros((levels, widest))
    lacks = np.zeros((levels, widest))
    seen = np.zeros((levels, widest), np.bool_)
    touched = np.empty((levels, m), np.int64)
    for i in range(out.size):
        total = 0
        for z in range(starts[i], starts[i + 1]):
            total += count[z]
        if total == 0:
            continue
        n = 0
        for z in range(starts[i], starts[i + 1]):
            leaf = ancestors[0, value[z]]
            extra[0, leaf] = count[z] / total - share[value[z]]
            touched[0, n] = leaf
            n += 1
        distance = 0.0
        for h in range(1, levels):
            above = 0
            for z in range(n):
                child = touched[h - 1, z]
                node = ancestors[h, member[h - 1, child]]
                if not seen[h, node]:
                    seen[h, node] = True
                    extra[h, node] = 0.0
                    over[h, node] = 0.0
                    # Until its children are met, the node lacks all that the file has in it.
                    lacks[h, node] = held[h, node]
                    touched[h, above] = node
                    above += 1
                lacks[h, node] -= held[h - 1, child]
                extra[h, node] += extra[h - 1, child] + held[h - 1, child]
                if extra[h - 1, child] > 0:
                    over[h, node] += extra[h - 1, child]
                else:
                    lacks[h, node] -= extra[h - 1, child]
            for z in range(above):
                node = touched[h, z]
                extra[h, node] -= held[h, node]
                distance += h / top * min(over[h, node], max(lacks[h, node], 0.0))
                seen[h, node] = False
            n = above
        out[i] = distance
    return out


@nb.njit(nogil=True, cache=True)
def gains(
    starts: IntArray, value: IntArray, count: IntArray, share: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """For each cell, over its values: the largest share p, the largest (p − q)/q, the largest
    (p − q)/q divided by −ln q, the largest |ln(p/q)| (infinite where a value of the file is absent),
    and the same of the values that occur.
    """
    cells = starts.size - 1
    top, likeness, enhanced, disclosure = np.zeros(cells), np.zeros(cells), np.zeros(cells), np.zeros(cells)
    occurring = np.zeros(cells)
    there = 0
    for v in range(share.size):
        if share[v] > 0:
            there += 1
    for i in range(cells):
        total = 0
        for z in range(starts[i], starts[i + 1]):
            total += count[z]
        if total == 0:
            continue
        for z in range(starts[i], starts[i + 1]):
            p, q = count[z] / total, share[value[z]]
            top[i] = max(top[i], p)
            gain = (p - q) / q
            likeness[i] = max(likeness[i], gain)
            # A value that everybody has can't be learnt: its p is 1 too.
            if q < 1.0 and gain > 0.0:
                enhanced[i] = max(enhanced[i], gain / -np.log(q))
            disclosure[i] = max(disclosure[i], abs(np.log(p / q)))
        occurring[i] = disclosure[i]
        if starts[i + 1] - starts[i] < there:
            disclosure[i] = np.inf
    return top, likeness, enhanced, disclosure, occurring
