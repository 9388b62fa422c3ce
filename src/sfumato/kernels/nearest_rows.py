"""The rows of a release that are nearest to persons: distances of numbers and prices of keys that differ."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]
CodeArray = npt.NDArray[np.int32]


@nb.njit(nogil=True, cache=True, fastmath=True)
def nearest_rows(
    persons: Float32Array,
    rows: Float32Array,
    person_keys: CodeArray,
    row_keys: CodeArray,
    prices: Float32Array,
    order: npt.NDArray[np.int64],
    most: int,
) -> tuple[CodeArray, Float32Array]:
    """For each person the ``most`` nearest rows and their distances, the nearest first.

    D = Σ (person − row)² + Σ price of each key whose codes differ. Of equal distances the row that comes
    first in ``order`` is taken, so that a random order shares ties.
    """
    n, width = persons.shape[0], persons.shape[1]
    keys = prices.size
    found = np.full((n, most), -1, np.int32)
    far = np.full((n, most), np.inf, np.float32)
    for i in range(n):
        last = np.float32(np.inf)
        for at in range(order.size):
            j = order[at]
            d = np.float32(0.0)
            for q in range(keys):
                if person_keys[i, q] != row_keys[j, q]:
                    d += prices[q]
            if d >= last:
                continue
            for c in range(width):
                step = persons[i, c] - rows[j, c]
                d += step * step
            if d >= last:
                continue
            place = most - 1
            while place > 0 and far[i, place - 1] > d:
                far[i, place] = far[i, place - 1]
                found[i, place] = found[i, place - 1]
                place -= 1
            far[i, place] = d
            found[i, place] = j
            last = far[i, most - 1]
    return found, far
