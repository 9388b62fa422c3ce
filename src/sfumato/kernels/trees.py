"""Kernels of classification and regression trees: grow one, and let records fall to its leaves.

A predictor is a line of whole numbers whose order matters and whose distances don't. The response has
numbers (a column each) and a class; a cut is judged by

    Σ over both sides of  (Σ_d (Σ numbers_d)² + Σ_k (count of class k)²) / records of the side,

which is the same as the least sum of squares around the sides' means plus Gini's impurity. So a column of
amounts with a heap at zero, a missing code and a tail is one response.

Large nodes are cut between 256 classes of each predictor, whose sums one pass over the records gives.
A node of ``SMALL`` records or fewer, or one that no such cut divides, is copied to a place of its own, each
predictor is sorted once, and all cuts below are exact: the lists stay sorted when they are divided.

Breiman, L., Friedman, J., Olshen, R., Stone, C. (1984). Classification and Regression Trees.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BINS = 256
SMALL = 4096
GAIN = 1e-10
"""A cut must better the criterion by this share of the node's records; less is rounding error."""
SLACK = 1e-6
"""A leaf's mass may be this much too small: thirds and sevenths don't add up exactly."""


@nb.njit(nogil=True, cache=True)
def grow(
    codes: Ints, bins: npt.NDArray[np.uint8], tops: Ints, rows: Ints, starts: Longs, numbers: Floats,
    classes: Ints, n_classes: int, mass: Floats, leaf: int, small: int = SMALL,
) -> tuple[Ints, Ints, Ints, Ints, Ints]:  # fmt: skip
    """A tree with one root for each stratum: ``(feature, cut, below, low, high)``.

    ``codes[f]`` is predictor f, ``bins[:, f]`` the same in at most 256 classes and ``tops[f, b]`` the
    largest code in class b. ``rows`` lists the records by stratum, and within a leaf in the order in which
    its donors shall stand; it comes back divided into leaves. ``starts`` has the first place of each
    stratum and the number of records. Node s is the root of stratum s. A record with
    ``codes[feature] <= cut`` goes to node ``below``, others to the next one; a leaf has feature −1 and its
    donors are ``rows[low:high]``. Both sides of every cut have a ``mass`` of ``leaf`` at least: records
    count 1 each, or 1/m in a household of m, so that a leaf has donors of ``leaf`` households or more.
    """
    p = len(codes)
    n = len(rows)
    strata = len(starts) - 1
    most = strata + 2 * (n // leaf + 1)
    feature = np.full(most, -1, np.int32)
    cut = np.zeros(most, np.int32)
    below = np.zeros(most, np.int32)
    low = np.zeros(most, np.int32)
    high = np.zeros(most, np.int32)
    stack = np.empty(most, np.int32)
    spare = np.empty(n, np.int32)
    total = np.empty(numbers.shape[1])
    count = np.zeros(n_classes, np.int64)
    used = strata
    depth = 0
    for s in range(strata):
        low[s], high[s] = starts[s], starts[s + 1]
        stack[depth] = s
        depth += 1
    while depth and p:
        depth -= 1
        node = stack[depth]
        first, end = low[node], high[node]
        if end - first < 2 * leaf:
            continue
        which = -1
        if end - first > small:
            now, whole, spread = _sums(rows, first, end, numbers, classes, mass, total, count)
            if spread - now <= GAIN * (end - first):
                continue
            which, bin_ = _binned_cut(
                rows, first, end, bins, numbers, classes, mass, total, count, whole, leaf - SLACK, now
            )
        if which < 0:
            used = _grow_exactly(
                node,
                codes,
                rows,
                numbers,
                classes,
                n_classes,
                mass,
                leaf,
                feature,
                cut,
                below,
                low,
                high,
                used,
            )
            continue
        to = first
        kept = 0
        for at in range(first, end):
            row = rows[at]
            if bins[row, which] <= bin_:
                rows[to] = row
                to += 1
            else:
                spare[kept] = row
                kept += 1
        rows[to:end] = spare[:kept]
        feature[node] = which
        cut[node] = tops[which, bin_]
        below[node] = used
        low[used], high[used] = first, to
        low[used + 1], high[used + 1] = to, end
        stack[depth], stack[depth + 1] = used, used + 1
        depth += 2
        used += 2
    return feature[:used], cut[:used], below[:used], low[:used], high[:used]


@nb.njit(nogil=True, cache=True)
def _sums(
    rows: Ints,
    first: int,
    end: int,
    numbers: Floats,
    classes: Ints,
    mass: Floats,
    total: Floats,
    count: Longs,
) -> tuple[float, float, float]:
    """A node's criterion as it is, its mass, and the criterion if every record were a leaf."""
    total[:] = 0.0
    count[:] = 0
    whole = 0.0
    spread = 0.0
    for at in range(first, end):
        row = rows[at]
        whole += mass[row]
        for j in range(len(total)):
            total[j] += numbers[row, j]
            spread += numbers[row, j] * numbers[row, j]
        count[classes[row]] += 1
    now = 0.0
    for j in range(len(total)):
        now += total[j] * total[j]
    if len(count) > 1:
        for k in range(len(count)):
            now += float(count[k]) * count[k]
        spread += end - first
    return now / (end - first), whole, spread


@nb.njit(nogil=True, cache=True)
def _binned_cut(
    rows: Ints, first: int, end: int, bins: npt.NDArray[np.uint8], numbers: Floats, classes: Ints,
    mass: Floats, total: Floats, count: Longs, whole: float, leaf: float, now: float,
) -> tuple[int, int]:  # fmt: skip
    """The best predictor and the last class that goes left; −1 where no cut is good."""
    p = bins.shape[1]
    d = len(total)
    n_classes = len(count)
    by_class = n_classes > 1
    size = end - first
    sums = np.zeros((p, BINS, d + 2))
    held = np.zeros((p if by_class else 0, BINS, n_classes), np.int32)
    for at in range(first, end):
        row = rows[at]
        for f in range(p):
            b = bins[row, f]
            sums[f, b, 0] += 1.0
            sums[f, b, 1] += mass[row]
            for j in range(d):
                sums[f, b, 2 + j] += numbers[row, j]
            if by_class:
                held[f, b, classes[row]] += 1
    best = now + GAIN * size
    which, at_bin = -1, 0
    left = np.empty(d)
    left_count = np.empty(n_classes, np.int64)
    for f in range(p):
        left[:] = 0.0
        left_count[:] = 0
        m = 0.0
        have = 0.0
        for b in range(BINS - 1):
            if sums[f, b, 0] == 0.0:
                continue
            m += sums[f, b, 0]
            have += sums[f, b, 1]
            for j in range(d):
                left[j] += sums[f, b, 2 + j]
            if by_class:
                for k in range(n_classes):
                    left_count[k] += held[f, b, k]
            if whole - have < leaf or m == size:
                break
            if have < leaf:
                continue
            one = 0.0
            two = 0.0
            for j in range(d):
                one += left[j] * left[j]
                two += (total[j] - left[j]) ** 2
            if by_class:
                for k in range(n_classes):
                    one += float(left_count[k]) * left_count[k]
                    two += float(count[k] - left_count[k]) ** 2
            score = one / m + two / (size - m)
            if score > best:
                best, which, at_bin = score, f, b
    return which, at_bin


@nb.njit(nogil=True, cache=True)
def _grow_exactly(
    root: int, codes: Ints, rows: Ints, numbers: Floats, classes: Ints, n_classes: int, mass: Floats,
    leaf: int, feature: Ints, cut: Ints, below: Ints, low: Ints, high: Ints, used: int,
) -> int:  # fmt: skip
    """All cuts below one node, on copies of its records; the number of nodes afterwards."""
    p = len(codes)
    base = low[root]
    n = high[root] - base
    d = numbers.shape[1]
    own = np.empty((p, n), np.int32)
    y = np.empty((n, d))
    kind = np.empty(n, np.int32)
    weight = np.empty(n)
    order = np.empty((p + 1, n), np.int32)
    names = rows[base : base + n].copy()
    for i in range(n):
        row = names[i]
        weight[i] = mass[row]
        kind[i] = classes[row]
        for j in range(d):
            y[i, j] = numbers[row, j]
        for f in range(p):
            own[f, i] = codes[f, row]
        order[p, i] = i
    for f in range(p):
        order[f] = np.argsort(own[f], kind="mergesort")
    goes_left = np.empty(n, np.bool_)
    spare = np.empty(n, np.int32)
    total = np.empty(d)
    left = np.empty(d)
    count = np.zeros(n_classes, np.int64)
    left_count = np.zeros(n_classes, np.int64)
    stack = np.empty(2 * (n // leaf + 1) + 1, np.int32)
    stack[0] = root
    depth = 1
    while depth:
        depth -= 1
        node = stack[depth]
        first, end = low[node] - base, high[node] - base
        size = end - first
        if size < 2 * leaf:
            continue
        now, whole, spread = _sums(order[p], first, end, y, kind, weight, total, count)
        if spread - now <= GAIN * size:
            continue
        best = now + GAIN * size
        which, many = -1, 0
        for f in range(p):
            score, m = _exact_cut(
                order[f], own[f], first, end, y, kind, weight, total, count, left, left_count,
                whole, leaf - SLACK,
            )  # fmt: skip
            if m and score > best:
                best, which, many = score, f, m
        if which < 0:
            continue
        middle = first + many
        for at in range(first, end):
            goes_left[order[which, at]] = at < middle
        for f in range(p + 1):
            if f == which:
                continue
            line = order[f]
            to = first
            kept = 0
            for at in range(first, end):
                i = line[at]
                if goes_left[i]:
                    line[to] = i
                    to += 1
                else:
                    spare[kept] = i
                    kept += 1
            for i in range(kept):
                line[to + i] = spare[i]
        feature[node] = which
        cut[node] = own[which, order[which, middle - 1]]
        below[node] = used
        low[used], high[used] = base + first, base + middle
        low[used + 1], high[used + 1] = base + middle, base + end
        stack[depth], stack[depth + 1] = used, used + 1
        depth += 2
        used += 2
    for i in range(n):
        rows[base + i] = names[order[p, i]]
    return used


@nb.njit(nogil=True, cache=True)
def _exact_cut(
    line: Ints, codes: Ints, low: int, high: int, numbers: Floats, classes: Ints, mass: Floats, total: Floats,
    count: Longs, left: Floats, left_count: Longs, whole: float, leaf: float,
) -> tuple[float, int]:  # fmt: skip
    """The best criterion of one sorted predictor, and how many records go left (0: no cut)."""
    best = -np.inf
    cut = 0
    if codes[line[low]] == codes[line[high - 1]]:
        return best, cut
    d = len(total)
    by_class = len(count) > 1
    squares_left = 0
    squares_right = 0
    left[:] = 0.0
    if by_class:
        left_count[:] = 0
        for k in range(len(count)):
            squares_right += count[k] * count[k]
    have = 0.0
    for at in range(low, high - 1):
        row = line[at]
        have += mass[row]
        if whole - have < leaf:
            break
        for j in range(d):
            left[j] += numbers[row, j]
        if by_class:
            k = classes[row]
            squares_left += 2 * left_count[k] + 1
            left_count[k] += 1
            squares_right += 1 - 2 * (count[k] - left_count[k] + 1)
        if have < leaf or codes[row] == codes[line[at + 1]]:
            continue
        m = at + 1 - low
        one = float(squares_left)
        two = float(squares_right)
        for j in range(d):
            one += left[j] * left[j]
            two += (total[j] - left[j]) * (total[j] - left[j])
        score = one / m + two / (high - low - m)
        if score > best:
            best = score
            cut = m
    return best, cut


@nb.njit(nogil=True, cache=True)
def fall(feature: Ints, cut: Ints, below: Ints, roots: Ints, codes: Ints) -> Ints:
    """The leaf of each record, from its stratum's root."""
    out = np.empty(len(roots), np.int32)
    for i in range(len(roots)):
        node = roots[i]
        while feature[node] >= 0:
            node = below[node] + (codes[feature[node], i] > cut[node])
        out[i] = node
    return out
