"""Digests of texts, a number each; keyed sums over records."""

from __future__ import annotations

import numba as nb
import numpy as np

_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)


@nb.njit(nogil=True, cache=True)
def hash_texts(offsets, content, out):  # type: ignore[no-untyped-def]
    """FNV-1a of each text; the bits are mixed with a secret key afterwards."""
    for i in range(out.size):
        h = _BASIS
        for at in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(content[at])) * _PRIME
        out[i] = h


@nb.njit(nogil=True, cache=True, inline="always")
def _mix(x):  # type: ignore[no-untyped-def]
    """The finaliser of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@nb.njit(nogil=True, cache=True)
def add_column(words, key, floats, row):  # type: ignore[no-untyped-def]
    """Mix a column's words with its key into the records' sums; of floats, −0 is 0 and all NaN are one."""
    top, endless = np.uint64(1 << 63), np.uint64(0x7FF0000000000000)
    for i in range(row.size):
        x = words[i]
        if floats:
            if x == top:
                x = np.uint64(0)
            elif x & np.uint64(0x7FFFFFFFFFFFFFFF) > endless:
                x = np.uint64(0x7FF8000000000000)
        row[i] += _mix(x ^ key)


@nb.njit(nogil=True, cache=True)
def sum_records(row, first, second):  # type: ignore[no-untyped-def]
    """The sums over records under two keys."""
    one, two = np.uint64(0), np.uint64(0)
    for i in range(row.size):
        one += _mix(row[i] ^ first)
        two += _mix(row[i] ^ second)
    return one, two
