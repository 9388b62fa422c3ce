"""A summary as plain text: the report in full, or in a screenful for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from sfumato.drawing import folded, number, percent, plural, span
from sfumato.drawing.grid import grid
from sfumato.report.figures import arranged
from sfumato.report.glance import valued
from sfumato.report.html import LOSS_WORDS, LOSSES, shown

WIDTH = 100


def brief(summary: dict[str, Any]) -> str:
    """The summary in a screenful: steps, promises, risk, loss, limits, cautions, verdict."""
    file = summary["file"]
    masked = [c["name"] for c in file["columns"] if c["masked"]]
    columns = plural(len(file["columns"]), "column")
    lines = [
        *_wrapped(_verdict(summary)),
        "",
        f"{summary['title']} ({summary['report']} report)",
        f"{plural(file['records'], 'record')}, {columns}; masked: {folded(masked)}",
        "",
        "steps",
    ]
    for step in summary["steps"]:
        lines.append(f"  {step['id']}: {step['mask']}{_parameters(step.get('parameters'))}")
        if step.get("touched"):
            moved = folded([f"{c} {n:,}" for c, n in step["touched"].items()])
            lines.append(f"    records changed: {moved}")
        lines += [f"    {'kept' if g['ok'] else 'BROKEN'}: {g['text']}" for g in step["guarantees"]]
        lines += [f"    caution: {w}" for w in step.get("warnings", [])]
    for side, head in (
        ("risk", "risk (what an intruder finds)"),
        ("utility", "utility (what analysts lose)"),
    ):
        if summary[side]:
            lines += ["", head, *(f"  {line}" for r in summary[side] for line in _measure(r))]
    if summary["limits"]:
        lines += ["", "limits", *_limits(summary)]
    if "reproduce" in summary:
        lines += ["", f"reproduce: {summary['reproduce']}   (plan {summary['plan']['hash']})"]
    of_steps = {f"step {s['id']}: {w}" for s in summary["steps"] for w in s.get("warnings", [])}
    cautions = [f"caution: {w}" for w in summary.get("warnings", []) if w not in of_steps]
    if cautions:
        lines += ["", *cautions]
    return "\n".join([*lines, "", _promised(summary)])


def text(summary: dict[str, Any]) -> str:
    """The whole report: what the HTML says, with tables in place of pictures."""
    if "file" not in summary:  # of an experiment alone
        return "\n".join([*_head(summary), *_map(summary)])
    parts = [
        _head(summary),
        _file(summary),
        _steps(summary),
        _risk(summary),
        _utility(summary),
        _pictures(summary),
        _map(summary),
        _again(summary),
    ]
    return "\n".join([*(line for part in parts for line in part), "", _promised(summary)])


def _title(words: str) -> list[str]:
    return ["", words, "=" * len(words)]


def _wrapped(words: str, indent: str = "") -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ") or [""]


def _grid(
    heads: Sequence[str], rows: Sequence[Sequence[Any]], digits: int = 4, indent: str = "  "
) -> list[str]:
    """A table with aligned columns, numbers to the right."""
    cells = [[" ".join(shown(v, digits).split()) for v in row] for row in rows]
    right = [all(isinstance(r[j], (int, float)) or r[j] is None for r in rows) for j in range(len(heads))]
    return grid(heads, cells, right, indent)


def _head(summary: dict[str, Any]) -> list[str]:
    made = f", {summary['made']}" if summary.get("made") else ""
    out = [summary["title"], f"{summary['report']} report, sfumato {summary['sfumato']}{made}"]
    if "verdict" in summary:
        out += ["", *_wrapped(_verdict(summary)), ""]
    if summary["report"] == "internal":
        out.append("Confidential: it shows parameters and the original file's distributions.")
    for line in summary.get("glance", []):
        out += _wrapped(f"- {line}")
    if summary.get("warnings"):
        out += ["", plural(len(summary["warnings"]), "caution")]
        for w in summary["warnings"]:
            out += _wrapped(f"! {w}")
    return out


def _file(summary: dict[str, Any]) -> list[str]:
    file = summary["file"]
    out = _title("What was released, and how to read it")
    columns = plural(len(file["columns"]), "column")
    masked = sum(c["masked"] for c in file["columns"])
    out.append(f"{plural(file['records'], 'record')}, {columns}, {masked} of them masked.")
    if masked:
        out += _wrapped(
            "The file has been changed on purpose. A value in a masked column may differ from the true one; "
            "use the file for statistics: a single record need not be true of anyone."
        )
    if file.get("shuffled"):
        out.append("Records stand in random order.")
    internal = summary["report"] == "internal"
    heads = ["column", "label", "kind", "role", "in the release", *(["missing"] if internal else [])]
    rows = [
        [c["name"], c["label"] or "", c["kind"], c["role"] or "", c["state"]]
        + ([c["missing"]] if internal else [])
        for c in file["columns"]
    ]
    out += _grid(heads, rows)
    if file["dropped"]:
        out += _wrapped(f"Not released: {', '.join(file['dropped'])}.")
    return out


def _steps(summary: dict[str, Any]) -> list[str]:
    out = _title("What was done, and what it keeps")
    if not summary["steps"]:
        out.append("No step: the file is as collected.")
    for at, step in enumerate(summary["steps"], start=1):
        out += ["", f"{at}. {step['id']} ({step['mask']})"]
        reference = f" {step['reference']}." if step["reference"] else ""
        out += _wrapped(f"{step['about']}{reference}", "  ")
        for name, value in (step.get("parameters") or {}).items():
            out += _wrapped(f"{name} = {shown(value)}", "  ")
        if step.get("defaults"):
            said = "; ".join(f"{name} = {shown(value)}" for name, value in step["defaults"].items())
            out += _wrapped(f"at their defaults: {said}", "  ")
        for g in step["guarantees"]:
            detail = f": {g['detail']}" if g.get("detail") else ""
            out += _wrapped(f"{'kept' if g['ok'] else 'BROKEN'}: {g['text']}{detail}", "  ")
        for w in step.get("warnings", []):
            out += _wrapped(f"caution: {w}", "  ")
        if step.get("touched"):
            n = summary["file"]["records"] or 1
            rows = [[c, k, percent(k / n)] for c, k in step["touched"].items()]
            out += _grid(["column", "records changed", "share"], rows)
        found = arranged(step.get("figures") or {})
        out += [line for k, v in found["single"].items() for line in _wrapped(f"{k}: {shown(v)}", "  ")]
        for table in [*found["by"], *found["tables"]]:
            out += _breakdown(table)
    if summary["limits"]:
        out += ["", "limits of the plan", *_limits(summary)]
    return out


def _limits(summary: dict[str, Any]) -> list[str]:
    return [f"  {'ok  ' if x['ok'] else 'FAIL'} {x['text']}" for x in summary["limits"]]


def _breakdown(table: dict[str, Any]) -> list[str]:
    rows = table["rows"][:40]
    out = ["", *([f"  {table['name']}"] if table.get("name") else []), *_grid(table["columns"], rows)]
    return [*out, f"  … {plural(table['all'] - 40, 'more row')}"] if table["all"] > 40 else out


def _details(found: list[dict[str, Any]]) -> list[str]:
    out = []
    for r in found:
        if r.get("notes") or r.get("breakdown"):
            out += ["", r["name"]]
            out += [line for note in r.get("notes", []) for line in _wrapped(f"- {note}", "  ")]
            if r.get("breakdown"):
                out += _breakdown(r["breakdown"])
    return out


def _about(found: list[dict[str, Any]]) -> list[str]:
    out = []
    for r in found:
        knows = f" The intruder has {', '.join(r['knows'])}." if r.get("knows") else ""
        before = f" Before: {r['before_is']}." if r.get("before_is") else ""
        reference = f" {r['reference']}." if r["reference"] else ""
        out += _wrapped(f"{r['name']}: {r['about']}{reference}{knows}{before}")
    return out


def _risk(summary: dict[str, Any]) -> list[str]:
    found = summary["risk"]
    if not found:
        return []
    rows = []
    for r in found:
        interval = span(*r["interval"]) if r["interval"] else ""
        before = number(r["before"], 4) if r.get("before") is not None else ""
        chance = r["figures"].get("baseline")
        chance = number(chance) if isinstance(chance, (int, float)) else ""
        rows.append([r["name"], before, valued(r), interval, chance, r["unit"]])
    heads = ["measure", "before", "after", "95% interval", "by chance", "unit"]
    return [
        *_title("Risk: what an intruder finds"),
        "Lower is safer.",
        *_grid(heads, rows),
        "",
        *_about(found),
        *_details(found),
    ]


def _utility(summary: dict[str, Any]) -> list[str]:
    found = summary["utility"]
    if not found:
        return []
    rows = [
        [r["name"], valued(r), span(*r["interval"]) if r["interval"] else "", r["unit"], r["better"]]
        for r in found
    ]
    out = _title("What analysts lose")
    out += [*_grid(["measure", "value", "95% interval", "unit", "better"], rows), "", *_about(found)]
    out += _details(found)
    for r in found:
        if r["measure"] == "information_loss" and r["figures"]:
            losses = [[k, LOSS_WORDS[k], number(r["figures"].get(k))] for k in LOSSES]
            out += ["", f"{r['name']} (0 is no loss)", *_grid(["figure", "of what", "loss"], losses)]
    areas = summary.get("pictures", {}).get("by_area") or []
    if areas:
        heads = ["measure", "table", "level", "areas", "mean", "median", "p90", "maximum"]
        table = [[*((" × ".join(a[h]) if h == "table" else a.get(h)) for h in heads)] for a in areas]
        out += ["", "D by area", *_grid(heads, table, 3)]
    return out


def _pictures(summary: dict[str, Any]) -> list[str]:
    drawn = summary.get("pictures", {})
    columns, classes = drawn.get("columns", []), drawn.get("categories", [])
    if not columns and not classes:
        return []
    internal = summary["report"] == "internal"
    out = _title("Distributions before and after" if internal else "Distributions of the masked file")
    if columns and internal:
        keys = ("mean_before", "mean_after", "sd_before", "sd_after", "ks")
        heads = ["column", "mean before", "after", "sd before", "after", "KS", "mean |move|, sd", "changed"]
        rows = [
            [c["name"], *(c.get(k) for k in keys), d.get("mean"), percent(d.get("changed"))]
            for c in columns
            for d in [c.get("displacement", {})]
        ]
        out += _grid(heads, rows)
    elif columns:
        out += _grid(
            ["column", "mean", "standard deviation"],
            [[c["name"], c["mean_after"], c["sd_after"]] for c in columns],
        )
    for c in classes:
        changed = f", {percent(c['changed'])} of the records changed" if "changed" in c else ""
        out += ["", f"{c['name']}{changed}"]
        known = c["before_known"]
        heads = ["value", *(["before"] if known else []), "after", *(["have another now"] if known else [])]
        out += _grid(
            heads,
            [
                [r["name"], *([_few(r["before"])] if known else []), percent(r["after"])]
                + ([percent(r["left"])] if known else [])
                for r in c["rows"]
            ],
        )
    correlations = drawn.get("correlations")
    if correlations:
        names = correlations["columns"]
        for which in ("before", "after", "difference"):
            if which in correlations:
                rows = [[n, *row] for n, row in zip(names, correlations[which], strict=True)]
                out += ["", f"correlations, {which}", *_grid(["", *names], rows, 2)]
    return out


def _few(share: float | None) -> str:
    return "fewer than 5" if share is None else percent(share)


def _map(summary: dict[str, Any]) -> list[str]:
    experiment = summary.get("experiment")
    if not experiment:
        return []
    rows = [
        [p["label"], p["runs"], p["y"], p["y_error"], p["x"], p["x_error"], _place(p)]
        for p in experiment["points"]
    ]
    heads = ["plan", "runs", experiment["risk"], "± se", experiment["loss"], "± se", "frontier"]
    return [*_title("Risk-utility map"), *_grid(heads, rows)]


def _place(point: dict[str, Any]) -> str:
    return ("yes" if point["frontier"] else "no") + (", in doubt" if point.get("doubtful") else "")


def _again(summary: dict[str, Any]) -> list[str]:
    if "reproduce" not in summary:
        return []
    plan = summary["plan"]
    data = f"the data, {plan['data']}" if plan.get("data") else 'the data, which it names with data = "…"'
    return [
        *_title("Do it again"),
        f"  {summary['reproduce']}",
        f"plan.toml is the text below (digest {plan['hash']}); it stands beside {data}.",
        "SEED is the file that --save-seed wrote, RELEASE a folder that isn't there yet.",
        "",
        plan["text"].rstrip(),
    ]


def _verdict(summary: dict[str, Any]) -> str:
    """The verdict, which leads: SAFE or NOT in capitals, so that it isn't overlooked."""
    verdict = summary["verdict"]
    head = verdict["head"]
    return f"VERDICT: {head.upper()}{verdict['text'][len(head) :]}"


