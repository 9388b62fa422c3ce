"""Kernels of the noise masks: normal draws from bits, colouring, unbiased rounding, cross-products.

Arrays are variables × records, so that each variable is contiguous. Nothing here depends on how many
records come in one call: the sums run over variables, never over records (``cross_products`` aside).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

Bits = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_BLOCK = 2048


@njit(nogil=True, cache=True)
def ndtri(p: float) -> float:
    """The standard normal quantile (Wichura 1988, algorithm AS 241, PPND16: 1e-16 relative)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = 2.5090809287301226727e3
        top = top * r + 3.3430575583588128105e4
        top = top * r + 6.7265770927008700853e4
        top = top * r + 4.5921953931549871457e4
        top = top * r + 1.3731693765509461125e4
        top = top * r + 1.9715909503065514427e3
        top = top * r + 1.3314166789178437745e2
        top = top * r + 3.3871328727963666080e0
        low = 5.2264952788528545610e3
        low = low * r + 2.8729085735721942674e4
        low = low * r + 3.9307895800092710610e4
        low = low * r + 2.1213794301586595867e4
        low = low * r + 5.3941960214247511077e3
        low = low * r + 6.8718700749205790830e2
        low = low * r + 4.2313330701600911252e1
        low = low * r + 1.0
        return q * top / low
    r = p if q < 0.0 else 1.0 - p
    r = math.sqrt(-math.log(r))
    if r <= 5.0:
        r -= 1.6
        top = 7.74545014278341407640e-4
        top = top * r + 2.27238449892691845833e-2
        top = top * r + 2.41780725177450611770e-1
        top = top * r + 1.27045825245236838258e0
        top = top * r + 3.64784832476320460504e0
        top = top * r + 5.76949722146069140550e0
        top = top * r + 4.63033784615654529590e0
        top = top * r + 1.42343711074968357734e0
        low = 1.05075007164441684324e-9
        low = low * r + 5.47593808499534494600e-4
        low = low * r + 1.51986665636164571966e-2
        low = low * r + 1.48103976427480074590e-1
        low = low * r + 6.89767334985100004550e-1
        low = low * r + 1.67638483018380384940e0
        low = low * r + 2.05319162663775882187e0
        low = low * r + 1.0
    else:
        r -= 5.0
        top = 2.01033439929228813265e-7
        top = top * r + 2.71155556874348757815e-5
        top = top * r + 1.24266094738807843860e-3
        top = top * r + 2.65321895265761230930e-2
        top = top * r + 2.96560571828504891230e-1
        top = top * r + 1.78482653991729133580e0
        top = top * r + 5.46378491116411436990e0
        top = top * r + 6.65790464350110377720e0
        low = 2.04426310338993978564e-15
        low = low * r + 1.42151175831644588870e-7
        low = low * r + 1.84631831751005468180e-5
        low = low * r + 7.86869131145613259100e-4
        low = low * r + 1.48753612908506148525e-2
        low = low * r + 1.36929880922735805310e-1
        low = low * r + 5.99832206555887937690e-1
        low = low * r + 1.0
    value = top / low
    return -value if q < 0.0 else value


@njit(nogil=True, cache=True)
def normals(bits: Bits, out: Floats) -> None:
    """Standard normal draws from 64 random bits each; the same as ``Stream.normal`` to 1e-14."""
    for i in range(len(bits)):
        out[i] = ndtri((np.float64(bits[i] >> np.uint64(12)) + 0.5) * 2.0**-52)


@njit(nogil=True, cache=True)
def mixtures(
    bits: Bits, component_bits: Bits, cumulative: Floats, means: Floats, deviation: float, out: Floats
) -> None:
    """Draws of a normal mixture: a component by its weight, then N(mean, deviation²)."""
    for i in range(len(bits)):
        u = (np.float64(component_bits[i] >> np.uint64(12)) + 0.5) * 2.0**-52
        k = 0
        while k < len(means) - 1 and u > cumulative[k]:
            k += 1
        z = ndtri((np.float64(bits[i] >> np.uint64(12)) + 0.5) * 2.0**-52)
        out[i] = means[k] + deviation * z


@njit(nogil=True, cache=True)
def colour(x: Floats, white: Floats, root: Floats, shrink: float, shift: Floats, out: Floats) -> None:
    """out = shrink·x + shift + root·white, one group: x is m × n, white k × n, root m × k."""
    m, n = x.shape
    k = white.shape[0]
    for low in range(0, n, _BLOCK):
        high = min(n, low + _BLOCK)
        for j in range(m):
            for i in range(low, high):
                out[j, i] = shrink * x[j, i] + shift[j]
            for c in range(k):
                weight = root[j, c]
                if weight != 0.0:
                    for i in range(low, high):
                        out[j, i] += weight * white[c, i]


@njit(nogil=True, cache=True)
def colour_groups(
    x: Floats,
    white: Floats,
    group: Ints,
    root: Floats,
    shrink: Floats,
    shift: Floats,
    project: Floats,
    centre: Floats,
    projected: Bools,
    out: Floats,
) -> None:
    """The same with a law for each group, and project[g]·(x − centre[g]) added where projected[g]."""
    m, n = x.shape
    k = white.shape[0]
    for i in range(n):
        g = group[i]
        for j in range(m):
            value = shrink[g] * x[j, i] + shift[g, j]
            for c in range(k):
                value += root[g, j, c] * white[c, i]
            if projected[g]:
                for c in range(m):
                    value += project[g, j, c] * (x[c, i] - centre[g, c])
            out[j, i] = value


@njit(nogil=True, cache=True)
def round_unbiased(values: Floats, bits: Bits, unit: float) -> None:
    """Round each value to a multiple of ``unit``, up with probability equal to its fraction: E = value."""
    for i in range(len(values)):
        scaled = values[i] / unit
        low = math.floor(scaled)
        u = (np.float64(bits[i] >> np.uint64(12)) + 0.5) * 2.0**-52
        values[i] = (low + 1.0 if u < scaled - low else low) * unit


@njit(nogil=True, cache=True)
def cross_products(
    x: Floats, eligible: Bools, group: Ints, centre: Floats, sums: Floats, counts: Ints
) -> None:
    """Add each record's products of deviations, pair by pair where both values are eligible."""
    m, n = x.shape
    deviation = np.empty(m)
    for i in range(n):
        g = group[i]
        for j in range(m):
            deviation[j] = x[j, i] - centre[g, j] if eligible[j, i] else 0.0
        for j in range(m):
            if eligible[j, i]:
                for c in range(j + 1):
                    if eligible[c, i]:
                        sums[g, j, c] += deviation[j] * deviation[c]
                        counts[g, j, c] += 1


@njit(nogil=True, cache=True)
def group_sums(x: Floats, eligible: Bools, group: Ints, sums: Floats, counts: Ints) -> None:
    """Add each record's eligible values to its group's sums."""
    m, n = x.shape
    for i in range(n):
        g = group[i]
        for j in range(m):
            if eligible[j, i]:
                sums[g, j] += x[j, i]
                counts[g, j] += 1
