"""Record linkage on plain arrays: the weights of pairs, a record's best candidates, agreement patterns.

The records of both files come sorted by block, so a block is a slice. A pair's weight is a sum over
fields j of a function of the two values a (known to the intruder) and b (released); ``kinds[j]`` says
which. ``fields`` is the tuple that ``Fields.arrays`` makes: kinds, left, right, left_present,
right_present, scale, agree, disagree, tables.

- TENT: dis + (agr − dis) · max(0, 1 − |a − b| · scale), the papers' linear downward adjustment;
- EQUAL: agr where a = b, else dis;
- SQUARE: −(a − b)²; a value missing on one side only counts as −2, on both as 0;
- MODES: −(|a − b| − centre)² / (2 · width²), for noise that lies near ± centre; missing as above;
- TABLE: table[j, ⌊|a − b| · scale⌋], the last entry for everything beyond.

Arrays of shape (fields, 1) hold for every record; those of shape (fields, records) record by record.
A field that is missing on either side adds nothing to TENT, EQUAL and TABLE. Arrays hold no NaN.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

TENT: Final = 0
EQUAL: Final = 1
SQUARE: Final = 2
MODES: Final = 3
TABLE: Final = 4

_ONE_SIDED = 2.0  # E (a − b)² of two independent standardised values


@njit(nogil=True, cache=True, fastmath=True)
def score_row(i: int, start: int, stop: int, fields: Any, out: Any) -> None:
    """The weights of left record i with right records start … stop−1, into ``out``."""
    kinds, left, right, left_present, right_present, scale, agree, disagree, tables = fields
    n = stop - start
    for k in range(n):
        out[k] = 0.0
    last = tables.shape[1] - 1
    for j in range(kinds.shape[0]):
        a = left[j, i]
        here = left_present[j, i if left_present.shape[1] > 1 else 0]
        s = scale[j, i if scale.shape[1] > 1 else 0]
        dis = disagree[j]
        gain = agree[j, i if agree.shape[1] > 1 else 0] - dis
        kind = kinds[j]
        b = right[j, start:stop]
        holes = right_present.shape[1] > 1
        if kind == TENT:
            if here == 0.0:
                continue
            if holes:
                there = right_present[j, start:stop]
                for k in range(n):
                    out[k] += there[k] * (dis + gain * max(0.0, 1.0 - abs(a - b[k]) * s))
            else:
                for k in range(n):
                    out[k] += dis + gain * max(0.0, 1.0 - abs(a - b[k]) * s)
        elif kind == EQUAL:
            if here == 0.0:
                continue
            for k in range(n):
                there_k = right_present[j, start + k] if holes else 1.0
                out[k] += there_k * (dis + gain * (1.0 if b[k] == a else 0.0))
        elif kind == TABLE:
            if here == 0.0:
                continue
            for k in range(n):
                there_k = right_present[j, start + k] if holes else 1.0
                out[k] += there_k * tables[j, min(last, int(abs(a - b[k]) * s))]
        elif not holes and here == 1.0:
            if kind == SQUARE:
                for k in range(n):
                    out[k] -= (a - b[k]) * (a - b[k])
            else:
                for k in range(n):
                    e = abs(a - b[k]) - dis
                    out[k] -= e * e * s
        else:
            for k in range(n):
                there_k = right_present[j, start + k] if holes else 1.0
                e = abs(a - b[k]) - dis if kind == MODES else a - b[k]
                e = e * e * s if kind == MODES else e * e
                out[k] -= here * there_k * e + _ONE_SIDED * abs(here - there_k)


@njit(nogil=True, cache=True, fastmath=True)
def _highest(values: Any, n: int) -> float:
    top = values[0]
    for k in range(1, n):
        top = max(top, values[k])
    return float(top)


@njit(nogil=True, cache=True)
def nearest_of_row(scores: Any, n: int, truth: int) -> tuple[int, float, float]:
    """The best place (the first of several), its weight, and the share of the truth in the ties."""
    top = _highest(scores, n)
    best = 0
    while scores[best] < top:
        best += 1
    near = top - 1e-9 * (1.0 + abs(top))
    if truth < 0 or scores[truth] < near:
        return best, top, 0.0
    ties = 0
    for k in range(n):
        if scores[k] >= near:
            ties += 1
    return best, top, 1.0 / ties


@njit(nogil=True, cache=True)
def keep_best(weight: float, place: int, size: int, top: int, weights: Any, places: Any) -> int:
    """Offer a candidate to a min-heap of the ``top`` best; its new size."""
    if size < top:
        k = size
        while k > 0 and weights[(k - 1) // 2] > weight:
            weights[k], places[k] = weights[(k - 1) // 2], places[(k - 1) // 2]
            k = (k - 1) // 2
        weights[k], places[k] = weight, place
        return size + 1
    if weight <= weights[0]:
        return size
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        if child + 1 < size and weights[child + 1] < weights[child]:
            child += 1
        if weights[child] >= weight:
            break
        weights[k], places[k] = weights[child], places[child]
        k = child
    weights[k], places[k] = weight, place
    return size


@njit(nogil=True, cache=True)
def _widest(first: int, last: int, rows: Any, low: Any, high: Any) -> int:
    wide = 1
    for t in range(first, last):
        wide = max(wide, high[rows[t]] - low[rows[t]])
    return wide


@njit(nogil=True, cache=True)
def top_candidates(
    first: int,
    last: int,
    rows: Any,
    low: Any,
    high: Any,
    fields: Any,
    truth: Any,
    places: Any,
    weights: Any,
    sizes: Any,
    nearest: Any,
) -> None:
    """The best of right records low[i] … high[i]−1 for left records i = rows[first … last−1].

    ``places`` and ``weights`` have a row for each of ``rows`` and a column for every candidate it
    may keep (a heap: the worst comes first); ``sizes`` says how many it kept.
    """
    most = places.shape[1]
    row = np.empty(_widest(first, last, rows, low, high))
    for t in range(first, last):
        i = rows[t]
        r0 = low[i]
        n = high[i] - r0
        score_row(i, r0, r0 + n, fields, row)
        _, _, nearest[i] = nearest_of_row(row, n, truth[i] - r0 if truth[i] >= 0 else -1)
        size = 0
        # A start of its own for each record, so that equals aren't the same few records for all.
        turn = (i * 2654435761) % n
        for s in range(n):
            k = s + turn
            if k >= n:
                k -= n
            if size < most or row[k] > weights[t, 0]:
                size = keep_best(row[k], r0 + k, size, most, weights[t], places[t])
        sizes[t] = size


@njit(nogil=True, cache=True)
def priced_candidates(
    first: int,
    last: int,
    rows: Any,
    low: Any,
    high: Any,
    fields: Any,
    limits: Any,
    prices: Any,
    places: Any,
    weights: Any,
    sizes: Any,
    best: Any,
) -> None:
    """The right records that left records rows[first … last−1] would rather have at these prices.

    Those are the pairs with weight − prices[k] > limits[t]; the best few of them are kept, in
    ``places`` and ``weights``, and ``best`` is the greatest weight less price of all the record's
    pairs.
    """
    most = places.shape[1]
    row, one = np.empty(_widest(first, last, rows, low, high)), np.empty(1)
    for t in range(first, last):
        i = rows[t]
        r0 = low[i]
        n = high[i] - r0
        score_row(i, r0, r0 + n, fields, row)
        for k in range(n):
            row[k] -= prices[r0 + k]
        best[t] = _highest(row, n)
        size = 0
        if best[t] > limits[t]:
            turn = (i * 2654435761) % n
            for s in range(n):
                k = s + turn
                if k >= n:
                    k -= n
                if row[k] > limits[t] and (size < most or row[k] > weights[t, 0]):
                    size = keep_best(row[k], r0 + k, size, most, weights[t], places[t])
            for s in range(size):  # the weight itself: a large price would have rounded it
                score_row(i, places[t, s], places[t, s] + 1, fields, one)
                weights[t, s] = one[0]
        sizes[t] = size


@njit(nogil=True, cache=True)
def pattern_counts(rows: Any, right_from: Any, right_to: Any, fields: Any, base: int, counts: Any) -> None:
    """Count the agreement patterns of left records ``rows`` with their blocks' right records.

    A pattern is Σ_j base^j · state_j with state 1 where field j agrees within its tolerance, 0
    where it doesn't, and 2 (base 3 only) where it is missing on either side.
    """
    kinds, left, right, left_present, right_present, scale = fields[:6]
    m = kinds.shape[0]
    wide = 0
    for t in range(rows.shape[0]):
        wide = max(wide, right_to[t] - right_from[t])
    code = np.empty(wide, np.int64)
    for t in range(rows.shape[0]):
        i, r0 = rows[t], right_from[t]
        n = right_to[t] - r0
        for k in range(n):
            code[k] = 0
        power = 1
        for j in range(m):
            a = left[j, i]
            here = left_present[j, i if left_present.shape[1] > 1 else 0]
            s = scale[j, i if scale.shape[1] > 1 else 0]
            equal = kinds[j] == EQUAL
            for k in range(n):
                b = right[j, r0 + k]
                there = right_present[j, r0 + k] if right_present.shape[1] > 1 else 1.0
                if here * there == 0.0:
                    code[k] += 2 * power
                elif (a == b) if equal else (abs(a - b) * s <= 1.0):
                    code[k] += power
            power *= base
        for k in range(n):
            counts[code[k]] += 1
