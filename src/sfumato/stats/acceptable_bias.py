"""The range of PERCENTAGE BIAS that masks enough and distorts little enough (Moore 1996, sections X, XI)."""

from __future__ import annotations

import math

from sfumato.errors import MeasureError


def acceptable_range(
    mean: float, sd: float, *, n_s: int, n: int, p: float = 10.0, f: float = 0.01
) -> tuple[float, float]:
    """The range of PERCENTAGE BIAS that masks enough and distorts little enough.

    Moore's example (its upper end is printed as 20):

    >>> low, high = acceptable_range(11_369, 16_572, n_s=582, n=64_998, p=10, f=0.01)
    >>> round(low, 2), round(high, 2)
    (0.09, 20.67)
    """
    return p * n_s / n, 100.0 * math.sqrt(2 * f + f * f) * sd / abs(mean)


def verdict_on(bias: float, lower: float, upper: float) -> str:
    """Where a PERCENTAGE BIAS lies: "too little", "acceptable" or "too much".

    No bias at all is never too much, although a constant column leaves no room for any (upper = 0).

    >>> [verdict_on(bias, 0.1, 20.7) for bias in (0.05, 18.0, 21.0)]
    ['too little', 'acceptable', 'too much']
    """
    if bias > 0 and bias >= upper:
        return "too much"
    return "too little" if bias <= lower else "acceptable"


def share_to_keep(ratio: float, changed_records: int, helpers: int) -> float:
    """The share of risky classes to keep in the swap so that the bias falls by ``ratio`` (Theorem A.3).

    The root of (T − 2N) x² − 2(T − N) x + ratio² T = 0, T records changed, N of them from classes
    above the tolerance. (The printed p' of the example, 0.56, is its square root.)

    >>> round(share_to_keep(2 / 3, 582, 109), 4)
    0.3105
    """
    t, n = float(changed_records), float(helpers)
    if not 0 <= n <= t or t <= 0:
        raise MeasureError("the records from larger classes must be among the records changed")
    a, b, c = t - 2 * n, t - n, ratio**2 * t
    if b <= 0:
        return ratio**2
    inside = b * b - a * c
    # c / (b + √…) is the same root as (b − √…) / a, without dividing by a = 0 when all pairs are mixed.
    return min(1.0, c / (b + math.sqrt(max(inside, 0.0))))
