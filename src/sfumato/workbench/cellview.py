"""The Keys screen's numbers: unsafe combinations by key and dimension, now and as collected, from the cells.

The records are looked at once, when the keys are coded; every recode, truncation, tolerance, dimension and
choice of keys after that is counted on the cells.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from sfumato.cells import CellTable, combinations_up_to
from sfumato.cells.cells import Recoder
from sfumato.cells.marginals import Marginals, marginals
from sfumato.contract.mask import Mask, Notes
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError
from sfumato.plan.audience import BATTERY
from sfumato.plan.plan import Plan
from sfumato.run.exposure import dealt_group, released_columns

MOST_KEYS: Final = 12
"""More keys than this are looked at in sets of at most three, as everybody who attacks does."""
DEFAULT_TOLERANCE: Final = 3
TOLERANCES: Final = (2, 3, 4, 5, 7, 10, 15, 20)
LISTED: Final = 1_000


@dataclass(frozen=True)
class Scenario:
    """What is counted: which keys may be known, how many of them together, and from how many records on a
    combination is safe. It stands in the plan, as its ``tolerance`` measure."""

    keys: tuple[str, ...]
    tolerance: int
    dimension: int
    at: int | None
    """Which of the plan's measures says so."""

    @property
    def key_sets(self) -> list[tuple[str, ...]]:
        return combinations_up_to(self.keys, self.dimension)


def all_keys(data: Microdata, plan: Plan) -> tuple[str, ...]:
    """Keys and areas that are released."""
    named = dict.fromkeys([*data.schema.keys, *data.schema.geography])
    return tuple(k for k in named if k in data.columns and k not in plan.release.drop)


def scenario_of(data: Microdata, plan: Plan) -> Scenario:
    """By the plan's tolerance measure, else by its limit on groups, else by what is usual."""
    keys, tolerance, dimension, at = all_keys(data, plan), DEFAULT_TOLERANCE, None, None
    for limit in plan.limits:
        if limit.measure == BATTERY and limit.figure == "group" and limit.at_least:
            tolerance = max(2, int(limit.at_least))
    for place, one in enumerate(plan.measures):
        if one.name == "tolerance":
            said = one.to_dict()
            keys = tuple(k for k in said.get("keys", keys) if k in data.columns) or keys
            tolerance, dimension, at = (
                int(getattr(one, "tolerance", tolerance)),
                said.get("max_dimension"),
                place,
            )
            if dimension is None:
                dimension = len(keys)
            break
    most = len(keys) if len(keys) <= MOST_KEYS else 3
    return Scenario(keys, tolerance, max(1, min(dimension or most, len(keys), most)), at)


