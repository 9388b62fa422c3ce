"""The risk measures of a file side by side: the plan's own and the usual ones, before and after recodes.

Only what can be counted without a run is here: measures of one file, on the data as they are and as the
plan's recodes leave them (steps that treat each value by itself, without draws). For a plan of such steps
the figures after are those that a run gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sfumato import registry
from sfumato.contract.context import Context
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.per_record import by_group
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.errors import ParameterError, SfumatoError, did_you_mean
from sfumato.plan.plan import Plan


@dataclass(frozen=True)
class Shown:
    """One measure: what it found before and after, or why it couldn't be taken."""

    measure: RiskMeasure
    of_plan: bool
    before: Result | None = None
    after: Result | None = None
    groups: pl.DataFrame | None = None
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure.id or self.measure.name,
            "of_plan": self.of_plan,
            "setting": self.measure.setting,
            "assumes": self.measure.assumes,
            "before": self.before.to_dict() if self.before is not None else None,
            "after": self.after.to_dict() if self.after is not None else None,
            "groups": self.groups.to_dicts() if self.groups is not None else None,
            "problem": self.problem or None,
        }


@dataclass(frozen=True)
class Panel:
    """All of them, with the steps that the figures after include and those that only a run can."""

    shown: list[Shown]
    recodes: list[str]
    not_shown: list[str]


def panel(plan: Plan, data: Microdata, *, names: Sequence[str] = (), by: Sequence[str] = ()) -> Panel:
    """Take the measures: those named, else the plan's own and the usual ones of such a file."""
    strange = [c for c in by if c not in data.columns]
    if strange:
        raise ParameterError(
            f"there is no column {strange[0]!r} to group by", hint=did_you_mean(strange[0], data.columns)
        )
    recoded, recodes, others = _recoded(plan, data)
    shown = []
    for measure, of_plan in _chosen(plan, data, names):
        try:
            before = measure.measure(data)
            after = measure.measure(recoded, steps=plan.steps) if recodes else None
        except SfumatoError as problem:
            shown.append(Shown(measure, of_plan, problem=problem.message))
            continue
        last, file = (before, data) if after is None else (after, recoded)
        groups = None
        if by and measure.per_record in last.confidential:
            groups = by_group(last, measure.per_record, file, by)
        shown.append(Shown(measure, of_plan, before, after, groups))
    return Panel(shown, recodes, others)


def _chosen(plan: Plan, data: Microdata, names: Sequence[str]) -> list[tuple[RiskMeasure, bool]]:
    own: list[RiskMeasure] = [m for m in plan.measures if isinstance(m, RiskMeasure) and m.files == "one"]
    kinds = {
        name: cls
        for name, cls in registry.measures().items()
        if issubclass(cls, RiskMeasure) and cls.files == "one"
    }
    unknown = [n for n in names if n not in kinds and n not in {m.id for m in own}]
    if unknown:
        raise ParameterError(
            f"there is no risk measure {unknown[0]!r} of one file",
            hint=did_you_mean(unknown[0], kinds, show=40),
        )
    if not names:
        usual = [m for name, cls in kinds.items() for m in cls.usual(data.schema)]
    else:
        own = [m for m in own if m.name in names or m.id in names]
        usual = [m for n in names if n in kinds for m in kinds[n].usual(data.schema) or [kinds[n]()]]
    there = {m.name for m in own}
    context = Context(base=plan.base)
    more = [m.given(context) for m in usual if m.name not in there]
    return [*((m, True) for m in own), *((m, False) for m in more)]


def _recoded(plan: Plan, data: Microdata) -> tuple[Microdata, list[str], list[str]]:
    """The data after the recodes, the steps that those are, and the other steps that change something."""
    now, recodes, others = data, [], []
    for name, step in zip(plan.step_ids(), plan.steps, strict=True):
        after = step.own_list(now)
        if after is not now:
            now = after
            recodes.append(name)
        elif step.changes(data):
            others.append(name)
    return now, recodes, others
