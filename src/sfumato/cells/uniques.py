"""Minimal sample uniques: the smallest sets of keys on which a record is alone."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.cells.suppression import KeyLists
from sfumato.data.codes import label, pack
from sfumato.data.microdata import IntArray

if TYPE_CHECKING:
    from sfumato.cells.cells import Cells


def minimal_uniques(table: Cells, max_size: int) -> KeyLists:
    """For each cell, every set of at most ``max_size`` keys on which its record is unique, and on no
    part of which it is.

    The sets are walked in the order of their bit masks, so that every part of a set comes before it.
    A record that is alone on a set is left out of the search below it: no larger set is minimal for
    it, and it is in nobody else's group. Missing values under ``matches_anything`` break groups
    open, and each set is then counted by itself.
    """
    lists = KeyLists(len(table), 2 * len(table))
    if table.missing == "matches_anything" and any(table.has_missing):
        _one_by_one(table, max_size, lists)
    else:
        every = np.arange(len(table))
        for top in range(len(table.keys)):
            _walk(table, max_size, lists, every, np.zeros(len(table), np.int32), 1, top, 0)
    return lists


def _walk(
    table: Cells,
    max_size: int,
    lists: KeyLists,
    rows: IntArray,
    group: npt.NDArray[np.int32],
    groups: int,
    key: int,
    mask: int,
) -> None:
    codes = [group, table.codes[key][rows]]
    finer, first = label(*pack(codes, [groups, int(table.sizes[key])]))
    counts = np.bincount(finer, weights=table.counts[rows], minlength=len(first))
    alone = counts[finer] == 1
    mask |= 1 << key
    _add(table, lists, rows[alone], mask)
    if mask.bit_count() < max_size and key:
        left = ~alone
        rows = rows[left]
        if len(rows):
            for smaller in range(key):
                _walk(table, max_size, lists, rows, finer[left], len(first), smaller, mask)


def _one_by_one(table: Cells, max_size: int, lists: KeyLists) -> None:
    keys = range(len(table.keys))
    sets = [c for d in range(1, max_size + 1) for c in itertools.combinations(keys, d)]
    for chosen in sets:
        alone = table.frequencies([table.keys[j] for j in chosen], enough=2) == 1
        for j in chosen:
            alone &= table.codes[j] != len(table.levels[table.keys[j]])
        _add(table, lists, np.flatnonzero(alone), sum(1 << j for j in chosen))


def _add(table: Cells, lists: KeyLists, cells: IntArray, mask: int) -> None:
    if len(cells):
        place = np.zeros(len(table), np.int32)
        lists.add(cells, place, np.ones(1, np.uint64), np.array([mask], np.int64))
