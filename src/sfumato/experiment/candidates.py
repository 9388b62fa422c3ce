"""The plans that ``protect`` weighs: keys recoded or not, then dealt with all else, kept as classes, or
suppressed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from sfumato import registry
from sfumato.contract.mask import Mask
from sfumato.contract.measure import RiskMeasure
from sfumato.data.microdata import Microdata
from sfumato.data.rules import rules_of
from sfumato.errors import ParameterError
from sfumato.experiment.conditions import levels_for, on_keys
from sfumato.experiment.recodes import FEWEST, KeyLadders
from sfumato.plan.audience import Audience
from sfumato.plan.parts import Limit
from sfumato.plan.plan import Plan

Deal = Literal["all", "within", "none"]


@dataclass(frozen=True)
class Candidate:
    """One way to protect a file.

    ``deal``: all columns are dealt among ``size`` alike ("all"); all but the keys, within the classes of the
    recoded keys ("within"); or nothing is dealt and key values are suppressed until ``size`` share each
    combination ("none").
    """

    levels: tuple[tuple[str, int], ...]
    deal: Deal
    size: int
    blind: bool = True
    """Whether the groups are made without looking at sensitive columns."""
    together: bool = False
    """Whether households are dealt whole, in blocks, and their (new) number is released."""

    def coarser(self, key: str, by: int) -> Candidate:
        return replace(self, levels=tuple((k, v + by if k == key else v) for k, v in self.levels))

    def sized(self, size: int) -> Candidate:
        return replace(self, size=size)


@dataclass(frozen=True)
class Workshop:
    """What every candidate for one file has in common: its columns, ladders, limits, what is never
    released."""

    data: Microdata
    columns: tuple[str, ...]
    ladders: KeyLadders
    limits: tuple[Limit, ...] = ()
    drop: tuple[str, ...] = ()
    household: str | None = None
    template: Plan = field(default_factory=Plan)
    audience: Audience | None = None
    floor: tuple[tuple[str, int], ...] = ()
    """The level below which no key goes: no category of fewer than three records, no small area."""
    asked: tuple[RiskMeasure, ...] = ()
    """Conditions that count in the release."""
    asked_levels: Mapping[str, int] = field(default_factory=dict)

    def plan(self, one: Candidate) -> Plan:
        """The candidate as a plan."""
        levels = dict(one.levels)
        steps, gone = self.ladders.steps(levels)
        steps = [_named(mask, f"recode_{at}") for at, mask in enumerate(steps, start=1)]
        recoded = {m.column for m in steps if hasattr(m, "column")}
        drop = tuple(dict.fromkeys([*self.drop, *gone, *self._orphaned({*gone, *recoded})]))
        there = [c for c in self.columns if c not in drop]
        keys = [k for k in self.ladders.keys if k in there]
        if one.deal == "none":
            if keys:
                steps.append(_made("local_suppress", id="suppress", keys=keys, tolerance=one.size))
        else:
            within = keys if one.deal == "within" else []
            told: dict[str, Any] = {"columns": [c for c in there if c not in within], "smallest": one.size}
            if within:
                told["within"] = within
            if not one.blind:
                told["blind"] = []
            if self.household is not None:
                # Dealt apart, who lives together isn't released.
                told |= {"unit": self.household, "members": "together" if one.together else "apart"}
            steps.append(_made("cluster_shuffle", id="shuffle", **told))
        if one.together:
            drop = tuple(c for c in drop if c != self.household)
        release = replace(self.template.release, drop=drop)
        measures = [m for m in self.template.measures if m not in self.asked]
        names = {name for m in measures for name in (m.id, m.name)}
        limits = [*self.limits, *(x for x in self.template.limits if x.measure in names)]
        if keys:
            measures += [on_keys(m, keys) for m in self.asked]
            limits += [Limit(m.id or m.name, "value", at_most=0) for m in self.asked]
        return replace(
            self.template,
            steps=tuple(steps),
            measures=tuple(measures),
            limits=tuple(limits),
            release=release,
            source=None,
        )

    def _orphaned(self, changed: set[str]) -> list[str]:
        """Ratios and totals of which a part is recoded or gone: they can't be made anew, and as they are they
        would tell what was hidden."""
        rules = rules_of(self.data.schema)
        return [r.result for r in rules if changed & set(r.parts) and r.result in self.data.columns]

    def words(self, one: Candidate) -> str:
        """The candidate in one line."""
        parts = []
        recoded = self.ladders.named(dict(one.levels))
        if recoded:
            parts.append("; ".join(recoded))
        seen = "" if one.blind else ", groups alike in sensitive columns too"
        if one.together:
            parts.append(f"households dealt whole, in blocks, among {one.size} alike or more{seen}")
        elif one.deal == "all":
            parts.append(f"all columns dealt among {one.size} alike or more{seen}")
        elif one.deal == "within":
            parts.append(f"all but the keys dealt among {one.size} or more of one class{seen}")
        else:
            parts.append(f"key values suppressed until {one.size} share each combination")
        return "; ".join(parts)


def _made(name: str, **parameters: Any) -> Mask:
    return registry.mask(name).from_dict(parameters)


def _named(mask: Mask, name: str) -> Mask:
    return replace(mask, id=name)


def workshop(
    data: Microdata,
    limits: tuple[Limit, ...],
    drop: tuple[str, ...],
    template: Plan,
    whom: Audience | None = None,
    asked: Sequence[RiskMeasure] = (),
) -> Workshop:
    """For a file: which columns are released, and the ladders of its keys (areas are keys)."""
    if asked and not (data.schema.keys or data.schema.geography):
        raise ParameterError("there is no key that a condition could count", hint="name keys under [roles]")
    schema = data.schema
    apart = {schema.id, schema.household, *drop, *schema.ratios}  # a ratio follows its parts by itself
    columns = tuple(c for c in data.columns if c not in apart)
    keys = tuple(k for k in dict.fromkeys([*schema.keys, *schema.geography]) if k in columns)
    # Which persons live together would tell them by their household's composition.
    gone = [*drop, *(c for c in (schema.household, schema.id) if c is not None)]
    ladders = KeyLadders.of(data, keys)
    return Workshop(
        data,
        columns,
        ladders,
        limits,
        tuple(dict.fromkeys(gone)),
        schema.household,
        template,
        whom,
        tuple(_floor(data, ladders, limits).items()),
        tuple(asked),
        levels_for(ladders, asked, data) if asked and keys else {},
    )


def _floor(data: Microdata, ladders: KeyLadders, limits: Sequence[Limit]) -> dict[str, int]:
    """No category of fewer than three records; no area of fewer people than the limit on areas."""
    out = ladders.common(FEWEST, numbers=False)
    least = next((x.at_least for x in limits if x.figure == "area"), None)
    weight = data.schema.weight
    if least is not None and weight is not None:
        people = data.column(weight).cast(pl.Float64).fill_null(0.0).to_numpy()
        for key in data.schema.geography:
            if key in out:
                out[key] = max(out[key], ladders.peopled(key, people, least))
    return out
