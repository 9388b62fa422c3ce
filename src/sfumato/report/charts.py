"""The charts of a report as SVG text: axes with units, legends, tooltips.

Each function takes plain values and returns one ``<svg>`` element that needs nothing from outside;
every text is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.report.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RULE,
    SOFT,
    Frame,
    esc,
    number,
    percent,
    plural,
    short,
    span,
    ticks,
)

__all__ = [
    "areas",
    "categories",
    "displacement",
    "distribution",
    "dots",
    "heatmap",
    "left",
    "scatter",
    "ticks",
]


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
        f.bar(at[i], at[i + 1], share, ORANGE if before else BLUE, tip, 0.55 if before else 0.85)
    if before:
        path, pen = "", False
        for i, share in enumerate([*before, None]):
            if share is None:  # too few to show: the line stops, it doesn't claim that there are none
                path += f"V{f.y0:.1f}" if pen else ""
            else:
                path += "" if pen else f"M{f.px(at[i]):.1f},{f.y0:.1f}"
                path += f"V{f.py(share):.1f}H{f.px(at[i + 1]):.1f}"
            pen = share is not None
        f.add(f'<path d="{path}" fill="none" stroke="{BLUE}" stroke-width="2" pointer-events="none"/>')
    f.head(column["name"], most=28 if before else 44)
    if before:
        f.legend([("before", BLUE, "line"), ("after", ORANGE, "bar")])
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
    """How far the records' values moved, in standard deviations."""
    d = column["displacement"]
    edges, share = d["edges"], d["share"]
    f = Frame(420, 250, (edges[0], edges[-1]), (0.0, max([*share, 1e-9]) * 1.08))
    f.y_axis("share of records", percents=True)
    f.x_axis("after − before, in standard deviations (sd) of the original")
    for i, s in enumerate(share):
        f.bar(edges[i], edges[i + 1], s, GREEN, f"{_class(edges, i)} sd: {percent(s)}")
    f.line(f.px(0), f.y0, f.px(0), f.y1, stroke=INK, dash="3 3")
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
            f'fill="{ORANGE if known else BLUE}" fill-opacity="{0.55 if known else 0.85}">'
            f"<title>{esc(tip)}</title></rect>"
        )
        if known and r["before"] is not None:
            f.line(f.px(r["before"]), y - 2, f.px(r["before"]), y + 18, stroke=BLUE, width=2.5)
    f.head(column["name"], 6, most=28 if known else 44)
    if known:
        f.legend([("before", BLUE, "tick"), ("after", ORANGE, "bar")])
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
            f'fill="{GREEN}" fill-opacity="0.85"><title>{esc(tip)}</title></rect>'
        )
    f.head("Displacement", 6)
    f.text(f.x1, 15, f"{percent(column['changed'])} of all records changed", anchor="end")
    return f.svg(f"Displacement of {column['name']}", f"Share of records of each {column['name']} that moved")


def _shade(v: float) -> str:
    """Blue (−1) through white (0) to orange (1)."""
    v = max(-1.0, min(1.0, v))
    end = (0xB3, 0x58, 0x06) if v > 0 else (0x21, 0x66, 0xAC)
    t = abs(v) ** 0.8
    return "#" + "".join(f"{round(0xF7 + (e - 0xF7) * t):02x}" for e in end)


