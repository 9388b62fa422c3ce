"""The work of a cluster shuffle, from the file to the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sfumato.contract.mask import Notes
from sfumato.data.microdata import IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MaskError
from sfumato.masks.cluster_shuffle import audit
from sfumato.masks.cluster_shuffle.deal import (
    MOST_KEPT,
    Dealt,
    Keep,
    Kept,
    Region,
    deal_all,
    kept,
    regions,
)
from sfumato.masks.cluster_shuffle.rules import added_up, following, total_of
from sfumato.parallel import in_threads
from sfumato.stats.clusters import atoms, digests, gather, in_order
from sfumato.stats.levels import CodeArray, Levels, blurred, levels_of, points

if TYPE_CHECKING:
    from sfumato.masks.cluster_shuffle.cluster_shuffle import ClusterShuffle

_LADDER: tuple[Keep, ...] = ("pairs", "moments", "values", "none")
_LEAST_REGION = 4096


@dataclass(frozen=True)
class Partition:
    """Clusters of a file's records, in an order that values decide."""

    label: IntArray
    """Each record's cluster."""
    part: IntArray
    """Each cluster's part of the file."""
    rows: IntArray
    """The records cluster by cluster."""
    start: IntArray
    """Where each cluster begins among the rows."""

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.start)


def shuffled(mask: ClusterShuffle, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
    told = following(data.schema, mask.columns)
    totals = [total_of(data, total, parts) for total, parts in told.totals]
    columns = coded(mask, data)
    partition = partitioned(mask, data, columns)
    codes = np.empty((len(data), len(columns)), np.int32)
    for j, one in enumerate(columns):
        codes[:, j] = one.codes[partition.rows]
    found, dealt, what = _dealt(mask, columns, codes, partition, draws, notes)
    out = np.empty((len(data), len(columns)), np.int32)
    place = _places(partition, draws)
    for region, got in zip(found, dealt, strict=True):
        out[place[region.begin : region.end]] = got.codes
    new: dict[str, pl.Series] = {}
    for j, column in enumerate(columns):
        if column.name in {t.name for t in totals}:
            continue
        take = pl.Series(out[:, j].astype(np.uint32))
        new |= {name: values.gather(take) for name, values in column.values.items()}
    masked = data.with_columns(new)
    spare = {c.name: c.numbers[out[:, j]] for j, c in enumerate(columns) if c.name not in new}
    for total in totals:
        masked = masked.with_columns([added_up(total, data, masked, spare.get(total.name))])
    _note(mask, data, columns, codes, partition, found, dealt, what, notes)
    return masked


# -- columns and clusters -------------------------------------------------------------------------


def coded(mask: ClusterShuffle, data: Microdata) -> list[Levels]:
    """Every dealt column in codes, blurred; what totals have beyond their parts comes last."""
    told = following(data.schema, mask.columns)

    def one(column: str) -> Levels:
        levels = levels_of(data, column, told.riders.get(column, ()))
        if np.isinf(levels.numbers).any():
            raise MaskError(
                f"cluster_shuffle: {column} has infinite values",
                hint="declare them as missing or top-coded, or mend them",
            )
        variable = data.schema[column]
        return blurred(levels, mask.blur, step=variable.unit, ordinal=variable.kind == "ordinal")

    out = in_threads(one, told.dealt)
    for total, parts in told.totals:
        made = total_of(data, total, parts)
        if not made.exact:
            frame = pl.DataFrame({total: made.residual})
            out.append(blurred(levels_of(Microdata(frame), total), mask.blur))
    return out


def partitioned(mask: ClusterShuffle, data: Microdata, columns: Sequence[Levels]) -> Partition:
    """The clusters: by the values of the columns that they may look at, within strata."""
    k = mask.smallest
    stratum, _ = data.codes(mask.within)
    unit = None if mask.unit is None else data.households(mask.unit)[0]
    _check_strata(mask, stratum, unit)
    hidden = set(mask.blind_columns(data.schema))
    rebuilt = {t for t, _ in following(data.schema, mask.columns).totals}
    seen = [c for c in columns if c.name not in hidden and c.name not in rebuilt]
    found = atoms([c.codes for c in seen], stratum, unit)
    where = _positions(seen, found.first, unit, len(data))
    clusters = gather(where, found, stratum[found.first], k)
    label = clusters.label[found.of]
    part = np.empty(clusters.n_clusters, np.int64)
    part[clusters.label] = clusters.part
    if mask.spread > 1:
        wanted = [c for c in columns if c.name in data.schema.sensitive]
        label, part = spread_out(label, part, stratum, [c.codes for c in wanted], mask.spread)
    digest = digests([c.codes for c in columns], len(data))
    rows = in_order(digest, label)
    start = np.concatenate([[0], np.cumsum(np.bincount(label))])
    return Partition(label, part, rows, start)


def _check_strata(mask: ClusterShuffle, stratum: IntArray, unit: IntArray | None) -> None:
    k = mask.smallest
    sizes = np.bincount(stratum)
    largest = np.ones_like(sizes)
    if unit is not None:
        owner = np.zeros(int(unit.max()) + 1, np.int64)
        owner[unit] = stratum
        if (owner[unit] != stratum).any():
            raise MaskError(
                f"cluster_shuffle: some units ({mask.unit}) have records in more than one stratum",
                hint="take out of `within` what changes within a unit",
            )
        held = np.bincount(unit)
        np.maximum.at(largest, owner, held)
    few = sizes < k * largest
    if few.any():
        what = "the file" if len(sizes) == 1 else f"{int(few.sum()):,} of {len(sizes):,} strata"
        why = (
            f"fewer than k = {k} records"
            if unit is None
            else f"a unit with more than 1/{k} of the records, or fewer than {k} units"
        )
        raise MaskError(
            f"cluster_shuffle: {what} ha{'s' if len(sizes) == 1 or few.sum() == 1 else 've'} {why}",
            hint="stratify by fewer or coarser columns, or lower `smallest`",
        )


def _positions(
    seen: Sequence[Levels], first: IntArray, unit: IntArray | None, n: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Where each atom stands; a unit at the middle of its records."""
    if unit is None:
        return points(seen, first)
    # In the order of digests, so that no sum depends on the order of the records.
    order = np.argsort(digests([c.codes for c in seen], n), kind="stable")
    where = points(seen, order)
    held = np.bincount(unit)
    out = np.empty((len(first), where.shape[1]), np.float32)
    for u in range(where.shape[1]):
        middle = np.bincount(unit[order], where[:, u].astype(np.float64)) / held
        out[:, u] = middle[unit[first]]
    return out


def spread_out(
    label: IntArray, part: IntArray, stratum: IntArray, columns: Sequence[CodeArray], least: int
) -> tuple[IntArray, IntArray]:
    """Join each cluster with too few different values to its neighbours, until none has too few."""
    for codes in columns:
        few = np.bincount(stratum[_firsts(stratum, codes)]) < least
        if few.any():
            raise MaskError(
                "cluster_shuffle: a stratum has fewer different values of a sensitive column than `spread`",
                hint="stratify by fewer columns, or lower `spread`",
            )
    while True:
        n = len(part)
        short = np.zeros(n, np.bool_)
        for codes in columns:
            short |= np.bincount(label[_firsts(label, codes)], minlength=n) < least
        if not short.any():
            return label, part
        home = np.empty(n, np.int64)
        home[label] = stratum
        joined = np.zeros(n, np.bool_)  # whether a cluster joins the one before it
        for g in np.flatnonzero(short):
            if g + 1 < n and home[g + 1] == home[g] and not joined[g]:
                joined[g + 1] = True
            elif g > 0 and home[g - 1] == home[g]:
                joined[g] = True
        number = np.cumsum(~joined) - 1
        fresh = np.empty(number[-1] + 1, np.int64)
        fresh[number[::-1]] = part[::-1]
        label, part = number[label], fresh


def _firsts(group: IntArray, codes: CodeArray) -> IntArray:
    """A record of each pair of group and code."""
    _, first = np.unique(group * (int(codes.max(initial=0)) + 1) + codes, return_index=True)
    return np.asarray(first, dtype=np.int64)


# -- deal, and what to fall back to ---------------------------------------------------------------


def _dealt(
    mask: ClusterShuffle,
    columns: Sequence[Levels],
    codes: CodeArray,
    partition: Partition,
    draws: Draws,
    notes: Notes,
) -> tuple[list[Region], list[Dealt], Kept]:
    n, p = codes.shape
    cluster = partition.label[partition.rows]
    names = [c.name for c in columns]
    for keep in _LADDER[_LADDER.index(mask.keep) :]:
        what = kept(columns, keep)
        least = int(np.ceil(what.numbers / (MOST_KEPT * p)))
        if least > n:
            notes.warn(
                f"keep = {keep!r} would keep {what.numbers / (n * p):.2f} numbers a cell, more than "
                f"{MOST_KEPT}: less was kept"
            )
            continue
        found = regions(partition.sizes, partition.part, max(least, _LEAST_REGION))
        dealt = deal_all(codes, cluster, found, what, names, draws)
        together = np.concatenate([d.codes for d in dealt])
        counted = audit.wholes(columns, codes, together, cluster, draws)
        for name in ("whole", "whole_by_chance", "three", "three_by_chance", "rows"):
            notes.figure(f"audit_{name}", getattr(counted, name))
        if keep == "none" or not counted.too_many:
            return found, dealt, what
        notes.warn(
            f"keep = {keep!r} put {counted.whole:,} whole records and {counted.three:,} rows with three rare "
            f"values of one person together ({counted.whole_by_chance:.1f} and {counted.three_by_chance:.1f} "
            "by chance): less was kept"
        )
    raise AssertionError("the last keep always ends the loop")


def _places(partition: Partition, draws: Draws) -> IntArray:
    """Where each dealt row goes: a random one of its cluster's places."""
    from sfumato.kernels.clusters import by_group

    n = len(partition.rows)
    lot = draws.stream(purpose="rows").bits(0, n)
    cluster = np.repeat(np.arange(len(partition.sizes)), partition.sizes)
    out = np.empty(n, np.int64)
    out[in_order(lot, cluster)] = by_group(partition.label, np.arange(n), partition.start)
    return out


# -- what there is to say -------------------------------------------------------------------------


def _note(
    mask: ClusterShuffle,
    data: Microdata,
    columns: Sequence[Levels],
    codes: CodeArray,
    partition: Partition,
    found: Sequence[Region],
    dealt: Sequence[Dealt],
    what: Kept,
    notes: Notes,
) -> None:
    n, p = codes.shape
    sizes = partition.sizes
    notes.figure("clusters", len(sizes))
    notes.figure("smallest_cluster", int(sizes.min()))
    notes.figure("largest_cluster", int(sizes.max()))
    notes.figure("link_bound", len(sizes) / n)
    notes.figure("worst_link_bound", float(1 / sizes.min()))
    notes.figure("kept", what.keep)
    notes.figure("regions", len(found))
    notes.figure("kept_numbers_a_cell", max(what.numbers / ((r.end - r.begin) * p) for r in found))
    notes.figure("exchanges", sum(d.exchanges for d in dealt))
    notes.figure("moment_error_rms", float(np.sqrt(np.mean([d.rms**2 for d in dealt]))))
    notes.figure("moment_error_max", max(d.worst for d in dealt))
    exposed: list[str] = []
    for j, column in enumerate(columns):
        same = audit.constant(column, codes[:, j], partition.start)
        notes.figure("constant_cells", same.cells, column.name)
        notes.figure("certain_minority", same.certain, column.name)
        if column.name in data.schema.sensitive and 100 * same.certain > mask.certain_percent:
            exposed.append(f"{column.name} ({100 * same.certain:.0f}%)")
        rare = int(((column.counts > 0) & (column.counts < mask.blur)).sum())
        if rare:
            notes.warn(
                f"{column.name} has {rare:,} value{'s' if rare != 1 else ''} that fewer than {mask.blur} "
                "records hold and that can't be averaged: recode them"
            )
    if exposed:
        raise MaskError(
            "cluster_shuffle: whole clusters share an unusual value of "
            + ", ".join(exposed)
            + f" of its holders, more than {mask.certain_percent:g}%",
            hint="make the column `blind`, ask for `spread = 2`, or raise `smallest`",
        )
    region = np.empty(len(sizes), np.int64)
    for at, one in enumerate(found):
        region[(partition.start[:-1] >= one.begin) & (partition.start[:-1] < one.end)] = at
    error = np.array([d.worst for d in dealt])
    notes.add_log(
        pl.DataFrame(
            {
                "record": np.arange(n, dtype=np.uint32),
                "cluster": partition.label.astype(np.uint32),
                "region": region[partition.label].astype(np.uint32),
                "moment_error": error[region[partition.label]],
                "kept": pl.Series([what.keep]).new_from_index(0, n),
            }
        )
    )
