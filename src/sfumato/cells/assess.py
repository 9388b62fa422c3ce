"""Which combinations are unsafe: many key sets at once, through a few joint tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.cells import Cells
from sfumato.data.microdata import IntArray
from sfumato.errors import ParameterError
from sfumato.parallel import in_threads, threads

BLOCK_CELLS: Final = 1 << 17
"""A joint table of at most this many cells stays in the processor's cache while it is counted."""
BLOCK_SETS: Final = 64


def combinations_up_to(keys: Sequence[str], max_dimension: int) -> list[tuple[str, ...]]:
    """All combinations of 1 … max_dimension keys, short ones first.

    >>> combinations_up_to(["a", "b", "c"], 2)
    [('a',), ('b',), ('c',), ('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    top = min(max_dimension, len(keys))
    return [c for d in range(1, top + 1) for c in itertools.combinations(keys, d)]


@dataclass(frozen=True)
class Assessment:
    """What fails the tolerance, by key set, by dimension, by key and by cell."""

    table: Cells
    tolerance: int
    key_sets: tuple[tuple[str, ...], ...]
    combinations: IntArray
    unsafe_combinations: IntArray
    unsafe_records: IntArray
    smallest: IntArray
    unsafe_sets: npt.NDArray[np.int32]
    """For each cell, the number of key sets in which it is unsafe."""

    @cached_property
    def records_unsafe(self) -> int:
        """How many records are unsafe in at least one key set."""
        return int(self.table.counts[self.unsafe_sets > 0].sum())

    @cached_property
    def by_key_set(self) -> pl.DataFrame:
        """One row a key set, the worst first."""
        frame = pl.DataFrame(
            {
                "key_set": [" × ".join(s) for s in self.key_sets],
                "dimension": [len(s) for s in self.key_sets],
                "combinations": self.combinations,
                "unsafe_combinations": self.unsafe_combinations,
                "unsafe_records": self.unsafe_records,
                "smallest": self.smallest,
            }
        )
        worst = ["unsafe_records", "unsafe_combinations"]
        return frame.sort([*worst, "dimension"], descending=[True, True, False], maintain_order=True)

    @cached_property
    def by_dimension(self) -> pl.DataFrame:
        """Unsafe combinations by dimension, over the key sets of that dimension."""
        return (
            self.by_key_set.group_by("dimension")
            .agg(
                pl.len().alias("key_sets"),
                pl.col("combinations", "unsafe_combinations").sum(),
            )
            .sort("dimension")
        )

    @cached_property
    def by_key(self) -> pl.DataFrame:
        """Unsafe combinations that a key takes part in, by dimension: the matrix mu-ARGUS shows."""
        dimensions = sorted({len(s) for s in self.key_sets})
        rows = []
        for key in self.table.keys:
            row: dict[str, object] = {"key": key}
            for d in dimensions:
                row[f"dimension_{d}"] = int(
                    sum(
                        u
                        for s, u in zip(self.key_sets, self.unsafe_combinations.tolist(), strict=True)
                        if len(s) == d and key in s
                    )
                )
            row["entropy"] = self.table.entropy(key)
            rows.append(row)
        return pl.DataFrame(rows)


def assess(table: Cells, tolerance: int, key_sets: Sequence[Sequence[str]] | None = None) -> Assessment:
    """Find every combination that fewer than ``tolerance`` records have, in each key set."""
    if tolerance < 2:
        raise ParameterError(
            f"a tolerance of {tolerance} lets every combination pass", hint="2 finds unique combinations"
        )
    named = tuple(_key_set(table, s) for s in (key_sets if key_sets is not None else [table.keys]))
    if not named:
        raise ParameterError("no key set was named")
    at = [table.positions(s) for s in named]
    out = {name: np.zeros(len(at), np.int64) for name in ("there", "unsafe", "records", "least")}
    per_cell = np.zeros(len(table), np.int32)
    wild = table.missing == "matches_anything"
    blocks, rest = _blocks(
        table, [s for s in range(len(at)) if not (wild and any(table.has_missing[j] for j in at[s]))], at
    )
    _count_blocks(table, tolerance, blocks, at, out, per_cell)
    touched = [s for s in range(len(at)) if wild and any(table.has_missing[j] for j in at[s])]
    for s in [*rest, *touched]:
        _count_one(table, tolerance, s, named[s], out, per_cell)
    return Assessment(
        table, tolerance, named, out["there"], out["unsafe"], out["records"], out["least"], per_cell
    )


def _key_set(table: Cells, key_set: Sequence[str]) -> tuple[str, ...]:
    names = (key_set,) if isinstance(key_set, str) else tuple(key_set)
    if not names:
        raise ParameterError("a key set is empty")
    if len(set(names)) < len(names):
        raise ParameterError(f"the key set {' × '.join(names)} names a key twice")
    for name in names:
        table.position(name)
    return names


def _blocks(
    table: Cells, sets: list[int], at: list[list[int]]
) -> tuple[list[tuple[list[int], list[int]]], list[int]]:
    """Key sets gathered under joint tables that are small enough: (keys, sets) of each, and the rest.

    Counting the records once for a block of keys and marginalising its few cells is cheaper than
    counting the records for each set. Where the sets are many, pairs of keys are the unit: every
    set of d keys lies in the union of d pairs, and there are far fewer such unions than sets.
    """
    limit = max(BLOCK_CELLS, min(len(table), 1 << 22))
    sizes = table.sizes

    def cells(keys: set[int]) -> int:
        out = 1
        for j in keys:
            out *= int(sizes[j])
        return out

    fits = [s for s in sets if cells(set(at[s])) <= limit]
    rest = [s for s in sets if cells(set(at[s])) > limit]
    # Large keys are paired with small ones, so that the joint tables have similar sizes.
    order = sorted({j for s in fits for j in at[s]}, key=lambda j: int(sizes[j]))
    half = (len(order) + 1) // 2
    unit = {j: min(place, len(order) - 1 - place) if half else 0 for place, j in enumerate(order)}
    members: dict[int, set[int]] = {}
    for j, u in unit.items():
        members.setdefault(u, set()).add(j)
    gathered: dict[frozenset[int], list[int]] = {}
    loose: list[int] = []
    for s in sorted(fits, key=lambda s: -len(at[s])):
        units = frozenset(unit[j] for j in at[s])
        if cells(set().union(*(members[u] for u in units))) <= BLOCK_CELLS:
            home = next((g for g in gathered if units < g), units) if len(gathered) < 4096 else units
            gathered.setdefault(home, []).append(s)
        else:
            loose.append(s)
    blocks: list[tuple[list[int], list[int]]] = []
    for inside in gathered.values():
        for start in range(0, len(inside), BLOCK_SETS):
            part = inside[start : start + BLOCK_SETS]
            blocks.append((sorted({j for s in part for j in at[s]}), part))
    # What doesn't fit in pairs: add sets to the running block while it stays small.
    keys: set[int] = set()
    part = []
    for s in loose:
        if part and (cells(keys | set(at[s])) > limit or len(part) == BLOCK_SETS):
            blocks.append((sorted(keys), part))
            keys, part = set(), []
        keys |= set(at[s])
        part = [*part, s]
    if part:
        blocks.append((sorted(keys), part))
    return blocks, rest


def _count_blocks(
    table: Cells,
    tolerance: int,
    blocks: list[tuple[list[int], list[int]]],
    at: list[list[int]],
    out: dict[str, IntArray],
    per_cell: npt.NDArray[np.int32],
) -> None:
    from sfumato.kernels.cells import count_flags

    workers = max(1, min(threads(), len(blocks)))
    tallies = [np.zeros(len(table), np.int32) for _ in range(workers)]

    def work(worker: int) -> None:
        for keys, sets in blocks[worker::workers]:
            place, flags, found = _one_block(table, tolerance, keys, [at[s] for s in sets])
            if found[1].any():
                count_flags(place, flags, tallies[worker])
            for name, values in zip(("there", "unsafe", "records", "least"), found, strict=True):
                out[name][sets] = values

    in_threads(work, range(workers))
    for tally in tallies:
        per_cell += tally


def _one_block(
    table: Cells, tolerance: int, keys: list[int], sets: list[list[int]]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64], list[IntArray]]:
    """Each cell's place in the block's joint table, the flags of each place, and the four counts."""
    from sfumato.kernels.cells import assess_block

    position = {j: q for q, j in enumerate(keys)}
    inside = np.zeros((len(sets), max(len(s) for s in sets)), np.int64)
    for row, s in enumerate(sets):
        inside[row, : len(s)] = [position[j] for j in s]
    lengths = np.array([len(s) for s in sets], np.int64)
    found = [np.zeros(len(sets), np.int64) for _ in range(4)]
    place, flags = assess_block(
        table.codes, table.counts, table.sizes, np.array(keys, np.int64), inside, lengths, tolerance, *found
    )
    return place, flags, found


def flagged(
    table: Cells, tolerance: int, at: list[list[int]]
) -> Iterator[tuple[list[int], npt.NDArray[np.int32], npt.NDArray[np.uint64]]]:
    """For groups of key sets: which sets, each cell's place, and a bit per set that is unsafe there."""
    wild = table.missing == "matches_anything"
    touched = [s for s in range(len(at)) if wild and any(table.has_missing[j] for j in at[s])]
    blocks, rest = _blocks(table, [s for s in range(len(at)) if s not in set(touched)], at)
    for keys, sets in blocks:
        place, flags, found = _one_block(table, tolerance, keys, [at[s] for s in sets])
        if found[1].any():
            yield sets, place, flags
    own = np.arange(len(table), dtype=np.int32)
    for s in [*rest, *touched]:
        bad = table.frequencies([table.keys[j] for j in at[s]], enough=tolerance) < tolerance
        if bad.any():
            yield [s], own, bad.astype(np.uint64)


def _count_one(
    table: Cells,
    tolerance: int,
    s: int,
    names: tuple[str, ...],
    out: dict[str, IntArray],
    per_cell: npt.NDArray[np.int32],
) -> None:
    """One key set by itself: a joint table too large for a block, or one with missing values."""
    _, first = table.groups(names)
    frequency = table.frequencies(names)
    bad = frequency < tolerance
    per_cell += bad
    out["there"][s] = len(first)
    out["unsafe"][s] = int(bad[first].sum())
    out["records"][s] = int(table.counts[bad].sum())
    out["least"][s] = int(frequency.min()) if len(frequency) else 0
