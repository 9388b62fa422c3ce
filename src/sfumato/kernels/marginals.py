"""Kernels of marginal tables: counts of key combinations as dense arrays, each summed out of a larger one."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]


@nb.njit(nogil=True, cache=True)
def packed_codes(
    codes: npt.NDArray[np.uint16], members: IntArray, strides: IntArray, remaps: npt.NDArray[np.int32]
) -> IntArray:
    """Each item's place in the table of some keys, after each key's codes are mapped to classes."""
    items = codes.shape[1]
    out = np.zeros(items, np.int64)
    for q in range(members.size):
        column, classes, stride = codes[members[q]], remaps[members[q]], strides[q]
        for i in range(items):
            out[i] += classes[column[i]] * stride
    return out


@nb.njit(nogil=True, cache=True)
def counted(packed: IntArray, counts: IntArray, total: int) -> Counts:
    """The dense table: how many records each place has."""
    out = np.zeros(total, np.int32)
    for i in range(packed.size):
        out[packed[i]] += counts[i]
    return out


@nb.njit(nogil=True, cache=True)
def summed_over(table: Counts, high: int, size: int, low: int) -> Counts:
    """The table without its key of ``size`` levels, which has ``low`` places to a level."""
    out = np.zeros(high * low, np.int32)
    for h in range(high):
        for v in range(size):
            start = (h * size + v) * low
            for y in range(low):
                out[h * low + y] += table[start + y]
    return out


@nb.njit(nogil=True, cache=True)
def sliced(table: Counts, high: int, size: int, low: int, at: int) -> Counts:
    """The table at one level of its key of ``size`` levels, which has ``low`` places to a level."""
    out = np.empty(high * low, np.int32)
    for h in range(high):
        start = (h * size + at) * low
        for y in range(low):
            out[h * low + y] = table[start + y]
    return out


@nb.njit(nogil=True, cache=True)
def widened(table: Counts, high: int, size: int, low: int, gone: int) -> Counts:
    """Along one key, how many agree with each level: those that have it or lack a value (``gone``); with
    ``gone`` itself everybody agrees."""
    out = np.empty(table.size, np.int32)
    for h in range(high):
        blank = (h * size + gone) * low
        for y in range(low):
            out[blank + y] = table[blank + y]
        for v in range(size):
            start = (h * size + v) * low
            if v != gone:
                for y in range(low):
                    out[start + y] = table[start + y] + table[blank + y]
                    out[blank + y] += table[start + y]
    return out


@nb.njit(nogil=True, cache=True)
def judged(table: Counts, agreeing: Counts, tolerance: int) -> tuple[int, int, int, int]:
    """Combinations there are, those with which too few agree, the records that have these, and the least
    number that agrees."""
    there, unsafe, records, least = 0, 0, 0, 1 << 62
    for y in range(table.size):
        n = table[y]
        if n > 0:
            there += 1
            if agreeing[y] < least:
                least = agreeing[y]
            if agreeing[y] < tolerance:
                unsafe += 1
                records += n
    return there, unsafe, records, least


@nb.njit(nogil=True, cache=True)
def least_of(packed: IntArray, agreeing: Counts, least: Counts) -> None:
    """For each item the fewest records that agree with it, in this table or one before."""
    for i in range(packed.size):
        least[i] = min(least[i], agreeing[packed[i]])
