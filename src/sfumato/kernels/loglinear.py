"""Kernel of log-linear models: how many combinations have about which expected count."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@nb.njit(nogil=True, cache=True)
def log_histogram(
    phi: FloatArray, one: FloatArray, two: FloatArray, low: float, step: float, bins: int
) -> FloatArray:
    """Linear binning of φ(a, b) + one(c, a) + two(c, b), all logarithms, over every (a, b, c).

    A value is split between its two neighbours on the grid, so that its mean stays. Below the grid
    (and −∞: what the model rules out) nothing is counted.
    """
    out = np.zeros(bins)
    per = 1.0 / step
    last = bins - 2
    for c in range(one.shape[0]):
        for a in range(phi.shape[0]):
            base = one[c, a]
            if base == -np.inf:
                continue
            for b in range(phi.shape[1]):
                x = (base + two[c, b] + phi[a, b] - low) * per
                if x > 0.0:
                    place = min(int(x), last)
                    share = min(x - place, 1.0)
                    out[place] += 1.0 - share
                    out[place + 1] += share
    return out
