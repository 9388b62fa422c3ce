"""The Protect screen: steps, the form of one, and what they do to a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato import registry
from sfumato.data.microdata import Microdata
from sfumato.drawing import plural
from sfumato.workbench import edits
from sfumato.workbench.bench import Workbench
from sfumato.workbench.names import shown
from sfumato.workbench.screens.common import (
    Query,
    choices,
    filled_by_role,
    form_for,
    history_rows,
    listed_of,
    step_words,
    whole,
)


def protect_screen(bench: Workbench, query: Query, flashed: Mapping[str, Any]) -> dict[str, Any]:
    data = bench.data
    tables = edits.tables(bench.now.text, "step")
    adding = query.get("add", "")
    columns = choices(data)
    chosen = min(whole(query, "step", len(tables) - 1 if tables else 0), max(len(tables) - 1, 0))
    form = None
    more = flashed.get("more") or {}
    typed, errors = more.get("typed"), more.get("errors") or {}
    if adding in registry.masks():
        form = form_for(registry.masks()[adding], {}, columns, typed, errors, filled_by_role(data))
        form |= {"new": True, "id": adding}
    elif tables:
        table = tables[chosen]
        cls = registry.masks().get(str(table.get("mask")))
        if cls is not None:
            form = form_for(cls, table, columns, typed, errors) | {
                "new": False,
                "id": str(table.get("id") or cls.name),
            }
    steps = step_words(bench)
    view = bench.view()
    _effects(bench, steps, view)
    return {
        "steps": steps,
        "chosen": chosen,
        "form": form,
        "masks": _grouped(),
        "history": history_rows(bench),
        "preview": _preview(bench, data, query, tables[chosen] if tables else {}),
        "problems": bench.problems(),
        "proposal": bench.now.kept.get("proposal") is not None,
    }


def _grouped() -> list[tuple[str, list[tuple[str, str]]]]:
    """Masks by the folder or file that they come from, in words."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, cls in registry.masks().items():
        family = cls.__module__.removeprefix("sfumato.masks.").split(".")[0].replace("_", " ")
        groups.setdefault(family, []).append((name, name.replace("_", " ")))
    single = [one for members in groups.values() if len(members) == 1 for one in members]
    out = [
        (family.capitalize(), sorted(members))
        for family, members in sorted(groups.items())
        if len(members) > 1
    ]
    return [*out, ("Others", sorted(single))]


def _effects(bench: Workbench, steps: list[dict[str, Any]], view: Any) -> None:
    """What the last run says that each step did."""
    result = bench.result("run")
    done = {s["id"]: s for s in result["internal"]["steps"]} if result else {}
    for step in steps:
        if step["off"]:
            step["effect"] = "off: it is kept in the plan and does nothing"
        elif step["id"] in done:
            touched = done[step["id"]].get("touched") or {}
            most = max(touched.values(), default=0)
            kept = len(done[step["id"]].get("guarantees") or [])
            step["effect"] = f"{most:,} records changed at most in a column; {plural(kept, 'promise')} kept"
        else:
            step["effect"] = ""
    if view is None:
        return
    before = view.before.records_unsafe
    for step in steps:
        if step["id"] in view.unsafe_after and not step["off"]:
            now = view.unsafe_after[step["id"]]
            counted = f"{before:,} → {now:,} unsafe records"
            step["effect"] = f"{counted}; {step['effect']}" if step["effect"] else counted
            before = now


def _preview(
    bench: Workbench, data: Microdata | None, query: Query, table: Mapping[str, Any]
) -> dict[str, Any]:
    if data is None:
        return {}
    columns = [(at, c) for at, c in enumerate(data.columns) if c != data.schema.id]
    named = [str(c) for k in ("columns", "column", "keys") for c in listed_of(table.get(k, []))]
    at = whole(query, "column", -1) if query.get("column", "").isdigit() else -1
    if not 0 <= at < len(data.columns):
        want = next((c for c in named if c in data.columns), next((c for c in data.schema.sensitive), None))
        at = data.columns.index(want) if want is not None else (columns[0][0] if columns else 0)
    column = data.columns[at]
    kind = f"preview {column}"
    result, old = bench.result(kind), None
    if result is None:
        held = bench.last_result(kind)
        if held is not None:
            old, result = held
    job = bench.jobs.last("preview")
    mine = job is not None and job.task.options.get("column") == column
    return {
        "columns": columns,
        "at": at,
        "column": column,
        "result": result,
        "old": old,
        "job": job if mine and job is not None and job.active and job.key == bench.key() else None,
        "failed": job
        if mine and job is not None and job.state == "failed" and job.key == bench.key()
        else None,
        "pictures": _pictures(result),
    }


def _pictures(result: Any) -> list[Any]:
    from markupsafe import Markup

    from sfumato import drawing

    if not result or "drawn" not in result:
        return []
    out = []
    for column in result["drawn"].get("columns", []):
        out.append(Markup(drawing.distribution({**column, "name": shown(column["name"])})))
        if "displacement" in column:
            out.append(Markup(drawing.displacement(column)))
    for column in result["drawn"].get("categories", []):
        out.append(Markup(drawing.categories(column)))
        if any(r.get("left") is not None for r in column["rows"]):
            out.append(Markup(drawing.left(column)))
    return out
