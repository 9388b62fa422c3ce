"""The rank attack on a swap within two bounds: candidates, and how likely each is by the swap's own law.

``log_h``, ``log_a`` and ``first`` are those of ``rank_bounds_law`` on the released values, one row a
column: rank j takes k > j with the chance h_j A(j)/A(first(k)).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sfumato.kernels.linkage import keep_best
from sfumato.kernels.rank_attack import _first_at_least, _gap

_POINTS = 4  # ranks of a run of ties at which its chances are looked at
_LEAST = 1e-12


@njit(nogil=True, cache=True)
def _chance(low: int, high: int, log_h: Any, log_a: Any, first: Any) -> Any:
    """The chance that two ranks, low ≤ high, were exchanged; of one rank, that its neighbour would be."""
    if low == high:
        return np.exp(log_h[low])
    if first[high] > low:
        return 0.0
    return np.exp(log_h[low] + log_a[low] - log_a[first[high]])


@njit(nogil=True, cache=True)
def mean_chance(a: int, a_end: int, b: int, b_end: int, log_h: Any, log_a: Any, first: Any) -> Any:
    """The mean chance over two runs of ranks, a … a_end − 1 and b … b_end − 1, of which one may be the other.

    The upper run is looked at in a few ranks; the part of the lower one that reaches each of them too.
    """
    if a > b:
        a, a_end, b, b_end = b, b_end, a, a_end
    if a_end - a == 1 and b_end - b == 1:
        return _chance(a, b, log_h, log_a, first)
    same = a == b
    # Only the part of the upper run that some rank of the lower one reaches: first never falls.
    low, reached = b, b_end
    while low < reached:
        middle = (low + reached) // 2
        if first[middle] < a_end:
            low = middle + 1
        else:
            reached = middle
    points = min(_POINTS, reached - b)
    total = 0.0
    for s in range(points):
        k = b + (2 * s + 1) * (reached - b) // (2 * points)
        low, high = max(a, first[k]), min(a_end, k)
        if high <= low:
            continue
        inner = min(_POINTS, high - low)
        mean = 0.0
        for t in range(inner):
            mean += _chance(low + (2 * t + 1) * (high - low) // (2 * inner), k, log_h, log_a, first)
        total += mean / inner * (high - low)
    total *= (reached - b) / (max(points, 1) * (b_end - b) * (a_end - a))
    return 2.0 * total if same else total


@njit(nogil=True, cache=True)
def bounded_candidates(
    rows: Any,
    start: Any,
    stop: Any,
    lead: int,
    low: Any,
    high: Any,
    other_low: Any,
    other_high: Any,
    window: Any,
    far: float,
    values: Any,
    offset: Any,
    reach: Any,
    near: float,
    ordered: Any,
    lonely: Any,
    log_h: Any,
    log_a: Any,
    first: Any,
    counts: Any,
    places: Any,
    weights: Any,
) -> None:
    """The records within both bounds on every column, and the likeliest with their log-likelihoods.

    A value at rank r of record i's stratum is ``ordered[j, offset[j, i] + r]``. Ranks beyond ``far`` are
    values that a swap leaves alone. Whoever is lonely was exchanged with somebody ``near`` in ranks.
    """
    m = low.shape[0]
    top = places.shape[1]
    for t in range(rows.shape[0]):
        i = rows[t]
        size = 0
        count = 0
        begin = _first_at_least(other_high[lead], start[t], stop[t], low[lead, i] + 1.0 - window[lead, i])
        end = _first_at_least(other_low[lead], begin, stop[t], high[lead, i] + window[lead, i])
        for k in range(begin, end):
            total = 0.0
            inside = True
            for j in range(m):
                a, b = low[j, i], other_low[j, k]
                gap = _gap(a, high[j, i], b, other_high[j, k])
                if gap > window[j, i]:
                    inside = False
                    break
                if a > far:
                    continue
                at = offset[j, i]
                p, q = at + int(a), at + int(b)
                if abs(ordered[j, q] - values[j, i]) <= reach[j]:
                    chance = mean_chance(
                        p, at + int(high[j, i]), q, at + int(other_high[j, k]), log_h[j], log_a[j], first[j]
                    )
                    total += np.log(max(chance, _LEAST))
                elif gap <= near and (lonely[j, p] or lonely[j, q]):
                    total += np.log(1.0 / near)
                else:
                    inside = False
                    break
            if not inside:
                continue
            count += 1
            size = keep_best(total, k, size, top, weights[t], places[t])
        counts[t] = count
