"""The 1-1 assignment by an auction: persons bid for released records until nobody is outbid.

Bertsekas (1988). Person i's net value of record k is weight − price. He bids for his best record and
raises its price by his margin over the second best and ε. When all are served, the total falls short of
the greatest one by at most ε a person. Rounds with smaller and smaller ε keep their prices.

No matrix: each person has a list of his best records at the prices of some time, and τ, the most that
a record outside the list was worth to him then. Prices only rise, so while a listed record is worth τ
or more it is the best of all; when none is, the list is made anew. Where that was done too often, those who
still wait get the best of what is left, and the bound says what that may have cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sfumato.kernels.linkage import keep_best, score_row


@njit(nogil=True, cache=True)
def _relist(i: int, t: int, low: Any, high: Any, fields: Any, price: Any, row: Any, places: Any, nets: Any,
            weights: Any) -> float:  # fmt: skip
    """Person i's best records at these prices, and τ (−∞ where the list has all of them)."""
    r0 = low[i]
    n = high[i] - r0
    most = places.shape[1]
    score_row(i, r0, r0 + n, fields, row)
    size = 0
    turn = (i * 2654435761) % n
    for s in range(n):
        k = s + turn
        if k >= n:
            k -= n
        net = row[k] - price[r0 + k]
        if size < most or net > nets[0]:
            size = keep_best(net, r0 + k, size, most, nets, places[t])
    for s in range(size):
        weights[t, s] = row[places[t, s] - r0]
    for s in range(size, most):
        places[t, s] = -1
    return float(nets[0]) if n > most else -np.inf


@njit(nogil=True, cache=True)
def reopen(
    places: Any,
    weights: Any,
    tau: Any,
    price: Any,
    owner: Any,
    match: Any,
    value: Any,
    eps: float,
    queue: Any,
) -> int:
    """Begin a round: who is within ε of his best keeps his record, the others queue; how many do."""
    waiting = 0
    for t in range(match.shape[0] - 1, -1, -1):
        if match[t] >= 0:
            best = tau[t]
            for s in range(places.shape[1]):
                k = places[t, s]
                if k < 0:
                    break
                best = max(best, weights[t, s] - price[k])
            if value[t] - price[match[t]] >= best - eps:
                continue
            owner[match[t]] = -1
            match[t] = -1
        queue[waiting] = t
        waiting += 1
    return waiting


@njit(nogil=True, cache=True)
def bid(
    rows: Any,
    low: Any,
    high: Any,
    fields: Any,
    places: Any,
    weights: Any,
    tau: Any,
    price: Any,
    owner: Any,
    match: Any,
    value: Any,
    eps: float,
    queue: Any,
    waiting: int,
    budget: float,
) -> tuple[int, float]:
    """Serve the persons who queue until none does or ``budget`` pairs were compared again.

    ``rows`` are the persons' places in the order of blocks, low … high−1 each one's block; ``places``,
    ``weights`` and ``tau`` their lists. Returns how many still queue, and how many pairs were compared.
    """
    most = places.shape[1]
    wide = 1
    for w in range(rows.shape[0]):
        wide = max(wide, high[rows[w]] - low[rows[w]])
    row, nets = np.empty(wide), np.empty(most)
    spent = 0.0
    while waiting > 0 and spent < budget:
        waiting -= 1
        t = queue[waiting]
        i = rows[t]
        while True:
            best, second, at = -np.inf, -np.inf, -1
            for s in range(most):
                k = places[t, s]
                if k < 0:
                    break
                net = weights[t, s] - price[k]
                if net > best:
                    second, best, at = best, net, s
                elif net > second:
                    second = net
            if best >= tau[t]:
                break
            tau[t] = _relist(i, t, low, high, fields, price, row, places, nets, weights)
            spent += high[i] - low[i]
        floor = max(second, tau[t])
        if floor == -np.inf or floor > best:
            floor = best
        k = places[t, at]
        price[k] += best - floor + eps
        old = owner[k]
        if old >= 0:
            match[old] = -1
            queue[waiting] = old
            waiting += 1
        owner[k] = t
        match[t] = k
        value[t] = weights[t, at]
    return waiting, spent


@njit(nogil=True, cache=True)
def take_leftovers(
    first: int, last: int, queue: Any, rows: Any, low: Any, high: Any, fields: Any, owner: Any, match: Any,
    value: Any,
) -> None:  # fmt: skip
    """The best record that nobody has, for persons queue[first … last−1] in turn."""
    one = np.empty(1)
    for q in range(first, last):
        t = queue[q]
        i = rows[t]
        for k in range(low[i], high[i]):
            if owner[k] < 0:
                score_row(i, k, k + 1, fields, one)
                if match[t] < 0 or one[0] > value[t]:
                    match[t], value[t] = k, one[0]
        if match[t] >= 0:
            owner[match[t]] = t


@njit(nogil=True, cache=True)
def shortfall(places: Any, weights: Any, tau: Any, price: Any, owner: Any, match: Any, value: Any) -> float:
    """How much heavier, at most, another 1-1 assignment of all persons could be (duality)."""
    short = 0.0
    for t in range(match.shape[0]):
        best = tau[t]
        for s in range(places.shape[1]):
            k = places[t, s]
            if k < 0:
                break
            best = max(best, weights[t, s] - price[k])
        if match[t] >= 0:
            short += max(0.0, best - (value[t] - price[match[t]]))
    for k in range(price.shape[0]):
        if owner[k] < 0:
            short += price[k]
    return short
