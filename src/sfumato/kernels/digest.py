"""Digests of texts, a number each."""

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
