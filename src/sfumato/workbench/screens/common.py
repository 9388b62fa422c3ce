"""What the screens share: queries, jobs that failed, steps in words, forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sfumato import registry
from sfumato.data.microdata import Microdata
from sfumato.drawing import plural
from sfumato.errors import SfumatoError
from sfumato.workbench import edits
from sfumato.workbench.bench import Workbench
from sfumato.workbench.forms import form_of
from sfumato.workbench.names import shown

Query = Mapping[str, str]


def whole(query: Query, name: str, default: int = 0) -> int:
    try:
        return max(0, int(query.get(name, default)))
    except ValueError:
        return default


def failed_job(bench: Workbench, kind: str) -> Any:
    job = bench.jobs.last(kind)
    return job if job is not None and job.state == "failed" else None


def step_words(bench: Workbench) -> list[dict[str, Any]]:
    """Each step in words, as the list of steps and the proposal tell it."""
    out = []
    for at, table in enumerate(edits.tables(bench.now.text, "step")):
        name = str(table.get("mask"))
        cls = registry.masks().get(name)
        said = {k: v for k, v in table.items() if k not in ("mask", "id", "off")}
        columns = [str(c) for k in ("column", "columns", "keys") for c in listed_of(said.pop(k, []))]
        parts = [f"{k.replace('_', ' ')} {short_value(v)}" for k, v in said.items() if v not in ([], {})]
        listed = ", ".join(shown(c) for c in columns[:6]) + (
            f" and {len(columns) - 6} more" if len(columns) > 6 else ""
        )
        out.append(
            {
                "at": at,
                "id": str(table.get("id") or name),
                "mask": name.replace("_", " "),
                "about": cls.summary() if cls is not None else "",
                "words": "; ".join(p for p in (listed, ", ".join(parts)) if p),
                "off": bool(table.get("off")),
            }
        )
    return out


def listed_of(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else []


def short_value(value: Any) -> str:
    if isinstance(value, dict):
        return f"of {plural(len(value), 'value')}"
    text = (", ".join(map(shown, value)) or "none") if isinstance(value, list) else shown(value)
    return text if len(text) <= 60 else text[:59] + "…"


def form_for(
    cls: Any,
    table: Mapping[str, Any],
    columns: Any,
    typed: Any,
    errors: Mapping[str, str],
    filled: Any = None,
) -> dict[str, Any]:
    fields = form_of(cls, table, columns, typed, errors, filled)
    first = next((f.name for f in fields if f.kind in ("columns", "column")), "")
    shown_ = [f for f in fields if f.open or f.said or f.error or f.name == first]
    if len(shown_) < 2:
        shown_ = fields[:3]
    return {
        "name": cls.name,
        "words": cls.name.replace("_", " "),
        "about": cls.summary(),
        "reference": getattr(cls, "reference", ""),
        "fields": shown_,
        "rest": [f for f in fields if f not in shown_],
        "error": errors.get("", ""),
    }


def choices(data: Microdata | None) -> list[tuple[str, bool]]:
    """The columns that a step may name, and whether each holds numbers."""
    if data is None:
        return []
    return [(c, data.dtype(c).is_numeric()) for c in data.columns if c != data.schema.id]


def filled_by_role(data: Microdata | None) -> dict[str, list[str]]:
    """The columns of each role."""
    if data is None:
        return {}
    held = {"keys": data.schema.keys, "sensitive": data.schema.sensitive, "geography": data.schema.geography}
    return {role: list(columns) for role, columns in held.items()}


def history_rows(bench: Workbench) -> list[dict[str, Any]]:
    history = bench.now.history
    line = set(history.line())
    rows = [
        {
            "at": at,
            "name": e.name,
            "hash": bench.now.hash(e.text),
            "now": at == history.at,
            "undone": at not in line,
        }
        for at, e in enumerate(history.entries)
    ]
    return rows[::-1][:200]


def safely(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A screen whose numbers can't be had says why, and stays a page."""
    try:
        return make()
    except SfumatoError as problem:
        return {"trouble": problem.message, "trouble_hint": problem.hint}
