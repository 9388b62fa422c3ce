"""Charts by themselves: every class has a look, in light and dark; nothing is styled inline."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from sfumato import drawing

POINTS = [
    {"label": "a", "x": 0.1, "y": 0.4, "x_error": 0.01, "y_error": 0.02, "frontier": True},
    {"label": "b", "x": 0.2, "y": 0.1, "x_error": 0.0, "y_error": None, "frontier": True},
    {"label": "<c>", "x": 0.3, "y": 0.5, "x_error": None, "y_error": None, "frontier": False},
]
MOVED = {"edges": [-1.5, -0.5, 0.5, 1.5], "share": [0.2, 0.5, 0.3], "mean": 0.3, "changed": 0.5}
COLUMN = {
    "name": "<INCOME>",
    "edges": [0.0, 1.0, 10.0, 100.0],
    "after": [0.2, 0.3, 0.5],
    "before": [0.2, None, 0.8],
    "scale": "log",
    "displacement": MOVED,
}
ROWS = [
    {"name": "</text>", "after": 0.4, "before": 0.5, "left": 0.1},
    {"name": "b", "after": 0.6, "before": None, "left": None},
]
CLASSES = {"name": "SEX", "rows": ROWS, "before_known": True, "changed": 0.1}
RISK = [{"name": "linkage", "value": 0.2, "low": 0.1, "high": 0.3, "baseline": 0.01, "before": 0.9}]
AREAS = {"level": "county", "edges": [0.0, 0.1], "counts": [3], "areas": 3, "median": 0.05, "maximum": 0.09}
CHARTS = {
    "scatter": drawing.scatter(POINTS, "loss", "risk", title="Map"),
    "one run": drawing.scatter([{"label": "a", "x": 1, "y": 0.4, "from": 0.9}], "loss", "risk", title="Map"),
    "heatmap": drawing.heatmap(["a", "<b>"], [[1.0, None], [-0.9, 0.1]], "Before"),
    "dots": drawing.dots(RISK, "share", title="Risk"),
    "distribution": drawing.distribution(COLUMN),
    "displacement": drawing.displacement(COLUMN),
    "categories": drawing.categories(CLASSES),
    "left": drawing.left(CLASSES),
    "areas": drawing.areas(AREAS),
}


@pytest.mark.parametrize("name", CHARTS)
def test_every_class_has_a_look_and_nothing_is_styled_inline(name: str) -> None:
    svg = CHARTS[name]
    rules = drawing.rules()
    classes = {c for found in re.findall(r'class="([^"]*)"', svg) for c in found.split()}
    assert classes > {"sf-chart"}
    for c in classes:
        assert f".{c}{{" in rules, c
    assert " style=" not in svg  # style-src 'self' would drop it
    assert "<style" not in svg
    # No shape is left to SVG's own black: filled by class or by its own colour, or a line.
    for element in ET.fromstring(svg).iter():
        tag = element.tag.rpartition("}")[2]
        if tag in {"text", "rect", "circle", "path"}:
            assert "fill-" in element.get("class", "") or element.get("fill"), ET.tostring(element)


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_alone_carries_its_style(name: str) -> None:
    alone = drawing.standalone(CHARTS[name])
    root = ET.fromstring(alone)
    assert root[0].tag.endswith("style")
    assert root[1].tag.endswith("title")  # what a screen reader says
    assert root[0].text == drawing.rules()
    assert "url(" not in alone
    assert "@import" not in alone


def test_the_rules_touch_nothing_but_charts() -> None:
    """A notebook's page holds other people's charts too: every selector starts from ours."""
    flat = re.sub(r"@media[^{]*\{(.*?\})\}", r"\1", drawing.rules())
    for block in re.findall(r"([^{}]+)\{", flat):
        for selector in block.split(","):
            assert ".sf-chart" in selector, selector


def test_light_and_dark_have_the_same_colours_and_enough_contrast() -> None:
    from sfumato.drawing.style import DARK, LIGHT

    def luminance(colour: str) -> float:  # WCAG 2
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    assert set(LIGHT) == set(DARK)
    for theme in (LIGHT, DARK):
        paper = luminance(theme["paper"])
        for name, least in (("ink", 7.0), ("soft", 4.5), ("before", 3.0), ("after", 3.0), ("move", 3.0)):
            a, b = sorted((paper, luminance(theme[name])))
            assert (b + 0.05) / (a + 0.05) >= least, name


def test_a_summary_has_its_gallery() -> None:
    result = {
        "name": "linkage",
        "measure": "linkage",
        "value": 0.2,
        "bounds": [0.0, 1.0],
        "interval": [0.1, 0.3],
        "figures": {"baseline": 0.01},
        "before": 0.9,
    }
    loss = result | {"name": "information_loss", "measure": "information_loss", "value": 0.05}
    drawn = drawing.gallery(
        {
            "risk": [result],
            "utility": [loss],
            "pictures": {
                "columns": [COLUMN],
                "categories": [CLASSES],
                "correlations": {"columns": ["a", "b"], "after": [[1.0, 0.5], [0.5, 1.0]]},
                "by_area": [AREAS, {"level": "state"}],
            },
        }
    )
    assert {name: len(found) for name, found in drawn.items()} == {
        "columns": 2,
        "correlations": 1,
        "areas": 1,
        "risk": 1,
        "map": 1,
        "groups": 0,
    }