def _promised(summary: dict[str, Any]) -> str:
    if not summary["ok"]:
        return "A GUARANTEE OR LIMIT FAILS"
    if summary["limits"] or summary["report"] == "public":
        return "every guarantee and limit holds"
    return "every guarantee holds; the plan sets no limits, so judge the risk yourself"


def _parameters(parameters: dict[str, Any] | None) -> str:
    if not parameters:
        return ""
    said = []
    for name, value in parameters.items():
        words = ", ".join(str(v) for v in value) if isinstance(value, list) else str(value)
        said.append(f"{name} = {words if len(words) <= 60 else words[:57] + '…'}")
    return f" ({'; '.join(said)})"


def _measure(r: dict[str, Any]) -> list[str]:
    interval = f" ({span(*r['interval'])})" if r["interval"] else ""
    before = f", before {number(r['before'])}" if r.get("before") is not None else ""
    chance = r["figures"].get("baseline")
    baseline = f", by chance {number(chance)}" if isinstance(chance, (int, float)) else ""
    unit = "record" if r["unit"] == "records" and r["value"] == 1 else r["unit"]
    head = f"{r['name']}: {valued(r)} {unit}{interval}{before}{baseline}; {r['better']} is better"
    return [head, *(f"  {note}" for note in r.get("notes", []))]
