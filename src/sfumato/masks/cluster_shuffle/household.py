"""The work of a shuffle of households: one row a household, dealt in blocks among those of one type."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from sfumato.contract.mask import Notes
from sfumato.data.edit_check import edits_of
from sfumato.data.following import following
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.data.rules import RatioOf
from sfumato.draws import Draws
from sfumato.errors import InputError, MaskError
from sfumato.masks.cluster_shuffle import audit, rebuilt
from sfumato.masks.cluster_shuffle.age_blur import AgeBlur
from sfumato.masks.cluster_shuffle.block_deal import (
    Pools,
    Repaired,
    deal_blocks,
    mended,
    pools,
    repaired,
)
from sfumato.masks.cluster_shuffle.blocks import Wide
from sfumato.masks.cluster_shuffle.clauses import Clauses, add_edits, of_families
from sfumato.masks.cluster_shuffle.keeping import MOST_KEPT
from sfumato.masks.cluster_shuffle.reading import Households, read
from sfumato.masks.cluster_shuffle.register import people
from sfumato.masks.cluster_shuffle.rules import added_up, divided, total_of
from sfumato.masks.cluster_shuffle.settings import Settings
from sfumato.masks.cluster_shuffle.shapes import FEWEST, ShapeBound, shape_bound, types
from sfumato.stats.clusters import atoms, digests, gather, in_order
from sfumato.stats.levels import CodeArray
from sfumato.stats.partition import spread_out

_DEALS = 8


def shuffled_households(mask: Settings, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
    told = following(data.schema, mask.columns)
    homes = read(mask, data, told)
    mem, wide = homes.mem, homes.wide
    label = clusters(mask, data, homes)
    bound = shape_bound(mem.shape, label, mem.sizes)
    _refuse_rare(mask, bound, notes)
    rows = in_order(digests([c + np.int32(1) for c in wide.codes.T], len(label)), label)
    cluster = label[rows]
    wide = replace(wide, codes=wide.codes[rows], columns=tuple(
        replace(c, levels=c.levels.with_codes(c.levels.codes[rows])) for c in wide.columns
    ))  # fmt: skip
    there = mem.there[rows]
    between = pools(cluster, there, mem.adults)
    edits = of_families(wide, mem, homes.age)
    slots = range(mem.who.shape[1])
    add_edits(edits, edits_of(data.schema), wide.anywhere, lambda w: wide.columns[w].levels, slots)
    dealt = _dealt(mask, wide, cluster, mem.shape[rows], between, edits, homes, draws, notes)
    # Each row to a random household of its cluster and shape, these in the file's order.
    pair = np.unique(label * (int(mem.shape.max()) + 1) + mem.shape, return_inverse=True)[1].ravel()
    lot = draws.stream(purpose="rows").uniform(0, len(rows))
    place = np.empty(len(rows), np.int64)
    place[np.lexsort((lot, pair[rows]))] = np.argsort(pair, kind="stable")
    new = _columns(data, homes, dealt.codes, place)
    masked = data.with_columns(new)
    for rule in told.rules:
        if isinstance(rule, RatioOf):
            made = divided(rule, data, masked)
        else:
            total = total_of(data, rule.result, rule.parts)
            spare = next((c for c in homes.columns if c.name == rule.result), None)
            residual = None if spare is None else spare.numbers[_codes(homes, dealt.codes, place, spare.name)]
            made = added_up(total, data, masked, residual)
        masked = masked.with_columns([made])
    for one in homes.follows:
        values = one.values(masked, mem.of, homes.first, homes.age)
        masked = masked.with_columns([rebuilt.in_type(data, one.name, values[mem.of])])
    _note(mask, data, homes, label, bound, dealt, place, notes)
    return masked


# -- clusters -------------------------------------------------------------------------------------


def clusters(mask: Settings, data: Microdata, homes: Households) -> IntArray:
    """Each household's cluster: k or more of one type that are alike."""
    mem, wide = homes.mem, homes.wide
    code, _ = data.codes(mask.within)
    stratum = code[homes.first]
    if (stratum[mem.of] != code).any():
        raise InputError(
            "some households have members in more than one stratum",
            hint="take out of `within` what changes within a household",
        )
    few = np.bincount(stratum) < mask.smallest
    if few.any():
        raise InputError(
            f"{int(few.sum()):,} of {len(few):,} strata have fewer than k = {mask.smallest} households",
            hint="stratify by fewer or coarser columns, or lower `smallest`",
        )
    sexes = [wide.where(c.name, s) for s in (0, 1) for c in homes.columns if c.name == homes.sex]
    kind = types(mem, wide.codes[:, sexes] if len(sexes) == 2 else None, stratum, mask.smallest)
    blind = set(mask.blind_columns(data.schema))
    tables = wide.table("moments")
    seen: list[int] = []
    made: list[FloatArray] = []
    for block in wide.blocks:
        own = [
            w for w in range(block.begin, block.end) if tables[w] and wide.columns[w].levels.name not in blind
        ]
        many = sum(len(tables[w]) for w in own)
        heavy = 2.0 if block.name in ("couple", "dependants") else 1.0
        weight = heavy / (2.0 if wide.columns[block.begin].slot > 1 and heavy == 1.0 else 1.0)
        for w in own:
            codes = wide.codes[:, w]
            made += [
                np.where(codes >= 0, f[np.maximum(codes, 0)], 0.0) * weight / np.sqrt(many) for f in tables[w]
            ]
        seen += own
    found = atoms([wide.codes[:, w] + np.int32(1) for w in seen], kind)
    points = np.column_stack([*made, np.zeros(len(kind))]).astype(np.float32)[found.first]
    got = gather(points, found, kind[found.first], mask.smallest)
    label = got.label[found.of]
    if mask.spread > 1:
        part = np.zeros(got.n_clusters, np.int64)
        wanted = [
            c.levels.codes
            for c in wide.columns
            if c.levels.name in data.schema.sensitive and c.slot in (-1, 0)
        ]
        label, _ = spread_out(label, part, stratum, wanted, mask.spread)
    return label


