"""Unsafe combinations of all key sets at once, after any recode, from the cells alone: for a page that
answers while a slider moves.

A key set's table is summed out of the smallest table of one key more that is there. A combination that is
unsafe in a set is unsafe in every larger one, so the records that are unsafe somewhere are those that are
in the largest sets. Where a missing value matches anything, counts don't add up that way, and
:func:`sfumato.cells.assess.assess` is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.assess import assess
from sfumato.cells.cells import Cells
from sfumato.data.codes import label
from sfumato.data.microdata import BoolArray, IntArray
from sfumato.kernels.marginals import counted, flag_rare, judged, packed_codes, summed_over

DENSE: Final = 1 << 24
"""A table of at most this many places is held whole; a larger one by the combinations that occur."""
SPARSE: Final = 16
"""So is one that has more places than this for each cell: most of them would be empty."""


@dataclass(frozen=True)
class Marginals:
    """What fails the tolerance: one number a key set, and the records in all."""

    key_sets: tuple[tuple[str, ...], ...]
    combinations: IntArray
    unsafe_combinations: IntArray
    unsafe_records: IntArray
    smallest: IntArray
    flags: BoolArray
    """Of each cell of the table: unsafe in at least one key set."""
    records_unsafe: int
    entropy: Mapping[str, float]
    levels: Mapping[str, int]


def marginals(
    table: Cells,
    classes: Mapping[str, pl.Series],
    tolerance: int,
    key_sets: Sequence[Sequence[str]],
) -> Marginals:
    """Every key set judged after each key's levels became ``classes`` (in the order of ``table.levels``)."""
    named = tuple(tuple(s) for s in key_sets)
    if table.missing == "matches_anything" and any(table.has_missing):
        return _by_assess(table, classes, tolerance, named)
    remaps, sizes = _remaps(table, classes)
    at = [frozenset(table.positions(s)) for s in named]
    counter = _Counter(table, remaps, sizes)
    out = np.zeros((4, len(at)), np.int64)
    for place in sorted(range(len(at)), key=lambda k: -len(at[k])):
        out[:, place] = judged(counter.table(at[place]), tolerance)
    largest = [s for s in set(at) if not any(s < other for other in at)]
    flags = np.zeros(len(table), np.bool_)
    for one in largest:
        counter.flag(one, tolerance, flags)
    return Marginals(
        named, out[0], out[1], out[2], out[3], flags, int(table.counts[flags].sum()),
        _entropies(table, remaps, sizes), {k: int(sizes[j]) for j, k in enumerate(table.keys)},
    )  # fmt: skip


def unsafe_at(
    table: Cells,
    classes: Mapping[str, pl.Series],
    tolerances: Sequence[int],
    key_sets: Sequence[Sequence[str]],
) -> list[int]:
    """The records that are unsafe in at least one key set, at each of some tolerances; counted once."""
    if table.missing == "matches_anything" and any(table.has_missing):
        named = tuple(tuple(s) for s in key_sets)
        return [_by_assess(table, classes, t, named).records_unsafe for t in tolerances]
    at = {frozenset(table.positions(s)) for s in key_sets}
    largest = [s for s in at if not any(s < other for other in at)]
    counter = _Counter(table, *_remaps(table, classes))
    if len(largest) == 1:
        counts = counter.table(largest[0])
        return [int(judged(counts, t)[2]) for t in tolerances]
    out = []
    for tolerance in tolerances:
        flags = np.zeros(len(table), np.bool_)
        for one in largest:
            counter.flag(one, tolerance, flags)
        out.append(int(table.counts[flags].sum()))
    return out


def _remaps(table: Cells, classes: Mapping[str, pl.Series]) -> tuple[npt.NDArray[np.int32], list[int]]:
    """For each key, the class of each code; a missing value keeps a code of its own."""
    widest = max(len(v) for v in table.levels.values()) + 1
    remaps = np.zeros((len(table.keys), widest), np.int32)
    sizes = []
    for j, key in enumerate(table.keys):
        levels = len(table.levels[key])
        if key in classes:
            codes = classes[key].cast(pl.String).rank("dense").fill_null(0).cast(pl.Int32).to_numpy() - 1
            top = int(codes.max(initial=-1)) + 1
            remaps[j, :levels] = np.where(codes < 0, top, codes)
            used = top + bool((codes < 0).any())
        else:
            remaps[j, :levels] = np.arange(levels)
            top, used = levels, levels
        remaps[j, levels] = top
        sizes.append(max(1, used + (1 if table.has_missing[j] and used == top else 0)))
    return remaps, sizes


