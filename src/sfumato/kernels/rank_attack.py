"""The rank attack on plain arrays: candidates within the window, their likelihood, propagation.

Each value is the interval [low, high) of ranks that its ties take in the released file. Two values are
as far apart as their intervals are: 0 where they meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sfumato.kernels.linkage import keep_best

_LN2 = np.log(2.0)


@njit(nogil=True, cache=True)
def _gap(low: float, high: float, other_low: float, other_high: float) -> Any:
    """How many ranks apart the nearest ranks of two intervals are."""
    return max(0.0, max(other_low - (high - 1.0), low - (other_high - 1.0)))


@njit(nogil=True, cache=True)
def _twice_integrated(t: float, w: float) -> Any:
    """∫∫ of the law of displacements, f(s) = ln 2 · 2^(|s|/w) / (2w) on |s| ≤ w."""
    t = abs(t)
    if t <= w:
        return 0.5 * (w / _LN2 * (2.0 ** (t / w) - 1.0) - t)
    return 0.5 * (w / _LN2 - w) + 0.5 * (t - w)


@njit(nogil=True, cache=True)
def log_density(low: float, high: float, other_low: float, other_high: float, w: float) -> Any:
    """The log mean density of displacements between two intervals of ranks."""
    w = max(w, 0.5)
    if high - low == 1.0 and other_high - other_low == 1.0:
        return np.log(_LN2 / (2.0 * w)) + _LN2 * min(abs(other_low - low), w) / w
    mass = (
        _twice_integrated(other_high - low, w)
        - _twice_integrated(other_high - high, w)
        - _twice_integrated(other_low - low, w)
        + _twice_integrated(other_low - high, w)
    )
    return np.log(max(mass / ((high - low) * (other_high - other_low)), 1e-9 / w))


@njit(nogil=True, cache=True)
def needed_window(
    rows: Any,
    start: Any,
    stop: Any,
    low: Any,
    high: Any,
    other_low: Any,
    other_high: Any,
    size: Any,
    out: Any,
) -> None:
    """For each row the least share p such that some record lies within p · size ranks on every column."""
    m = low.shape[0]
    for t in range(rows.shape[0]):
        i = rows[t]
        best = np.inf
        for k in range(start[t], stop[t]):
            worst = 0.0
            for j in range(m):
                d = _gap(low[j, i], high[j, i], other_low[j, k], other_high[j, k]) / size[j, i]
                if d > worst:
                    worst = d
                    if worst >= best:
                        break
            if worst < best:
                best = worst
        out[t] = best


@njit(nogil=True, cache=True)
def _first_at_least(values: Any, start: int, stop: int, bound: float) -> int:
    while start < stop:
        mid = (start + stop) // 2
        if values[mid] < bound:
            start = mid + 1
        else:
            stop = mid
    return start


@njit(nogil=True, cache=True)
def rank_candidates(
    rows: Any,
    start: Any,
    stop: Any,
    lead: int,
    low: Any,
    high: Any,
    other_low: Any,
    other_high: Any,
    window: Any,
    counts: Any,
    places: Any,
    weights: Any,
) -> None:
    """The records within the window on every column: how many, and the likeliest with their log-likelihoods.

    Within each block the other file is sorted by column ``lead``, so that only its window is looked
    at. ``places`` and ``weights`` have a row for each of ``rows``; the first min(count, columns) hold.
    """
    m = low.shape[0]
    top = places.shape[1]
    base, slope = np.empty(m), np.empty(m)
    for t in range(rows.shape[0]):
        i = rows[t]
        for j in range(m):
            w = max(window[j, i], 0.5)
            base[j], slope[j] = np.log(_LN2 / (2.0 * w)), _LN2 / w
        size = 0
        count = 0
        first = _first_at_least(other_high[lead], start[t], stop[t], low[lead, i] + 1.0 - window[lead, i])
        last = _first_at_least(other_low[lead], first, stop[t], high[lead, i] + window[lead, i])
        for k in range(first, last):
            inside = True
            for j in range(m):
                if _gap(low[j, i], high[j, i], other_low[j, k], other_high[j, k]) > window[j, i]:
                    inside = False
                    break
            if not inside:
                continue
            count += 1
            total = 0.0
            for j in range(m):
                a, b = low[j, i], other_low[j, k]
                if high[j, i] - a == 1.0 and other_high[j, k] - b == 1.0:
                    total += base[j] + slope[j] * abs(b - a)
                else:
                    total += log_density(a, high[j, i], b, other_high[j, k], window[j, i])
            size = keep_best(total, k, size, top, weights[t], places[t])
        counts[t] = count


@njit(nogil=True, cache=True)
def propagate(starts: Any, cols: Any, n_cols: int, bijection: bool) -> Any:
    """1-1 propagation: who has one candidate left takes it away from all others, until nothing changes.

    With ``bijection`` (every column belongs to some row) a column with one candidate row is decided
    as well. Returns each row's column, −1 where several are left or none is (inconsistent candidate
    sets, from a window guessed too small).
    """
    n = starts.shape[0] - 1
    edges = cols.shape[0]
    alive = np.ones(edges, np.bool_)
    row_count = np.empty(n, np.int64)
    col_count = np.zeros(n_cols, np.int64)
    row_of_edge = np.empty(edges, np.int64)
    for i in range(n):
        row_count[i] = starts[i + 1] - starts[i]
        for e in range(starts[i], starts[i + 1]):
            col_count[cols[e]] += 1
            row_of_edge[e] = i
    col_starts = np.zeros(n_cols + 1, np.int64)
    for k in range(n_cols):
        col_starts[k + 1] = col_starts[k] + col_count[k]
    fill = col_starts[:-1].copy()
    by_col = np.empty(edges, np.int64)
    for e in range(edges):
        by_col[fill[cols[e]]] = e
        fill[cols[e]] += 1
    fixed = np.full(n, -1, np.int64)
    taken = np.zeros(n_cols, np.bool_)
    # Every row and every column is stacked at most once each time its count falls to one.
    stack = np.empty(2 * (n + n_cols) + 2, np.int64)
    size = 0
    for i in range(n):
        if row_count[i] == 1:
            stack[size] = i
            size += 1
    if bijection:
        for k in range(n_cols):
            if col_count[k] == 1:
                stack[size] = -k - 1
                size += 1
    while size > 0:
        size -= 1
        item = stack[size]
        if item >= 0:
            i = item
            if fixed[i] != -1 or row_count[i] != 1:
                continue
            k = -1
            for e in range(starts[i], starts[i + 1]):
                if alive[e]:
                    k = cols[e]
        else:
            k = -item - 1
            if taken[k] or col_count[k] != 1:
                continue
            i = -1
            for t in range(col_starts[k], col_starts[k + 1]):
                if alive[by_col[t]]:
                    i = row_of_edge[by_col[t]]
            if fixed[i] != -1:
                continue
        if taken[k]:
            continue
        fixed[i] = k
        taken[k] = True
        for t in range(col_starts[k], col_starts[k + 1]):
            e = by_col[t]
            r = row_of_edge[e]
            if alive[e] and r != i:
                alive[e] = False
                col_count[k] -= 1
                row_count[r] -= 1
                if row_count[r] == 1:
                    stack[size] = r
                    size += 1
        for e in range(starts[i], starts[i + 1]):
            c = cols[e]
            if alive[e] and c != k:
                alive[e] = False
                row_count[i] -= 1
                col_count[c] -= 1
                if bijection and col_count[c] == 1:
                    stack[size] = -c - 1
                    size += 1
    return fixed


# -- partners without a bound ---------------------------------------------------------------------

_TERMS = 14


@njit(nogil=True, cache=True)
def _twice_integrated_geometric(t: float, scale: float) -> Any:
    """∫∫ of the law of geometric partners, f(s) = ln 2 · e^−v · 2^(−e^−v) / scale, v = |s| / scale.

    Its distribution function on |s| is 2^(1−e^−v) − 1, whose integral is a series in e^−v.
    """
    v = abs(t) / scale
    step = np.exp(-v)
    power, factor, total = 1.0, 1.0, 0.5 * v
    for m in range(1, _TERMS):
        power *= step
        factor *= -_LN2 / m
        total += factor / m * (1.0 - power)
    return scale * total


@njit(nogil=True, cache=True)
def log_density_geometric(low: float, high: float, other_low: float, other_high: float, scale: float) -> Any:
    """The log mean density of unbounded displacements between two intervals of ranks."""
    if high - low > 1.0 or other_high - other_low > 1.0:
        mass = (
            _twice_integrated_geometric(other_high - low, scale)
            - _twice_integrated_geometric(other_high - high, scale)
            - _twice_integrated_geometric(other_low - low, scale)
            + _twice_integrated_geometric(other_low - high, scale)
        )
        mean = mass / ((high - low) * (other_high - other_low))
        if mean * scale > 1e-9:  # else what is left of the differences is noise
            return np.log(mean)
    v = _gap(low, high, other_low, other_high) / scale
    return np.log(_LN2 / scale) - v - _LN2 * np.exp(-v)


@njit(nogil=True, cache=True)
def likeliest(
    rows: Any,
    start: Any,
    stop: Any,
    lead: int,
    low: Any,
    high: Any,
    other_low: Any,
    other_high: Any,
    scale: Any,
    far: float,
    counts: Any,
    places: Any,
    weights: Any,
) -> None:
    """The likeliest records where displacements have no bound, with their log-likelihoods.

    Within each block the other file is sorted by column ``lead``; records are looked at in the order
    of their distance there, until no further one can be among the best. One that is ``far`` ranks
    away on some column is no candidate: it differs in a value that a swap leaves alone. Where not all
    candidates are listed, the count is the size of the block.
    """
    m = low.shape[0]
    top = places.shape[1]
    most = np.empty(m)
    for t in range(rows.shape[0]):
        i = rows[t]
        others = 0.0  # the greatest that all columns but the lead can add
        for j in range(m):
            most[j] = np.log(_LN2 / scale[j, i]) - _LN2  # the density at a distance of 0
            if j != lead:
                others += most[j]
        size = 0
        full = False
        right = _first_at_least(other_low[lead], start[t], stop[t], low[lead, i])
        left = right - 1
        while left >= start[t] or right < stop[t]:
            before = after = np.inf
            if left >= start[t]:
                before = low[lead, i] - (other_high[lead, left] - 1.0)
            if right < stop[t]:
                after = other_low[lead, right] - (high[lead, i] - 1.0)
            nearest = max(0.0, min(before, after))
            if nearest > far:
                break
            k = right
            if before <= after:
                k = left
                left -= 1
            else:
                right += 1
            v = nearest / scale[lead, i]
            floor = weights[t, 0] if size == top else -np.inf
            # What e^−v takes from ln 2 is left out of the bound: −v − ln 2 · e^−v ≤ −v.
            if most[lead] + _LN2 - v + others <= floor:
                full = True
                break
            total = 0.0
            rest = others + most[lead]
            for step in range(m):
                j = lead if step == 0 else step - 1 if step <= lead else step  # the lead first
                a, b = low[j, i], other_low[j, k]
                if high[j, i] - a == 1.0 and other_high[j, k] - b == 1.0:
                    gap = abs(b - a)
                    v = gap / scale[j, i]
                    total += most[j] + _LN2 - v - _LN2 * np.exp(-v)
                else:
                    gap = _gap(a, high[j, i], b, other_high[j, k])
                    total += log_density_geometric(a, high[j, i], b, other_high[j, k], scale[j, i])
                if gap > far:
                    total = -np.inf
                    break
                rest -= most[j]
                if total + rest <= floor:
                    break
            if total == -np.inf:
                continue
            full = full or size == top
            if total + rest > floor:
                size = keep_best(total, k, size, top, weights[t], places[t])
        counts[t] = stop[t] - start[t] if full else size
