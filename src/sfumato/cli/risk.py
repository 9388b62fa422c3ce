"""``sfumato risk PLAN``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sfumato.cli.command import OK, print_json, say
from sfumato.drawing.grid import grid

if TYPE_CHECKING:
    from sfumato.cells import Assessment
    from sfumato.contract.measure import RiskMeasure
    from sfumato.contract.result import Result
    from sfumato.data.microdata import Microdata
    from sfumato.plan.plan import Plan
    from sfumato.risk.tolerance import Tolerance
    from sfumato.run.panel import Panel

HELP = "show every risk by name, before and after the plan's recodes"
EXAMPLE = """  sfumato risk people.toml
  sfumato risk people.toml --tolerance 5 --max-dimension 2
  sfumato risk people.toml --measures k_anonymity,population_risk --by REGION
  sfumato risk people.toml --json | jq .before.by_key"""

_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", help="the plan (TOML)")
    parser.add_argument(
        "--tolerance",
        type=int,
        metavar="N",
        help="a combination is unsafe if fewer than N records have it (default: the plan's, else 3)",
    )
    parser.add_argument(
        "--max-dimension",
        type=int,
        metavar="D",
        help="look at all combinations of up to D keys (default: the plan's, else 3)",
    )
    parser.add_argument(
        "--measures",
        metavar="NAMES",
        help="which risk measures to show, by name and comma (default: the plan's and the usual ones; "
        "`none` shows the combinations alone)",
    )
    parser.add_argument(
        "--by", metavar="COLUMNS", help="show each measure by the groups of these columns (comma)"
    )
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")


def run(args: argparse.Namespace) -> int:
    from sfumato.plan.plan import Plan

    plan = Plan.load(args.plan)
    data = plan.data()
    measure = tolerance_of(plan, args.tolerance, args.max_dimension)
    content, before, after = assess_plan(plan, data, measure)
    found = None
    if args.measures != "none":
        from sfumato.run.panel import panel

        found = panel(plan, data, names=_split(args.measures), by=_split(args.by))
    if args.json:
        shown = [one.to_dict() for one in found.shown] if found else []
        print_json({"plan": str(args.plan), **content, "measures": shown})
    else:
        _show(content, before, after)
        if found:
            _show_panel(found)
    return OK


def _split(words: str | None) -> list[str]:
    return [w.strip() for w in (words or "").split(",") if w.strip()]


def tolerance_of(plan: Plan, tolerance: int | None, max_dimension: int | None) -> Tolerance:
    """The measure to take: what was asked for, else what the plan says, else 3 and 3."""
    from dataclasses import replace

    from sfumato.masks.suppress import LocalSuppress
    from sfumato.risk.tolerance import Tolerance

    found = next((m for m in plan.measures if isinstance(m, Tolerance)), None)
    if found is None:
        step = next((s for s in plan.steps if isinstance(s, LocalSuppress)), None)
        if step is not None:
            found = Tolerance(
                tolerance=step.tolerance,
                keys=step.keys,
                key_sets=step.key_sets,
                max_dimension=step.max_dimension,
                missing=step.missing,
            )
        else:
            found = Tolerance(tolerance=3, max_dimension=3)
    if tolerance is not None:
        found = replace(found, tolerance=tolerance)
    if max_dimension is not None:
        found = replace(found, key_sets=(), max_dimension=max_dimension)
    return found


def assess_plan(
    plan: Plan, data: Microdata, measure: Tolerance
) -> tuple[dict[str, Any], Assessment, Assessment | None]:
    """Unsafe counts before, and after the plan's recodes and truncations of keys, on cells alone."""
    from sfumato.cells.cells import Recoder
    from sfumato.errors import MeasureError

    problems = [p for p in measure.check(data.schema, data._types) if p.severity == "error"]
    if problems:
        raise MeasureError(
            "; ".join(p.message for p in problems), hint="; ".join(p.hint for p in problems if p.hint) or None
        )
    before = measure.assess(data)
    table, recoded, others = before.table, [], []
    for name, step in zip(plan.step_ids(), plan.steps, strict=True):
        if isinstance(step, Recoder) and step.column in table.keys:
            table = table.apply(step, data.schema[step.column])
            recoded.append(name)
        elif set(step.changes(data)) & set(table.keys):
            others.append(name)
    after = measure.assess_cells(table) if recoded else None
    content = {
        "records": before.table.records,
        "keys": list(before.table.keys),
        "tolerance": measure.tolerance,
        "missing": measure.missing,
        "before": _counts(before),
        "after": _counts(after) if after is not None else None,
        "recodes": recoded,
        "not_shown": others,
    }
    return content, before, after


def _counts(found: Assessment) -> dict[str, Any]:
    return {
        "unsafe_records": found.records_unsafe,
        "unsafe_combinations": int(found.unsafe_combinations.sum()),
        "levels": {k: len(found.table.levels[k]) for k in found.table.keys},
        "by_key": found.by_key.to_dicts(),
        "by_dimension": found.by_dimension.to_dicts(),
        "by_key_set": found.by_key_set.to_dicts(),
    }


