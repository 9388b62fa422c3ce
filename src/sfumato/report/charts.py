"""Charts as SVG text: axes with units, legends, tooltips, colours that everybody can tell apart.

Each function returns one ``<svg>`` element that needs nothing from outside; every text is escaped.
The colours are Okabe and Ito's; before and after differ in shape too (line and bars), so that they
survive a black-and-white printer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape as _escape

BLUE, ORANGE, GREEN, GREY, INK, RULE = "#0072B2", "#D55E00", "#009E73", "#8a8f98", "#22262b", "#dfe2e6"
FONT = "font-family:system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


def esc(text: Any) -> str:
    return _escape(str(text), {'"': "&quot;"})


def number(value: float | None, digits: int = 3) -> str:
    """A number for people: 0.0123, 1,234, 2.5e-7, or a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size < 1e-4:
        return f"{value:.1e}".replace("e-0", "e-")
    return f"{value:.{digits}g}"


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values between low and high."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((f * power for f in (1, 2, 2.5, 5, 10)), key=lambda s: abs(s - raw))
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


class Frame:
    """A plotting area with axes; what is drawn is collected as text."""

    def __init__(
        self,
        width: int,
        height: int,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        left: int = 52,
        right: int = 26,
        top: int = 30,
        bottom: int = 42,
    ) -> None:
        self.width, self.height = width, height
        self.x0, self.x1 = left, width - right
        self.y0, self.y1 = height - bottom, top
        self.x, self.y = x, y
        self.parts: list[str] = []

    def px(self, v: float) -> float:
        low, high = self.x
        return self.x0 + (v - low) / ((high - low) or 1.0) * (self.x1 - self.x0)

    def py(self, v: float) -> float:
        low, high = self.y
        return self.y0 + (v - low) / ((high - low) or 1.0) * (self.y1 - self.y0)

    def add(self, part: str) -> None:
        self.parts.append(part)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "middle",
        size: int = 11,
        fill: str = INK,
        weight: int = 400,
    ) -> None:
        self.add(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}" '
            f'font-weight="{weight}">{esc(text)}</text>'
        )

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        *,
        stroke: str = RULE,
        width: float = 1,
        dash: str = "",
    ) -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
            f'stroke-width="{width}"{dashed}/>'
        )

    def axes(
        self, x_label: str, y_label: str, *, percent_y: bool = False, x_ticks: int = 5, whole_y: bool = False
    ) -> None:
        for t in ticks(*self.y, 4):
            if whole_y and t != int(t):
                continue
            self.line(self.x0, self.py(t), self.x1, self.py(t))
            shown = f"{number(100 * t)}%" if percent_y else number(t)
            self.text(self.x0 - 6, self.py(t) + 4, shown, anchor="end", fill="#555b63")
        for t in ticks(*self.x, x_ticks):
            self.line(self.px(t), self.y0, self.px(t), self.y0 + 4, stroke=GREY)
            self.text(self.px(t), self.y0 + 17, number(t), fill="#555b63")
        self.line(self.x0, self.y0, self.x1, self.y0, stroke=INK)
        self.text((self.x0 + self.x1) / 2, self.height - 6, x_label, fill="#555b63")
        if y_label:
            self.add(
                f'<text transform="translate(12 {(self.y0 + self.y1) / 2:.1f}) rotate(-90)" '
                f'text-anchor="middle" font-size="11" fill="#555b63">{esc(y_label)}</text>'
            )

    def svg(self, title: str, about: str) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{esc(about)}" style="{FONT}" class="chart"><title>{esc(title)}</title>'
            + "".join(self.parts)
            + "</svg>"
        )


def _bar(f: Frame, a: float, b: float, share: float, fill: str, tip: str, opacity: float = 0.85) -> None:
    left, right, top = f.px(a), f.px(b), f.py(share)
    f.add(
        f'<rect x="{left + 0.5:.2f}" y="{top:.2f}" width="{max(right - left - 1, 0.5):.2f}" '
        f'height="{max(f.y0 - top, 0):.2f}" fill="{fill}" fill-opacity="{opacity}">'
        f"<title>{esc(tip)}</title></rect>"
    )