@dataclass(frozen=True)
class View:
    """The screen's figures for one state of the plan."""

    scenario: Scenario
    table: CellTable
    classes: dict[str, pl.Series]
    now: Marginals
    before: Marginals
    recoded: dict[str, Mask]
    """The step that recodes a key, the last where several do."""
    untold: tuple[str, ...]
    """Steps that change keys in a way that cells can't show."""
    safe_by: str | None
    """The step after which every combination is safe by promise."""
    dealt: int | None = None
    """Where that step deals every released value anew: among how many records at least."""
    after: tuple[tuple[str, dict[str, pl.Series]], ...] = ()
    """The classes of all keys after each step that recodes one."""

    @cached_property
    def unsafe(self) -> int:
        """Unsafe records after all steps that can be told."""
        return 0 if self.safe_by else self.now.records_unsafe

    @cached_property
    def unsafe_after(self) -> dict[str, int]:
        """Unsafe records after each step that recodes a key or makes every combination safe."""
        widest = [s for s in self.scenario.key_sets if len(s) == self.scenario.dimension]
        out = {}
        for at, (label, classes) in enumerate(self.after):
            last = at == len(self.after) - 1
            found = self.now if last else marginals(self.table, classes, self.scenario.tolerance, widest)
            out[label] = found.records_unsafe
        return out if self.safe_by is None else {**out, self.safe_by: 0}

    def matrix(self) -> list[dict[str, Any]]:
        """One row a key: unsafe combinations that it takes part in, by dimension, now and as collected."""
        out = []
        for key in self.scenario.keys:
            row: dict[str, Any] = {
                "key": key,
                "levels": self.now.levels[key],
                "levels_before": self.before.levels[key],
                "bits": self.now.entropy[key],
                "bits_before": self.before.entropy[key],
                "cells": [],
            }
            for d in range(1, self.scenario.dimension + 1):
                row["cells"].append(self._sum(d, key))
            out.append(row)
        return out

    def totals(self) -> list[tuple[int, int]]:
        return [self._sum(d, None) for d in range(1, self.scenario.dimension + 1)]

    def _sum(self, dimension: int, key: str | None) -> tuple[int, int]:
        at = [k for k, s in enumerate(self.now.key_sets) if len(s) == dimension and (key is None or key in s)]
        return int(self.now.unsafe_combinations[at].sum()), int(self.before.unsafe_combinations[at].sum())

    def key_sets(self) -> list[dict[str, Any]]:
        """Key sets, the worst first."""
        order = np.lexsort((-self.now.unsafe_combinations, -self.now.unsafe_records))
        return [
            {
                "set": self.now.key_sets[k],
                "combinations": int(self.now.combinations[k]),
                "unsafe": int(self.now.unsafe_combinations[k]),
                "records": int(self.now.unsafe_records[k]),
            }
            for k in order.tolist()
        ]

    def curve(self) -> list[dict[str, int]]:
        """Unsafe records at other tolerances, over all key sets together."""
        before = self.before.unsafe_at
        return [{"tolerance": t, "now": n, "before": before[t]} for t, n in self.now.unsafe_at.items()]

    @cached_property
    def all_unsafe(self) -> list[dict[str, Any]]:
        return self._listed(None)

    def unsafe_combinations(self, key_set: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
        """Unsafe combinations with their values and counts: of one key set, or the shortest first."""
        return self.all_unsafe if key_set is None else self._listed(key_set)

    def _listed(self, key_set: tuple[str, ...] | None) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        sets = (
            [key_set]
            if key_set
            else sorted(
                (s for s, n in zip(self.now.key_sets, self.now.unsafe_combinations, strict=True) if n),
                key=len,
            )
        )
        small = self.small
        for names in sets:
            if len(out) >= LISTED:
                break
            _, first = small.groups(names)
            frequency = small.frequencies(names)[first]
            bad = np.flatnonzero(frequency < self.scenario.tolerance)
            bad = bad[np.argsort(frequency[bad], kind="stable")][: LISTED - len(out)]
            columns = {}
            for key in names:
                codes = small.codes[small.position(key)][first[bad]].astype(np.int64)
                levels = small.levels[key].cast(pl.String).to_list()
                columns[key] = [levels[c] if c < len(levels) else None for c in codes.tolist()]
            for k, n in enumerate(frequency[bad].tolist()):
                values = {key: columns[key][k] for key in names}
                out.append({"values": values, "keys": len(names), "records": int(n)})
        return sorted(out, key=lambda r: (r["records"], r["keys"]))

    @cached_property
    def small(self) -> CellTable:
        """The cells after the recodes."""
        out = self.table
        for key, classes in self.classes.items():
            out = out.recode(key, classes)
        return out


@dataclass
class CellViews:
    """Views of one file: coded keys and counts as collected are kept."""

    _tables: dict[Any, CellTable] = field(default_factory=dict)
    _before: dict[Any, Marginals] = field(default_factory=dict)
    _views: dict[Any, View] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def view(self, data: Microdata, plan: Plan, key: str) -> View | None:
        """The view of a plan (``key`` names plan and file); None where there is no key."""
        with self._lock:
            if key in self._views:
                return self._views[key]
            scenario = scenario_of(data, plan)
            if not scenario.keys:
                return None
            said = (scenario.keys, tuple(repr(data.schema[k]) for k in scenario.keys))
            if said not in self._tables:
                if len(self._tables) > 8:
                    self._tables.clear()
                self._tables[said] = CellTable.of(data, scenario.keys)
            table = self._tables[said]
            once = (said, scenario.tolerance, scenario.dimension)
            if once not in self._before:
                if len(self._before) > 64:
                    self._before.clear()
                self._before[once] = marginals(table, {}, scenario.tolerance, scenario.key_sets, TOLERANCES)
            view = viewed(data, plan, scenario, table, self._before[once])
            if len(self._views) > 64:
                self._views.clear()
            self._views[key] = view
            return view


def viewed(data: Microdata, plan: Plan, scenario: Scenario, table: CellTable, before: Marginals) -> View:
    classes: dict[str, pl.Series] = {}
    recoded: dict[str, Mask] = {}
    untold: list[str] = []
    after: list[tuple[str, dict[str, pl.Series]]] = []
    safe_by = None
    widest = [s for s in scenario.key_sets if len(s) == scenario.dimension]
    for label, step in zip(plan.step_ids(), plan.steps, strict=True):
        if isinstance(step, Recoder):
            if step.column in scenario.keys:
                try:
                    held = classes.get(step.column, table.levels[step.column])
                    classes[step.column] = reclassed(step, held, data)
                    recoded[step.column] = step
                    after.append((label, dict(classes)))
                except SfumatoError:
                    untold.append(label)
            continue
        if all(step.makes_safe(data, s, scenario.tolerance) for s in widest):
            safe_by = label
        elif _changed(step, data) & set(scenario.keys):
            untold.append(label)
            safe_by = None
    dealt = dealt_group(
        data, released_columns(data, data, plan.release.drop), [(m, Notes()) for m in plan.steps]
    )
    among = dealt[1] if dealt is not None and dealt[1] >= scenario.tolerance else None
    if dealt is not None and among is not None:
        safe_by = plan.step_ids()[dealt[0]]
        untold = [label for label in untold if label != safe_by]
    now = marginals(table, classes, scenario.tolerance, scenario.key_sets, TOLERANCES)
    return View(scenario, table, classes, now, before, recoded, tuple(untold), safe_by, among, tuple(after))


def reclassed(step: Recoder, levels: pl.Series, data: Microdata) -> pl.Series:
    """The class of each level; a level that is missing already stays so."""
    distinct = levels.drop_nulls().unique(maintain_order=True)
    found = step.class_of(distinct, data.schema[step.column])
    to = dict(zip(distinct.to_list(), found.to_list(), strict=True))
    listed = [None if v is None else to[v] for v in levels.to_list()]
    return pl.Series(step.column, listed, strict=False, dtype=found.dtype)


def _changed(step: Mask, data: Microdata) -> set[str]:
    try:
        return set(step.changes(data))
    except SfumatoError:
        return set()
