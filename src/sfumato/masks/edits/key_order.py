"""The classes of a file's keys, and the order in which the keys are best sorted (Moore 1996, section X)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from sfumato.data.codes import joint
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.masks.edits import classes as _classes


@dataclass(frozen=True)
class KeyClasses:
    """The key combinations of a file: which records are in each, and the keys' values as digits.

    Classes are counted within strata. ``digits`` is classes × keys; a key that is missing is −1.
    """

    keys: tuple[str, ...]
    ids: IntArray
    counts: IntArray
    starts: IntArray
    members: IntArray
    digits: IntArray
    stratum: IntArray

    def __len__(self) -> int:
        return len(self.counts)

    def sequence(self, order: Sequence[str]) -> IntArray:
        """The classes sorted by stratum, then by the keys in this order."""
        if tuple(order) == self.keys:
            return np.arange(len(self), dtype=np.int64)
        rank, _ = self.grouped(order)
        out = np.empty(len(self), np.int64)
        out[rank] = np.arange(len(self))
        return out

    def grouped(self, keys: Sequence[str]) -> tuple[IntArray, int]:
        """Dense numbers of the coarser classes that some of the keys make, one a class."""
        parts = [(self.stratum, int(self.stratum.max(initial=0)) + 1)]
        for key in keys:
            column = self.digits[:, self.keys.index(key)] + 1
            parts.append((column, int(column.max(initial=0)) + 1))
        return joint(parts, len(self))


def key_classes(data: Microdata, keys: Sequence[str], within: Sequence[str]) -> KeyClasses:
    """The classes of ``keys`` within the strata of ``within``, numbered in the keys' given order."""
    from sfumato.kernels import edits

    n = len(data)
    strata = _classes.classes(data, within)
    parts = [_classes.digits(data, k) for k in keys]
    ids, k = joint([strata, *parts], n)
    starts, members = edits.by_class(ids, k)
    first = members[starts[:-1]]
    digits = np.empty((k, len(keys)), np.int64)
    for j, key in enumerate(keys):
        digits[:, j] = parts[j][0][first]
        gone = data.missing(key)
        if gone.any():
            # A missing key makes a class like any other, but it is never moved.
            digits[gone[first], j] = -1
    return KeyClasses(tuple(keys), ids, np.diff(starts), starts, members, digits, strata[0][first])


def max_within_sd(classes: KeyClasses, keys: Sequence[str], moments: tuple[FloatArray, ...]) -> float:
    """The largest standard deviation (n − 1) within the classes of some keys."""
    group, k = classes.grouped(keys)
    n, total, squares = (np.bincount(group, weights=m, minlength=k) for m in moments)
    many = n > 1
    if not many.any():
        return 0.0
    variance = (squares[many] - total[many] ** 2 / n[many]) / (n[many] - 1)
    return math.sqrt(max(0.0, float(variance.max())))


def near_optimal(classes: KeyClasses, values: FloatArray) -> tuple[tuple[str, ...], list[dict[str, float]]]:
    """Moore's order: the key whose classes have the smallest largest standard deviation goes last.

    Then the next to last is the key that, with it, has the smallest, and so on. Returns the order,
    first key first, and the standard deviations of each step.
    """
    there = np.isfinite(values)
    ids, k = classes.ids[there], len(classes)
    x = values[there] - (values[there].mean() if there.any() else 0.0)
    moments = (
        np.bincount(ids, minlength=k).astype(np.float64),
        np.bincount(ids, weights=x, minlength=k).astype(np.float64),
        np.bincount(ids, weights=x * x, minlength=k).astype(np.float64),
    )
    left, chosen = list(classes.keys), list[str]()
    steps: list[dict[str, float]] = []
    while len(left) > 1:
        found = {key: max_within_sd(classes, [*chosen, key], moments) for key in left}
        steps.append(found)
        best = min(left, key=lambda key: found[key])
        chosen.append(best)
        left.remove(best)
    return tuple(reversed([*chosen, *left])), steps


def search(
    start: tuple[str, ...], cost: Callable[[tuple[str, ...]], float], most: int
) -> tuple[tuple[str, ...], float, int]:
    """The order of the least cost: all orders where there are at most ``most``, else a local search.

    The local search starts from ``start`` and takes the best exchange of two keys or move of one
    until nothing improves or ``most`` orders were tried. It can't end worse than it began.
    """
    known: dict[tuple[str, ...], float] = {}

    def of(order: tuple[str, ...]) -> float:
        if order not in known:
            known[order] = cost(order)
        return known[order]

    best = start
    of(best)
    if math.factorial(len(start)) <= most:
        for order in permutations(start):
            if of(order) < known[best]:
                best = order
        return best, known[best], len(known)
    better = True
    while better and len(known) < most:
        better = False
        here = best
        for order in _neighbours(here):
            if len(known) >= most and order not in known:
                break
            if of(order) < known[best]:
                best, better = order, True
    return best, known[best], len(known)


def _neighbours(order: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Orders one exchange or one move away."""
    out: dict[tuple[str, ...], None] = {}
    for i, j in combinations(range(len(order)), 2):
        other = list(order)
        other[i], other[j] = other[j], other[i]
        out[tuple(other)] = None
        for a, b in ((i, j), (j, i)):
            moved = list(order)
            moved.insert(b, moved.pop(a))
            out[tuple(moved)] = None
    return list(out)