def distribution(column: dict[str, Any]) -> str:
    """After as bars and, where it is known, before as a line: share of records by value."""
    edges, after, before = column["edges"], column["after"], column.get("before")
    top = max([*after, *(before or []), 1e-9]) * 1.08
    f = Frame(420, 250, (edges[0], edges[-1]), (0.0, top))
    f.axes(column.get("label") or column["name"], "share of records", percent_y=True, x_ticks=4)
    for i, share in enumerate(after):
        tip = f"{number(edges[i])} to {number(edges[i + 1])}: after {number(100 * share)}%"
        tip += f", before {number(100 * before[i])}%" if before else ""
        _bar(f, edges[i], edges[i + 1], share, ORANGE if before else BLUE, tip, 0.55 if before else 0.85)
    if before:
        path = f"M{f.px(edges[0]):.1f},{f.y0:.1f}"
        for i, share in enumerate(before):
            path += f"V{f.py(share):.1f}H{f.px(edges[i + 1]):.1f}"
        f.add(f'<path d="{path}V{f.y0:.1f}" fill="none" stroke="{BLUE}" stroke-width="2"/>')
    f.text(f.x0, 15, column["name"], anchor="start", size=13, weight=600)
    if before:
        _legend(f, [("before", BLUE, "line"), ("after", ORANGE, "bar")])
    what = "before and after masking" if before else "in the masked file"
    return f.svg(f"{column['name']} {what}", f"Histogram of {column['name']} {what}")


def displacement(column: dict[str, Any]) -> str:
    """How far the records' values moved, in standard deviations."""
    d = column["displacement"]
    edges, share = d["edges"], d["share"]
    f = Frame(420, 250, (edges[0], edges[-1]), (0.0, max([*share, 1e-9]) * 1.08))
    f.axes("after − before, in standard deviations", "share of records", percent_y=True)
    for i, s in enumerate(share):
        tip = f"{number(edges[i])} to {number(edges[i + 1])} sd: {number(100 * s)}%"
        _bar(f, edges[i], edges[i + 1], s, GREEN, tip)
    f.line(f.px(0), f.y0, f.px(0), f.y1, stroke=INK, dash="3 3")
    f.text(f.x0, 15, "Displacement", anchor="start", size=13, weight=600)
    f.text(
        f.x1, 15, f"mean |move| {number(d['mean'])} sd · {number(100 * d['changed'])}% changed", anchor="end"
    )
    about = f"Histogram of the displacement of {column['name']}, mean {number(d['mean'])} standard deviations"
    return f.svg(f"Displacement of {column['name']}", about)


def _legend(f: Frame, items: Sequence[tuple[str, str, str]]) -> None:
    x = f.x1
    for name, colour, shape in reversed(items):
        width = 7 * len(name)
        f.text(x, 15, name, anchor="end", fill="#555b63")
        x -= width + 6
        if shape == "line":
            f.line(x - 16, 11, x, 11, stroke=colour, width=2)
        else:
            f.add(
                f'<rect x="{x - 14:.1f}" y="6" width="14" height="10" fill="{colour}" fill-opacity="0.55"/>'
            )
        x -= 30


def _shade(v: float) -> str:
    """Blue (−1) through white (0) to orange (1)."""
    v = max(-1.0, min(1.0, v))
    end = (0xB3, 0x58, 0x06) if v > 0 else (0x21, 0x66, 0xAC)
    t = abs(v) ** 0.8
    return "#" + "".join(f"{round(0xF7 + (e - 0xF7) * t):02x}" for e in end)