def heatmap(
    names: Sequence[str], matrix: Sequence[Sequence[float | None]], title: str, scale: float = 1.0
) -> str:
    """A square matrix as coloured cells with their numbers, from −scale to scale."""
    n = len(names)
    words = [short(s, 16) for s in names]
    margin = 14 + round(6.9 * max(len(s) for s in words))
    cell = max(30, min(46, 330 // n))
    width, height = margin + n * cell + 64, 34 + n * cell + margin
    f = Frame(width, height, (0, n), (0, n), left=margin, right=64, top=34, bottom=margin)
    f.head(title, 6)
    for i in range(n):
        f.text(margin - 5, 34 + (i + 0.5) * cell + 4, words[i], anchor="end", size=10)
        x, y = margin + (i + 0.5) * cell + 4, 34 + n * cell + 6
        f.add(
            f'<text transform="translate({x:.1f} {y:.1f}) rotate(-90)" text-anchor="end" font-size="10" '
            f'fill="{INK}">{esc(words[i])}</text>'
        )
        for j in range(n):
            v = matrix[i][j]
            fill = _shade((v or 0.0) / scale) if v is not None else "#cccccc"
            tip = f"{names[i]} × {names[j]}: {number(v) if v is not None else 'not defined'}"
            f.add(
                f'<rect x="{margin + j * cell}" y="{34 + i * cell}" width="{cell - 1}" height="{cell - 1}" '
                f'fill="{fill}"><title>{esc(tip)}</title></rect>'
            )
            if v is not None:
                f.text(
                    margin + (j + 0.5) * cell - 0.5,
                    34 + (i + 0.5) * cell + 3,
                    f"{round(v, 2) + 0.0:.2f}".replace("-", "−"),
                    size=10 if cell >= 36 else 9,
                    fill="#ffffff" if abs(v) / scale > 0.62 else INK,
                )
    steps = 10
    for k in range(steps):
        v = 1 - 2 * (k + 0.5) / steps
        f.add(
            f'<rect x="{width - 54}" y="{34 + k * n * cell / steps:.1f}" width="12" '
            f'height="{n * cell / steps + 0.5:.1f}" fill="{_shade(v)}"/>'
        )
    for mark, place in ((scale, 42.0), (0.0, 37.0 + n * cell / 2), (-scale, 33.0 + n * cell)):
        f.text(width - 38, place, number(mark).replace("-", "−"), anchor="start", size=10, fill=SOFT)
    return f.svg(title, f"Heat map: {title}, {plural(n, 'column')}")


def dots(rows: Sequence[dict[str, Any]], x_label: str, *, title: str) -> str:
    """Values with intervals and baselines on one axis from 0: {name, value, low, high, baseline, before}.

    ``bound`` marks values of which only "at most so much" is said.
    """
    marks = ("value", "high", "before", "baseline")
    high = max([0.01, *(r[m] for r in rows for m in marks if r.get(m) is not None)])
    margin = 24 + round(6.9 * max(len(short(r["name"], 30)) for r in rows))
    end = min(high * 1.1, 1.0) if high <= 1 else high * 1.1
    f = Frame(860, 78 + 34 * len(rows), (0.0, end), (0, 1), left=margin, top=36)
    f.x_axis(x_label, about=8)
    for i, r in enumerate(rows):
        y = f.y1 + 4 + (i + 0.5) * (f.y0 - f.y1 - 4) / len(rows)
        f.line(f.x0, y, f.x1, y, stroke=RULE)
        f.text(f.x0 - 10, y + 4, short(r["name"], 30), anchor="end", size=12)
        tip = f"{r['name']}: {r.get('bound') or ''} {number(r['value'])}".replace("  ", " ")
        if r.get("low") is not None and r.get("high") is not None:
            f.line(f.px(r["low"]), y, f.px(r["high"]), y, stroke=ORANGE, width=3.5)
            tip += f" ({span(r['low'], r['high'])})"
        if r.get("baseline") is not None:
            x = f.px(r["baseline"])
            f.line(x, y - 9, x, y + 9, stroke=GREY, width=2.5)
            tip += f", by chance {number(r['baseline'])}"
        if r.get("before") is not None:
            tip += f", before {number(r['before'])}"
            f.dot(f.px(r["before"]), y, BLUE, tip, ring=True)
        if r.get("value") is not None:
            f.dot(f.px(r["value"]), y, ORANGE, tip, r=5)
            said = f"≤ {number(r['value'])}" if r.get("bound") == "at most" else number(r["value"])
            x = max(f.px(r["value"]), f.x0 + 3.2 * len(said))
            f.text(x, y - 10, said, size=10, fill=SOFT)
    f.head(title, 6)
    keys = [
        ("before", BLUE, "ring", any(r.get("before") is not None for r in rows)),
        ("at most" if all(r.get("bound") for r in rows) else "after", ORANGE, "dot", True),
        ("95% interval", ORANGE, "line", any(r.get("low") is not None for r in rows)),
        ("by chance", GREY, "tick", any(r.get("baseline") is not None for r in rows)),
    ]
    f.legend([(name, colour, shape) for name, colour, shape, there in keys if there])
    return f.svg(title, f"{title}: " + "; ".join(f"{r['name']} {number(r['value'])}" for r in rows))


def scatter(points: Sequence[dict[str, Any]], x_label: str, y_label: str, *, title: str) -> str:
    """The risk-utility map: {label, x, y, x_error, y_error, frontier}; the frontier is joined by a line.

    A point with ``from`` (the risk before masking) is joined to it at no loss.
    """
    xs = [p["x"] + 2 * (p.get("x_error") or 0) for p in points]
    ys = [v for p in points for v in (p["y"] + 2 * (p.get("y_error") or 0), p.get("from") or 0)]
    single = not any("frontier" in p for p in points)
    right, top = max([*xs, 1e-9]) * (1.02 if single else 1.1), max([*ys, 1e-9]) * 1.08
    # The points of one run stand above each other: their names get the room on the right.
    room = 30 + round(6.4 * max(len(short(p["label"], 34)) for p in points)) if single else 24
    f = Frame(860, 460, (-0.02 * right, right), (0.0, top), left=64, right=room, top=44)
    f.y_axis(y_label, about=5)
    f.x_axis(x_label, about=8)
    best = sorted((p for p in points if p.get("frontier")), key=lambda p: (p["x"], -p["y"]))
    if len(best) > 1:
        path = "M" + "L".join(f"{f.px(p['x']):.1f},{f.py(p['y']):.1f}" for p in best)
        f.add(f'<path d="{path}" fill="none" stroke="{BLUE}" stroke-width="1.5" stroke-dasharray="5 4"/>')
    # Long labels would cover each other: points then carry their number in the table below.
    numbered = not single and (len(points) > 6 or any(len(p["label"]) > 24 for p in points))
    place = {id(p): at for at, p in enumerate(points, start=1)}
    for p in sorted(points, key=lambda p: bool(p.get("frontier"))):
        x, y = f.px(p["x"]), f.py(p["y"])
        on = bool(p.get("frontier"))
        colour = ORANGE if single else BLUE if on else GREY
        tip = f"{p['label']}: {x_label} {number(p['x'])}, {y_label} {number(p['y'])}"
        if p.get("from") is not None:
            f.line(f.px(0), f.py(p["from"]), x, y, stroke=GREY, dash="2 4")
            f.dot(f.px(0), f.py(p["from"]), BLUE, f"{p['label']} before: {number(p['from'])}", ring=True, r=5)
        for across, error in ((True, p.get("x_error")), (False, p.get("y_error"))):
            if error and across:
                f.line(f.px(max(p["x"] - 2 * error, 0)), y, f.px(p["x"] + 2 * error), y, stroke=colour)
            elif error:
                f.line(x, f.py(max(p["y"] - 2 * error, 0)), x, f.py(p["y"] + 2 * error), stroke=colour)
        if on or single:
            f.dot(x, y, colour, tip)
        else:
            f.add(
                f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="#fff" '
                f'stroke="{colour}" stroke-width="1.5"><title>{esc(tip)}</title></rect>'
            )
    _labels(f, points, {i: str(n) for i, n in place.items()} if numbered else {}, single=single)
    f.head(title)
    items = [("before masking", BLUE, "ring")] if any(p.get("from") is not None for p in points) else []
    items += [("after", ORANGE, "dot")] if single else []
    if best:
        items += [("on the frontier", BLUE, "dot")]
    if not single and len(best) < len(points):
        items += [("dominated", GREY, "square")]
    if any(p.get("x_error") or p.get("y_error") for p in points):
        items += [("± 2 standard errors", GREY, "line")]
    f.x1 = 836
    f.legend(items)
    return f.svg(title, f"{title}: {plural(len(points), 'point')}, {len(best)} on the frontier")


def _labels(f: Frame, points: Sequence[dict[str, Any]], numbers: dict[int, str], *, single: bool) -> None:
    """Names (or numbers) beside the points, each moved down until it covers no other."""
    taken: list[tuple[float, float, float]] = []
    for p in sorted(points, key=lambda p: (not p.get("frontier"), -p["y"])):
        word = numbers.get(id(p), "") or short(p["label"], 34)
        width = 6.3 * len(word)
        x, y = f.px(p["x"]), f.py(p["y"])
        late = x + 12 + width > f.width
        start = x - 10 - width if late else x + 10
        # Frontier labels first; a dominated point's number gives way where there is no room.
        for shift in (0, 13, -13, 26, -26, 39):
            at = y + (4 if single else -11 if late else -6) + shift
            if all(at - 12 >= b or b - 12 >= at or start + width < a or e < start for a, e, b in taken):
                f.text(start, at, word, anchor="start", weight=600 if p.get("frontier") else 400)
                taken.append((start, start + width, at))
                break


def areas(level: dict[str, Any]) -> str:
    """The distribution of D over the areas of one geographic level."""
    edges, counts = level["edges"], level["counts"]
    f = Frame(420, 250, (edges[0], edges[-1]), (0.0, max([*counts, 1]) * 1.08), top=50)
    f.y_axis("number of areas", whole=True)
    f.x_axis("D, the share of an area's records moved between cells", about=4)
    for i, n in enumerate(counts):
        f.bar(edges[i], edges[i + 1], n, BLUE, f"D {span(edges[i], edges[i + 1])}: {plural(n, 'area')}")
    table = " × ".join(level.get("table", []))
    f.head(f"{level['level']}: {table}" if table else str(level["level"]), most=44)
    words = f"{plural(level['areas'], 'area')} · median {number(level['median'])}"
    f.text(f.x0, 32, f"{words} · largest {number(level['maximum'])}", anchor="start")
    about = f"Histogram of D over {plural(level['areas'], 'area')} of {level['level']}"
    return f.svg(f"D by {level['level']}", about)
