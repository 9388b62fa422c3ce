"""Annealed cube moves: a table changes, every margin of all keys but one stays.

A move picks two levels of each key and adds +m and −m to the corners of that cube, by parity; so every
line of the table keeps its total. Cells below the tolerance cost a penalty, which the cooling makes
ever harder to accept; the best table without such a cell is kept.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@nb.njit(nogil=True, cache=True, inline="always")
def _cost(x: int, n: int, tolerance: int, weight: float, penalty: float) -> float:
    out = weight * abs(x - n)
    if 0 < x < tolerance:
        out += penalty * min(x, tolerance - x)
    return out


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
    dims = len(shape)
    corners = 1 << dims
    strides = np.ones(dims, np.int64)
    for axis in range(dims - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    x = counts.copy()
    best = counts.copy()
    found = False
    best_cost = np.inf
    unsafe = 0
    total = 0.0
    for cell in range(len(x)):
        if 0 < x[cell] < tolerance:
            unsafe += 1
    if unsafe == 0:
        return best, True
    place = np.empty(corners, np.int64)
    move = np.empty(corners, np.int64)
    one = np.empty(dims, np.int64)
    two = np.empty(dims, np.int64)
    for step in range(steps):
        start = rng.integers(0, len(x))
        if stays[start]:
            continue
        # Most moves start at a cell that must change.
        if not 0 < x[start] < tolerance and rng.random() < 0.75:
            continue
        rest = start
        fits = True
        for axis in range(dims):
            one[axis] = rest // strides[axis]
            rest -= one[axis] * strides[axis]
            two[axis] = rng.integers(0, shape[axis])
            if two[axis] == one[axis]:
                fits = False
                break
        if not fits:
            continue
        size = 1
        if rng.random() < 0.25:
            size = rng.integers(1, tolerance + 1)
        if rng.random() < 0.5:
            size = -size
        change = 0.0
        for corner in range(corners):
            cell = 0
            odd = 0
            for axis in range(dims):
                if corner >> axis & 1:
                    cell += two[axis] * strides[axis]
                    odd ^= 1
                else:
                    cell += one[axis] * strides[axis]
            place[corner] = cell
            move[corner] = -size if odd else size
            new = x[cell] + move[corner]
            if new < 0 or stays[cell]:
                fits = False
                break
            change += _cost(new, counts[cell], tolerance, weights[cell], penalty)
            change -= _cost(x[cell], counts[cell], tolerance, weights[cell], penalty)
        if not fits:
            continue
        heat = hot * (cold / hot) ** (step / steps)
        if change > 0.0 and rng.random() >= np.exp(-change / heat):
            continue
        for corner in range(corners):
            cell = place[corner]
            if 0 < x[cell] < tolerance:
                unsafe -= 1
            total -= weights[cell] * abs(x[cell] - counts[cell])
            x[cell] += move[corner]
            total += weights[cell] * abs(x[cell] - counts[cell])
            if 0 < x[cell] < tolerance:
                unsafe += 1
        if unsafe == 0 and total < best_cost - 1e-9:
            best_cost = total
            best[:] = x
            found = True
    return best, found
