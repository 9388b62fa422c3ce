"""Pairing ranks: who swaps with whom, in time that doesn't depend on the window.

All kernels work on ranks 0 … n−1 of the values that may move, sorted within strata; stratum s holds
ranks ``starts[s]`` … ``starts[s+1] − 1`` and has its own window (uniform) or scale (geometric).
``source[j]`` is the rank whose value rank j receives; a rank that stays is its own source.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from sfumato.kernels.sort import HALF, HALF_BITS, draw_halves

_ONE = np.uint64(1)
_BLOCK = 512  # random numbers drawn at a time


@nb.njit(nogil=True, cache=True, inline="always")
def _is_taken(taken, rank):  # type: ignore[no-untyped-def]
    return (taken[rank >> 6] >> np.uint64(rank & 63)) & _ONE


@nb.njit(nogil=True, cache=True, inline="always")
def _take(taken, rank):  # type: ignore[no-untyped-def]
    taken[rank >> 6] |= _ONE << np.uint64(rank & 63)


@nb.njit(nogil=True, cache=True, inline="always")
def _next_open(taken, rank):  # type: ignore[no-untyped-def]
    """The lowest rank from ``rank`` on that isn't taken (there must be one), 64 ranks at a look."""
    word = rank >> 6
    free = ~taken[word] >> np.uint64(rank & 63)
    while free == 0:
        word += 1
        rank = word << 6
        free = ~taken[word]
    below = (free & (~free + _ONE)) - _ONE  # as many ones as there are taken ranks before the free one
    below -= (below >> np.uint64(1)) & np.uint64(0x5555555555555555)
    below = (below & np.uint64(0x3333333333333333)) + (
        (below >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    below = (below + (below >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return rank + np.int64((below * np.uint64(0x0101010101010101)) >> np.uint64(56))


@nb.njit(nogil=True, cache=True)
def pair_uniform(starts, windows, rng, source):  # type: ignore[no-untyped-def]
    """Moore's section VII: the lowest unswapped rank j takes a partner uniformly among the unswapped
    ranks of j+1 … j+window. Returns how many ranks were left over.

    A rank is drawn from the whole window and drawn again where it is taken: the law is the same, and
    the chance of success tends to 1/(2 ln 2) = 0.72 whatever the window. Rank j+window can't have
    been taken before j's turn, so a partner exists until the last ranks; an odd stratum leaves one.

    Draws of 26 bits are made exactly uniform by rejection (Lemire 2019).
    """
    taken = np.zeros((source.size >> 6) + 2, np.uint64)
    halves = np.empty(_BLOCK, np.int64)
    used = _BLOCK
    left_over = 0
    for stratum in range(starts.size - 1):
        start, stop, window = starts[stratum], starts[stratum + 1], windows[stratum]
        if window < 1:
            for j in range(start, stop):
                source[j] = j
            continue
        open_ranks = stop - start
        uneven = HALF % window
        j = start
        while open_ranks > 0:
            j = _next_open(taken, j)
            if open_ranks == 1:
                source[j] = j
                left_over += 1
                break
            if window > stop - 1 - j:
                window = stop - 1 - j
                uneven = HALF % window
            while True:
                if window > HALF >> 2:
                    k = j + 1 + int(rng.random() * window)
                else:
                    if used == _BLOCK:
                        draw_halves(rng, halves)
                        used = 0
                    product = halves[used] * window
                    used += 1
                    if product & (HALF - 1) < uneven:
                        continue
                    k = j + 1 + (product >> HALF_BITS)
                if not _is_taken(taken, k):
                    break
            _take(taken, k)
            open_ranks -= 2
            source[j] = k
            source[k] = j
            j += 1
    return left_over


@nb.njit(nogil=True, cache=True)
def pair_geometric(starts, scales, rng, source):  # type: ignore[no-untyped-def]
    """As ``pair_uniform``, but a displacement d ≥ 1 is drawn with probability ∝ exp(−d / scale).

    There is no bound but the end of the stratum, so windows of several columns can't be intersected.
    The chance that a draw is free tends to the same 1/(2 ln 2).
    """
    taken = np.zeros((source.size >> 6) + 2, np.uint64)
    left_over = 0
    for stratum in range(starts.size - 1):
        start, stop, scale = starts[stratum], starts[stratum + 1], scales[stratum]
        if scale <= 0.0:
            for j in range(start, stop):
                source[j] = j
            continue
        open_ranks = stop - start
        j = start
        while open_ranks > 0:
            j = _next_open(taken, j)
            if open_ranks == 1:
                source[j] = j
                left_over += 1
                break
            reach = stop - 1 - j
            if reach > scale:
                # ⌊scale · Exp(1)⌋ is geometric; one beyond the end of the stratum is drawn again.
                while True:
                    far = scale * rng.standard_exponential()
                    if far < reach:
                        k = j + 1 + int(far)
                        if not _is_taken(taken, k):
                            break
            else:
                # The inverse of the distribution function, cut off at the end of the stratum.
                mass = -math.expm1(-reach / scale)
                k = j + 1 + min(int(-scale * math.log1p(-rng.random() * mass)), reach - 1)
                while _is_taken(taken, k):
                    k = j + 1 + min(int(-scale * math.log1p(-rng.random() * mass)), reach - 1)
            _take(taken, k)
            open_ranks -= 2
            source[j] = k
            source[k] = j
            j += 1
    return left_over


@nb.njit(nogil=True, cache=True)
def change(values, source, relative):  # type: ignore[no-untyped-def]
    """Σ(a′−a)², or Σ|a′−a|/a over positive a."""
    total = 0.0
    if relative:
        for j in range(source.size):
            x = float(values[j])
            if x > 0:
                total += abs(float(values[source[j]]) - x) / x
    else:
        for j in range(source.size):
            d = float(values[source[j]]) - float(values[j])
            total += d * d
    return total


@nb.njit(nogil=True, cache=True)
def sum_in_core(values, source, core):  # type: ignore[no-untyped-def]
    """Σ(a′−a)² over some of the ranks."""
    total = 0.0
    for j in range(source.size):
        if core[j]:
            d = float(values[source[j]]) - float(values[j])
            total += d * d
    return total


@nb.njit(nogil=True, cache=True)
def changes(values, source):  # type: ignore[no-untyped-def]
    """Σ(a′−a)², Σ|a′−a|/a over positive a, and how many ranks moved."""
    squares = 0.0
    relative = 0.0
    moved = 0
    for j in range(source.size):
        k = source[j]
        moved += k != j
        x = float(values[j])
        d = abs(float(values[k]) - x)
        squares += d * d
        if x > 0:
            relative += d / x
    return squares, relative, moved


@nb.njit(nogil=True, cache=True)
def staying(source, count):  # type: ignore[no-untyped-def]
    """The ``count`` ranks that are their own source."""
    out = np.empty(count, np.int64)
    found = 0
    for j in range(source.size - 1, -1, -1):
        if found == count:
            break
        if source[j] == j:
            out[found] = j
            found += 1
    return out[:found][::-1].copy()


@nb.njit(nogil=True, cache=True)
def write_values(values, places, rows, source, out):  # type: ignore[no-untyped-def]
    """Give the record of each rank the value of its source; returns what ``changes`` does, since all
    that it needs is at hand.

    ``rows`` are the records of the places; empty where all records may move.
    """
    squares = 0.0
    relative = 0.0
    moved = 0
    all_rows = rows.size == 0
    for j in range(source.size):
        k = source[j]
        new = values[k]
        if all_rows:
            out[places[j]] = new
        else:
            out[rows[places[j]]] = new
        moved += k != j
        x = float(values[j])
        d = abs(float(new) - x)
        squares += d * d
        if x > 0:
            relative += d / x
    return squares, relative, moved


@nb.njit(nogil=True, cache=True)
def write_sources(places, source, out):  # type: ignore[no-untyped-def]
    """Give the record of each rank the record that its value comes from."""
    for j in range(source.size):
        out[places[j]] = places[source[j]]


@nb.njit(nogil=True, cache=True)
def _cost(values, a, b, relative):  # type: ignore[no-untyped-def]
    """What swapping ranks a and b adds to Σ(a′−a)² (or to Σ|a′−a|/a)."""
    x, y = float(values[a]), float(values[b])
    d = abs(x - y)
    if not relative:
        return 2.0 * d * d
    return (d / x if x > 0 else 0.0) + (d / y if y > 0 else 0.0)


@nb.njit(nogil=True, cache=True)
def leverage(values, starts, windows, relative, size, out):  # type: ignore[no-untyped-def]
    """Running totals, over blocks of ``size`` ranks, of how much re-pairing could move the sum there.

    A block's leverage is its length times the square of the span that its windows reach over (the
    span over its least value, if relative), for each stratum that it touches: where a few far values
    carry the sum, only pairs among them can mend it.
    """
    total = 0.0
    n = values.size
    s = 0
    for block in range(out.size):
        low, end = block * size, min(n, (block + 1) * size)
        while low < end:
            while starts[s + 1] <= low:
                s += 1
            start, stop, window = starts[s], starts[s + 1], windows[s]
            high = min(end, stop)
            span = float(values[min(stop - 1, high - 1 + window)]) - float(values[max(start, low - window)])
            least = float(values[low] if values[low] > 0 else values[high - 1])
            if not relative:
                total += span * span * (high - low)
            elif least > 0:
                total += span / least * (high - low)
            low = high
        out[block] = total
    return total


@nb.njit(nogil=True, cache=True)
def re_pair(  # type: ignore[no-untyped-def]
    values, source, starts, windows, now, wanted, slack, relative, lever, size, rng, most_moves, most_tries
):
    """Re-pair two pairs at a time, inside the window, until Σ(a′−a)² (or Σ|a′−a|/a) is as wanted.

    A move takes pairs (a, b), (c, d) to (a, c), (b, d) or (a, d), (b, c), where all stay within the
    window. Half of the tries go where the leverage is; a move must bring the sum nearer by a tenth
    of what is missing (by anything at all, after a thousand vain tries), so that few are needed.
    Returns the sum reached and the number of moves.
    """
    moves = 0
    vain = 0
    n = source.size
    for _ in range(most_tries):
        if abs(now - wanted) <= slack or moves >= most_moves:
            break
        vain += 1
        a = int(rng.random() * n)
        if rng.random() < 0.5:
            block = np.searchsorted(lever, rng.random() * lever[-1])
            a = min(block * size + int(rng.random() * size), n - 1)
        stratum = np.searchsorted(starts, a, side="right") - 1
        stop, window = starts[stratum + 1], windows[stratum]
        reach = min(window, stop - 1 - a)
        if reach < 1:
            continue
        c = a + 1 + int(rng.random() * reach)
        b, d = np.int64(source[a]), np.int64(source[c])
        if b == a or c == b or d == c:
            continue
        old = _cost(values, a, b, relative) + _cost(values, c, d, relative)
        best = abs(now - wanted) * (0.9 if vain < 1000 else 1.0)
        step = 0.0
        choice = 0
        if abs(b - d) <= window:
            gain = _cost(values, a, c, relative) + _cost(values, b, d, relative) - old
            if abs(now + gain - wanted) < best:
                best, step, choice = abs(now + gain - wanted), gain, 1
        if abs(a - d) <= window and abs(b - c) <= window:
            gain = _cost(values, a, d, relative) + _cost(values, b, c, relative) - old
            if abs(now + gain - wanted) < best:
                best, step, choice = abs(now + gain - wanted), gain, 2
        if choice == 1:
            source[a], source[c], source[b], source[d] = c, a, d, b
        elif choice == 2:
            source[a], source[d], source[b], source[c] = d, a, c, b
        if choice:
            now += step
            moves += 1
            vain = 0
    return now, moves


@nb.njit(nogil=True, cache=True)
def sampled_ranks(places, rows, bits, out):  # type: ignore[no-untyped-def]
    """The rank of every 2**bits-th record of the file, −1 where its value may not move.

    ``rows`` are the records of the places; empty where all records may move.
    """
    for j in range(out.size):
        out[j] = -1
    last = (1 << bits) - 1
    for j in range(places.size):
        record = rows[places[j]] if rows.size else np.int64(places[j])
        if record & last == 0:
            out[record >> bits] = j
