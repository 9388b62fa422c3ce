"""Clusters of alike records, at least k to a cluster, that depend on the values alone.

The file is cut in two across its longest axis, again and again, until a part is small; a small part is
gathered by MDAV. It costs O(n p log n), and permuting the records permutes the labels with them: no tie
is broken by a record's place, because records that look alike are never parted (see
:mod:`sfumato.kernels.clusters`).

Reference: Domingo-Ferrer, J., Torra, V. (2005). Ordinal, continuous and heterogeneous k-anonymity through
microaggregation. DMKD 11, 195-212 (MDAV).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sfumato.parallel import in_threads

IntArray = npt.NDArray[np.int64]
PointArray = npt.NDArray[np.float32]

LEAF: Final = 1024
"""Atoms of a part that MDAV gathers; more of them cost more and bring little."""
SAMPLE: Final = 2048
"""Atoms that an axis is found from."""
REGION: Final = 1 << 14
"""Records of a part that is dealt out and repaired for itself: its features fit a core's cache."""


@dataclass(frozen=True)
class Atoms:
    """Records that look alike, in an order that their values decide."""

    of: IntArray
    """Each record's atom."""
    first: IntArray
    """A record of each atom."""
    weight: IntArray
    """How many records each has."""
    cap: IntArray
    """How many records its largest unit has."""


def digests(codes: Sequence[npt.NDArray[np.int32]], n: int) -> npt.NDArray[np.uint64]:
    """A number for every record that its codes decide, alike for alike records."""
    from sfumato.kernels.clusters import add_digest

    out = np.zeros(n, np.uint64)
    for j, column in enumerate(codes):
        add_digest(column, j, out)
    return out


def in_order(digest: npt.NDArray[np.uint64], group: IntArray) -> IntArray:
    """The records group by group, in the order of their digests."""
    from sfumato.kernels.clusters import by_group
    from sfumato.kernels.sort import sorted_with_places

    _, places, _ = sorted_with_places(digest.view(np.int64))
    order = places.astype(np.int64)
    if not len(group) or not group.any():
        return order
    held = np.bincount(group)
    return np.asarray(by_group(group, order, np.cumsum(held) - held))


def atoms(codes: Sequence[npt.NDArray[np.int32]], stratum: IntArray, unit: IntArray | None = None) -> Atoms:
    """The atoms of records with these codes, stratum by stratum; with ``unit``, of whole units.

    >>> found = atoms([np.array([5, 2, 5], np.int32)], np.zeros(3, np.int64))
    >>> bool(found.of[0] == found.of[2]), sorted(found.weight.tolist())
    (True, [1, 2])
    """
    from sfumato.kernels.clusters import sum_digests

    n = len(stratum)
    digest = digests(codes, n)
    if unit is None:
        group, place, size = np.arange(n), np.arange(n), np.ones(n, np.int64)
    else:
        size = np.bincount(unit)
        digest = sum_digests(digest, unit, len(size))
        place = np.empty(len(size), np.int64)
        place[unit[::-1]] = np.arange(n)[::-1]
        group = unit
    where = stratum[place]
    order = in_order(digest, where)
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (digest[order][1:] != digest[order][:-1]) | (where[order][1:] != where[order][:-1])
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(fresh) - 1
    count = int(fresh.sum())
    cap = np.zeros(count, np.int64)
    np.maximum.at(cap, number, size) if unit is not None else cap.fill(1)
    weight = np.bincount(number, weights=size, minlength=count).astype(np.int64)
    return Atoms(number[group], place[order[fresh]], weight, cap)


@dataclass(frozen=True)
class Clusters:
    """A partition of atoms: the cluster and the part of the file (for repairs) of each."""

    label: IntArray
    part: IntArray
    n_clusters: int
    n_parts: int


def gather(points: PointArray, found: Atoms, stratum: IntArray, k: int) -> Clusters:
    """Clusters of k records or more, within strata; no unit has more than 1/k of its cluster's records.

    ``stratum`` gives each atom's stratum. Numbers follow the tree of cuts, so they depend on the values
    alone, too.
    """
    from sfumato.kernels.clusters import gather_alike

    n = len(found.weight)
    large: list[IntArray] = []
    for rows in np.split(np.arange(n), np.flatnonzero(np.diff(stratum)) + 1):
        large += _cut(points, rows, found.weight, found.cap, k, most_records=REGION)

    def within(rows: IntArray) -> tuple[IntArray, int]:
        # A part's own points stand together in memory from here on.
        own, weight, cap = points[rows], found.weight[rows], found.cap[rows]
        label = np.empty(len(rows), np.int64)
        used = 0
        for leaf in _cut(own, np.arange(len(rows)), weight, cap, k, most_atoms=max(LEAF, 4 * k)):
            count = gather_alike(own, leaf, weight, cap, k, label)
            label[leaf] += used
            used += count
        return label, used

    label, part = np.empty(n, np.int64), np.empty(n, np.int64)
    used = 0
    for number, (rows, (own, count)) in enumerate(zip(large, in_threads(within, large), strict=True)):
        label[rows] = own + used
        part[rows] = number
        used += count
    return Clusters(label, part, used, len(large))


def _cut(
    points: PointArray,
    rows: IntArray,
    weight: IntArray,
    cap: IntArray,
    k: int,
    *,
    most_records: int | None = None,
    most_atoms: int | None = None,
) -> list[IntArray]:
    """The parts that are small enough, or that no cut leaves whole, from left to right."""
    from sfumato.kernels.clusters import best_cut, longest_axis, project

    out: list[IntArray] = []
    todo = [rows]
    while todo:
        rows = todo.pop()
        small = len(rows) < 2 or (
            len(rows) <= most_atoms
            if most_atoms is not None
            else most_records is not None and int(weight[rows].sum()) <= most_records
        )
        if small:
            out.append(rows)
            continue
        t = project(points, rows, longest_axis(points, rows, weight, SAMPLE))
        if len(rows) >= 4 * k and (weight[rows] == 1).all():
            left = _lower_half(t)
        else:
            order = np.argsort(t, kind="stable")
            cut = best_cut(order, rows, weight, cap, k)
            if not cut:
                out.append(rows)
                continue
            left = np.zeros(len(rows), np.bool_)
            left[order[:cut]] = True
        todo += [rows[~left], rows[left]]
    return out


def _lower_half(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """The smaller half; of equal values the first ones.

    >>> _lower_half(np.array([3.0, 1.0, 1.0, 1.0])).tolist()
    [False, True, True, False]
    """
    half = len(values) // 2
    at = np.partition(values, half)[half]
    left = values < at
    same = np.flatnonzero(values == at)
    left[same[: half - int(left.sum())]] = True
    return np.asarray(left)
