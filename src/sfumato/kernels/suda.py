"""Kernels of SUDA: sums over the minimal sample uniques of each cell."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@nb.njit(nogil=True, cache=True)
def score_lists(
    heads: IntArray, links: IntArray, masks: IntArray, points: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """The score of each cell, the part of each key in it, and the number of uniques of each size.

    ``points[s]`` is the score of a minimal sample unique of s keys; a unique's score is counted for
    each key in it.
    """
    keys = points.size - 1
    score = np.zeros(heads.size)
    part = np.zeros((heads.size, keys))
    sizes = np.zeros(keys + 1, np.int64)
    for cell in range(heads.size):
        at = heads[cell]
        while at >= 0:
            size = 0
            for key in range(keys):
                if masks[at] >> key & 1:
                    size += 1
            score[cell] += points[size]
            sizes[size] += 1
            for key in range(keys):
                if masks[at] >> key & 1:
                    part[cell, key] += points[size]
            at = links[at]
    return score, part, sizes
