"""The best 1-1 assignment over sparse candidates, with the dual prices that prove it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


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

    Rows have edges starts[i] … starts[i+1]−1. Returns each row's edge (−1: none) and the dual prices
    of rows and columns, which prove the optimum: u_i + v_k ≥ w_ik and u_i ≥ outside_i with equality
    where chosen, v_k ≥ 0 with v_k = 0 where free.
    """
    nobody = np.full(starts.shape[0] - 1, -1, np.int64)
    return resume_sparse(starts, cols, weights, outside, np.zeros(n_cols), nobody)


@njit(nogil=True, cache=True)
def resume_sparse(
    starts: Any, cols: Any, weights: Any, outside: Any, prices: Any, match: Any
) -> tuple[Any, Any, Any]:
    """:func:`assign_sparse` from the column prices and matches (−1: none) of a solution for fewer edges.

    Rows whose match is still their best at those prices keep it; the others look for another.
    Shortest augmenting paths with Dijkstra's algorithm on a heap; each row may also end at a column
    of its own of weight ``outside``. A column that is free in the end may have kept a price: then
    the prices prove nothing, and the caller must start afresh.
    """
    n_cols = prices.shape[0]
    n = starts.shape[0] - 1
    edge_of = np.full(n, -1, np.int64)
    row_of = np.full(n_cols, -1, np.int64)
    u = np.empty(n)
    v = prices.copy()
    for i in range(n):
        u[i] = outside[i]
        mine = -1
        for e in range(starts[i], starts[i + 1]):
            u[i] = max(u[i], weights[e] - v[cols[e]])
            if cols[e] == match[i]:
                mine = e
        if mine != -1 and weights[mine] - v[cols[mine]] >= u[i] - 1e-12 * (1.0 + abs(u[i])):
            edge_of[i] = mine
            row_of[cols[mine]] = i
    waiting = np.empty(n, np.int64)
    n_waiting = 0
    for i in range(n):
        if edge_of[i] != -1:
            continue
        best = -1
        for e in range(starts[i], starts[i + 1]):
            if weights[e] - v[cols[e]] == u[i] and (best == -1 or row_of[cols[e]] == -1):
                best = e
                if row_of[cols[e]] == -1:
                    break
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
