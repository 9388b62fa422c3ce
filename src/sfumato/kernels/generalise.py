"""Kernels of the search for recodes: from codes to groups and to what is unsafe, without making tables.

An *item* is a combination of a group so far (keys that have their level) and a suffix (keys to come, as they
are); ``step`` gives each item the class of one more key, ``compress`` joins the items that are alike then.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
LabelArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]


@nb.njit(nogil=True, cache=True)
def join(
    first: LabelArray, second: LabelArray, size: int, scratch: IntArray, epoch: int
) -> tuple[LabelArray, LabelArray]:
    """Labels 0 … g−1 of the pairs (first, second < size) in order of appearance; where each label appears
    first.

    ``scratch`` holds (epoch, label) at each pair's own place where there is room for all of them, so that it
    needn't be cleared; else a table of twice as many slots as items is hashed into.
    """
    n = first.size
    labels = np.empty(n, np.int32)
    places = np.empty(n, np.int32)
    found = 0
    top = np.int64(0)
    for i in range(n):
        if first[i] > top:
            top = np.int64(first[i])
    if (top + 1) * size <= scratch.size:
        for i in range(n):
            at = np.int64(first[i]) * size + second[i]
            held = scratch[at]
            if held >> 32 == epoch:
                labels[i] = np.int32(held & 0xFFFFFFFF)
            else:
                scratch[at] = (np.int64(epoch) << 32) | found
                labels[i] = found
                places[found] = i
                found += 1
        return labels, places[:found].copy()
    bits = 4
    while (1 << bits) < 2 * n:
        bits += 1
    mask = (np.int64(1) << bits) - 1
    shift = np.uint64(64 - bits)
    slots = np.full(np.int64(1) << bits, -1, np.int32)
    for i in range(n):
        key = np.int64(first[i]) * size + second[i]
        at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        while True:
            label = slots[at]
            if label < 0:
                slots[at] = found
                labels[i] = found
                places[found] = i
                found += 1
                break
            j = places[label]
            if first[j] == first[i] and second[j] == second[i]:
                labels[i] = label
                break
            at = (at + 1) & mask
    return labels, places[:found].copy()


@nb.njit(nogil=True, cache=True)
def sums_of(labels: LabelArray, found: int, counts: IntArray) -> IntArray:
    """The records of each label."""
    out = np.zeros(found, np.int64)
    for i in range(labels.size):
        out[labels[i]] += counts[i]
    return out


@nb.njit(nogil=True, cache=True)
def sizes_of(labels: LabelArray, found: int, sizes: FloatArray) -> FloatArray:
    """The population of each label."""
    out = np.zeros(found, np.float64)
    for i in range(labels.size):
        out[labels[i]] += sizes[i]
    return out


@nb.njit(nogil=True, cache=True)
def classes_at(suffix: LabelArray, code_of: LabelArray, to: LabelArray) -> LabelArray:
    """The class of each item's next key."""
    out = np.empty(suffix.size, np.int32)
    for i in range(suffix.size):
        out[i] = to[code_of[suffix[i]]]
    return out


@nb.njit(nogil=True, cache=True)
def gathered(table: LabelArray, at: LabelArray) -> LabelArray:
    """table[at]"""
    out = np.empty(at.size, np.int32)
    for i in range(at.size):
        out[i] = table[at[i]]
    return out


@nb.njit(nogil=True, cache=True)
def _filled(counts: FloatArray, most: float) -> float:
    total = 0.0
    for v in range(counts.size):
        total += min(counts[v], most)
    return total


@nb.njit(nogil=True, cache=True)
def _entropy(counts: FloatArray, most: float) -> float:
    total = _filled(counts, most)
    out = 0.0
    for v in range(counts.size):
        share = min(counts[v], most) / total
        if share > 0:
            out -= share * np.log(share)
    return out


@nb.njit(nogil=True, cache=True)
def _tail(ordered: FloatArray, most: float, least: int) -> float:
    """Σ of the counts from the l-th largest on, none above ``most``; ``ordered`` falls."""
    out = 0.0
    for v in range(least - 1, ordered.size):
        out += min(ordered[v], most)
    return out


