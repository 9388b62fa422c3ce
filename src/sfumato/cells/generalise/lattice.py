"""The lattice of full-domain recodes: each key's chain of levels, and the records as items over the keys.

A key's chain starts with its values as they are; each next level joins classes of the one before; the last is
one class for all (the key is dropped). A node of the lattice is one level for each key.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import ParameterError, SchemaError
from sfumato.kernels.generalise import classes_at, gathered, join, sizes_of, sums_of

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
LabelArray = npt.NDArray[np.int32]

DROPPED = "dropped"
_ROOM = 1 << 23


@dataclass(frozen=True)
class Chain:
    """One key's levels: the class of each of its codes at each level (the code after the last means missing).

    >>> ages = Chain.of("AGE", [["20-29", "20-29", "30-39"]], ["ten years"])
    >>> ages.names, [m.tolist() for m in ages.maps]
    (('as it is', 'ten years', 'dropped'), [[0, 1, 2, 3], [0, 0, 1, 2], [0, 0, 0, 0]])
    """

    key: str
    maps: tuple[LabelArray, ...]
    names: tuple[str, ...]
    of_level: tuple[int, ...] = ()
    """For each level the place in ``classes`` that it was made from (−1: as it is, −2: dropped)."""

    @classmethod
    def of(cls, key: str, classes: Sequence[Sequence[Any]], names: Sequence[str], *, size: int = 0) -> Chain:
        """From the class of each code at each coarser level, in order; levels that join nothing are left out.

        ``size`` is the number of codes where there is no coarser level.
        """
        size = len(classes[0]) if classes else size
        maps, said, places = [np.arange(size + 1, dtype=np.int32)], ["as it is"], [-1]
        for at, (level, name) in enumerate(zip(classes, names, strict=True)):
            if len(level) != size:
                raise SchemaError(f"{key} has {size:,} codes, but {name} gives a class to {len(level):,}")
            seen: dict[Any, int] = {}
            dense = [seen.setdefault(c, len(seen)) for c in level]
            to = np.array([*dense, len(seen)], np.int32)
            pairs = set(zip(maps[-1].tolist(), to.tolist(), strict=True))
            if len(pairs) > len({a for a, _ in pairs}):
                raise SchemaError(
                    f"the levels of {key} don't nest: {name} tears a class of {said[-1]}",
                    hint="a class must lie in one class of the next level",
                )
            if len(seen) > 1 and to.max() < maps[-1].max():
                maps.append(to)
                said.append(name)
                places.append(at)
        maps.append(np.zeros(size + 1, np.int32))
        return cls(key, tuple(maps), (*said, DROPPED), (*places, -2))

    def __len__(self) -> int:
        return len(self.maps)


@dataclass(frozen=True)
class State:
    """The records under a choice of levels for the first keys: items of (group, suffix), and each one's
    records."""

    depth: int
    group: LabelArray
    groups: int
    suffix: LabelArray
    counts: IntArray
    sizes: FloatArray | None
    memory: Any = None
    """What the model keeps of the groups."""

    @property
    def nbytes(self) -> int:
        return 3 * self.group.nbytes + self.counts.nbytes


@dataclass(frozen=True)
class Groups:
    """The groups that one more key makes: their records, where they come from, and how values spread in
    them."""

    lattice: Lattice
    state: State
    labels: LabelArray
    places: LabelArray
    classes: LabelArray

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def counts(self) -> IntArray:
        """The records of each group."""
        return sums_of(self.labels, len(self), self.state.counts)

    @cached_property
    def sizes(self) -> FloatArray:
        """The population (or the weights) of each group."""
        assert self.state.sizes is not None
        return sizes_of(self.labels, len(self), self.state.sizes)

    @cached_property
    def parent(self) -> LabelArray:
        return gathered(self.state.group, self.places)

    @cached_property
    def own(self) -> LabelArray:
        """The class of the key that was added last."""
        return gathered(self.classes, self.places)

    def spread(self) -> tuple[IntArray, LabelArray, FloatArray]:
        """The sensitive values of each group in order, with their records: starts, values, counts."""
        value = gathered(self.lattice.value_of[self.state.depth], self.state.suffix)
        there = (value < self.lattice.values) & (self.state.counts > 0)
        labels, value, counts = self.labels[there], value[there], self.state.counts[there]
        pair, place = self.lattice.join(labels, value, self.lattice.values)
        records = sums_of(pair, len(place), counts).astype(np.float64)
        group, value = labels[place], value[place]
        order = np.lexsort((value, group))
        starts = np.zeros(len(self) + 1, np.int64)
        starts[1:] = np.cumsum(np.bincount(group, minlength=len(self)))
        return starts, value[order], records[order]


class Lattice:
    """The records of a file as items over its keys, ready to be walked level by level.

    ``columns`` are the codes of each key for each record (or cell, with ``counts``); ``sensitive`` the
    codes of one more column whose values are looked at inside groups (``values`` of them; that code itself
    is missing);
    ``sizes`` what each record stands for in the population.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        columns: Sequence[npt.NDArray[Any]],
        counts: IntArray | None = None,
        *,
        sensitive: npt.NDArray[Any] | None = None,
        values: int = 0,
        sizes: FloatArray | None = None,
    ) -> None:
        if not chains or len(chains) != len(columns):
            raise ParameterError("a search for recodes needs at least one key")
        # Keys with many values decide what is feasible: they come first.
        order = sorted(range(len(chains)), key=lambda j: (-len(chains[j].maps[0]), chains[j].key))
        self.chains = tuple(chains[j] for j in order)
        keyed = [np.ascontiguousarray(columns[j], np.int32) for j in order]
        n = len(keyed[0])
        counts = np.ones(n, np.int64) if counts is None else np.ascontiguousarray(counts, np.int64)
        self.values = values
        self._scratch = np.zeros(min(_ROOM, max(1 << 16, 4 * n)), np.int64)
        self._epoch = 0
        suffix = np.zeros(n, np.int32) if sensitive is None else np.ascontiguousarray(sensitive, np.int32)
        spare = suffix.max(initial=0) + 1
        value = np.arange(spare, dtype=np.int32)
        code_of: list[LabelArray] = []
        next_of: list[LabelArray] = []
        value_of: list[LabelArray] = [value]
        for column in reversed(keyed):
            after = suffix
            suffix, places = self.join(after, column, int(column.max(initial=0)) + 1)
            code_of.append(column[places])
            next_of.append(after[places])
            value_of.append(value_of[-1][after[places]])
        self.code_of, self.next_of, self.value_of = code_of[::-1], next_of[::-1], value_of[::-1]
        found = len(self.code_of[0])
        self.counts = sums_of(suffix, found, counts)
        self.records = int(self.counts.sum())
        self.sizes = (
            None if sizes is None else sizes_of(suffix, found, np.ascontiguousarray(sizes, np.float64))
        )
        self.root = State(
            0, np.zeros(found, np.int32), 1, np.arange(found, dtype=np.int32), self.counts, self.sizes
        )

    def __len__(self) -> int:
        """How many nodes it has."""
        out = 1
        for chain in self.chains:
            out *= len(chain)
        return out

    def join(self, first: LabelArray, second: LabelArray, size: int) -> tuple[LabelArray, LabelArray]:
        self._epoch += 1
        return join(first, second, size, self._scratch, self._epoch)

    @cached_property
    def codes(self) -> list[LabelArray]:
        """The code of each item in each key."""
        out, at = [], np.arange(len(self.counts), dtype=np.int32)
        for code, after in zip(self.code_of, self.next_of, strict=True):
            out.append(code[at])
            at = after[at]
        return out

    def split(self, state: State, level: int) -> Groups:
        """The groups once the next key has this level; all later keys are dropped."""
        to = self.chains[state.depth].maps[level]
        classes = classes_at(state.suffix, self.code_of[state.depth], to)
        labels, places = self.join(state.group, classes, int(to.max(initial=0)) + 1)
        return Groups(self, state, labels, places, classes)

    def advance(self, groups: Groups, memory: Any = None) -> State:
        """The state once a level is chosen: items that no later key tells apart are joined."""
        state = groups.state
        after = gathered(self.next_of[state.depth], state.suffix)
        labels, places = self.join(groups.labels, after, int(after.max(initial=0)) + 1)
        found = len(places)
        return State(
            state.depth + 1,
            gathered(groups.labels, places),
            len(groups),
            gathered(after, places),
            sums_of(labels, found, state.counts),
            None if state.sizes is None else sizes_of(labels, found, state.sizes),
            memory,
        )

    def pair(self, one: int, two: int) -> tuple[LabelArray, LabelArray, IntArray]:
        """The codes of two keys that occur together, and their records."""
        a, b = self.codes[one], self.codes[two]
        labels, places = self.join(a, b, int(b.max(initial=0)) + 1)
        return a[places], b[places], sums_of(labels, len(places), self.counts)

    def nodes(self) -> itertools.product[tuple[int, ...]]:
        """Every node, as one level for each chain (for small lattices)."""
        return itertools.product(*(range(len(c)) for c in self.chains))

    def named(self, levels: Sequence[int]) -> Mapping[str, int]:
        return {c.key: v for c, v in zip(self.chains, levels, strict=True)}
