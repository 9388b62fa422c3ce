"""Pairing ranks within two bounds: so many ranks, and so great a distance of value.

All kernels work on the sorted values of each stratum, ranks ``starts[s]`` … ``starts[s+1] − 1``. Ranks
j < k may be exchanged if k − j ≤ windows[s] and values[k] − values[j] ≤ distance. The highest rank that
j may reach never falls as j rises, which is what makes one pass enough. ``source[j]`` is the rank whose
value rank j receives; a rank that stays is its own source.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from sfumato.kernels.rank_swap import _is_taken, _next_open, _take
from sfumato.kernels.sort import HALF, HALF_BITS, draw_halves

_BLOCK = 512  # random numbers drawn at a time
_DRAWS = 48  # of a partner, before the window is looked through
_PLACES = 64  # places drawn for a rank that is left over
_HOPS = 24  # draws of one hop of a chain, before the window is looked through


@nb.njit(nogil=True, cache=True, inline="always")
def _within(values, low, high, window, distance):  # type: ignore[no-untyped-def]
    """Whether two ranks of one stratum, low ≤ high, may be exchanged."""
    return high - low <= window and float(values[high]) - float(values[low]) <= distance


@nb.njit(nogil=True, cache=True, inline="always")
def _near(values, a, b, window, distance):  # type: ignore[no-untyped-def]
    return _within(values, min(a, b), max(a, b), window, distance)


@nb.njit(nogil=True, cache=True)
def _top(values, rank, stop, window, distance):  # type: ignore[no-untyped-def]
    """The highest rank that ``rank`` may be exchanged with."""
    high = min(rank + window, stop - 1)
    edge = float(values[rank])
    if float(values[high]) - edge <= distance:
        return high
    low = rank
    while high - low > 1:
        middle = (low + high) >> 1
        if float(values[middle]) - edge <= distance:
            low = middle
        else:
            high = middle
    return low


@nb.njit(nogil=True, cache=True)
def count_candidates(values, starts, windows, distance, out):  # type: ignore[no-untyped-def]
    """How many others each rank may be exchanged with, on both sides."""
    for s in range(starts.size - 1):
        start, stop, window = starts[s], starts[s + 1], windows[s]
        top, bottom = start, start
        for j in range(start, stop):
            x = float(values[j])
            top = max(top, j)
            while top + 1 < stop and float(values[top + 1]) - x <= distance:
                top += 1
            while x - float(values[bottom]) > distance:
                bottom += 1
            out[j] = min(top, j + window) - j + j - max(bottom, j - window)


@nb.njit(nogil=True, cache=True)
def short_of(values, starts, distance, least, out):  # type: ignore[no-untyped-def]
    """Which ranks have fewer than ``least`` others within the distance (or than their stratum has), where
    every window holds as many ranks. Returns how many there are."""
    count = 0
    for s in range(starts.size - 1):
        start, stop = starts[s], starts[s + 1]
        wanted = min(least, stop - start - 1)
        for j in range(start, stop):
            x = float(values[j])
            out[j] = False
            if j + wanted < stop and float(values[j + wanted]) - x <= distance:
                continue
            found = 0
            k = j + 1
            while k < stop and found < wanted and float(values[k]) - x <= distance:
                found += 1
                k += 1
            k = j - 1
            while k >= start and found < wanted and x - float(values[k]) <= distance:
                found += 1
                k -= 1
            if found < wanted:
                out[j] = True
                count += 1
    return count


@nb.njit(nogil=True, cache=True)
def pair_bounded(values, starts, windows, distance, rng, source):  # type: ignore[no-untyped-def]
    """The lowest unswapped rank takes a partner uniformly among the unswapped ranks that it may reach.

    As ``pair_uniform``, with an upper end that moves with the values. A rank whose every candidate
    was taken is left over; returns how many are. (``settle`` joins them.)
    """
    taken = np.zeros((source.size >> 6) + 2, np.uint64)
    halves = np.empty(_BLOCK, np.int64)
    used = _BLOCK
    left_over = 0
    for stratum in range(starts.size - 1):
        start, stop, window = starts[stratum], starts[stratum + 1], windows[stratum]
        high = start
        for j in range(start, stop):
            if _is_taken(taken, j):
                continue
            _take(taken, j)
            edge = float(values[j])
            high = max(high, j)
            while high + 1 < stop and float(values[high + 1]) - edge <= distance:
                high += 1
            reach = min(high - j, window)
            k = -1
            for _ in range(_DRAWS if reach > 0 else 0):
                if reach > HALF >> 2:
                    other = j + 1 + int(rng.random() * reach)
                else:
                    if used == _BLOCK:
                        draw_halves(rng, halves)
                        used = 0
                    product = halves[used] * reach
                    used += 1
                    rest = product & (HALF - 1)
                    if rest < reach and rest < HALF % reach:  # the few draws that aren't even (Lemire 2019)
                        continue
                    other = j + 1 + (product >> HALF_BITS)
                if not _is_taken(taken, other):
                    k = other
                    break
            if k < 0 and reach > 0:  # hardly anybody is left: every one of them has the same chance
                seen = 0
                t = _next_open(taken, j + 1)
                while t <= j + reach:
                    seen += 1
                    if rng.random() * seen < 1.0:
                        k = t
                    t = _next_open(taken, t + 1)
            if k < 0:
                source[j] = j
                left_over += 1
            else:
                _take(taken, k)
                source[j] = k
                source[k] = j
    return left_over


@nb.njit(nogil=True, cache=True)
def _join(values, low, high, stop, window, distance, source, rng, trail):  # type: ignore[no-untyped-def]
    """Pair two free ranks low < high along a chain of pairs that change partners, each within the bounds.

    (low, c) become a pair, c's old partner d > low is free, and so on upwards. Returns whether it
    arrived; if not, everything is as it was.
    """
    steps = 0
    at = low
    while True:
        if _near(values, at, high, window, distance):
            source[at], source[high] = high, at
            return True
        if at > high or steps >= trail.shape[0]:
            break
        top = _top(values, at, stop, window, distance)
        found = np.int64(-1)
        for draw in range(_HOPS + top - at):
            # Some draws at random, then every rank from the furthest on.
            c = at + 1 + int(rng.random() * (top - at)) if draw < _HOPS else top - (draw - _HOPS)
            if c <= at or c > top:
                continue
            d = np.int64(source[c])
            if d == c or d <= at:
                continue
            if d > high and not _near(values, d, high, window, distance):
                continue
            found = c
            break
        if found < 0:
            break
        d = np.int64(source[found])
        trail[steps, 0], trail[steps, 1], trail[steps, 2] = at, found, d
        steps += 1
        source[at], source[found] = found, at
        source[d] = d
        at = d
    for step in range(steps - 1, -1, -1):
        at, c, d = trail[step, 0], trail[step, 1], trail[step, 2]
        source[at] = at
        source[c], source[d] = d, c
    return False


@nb.njit(nogil=True, cache=True)
def settle(values, starts, windows, distance, source, rng):  # type: ignore[no-untyped-def]
    """Join left-over ranks two by two along chains; the last of an odd number goes to a random place.

    A left-over rank stands where the pairing ended, at the top of the stratum or before a gap: the far
    value itself. So the rank that stays is drawn uniformly among all that are connected with it (no two
    neighbours further apart than ``distance``), and a chain of pairs makes room. Returns how many stay.
    """
    trail = np.empty((4096, 3), np.int64)
    staying = 0
    for stratum in range(starts.size - 1):
        start, stop, window = starts[stratum], starts[stratum + 1], windows[stratum]
        if window < 1:
            continue
        low = start
        while low < stop:
            high = low + 1
            free = source[low] == low
            waiting = low if free else np.int64(-1)
            while high < stop and float(values[high]) - float(values[high - 1]) <= distance:
                if source[high] == high:
                    if waiting >= 0 and _join(
                        values, waiting, high, stop, window, distance, source, rng, trail
                    ):
                        waiting = np.int64(-1)
                    else:
                        if waiting >= 0:  # two that can't be joined: the lower one is placed by itself
                            _place(values, waiting, low, high, window, distance, source, rng, trail)
                            staying += 1
                        waiting = high
                high += 1
            if waiting >= 0:
                _place(values, waiting, low, high, window, distance, source, rng, trail)
                staying += 1
            low = high
    return staying


@nb.njit(nogil=True, cache=True)
def _place(values, free, low, high, window, distance, source, rng, trail):  # type: ignore[no-untyped-def]
    """Let a random rank of low … high − 1 be free instead of ``free``, where a chain leads there."""
    for _ in range(_PLACES):
        place = low + int(rng.random() * (high - low))
        if place == free:
            return
        other = np.int64(source[place])
        if other == place:
            continue
        source[place], source[other] = place, other
        first, last = min(other, free), max(other, free)
        if _join(values, first, last, high, window, distance, source, rng, trail):
            return
        source[place], source[other] = other, place


@nb.njit(nogil=True, cache=True)
def close_cycles(values, starts, windows, distance, source):  # type: ignore[no-untyped-def]
    """Let each left-over rank u join a near pair (a, b): u receives a's value, a b's, b u's.

    Only where all three stay within the bounds. Returns how many ranks still stay.
    """
    staying = 0
    for stratum in range(starts.size - 1):
        start, stop, window = starts[stratum], starts[stratum + 1], windows[stratum]
        if window < 1:
            continue
        for u in range(start, stop):
            if source[u] != u:
                continue
            staying += 1
            for step in range(2 * min(window, stop - start)):
                a = u + step // 2 + 1 if step % 2 else u - step // 2 - 1  # the nearest first
                if a < start or a >= stop or not _near(values, u, a, window, distance):
                    continue
                b = np.int64(source[a])
                if b != a and source[b] == a and _near(values, u, b, window, distance):
                    source[u], source[a], source[b] = a, b, u
                    staying -= 1
                    break
    return staying


@nb.njit(nogil=True, cache=True)
def count_beyond_bounds(values, starts, windows, distance, after):  # type: ignore[no-untyped-def]
    """How many values moved beyond the bounds, whatever the order of equal values.

    ``after[j]`` is what the record of rank j holds now. It may hold anything from ``window`` ranks
    below its run of ties to as many above, and nothing further than ``distance`` from its old value.
    """
    far_ranks = far_values = 0
    for stratum in range(starts.size - 1):
        start, stop, window = starts[stratum], starts[stratum + 1], windows[stratum]
        low = start
        while low < stop:
            high = low
            while high + 1 < stop and values[high + 1] == values[low]:
                high += 1
            least = values[max(start, low - window)]
            most = values[min(stop - 1, high + window)]
            old = float(values[low])
            for j in range(low, high + 1):
                now = after[j]
                if not least <= now <= most:
                    far_ranks += 1
                elif not abs(float(now) - old) <= distance:
                    far_values += 1
            low = high + 1
    return far_ranks, far_values
