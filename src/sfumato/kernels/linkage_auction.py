"""The 1-1 assignment by an auction: persons bid for released records until nobody is outbid.

Bertsekas (1988). Person i's net value of record k is weight − price. He bids for his best record and
raises its price by his margin over the second best and ε. When all are served, the total falls short of
the greatest one by at most ε a person. Rounds with smaller and smaller ε keep their prices.

No matrix: each person has a list of his best records at the prices of some time, and τ, the most that
a record outside the list was worth to him then. Prices only rise, so while a listed record is worth τ
or more it is the best of all; when none is, the list is made anew.
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
def auction(
    rows: Any,
    low: Any,
    high: Any,
    fields: Any,
    places: Any,
    weights: Any,
    tau: Any,
    steps: Any,
    budget: float,
) -> tuple[Any, Any, Any, float]:
    """Serve persons ``rows`` (places in the order of blocks), each in his block low … high−1.

    ``places``, ``weights``, ``tau``: their lists at prices of 0. ``steps``: the ε of each round.
    ``budget``: how many pairs may be compared again; beyond it lists stay as they are, and a person
    to whom a record outside his list might be worth more leaves. Returns each person's record and its
    weight (−1, NaN: none), the prices, and a bound on what is missing to the greatest total.
    """
    n, most = places.shape
    n_cols = int(high.max()) if n else 0
    price = np.zeros(n_cols)
    owner = np.full(n_cols, -1, np.int64)
    match = np.full(n, -1, np.int64)
    value = np.full(n, np.nan)
    wide = 1
    for t in range(n):
        wide = max(wide, high[rows[t]] - low[rows[t]])
    row, nets = np.empty(wide), np.empty(most)
    queue = np.empty(n, np.int64)
    spent = 0.0
    for step in range(steps.shape[0]):
        eps = steps[step]
        # Who is within the new ε of his best keeps his record.
        waiting = 0
        for t in range(n - 1, -1, -1):
            if match[t] >= 0:
                best = tau[t]
                for s in range(most):
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
        while waiting > 0:
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
                if best >= tau[t] or spent > budget:
                    break
                tau[t] = _relist(i, t, low, high, fields, price, row, places, nets, weights)
                spent += high[i] - low[i]
            if at < 0 or best < tau[t]:  # what isn't listed may be better, and he may not look: he leaves
                continue
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
    short = 0.0
    for t in range(n):
        best = tau[t]
        for s in range(most):
            k = places[t, s]
            if k < 0:
                break
            best = max(best, weights[t, s] - price[k])
        if match[t] >= 0:
            short += max(0.0, best - (value[t] - price[match[t]]))
    for k in range(n_cols):
        if owner[k] < 0:
            short += price[k]
    if spent > budget:
        short = np.inf
    return match, value, price, short
