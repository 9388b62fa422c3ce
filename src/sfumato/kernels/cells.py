"""Kernels of key combinations: label packed codes, count joint tables, marginalise them, flag records."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


@nb.njit(nogil=True, cache=True)
def label_sparse(packed: IntArray) -> tuple[npt.NDArray[np.int32], IntArray]:
    """Labels 0 … c−1 in order of first appearance, and the place of each label's first appearance."""
    n = packed.size
    bits = 4
    while (1 << bits) < 2 * n:
        bits += 1
    size = np.int64(1) << bits
    mask = size - 1
    slots = np.full(size, -1, np.int32)
    labels = np.empty(n, np.int32)
    first = np.empty(n, np.int64)
    used = 0
    shift = np.uint64(64 - bits)
    for i in range(n):
        key = packed[i]
        # Fibonacci hashing: the top bits of a product spread neighbouring codes over the table.
        at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        while True:
            label = slots[at]
            if label < 0:
                slots[at] = used
                first[used] = i
                labels[i] = used
                used += 1
                break
            if packed[first[label]] == key:
                labels[i] = label
                break
            at = (at + 1) & mask
    return labels, first[:used].copy()


@nb.njit(nogil=True, cache=True)
def label_dense(packed: IntArray, size: int) -> tuple[npt.NDArray[np.int32], IntArray]:
    """Labels in ascending order of code, and one place (the first) of each label."""
    n = packed.size
    seen = np.full(size, -1, np.int32)
    for i in range(n - 1, -1, -1):
        seen[packed[i]] = i
    used = 0
    for code in range(size):
        if seen[code] >= 0:
            used += 1
    first = np.empty(used, np.int64)
    used = 0
    for code in range(size):
        if seen[code] >= 0:
            first[used] = seen[code]
            seen[code] = used
            used += 1
    labels = np.empty(n, np.int32)
    for i in range(n):
        labels[i] = seen[packed[i]]
    return labels, first


@nb.njit(nogil=True, cache=True)
def _digits(members: IntArray, sizes: IntArray, cells: np.int64) -> npt.NDArray[np.int32]:
    """The code of each key in every cell of a joint table, the last key running fastest."""
    out = np.empty((members.size, cells), np.int32)
    run = cells
    for q in range(members.size):
        size = sizes[members[q]]
        run //= size
        y = 0
        while y < cells:
            for level in range(size):
                for _ in range(run):
                    out[q, y] = level
                    y += 1
    return out


