"""What a person says of columns and keys: roles, details, what is counted, recodes."""

from __future__ import annotations

from typing import Any

from sfumato import registry
from sfumato.data.schema import KINDS
from sfumato.errors import InputError, ParameterError
from sfumato.workbench import edits
from sfumato.workbench.bench import Workbench
from sfumato.workbench.cellview import all_keys, scenario_of
from sfumato.workbench.changes.form import Done, Sent, change_plan, column_of, number_of
from sfumato.workbench.names import shown

ROLE_WORDS = {
    "id": "id", "key": "keys", "sensitive": "sensitive", "area": "geography", "household": "household",
    "weight": "weight", "stratum": "strata", "none": None,
}  # fmt: skip


def role(bench: Workbench, form: Sent) -> Done:
    column, word = column_of(bench, form), str(form.get("role", ""))
    if word not in ROLE_WORDS:
        raise ParameterError("There is no such role.")
    text = edits.set_role(bench.now.text, column, ROLE_WORDS[word])
    bench.now.keep("roles_checked", True)
    said = "no role" if word == "none" else word
    return change_plan(bench, form, text, f"{shown(column)}: {said}", control=f"role {column}")


def roles_checked(bench: Workbench, form: Sent) -> Done:
    bench.now.keep("roles_checked", True)
    return Done("/keys")


def detail(bench: Workbench, form: Sent) -> Done:
    """Kind, top and bottom code, missing codes, whether it is released, of one column."""
    column, what, said = (
        column_of(bench, form),
        str(form.get("detail", "")),
        str(form.get("value", "")).strip(),
    )
    text = bench.now.text
    if what == "kind":
        if said and said not in KINDS:
            raise ParameterError("There is no such kind.")
        text = edits.set_detail(text, column, "kind", said or None)
    elif what in ("top", "bottom"):
        text = edits.set_detail(text, column, what, number_of(said, f"a {what} code") if said else None)
    elif what == "missing":
        codes = [_code(c) for c in said.split(",") if c.strip()]
        text = edits.set_detail(text, column, "missing", codes or None)
    elif what == "released":
        text = edits.set_drop(text, column, said != "yes")
        return change_plan(
            bench, form, text, f"{shown(column)} {'is' if said == 'yes' else 'is not'} released"
        )
    elif what == "sum_of":
        there = (
            bench.opened.file.columns if bench.opened is not None and bench.opened.file is not None else []
        )
        parts = [c.strip() for c in said.split(",") if c.strip()]
        strange = [c for c in parts if c not in there]
        if strange:
            raise ParameterError(f"There is no column {shown(strange[0])}.")
        text = edits.set_detail(text, column, "sum_of", parts or None)
    else:
        raise ParameterError("There is no such detail.")
    return change_plan(
        bench, form, text, f"{shown(column)}: {what.replace('_', ' ')} {said or 'as suggested'}"
    )


def _code(said: str) -> float | str:
    said = said.strip()
    try:
        return number_of(said, "a code")
    except ParameterError:
        return said


def scenario(bench: Workbench, form: Sent) -> Done:
    """Keys, dimension and tolerance of the plan's tolerance measure."""
    data, plan, text = bench.data, bench.plan, bench.now.text
    if data is None:
        raise InputError("The file isn't read yet.")
    held = scenario_of(data, plan)
    there = all_keys(data, plan)
    keys = tuple(
        data.columns[int(v)] for v in form.getlist("key") if v.isdigit() and int(v) < len(data.columns)
    )
    if not keys:
        raise ParameterError("One key at least must be known. The plan is as it was.")
    moved = str(form.get("moved", ""))
    said = form.get("tolerance_number") if moved != "tolerance" else form.get("tolerance")
    tolerance = int(number_of(str(said or held.tolerance), "a tolerance"))
    if tolerance < 2:
        raise ParameterError(
            f"{tolerance} lets every combination pass; 2 finds unique ones. The plan has {held.tolerance}."
        )
    dimension = form.number("dimension")
    table: dict[str, Any] = {
        "tolerance": tolerance,
        "keys": list(keys) if set(keys) != set(there) else None,
        "max_dimension": min(max(dimension, 1), len(keys)),
    }
    if held.at is None:
        new = {"measure": "tolerance", **{k: v for k, v in table.items() if v is not None}}
        text = edits.add(text, "measure", new)
    else:
        at = next(k for k, t in enumerate(edits.tables(text, "measure")) if t.get("measure") == "tolerance")
        text = edits.set_parameters(text, "measure", at, table)
    changes = []
    if tolerance != held.tolerance:
        changes.append(f"tolerance {held.tolerance} → {tolerance}")
    if set(keys) != set(held.keys):
        changes.append(f"keys {', '.join(map(shown, keys))}")
    if table["max_dimension"] != held.dimension:
        changes.append(f"{table['max_dimension']} keys known together")
    return change_plan(bench, form, text, "; ".join(changes) or "what is counted", control="scenario")


def recode(bench: Workbench, form: Sent) -> Done:
    """One class of a key's ladder: edits the step that recodes it, else adds one before other kinds."""
    view, data = bench.view(), bench.data
    key = str(form.get("key", ""))
    if form.get("column") is not None:
        key = column_of(bench, form)
    if view is None or data is None or key not in view.scenario.keys:
        raise ParameterError("There is no such key.")
    level, text = str(form.get("level", "")), bench.now.text
    own = [
        at
        for at, table in enumerate(edits.tables(text, "step"))
        if table.get("column") == key and is_recode(table)
    ]
    if not level:
        for at in reversed(own):
            text = edits.remove(text, "step", at)
        return change_plan(bench, form, text, f"{shown(key)}: as collected", control=f"recode {key}")
    rung = next((r for r in bench.rungs(view).get(key, []) if str(r.level) == level), None)
    if rung is None:
        raise ParameterError("There is no such class.")
    new = {"mask": rung.mask.name, **rung.mask.to_dict()}
    if own:
        old = edits.tables(text, "step")[own[0]]
        table = {"id": old["id"], **new} if "id" in old else new
        text = edits.remove(text, "step", own[0])
        text = edits.add(text, "step", table, own[0])
        for at in reversed(own[1:]):
            text = edits.remove(text, "step", at)
    else:
        first = [k for k, t in enumerate(edits.tables(text, "step")) if not is_recode(t)]
        table = {"id": edits.new_id(text, "step", key), **new}
        text = edits.add(text, "step", table, first[0] if first else None)
    return change_plan(bench, form, text, f"{shown(key)}: {rung.words}", control=f"recode {key}")


def is_recode(table: dict[str, Any]) -> bool:
    cls = registry.masks().get(str(table.get("mask")))
    return cls is not None and hasattr(cls, "class_of") and "column" in cls.parameters()
