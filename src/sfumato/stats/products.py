"""Sums of products over many records, the same bits on every machine of a kind.

BLAS shares a long sum among its threads, so that its last bits depend on how many cores there are: a file
masked on two machines, or by an executor with one core, would differ. Pieces that are too short to be shared,
added up in their order, give the same sum wherever they are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sfumato.data.microdata import FloatArray

_PIECE: Final = 4096
"""OpenBLAS shares a scalar product of more than 10,000 terms."""


def products(one: FloatArray, two: FloatArray) -> FloatArray:
    """Σ xᵢ yᵢᵀ over the columns xᵢ of ``one`` and yᵢ of ``two``.

    >>> products(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [[11.0, 2.0]]
    """
    out = np.zeros((len(one), len(two)))
    for start in range(0, one.shape[1], _PIECE):
        piece = slice(start, start + _PIECE)
        out += one[:, piece] @ two[:, piece].T
    return out