@nb.njit(nogil=True, cache=True)
def assess_block(
    codes: npt.NDArray[np.uint16],
    counts: IntArray,
    sizes: IntArray,
    members: IntArray,
    sets: IntArray,
    lengths: IntArray,
    tolerance: int,
    combinations: IntArray,
    unsafe_combinations: IntArray,
    unsafe_records: IntArray,
    smallest: IntArray,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
    """Count a block of keys jointly, marginalise it to each of its key sets and find what is unsafe.

    ``codes`` is keys × items, ``counts`` the records of each item, ``members`` the block's keys,
    ``sets`` the positions in ``members`` of each key set (``lengths`` of them count). Returns each
    item's cell in the block and, for each cell, a bit per key set that is unsafe there.
    """
    items = codes.shape[1]
    cells = np.int64(1)
    for q in range(members.size):
        cells *= sizes[members[q]]
    at = np.zeros(items, np.int32)
    for q in range(members.size):
        column = codes[members[q]]
        size = np.int32(sizes[members[q]])
        for i in range(items):
            at[i] = at[i] * size + np.int32(column[i])
    joint = np.zeros(cells, np.int64)
    for i in range(items):
        joint[at[i]] += counts[i]
    digits = _digits(members, sizes, cells)
    filled = 0
    for y in range(cells):
        if joint[y] > 0:
            filled += 1
    where = np.empty(filled, np.int64)
    filled = 0
    for y in range(cells):
        if joint[y] > 0:
            where[filled] = y
            filled += 1
    flags = np.zeros(cells, np.uint64)
    place = np.empty(filled, np.int64)
    for s in range(lengths.size):
        total = np.int64(1)
        for z in range(lengths[s]):
            total *= sizes[members[sets[s, z]]]
        marginal = np.zeros(total, np.int64)
        first = digits[sets[s, 0]]
        for w in range(filled):
            place[w] = first[where[w]]
        for z in range(1, lengths[s]):
            digit = digits[sets[s, z]]
            size = sizes[members[sets[s, z]]]
            for w in range(filled):
                place[w] = place[w] * size + digit[where[w]]
        for w in range(filled):
            marginal[place[w]] += joint[where[w]]
        there, unsafe, records, least = 0, 0, 0, np.int64(1) << 62
        for y in range(total):
            if marginal[y] > 0:
                there += 1
                if marginal[y] < least:
                    least = marginal[y]
                if marginal[y] < tolerance:
                    unsafe += 1
                    records += marginal[y]
        combinations[s] = there
        unsafe_combinations[s] = unsafe
        unsafe_records[s] = records
        smallest[s] = least
        if unsafe > 0:
            bit = np.uint64(1) << np.uint64(s)
            for w in range(filled):
                if marginal[place[w]] < tolerance:
                    flags[where[w]] |= bit
    return at, flags


@nb.njit(nogil=True, cache=True)
def count_flags(
    at: npt.NDArray[np.int32], flags: npt.NDArray[np.uint64], unsafe: npt.NDArray[np.int32]
) -> None:
    """Add to each item the number of key sets in which its cell is unsafe."""
    tally = np.zeros(flags.size, np.int32)
    for y in range(flags.size):
        rest = flags[y]
        while rest != np.uint64(0):
            rest &= rest - np.uint64(1)
            tally[y] += 1
    for i in range(at.size):
        unsafe[i] += tally[at[i]]


@nb.njit(nogil=True, cache=True)
def _agree(codes: IntArray, gone: IntArray, i: int, j: int) -> bool:
    for q in range(codes.shape[0]):
        one, two = codes[q, i], codes[q, j]
        if one != two and one != gone[q] and two != gone[q]:
            return False
    return True


@nb.njit(nogil=True, cache=True)
def agreeing_cells(codes: IntArray, gone: IntArray) -> tuple[IntArray, IntArray]:
    """All pairs (cell, peer), itself included, that agree where neither is missing.

    Cells without a missing value differ from each other, so only pairs with a cell that has one
    are compared.
    """
    keys, cells = codes.shape
    wild = np.zeros(cells, np.bool_)
    for i in range(cells):
        for q in range(keys):
            if codes[q, i] == gone[q]:
                wild[i] = True
    open_cells = np.flatnonzero(wild)
    total = cells
    for a in range(open_cells.size):
        i = open_cells[a]
        for j in range(cells):
            if j != i and not (wild[j] and j < i) and _agree(codes, gone, i, j):
                total += 2
    mine = np.empty(total, np.int64)
    peer = np.empty(total, np.int64)
    for i in range(cells):
        mine[i] = i
        peer[i] = i
    at = cells
    for a in range(open_cells.size):
        i = open_cells[a]
        for j in range(cells):
            if j != i and not (wild[j] and j < i) and _agree(codes, gone, i, j):
                mine[at], peer[at] = i, j
                mine[at + 1], peer[at + 1] = j, i
                at += 2
    return mine, peer


@nb.njit(nogil=True, cache=True)
def sum_agreeing(codes: IntArray, gone: IntArray, own: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """For each combination the sum of ``own`` over all that agree with it where neither is missing."""
    keys, cells = codes.shape
    wild = np.zeros(cells, np.bool_)
    for i in range(cells):
        for q in range(keys):
            if codes[q, i] == gone[q]:
                wild[i] = True
    total = own.copy()
    for i in range(cells):
        if not wild[i]:
            continue
        for j in range(cells):
            if j != i and not (wild[j] and j < i) and _agree(codes, gone, i, j):
                total[i] += own[j]
                total[j] += own[i]
    return total
