"""Record linkage on plain arrays: pair weights, candidates, agreement patterns, assignment.

The records of both files come sorted by block, so a block is a slice. A pair's weight is a sum over
fields j of a function of the two values a (known to the intruder) and b (released); ``kinds[j]`` says
which:

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
def score_row(
    i: int,
    start: int,
    stop: int,
    kinds: Any,
    left: Any,
    right: Any,
    left_present: Any,
    right_present: Any,
    scale: Any,
    agree: Any,
    disagree: Any,
    tables: Any,
    out: Any,
) -> None:
    """The weights of left record i with right records start … stop−1, into ``out``."""
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


@njit(nogil=True, cache=True)
def nearest_of_row(scores: Any, n: int, truth: int) -> tuple[int, float, float]:
    """The best place (the first of several), its weight, and the share of the truth in the ties."""
    best = 0
    for k in range(1, n):
        if scores[k] > scores[best]:
            best = k
    top = scores[best]
    near = top - 1e-9 * (1.0 + abs(top))
    if truth < 0 or scores[truth] < near:
        return best, top, 0.0
    ties = 0
    for k in range(n):
        if scores[k] >= near:
            ties += 1
    return best, top, 1.0 / ties


@njit(nogil=True, cache=True)
def assign_dense(
    cost: Any,
    rows: int,
    cols: int,
    u: Any,
    v: Any,
    shortest: Any,
    pred: Any,
    col_of: Any,
    row_of: Any,
    scanned_rows: Any,
    scanned_cols: Any,
    remaining: Any,
) -> None:
    """The cheapest assignment of rows to different columns (rows ≤ cols), into ``col_of``.

    Shortest augmenting paths (Jonker and Volgenant 1987, as Crouse 2016 gives it for rectangles).
    ``cost`` is flat, row by row.
    """
    for i in range(rows):
        u[i] = 0.0
        col_of[i] = -1
    for k in range(cols):
        v[k] = 0.0
        row_of[k] = -1
    for current in range(rows):
        low = 0.0
        i = current
        left = cols
        for k in range(cols):
            # From the end: ties then fall on the first column, as in file order they would.
            remaining[k] = cols - k - 1
            scanned_cols[k] = False
            shortest[k] = np.inf
        for r in range(rows):
            scanned_rows[r] = False
        sink = -1
        while sink == -1:
            scanned_rows[i] = True
            lowest = np.inf
            place = -1
            offset = i * cols
            base = low - u[i]
            for t in range(left):
                k = remaining[t]
                d = base + cost[offset + k] - v[k]
                if d < shortest[k]:
                    pred[k] = i
                    shortest[k] = d
                # Among equals a free column ends the search.
                if shortest[k] < lowest or (shortest[k] == lowest and row_of[k] == -1):
                    lowest = shortest[k]
                    place = t
            low = lowest
            k = remaining[place]
            if row_of[k] == -1:
                sink = k
            else:
                i = row_of[k]
            scanned_cols[k] = True
            left -= 1
            remaining[place] = remaining[left]
        u[current] += low
        for r in range(rows):
            if scanned_rows[r] and r != current:
                u[r] += low - shortest[col_of[r]]
        for k in range(cols):
            if scanned_cols[k]:
                v[k] -= low - shortest[k]
        k = sink
        while True:
            i = pred[k]
            row_of[k] = i
            k, col_of[i] = col_of[i], k
            if i == current:
                break


@njit(nogil=True, cache=True)
def link_blocks(
    first: int,
    last: int,
    left_starts: Any,
    right_starts: Any,
    kinds: Any,
    left: Any,
    right: Any,
    left_present: Any,
    right_present: Any,
    scale: Any,
    agree: Any,
    disagree: Any,
    tables: Any,
    truth: Any,
    one_to_one: bool,
    match: Any,
    weight: Any,
    nearest: Any,
) -> None:
    """Link the records of blocks first … last−1, each block as a dense matrix.

    ``match`` gets the right record of each left record (−1: none), ``weight`` its weight,
    ``nearest`` the chance that a draw among the nearest right records hits the truth.
    """
    most = 0
    wide = 0
    tall = 0
    for b in range(first, last):
        nl = left_starts[b + 1] - left_starts[b]
        nr = right_starts[b + 1] - right_starts[b]
        most = max(most, nl * nr)
        wide = max(wide, max(nl, nr))
        tall = max(tall, min(nl, nr))
    cost = np.empty(most)
    row = np.empty(wide)
    u, v = np.empty(tall), np.empty(wide)
    shortest = np.empty(wide)
    pred, row_of, remaining = (
        np.empty(wide, np.int64),
        np.empty(wide, np.int64),
        np.empty(wide, np.int64),
    )
    col_of = np.empty(tall, np.int64)
    scanned_rows, scanned_cols = np.empty(tall, np.bool_), np.empty(wide, np.bool_)
    for b in range(first, last):
        l0, r0, r1 = left_starts[b], right_starts[b], right_starts[b + 1]
        nl, nr = left_starts[b + 1] - l0, r1 - r0
        if nl == 0 or nr == 0:
            continue
        turned = nl > nr
        for i in range(nl):
            score_row(
                l0 + i,
                r0,
                r1,
                kinds,
                left,
                right,
                left_present,
                right_present,
                scale,
                agree,
                disagree,
                tables,
                row,
            )
            place, top, share = nearest_of_row(row, nr, truth[l0 + i] - r0 if truth[l0 + i] >= 0 else -1)
            nearest[l0 + i] = share
            if not one_to_one:
                match[l0 + i] = r0 + place
                weight[l0 + i] = top
            elif turned:
                for k in range(nr):
                    cost[k * nl + i] = -row[k]
            else:
                for k in range(nr):
                    cost[i * nr + k] = -row[k]
        if not one_to_one:
            continue
        rows, cols = min(nl, nr), max(nl, nr)
        assign_dense(
            cost,
            rows,
            cols,
            u,
            v,
            shortest,
            pred,
            col_of,
            row_of,
            scanned_rows,
            scanned_cols,
            remaining,
        )
        for i in range(rows):
            k = col_of[i]
            if turned:
                match[l0 + k] = r0 + i
                weight[l0 + k] = -cost[i * cols + k]
            else:
                match[l0 + i] = r0 + k
                weight[l0 + i] = -cost[i * cols + k]


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
def top_candidates(
    first: int,
    last: int,
    r0: int,
    r1: int,
    kinds: Any,
    left: Any,
    right: Any,
    left_present: Any,
    right_present: Any,
    scale: Any,
    agree: Any,
    disagree: Any,
    tables: Any,
    truth: Any,
    places: Any,
    weights: Any,
    nearest: Any,
) -> None:
    """The best right records of r0 … r1−1 for left records first … last−1.

    ``places`` and ``weights`` have a row for each of those left records and k ≤ r1 − r0 columns.
    """
    n = r1 - r0
    top = places.shape[1]
    row = np.empty(n)
    for i in range(first, last):
        score_row(
            i,
            r0,
            r1,
            kinds,
            left,
            right,
            left_present,
            right_present,
            scale,
            agree,
            disagree,
            tables,
            row,
        )
        _, _, nearest[i] = nearest_of_row(row, n, truth[i] - r0 if truth[i] >= 0 else -1)
        size = 0
        # A start of its own for each record, so that equals aren't the same few records for all.
        turn = (i * 2654435761) % n
        for t in range(n):
            k = t + turn
            if k >= n:
                k -= n
            if size < top or row[k] > weights[i - first, 0]:
                size = keep_best(row[k], r0 + k, size, top, weights[i - first], places[i - first])


@njit(nogil=True, cache=True)
def _heap_push(keys: Any, items: Any, size: int, key: float, item: int) -> int:
    k = size
    while k > 0 and keys[(k - 1) // 2] > key:
        keys[k], items[k] = keys[(k - 1) // 2], items[(k - 1) // 2]
        k = (k - 1) // 2
    keys[k], items[k] = key, item
    return size + 1


@njit(nogil=True, cache=True)
def _heap_pop(keys: Any, items: Any, size: int) -> int:
    """Drop the first; the new size."""
    size -= 1
    key, item = keys[size], items[size]
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[k], items[k] = keys[child], items[child]
        k = child
    keys[k], items[k] = key, item
    return size


@njit(nogil=True, cache=True)
def assign_sparse(starts: Any, cols: Any, weights: Any, outside: Any, n_cols: int) -> tuple[Any, Any, Any]:
    """The 1-1 choice of edges with the greatest total weight; a row without an edge gets outside[row].

    Rows have edges starts[i] … starts[i+1]−1. Shortest augmenting paths with Dijkstra's algorithm
    on a heap; each row may also end at a column of its own of weight ``outside``. Returns each
    row's edge (−1: none) and the dual prices of rows and columns, which prove the optimum:
    u_i + v_k ≥ w_ik and u_i ≥ outside_i with equality where chosen, v_k ≥ 0 with v_k = 0 where free.
    """
    n = starts.shape[0] - 1
    edge_of = np.full(n, -1, np.int64)
    row_of = np.full(n_cols, -1, np.int64)
    u = np.empty(n)
    v = np.zeros(n_cols)
    waiting = np.empty(n, np.int64)
    n_waiting = 0
    for i in range(n):
        best = -1
        u[i] = outside[i]
        for e in range(starts[i], starts[i + 1]):
            if weights[e] > u[i] or (
                weights[e] == u[i] and (best == -1 or (row_of[cols[best]] != -1 and row_of[cols[e]] == -1))
            ):
                best = e
                u[i] = weights[e]
        if best != -1 and row_of[cols[best]] == -1:
            row_of[cols[best]] = i
            edge_of[i] = best
        elif best != -1:
            waiting[n_waiting] = i
            n_waiting += 1
    dist = np.full(n_cols, np.inf)
    pred = np.empty(n_cols, np.int64)  # the edge by which the column was reached
    done = np.zeros(n_cols, np.bool_)
    touched = np.empty(n_cols, np.int64)
    room = 1024
    keys, items = np.empty(room), np.empty(room, np.int64)
    for w in range(n_waiting):
        source = waiting[w]
        i = source
        low = 0.0
        size = 0
        n_touched = 0
        own, own_row = np.inf, -1
        sink = -1
        while True:
            d = low + u[i] - outside[i]
            if d < own:
                own, own_row = d, i
            for e in range(starts[i], starts[i + 1]):
                k = cols[e]
                if done[k]:
                    continue
                d = low + max(0.0, u[i] + v[k] - weights[e])
                if d < dist[k] and d <= own:
                    if dist[k] == np.inf:
                        touched[n_touched] = k
                        n_touched += 1
                    dist[k] = d
                    pred[k] = e
                    if size == room:
                        more, also = np.empty(2 * room), np.empty(2 * room, np.int64)
                        more[:room], also[:room] = keys, items
                        keys, items = more, also
                        room *= 2
                    size = _heap_push(keys, items, size, d, k)
            while size > 0 and (done[items[0]] or keys[0] > dist[items[0]]):
                size = _heap_pop(keys, items, size)
            if size == 0:
                break
            k, d = items[0], keys[0]
            if row_of[k] == -1 and d <= own:
                sink, low = k, d
                break
            if d >= own:
                break
            size = _heap_pop(keys, items, size)
            done[k] = True
            low = d
            i = row_of[k]
        final = low if sink != -1 else own
        u[source] -= final
        for t in range(n_touched):
            k = touched[t]
            if done[k]:
                u[row_of[k]] -= final - dist[k]
                v[k] += final - dist[k]
            dist[k] = np.inf
        # Turn the path around: from the sink (or from the row that goes outside) back to the source.
        if sink == -1 and own_row != source:
            k = cols[edge_of[own_row]]
            edge_of[own_row] = -1
            sink = k
        while sink != -1:
            e = pred[sink]
            # The row of an edge: the source, or the row that held the column before it.
            r = _row_of_edge(starts, e)
            old = edge_of[r]
            edge_of[r] = e
            row_of[sink] = r
            sink = -1 if r == source else cols[old]
        for t in range(n_touched):
            done[touched[t]] = False
    return edge_of, u, v


@njit(nogil=True, cache=True)
def _row_of_edge(starts: Any, edge: int) -> int:
    low, high = 0, starts.shape[0] - 1
    while high - low > 1:
        mid = (low + high) // 2
        if starts[mid] <= edge:
            low = mid
        else:
            high = mid
    return low


@njit(nogil=True, cache=True)
def pattern_counts(
    rows: Any,
    right_from: Any,
    right_to: Any,
    kinds: Any,
    left: Any,
    right: Any,
    left_present: Any,
    right_present: Any,
    scale: Any,
    base: int,
    counts: Any,
) -> None:
    """Count the agreement patterns of left records ``rows`` with their blocks' right records.

    A pattern is Σ_j base^j · state_j with state 1 where field j agrees within its tolerance, 0
    where it doesn't, and 2 (base 3 only) where it is missing on either side.
    """
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
