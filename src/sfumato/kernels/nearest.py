"""The distance to the nearest record, by Gower's coefficient."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


@nb.njit(nogil=True, cache=True)
def nearest_distance(
    numbers: Floats, codes: Ints, other_numbers: Floats, other_codes: Ints, but: npt.NDArray[np.int64]
) -> Floats:
    """For each record, the distance to the nearest other one that isn't record ``but`` (−1: none).

    Σ |difference of numbers| + how many codes differ; a missing number (NaN) is at distance 0 from
    another and at 1 from any number. Infinite where there is nobody.
    """
    out = np.full(len(but), np.inf)
    for i in range(len(but)):
        best = np.inf
        for r in range(len(other_numbers)):
            if r == but[i]:
                continue
            far = 0.0
            for j in range(codes.shape[1]):
                far += codes[i, j] != other_codes[r, j]
            for j in range(numbers.shape[1]):
                if far >= best:
                    break
                gap = abs(numbers[i, j] - other_numbers[r, j])
                if np.isnan(gap):
                    gap = 0.0 if np.isnan(numbers[i, j]) and np.isnan(other_numbers[r, j]) else 1.0
                far += gap
            best = min(best, far)
        out[i] = best
    return out
