"""Distributions before and after: histograms, categories, displacements, areas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.drawing.frame import Frame, ticks
from sfumato.drawing.words import esc, number, percent, plural, short, span


def distribution(column: dict[str, Any]) -> str:
    """After as bars and, where it is known, before as a line: share of records by value.

    Long-tailed columns have bars at 1, 2 and 5 times the powers of ten, each as wide as the next.
    """
    edges, after, before = column["edges"], column["after"], column.get("before")
    top = max([*after, *(b or 0.0 for b in before or []), 1e-9]) * 1.08
    uneven = column.get("scale") == "log"
    at = list(range(len(edges))) if uneven else edges
    f = Frame(420, 250, (at[0], at[-1]), (0.0, top))
    f.y_axis("share of records", percents=True)
    marks = [(k, number(e)) for k, e in enumerate(edges) if _power_of_ten(e)] if uneven else None
    unit = column.get("label") or column["name"]
    f.x_axis(f"{short(unit, 44)} (log scale)" if uneven else unit, about=4, marks=marks)
    for i, share in enumerate(after):
        tip = f"{_class(edges, i)}: after {percent(share)}"
        tip += f", before {_few(before[i])}" if before else ""
        f.bar(at[i], at[i + 1], share, "after" if before else "before", tip, 0.55 if before else 0.85)
    if before:
        path, pen = "", False
        for i, share in enumerate([*before, None]):
            if share is None:  # too few to show: the line stops, it doesn't claim that there are none
                path += f"V{f.y0:.1f}" if pen else ""
            else:
                path += "" if pen else f"M{f.px(at[i]):.1f},{f.y0:.1f}"
                path += f"V{f.py(share):.1f}H{f.px(at[i + 1]):.1f}"
            pen = share is not None
        f.add(f'<path d="{path}" fill="none" class="line-before" stroke-width="2" pointer-events="none"/>')
    f.head(column["name"], most=28 if before else 44)
    if before:
        f.legend([("before", "before", "line"), ("after", "after", "bar")])
    what = "before and after masking" if before else "in the masked file"
    return f.svg(f"{column['name']} {what}", f"Histogram of {column['name']} {what}")


def _few(share: float | None) -> str:
    return "fewer than 5 records" if share is None else percent(share)


def _power_of_ten(value: float) -> bool:
    return value == 0 or f"{abs(value):.6e}".startswith("1.000000e")


def _class(edges: Sequence[float], i: int) -> str:
    if i == 0:
        return f"below {number(edges[1])}"
    if i == len(edges) - 2:
        return f"{number(edges[i])} and above"
    return f"{number(edges[i])} to {number(edges[i + 1])}"


def displacement(column: dict[str, Any]) -> str:
    """How far the values of the records that changed moved, in standard deviations."""
    d = column["displacement"]
    edges, share = d["edges"], d["share"]
    f = Frame(420, 250, (edges[0], edges[-1]), (0.0, max([*share, 1e-9]) * 1.08))
    f.y_axis("share of those changed", percents=True)
    f.x_axis("after − before, in standard deviations (sd) of the original")
    for i, s in enumerate(share):
        f.bar(edges[i], edges[i + 1], s, "move", f"{_class(edges, i)} sd: {percent(s)}")
    f.line(f.px(0), f.y0, f.px(0), f.y1, stroke="ink", dash="3 3")
    f.head("Displacement")
    f.text(f.x1, 15, f"mean {number(d['mean'])} sd · {percent(d['changed'])} changed", anchor="end")
    about = f"Histogram of the displacement of {column['name']}, mean {number(d['mean'])} standard deviations"
    return f.svg(f"Displacement of {column['name']}", about)


def categories(column: dict[str, Any]) -> str:
    """The share of records in each category: after as bars, before as a line across."""
    rows, known = column["rows"], column["before_known"]
    high = max([*(r["after"] for r in rows), *(r.get("before") or 0 for r in rows), 1e-9]) * 1.08
    f = Frame(420, 84 + 22 * len(rows), (0.0, high), (0, 1), left=132)
    f.x_axis("share of records (%)", marks=[(t, f"{100 * t:g}") for t in ticks(0.0, high, 4)])
    for i, r in enumerate(rows):
        y = f.y1 + 6 + 22 * i
        tip = f"{r['name']}: after {percent(r['after'])}"
        tip += f", before {_few(r['before'])}" if known else ""
        f.text(f.x0 - 6, y + 12, short(r["name"], 20), anchor="end")
        f.add(
            f'<rect x="{f.x0}" y="{y}" width="{max(f.px(r["after"]) - f.x0, 0.5):.1f}" height="16" '
            f'class="fill-{"after" if known else "before"}" fill-opacity="{0.55 if known else 0.85}">'
            f"<title>{esc(tip)}</title></rect>"
        )
        if known and r["before"] is not None:
            f.line(f.px(r["before"]), y - 2, f.px(r["before"]), y + 18, stroke="before", width=2.5)
    f.head(column["name"], 6, most=28 if known else 44)
    if known:
        f.legend([("before", "before", "tick"), ("after", "after", "bar")])
    what = "before and after masking" if known else "in the masked file"
    return f.svg(f"{column['name']} {what}", f"Categories of {column['name']} {what}")


def left(column: dict[str, Any]) -> str:
    """Of the records in each category before, the share that carries another value now."""
    rows = [r for r in column["rows"] if r.get("left") is not None]
    f = Frame(420, 84 + 22 * len(rows), (0.0, 1.0), (0, 1), left=132)
    f.x_axis(
        "records of this value that have another one now (%)", marks=[(k / 4, f"{25 * k}") for k in range(5)]
    )
    for i, r in enumerate(rows):
        y = f.y1 + 6 + 22 * i
        f.text(f.x0 - 6, y + 12, short(r["name"], 20), anchor="end")
        tip = f"{r['name']}: {percent(r['left'])} have another value now"
        f.add(
            f'<rect x="{f.x0}" y="{y}" width="{max(f.px(r["left"]) - f.x0, 0.5):.1f}" height="16" '
            f'class="fill-move" fill-opacity="0.85"><title>{esc(tip)}</title></rect>'
        )
    f.head("Displacement", 6)
    f.text(f.x1, 15, f"{percent(column['changed'])} of all records changed", anchor="end")
    return f.svg(f"Displacement of {column['name']}", f"Share of records of each {column['name']} that moved")


def areas(level: dict[str, Any]) -> str:
    """The distribution of D over the areas of one geographic level."""
    edges, counts = level["edges"], level["counts"]
    f = Frame(420, 250, (edges[0], edges[-1]), (0.0, max([*counts, 1]) * 1.08), top=50)
    f.y_axis("number of areas", whole=True)
    f.x_axis("D, the share of an area's records moved between cells", about=4)
    for i, n in enumerate(counts):
        f.bar(edges[i], edges[i + 1], n, "before", f"D {span(edges[i], edges[i + 1])}: {plural(n, 'area')}")
    table = " × ".join(level.get("table", []))
    f.head(f"{level['level']}: {table}" if table else str(level["level"]), most=44)
    words = f"{plural(level['areas'], 'area')} · median {number(level['median'])}"
    f.text(f.x0, 32, f"{words} · largest {number(level['maximum'])}", anchor="start")
    about = f"Histogram of D over {plural(level['areas'], 'area')} of {level['level']}"
    return f.svg(f"D by {level['level']}", about)
