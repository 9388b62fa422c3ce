"""Measures and limits, and taking a point's plan over."""

from __future__ import annotations

from sfumato import registry
from sfumato.errors import ParameterError
from sfumato.plan.audience import BATTERY, audience
from sfumato.plan.source import parse
from sfumato.workbench import edits
from sfumato.workbench.adopt import with_steps
from sfumato.workbench.bench import Workbench
from sfumato.workbench.changes.form import Done, Sent, change_plan, number_of
from sfumato.workbench.forms import parsed


def measures(bench: Workbench, form: Sent) -> Done:
    """Add or remove a measure."""
    text, what = bench.now.text, str(form.get("do", ""))
    if what == "remove":
        at = form.number("measure")
        tables = edits.tables(text, "measure")
        if not 0 <= at < len(tables):
            raise ParameterError("There is no such measure.")
        name = str(tables[at].get("id") or tables[at].get("measure"))
        return change_plan(
            bench, form, edits.remove(text, "measure", at), f"{name} not measured", to="/attack"
        )
    name, there = str(form.get("measure", "")), registry.measures()
    if name not in there:
        return Done("/attack", error="Choose a measure to add.")
    values, typed, errors = parsed(there[name], form) if form.get("filled") else ({}, {}, {})
    table = {k: v for k, v in values.items() if v is not None}
    try:
        if not errors:
            there[name].from_dict(table)
    except ParameterError as problem:
        errors[problem.parameter or ""] = problem.message
    if errors:
        first = not form.get("filled")
        return Done(
            f"/attack?add={name}", more={"typed": None if first else typed, "errors": {} if first else errors}
        )
    taken = [t.get("id") or t.get("measure") for t in edits.tables(text, "measure")]
    made = {
        **({"id": edits.new_id(text, "measure", name)} if name in taken else {}),
        "measure": name,
        **table,
    }
    return change_plan(
        bench,
        form,
        edits.add(text, "measure", made),
        f"measure {name.replace('_', ' ')}",
        to="/attack#measures",
    )


def limits(bench: Workbench, form: Sent) -> Done:
    """Limits: those of an audience, or typed ones."""
    text = bench.now.text
    if form.get("do") in ("public", "research"):
        who = audience(str(form.get("do")))
        for limit in who.limits():
            bound = "at_most" if limit.at_most is not None else "at_least"
            value = limit.at_most if limit.at_most is not None else limit.at_least
            text = edits.set_limit(text, limit.measure, limit.figure, bound, value)
        return change_plan(bench, form, text, f"limits of a {who.name} file")
    words = []
    for field, measure, figure, bound, scale in (
        ("rate", BATTERY, "rate", "at_most", 0.01),
        ("gain", BATTERY, "gain", "at_most", 1.0),
        ("group", BATTERY, "group", "at_least", 1.0),
        ("loss", "analyst_loss", "value", "at_most", 1.0),
    ):
        if form.get(field) is None:
            continue
        said = str(form.get(field)).strip()
        value = None if not said else float(f"{number_of(said, 'a limit') * scale:.10g}")
        top = {"rate": 1.0, "gain": 1.0, "loss": 1.0}.get(field)
        if value is not None and (value < 0 or (top is not None and value > top)):
            raise ParameterError(f"{said} is outside what a limit can be. The plan is as it was.")
        if field == "group" and value is not None:
            value = int(value)
        measured = any(t.get("measure") == measure for t in edits.tables(text, "measure"))
        if measure != BATTERY and value is not None and not measured:
            text = edits.add(text, "measure", {"measure": measure})
        new = edits.set_limit(text, measure, figure, bound, value)
        if new != text:
            words.append(f"{field} {said or 'without limit'}")
        text = new
    return change_plan(bench, form, text, "limits: " + (", ".join(words) or "as they were"), control="limits")


def adopt(bench: Workbench, form: Sent) -> Done:
    """Take a point's plan over."""
    wanted = str(form.get("hash", ""))
    point = next((p for p in bench.points() if p.get("hash") == wanted), None)
    if point is None:
        raise ParameterError("There is no such point on the map any more.")
    found = edits.tables(point["text"], "step")
    drop = _drop(point["text"]) if point.get("from") == "search" else []
    return change_plan(
        bench, form, with_steps(bench.now.text, found, drop), f"adopted: {point['label']}"[:120]
    )


def _drop(text: str) -> list[str]:
    held = parse(text).get("release", {}).get("drop", [])
    return [held] if isinstance(held, str) else list(held)