def _refuse_rare(mask: Settings, bound: ShapeBound, notes: Notes) -> None:
    for name, value in bound.figures().items():
        notes.figure(name, value)
    sizes = ", ".join(str(s) for s in bound.rare_sizes)
    if bound.rare and mask.rare_shapes == "refuse":
        raise MaskError(
            f"cluster_shuffle: {bound.rare:,} households (of {sizes} members) have a shape (partner, numbers "
            f"of others of {mask.adult_age} or more and below it) that fewer than {FEWEST} households have: "
            "whoever knows it finds them",
            hint="leave out members of large households, or the households; raise or lower `adult_age`; "
            'or accept that they are found: rare_shapes = "accept"',
        )
    if bound.rare:
        notes.warn(
            f"{bound.rare:,} households (of {sizes} members) have a shape that fewer than {FEWEST} "
            "households have: whoever knows it finds their row, with the ages of its dependants"
        )
    few = float((bound.bound > 1 / mask.smallest + 1e-12).mean())
    if few:
        notes.warn(
            f"{few:.1%} of the households hide among fewer than {mask.smallest} of their shape: the "
            f"bound is {bound.mean:.3f} on average and {bound.worst:.2f} at most, not 1/{mask.smallest}"
        )


# -- the deal -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dealt:
    codes: CodeArray
    keep: str
    repair: Repaired
    numbers_a_cell: float
    edits_before: int
    edits_dealt: int
    kept_together: int
    ages_not_blurred: int
    whole: int
    whole_by_chance: float


def _dealt(
    mask: Settings, wide: Wide, cluster: IntArray, shape: IntArray, between: Pools, edits: Clauses,
    homes: Households, draws: Draws, notes: Notes,
) -> Dealt:  # fmt: skip
    from sfumato.kernels.blocks import count_broken

    blur = AgeBlur(mask, wide, cluster, shape, homes, draws)
    own, few = blur.apart(between)
    told = edits.arrays()
    before = int((count_broken(wide.codes, *told, *wide.numbers()) > 0).sum()) if edits.literals else 0
    cells = int((wide.codes >= 0).sum())
    ladder = ("none",) if mask.keep == "none" else ("moments", "values", "couples", "none")
    chance = [
        _wholes(
            wide.codes, deal_blocks(wide, own, cluster, between, draws, f"audit {t}", tied=False), cluster
        )
        for t in range(_DEALS)
    ]
    for keep in ladder:
        tables = wide.table(keep)
        sizes = [len(t) for t in tables]
        p = len(wide.blocks)
        numbers = (sum(sizes) ** 2 - sum(s * s for s in sizes)) // 2 + (
            p * (p - 1) // 2 if keep != "none" else 0
        )
        if numbers > MOST_KEPT * cells:
            notes.warn(
                f"keep = {keep!r} would keep {numbers / cells:.2f} numbers a cell, more than {MOST_KEPT}: "
                "less was kept"
            )
            continue
        codes = deal_blocks(wide, own, cluster, between, draws, tied=keep != "none")
        dealt, stuck = mended(wide, codes, between, edits, draws)
        frozen = np.isin(cluster, cluster[stuck])
        if frozen.any():
            codes = blur.together(codes, frozen, edits)
        repair = (
            repaired(wide, wide.codes, codes, between, edits, frozen, tables, draws)
            if keep != "none"
            else Repaired(0, 0, 0.0, 0.0, 0.0)
        )
        whole = _wholes(wide.codes, codes, cluster)
        if keep == "none" or not audit.too_many(float(whole), np.array(chance, np.float64)):
            return Dealt(
                codes, keep, repair, numbers / max(cells, 1), before, dealt, int(frozen.sum()), few, whole,
                float(np.mean(chance)),
            )  # fmt: skip
        notes.warn(
            f"keep = {keep!r} put {whole:,} whole households together ({np.mean(chance):.1f} by chance): "
            "less was kept"
        )
    raise AssertionError("the last keep always ends the loop")


