"""All pictures of a summary (of a run, or of an experiment), from its plain values."""

from __future__ import annotations

from typing import Any

from sfumato.drawing.distributions import areas, categories, displacement, distribution, left
from sfumato.drawing.dots import dots
from sfumato.drawing.heatmap import heatmap
from sfumato.drawing.scatter import scatter


def gallery(summary: dict[str, Any]) -> dict[str, list[str]]:
    """The charts by what they show: ``columns``, ``correlations``, ``areas``, ``risk``, ``map``, ``groups``.

    >>> gallery({})
    {'columns': [], 'correlations': [], 'areas': [], 'risk': [], 'map': [],
     'groups': []}
    """
    drawn = summary.get("pictures", {})
    return {
        "columns": [*map(_numbers, drawn.get("columns", [])), *map(_classes, drawn.get("categories", []))],
        "correlations": _correlations(drawn.get("correlations")),
        "areas": [areas(level) for level in drawn.get("by_area", []) if "edges" in level],
        "risk": _risk(summary.get("risk", [])),
        "map": _map(summary),
        "groups": _groups((summary.get("board") or {}).get("groups", [])),
    }


def _numbers(column: dict[str, Any]) -> str:
    return distribution(column) + (displacement(column) if "displacement" in column else "")


def _classes(column: dict[str, Any]) -> str:
    moved = any(r.get("left") is not None for r in column["rows"])
    return categories(column) + (left(column) if moved else "")


def _correlations(found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    names, out = found["columns"], []
    after = "After" if "before" in found else "In the masked file"
    for which, title in (("before", "Before"), ("after", after)):
        if which in found:
            out.append(heatmap(names, found[which], title))
    if "difference" in found:
        largest = max((abs(v) for row in found["difference"] for v in row if v is not None), default=0)
        scale = max(0.05, round(largest + 0.005, 2))
        out.append(heatmap(names, found["difference"], "After − before", scale))
    return out


def _risk(found: list[dict[str, Any]]) -> list[str]:
    rows = [row for r in found if (row := risk_row(r)) is not None]
    return [dots(rows, "share of records (or values)", title="Risk")] if rows else []


def _groups(found: list[dict[str, Any]]) -> list[str]:
    """Risk by group: of each group's records, the share that stands alone with its keys."""
    rows = [{"name": r["group"], "value": r["after"], "before": r["before"]} for r in found]
    return (
        [dots(rows, "share of the group's records alone with their keys", title="Risk by group")]
        if rows
        else []
    )


def risk_row(r: dict[str, Any]) -> dict[str, Any] | None:
    """A line of the dot plot: rates as they are, counts of records as shares of the file."""
    if r["value"] is None:
        return None
    row = {"name": r["name"], "bound": r.get("bound"), "baseline": r["figures"].get("baseline")}
    if r["bounds"] == [0.0, 1.0]:
        low, high = r["interval"] or (None, None)
        return row | {"value": r["value"], "low": low, "high": high, "before": r.get("before")}
    if r.get("share") is not None:
        return row | {"value": r["share"], "before": r.get("before_share")}
    return None


def _map(summary: dict[str, Any]) -> list[str]:
    experiment = summary.get("experiment")
    if experiment:
        if not experiment["points"]:
            return []
        axes = (experiment["loss"], experiment["risk"])
        return [scatter(experiment["points"], *axes, title="Risk-utility map")]
    loss = next((r for r in summary.get("utility", []) if r["measure"] == "information_loss"), None)
    rates = [r for r in summary.get("risk", []) if r["bounds"] == [0.0, 1.0] and r["value"] is not None]
    if loss is None or loss["value"] is None or not rates or loss.get("bound"):
        return []
    points = [
        {"label": r["name"], "x": loss["value"], "y": r["value"], "from": r.get("before")} for r in rates
    ]
    return [scatter(points, "information loss s0", "risk (share found)", title="Risk-utility map")]