def _show(content: dict[str, Any], before: Assessment, after: Assessment | None) -> None:
    tolerance = content["tolerance"]
    say(
        f"{content['records']:,} records; unsafe: fewer than {tolerance} records "
        f"(mu-ARGUS's threshold {tolerance - 1}); a missing value {content['missing'].replace('_', ' ')}",
        "",
        "unsafe combinations that a key takes part in, by dimension" + (" (before → after)" if after else ""),
    )
    rows = [_row(before, after, place) for place in range(len(content["keys"]))]
    dimensions = [c for c in before.by_key.columns if c.startswith("dimension_")]
    heads = ["key", "levels", "entropy", *(d.removeprefix("dimension_") for d in dimensions)]
    say(*grid(heads, rows))
    say("", "worst key sets")
    sets = before.by_key_set.head(_SHOWN)
    changed = {} if after is None else dict(after.by_key_set.select("key_set", "unsafe_records").iter_rows())
    listed = [["key set", "combinations", "unsafe", "records"]]
    for name, _, there, unsafe, records, _ in sets.iter_rows():
        listed.append(
            [name, f"{there:,}", f"{unsafe:,}", _pair(records, changed.get(name) if after else None)]
        )
    say(*grid(listed[0], listed[1:]))
    hidden = len(before.key_sets) - len(sets)
    if hidden > 0:
        say(f"  … and {hidden:,} more (--json has all)")
    total = _pair(before.records_unsafe, after.records_unsafe if after else None)
    say("", f"unsafe records: {total} of {content['records']:,}")
    if content["recodes"]:
        say(f"after: {', '.join(content['recodes'])}")
    if content["not_shown"]:
        say(f"not counted here (sfumato run does): {', '.join(content['not_shown'])}")


_SETTINGS = {
    "file": "counted in the file: the intruder knows that the person is in it",
    "population": "counted in the population: he doesn't know who was sampled, so each of these is at most "
    "what the file says",
    "attribute": "what keys give away without finding anybody: those who share them share a secret",
    "values": "masked numbers that stand too near to the true ones",
}


def _show_panel(found: Panel) -> None:
    say("", "risk by measure" + (" (before → after)" if found.recodes else " (the file as it is)"))
    if found.not_shown:
        say(f"  without {', '.join(found.not_shown)}, which only a run can count (sfumato run does)")
    for setting, words in _SETTINGS.items():
        here = [one for one in found.shown if one.measure.setting == setting]
        if not here:
            continue
        say("", f"  {words}")
        for one in here:
            name = one.measure.id or one.measure.name
            if one.before is None:
                say(f"    {name}: not measured ({one.problem})")
                continue
            say(f"    {name}: {_figure(one.before, one.after)}{_choices(one.measure)}")
            say(f"      assumes: {one.measure.assumes}")
            homes = (one.after or one.before).figures.get("households_at_risk")
            if homes is not None:
                of_all = f"{homes:,.4g} of {(one.after or one.before).households:,}"
                say(f"      households expected to be at risk: {of_all}")
            if one.groups is not None:
                rows = [["group", "records", "at risk", "rate"]]
                for group, records, risk, rate in one.groups.head(_SHOWN).iter_rows():
                    rows.append([group, f"{records:,}", f"{risk:,.4g}", f"{rate:.3g}"])
                say(*grid(rows[0], rows[1:], indent="      "))
                if len(one.groups) > _SHOWN:
                    say(f"      … and {len(one.groups) - _SHOWN:,} more groups (--json has all)")


def _choices(measure: RiskMeasure) -> str:
    """The parameters that differ from their defaults, so that two figures are never taken for one."""
    said = {k: v for k, v in measure.to_dict().items() if k not in ("id", "keys", "sensitive")}
    return f"   ({', '.join(f'{k} = {v}' for k, v in said.items())})" if said else ""


def _figure(before: Result, after: Result | None) -> str:
    def word(result: Result) -> str:
        whole = float(result.value).is_integer() and not result.unit.startswith("share")
        return f"{int(result.value):,}" if whole else f"{result.value:.4g}"

    one, two = word(before), None if after is None else word(after)
    return f"{one if two in (None, one) else f'{one} → {two}'} {before.unit}"


def _row(before: Assessment, after: Assessment | None, place: int) -> list[str]:
    one = before.by_key.row(place, named=True)
    two = after.by_key.row(place, named=True) if after is not None else None
    key = one["key"]
    levels = _pair(len(before.table.levels[key]), len(after.table.levels[key]) if after is not None else None)
    bits = f"{one['entropy']:.2f}"
    if two is not None and f"{two['entropy']:.2f}" != bits:
        bits += f" → {two['entropy']:.2f}"
    counts = [
        _pair(value, two[name] if two is not None else None)
        for name, value in one.items()
        if name.startswith("dimension_")
    ]
    return [key, levels, bits, *counts]


def _pair(one: int, two: int | None) -> str:
    return f"{one:,}" if two is None or two == one else f"{one:,} → {two:,}"
