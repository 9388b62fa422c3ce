"""The few sentences that a steward reads first: what holds, what an intruder finds, what is lost."""

from __future__ import annotations

from typing import Any

from sfumato.drawing import number, percent, plural


def glance(summary: dict[str, Any]) -> list[str]:
    """Made from the summary alone, so that it says no more than its report may."""
    out = [_promises(summary)]
    internal = summary["report"] == "internal"
    if summary["limits"]:
        failing = sum(not x["ok"] for x in summary["limits"])
        how = f"{failing} of them fail" if failing > 1 else "one of them fails" if failing else "within them"
        limits = plural(len(summary["limits"]), "limit")
        if len(summary["limits"]) == 1:
            how = "it fails" if failing else "it holds"
        out.append(f"The plan sets {limits} on risk and loss: {how}.")
    elif internal:
        out.append("The plan sets no limit on risk or loss, so the numbers below are yours to judge.")
    out += _risk(summary["risk"]) or ["No risk was measured: this report doesn't say how safe the file is."]
    loss = next((r for r in summary["utility"] if r["measure"] == "information_loss"), None)
    if loss is not None and loss["value"] is not None:
        out.append(f"Information loss s0 is {valued(loss)}, where 0 is no loss.")
    elif not summary["utility"]:
        out.append("No loss was measured: this report doesn't say how useful the file still is.")
    if summary.get("warnings"):
        out.append(f"There {_are(len(summary['warnings']), 'caution')}, listed below; read before you sign.")
    return out


def valued(result: dict[str, Any]) -> str:
    """A result's value with its words: ``at most 0.1``."""
    said = number(result["value"], 4)
    return f"{result['bound']} {said}" if result.get("bound") else said


def _are(n: int, what: str) -> str:
    return f"{'is' if n == 1 else 'are'} {plural(n, what)}"


def _promises(summary: dict[str, Any]) -> str:
    checks = [g for s in summary["steps"] for g in s["guarantees"]]
    steps = plural(len(summary["steps"]), "step")
    if not summary["steps"]:
        return "No step was taken: the file is as collected."
    if not checks:
        return f"{steps}; no exact promise is made."
    broken = sum(not g["ok"] for g in checks)
    promises = plural(len(checks), "exact promise")
    verdict = f"{broken} broken" if broken else "kept" if len(checks) == 1 else "all kept"
    return f"{steps}, {promises}, recomputed from the masked file: {verdict}."


def _risk(found: list[dict[str, Any]]) -> list[str]:
    out = []
    attacks = [r for r in found if "re-identified" in r["unit"] and r["value"] is not None]
    if attacks:
        worst = max(attacks, key=lambda r: r["value"])
        of = "the targets" if "targets" in worst["unit"] else "the records"
        which = "The attack" if len(attacks) == 1 else f"The strongest of {len(attacks)} attacks"
        share = f"{worst['bound']} {percent(worst['value'])}" if worst["bound"] else percent(worst["value"])
        text = f"{which}, {worst['name']}, re-identifies {share} of {of}"
        more = []
        if isinstance(worst["figures"].get("baseline"), (int, float)):
            more.append(f"{percent(worst['figures']['baseline'])} by chance")
        if worst.get("before") is not None:
            more.append(f"{percent(worst['before'])} before masking")
        out.append(text + (f" ({', '.join(more)})" if more else "") + ".")
    for r in found:
        if "re-identified" in r["unit"] or r["value"] is None:
            continue
        words = "record" if r["unit"] == "records" and r["value"] == 1 else r["unit"]
        before = f", before {number(r['before'], 4)}" if r.get("before") is not None else ""
        out.append(f"{r['name']}: {valued(r)} {words}{before}.")
    return out