@nb.njit(nogil=True, cache=True)
def most_entropy(counts: FloatArray, least: float) -> int:
    """The most records of a group that can be left so that exp(entropy) ≥ least: all counts cut at one
    height.

    Of all ways to leave r records, cutting the highest counts gives the most even shares, and so the most
    entropy; entropy falls with the height.
    """
    need = np.log(least) - 1e-12
    if counts.size < least:
        return 0
    low, high = 0, int(counts.max())
    if _entropy(counts, float(high)) >= need:
        return int(_filled(counts, float(high)))
    while high - low > 1:
        middle = (low + high) // 2
        if _entropy(counts, float(middle)) >= need:
            low = middle
        else:
            high = middle
    # Between the heights some counts may be one higher than others: the bound must not be too low.
    return int(_filled(counts, float(low + 1)))


@nb.njit(nogil=True, cache=True)
def most_recursive(counts: FloatArray, least: int, c: float) -> int:
    """The most records that can be left so that the largest count is below c times the counts from the
    least-th on."""
    if counts.size < least:
        return 0
    ordered = np.sort(counts)[::-1]
    low, high = 0, int(ordered[0])
    if high < c * _tail(ordered, float(high), least):
        return int(_filled(counts, float(high)))
    while high - low > 1:
        middle = (low + high) // 2
        if middle < c * _tail(ordered, float(middle), least):
            low = middle
        else:
            high = middle
    return int(_filled(counts, float(low)))


@nb.njit(nogil=True, cache=True)
def most_close(counts: FloatArray, shares: FloatArray, t: float) -> int:
    """The most records r that can be left with a total variation to the whole file's shares of at most t.

    Of r records at best min(count, r · share) lie below the whole's share of each value, so that the distance
    is at least 1 − Σ min(count / r, share), which grows with r.
    """
    total = int(counts.sum())
    low, high = 0, total
    while low < high:
        r = (low + high + 1) // 2
        under = 0.0
        for v in range(counts.size):
            under += min(counts[v] / r, shares[v])
        if 1.0 - under <= t + 1e-12:
            low = r
        else:
            high = r - 1
    return low


@nb.njit(nogil=True, cache=True)
def spread_of(
    starts: IntArray,
    values: LabelArray,
    counts: FloatArray,
    shares: FloatArray,
    model: int,
    least: float,
    c: float,
) -> tuple[npt.NDArray[np.bool_], IntArray]:
    """Of each group, whether it is unsafe and the most of its records that can be safe in any finer grouping.

    The values and counts of group g are at starts[g] … starts[g+1], in order of value. ``model``: 0 distinct,
    1 entropy, 2 recursive, 3 closeness with equal distances (``least`` is t), 4 closeness with ordered
    values.
    """
    groups = starts.size - 1
    unsafe = np.zeros(groups, np.bool_)
    most = np.zeros(groups, np.int64)
    for g in range(groups):
        here = counts[starts[g] : starts[g + 1]]
        total = int(here.sum())
        if here.size == 0:
            unsafe[g] = model != 4 and model != 3
            continue
        if model == 0:
            unsafe[g] = here.size < least
            most[g] = 0 if unsafe[g] else total
        elif model == 1:
            unsafe[g] = _entropy(here, here.max()) < np.log(least) - 1e-12
            most[g] = total if not unsafe[g] else most_entropy(here, least)
        elif model == 2:
            ordered = np.sort(here)[::-1]
            unsafe[g] = not ordered[0] < c * _tail(ordered, ordered[0], int(least))
            most[g] = total if not unsafe[g] else most_recursive(here, int(least), c)
        elif model == 3:
            own = shares[values[starts[g] : starts[g + 1]]]
            distance = 0.0
            for v in range(here.size):
                distance += max(here[v] / total - own[v], 0.0)
            unsafe[g] = distance > least + 1e-12
            most[g] = total if not unsafe[g] else most_close(here, own, least)
        else:
            # Ordered distance: mean absolute difference of the cumulative shares, over levels − 1 steps.
            at, distance, rest, all_ = starts[g], 0.0, 0.0, 0.0
            for v in range(shares.size):
                if at < starts[g + 1] and values[at] == v:
                    rest += counts[at] / total
                    at += 1
                all_ += shares[v]
                distance += abs(rest - all_)
            unsafe[g] = distance / max(shares.size - 1, 1) > least + 1e-12
            most[g] = total - 1 if unsafe[g] else total
    return unsafe, most
