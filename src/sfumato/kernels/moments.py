"""One pass over a block of two aligned files: differences, and values ready for cross products."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

FloatArray = npt.NDArray[np.float64]

CELLS, ABSOLUTE, RELATIVE, ZERO_PAIRS, ONLY_ORIGINAL, ONLY_MASKED, INFINITE, CHANGED = range(8)
"""The rows of what :func:`compare_cells` counts, a column of the file a column."""


@njit(nogil=True, cache=True)
def compare_cells(
    x: FloatArray,
    z: FloatArray,
    shift: FloatArray,
    xc: FloatArray,
    zc: FloatArray,
    seen: FloatArray,
    sums: FloatArray,
) -> None:
    """Compare a block cell by cell and write its centred values.

    ``x``, ``z`` (records × columns, NaN = missing) are the original and the masked block. Where both
    have a value, ``xc``, ``zc`` get value − shift and ``seen`` 1; elsewhere all three get 0. ``sums``
    (8 × columns) is added to: cells compared, Σ|x−z|, Σ|x−z| / ½(|x|+|z|), cells where both are 0,
    cells with a value only in the original, only in the masked file, infinite values, cells changed.
    """
    n, m = x.shape
    for j in range(m):
        centre = shift[j]
        cells = 0.0
        absolute = 0.0
        relative = 0.0
        zeros = 0.0
        changed = 0.0
        for i in range(n):
            a = x[i, j]
            b = z[i, j]
            d = abs(a - b)
            if d < np.inf:  # false for NaN too
                size = abs(a) + abs(b)
                cells += 1.0
                if d > 0.0:
                    absolute += d
                    relative += d / (0.5 * size)
                    changed += 1.0
                elif size == 0.0:
                    zeros += 1.0
                xc[i, j] = a - centre
                zc[i, j] = b - centre
                seen[i, j] = 1.0
            else:
                xc[i, j] = 0.0
                zc[i, j] = 0.0
                seen[i, j] = 0.0
                if np.isinf(a) or np.isinf(b):
                    sums[INFINITE, j] += 1.0
                elif a == a:
                    sums[ONLY_ORIGINAL, j] += 1.0
                elif b == b:
                    sums[ONLY_MASKED, j] += 1.0
        sums[CELLS, j] += cells
        sums[ABSOLUTE, j] += absolute
        sums[RELATIVE, j] += relative
        sums[ZERO_PAIRS, j] += zeros
        sums[CHANGED, j] += changed
