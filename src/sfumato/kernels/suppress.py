"""Kernels of local suppression: the unsafe combinations of each cell, and the cheapest keys that hit them."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@nb.njit(nogil=True, cache=True)
def _has_subset(head: int, links: IntArray, masks: IntArray, wanted: int) -> bool:
    at = head
    while at >= 0:
        if masks[at] & wanted == masks[at]:
            return True
        at = links[at]
    return False


@nb.njit(nogil=True, cache=True)
def add_unsafe(
    cells: IntArray,
    place: npt.NDArray[np.int32],
    flags: npt.NDArray[np.uint64],
    set_masks: IntArray,
    heads: IntArray,
    links: IntArray,
    masks: IntArray,
    used: int,
) -> int:
    """Add to each of ``cells`` the key sets flagged at its place, unless a subset is there already.

    Returns the number of entries after it; one above the room in ``masks`` means that the arrays
    are too small and nothing after them was written.
    """
    room = masks.size
    for w in range(cells.size):
        cell = cells[w]
        rest = flags[place[cell]]
        s = 0
        while rest != np.uint64(0):
            if rest & np.uint64(1):
                wanted = set_masks[s]
                if not _has_subset(heads[cell], links, masks, wanted):
                    if used >= room:
                        return room + 1
                    masks[used] = wanted
                    links[used] = heads[cell]
                    heads[cell] = used
                    used += 1
            rest >>= np.uint64(1)
            s += 1
    return used


@nb.njit(nogil=True, cache=True)
def _greedy(sets: IntArray, count: int, weights: FloatArray) -> np.int64:
    """Keys chosen one by one, each time the most sets hit for its weight; then those not needed go."""
    chosen = np.int64(0)
    left = True
    while left:
        left = False
        best, best_key = -1.0, -1
        for key in range(weights.size):
            bit = np.int64(1) << key
            hits = 0
            for s in range(count):
                if sets[s] & chosen == 0:
                    left = True
                    if sets[s] & bit:
                        hits += 1
            if hits and hits / weights[key] > best:
                best, best_key = hits / weights[key], key
        if left:
            chosen |= np.int64(1) << best_key
    for _ in range(weights.size):
        dear, drop = -1.0, -1
        for key in range(weights.size):
            bit = np.int64(1) << key
            if chosen & bit and weights[key] > dear:
                needed = False
                for s in range(count):
                    if sets[s] & (chosen & ~bit) == 0:
                        needed = True
                        break
                if not needed:
                    dear, drop = weights[key], key
        if drop < 0:
            break
        chosen &= ~(np.int64(1) << drop)
    return chosen


@nb.njit(nogil=True, cache=True)
def _cost(chosen: np.int64, weights: FloatArray) -> float:
    total = 0.0
    for key in range(weights.size):
        if chosen & (np.int64(1) << key):
            total += weights[key]
    return total


@nb.njit(nogil=True, cache=True)
def _search(
    sets: IntArray, count: int, weights: FloatArray, chosen: np.int64, barred: np.int64, cost: float,
    best: FloatArray, best_chosen: IntArray,
) -> None:  # fmt: skip
    """Branch on the unhit set with the fewest allowed keys; bound by disjoint unhit sets."""
    pick, fewest, bound, used = -1, 1 << 30, 0.0, np.int64(0)
    for s in range(count):
        if sets[s] & chosen:
            continue
        allowed = sets[s] & ~barred
        size, cheapest = 0, np.inf
        for key in range(weights.size):
            if allowed & (np.int64(1) << key):
                size += 1
                if weights[key] < cheapest:
                    cheapest = weights[key]
        if size == 0:
            return
        if size < fewest:
            fewest, pick = size, s
        if allowed & used == 0:
            bound += cheapest
            used |= allowed
    if pick < 0:
        if cost < best[0] - 1e-12:
            best[0] = cost
            best_chosen[0] = chosen
        return
    if cost + bound >= best[0] - 1e-12:
        return
    options = sets[pick] & ~barred
    tried = np.int64(0)
    for key in range(weights.size):
        bit = np.int64(1) << key
        if options & bit:
            _search(
                sets, count, weights, chosen | bit, barred | tried, cost + weights[key], best, best_chosen
            )
            tried |= bit


@nb.njit(nogil=True, cache=True)
def hit_all(
    cells: IntArray, heads: IntArray, links: IntArray, masks: IntArray, weights: FloatArray, exact: bool
) -> IntArray:
    """For each cell the keys of least weight that hit every one of its sets (or a greedy choice)."""
    out = np.zeros(cells.size, np.int64)
    longest = 1
    for w in range(cells.size):
        at, count = heads[cells[w]], 0
        while at >= 0:
            count += 1
            at = links[at]
        longest = max(longest, count)
    sets = np.empty(longest, np.int64)
    best = np.empty(1)
    best_chosen = np.empty(1, np.int64)
    for w in range(cells.size):
        at, count = heads[cells[w]], 0
        while at >= 0:
            sets[count] = masks[at]
            count += 1
            at = links[at]
        if count == 0:
            continue
        start = _greedy(sets, count, weights)
        if exact:
            best[0] = _cost(start, weights)
            best_chosen[0] = start
            _search(sets, count, weights, np.int64(0), np.int64(0), 0.0, best, best_chosen)
            out[w] = best_chosen[0]
        else:
            out[w] = start
    return out


@nb.njit(nogil=True, cache=True)
def join_nearest(
    codes: npt.NDArray[np.int32],
    counts: IntArray,
    gone: npt.NDArray[np.int32],
    members: IntArray,
    weights: FloatArray,
    tolerance: int,
    cells: IntArray,
    keys: IntArray,
) -> None:
    """Suppress in each cell the keys in which it differs from its nearest cells, until enough agree.

    ``codes`` is cells × keys. The nearest cell is the one whose differing keys, beyond those that
    are suppressed already, weigh least; with a tolerance of 2 and nothing suppressed before, that is
    the optimum.
    """
    for w in range(cells.size):
        u = cells[w]
        while True:
            agreeing = 0
            best, best_mask = np.inf, np.int64(0)
            for v in range(codes.shape[0]):
                mask, cost = np.int64(0), 0.0
                for z in range(members.size):
                    j = members[z]
                    one, two = codes[u, j], codes[v, j]
                    if one != two and one != gone[j] and two != gone[j]:
                        bit = np.int64(1) << j
                        if keys[u] & bit == 0:
                            mask |= bit
                            cost += weights[j]
                            if cost > best:
                                break
                if mask == 0:
                    agreeing += counts[v]
                    if agreeing >= tolerance:
                        break
                elif cost < best:
                    best, best_mask = cost, mask
            if agreeing >= tolerance:
                break
            keys[u] |= best_mask


@nb.njit(nogil=True, cache=True)
def _difference(codes: npt.NDArray[np.int32], u: np.int64, v: int) -> np.int64:
    mask = np.int64(0)
    for q in range(codes.shape[1]):
        if codes[u, q] != codes[v, q]:
            mask |= np.int64(1) << q
    return mask


@nb.njit(nogil=True, cache=True)
def share(
    codes: npt.NDArray[np.int32],
    counts: IntArray,
    options: IntArray,
    costs: FloatArray,
    frequency: npt.NDArray[np.int32],
    tolerance: int,
    chosen: IntArray,
) -> None:
    """Let unsafe cells that suppress several keys lean on what other unsafe cells suppress.

    ``codes`` is unsafe cells × keys of the set, ``options`` the key masks that may be suppressed, by
    rising cost, ``frequency[t, u]`` the original records that agree with u on the keys option t
    leaves, and ``chosen[u]`` the option of u, which makes it safe by itself. A cell u takes a cheaper
    option where other unsafe cells agree with it on what both then leave: cells whose option already
    allows it, or that can change to one that does without more cost in all and stay safe. Whoever is
    leant on, or leans, is fixed from then on, so that later changes can't undo it.
    """
    cells = codes.shape[0]
    fixed = np.zeros(cells, np.bool_)
    helpers = np.empty(cells, np.int64)
    changes = np.empty(cells, np.int64)
    order = np.argsort(-costs[chosen], kind="mergesort")
    for w in range(cells):
        u = order[w]
        if fixed[u]:
            continue
        for t in range(chosen[u]):
            spare = (costs[chosen[u]] - costs[t]) * counts[u]
            if spare <= 1e-12:
                break
            need = tolerance - frequency[t, u]
            found = 0
            for v in range(cells):
                if need <= 0:
                    break
                if v == u:
                    continue
                difference = _difference(codes, u, v)
                rest = difference & ~options[t]
                if rest == 0:
                    continue
                if rest & options[chosen[v]] == rest:
                    helpers[found], changes[found] = v, chosen[v]
                    found += 1
                    need -= counts[v]
                elif not fixed[v]:
                    for z in range(options.size):
                        extra = (costs[z] - costs[chosen[v]]) * counts[v]
                        if extra >= spare - 1e-12:
                            break
                        # v then agrees with u; is u among the records counted for v already?
                        apart = counts[u] if difference & ~options[z] else 0
                        if rest & options[z] == rest and frequency[z, v] + apart >= tolerance:
                            helpers[found], changes[found] = v, z
                            found += 1
                            need -= counts[v]
                            spare -= max(extra, 0.0)
                            break
            if need <= 0:
                chosen[u] = t
                fixed[u] = True
                for z in range(found):
                    chosen[helpers[z]] = changes[z]
                    fixed[helpers[z]] = True
                break
