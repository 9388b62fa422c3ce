"""Which keys to suppress in which cells, so that no combination is unsafe and little is lost.

Where a missing value matches anything, suppressing the keys T of a record leaves it to agree with all
records that agree on the other keys. So a record is safe in a key set S if enough records agree on
S \\ T, that is, if T hits every minimal unsafe subset of S. Each record's problem stands by itself: a
weighted hitting set, solved exactly. Nothing that is suppressed makes another record less safe.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from sfumato.cells.assess import flagged
from sfumato.data.codes import label, pack
from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.errors import MaskError

if TYPE_CHECKING:
    from sfumato.cells.cells import Cells

WIDE: Final = 4096
"""A key set with more subsets than this is searched by comparing cells, not by its subsets."""
MAX_COMPARISONS: Final = 30_000_000_000


@dataclass(frozen=True)
class Suppression:
    """A bit for each key to be suppressed, for each cell, and whether that is known to be least."""

    keys: IntArray
    proven: bool
    of_records: bool = False
    """Whether ``keys`` are of records, not of cells: two records of a cell may be treated apart."""


class KeyLists:
    """A list of key masks for each cell; a mask is kept only where no subset of it is there."""

    def __init__(self, cells: int, room: int) -> None:
        self.heads = np.full(cells, -1, np.int64)
        self.links, self.masks = np.empty(max(room, 16), np.int64), np.empty(max(room, 16), np.int64)
        self.used = 0

    def add(
        self, cells: IntArray, place: npt.NDArray[np.int32], flags: npt.NDArray[np.uint64], bits: IntArray
    ) -> None:
        from sfumato.kernels.suppress import add_unsafe

        while True:
            got = add_unsafe(cells, place, flags, bits, self.heads, self.links, self.masks, self.used)
            if got <= len(self.masks):
                self.used = got
                return
            # What was written before the room ran out is met again as its own subset, so nothing
            # is added twice.
            self.used = len(self.masks)
            self.links = np.concatenate([self.links, np.empty_like(self.links)])
            self.masks = np.concatenate([self.masks, np.empty_like(self.masks)])

    def hit(self, cells: IntArray, weights: FloatArray, exact: bool) -> IntArray:
        from sfumato.kernels.suppress import hit_all

        return hit_all(cells, self.heads, self.links, self.masks, weights, exact)


def unsafe_cells(table: Cells, tolerance: int, at: list[list[int]]) -> BoolArray:
    """Which cells are unsafe in at least one key set."""
    bad = np.zeros(len(table), np.bool_)
    for _, place, flags in flagged(table, tolerance, at):
        bad |= flags[place] != 0
    return bad


def each_record(
    table: Cells, tolerance: int, at: list[list[int]], weights: FloatArray, *, exact: bool
) -> Suppression:
    """The cheapest suppression of each cell by itself: a hitting set of its minimal unsafe subsets."""
    keys = np.zeros(len(table), np.int64)
    bad = np.flatnonzero(unsafe_cells(table, tolerance, at))
    if not len(bad):
        return Suppression(keys, True)
    if table.records < tolerance:
        raise MaskError(
            f"the file has {table.records:,} records, fewer than the tolerance of {tolerance}",
            hint="no suppression can make it safe; don't release it",
        )
    narrow = [s for s in at if 1 << len(s) <= WIDE]
    wide = [s for s in at if 1 << len(s) > WIDE]
    keys[bad] = _unsafe_lists(table, tolerance, narrow, bad).hit(bad, weights, exact)
    if wide:
        _add_wide(table, tolerance, wide, weights, bad, keys)
    return Suppression(keys, exact and (not wide or (len(at) == 1 and tolerance == 2)))


def subsets(at: list[list[int]]) -> list[list[tuple[int, ...]]]:
    """Every non-empty subset of the key sets, once, by size."""
    found = {c for s in at for d in range(1, len(s) + 1) for c in itertools.combinations(sorted(s), d)}
    top = max((len(s) for s in at), default=0)
    return [sorted(c for c in found if len(c) == d) for d in range(1, top + 1)]


def _unsafe_lists(table: Cells, tolerance: int, at: list[list[int]], cells: IntArray) -> KeyLists:
    """The minimal unsafe subsets of each cell."""
    lists = KeyLists(len(table), 4 * len(cells))
    # Small subsets first: a larger one is added only where none of its parts is unsafe already.
    for level in subsets(at):
        sets = [list(s) for s in level]
        for inside, place, flags in flagged(table, tolerance, sets):
            bits = np.array([sum(1 << j for j in sets[s]) for s in inside], np.int64)
            lists.add(cells, place, flags, bits)
    return lists


def _add_wide(
    table: Cells,
    tolerance: int,
    at: list[list[int]],
    weights: FloatArray,
    cells: IntArray,
    keys: IntArray,
) -> None:
    """Key sets of many keys: join each unsafe cell with the cells that differ from it the least."""
    from sfumato.kernels.suppress import join_nearest

    if len(cells) * len(table) > MAX_COMPARISONS:
        raise MaskError(
            f"a key set of {max(map(len, at))} keys with {len(cells):,} unsafe combinations is too large "
            "to suppress as one",
            hint="use `max_dimension` or smaller key sets, or recode the keys first",
        )
    codes = np.ascontiguousarray(table.codes.T.astype(np.int32))
    gone = np.array([len(table.levels[k]) for k in table.keys], np.int32)
    for s in at:
        join_nearest(codes, table.counts, gone, np.array(s, np.int64), weights, tolerance, cells, keys)


def as_category(
    codes: IntArray,
    levels: Sequence[int],
    at: list[list[int]],
    tolerance: int,
    weights: FloatArray,
    household: IntArray | None,
    *,
    exact: bool,
) -> tuple[IntArray, int]:
    """Where a missing value is one more category: rounds until no combination is unsafe.

    ``codes`` is keys × records. Suppressing a value moves the record to another cell, which may be
    small too and makes the one it left smaller, so the rounds cascade. Each adds the cheapest keys
    that hit the unsafe sets of each record; where a record has nothing left to suppress in an unsafe
    set, further records join it. Returns a bit for each key suppressed, and the number of rounds.
    """
    records = codes.shape[1]
    if records < tolerance:
        raise MaskError(
            f"the file has {records:,} records, fewer than the tolerance of {tolerance}",
            hint="no suppression can make it safe; don't release it",
        )
    codes = codes.copy()
    gone = np.array(levels, np.int64)
    sizes = [size + 1 for size in levels]
    done = np.zeros(records, np.int64)
    everyone = np.arange(records, dtype=np.int32)
    for rounds in itertools.count(1):
        lists = KeyLists(records, records // 4)
        stuck: list[tuple[list[int], IntArray]] = []
        for s in sorted(at, key=len):
            group, _ = label(*pack([codes[j] for j in s], [sizes[j] for j in s]))
            bad = np.bincount(group)[group] < tolerance
            shown = np.zeros(records, np.int64)
            for j in s:
                shown |= (codes[j] != gone[j]).astype(np.int64) << j
            if (bad & (shown == 0)).any():
                stuck.append((s, np.flatnonzero(bad & (shown == 0))))
            # Only the values still shown can be suppressed: one mask for each pattern of them.
            for mask in np.unique(shown[bad]).tolist():
                if mask:
                    here = np.flatnonzero(bad & (shown == mask))
                    flag = (bad & (shown == mask)).astype(np.uint64)
                    bit = np.array([mask], np.int64)
                    lists.add(here, everyone, flag, bit)
        unsafe = np.flatnonzero(lists.heads >= 0)
        if not len(unsafe) and not stuck:
            return done, rounds
        new = np.zeros(records, np.int64)
        if len(unsafe):
            new[unsafe] = lists.hit(unsafe, weights, exact)
        else:
            s, there = stuck[0]
            new[_joiners(codes, gone, s, weights, tolerance - len(there), there)] = sum(1 << j for j in s)
        if household is not None:
            new = union_by(new, household)
        for j in range(len(levels)):
            codes[j][(new >> j & 1).astype(bool)] = gone[j]
        done |= new
    raise AssertionError("unreachable")


def _joiners(
    codes: IntArray, gone: IntArray, s: list[int], weights: FloatArray, wanted: int, there: IntArray
) -> IntArray:
    """The records whose values of a key set are cheapest to suppress, to join those that have none."""
    cost = np.zeros(codes.shape[1])
    for j in s:
        cost += weights[j] * (codes[j] != gone[j])
    cost[there] = np.inf
    return np.argsort(cost, kind="stable")[:wanted]


def union_by(masks: IntArray, household: IntArray) -> IntArray:
    """Each record's mask joined with those of all members of its household."""
    joined = np.zeros(int(household.max(initial=-1)) + 1, np.int64)
    np.bitwise_or.at(joined, household, masks)
    return joined[household]
