"""Linking the records of small blocks: each block as a matrix of weights, assigned exactly.

``fields`` is what ``sfumato.kernels.linkage`` says; the records of both files come sorted by block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sfumato.kernels.linkage import nearest_of_row, score_row


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
    fields: Any,
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
            score_row(l0 + i, r0, r1, fields, row)
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