def _wholes(own: CodeArray, dealt: CodeArray, cluster: IntArray) -> int:
    """Rows that are a whole household of their cluster."""
    sides = [
        digests([c + np.int32(1) for c in x.T] + [cluster.astype(np.int32)], len(x)) for x in (own, dealt)
    ]
    return int(np.isin(sides[1], sides[0]).sum())


# -- back to records ------------------------------------------------------------------------------


def _codes(homes: Households, codes: CodeArray, place: IntArray, name: str) -> CodeArray:
    """A column's new codes, by record."""
    out = np.zeros(len(homes.mem.of), np.int32)
    for w, column in enumerate(homes.wide.columns):
        if column.levels.name != name or column.source < 0:
            continue
        if column.slot < 0:
            by_home = np.empty(len(place), np.int32)
            by_home[place] = codes[:, w]
            return by_home[homes.mem.of]
        who = homes.mem.seats[place, column.slot]
        out[who[who >= 0]] = codes[who >= 0, w]
    return out


def _columns(data: Microdata, homes: Households, codes: CodeArray, place: IntArray) -> dict[str, pl.Series]:
    new: dict[str, pl.Series] = {}
    for column in homes.columns:
        if column.name in data.schema.sums:
            continue
        take = pl.Series(_codes(homes, codes, place, column.name).astype(np.uint32))
        new |= {name: values.gather(take) for name, values in column.values.items()}
    return new


# -- what there is to say -------------------------------------------------------------------------


def _note(
    mask: Settings, data: Microdata, homes: Households, label: IntArray, bound: ShapeBound, dealt: Dealt,
    place: IntArray, notes: Notes,
) -> None:  # fmt: skip
    mem = homes.mem
    sizes = np.bincount(label)
    figures = {
        "households": len(label),
        "clusters": len(sizes),
        "smallest_cluster": round(1 / bound.worst),
        "fewest_households_of_a_cluster": int(sizes.min()),
        "largest_cluster": int(sizes.max()),
        "link_bound": bound.mean,
        "worst_link_bound": bound.worst,
        "kept": dealt.keep,
        "kept_numbers_a_cell": dealt.numbers_a_cell,
        "exchanges": dealt.repair.exchanges,
        "exchanges_refused": dealt.repair.refused,
        "moment_error_rms": dealt.repair.rms,
        "moment_error_max": dealt.repair.worst,
        "edits_broken_before": dealt.edits_before,
        "edits_broken_by_the_deal": dealt.edits_dealt,
        "households_whose_ages_stay_together": dealt.kept_together,
        "households_with_ages_as_they_were": dealt.ages_not_blurred,
        "audit_whole": dealt.whole,
        "audit_whole_by_chance": dealt.whole_by_chance,
        "rebuilt": [str(f) for f in homes.follows],
    }
    for name, value in figures.items():
        notes.figure(name, value)
    rows = np.argsort(label[mem.of], kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(label[mem.of]))])
    own = np.argsort(label, kind="stable")
    begin = np.concatenate([[0], np.cumsum(sizes)])
    exposed = []
    for column, shared in zip(homes.columns, homes.shared, strict=True):
        codes, at = (column.codes[own], begin) if shared else (column.codes[rows], start)
        same = audit.constant(column, codes, at)
        notes.figure("constant_cells", same.cells, column.name)
        notes.figure("certain_minority", same.certain, column.name)
        if column.name in data.schema.sensitive and 100 * same.certain > mask.certain_percent:
            exposed.append(f"{column.name} ({100 * same.certain:.0f}%)")
    if exposed:
        raise MaskError(
            f"cluster_shuffle: whole clusters share an unusual value of {', '.join(exposed)} of its holders, "
            f"more than {mask.certain_percent:g}%",
            hint="make the column `blind`, ask for `spread = 2`, or raise `smallest`",
        )
    slot = np.empty(len(mem.of), np.int64)
    where = np.broadcast_to(np.arange(mem.who.shape[1]), mem.who.shape)
    slot[mem.seats[mem.there]] = where[mem.there]
    n = len(mem.of)
    log = {
        "record": np.arange(n, dtype=np.uint32),
        "cluster": label[mem.of].astype(np.uint32),
        "person": people(data),
        "slot": slot.astype(np.uint16),
        "region": np.zeros(n, np.uint32),
        "moment_error": np.full(n, dealt.repair.worst),
        "kept": pl.Series([dealt.keep]).new_from_index(0, n),
    }
    notes.add_log(pl.DataFrame(log))
