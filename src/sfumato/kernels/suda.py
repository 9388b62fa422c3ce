"""Kernel of SUDA: split groups of records by one more key and find who is alone."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint8]


@nb.njit(nogil=True, cache=True)
def refine(
    rows: Labels,
    group: Labels,
    groups: int,
    column: npt.NDArray[Any],
    width: int,
    counts: IntArray,
    own: Bits,
) -> tuple[Labels, Labels, Labels, int]:
    """Split ``group`` (labels of ``rows``, 0 … groups − 1) by a key, ``column`` of ``width`` codes.

    Rows that are known to be alone (a bit each in ``own``) are in nobody's way and left out. Returns
    the rows newly alone, whose bits are set, those left with their labels, and the number of labels.
    """
    n = rows.size
    kept = np.empty(n, np.int32)
    code = np.empty(n, np.int64)
    m = 0
    for i in range(n):
        r = rows[i]
        if own[r >> 3] >> (r & 7) & 1:
            continue
        kept[m] = i
        code[m] = np.int64(group[i]) * width + column[r]
        m += 1
    slot = np.empty(m, np.int32)
    total = np.int64(groups) * width
    if total <= 4 * m + 65536:
        size = total
        for z in range(m):
            slot[z] = code[z]
    else:
        space = 4
        while (1 << space) < 2 * m:
            space += 1
        size = np.int64(1) << space
        shift = np.uint64(64 - space)
        held = np.full(size, -1, np.int64)
        for z in range(m):
            at = np.int64((np.uint64(code[z]) * np.uint64(0x9E3779B97F4A7C15)) >> shift)
            while held[at] >= 0 and held[at] != code[z]:
                at = (at + 1) & (size - 1)
            held[at] = code[z]
            slot[z] = at
    people = np.zeros(size, np.int64)
    for z in range(m):
        people[slot[z]] += counts[rows[kept[z]]]
    alone = np.empty(m, np.int32)
    left = np.empty(m, np.int32)
    label = np.empty(m, np.int32)
    name = np.full(size, -1, np.int32)
    found, stay, names = 0, 0, 0
    for z in range(m):
        r = rows[kept[z]]
        s = slot[z]
        if people[s] == 1:
            own[r >> 3] |= np.uint8(1 << (r & 7))
            alone[found] = r
            found += 1
            continue
        if name[s] < 0:
            name[s] = names
            names += 1
        left[stay] = r
        label[stay] = name[s]
        stay += 1
    return alone[:found].copy(), left[:stay].copy(), label[:stay].copy(), names


@nb.njit(nogil=True, cache=True)
def keep_new(rows: IntArray, bits: Bits, below: IntArray, own: int) -> IntArray:
    """Of the rows that are alone in a set, those that are in none of the sets below; all are noted."""
    out = np.empty(rows.size, np.int64)
    n = 0
    for i in range(rows.size):
        byte, bit = rows[i] >> 3, np.uint8(1 << (rows[i] & 7))
        known = False
        for b in range(below.size):
            if bits[below[b], byte] & bit:
                known = True
                break
        bits[own, byte] |= bit
        if not known:
            out[n] = rows[i]
            n += 1
    return out[:n].copy()
