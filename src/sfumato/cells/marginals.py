"""Unsafe combinations of all key sets at once, after any recode, from the cells alone: for a page that
answers while a slider moves.

A key set's table is summed out of the smallest table of one key more that is there. A combination that is
unsafe in a set is unsafe in every larger one, so the records that are unsafe somewhere are those that are
in the largest sets.

Where a missing value matches anything, F counts the records that agree with a combination. Along one key,
F(v) = N(v) + N(missing), and F(missing) = Σ N: one pass a key. So the table F of a set is the slice of a
larger one at the key that is missing, or its sum over a key that is never missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.cells import Cells
from sfumato.cells.frequency import match_counts
from sfumato.data.codes import label
from sfumato.data.microdata import IntArray
from sfumato.kernels.marginals import counted, judged, least_of, packed_codes, sliced, summed_over, widened

DENSE: Final = 1 << 24
"""A table of at most this many places is held whole; a larger one by the combinations that occur."""
SPARSE: Final = 16
"""So is one that has more places than this for each cell: most of them would be empty."""
WILD: Final = 64
"""Where a missing value matches anything, joins of combinations cost more than empty places do."""
Counts = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Marginals:
    """What fails the tolerance: one number a key set, and the records in all."""

    key_sets: tuple[tuple[str, ...], ...]
    combinations: IntArray
    unsafe_combinations: IntArray
    unsafe_records: IntArray
    smallest: IntArray
    unsafe_at: Mapping[int, int]
    """By tolerance: the records that are unsafe in at least one key set."""
    records_unsafe: int
    entropy: Mapping[str, float]
    levels: Mapping[str, int]


def marginals(
    table: Cells,
    classes: Mapping[str, pl.Series],
    tolerance: int,
    key_sets: Sequence[Sequence[str]],
    also: Sequence[int] = (),
) -> Marginals:
    """Every key set judged after each key's levels became ``classes`` (in the order of ``table.levels``).

    The records that are unsafe somewhere are counted at the tolerances ``also``, too.
    """
    named = tuple(tuple(s) for s in key_sets)
    counter = _Counter(table, classes)
    at = [frozenset(table.positions(s)) for s in named]
    out = np.zeros((4, len(at)), np.int64)
    for place in sorted(range(len(at)), key=lambda k: -len(at[k])):
        out[:, place] = judged(*counter.tables(at[place]), tolerance)
    largest = _largest(set(at), len(table.keys))
    least = np.full(len(table), np.iinfo(np.int32).max, np.int32)
    for one in largest:
        least_of(counter.places(one), counter.tables(one)[1], least)
    unsafe = {t: int(table.counts[least < t].sum()) for t in sorted({tolerance, *also})}
    sizes, gone = counter.sizes, counter.gone
    return Marginals(
        named, out[0], out[1], out[2], out[3], unsafe, unsafe[tolerance],
        _entropies(table, counter.remaps),
        {k: int(sizes[j]) - (gone[j] >= 0) for j, k in enumerate(table.keys)},
    )  # fmt: skip


def _largest(sets: set[frozenset[int]], keys: int) -> list[frozenset[int]]:
    """The sets that are in no other; most are in one of one key more, which is looked for first."""
    by_size: dict[int, list[frozenset[int]]] = {}
    for one in sets:
        by_size.setdefault(len(one), []).append(one)

    def inside(one: frozenset[int]) -> bool:
        if len(one) + 1 in by_size and any(one | {j} in sets for j in range(keys) if j not in one):
            return True
        return any(one < other for size, others in by_size.items() if size > len(one) for other in others)

    return [s for s in sets if not inside(s)]


def _remaps(
    table: Cells, classes: Mapping[str, pl.Series]
) -> tuple[npt.NDArray[np.int32], list[int], list[int]]:
    """For each key, the class of each code, how many there are, and which of them is missing (-1: none is).

    A missing value keeps a code of its own.
    """
    widest = max(len(v) for v in table.levels.values()) + 1
    remaps = np.zeros((len(table.keys), widest), np.int32)
    sizes, gone = [], []
    for j, key in enumerate(table.keys):
        levels = len(table.levels[key])
        lost = False
        if key in classes:
            codes = classes[key].cast(pl.String).rank("dense").fill_null(0).cast(pl.Int32).to_numpy() - 1
            top = int(codes.max(initial=-1)) + 1
            remaps[j, :levels] = np.where(codes < 0, top, codes)
            lost = bool((codes < 0).any())
        else:
            remaps[j, :levels] = np.arange(levels)
            top = levels
        remaps[j, levels] = top
        missing = lost or bool(table.has_missing[j])
        sizes.append(max(1, top + missing))
        gone.append(top if missing and table.missing == "matches_anything" else -1)
    return remaps, sizes, gone


class _Counter:
    """Tables of key sets, each made once, from a larger one where that is quick."""

    def __init__(self, table: Cells, classes: Mapping[str, pl.Series]) -> None:
        self.source = table
        self.remaps, self.sizes, self.gone = _remaps(table, classes)
        wild = any(g >= 0 for g in self.gone)
        self.most = min(DENSE, max(1 << 16, (WILD if wild else SPARSE) * len(table)))
        self.dense: dict[frozenset[int], Counts] = {}
        self.agreeing: dict[frozenset[int], Counts] = {}
        self.sparse: dict[frozenset[int], tuple[IntArray, Counts, Counts]] = {}

    def total(self, keys: frozenset[int]) -> int:
        out = 1
        for j in keys:
            out *= self.sizes[j]
        return out

    def wild(self, keys: frozenset[int]) -> list[int]:
        return sorted(j for j in keys if self.gone[j] >= 0)

    def places(self, keys: frozenset[int]) -> IntArray:
        """Where each cell stands in the tables of these keys."""
        return self._sparse(keys)[0] if self.total(keys) > self.most else self.packed(keys)

    def packed(self, keys: frozenset[int]) -> IntArray:
        members = sorted(keys)
        strides = [self.total(frozenset(members[q + 1 :])) for q in range(len(members))]
        return packed_codes(
            self.source.codes, np.array(members, np.int64), np.array(strides, np.int64), self.remaps
        )

    def tables(self, keys: frozenset[int]) -> tuple[Counts, Counts]:
        """How many records have each combination, and how many agree with it."""
        if self.total(keys) > self.most:
            return self._sparse(keys)[1:]
        return self._counts(keys), self._agreeing(keys)

    def _counts(self, keys: frozenset[int]) -> Counts:
        if keys not in self.dense:
            parent = self._parent(keys, self.dense)
            if parent is not None:
                (gone,) = parent - keys
                self.dense[keys] = summed_over(self.dense[parent], *self._around(gone, parent))
            else:
                self.dense[keys] = counted(self.packed(keys), self.source.counts, self.total(keys))
        return self.dense[keys]

    def _agreeing(self, keys: frozenset[int]) -> Counts:
        if not self.wild(keys):
            return self._counts(keys)
        if keys not in self.agreeing:
            self.agreeing[keys] = self._from_larger(keys)
        return self.agreeing[keys]

    def _from_larger(self, keys: frozenset[int]) -> Counts:
        for gone in self.wild(frozenset(range(len(self.sizes))) - keys):
            parent = keys | {gone}
            if parent in self.agreeing:
                return sliced(self.agreeing[parent], *self._around(gone, parent), self.gone[gone])
        near = self._parent(keys, self.agreeing)
        if near is not None:
            (gone,) = near - keys
            return summed_over(self.agreeing[near], *self._around(gone, near))
        made = self._counts(keys)
        for j in self.wild(keys):
            made = widened(made, *self._around(j, keys), self.gone[j])
        return made

    def _parent(self, keys: frozenset[int], held: Mapping[frozenset[int], Counts]) -> frozenset[int] | None:
        """The smallest table of one key more, if it is quicker than the cells."""
        parents = [p for j in range(len(self.sizes)) if j not in keys and (p := keys | {j}) in held]
        parent = min(parents, key=lambda p: held[p].size, default=None)
        quick = parent is not None and held[parent].size <= 4 * len(self.source) * len(keys)
        return parent if quick else None

    def _around(self, key: int, keys: frozenset[int]) -> tuple[int, int, int]:
        """A table's shape about one of its keys: places above, its levels, places below."""
        members = sorted(keys)
        low = self.total(frozenset(members[members.index(key) + 1 :]))
        return self.total(keys) // (low * self.sizes[key]), self.sizes[key], low

    def _sparse(self, keys: frozenset[int]) -> tuple[IntArray, Counts, Counts]:
        """Each cell's combination, the records that each has, and those that agree with it."""
        if keys not in self.sparse:
            group, first = label(self.packed(keys), self.total(keys))
            sizes = np.bincount(group, weights=self.source.counts, minlength=len(first)).astype(np.int32)
            agree = sizes
            if self.wild(keys):
                members = sorted(keys)
                codes = np.stack([self.remaps[j][self.source.codes[j][first]] for j in members])
                agree = match_counts(
                    codes, [self.sizes[j] for j in members], [self.gone[j] for j in members],
                    sizes.astype(np.int64), None, wild=True,
                ).astype(np.int32)  # fmt: skip
            self.sparse[keys] = (group.astype(np.int64), sizes, agree)
        return self.sparse[keys]


def _entropies(table: Cells, remaps: npt.NDArray[np.int32]) -> dict[str, float]:
    """−Σ p log₂ p of each key after its recode, missing being one of its values."""
    out = {}
    for j, key in enumerate(table.keys):
        held = np.bincount(table.codes[j], weights=table.counts)
        counts = np.bincount(remaps[j][: len(held)], weights=held)
        share = counts[counts > 0] / max(table.records, 1)
        out[key] = float(-(share * np.log2(share)).sum()) + 0.0
    return out
