"""The law of the rank swap: what a window does to a column, before anything is swapped.

Who is paired with whom depends on ranks alone, so the expected change of a column follows from its
sorted values. Let U(t, j) be the chance that rank t is still unswapped when j's turn comes. An
unswapped j takes t with chance w(t−j)/Σ w U, w being 1 inside the window (uniform) or exp(−d/scale)
(geometric). In the limit of wide windows chances multiply, so that

    h_j = U(j, j) / Σ_t w(t−j) U(t, j),    P(j takes t) = h_j w(t−j) U(t, j),
    U(t, j+1) = U(t, j) (1 − h_j w(t−j)).

In the interior U(j, j) = 1/2 and the mean pool is 1/(2 ln 2) of the window, for every w; displacements
u = d/window have density ln 2 · 2^u (uniform).

Kernels work on bins of neighbouring ranks: the mean m1 of the values (less a centre), of their
squares m2, of 1/a over positive values (mi) and the share of positive values (mp).
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

_SURE = 1.0 - 1e-9
# Narrow windows: true / predicted is 1 + c/W to half a percent for W ≥ 2 (simulation of evenly spaced
# values, W = 2 … 50) and 1 for W = 1, where ranks are paired without chance.
_SQUARES = 0.173
_CHANGES = 0.105


@nb.njit(nogil=True, cache=True, inline="always")
def _finite(window, c):  # type: ignore[no-untyped-def]
    return 1.0 + c / window if window > 1 else 1.0


@nb.njit(nogil=True, cache=True)
def moments(values, centre):  # type: ignore[no-untyped-def]
    """Mean and variance (over n) in one pass.

    ``centre`` should be no further from the mean than some standard deviations, lest the difference of
    squares lose digits: the median never is (it lies within one).
    """
    n = values.size
    # Four sums side by side, because one addition waits for the one before.
    a1 = b1 = c1 = d1 = a2 = b2 = c2 = d2 = 0.0
    for j in range(0, n - 3, 4):
        a, b = values[j] - centre, values[j + 1] - centre
        c, d = values[j + 2] - centre, values[j + 3] - centre
        a1 += a
        b1 += b
        c1 += c
        d1 += d
        a2 += a * a
        b2 += b * b
        c2 += c * c
        d2 += d * d
    for j in range(n - n % 4, n):
        a = values[j] - centre
        a1 += a
        a2 += a * a
    first = ((a1 + b1) + (c1 + d1)) / n
    return centre + first, ((a2 + b2) + (c2 + d2)) / n - first * first


@nb.njit(nogil=True, cache=True)
def bin_ranks(values, starts, bin_starts, sizes, centre, m1, m2, mi, mp):  # type: ignore[no-untyped-def]
    """Average the sorted values of each stratum into bins of ``sizes`` ranks.

    Bins are counted from both ends and the odd one lies in the middle, because a short or long bin
    at an end would weigh the largest values wrongly. Empty ``mi`` and ``mp`` are left out.
    """
    for s in range(starts.size - 1):
        n, bins = starts[s + 1] - starts[s], bin_starts[s + 1] - bin_starts[s]
        for b in range(bins):
            low = b * sizes[s] if b <= bins // 2 else n - (bins - b) * sizes[s]
            high = (b + 1) * sizes[s] if b + 1 <= bins // 2 else n - (bins - b - 1) * sizes[s]
            low += starts[s]
            high += starts[s]
            x1 = x2 = y1 = y2 = 0.0
            for j in range(low, high - 1, 2):
                x = values[j] - centre
                y = values[j + 1] - centre
                x1 += x
                y1 += y
                x2 += x * x
                y2 += y * y
            if (high - low) % 2:
                x = values[high - 1] - centre
                x1 += x
                x2 += x * x
            share = 1.0 / (high - low)
            at = bin_starts[s] + b
            m1[at], m2[at] = (x1 + y1) * share, (x2 + y2) * share
            if mi.size:
                xi = xp = 0.0
                for j in range(low, high):
                    if values[j] > 0:
                        xi += 1.0 / values[j]
                        xp += 1.0
                mi[at], mp[at] = xi * share, xp * share


@nb.njit(nogil=True, cache=True)
def squares_binned(m1, m2, window):  # type: ignore[no-untyped-def]
    """``squares_uniform`` on bins, from their means and mean squares: Σ(a′−a)² a rank of a bin.

    Without the allowance for narrow windows, which bins don't have.
    """
    n = m1.size
    window = min(window, n - 1)
    if window < 1:
        return 0.0
    u0 = s1 = s2 = 0.0
    for t in range(1, window + 1):
        u0 += 1.0
        s1 += m1[t]
        s2 += m2[t]
    past = np.ones(window)
    slot = 0
    p = 1.0
    q = 0.0
    for j in range(n - 1):
        keep = 1.0
        if u0 > 1e-12:
            h = min(p / u0, _SURE)
            q += max(0.0, h * (s2 - 2.0 * m1[j] * s1 + m2[j] * u0))
            keep = 1.0 - h
        p *= keep * past[slot]
        past[slot] = 1.0 / keep
        slot = slot + 1 if slot + 1 < window else 0
        u0 = u0 * keep - p
        s1 = s1 * keep - p * m1[j + 1]
        s2 = s2 * keep - p * m2[j + 1]
        t = j + 1 + window
        if t < n:
            u0 += 1.0
            s1 += m1[t]
            s2 += m2[t]
    return 2.0 * q


@nb.njit(nogil=True, cache=True)
def changes_binned(m1, mi, mp, centre, window):  # type: ignore[no-untyped-def]
    """``changes_uniform`` on bins, from their means, mean reciprocals and shares of positive values:
    Σ|a′−a|/a a rank of a bin."""
    n = m1.size
    window = min(window, n - 1)
    if window < 1:
        return 0.0
    u0 = s1 = si = sp = 0.0
    for t in range(1, window + 1):
        u0 += 1.0
        s1 += m1[t] + centre
        si += mi[t]
        sp += mp[t]
    past = np.ones(window)
    slot = 0
    p = 1.0
    k = 0.0
    for j in range(n - 1):
        keep = 1.0
        if u0 > 1e-12:
            h = min(p / u0, _SURE)
            k += max(0.0, h * (sp - (m1[j] + centre) * si + s1 * mi[j] - mp[j] * u0))
            keep = 1.0 - h
        p *= keep * past[slot]
        past[slot] = 1.0 / keep
        slot = slot + 1 if slot + 1 < window else 0
        u0 = u0 * keep - p
        s1 = s1 * keep - p * (m1[j + 1] + centre)
        si = si * keep - p * mi[j + 1]
        sp = sp * keep - p * mp[j + 1]
        t = j + 1 + window
        if t < n:
            u0 += 1.0
            s1 += m1[t] + centre
            si += mi[t]
            sp += mp[t]
    return k


@nb.njit(nogil=True, cache=True)
def squares_uniform(values, starts, windows, centre):  # type: ignore[no-untyped-def]
    """E Σ(a′−a)² for a uniform window, in one pass whatever its width.

    The sums over the window are carried along: all of its chances shrink by the same 1 − h_j.
    """
    total = 0.0
    for s in range(starts.size - 1):
        at, stop = starts[s], starts[s + 1]
        window = min(windows[s], stop - at - 1)
        if window < 1:
            continue
        u0 = s1 = s2 = 0.0
        for t in range(at + 1, at + window + 1):
            y = values[t] - centre
            u0 += 1.0
            s1 += y
            s2 += y * y
        past = np.ones(window)
        slot = 0
        p = 1.0
        q = 0.0
        x = values[at] - centre
        for j in range(at, stop - 1):
            keep = 1.0
            if u0 > 1e-12:
                h = min(p / u0, _SURE)
                q += max(0.0, h * (s2 - 2.0 * x * s1 + x * x * u0))
                keep = 1.0 - h
            # Keep the reciprocal: its division then runs beside the chain p → h → p, not in it.
            p *= keep * past[slot]
            past[slot] = 1.0 / keep
            slot = slot + 1 if slot + 1 < window else 0
            x = values[j + 1] - centre
            u0 = u0 * keep - p
            s1 = s1 * keep - p * x
            s2 = s2 * keep - p * x * x
            t = j + 1 + window
            if t < stop:
                y = values[t] - centre
                u0 += 1.0
                s1 += y
                s2 += y * y
        total += 2.0 * q * _finite(window, _SQUARES)
    return total


@nb.njit(nogil=True, cache=True)
def changes_uniform(values, starts, windows):  # type: ignore[no-untyped-def]
    """E Σ|a′−a|/a over positive a for a uniform window, in one pass whatever its width.

    For x ≤ y the pair adds (y−x)(1/x + 1/y), each reciprocal only where its value is positive.
    """
    total = 0.0
    for s in range(starts.size - 1):
        at, stop = starts[s], starts[s + 1]
        window = min(windows[s], stop - at - 1)
        if window < 1:
            continue
        u0 = s1 = si = sp = 0.0
        for t in range(at + 1, at + window + 1):
            y = values[t]
            u0 += 1.0
            s1 += y
            if y > 0:
                si += 1.0 / y
                sp += 1.0
        past = np.ones(window)
        slot = 0
        p = 1.0
        k = 0.0
        x = float(values[at])
        for j in range(at, stop - 1):
            keep = 1.0
            if u0 > 1e-12:
                h = min(p / u0, _SURE)
                k += max(0.0, h * (sp - x * si + ((s1 / x - u0) if x > 0 else 0.0)))
                keep = 1.0 - h
            # Keep the reciprocal: its division then runs beside the chain p → h → p, not in it.
            p *= keep * past[slot]
            past[slot] = 1.0 / keep
            slot = slot + 1 if slot + 1 < window else 0
            x = float(values[j + 1])
            u0 = u0 * keep - p
            s1 = s1 * keep - p * x
            si *= keep
            sp *= keep
            if x > 0:
                si -= p / x
                sp -= p
            t = j + 1 + window
            if t < stop:
                y = values[t]
                u0 += 1.0
                s1 += y
                if y > 0:
                    si += 1.0 / y
                    sp += 1.0
        total += k * _finite(window, _CHANGES)
    return total


@nb.njit(nogil=True, cache=True)
def predict_dense(m1, m2, mi, mp, centre, bin_starts, scales, geometric, weights, e1, e2):  # type: ignore[no-untyped-def]
    """As ``predict_uniform`` for either partner law, and the expected value (e1) and square (e2) that
    each bin receives; bins × reach steps."""
    squares = 0.0
    relative = 0.0
    for s in range(bin_starts.size - 1):
        at, n = bin_starts[s], bin_starts[s + 1] - bin_starts[s]
        scale = float(scales[s])
        if scale <= 0.0 or n < 2:
            for j in range(at, at + n):
                e1[j], e2[j] = m1[j], m2[j]
            continue
        longest = min(n - 1, math.ceil(20.0 * scale) if geometric else int(scale))
        w = np.ones(longest + 1)
        if geometric:
            for d in range(1, longest + 1):
                w[d] = math.exp(-d / scale)
        left = np.ones(n)
        q = 0.0
        k = 0.0
        for j in range(n):
            e1[at + j] = 0.0
            e2[at + j] = 0.0
        for j in range(n):
            reach = min(longest, n - 1 - j)
            pool = 0.0
            for d in range(1, reach + 1):
                pool += w[d] * left[j + d]
            p = left[j]
            if pool <= 1e-12:
                e1[at + j] += p * m1[at + j]
                e2[at + j] += p * m2[at + j]
                continue
            h = p / pool
            u = at + j
            f1 = f2 = fi = fp = 0.0
            mass = 0.0
            for d in range(1, reach + 1):
                hw = min(h * w[d], _SURE)
                t = u + d
                g = hw * left[j + d]
                mass += g
                f1 += g * m1[t]
                f2 += g * m2[t]
                fi += g * mi[t]
                fp += g * mp[t]
                e1[t] += g * m1[u]
                e2[t] += g * m2[u]
                left[j + d] *= 1.0 - hw
            e1[u] += f1 + (p - mass) * m1[u]
            e2[u] += f2 + (p - mass) * m2[u]
            q += f2 - 2.0 * m1[u] * f1 + m2[u] * mass
            k += fp - (m1[u] + centre) * fi + (f1 + centre * mass) * mi[u] - mp[u] * mass
        squares += 2.0 * q * weights[s]
        relative += k * weights[s]
    return squares, relative
