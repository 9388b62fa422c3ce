"""The Compare screen: plans as points of risk and loss, limits, the best under them."""

from __future__ import annotations

from typing import Any

from sfumato import registry
from sfumato.plan.audience import BATTERY
from sfumato.workbench import charts, edits
from sfumato.workbench.adopt import work_hash
from sfumato.workbench.bench import Workbench
from sfumato.workbench.forms import form_of
from sfumato.workbench.rail import limit_on
from sfumato.workbench.screens.common import Query, failed_job


def compare_screen(bench: Workbench, query: Query) -> dict[str, Any]:
    plan = bench.plan
    rate, loss = limit_on(plan, BATTERY, "rate"), limit_on(plan, "analyst_loss", "value")
    most_risk = rate.at_most if rate else None
    most_loss = loss.at_most if loss else None
    points = placed(bench, most_risk, most_loss)
    fits = [p for p in points if p["fits"]]
    best = min(fits, key=lambda p: (p["loss"], p["risk"])) if fits else None
    here = next((p for p in points if p["hash"] == work_hash(bench.now.text)), None)
    result = bench.result("run") or (bench.last_result("run") or ("", None))[1]
    tables = edits.tables(bench.now.text, "step")
    vary = []
    for at, table in reversed(list(enumerate(tables))):
        cls = registry.masks().get(str(table.get("mask")))
        if cls is None or table.get("off"):
            continue
        numbers = sorted((f for f in form_of(cls, table, []) if f.kind == "number"), key=lambda f: not f.said)
        vary += [
            (f"{at}.{f.name}", f"{table.get('id') or cls.name}: {f.label.casefold()}", f) for f in numbers
        ]
    chosen = query.get("vary", "")
    field = next((f for key, _, f in vary if key == chosen), vary[0][2] if vary else None)
    return {
        "points": points,
        "refused": [p for p in bench.points() if p.get("problem")],
        "best": best,
        "here": here,
        "most_risk": most_risk,
        "most_loss": most_loss,
        "map": charts.risk_map(
            points, risk_limit=most_risk, loss_limit=most_loss,
            best=best["letter"] if best else None, here=here["letter"] if here else None,
            before=(result or {}).get("before"),
        ) if points else "",
        "vary": vary,
        "chosen": chosen,
        "field": field,
        "values": _around(field),
        "job": next((j for k in ("search", "place") for j in bench.jobs.active(k)), None),
        "failed": failed_job(bench, "search") or failed_job(bench, "place"),
        "search": bench.now.kept.get("search"),
    }  # fmt: skip


def placed(bench: Workbench, most_risk: float | None, most_loss: float | None) -> list[dict[str, Any]]:
    """The map's points with a letter each, along the loss, and whether they meet the limits."""
    from sfumato.experiment.outcome import non_dominated

    there = sorted((p for p in bench.points() if not p.get("problem")), key=lambda p: (p["loss"], p["risk"]))
    if not there:
        return []
    on, _ = non_dominated([[p["risk"], p["loss"]] for p in there])
    shapes: dict[str, int] = {}
    out = []
    for k, (p, front) in enumerate(zip(there, on.tolist(), strict=True)):
        masks = [t.get("mask") for t in edits.tables(p["text"], "step") if not t.get("off")]
        kind = str(masks[-1]) if masks else "none"
        too = []
        if most_risk is not None and p["risk"] + 2 * p["risk_se"] > most_risk:
            too.append("risk too high" if p["risk"] > most_risk else "risk not surely low enough")
        if most_loss is not None and p["loss"] > most_loss:
            too.append("loss too high")
        limited = most_risk is not None or most_loss is not None
        out.append(
            {
                **p,
                "letter": _letters(k),
                "frontier": bool(front),
                "shape": shapes.setdefault(kind, len(shapes)),
                "kind": kind.replace("_", " "),
                "fits": limited and not too,
                "words": ", ".join(too) or ("within your limits" if limited else "no limit set"),
            }
        )
    return out


def _letters(k: int) -> str:
    return chr(65 + k) if k < 26 else f"{chr(64 + k // 26)}{chr(65 + k % 26)}"


def _around(field: Any) -> str:
    """Values to try: about the present one, within the bounds."""
    if field is None:
        return ""
    try:
        now = float(field.value)
    except (TypeError, ValueError):
        now = 10.0 if field.unit.startswith("%") else 3.0
    tried = [now * f for f in (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)] if now else [1, 2, 5, 10]
    if field.whole:
        tried = [round(v) for v in tried]
    low, high = field.low, field.high
    kept = [v for v in dict.fromkeys(tried) if (low is None or v >= low) and (high is None or v <= high)]
    return ", ".join(f"{v:.4g}" for v in kept)
