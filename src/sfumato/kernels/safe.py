"""Annealed cube moves: a table changes, every margin of all keys but one stays.

A move picks two levels of each key and adds +m and −m to the corners of that cube, by parity; so every
line of the table keeps its total. It starts at a cell that must change (or at one that did change) and
brings it to where it may stay; on each of the cell's lines the other corner is the best of a few that are
looked at, since a corner taken at random nearly always costs more than the move gains. Cells below the
tolerance cost a penalty, which the cooling makes ever harder to accept; the best table without such a
cell is kept.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

LOOKED_AT = 16
"""Corners looked at on each line: measured on 20 × 20 × 20, 16 beat 8, and 8 beat 3, at equal steps."""


@nb.njit(nogil=True, cache=True, inline="always")
def _cost(x: int, n: int, tolerance: int, weight: float, penalty: float) -> float:
    out = weight * abs(x - n)
    if 0 < x < tolerance:
        out += penalty * min(x, tolerance - x)
    return out


@nb.njit(nogil=True, cache=True)
def _size(x: int, n: int, tolerance: int, rng: Any) -> int:
    """By how much a cell of x (originally n) shall change: out of the unsafe range, or back."""
    if 0 < x < tolerance:
        return -x if rng.random() * tolerance < tolerance - x else tolerance - x
    back = n - x
    if back == 0 or rng.random() < 0.3:
        size = 1 if rng.random() < 0.5 else rng.integers(1, tolerance + 1)
        return size if rng.random() < 0.5 else -size
    if rng.random() < 0.5:
        return 1 if back > 0 else -1
    return back


@nb.njit(nogil=True, cache=True)
def anneal(
    counts: Ints,
    stays: npt.NDArray[np.bool_],
    shape: Ints,
    tolerance: int,
    weights: npt.NDArray[np.float64],
    steps: int,
    hot: float,
    cold: float,
    penalty: float,
    rng: Any,
) -> tuple[Ints, bool]:
    """The best valid table found from ``counts`` (flat, C order), and whether there is one.

    ``stays`` marks cells that must stay empty; ``hot`` and ``cold`` are the first and last
    temperature, in units of the distance.
    """
    n = len(counts)
    dims = len(shape)
    corners = 1 << dims
    strides = np.ones(dims, np.int64)
    for axis in range(dims - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    sign = np.empty(corners, np.int64)
    for corner in range(corners):
        sign[corner] = 1
        for axis in range(dims):
            if corner >> axis & 1:
                sign[corner] = -sign[corner]
    x = counts.copy()
    best = counts.copy()
    found = False
    best_cost = np.inf
    total = 0.0
    # The unsafe cells as a list, and where each stands in it.
    unsafe = np.empty(n, np.int64)
    where = np.full(n, -1, np.int64)
    left = 0
    for cell in range(n):
        if 0 < x[cell] < tolerance:
            unsafe[left], where[cell] = cell, left
            left += 1
    if left == 0:
        return best, True
    place = np.empty(corners, np.int64)
    shift = np.empty(dims, np.int64)
    heat = hot
    cooling = (cold / hot) ** (1024.0 / max(steps, 1))
    for step in range(steps):
        if step and step % 1024 == 0:
            heat *= cooling
        if left and rng.random() < 0.7:
            start = unsafe[rng.integers(0, left)]
        else:
            start = rng.integers(0, n)
            if stays[start] or (x[start] == counts[start] and rng.random() < 0.7):
                continue
        size = _size(x[start], counts[start], tolerance, rng)
        if x[start] + size < 0:
            continue
        change = _cost(x[start] + size, counts[start], tolerance, weights[start], penalty)
        change -= _cost(x[start], counts[start], tolerance, weights[start], penalty)
        fits = True
        rest = start
        looks = 1 if rng.random() < 0.2 else LOOKED_AT  # the best alone would never leave a small table's rut
        for axis in range(dims):
            own = rest // strides[axis]
            rest -= own * strides[axis]
            cheapest = np.inf
            for _ in range(looks):
                other = rng.integers(0, shape[axis])
                cell = start + (other - own) * strides[axis]
                if other == own or stays[cell] or x[cell] < size:
                    continue
                cost = _cost(x[cell] - size, counts[cell], tolerance, weights[cell], penalty)
                cost -= _cost(x[cell], counts[cell], tolerance, weights[cell], penalty)
                if cost < cheapest:
                    cheapest = cost
                    shift[axis] = cell - start
            if cheapest == np.inf:
                fits = False
                break
            change += cheapest
        if not fits:
            continue
        for corner in range(corners):
            cell = start
            turned = 0
            for axis in range(dims):
                if corner >> axis & 1:
                    cell += shift[axis]
                    turned += 1
            place[corner] = cell
            if turned < 2:
                continue  # already counted
            new = x[cell] + sign[corner] * size
            if new < 0 or stays[cell]:
                fits = False
                break
            change += _cost(new, counts[cell], tolerance, weights[cell], penalty)
            change -= _cost(x[cell], counts[cell], tolerance, weights[cell], penalty)
        if not fits or (change > 0.0 and rng.random() >= np.exp(-change / heat)):
            continue
        for corner in range(corners):
            cell = place[corner]
            old = x[cell]
            new = old + sign[corner] * size
            total += weights[cell] * (abs(new - counts[cell]) - abs(old - counts[cell]))
            x[cell] = new
            if 0 < old < tolerance and not 0 < new < tolerance:
                left -= 1
                last = unsafe[left]
                unsafe[where[cell]], where[last] = last, where[cell]
                where[cell] = -1
            elif 0 < new < tolerance and not 0 < old < tolerance:
                unsafe[left], where[cell] = cell, left
                left += 1
        if left == 0 and total < best_cost - 1e-9:
            best_cost = total
            best[:] = x
            found = True
    return best, found
