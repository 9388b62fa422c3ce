"""A summary as plain text, for a terminal or a mail."""

from __future__ import annotations

from typing import Any

from sfumato.report.charts import number


def text(summary: dict[str, Any]) -> str:
    """The summary in a screenful."""
    file = summary["file"]
    masked = [c["name"] for c in file["columns"] if c["masked"]]
    lines = [
        f"{summary['title']} ({summary['report']} report)",
        f"{file['records']:,} records, {len(file['columns'])} columns; masked: {', '.join(masked) or 'none'}",
        "",
        "steps",
    ]
    for step in summary["steps"]:
        lines.append(f"  {step['id']}: {step['mask']}{_parameters(step.get('parameters'))}")
        if "touched" in step:
            moved = ", ".join(f"{c} {n:,}" for c, n in step["touched"].items())
            lines.append(f"    records changed: {moved or 'none'}")
        lines += [f"    {'kept' if g['ok'] else 'BROKEN'}: {g['text']}" for g in step["guarantees"]]
        lines += [f"    caution: {w}" for w in step.get("warnings", [])]
    for side, head in (
        ("risk", "risk (what an intruder finds)"),
        ("utility", "utility (what analysts lose)"),
    ):
        if summary[side]:
            lines += ["", head, *(f"  {line}" for r in summary[side] for line in _measure(r))]
    if summary["limits"]:
        lines += [
            "",
            "limits",
            *(f"  {'ok  ' if x['ok'] else 'FAIL'} {x['text']}" for x in summary["limits"]),
        ]
    if "reproduce" in summary:
        lines += ["", f"reproduce: {summary['reproduce']}   (plan {summary['plan']['hash']})"]
    of_steps = {f"step {s['id']}: {w}" for s in summary["steps"] for w in s.get("warnings", [])}
    cautions = [f"caution: {w}" for w in summary.get("warnings", []) if w not in of_steps]
    if cautions:
        lines += ["", *cautions]
    lines += ["", _verdict(summary)]
    return "\n".join(lines)


def _verdict(summary: dict[str, Any]) -> str:
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
        shown = ", ".join(str(v) for v in value) if isinstance(value, list) else str(value)
        said.append(f"{name} = {shown if len(shown) <= 60 else shown[:57] + '…'}")
    return f" ({'; '.join(said)})"


def _measure(r: dict[str, Any]) -> list[str]:
    interval = f" ({number(r['interval'][0])} to {number(r['interval'][1])})" if r["interval"] else ""
    before = f", before {number(r['before'])}" if r.get("before") is not None else ""
    chance = r["figures"].get("baseline")
    baseline = f", by chance {number(chance)}" if isinstance(chance, (int, float)) else ""
    value = f"{number(r['value'], 4)} {r['unit']}{interval}{before}{baseline}"
    head = f"{r['name']}: {value}; {r['better']} is better"
    return [head, *(f"  {note}" for note in r.get("notes", []))]
