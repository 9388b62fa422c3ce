"""Steps: add, remove, move, switch, blank what is left, and parameters."""

from __future__ import annotations

from typing import Any

from sfumato import registry
from sfumato.errors import InputError, ParameterError
from sfumato.workbench import edits
from sfumato.workbench.bench import Workbench
from sfumato.workbench.changes.columns import is_recode
from sfumato.workbench.changes.form import Done, Sent, capital, change_plan
from sfumato.workbench.forms import parsed
from sfumato.workbench.names import shown


def steps(bench: Workbench, form: Sent) -> Done:
    """Add, remove, move, switch, clear, or blank what is left."""
    text, what = bench.now.text, str(form.get("do", ""))
    there = edits.tables(text, "step")
    names = [str(t.get("id") or t.get("mask")) for t in there]
    if what == "blank":
        return _blank(bench, form, text)
    if what == "clear":
        return change_plan(bench, form, edits.clear(text, "step"), "no step", to="/protect")
    if what == "proposal":
        held = bench.now.kept.get("proposal")
        if not held:
            raise ParameterError("There is no proposal yet.")
        return change_plan(bench, form, held["text"], "the first proposal", to="/data")
    if what == "add":
        return _add(bench, form, text)
    at = form.number("step")
    if not 0 <= at < len(there):
        raise ParameterError("There is no such step.")
    if what == "remove":
        left = max(0, min(at, len(there) - 2))
        return change_plan(
            bench, form, edits.remove(text, "step", at), f"{names[at]} removed", to=f"/protect?step={left}"
        )
    if what == "switch":
        on = form.get("on") is not None
        return change_plan(bench, form, edits.switch(text, at, on), f"{names[at]} {'on' if on else 'off'}")
    if what in ("up", "down"):
        to = at - 1 if what == "up" else at + 1
        if not 0 <= to < len(there):
            return Done()
        return change_plan(
            bench, form, edits.move(text, at, to), f"{names[at]} moved {what}", to=f"/protect?step={to}"
        )
    raise ParameterError("There is no such change.")


def _blank(bench: Workbench, form: Sent, text: str) -> Done:
    view = bench.view()
    if view is None:
        raise ParameterError("No key is named.")
    name = next((n for n, cls in registry.masks().items() if cls.blanks), None)
    if name is None:
        raise ParameterError("No mask that blanks values is installed.")
    scenario_ = view.scenario
    table: dict[str, Any] = {
        "id": edits.new_id(text, "step", "blank the rest"),
        "mask": name,
        "keys": list(scenario_.keys),
        "tolerance": scenario_.tolerance,
    }
    if scenario_.dimension < len(scenario_.keys):
        table["max_dimension"] = scenario_.dimension
    last = max((k for k, t in enumerate(edits.tables(text, "step")) if is_recode(t)), default=-1)
    return change_plan(bench, form, edits.add(text, "step", table, last + 1), "blank what is left")


def _add(bench: Workbench, form: Sent, text: str) -> Done:
    """A new step with what its declaration and the roles fill in; what must be said is asked for first."""
    name, there = str(form.get("mask", "")), registry.masks()
    if name not in there:
        return Done("/protect", error="Choose a mask to add.")
    data = bench.data
    if data is None:
        raise InputError("The file isn't read yet.")
    cls = there[name]
    values, typed, errors = parsed(cls, form) if form.get("filled") else ({}, {}, {})
    table = {k: v for k, v in values.items() if v is not None}
    try:
        if not errors:
            cls.from_dict(table)
            problems = [
                p for p in cls.from_dict(table).check(data.schema, dict(data._types)) if p.severity == "error"
            ]
            if problems:
                raise ParameterError(
                    problems[0].message, hint=problems[0].hint, parameter=problems[0].parameter
                )
    except ParameterError as problem:
        errors[problem.parameter or ""] = problem.message + (f" ({problem.hint})" if problem.hint else "")
    if errors:
        first = not form.get("filled")
        return Done(
            f"/protect?add={name}",
            more={"typed": None if first else typed, "errors": {} if first else errors},
        )
    made = {"id": edits.new_id(text, "step", str(form.get("id") or name)), "mask": name, **table}
    at = len(edits.tables(text, "step"))
    return change_plan(
        bench,
        form,
        edits.add(text, "step", made),
        f"{made['id']}: {name.replace('_', ' ')}",
        to=f"/protect?step={at}",
    )


def parameters(bench: Workbench, form: Sent) -> Done:
    """The parameters of one step or measure."""
    kind = "measure" if form.get("kind") == "measure" else "step"
    text, at = bench.now.text, form.number("at")
    tables = edits.tables(text, kind)
    if not 0 <= at < len(tables):
        raise ParameterError(f"There is no such {kind}.")
    table = tables[at]
    name = str(table.get("mask" if kind == "step" else "measure"))
    there: Any = registry.masks() if kind == "step" else registry.measures()
    back = f"/protect?step={at}" if kind == "step" else f"/attack?measure={at}"
    cls = there[name]
    values, typed, errors = parsed(cls, form)
    new = {k: v for k, v in table.items() if k not in ("mask", "measure", "off") and k not in values}
    new |= {k: v for k, v in values.items() if v is not None}
    try:
        if not errors:
            cls.from_dict(new)
    except ParameterError as problem:
        message = problem.message.removeprefix(f"{name}: ")
        errors[problem.parameter or ""] = (
            capital(message) + "." + (f" {capital(problem.hint)}." if problem.hint else "")
        )
    if errors:
        kept = {
            k: f"{v} The plan still has {shown(table[k])}." if k in table else v for k, v in errors.items()
        }
        return Done(back, more={"typed": typed, "errors": kept})
    changed = {k: v for k, v in values.items() if v != table.get(k)}
    label = str(table.get("id") or name)
    words = ", ".join(f"{k.replace('_', ' ')} {_said(table.get(k))} → {_said(v)}" for k, v in changed.items())
    return change_plan(
        bench, form, edits.set_parameters(text, kind, at, values), f"{label}: {words}"[:200], to=back,
        control=f"{kind} {at} {','.join(changed)}",
    )  # fmt: skip


def _said(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, list):
        return ", ".join(shown(v) for v in value)[:60]
    return shown(value)[:60]
