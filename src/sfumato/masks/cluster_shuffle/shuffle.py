"""The work of a cluster shuffle, from the file to the file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from sfumato.contract.mask import Notes
from sfumato.data.edit_check import edits_of
from sfumato.data.following import following
from sfumato.data.microdata import IntArray, Microdata
from sfumato.data.rules import RatioOf
from sfumato.draws import Draws
from sfumato.errors import MaskError
from sfumato.masks.cluster_shuffle import audit
from sfumato.masks.cluster_shuffle.deal import Dealt, Region, Work, deal_again, deal_all, regions
from sfumato.masks.cluster_shuffle.edited import edited
from sfumato.masks.cluster_shuffle.keeping import MOST_KEPT, Keep, Kept, kept
from sfumato.masks.cluster_shuffle.register import people
from sfumato.masks.cluster_shuffle.rules import added_up, divided, total_of
from sfumato.masks.cluster_shuffle.settings import Settings
from sfumato.stats.clusters import in_order
from sfumato.stats.levels import CodeArray, Levels, blurred, levels_of
from sfumato.stats.partition import Partition, coded_columns, partitioned
from sfumato.stats.relations import relations

_LADDER: tuple[Keep, ...] = ("pairs", "moments", "values", "none")
_LEAST_REGION = 4096
_MOST_LOOSE = 0.25
"""In how many clusters, at most, nothing is repaired because a repair put people together again."""
_LOOSENED = 8
"""How often clusters are dealt anew before less is kept in all."""


def shuffled(mask: Settings, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
    told = following(data.schema, mask.columns)
    totals = [total_of(data, total, parts) for total, parts in told.totals]
    columns = coded(mask, data)
    partition = partitioned(
        data,
        columns,
        [c.name for c in columns if c.name in told.dealt and c.name not in mask.blind_columns(data.schema)],
        smallest=mask.smallest,
        within=mask.within,
        unit=mask.unit,
        spread=mask.spread,
        span_percent=mask.span_percent,
    )
    codes = np.empty((len(data), len(columns)), np.int32)
    for j, one in enumerate(columns):
        codes[:, j] = one.codes[partition.rows]
    found, dealt, what = _dealt(mask, data, columns, codes, partition, draws, notes)
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
    by_name = {t.name: t for t in totals}
    for rule in told.rules:
        if isinstance(rule, RatioOf):
            made = divided(rule, data, masked)
        else:
            made = added_up(by_name[rule.result], data, masked, spare.get(rule.result))
        masked = masked.with_columns([made])
    _note(mask, data, columns, codes, partition, found, dealt, what, notes)
    return masked


# -- columns ----------------------------------------------------------------------------------------


def coded(mask: Settings, data: Microdata) -> list[Levels]:
    """Every dealt column in codes, blurred; what totals have beyond their parts comes last."""
    told = following(data.schema, mask.columns)
    out = coded_columns(data, told, mask.blur)
    for total, parts in told.totals:
        made = total_of(data, total, parts)
        if not made.exact and mask.sum_rule == "residual":
            frame = pl.DataFrame({total: made.residual})
            out.append(blurred(levels_of(Microdata(frame), total), mask.blur))
    return out


# -- deal, and what to fall back to ---------------------------------------------------------------


def _dealt(
    mask: Settings,
    data: Microdata,
    columns: Sequence[Levels],
    codes: CodeArray,
    partition: Partition,
    draws: Draws,
    notes: Notes,
) -> tuple[list[Region], list[Dealt], Kept]:
    n, p = codes.shape
    aims = tuple(None if c.aim is None else c.aim[partition.rows] for c in columns)
    names = tuple(c.name for c in columns)
    work = Work(codes, partition.label[partition.rows], names, aims, edited(columns, edits_of(data.schema)))
    for keep in _LADDER[_LADDER.index(mask.keep) :]:
        what = kept(columns, keep, data.schema.weight)
        if what.numbers > MOST_KEPT * n * p:
            what = kept(columns, keep, more=False)
        least = int(np.ceil(what.numbers / (MOST_KEPT * p)))
        if least > n:
            notes.warn(
                f"keep = {keep!r} would keep {what.numbers / (n * p):.2f} numbers a cell, more than "
                f"{MOST_KEPT}: less was kept"
            )
            continue
        found = regions(partition.sizes, partition.part, max(least, _LEAST_REGION))
        dealt, counted, loose = _loosened(work, columns, found, what, draws)
        for name in ("whole", "whole_by_chance", "three", "three_by_chance", "rows"):
            notes.figure(f"audit_{name}", getattr(counted, name))
        notes.figure("clusters_without_repair", loose)
        if keep == "none" or not counted.too_many:
            return found, dealt, what
        notes.warn(
            f"keep = {keep!r} put {counted.whole:,} whole records and {counted.three:,} rows with three rare "
            f"values of one person together ({counted.whole_by_chance:.1f} and {counted.three_by_chance:.1f} "
            "by chance): less was kept"
        )
    raise AssertionError("the last keep always ends the loop")


def _loosened(
    work: Work, columns: Sequence[Levels], found: Sequence[Region], what: Kept, draws: Draws
) -> tuple[list[Dealt], audit.Wholes, int]:
    """The regions dealt. Where the repair puts too many people together again, the clusters where it does are
    dealt anew and not repaired, if these are few; also told are what is counted then, and how many
    clusters these are."""
    chance = audit.by_chance(columns, work.codes, work.cluster, draws)
    dealt = deal_all(work, found, what, draws)
    loose = np.zeros(int(work.cluster[-1]) + 1, np.bool_)
    for turn in range(_LOOSENED + 1):
        codes = np.concatenate([d.codes for d in dealt])
        counted = audit.wholes(columns, work.codes, codes, work.cluster, chance)
        if what.keep == "none" or not counted.too_many or turn == _LOOSENED:
            break
        tight = audit.tight_clusters(columns, work.codes, codes, work.cluster)
        loose |= tight
        if loose.mean() > _MOST_LOOSE:
            break
        dealt = deal_again(work, found, what, dealt, draws, turn + 1, tight)
    return dealt, counted, int(loose.sum())


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
    mask: Settings,
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
    if data.schema.weight in {c.name for c in columns}:
        notes.figure("weighted_moments_kept", what.weights is not None)
    notes.figure("regions", len(found))
    notes.figure("kept_numbers_a_cell", max(what.numbers / ((r.end - r.begin) * p) for r in found))
    notes.figure("exchanges", sum(d.exchanges for d in dealt))
    notes.figure("moment_error_rms", float(np.sqrt(np.mean([d.rms**2 for d in dealt]))))
    notes.figure("moment_error_max", max(d.worst for d in dealt))
    if edits_of(data.schema):
        notes.figure("records_whose_edited_columns_stay_together", sum(d.together for d in dealt))
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
    if mask.unit is not None:
        shared = [c.name for c in columns if _shared(c.codes, data.households(mask.unit)[0])]
        if shared:
            notes.warn(
                f"{', '.join(shared)} is the same for all records of a unit ({mask.unit}) and is dealt "
                "record by record: it will differ within units"
            )
    tied = [frozenset(rule.members) for rule in following(data.schema, mask.columns).rules]
    tied += [frozenset(e.columns) for e in edits_of(data.schema)]
    found_so = relations(data, following(data.schema, mask.columns).dealt, tied)
    if found_so:
        notes.figure("undeclared_relations", [str(r) for r in found_so])
        told = "; ".join(str(r) for r in found_so[:5]) + (" …" if len(found_so) > 5 else "")
        notes.warn(f"{told}: what isn't declared erodes ({found_so[0].hint})")
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
                "person": people(data),
                "region": region[partition.label].astype(np.uint32),
                "moment_error": error[region[partition.label]],
                "kept": pl.Series([what.keep]).new_from_index(0, n),
                "more": pl.Series([what.more]).new_from_index(0, n),
            }
        )
    )


def _shared(codes: CodeArray, unit: IntArray) -> bool:
    """Whether all records of a unit have one value, in a file where units have several and values differ."""
    first = np.empty(int(unit.max()) + 1, np.int32)
    first[unit] = codes
    return bool((first[unit] == codes).all() and len(first) < len(unit) and (codes != codes[0]).any())
