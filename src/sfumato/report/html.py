"""A summary as one self-contained HTML file: no request leaves it, no script runs in it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sfumato.report import charts
from sfumato.report.drawing import number, percent, plural, short, span
from sfumato.report.figures import arranged
from sfumato.report.glance import valued

if TYPE_CHECKING:
    import jinja2

LOSSES = ("il1", "il1s", "il2", "il3", "il4", "il5", "s0", "s1", "s2")
LOSS_WORDS = {
    "il1": "values, relative change",
    "il1s": "values, change in √2 standard deviations",
    "il2": "means",
    "il3": "covariances",
    "il4": "variances",
    "il5": "correlations (absolute change)",
    "s0": "mean of il2, il3, il4 and il5",
    "s1": "mean of il1 to il5",
    "s2": "mean of il1s, il2, il4 and il5",
}


@cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": shown, "percent": percent, "plural": plural, "short": short}
    environment.globals |= {"span": span, "valued": valued, "arranged": arranged}
    source = files("sfumato.report").joinpath("template.html").read_text(encoding="utf-8")
    return environment.from_string(source)


def html(summary: dict[str, Any]) -> str:
    """The report of a summary (of a run, or of an experiment)."""
    from markupsafe import Markup

    pictures = {name: [Markup(s) for s in drawn] for name, drawn in _pictures(summary).items()}
    page = _template().render(s=summary, pictures=pictures, losses=LOSSES, loss_words=LOSS_WORDS)
    # Signs that no HTML file may hold, should a name or a label have them.
    return "".join(c if c >= " " or c in "\n\t" else "\ufffd" for c in page if c != "\r")


def _pictures(summary: dict[str, Any]) -> dict[str, list[str]]:
    drawn = summary.get("pictures", {})
    out: dict[str, list[str]] = {"columns": [], "correlations": [], "risk": [], "map": []}
    for column in drawn.get("columns", []):
        moved = charts.displacement(column) if "displacement" in column else ""
        out["columns"].append(charts.distribution(column) + moved)
    for column in drawn.get("categories", []):
        moved = charts.left(column) if any(r.get("left") is not None for r in column["rows"]) else ""
        out["columns"].append(charts.categories(column) + moved)
    correlations = drawn.get("correlations")
    if correlations:
        names = correlations["columns"]
        after = "After" if "before" in correlations else "In the masked file"
        for which, title in (("before", "Before"), ("after", after)):
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
    out["areas"] = [charts.areas(level) for level in drawn.get("by_area", []) if "edges" in level]
    rows = [row for r in summary.get("risk", []) if (row := _risk_row(r)) is not None]
    if rows:
        out["risk"] = [charts.dots(rows, "share of records (or values)", title="Risk")]
    out["map"] = _map(summary)
    return out


def _risk_row(r: dict[str, Any]) -> dict[str, Any] | None:
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
        return [charts.scatter(experiment["points"], *axes, title="Risk-utility map")]
    loss = next((r for r in summary.get("utility", []) if r["measure"] == "information_loss"), None)
    rates = [r for r in summary.get("risk", []) if r["bounds"] == [0.0, 1.0] and r["value"] is not None]
    if loss is None or loss["value"] is None or not rates or loss.get("bound"):
        return []
    points = [
        {"label": r["name"], "x": loss["value"], "y": r["value"], "from": r.get("before")} for r in rates
    ]
    return [charts.scatter(points, "information loss s0", "risk (share found)", title="Risk-utility map")]


def shown(value: Any, digits: int = 4) -> str:
    """Any plain value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if value is None or isinstance(value, float):
        return number(value, digits)
    if isinstance(value, list):
        return ", ".join(shown(v, digits) for v in value)
    if isinstance(value, dict):
        return "; ".join(f"{k}: {shown(v, digits)}" for k, v in value.items())
    return str(value)
