"""Re-pairing within two bounds, until the ranks and the values have moved as much as they should.

The arrays are those of ``rank_bounds``: sorted values by stratum, ``source[j]`` the rank whose value rank j
receives. Two pairs exchange partners where both new pairs keep to both bounds.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from sfumato.kernels.rank_bounds import _near, _top


@nb.njit(nogil=True, cache=True)
def middle_ranks(values, starts, out):  # type: ignore[no-untyped-def]
    """The rank of each value, ties sharing the middle of theirs."""
    for s in range(starts.size - 1):
        low = starts[s]
        while low < starts[s + 1]:
            high = low + 1
            while high < starts[s + 1] and values[high] == values[low]:
                high += 1
            for j in range(low, high):
                out[j] = 0.5 * (low + high - 1)
            low = high


@nb.njit(nogil=True, cache=True)
def calm_ranks(values, middle, starts, windows, distance, source, now, wanted, rng):  # type: ignore[no-untyped-def]
    """Re-pair until Σ(change of middle rank)² is at most as wanted; returns the sum and the moves.

    Two neighbours among the pairs whose ranks change most, (a, b) and (c, d), become (a, c), (b, d) or
    (a, d), (b, c), where that keeps to both bounds and lowers the sum. In random order, so that no part
    of the column is spared.
    """
    n = source.size
    moves = 0
    for _ in range(8):
        if now <= wanted:
            break
        least = 0.5 * now / n
        count = 0
        for j in range(n):
            step = middle[source[j]] - middle[j]
            if source[j] > j and source[source[j]] == j and step * step >= least:
                count += 1
        if count < 2:
            break
        lows = np.empty(count, np.int64)
        count = 0
        for j in range(n):
            step = middle[source[j]] - middle[j]
            if source[j] > j and source[source[j]] == j and step * step >= least:
                lows[count] = j
                count += 1
        order = np.arange(count - 1)
        for i in range(count - 2, 0, -1):
            k = int(rng.random() * (i + 1))
            order[i], order[k] = order[k], order[i]
        used = np.zeros(count, np.bool_)
        before = now
        for turn in range(count - 1):
            i = order[turn]
            if now <= wanted:
                break
            if used[i] or used[i + 1]:
                continue
            a, c = lows[i], lows[i + 1]
            b, d = np.int64(source[a]), np.int64(source[c])
            stratum = np.searchsorted(starts, a, side="right") - 1
            if c >= starts[stratum + 1]:
                continue
            window = windows[stratum]
            old = (middle[a] - middle[b]) ** 2 + (middle[c] - middle[d]) ** 2
            best = old
            choice = 0
            if _near(values, a, c, window, distance) and _near(values, b, d, window, distance):
                new = (middle[a] - middle[c]) ** 2 + (middle[b] - middle[d]) ** 2
                if new < best:
                    best, choice = new, 1
            if _near(values, a, d, window, distance) and _near(values, b, c, window, distance):
                new = (middle[a] - middle[d]) ** 2 + (middle[b] - middle[c]) ** 2
                if new < best:
                    best, choice = new, 2
            if choice == 0:
                continue
            if choice == 1:
                source[a], source[c], source[b], source[d] = c, a, d, b
            else:
                source[a], source[d], source[b], source[c] = d, a, c, b
            used[i] = used[i + 1] = True
            now += 2.0 * (best - old)
            moves += 1
        if now >= before:
            break
    return now, moves


@nb.njit(nogil=True, cache=True)
def re_pair_bounded(  # type: ignore[no-untyped-def]
    values,
    middle,
    source,
    starts,
    windows,
    distance,
    now,
    wanted,
    slack,
    ranks_now,
    ranks_most,
    lever,
    size,
    rng,
    most_moves,
    most_tries,
):
    """``re_pair`` within both bounds, for Σ(a′−a)², while Σ(change of middle rank)² stays allowed.

    After a hundred vain tries a move of any size will do: no move within the bounds is large. Returns
    the two sums and the number of moves.
    """
    moves = 0
    vain = 0
    n = source.size
    for _ in range(most_tries):
        if abs(now - wanted) <= slack or moves >= most_moves:
            break
        vain += 1
        a = np.int64(rng.random() * n)
        if rng.random() < 0.5:
            block = np.searchsorted(lever, rng.random() * lever[-1])
            a = min(block * size + np.int64(rng.random() * size), n - 1)
        stratum = np.searchsorted(starts, a, side="right") - 1
        stop, window = starts[stratum + 1], windows[stratum]
        top = _top(values, a, stop, window, distance)
        if top <= a:
            continue
        c = a + 1 + np.int64(rng.random() * (top - a))
        b, d = np.int64(source[a]), np.int64(source[c])
        if b == a or c == b or d == c or source[b] != a or source[d] != c:
            continue
        ab, cd = float(values[a]) - float(values[b]), float(values[c]) - float(values[d])
        old = ab * ab + cd * cd
        ranks_old = (middle[a] - middle[b]) ** 2 + (middle[c] - middle[d]) ** 2
        best = abs(now - wanted) * (0.9 if vain < 100 else 1.0)
        step = ranks_step = 0.0
        choice = 0
        for way in (1, 2):
            p, q = (c, d) if way == 1 else (d, c)  # (a, p) and (b, q)
            if not (_near(values, a, p, window, distance) and _near(values, b, q, window, distance)):
                continue
            ap, bq = float(values[a]) - float(values[p]), float(values[b]) - float(values[q])
            gain = 2.0 * (ap * ap + bq * bq - old)
            ranks = 2.0 * ((middle[a] - middle[p]) ** 2 + (middle[b] - middle[q]) ** 2 - ranks_old)
            if ranks > 0.0 and ranks_now + ranks > ranks_most:
                continue
            if abs(now + gain - wanted) < best:
                best, step, ranks_step, choice = abs(now + gain - wanted), gain, ranks, way
        if choice == 1:
            source[a], source[c], source[b], source[d] = c, a, d, b
        elif choice == 2:
            source[a], source[d], source[b], source[c] = d, a, c, b
        if choice:
            now += step
            ranks_now += ranks_step
            moves += 1
            vain = 0
    return now, ranks_now, moves


@nb.njit(nogil=True, cache=True)
def leverage_bounded(values, starts, windows, distance, size, out):  # type: ignore[no-untyped-def]
    """Running totals, over blocks of ``size`` ranks, of how much re-pairing could move Σ(a′−a)² there:
    a block's length times the square of the span that its ranks may reach over."""
    total = 0.0
    n = values.size
    s = 0
    for block in range(out.size):
        low, end = block * size, min(n, (block + 1) * size)
        while low < end:
            while starts[s + 1] <= low:
                s += 1
            stop, window = starts[s + 1], windows[s]
            high = min(end, stop)
            span = float(values[min(stop - 1, high - 1 + window)]) - float(values[low])
            span = min(span, float(values[high - 1]) - float(values[low]) + distance)
            total += span * span * (high - low)
            low = high
        out[block] = total
    return total
