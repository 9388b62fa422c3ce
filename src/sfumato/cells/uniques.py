"""Minimal sample uniques: the smallest sets of keys on which a record is alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import IntArray
from sfumato.errors import MeasureError
from sfumato.waiting import Meter

if TYPE_CHECKING:
    from sfumato.cells.table import CellTable

MAX_BITS: Final = 16_000_000_000
"""A bit for each cell and set of keys must fit: two gigabytes."""


def minimal_uniques(table: CellTable, max_size: int) -> Iterator[tuple[int, IntArray]]:
    """Every set of at most ``max_size`` keys (a bit each), and the cells whose record is unique on it and
    on no part of it.

    Who is alone on a set is alone on every larger one, so a set is minimal for a record if the record
    is alone on none of the sets with one key less: a bit for each record and set tells. The sets are
    walked in the order of their bit masks, in which every part of a set comes before it; records
    known to be alone are left out of the search below, being in nobody's group. Missing values under
    ``matches_anything`` break groups open, and each set is then counted by itself.
    """
    keys = len(table.keys)
    largest = min(max_size, keys)
    sets = sum(math.comb(keys, d) for d in range(1, largest + 1))
    if sets * len(table) > MAX_BITS:
        raise MeasureError(
            f"{sets:,} sets of keys times {len(table):,} combinations are too many to search",
            hint="set `max_size` (3 or 4 finds the special uniques), or take fewer keys",
        )
    seen = _Seen(len(table), sets, Meter("looking for special uniques", sets))
    if table.missing == "matches_anything" and any(table.has_missing):
        yield from _one_by_one(table, largest, seen)
        return
    every = np.arange(len(table), dtype=np.int32)
    for top in range(keys):
        yield from _walk(table, largest, seen, every, np.zeros(len(table), np.int32), 1, top, 0)


class _Seen:
    """Who is alone on which set: a row of bits for each set that has been looked at."""

    def __init__(self, cells: int, sets: int, meter: Meter) -> None:
        self._meter = meter
        self.bits = np.zeros((sets + 1, (cells + 7) // 8), np.uint8)
        self.place: dict[int, int] = {}

    def open(self, mask: int) -> tuple[IntArray, int]:
        """The rows of the sets with one key less, and a row for this one."""
        below = [mask & ~(1 << j) for j in range(mask.bit_length()) if mask >> j & 1]
        known = [self.place[b] for b in below if b]
        self.place[mask] = len(self.place)
        self._meter.advance()
        return np.array(known, np.int64), self.place[mask]


def _walk(
    table: CellTable,
    max_size: int,
    seen: _Seen,
    rows: npt.NDArray[np.int32],
    group: npt.NDArray[np.int32],
    groups: int,
    key: int,
    mask: int,
) -> Iterator[tuple[int, IntArray]]:
    from sfumato.kernels.suda import refine

    mask |= 1 << key
    below, own = seen.open(mask)
    known = seen.bits[own]
    if len(below):
        np.bitwise_or.reduce(seen.bits[below], axis=0, out=known)
    width = int(table.sizes[key])
    alone, rows, group, groups = refine(rows, group, groups, table.codes[key], width, table.counts, known)
    if len(alone):
        yield mask, alone.astype(np.int64)
    if mask.bit_count() < max_size:
        for smaller in range(key):
            yield from _walk(table, max_size, seen, rows, group, groups, smaller, mask)


def _one_by_one(table: CellTable, max_size: int, seen: _Seen) -> Iterator[tuple[int, IntArray]]:
    from sfumato.kernels.suda import keep_new

    keys = range(len(table.keys))
    for chosen in (c for d in range(1, max_size + 1) for c in itertools.combinations(keys, d)):
        alone = table.frequencies([table.keys[j] for j in chosen], enough=2) == 1
        for j in chosen:
            alone &= table.codes[j] != len(table.levels[table.keys[j]])
        mask = sum(1 << j for j in chosen)
        below, own = seen.open(mask)
        found = keep_new(np.flatnonzero(alone), seen.bits, below, own)
        if len(found):
            yield mask, found
