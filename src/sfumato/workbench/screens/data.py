"""The Data screen: columns with roles and reasons, what to know of the file, the first proposal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from sfumato.data.microdata import Microdata
from sfumato.data.schema import KINDS, Range
from sfumato.drawing import percent, plural
from sfumato.workbench import charts
from sfumato.workbench.bench import PROPOSAL, Workbench
from sfumato.workbench.changes.columns import ROLE_WORDS
from sfumato.workbench.names import shown
from sfumato.workbench.screens.common import Query, failed_job, step_words, whole

PAGE: Final = 50


def data_screen(bench: Workbench, query: Query) -> dict[str, Any]:
    data, plan = bench.data, bench.plan
    out: dict[str, Any] = {"reading": bench.opened is not None and bench.opened.reading}
    if data is None:
        return {**out, "columns": None}
    held = bench.now.kept.get("suggestion", {})
    reasons = held.get("reasons", {})
    find, show = query.get("find", "").strip().casefold(), query.get("show", "all")
    roles = {c: _role(data, c) for c in data.columns}
    remarks = _remarks(bench, data, held)
    remarked = {c for _, _, columns in remarks for c in columns}
    chosen = []
    for at, column in enumerate(data.columns):
        label = data.schema[column].label or ""
        if find and find not in column.casefold() and find not in label.casefold():
            continue
        if show == "remark" and column not in remarked:
            continue
        if show not in ("all", "remark", "") and roles[column] != show:
            continue
        chosen.append((at, column))
    page = min(whole(query, "page"), max(0, (len(chosen) - 1) // PAGE))
    rows = [_row(bench, data, at, c, roles[c], reasons) for at, c in chosen[page * PAGE : (page + 1) * PAGE]]
    counts = {word: sum(r == word for r in roles.values()) for word in ROLE_WORDS}
    proposal = bench.now.history.now.name == PROPOSAL
    return {
        **out,
        "columns": rows,
        "matching": len(chosen),
        "page": page,
        "pages": math.ceil(len(chosen) / PAGE),
        "find": query.get("find", ""),
        "show": show,
        "counts": counts,
        "remarked": len(remarked),
        "remarks": [(tone, text) for tone, text, _ in remarks],
        "roles": list(ROLE_WORDS),
        "kinds": KINDS,
        "records": len(data),
        "total": len(data.columns),
        "dropped": len([c for c in plan.release.drop if c in data.columns]),
        "proposal": proposal,
        "offered": bench.now.kept.get("proposal") is not None and not proposal,
        "proposing": next(iter(bench.jobs.active("propose")), None),
        "failed": failed_job(bench, "propose"),
        "steps": step_words(bench) if proposal else [],
        "result": bench.result("run"),
        "scenario": (bench.result("run") or {}).get("internal", {}).get("board", {}).get("scenario", ""),
    }


def _role(data: Microdata, column: str) -> str:
    role = data.schema.role_of(column)
    words = {v: k for k, v in ROLE_WORDS.items()} | {"key": "key", "keys": "key"}
    return words.get(role, "none") if role is not None else "none"


def _row(bench: Workbench, data: Microdata, at: int, column: str, role: str, reasons: Any) -> dict[str, Any]:
    assert bench.opened is not None
    facts = bench.opened.facts(data, column)
    variable = data.schema[column]
    missing = facts["missing"] / max(facts["records"], 1)
    spoken = f"{shown(column)}: {percent(missing)} missing"
    if "median" in facts:
        spoken += f", {facts['low']:g} to {facts['high']:g}, median {facts['median']:g}"
    codes = [f"{m.to_dict()}" if isinstance(m, Range) else str(m) for m in variable.missing]
    return {
        "at": at,
        "name": column,
        "label": variable.label,
        "role": role,
        "why": "; ".join(reasons.get(column, [])),
        "kind": data.kind(column),
        "type": str(data.dtype(column)).partition("(")[0],
        "values": facts["values"],
        "missing": facts["missing"],
        "missing_share": missing,
        "codes": ", ".join(codes),
        "ranges": any(isinstance(m, Range) for m in variable.missing),
        "top": variable.top,
        "top_share": facts.get("top_share"),
        "bottom": variable.bottom,
        "numeric": facts["numeric"],
        "sum_of": ", ".join(variable.sum_of),
        "dropped": column in bench.plan.release.drop,
        "drawn": charts.mini(facts["bars"], missing, spoken, heap=facts["last"], foot=facts["first"]),
        "undrawn": "not drawn: an id" if column == data.schema.id else "not drawn: too many values",
    }


def _remarks(bench: Workbench, data: Microdata, held: Mapping[str, Any]) -> list[tuple[str, str, list[str]]]:
    """What to know about the file, in words: (tone, sentence, columns)."""
    assert bench.opened is not None
    out: list[tuple[str, str, list[str]]] = []
    schema, drop = data.schema, bench.plan.release.drop
    some = data.columns[:400]
    gaps = [c for c in some if bench.opened.facts(data, c)["missing"] > 0.3 * max(len(data), 1)]
    if gaps:
        told = ", ".join(
            f"{shown(c)} ({percent(bench.opened.facts(data, c)['missing'] / max(len(data), 1))})"
            for c in gaps[:5]
        )
        more = f" and {plural(len(gaps) - 5, 'other column')}" if len(gaps) > 5 else ""
        out.append(
            ("wait", f"Often missing: {told}{more}. Which values a record has can help to find it.", gaps)
        )
    coded = [c for c in some if schema[c].top is not None or schema[c].bottom is not None]
    if coded:
        many = f"{plural(len(coded), 'column')} {'ends' if len(coded) == 1 else 'end'} in a heap: "
        told = ", ".join(
            f"{shown(c)} at {schema[c].top if schema[c].top is not None else schema[c].bottom:,g}"
            for c in coded[:5]
        )
        out.append(
            ("wait", f"{many}{told}{' …' if len(coded) > 5 else ''}. Taken as top and bottom codes.", coded)
        )
    for total, parts in list(schema.sums.items())[:5]:
        words = f"{shown(total)} is the sum of {', '.join(map(shown, parts))}: masks keep that."
        out.append(("good", words, [total, *parts]))
    if schema.id is not None:
        ends = "it is never released." if schema.id in drop else "a release numbers it anew."
        out.append(("good", f"{shown(schema.id)} is an id: {ends}", [schema.id]))
    gone = [c for c in drop if c in data.columns and c != schema.id]
    if gone:
        out.append(("good", f"Not released: {', '.join(map(shown, gone))}.", gone))
    if not schema.keys and not schema.geography:
        out.append(
            ("bad", "No column is a key, so no risk by keys is counted. Name what somebody may know.", [])
        )
    if not schema.sums:
        out.append(("good", "No columns that add up to another were found.", []))
    out += [("wait", shown(note[:1].upper() + note[1:]) + ".", []) for note in held.get("notes", [])[:8]]
    return out
