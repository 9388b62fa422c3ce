"""What a group swap tells: figures by pair and stratum, warnings, and who moved."""

from __future__ import annotations

import numpy as np
import polars as pl

from sfumato.contract.mask import Notes
from sfumato.data.microdata import IntArray
from sfumato.masks.group_swap.swap import SwapPlan


def note_swap(
    plan: SwapPlan,
    old: IntArray,
    now: IntArray,
    moves: int,
    notes: Notes,
    *,
    matched: bool,
    several: bool,
) -> None:
    """What was swapped, by pair and by stratum, and the internal list of who moved."""
    moved = np.flatnonzero(now != old)
    notes.figure("records_moved", len(moved))
    notes.figure("moves", moves)
    notes.figure("terms", list(plan.term_names))
    notes.figure("pairs_fitted", plan.fits)
    if matched:
        notes.figure("matchings_cut_short", plan.cut_short)
    sizes = np.diff(plan.starts)
    away = np.bincount(old[moved], minlength=len(sizes))
    for s, label in enumerate(plan.labels):
        notes.figure("moved_percent", round(100.0 * int(away[s]) / max(int(sizes[s]), 1), 2), label)
    for p, columns in zip(plan.pairs, plan.columns, strict=True):
        name = f"{plan.labels[p.pair[0]]} | {plan.labels[p.pair[1]]}"
        if several:
            notes.figure("columns_changed", columns, name)
        notes.figure("u_p", p.u, name)
        notes.figure("capacity", p.capacity, name)
        notes.figure("swapped_each_way", p.count, name)
    for warning in plan.warnings:
        notes.warn(warning)
    wanted = sum(2 * p.count for p in plan.pairs)
    if moves < wanted:
        notes.warn(f"{moves:,} moves where {wanted:,} were asked for: too few records hadn't moved yet")
    if len(moved) < moves:
        notes.warn(
            f"{moves - len(moved):,} of {moves:,} moves were of records that moved twice, some of them "
            "back to their own stratum; `move_again = false` prevents it"
        )
    labels = np.array(plan.labels, dtype=object)
    notes.add_log(
        pl.DataFrame(
            {
                "record": plan.rows[moved],
                "from": pl.Series(labels[old[moved]].tolist(), dtype=pl.String),
                "to": pl.Series(labels[now[moved]].tolist(), dtype=pl.String),
            }
        ).sort("record")
    )
