"""A summary as one self-contained HTML file: no request leaves it, no script runs in it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sfumato.drawing import gallery, number, percent, plural, rules, short, span
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

    pictures = {name: [Markup(s) for s in drawn] for name, drawn in gallery(summary).items()}
    page = _template().render(
        s=summary,
        pictures=pictures,
        chart_rules=Markup(rules(dark=False)),
        losses=LOSSES,
        loss_words=LOSS_WORDS,
    )
    # Signs that no HTML file may hold, should a name or a label have them.
    return "".join(c if c >= " " or c in "\n\t" else "\ufffd" for c in page if c != "\r")


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