class _Counter:
    """Tables of key sets, each made once, from the smallest that holds it."""

    def __init__(self, table: Cells, remaps: npt.NDArray[np.int32], sizes: list[int]) -> None:
        self.source, self.remaps, self.sizes = table, remaps, sizes
        codes = table.codes
        self.codes: npt.NDArray[Any] = codes
        self.most = min(DENSE, max(1 << 16, SPARSE * len(table)))
        self.dense: dict[frozenset[int], npt.NDArray[np.int32]] = {}
        self.sparse: dict[frozenset[int], tuple[IntArray, npt.NDArray[np.int32]]] = {}

    def total(self, keys: frozenset[int]) -> int:
        out = 1
        for j in keys:
            out *= self.sizes[j]
        return out

    def packed(self, keys: frozenset[int]) -> IntArray:
        members = sorted(keys)
        strides = [self.total(frozenset(members[q + 1 :])) for q in range(len(members))]
        return packed_codes(self.codes, np.array(members, np.int64), np.array(strides, np.int64), self.remaps)

    def table(self, keys: frozenset[int]) -> npt.NDArray[np.int32]:
        if keys in self.dense:
            return self.dense[keys]
        if self.total(keys) > self.most:
            return self._sparse(keys)[1]
        parents = [p for p in self.dense if keys < p and len(p) == len(keys) + 1]
        parent = min(parents, key=lambda p: self.dense[p].size, default=None)
        if parent is not None and self.dense[parent].size <= 4 * len(self.source) * len(keys):
            (gone,) = parent - keys
            members = sorted(parent)
            low = self.total(frozenset(members[members.index(gone) + 1 :]))
            high = self.dense[parent].size // (low * self.sizes[gone])
            made = summed_over(self.dense[parent], high, self.sizes[gone], low)
        else:
            made = counted(self.packed(keys), self.source.counts, self.total(keys))
        self.dense[keys] = made
        return made

    def _sparse(self, keys: frozenset[int]) -> tuple[IntArray, npt.NDArray[np.int32]]:
        if keys not in self.sparse:
            group, first = label(self.packed(keys), self.total(keys))
            sizes = np.bincount(group, weights=self.source.counts, minlength=len(first))
            self.sparse[keys] = (group.astype(np.int64), sizes.astype(np.int32))
        return self.sparse[keys]

    def flag(self, keys: frozenset[int], tolerance: int, flags: BoolArray) -> None:
        if self.total(keys) > self.most:
            flag_rare(*self._sparse(keys), tolerance, flags)
        else:
            flag_rare(self.packed(keys), self.table(keys), tolerance, flags)


def _entropies(table: Cells, remaps: npt.NDArray[np.int32], sizes: Sequence[int]) -> dict[str, float]:
    """−Σ p log₂ p of each key after its recode, missing being one of its values."""
    out = {}
    for j, key in enumerate(table.keys):
        held = np.bincount(table.codes[j], weights=table.counts)
        counts = np.bincount(remaps[j][: len(held)], weights=held)
        share = counts[counts > 0] / max(table.records, 1)
        out[key] = float(-(share * np.log2(share)).sum()) + 0.0
    return out


def _by_assess(
    table: Cells, classes: Mapping[str, pl.Series], tolerance: int, key_sets: tuple[tuple[str, ...], ...]
) -> Marginals:
    small = table
    for key, new in classes.items():
        small = small.recode(key, new)
    found = assess(small, tolerance, key_sets)
    bad = found.unsafe_sets > 0
    at: npt.NDArray[Any] = np.arange(len(table))
    for step in small._lifts[len(table._lifts) :]:
        at = step[at]
    return Marginals(
        key_sets, found.combinations, found.unsafe_combinations, found.unsafe_records, found.smallest,
        bad[at], found.records_unsafe, {k: small.entropy(k) for k in small.keys},
        {k: len(v) for k, v in small.levels.items()},
    )  # fmt: skip