def heatmap(
    names: Sequence[str], matrix: Sequence[Sequence[float | None]], title: str, scale: float = 1.0
) -> str:
    """A square matrix as coloured cells, from −scale to scale."""
    n = len(names)
    longest = max(len(s) for s in names)
    left = min(8 + 7 * longest, 120)
    cell = max(16, min(46, 300 // n))
    width, height = left + n * cell + 70, 34 + n * cell + min(8 + 7 * longest, 120)
    f = Frame(width, height, (0, n), (0, n), left=left, right=70, top=34, bottom=height - 34 - n * cell)
    f.text(6, 16, title, anchor="start", size=13, weight=600)
    short = [s if len(s) <= 15 else s[:14] + "…" for s in names]
    for i in range(n):
        f.text(left - 5, 34 + (i + 0.5) * cell + 4, short[i], anchor="end", size=10)
        x, y = left + (i + 0.5) * cell + 4, 34 + n * cell + 8
        f.add(
            f'<text transform="translate({x:.1f} {y:.1f}) rotate(-90)" text-anchor="end" font-size="10" '
            f'fill="{INK}">{esc(short[i])}</text>'
        )
        for j in range(n):
            v = matrix[i][j]
            fill = _shade((v or 0.0) / scale) if v is not None else "#cccccc"
            tip = f"{names[i]} × {names[j]}: {number(v)}"
            f.add(
                f'<rect x="{left + j * cell}" y="{34 + i * cell}" width="{cell - 1}" height="{cell - 1}" '
                f'fill="{fill}"><title>{esc(tip)}</title></rect>'
            )
            if cell >= 30 and v is not None:
                dark = abs(v) / scale > 0.6
                f.text(
                    left + (j + 0.5) * cell,
                    34 + (i + 0.5) * cell + 4,
                    f"{round(v, 2) + 0.0:.2f}".replace("-", "−"),
                    size=10,
                    fill="#ffffff" if dark else INK,
                )
    steps = 10
    for k in range(steps):
        v = 1 - 2 * (k + 0.5) / steps
        f.add(
            f'<rect x="{width - 54}" y="{34 + k * n * cell / steps:.1f}" width="12" '
            f'height="{n * cell / steps + 0.5:.1f}" fill="{_shade(v)}"/>'
        )
    for mark, place in ((scale, 42.0), (0.0, 37.0 + n * cell / 2), (-scale, 33.0 + n * cell)):
        f.text(width - 38, place, number(mark).replace("-", "−"), anchor="start", size=10, fill="#555b63")
    return f.svg(title, f"Heat map: {title}, {n} columns")


def dots(rows: Sequence[dict[str, Any]], x_label: str, *, title: str) -> str:
    """Values with intervals and baselines on one axis from 0: {name, value, low, high, baseline, before}."""
    values = [v for r in rows for v in (r.get("value"), r.get("high"), r.get("before")) if v is not None]
    high = max([*values, 1e-9])
    left = min(16 + 7 * max(len(r["name"]) for r in rows), 230)
    f = Frame(
        860,
        64 + 30 * len(rows),
        (0.0, min(high * 1.1, 1.0) if high <= 1 else high * 1.1),
        (0, len(rows)),
        left=left,
    )
    f.axes(x_label, "", x_ticks=8)
    f.parts = [p for p in f.parts if 'text-anchor="end"' not in p and f'stroke="{RULE}"' not in p]
    for i, r in enumerate(rows):
        y = f.y1 + (i + 0.5) * (f.y0 - f.y1) / len(rows)
        f.line(f.x0, y, f.x1, y)
        f.text(f.x0 - 8, y + 4, r["name"], anchor="end", size=12)
        tip = f"{r['name']}: {number(r['value'])}"
        if r.get("low") is not None and r.get("high") is not None:
            f.line(f.px(r["low"]), y, f.px(r["high"]), y, stroke=ORANGE, width=3)
            tip += f" ({number(r['low'])} to {number(r['high'])})"
        if r.get("baseline") is not None:
            x = f.px(r["baseline"])
            f.line(x, y - 8, x, y + 8, stroke=GREY, width=2)
            tip += f", by chance {number(r['baseline'])}"
        if r.get("before") is not None:
            f.add(
                f'<circle cx="{f.px(r["before"]):.1f}" cy="{y:.1f}" r="5" fill="#fff" stroke="{BLUE}" '
                'stroke-width="2"/>'
            )
            tip += f", before {number(r['before'])}"
        if r.get("value") is not None:
            f.add(
                f'<circle cx="{f.px(r["value"]):.1f}" cy="{y:.1f}" r="6" fill="{ORANGE}">'
                f"<title>{esc(tip)}</title></circle>"
            )
            f.text(f.px(r["value"]), y - 10, number(r["value"]), size=10, fill="#555b63")
    f.text(6, 16, title, anchor="start", size=13, weight=600)
    x = 846.0
    keys = [
        ("chance", GREY, any(r.get("baseline") is not None for r in rows)),
        ("before", BLUE, any(r.get("before") is not None for r in rows)),
        ("after", ORANGE, True),
    ]
    for name, colour, shown in keys:
        if shown:
            f.text(x, 16, name, anchor="end", fill="#555b63")
            x -= 7 * len(name) + 8
            f.add(
                f'<circle cx="{x:.1f}" cy="12" r="5" fill="{"#fff" if name == "before" else colour}" '
                f'stroke="{colour}" stroke-width="2"/>'
            )
            x -= 18
    return f.svg(title, f"{title}: " + "; ".join(f"{r['name']} {number(r['value'])}" for r in rows))


def scatter(points: Sequence[dict[str, Any]], x_label: str, y_label: str, *, title: str) -> str:
    """The risk-utility map: {label, x, y, x_error, y_error, frontier}; the frontier is joined by a line."""
    xs = [p["x"] + 2 * (p.get("x_error") or 0) for p in points]
    ys = [p["y"] + 2 * (p.get("y_error") or 0) for p in points]
    f = Frame(
        860, 460, (0.0, max([*xs, 1e-9]) * 1.12), (0.0, max([*ys, 1e-9]) * 1.12), left=64, right=24, top=40
    )
    f.axes(x_label, y_label, x_ticks=8)
    best = sorted((p for p in points if p.get("frontier")), key=lambda p: (p["x"], -p["y"]))
    if len(best) > 1:
        path = "M" + "L".join(f"{f.px(p['x']):.1f},{f.py(p['y']):.1f}" for p in best)
        f.add(f'<path d="{path}" fill="none" stroke="{BLUE}" stroke-width="1.5" stroke-dasharray="5 4"/>')
    # Long labels would cover each other: points then carry their number in the table below.
    numbered = len(points) > 6 or any(len(p["label"]) > 24 for p in points)
    place = {id(p): at for at, p in enumerate(points, start=1)}
    for p in sorted(points, key=lambda p: bool(p.get("frontier"))):
        x, y = f.px(p["x"]), f.py(p["y"])
        on = bool(p.get("frontier"))
        colour = BLUE if on else GREY
        for across, error in ((True, p.get("x_error")), (False, p.get("y_error"))):
            if error:
                if across:
                    f.line(f.px(max(p["x"] - 2 * error, 0)), y, f.px(p["x"] + 2 * error), y, stroke=colour)
                else:
                    f.line(x, f.py(max(p["y"] - 2 * error, 0)), x, f.py(p["y"] + 2 * error), stroke=colour)
        tip = f"{p['label']}: {x_label} {number(p['x'])}, {y_label} {number(p['y'])}"
        shape = (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"'
            if on
            else f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="#fff" '
            f'stroke="{colour}" stroke-width="1.5"'
        )
        f.add(f"{shape}><title>{esc(tip)}</title></{'circle' if on else 'rect'}>")
        if not numbered:
            late = x > f.x1 - 150
            f.text(x - 9 if late else x + 9, y - 8, p["label"], anchor="end" if late else "start")
        elif on:
            f.text(x + 8, y - 8, str(place[id(p)]), anchor="start", weight=600)
    f.text(f.x0, 18, title, anchor="start", size=13, weight=600)
    if any(not p.get("frontier") for p in points) and best:
        f.text(
            f.x1,
            18,
            "● on the frontier   □ dominated   bars: ± 2 standard errors",
            anchor="end",
            fill="#555b63",
        )
    return f.svg(title, f"{title}: {len(points)} plans, {len(best)} on the frontier")


def areas(level: dict[str, Any]) -> str:
    """The distribution of D over the areas of one geographic level."""
    edges, counts = level["edges"], level["counts"]
    f = Frame(420, 250, (edges[0], edges[-1]), (0.0, max([*counts, 1]) * 1.08))
    f.axes("D, share of the table moved", "areas", whole_y=True, x_ticks=4)
    for i, n in enumerate(counts):
        _bar(f, edges[i], edges[i + 1], n, BLUE, f"D {number(edges[i])} to {number(edges[i + 1])}: {n} areas")
    f.text(f.x0, 15, str(level["level"]), anchor="start", size=13, weight=600)
    f.text(
        f.x1,
        15,
        f"{level['areas']:,} areas · median {number(level['median'])} · largest {number(level['maximum'])}",
        anchor="end",
    )
    return f.svg(f"D by {level['level']}", f"Histogram of D over {level['areas']} areas of {level['level']}")
