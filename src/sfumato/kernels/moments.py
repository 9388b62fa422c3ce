"""One pass over a block of two aligned files: differences, and values ready for cross products."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

FloatArray = npt.NDArray[np.float64]

CELLS, ABSOLUTE, RELATIVE, ZERO_PAIRS, ONLY_ORIGINAL, ONLY_MASKED, INFINITE, CHANGED = range(8)
"""The places of what :func:`compare_cells` counts."""


@njit(nogil=True, cache=True)
def compare_cells(
    x: FloatArray,
    z: FloatArray,
    shift: float,
    xc: FloatArray,
    zc: FloatArray,
    seen: FloatArray,
    sums: FloatArray,
) -> None:
    """Compare one column of a block cell by cell and write its centred values.

    ``x``, ``z`` (NaN = missing) are the original and the masked values. Where both are there,
    ``xc``, ``zc`` get value − shift and ``seen`` 1; elsewhere all three get 0. ``sums`` (8 numbers)
    is added to: cells compared, Σ|x−z|, Σ|x−z| / ½(|x|+|z|), cells where both are 0, cells with a
    value only in the original, only in the masked file, infinite values, cells changed.
    """
    cells = 0
    zeros = 0
    changed = 0
    absolute = 0.0
    relative = 0.0
    for i in range(len(x)):
        a = x[i]
        b = z[i]
        d = abs(a - b)
        if d < np.inf:  # false for NaN too
            size = abs(a) + abs(b)
            cells += 1
            if d > 0.0:
                absolute += d
                relative += d / (0.5 * size)
                changed += 1
            elif size == 0.0:
                zeros += 1
            xc[i] = a - shift
            zc[i] = b - shift
            seen[i] = 1.0
        else:
            xc[i] = 0.0
            zc[i] = 0.0
            seen[i] = 0.0
            if np.isinf(a) or np.isinf(b):
                sums[INFINITE] += 1.0
            elif a == a:
                sums[ONLY_ORIGINAL] += 1.0
            elif b == b:
                sums[ONLY_MASKED] += 1.0
    sums[CELLS] += cells
    sums[ABSOLUTE] += absolute
    sums[RELATIVE] += relative
    sums[ZERO_PAIRS] += zeros
    sums[CHANGED] += changed
