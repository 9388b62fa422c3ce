"""A summary as one self-contained HTML file: no request leaves it, no script runs in it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sfumato.report import charts

if TYPE_CHECKING:
    import jinja2

LOSSES = ("il1", "il1s", "il2", "il3", "il4", "il5", "s0", "s1", "s2")
LOSS_WORDS = {
    "il1": "values (relative)",
    "il1s": "values (in √2 sd)",
    "il2": "means",
    "il3": "covariances",
    "il4": "variances",
    "il5": "correlations",
    "s0": "s0 = mean of IL2 … IL5",
    "s1": "s1 = mean of IL1 … IL5",
    "s2": "s2 = mean of IL1s, IL2, IL4, IL5",
}


@cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = _number
    source = files("sfumato.report").joinpath("template.html").read_text(encoding="utf-8")
    return environment.from_string(source)


def html(summary: dict[str, Any]) -> str:
    """The report of a summary (of a run, or of an experiment)."""
    from markupsafe import Markup

    pictures = {name: [Markup(s) for s in drawn] for name, drawn in _pictures(summary).items()}
    return _template().render(s=summary, pictures=pictures, losses=LOSSES, loss_words=LOSS_WORDS)


def _pictures(summary: dict[str, Any]) -> dict[str, list[str]]:
    drawn = summary.get("pictures", {})
    out: dict[str, list[str]] = {"columns": [], "correlations": [], "areas": [], "risk": [], "map": []}
    for column in drawn.get("columns", []):
        out["columns"].append(charts.distribution(column))
        if "displacement" in column:
            out["columns"].append(charts.displacement(column))
    correlations = drawn.get("correlations")
    if correlations:
        names = correlations["columns"]
        for which, title in (("before", "Before"), ("after", "After")):
            if which in correlations:
                out["correlations"].append(charts.heatmap(names, correlations[which], title))
        if "difference" in correlations:
            largest = max(
                (abs(v) for row in correlations["difference"] for v in row if v is not None), default=0
            )
            scale = max(0.05, round(largest + 0.005, 2))
            out["correlations"].append(
                charts.heatmap(names, correlations["difference"], "After − before", scale)
            )
    out["areas"] = [charts.areas(level) for level in drawn.get("by_area", [])]
    rates = [r for r in summary.get("risk", []) if r["bounds"] == [0.0, 1.0] and r["value"] is not None]
    if rates:
        rows = [
            {
                "name": r["name"],
                "value": r["value"],
                "low": r["interval"][0] if r["interval"] else None,
                "high": r["interval"][1] if r["interval"] else None,
                "baseline": r["figures"].get("baseline"),
                "before": r.get("before"),
            }
            for r in rates
        ]
        out["risk"] = [charts.dots(rows, "share of records", title="Risk")]
    out["map"] = _map(summary, rates)
    return out


def _map(summary: dict[str, Any], rates: list[dict[str, Any]]) -> list[str]:
    experiment = summary.get("experiment")
    if experiment:
        return [
            charts.scatter(
                experiment["points"], experiment["loss"], experiment["risk"], title="Risk-utility map"
            )
        ]
    loss = next((r for r in summary.get("utility", []) if r["measure"] == "information_loss"), None)
    if loss is None or loss["value"] is None or not rates:
        return []
    points = [{"label": r["name"], "x": loss["value"], "y": r["value"]} for r in rates]
    points.append({"label": "untouched file", "x": 0.0, "y": 1.0})
    return [charts.scatter(points, "information loss s0", "share re-identified", title="Risk-utility map")]


def _number(value: Any, digits: int = 4) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if value is None or isinstance(value, float):
        return charts.number(value, digits)
    if isinstance(value, list):
        return ", ".join(_number(v, digits) for v in value)
    if isinstance(value, dict):
        return "; ".join(f"{k}: {_number(v, digits)}" for k, v in value.items())
    return str(value)
