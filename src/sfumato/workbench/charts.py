"""The workbench's own small charts: gauge, a column at a glance, tolerance curve, attacks beside their limit,
coefficients, the map. Axes, numbers and escaping are :mod:`sfumato.drawing`'s; colours are classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from sfumato.drawing import Frame, esc, number, percent, short
from sfumato.workbench.names import shown


def gauge(
    now: float | None,
    before: float | None,
    limit: float | None,
    top: float,
    title: str,
    *,
    old: bool,
    least: bool,
) -> Markup:
    """As collected a ring, now a dot, what the limit allows a band."""
    x0, x1 = 6.0, 250.0

    def at(v: float) -> float:
        return x0 + min(max(v, 0.0) / (top or 1.0), 1.0) * (x1 - x0)

    out = []
    if limit is not None:
        a, b = (at(limit), x1) if least else (x0, at(limit))
        out.append(f'<rect x="{a:.1f}" y="4" width="{max(b - a, 0):.1f}" height="12" class="allow"/>')
    out.append(f'<line x1="{x0}" x2="{x1}" y1="10" y2="10" class="tick"/>')
    if limit is not None:
        out.append(f'<line x1="{at(limit):.1f}" x2="{at(limit):.1f}" y1="1" y2="19" class="limit"/>')
    if before is not None:
        out.append(f'<circle cx="{at(before):.1f}" cy="10" r="5" class="ring"/>')
    if now is not None:
        out.append(f'<circle cx="{at(now):.1f}" cy="10" r="5" class="{"ghost" if old else "dot"}"/>')
    return Markup(f'<svg viewBox="0 0 256 20" role="img" aria-label="{esc(title)}">{"".join(out)}</svg>')


def mini(bars: Sequence[int], missing: float, label: str, *, heap: bool, foot: bool) -> Markup:
    """A column at a glance: bars, heaps at a code in the other colour, missing a dashed block."""
    if not bars:
        return Markup("")
    w, h = 120.0, 34.0
    room = w if not missing else 92.0
    big, step = max(bars) or 1, room / len(bars)
    out = []
    for i, n in enumerate(bars):
        height = max(n / big * (h - 3), 0.8 if n else 0.0)
        coded = (heap and i == len(bars) - 1) or (foot and i == 0)
        out.append(
            f'<rect x="{i * step:.1f}" y="{h - height:.1f}" width="{max(step - 1, 0.8):.1f}" '
            f'height="{height:.1f}" class="{"mini-top" if coded else "mini-bar"}"/>'
        )
    out.append(f'<line x1="0" x2="{room}" y1="{h - 0.5}" y2="{h - 0.5}" class="tick"/>')
    if missing:
        tall = max(missing * (h - 3), 1.0)
        out.append(
            f'<rect x="{room + 12}" y="{h - tall:.1f}" width="16" height="{tall:.1f}" class="mini-miss"/>'
        )
    return Markup(
        '<svg viewBox="0 0 120 34" class="mini" role="img" '
        f'aria-label="{esc(shown(label))}">{"".join(out)}</svg>'
    )


def share(part: float, whole: float) -> Markup:
    width = 100 * part / whole if whole else 0.0
    return Markup(
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" class="share" aria-hidden="true">'
        '<rect width="100" height="10" class="all"/>'
        f'<rect width="{width:.1f}" height="10" class="part"/></svg>'
    )


def curve(points: Sequence[dict[str, int]], at: int) -> Markup:
    """Unsafe records by tolerance, as collected and now, the chosen tolerance marked."""
    xs = [p["tolerance"] for p in points]
    high = max([1, *(max(p["before"], p["now"]) for p in points)]) * 1.08
    f = Frame(420, 200, (min(xs) - 0.5, max(xs) + 0.5), (0, high), left=62, top=14, right=14)
    f.y_axis("unsafe records", whole=True)
    f.x_axis("tolerance: unsafe if fewer records than this share it", marks=[(x, str(x)) for x in xs])
    f.line(f.px(at), f.y0, f.px(at), f.y1, stroke="ink", dash="3 3")
    for key, colour, ring in (("before", "before", True), ("now", "after", False)):
        path = "L".join(f"{f.px(p['tolerance']):.1f},{f.py(p[key]):.1f}" for p in points)
        f.add(f'<path d="M{path}" class="{key}-path"/>')
        for p in points:
            tip = f"tolerance {p['tolerance']}: {p[key]:,} unsafe"
            f.dot(
                f.px(p["tolerance"]), f.py(p[key]), colour, tip, ring=ring, r=5 if p["tolerance"] == at else 3
            )
    about = "; ".join(f"at {p['tolerance']}: {p['now']:,} now, {p['before']:,} as collected" for p in points)
    return Markup(f.svg("Unsafe records by tolerance", f"Unsafe records by tolerance. {about}"))


def attacks(rows: Sequence[dict[str, Any]], limit: float | None, before: float | None) -> Markup:
    """What each attack finds, with its interval, chance and the limit."""
    top = max([0.01, limit or 0, before or 0, *(r.get("high") or r["rate"] for r in rows)])
    f = Frame(860, 78 + 28 * len(rows), (0, min(top * 1.12, 1.0)), (0, 1), left=212, top=26, right=20)
    if limit is not None:
        f.add(
            f'<rect x="{f.x0}" y="{f.y1}" width="{f.px(limit) - f.x0:.1f}" height="{f.y0 - f.y1}" '
            'class="allow"/>'
        )
    f.x_axis("share of the persons looked for that are found (%)", about=8, marks=_percents(f.x[1]))
    if limit is not None:
        f.add(
            f'<line x1="{f.px(limit):.1f}" x2="{f.px(limit):.1f}" y1="{f.y0}" y2="{f.y1 - 4}" class="limit"/>'
        )
        f.add(
            f'<text x="{f.px(limit):.1f}" y="{f.y1 - 9}" text-anchor="middle" font-size="11" class="goodly">'
            f"limit {esc(percent(limit))}</text>"
        )
    for i, r in enumerate(rows):
        y = f.y1 + (i + 0.5) * (f.y0 - f.y1) / len(rows)
        f.line(f.x0, y, f.x1, y)
        f.text(f.x0 - 10, y + 4, short(shown(r["name"]), 32), anchor="end")
        if r.get("baseline") is not None:
            f.line(f.px(r["baseline"]), y - 8, f.px(r["baseline"]), y + 8, stroke="dim", width=2.5)
        if r.get("low") is not None:
            f.line(f.px(r["low"]), y, f.px(min(r["high"], f.x[1])), y, stroke="after", width=3.5)
        if before is not None:
            f.dot(f.px(min(before, f.x[1])), y, "before", f"as collected: {percent(before)}", ring=True, r=5)
        f.dot(f.px(r["rate"]), y, "after", f"{r['name']}: {percent(r['rate'])}", r=5)
        f.text(
            f.px(min(max(r["rate"], r.get("high") or 0), f.x[1])) + 10, y + 4, percent(r["rate"]),
            anchor="start",
            weight=650 if limit is not None and r["rate"] > limit else 400,
        )  # fmt: skip
    said = "; ".join(f"{r['name']} {percent(r['rate'])}" for r in rows)
    return Markup(f.svg("What each attack finds", f"What each attack finds: {said}"))


def _percents(top: float) -> list[tuple[float, str]]:
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 1.0) if top / s <= 10)
    return [(k * step, f"{100 * k * step:g}") for k in range(math.floor(top / step + 1e-9) + 1)]


def coefficients(rows: Sequence[dict[str, Any]]) -> Markup:
    """Intervals before and after, each in half widths of the original's, centred on the original."""
    drawn = []
    for r in rows:
        half = (r["original_high"] - r["original_low"]) / 2
        centre = (r["original_high"] + r["original_low"]) / 2
        if half > 0:
            drawn.append(
                (r["coefficient"], (r["masked_low"] - centre) / half, (r["masked_high"] - centre) / half)
            )
    if not drawn:
        return Markup("")
    low, high = min(-1.0, *(d[1] for d in drawn)), max(1.0, *(d[2] for d in drawn))
    low, high = max(low, -12.0), min(high, 12.0)
    pad = (high - low) * 0.05
    f = Frame(860, 70 + 40 * len(drawn), (low - pad, high + pad), (0, 1), left=170, top=14, right=20)
    f.x_axis("distance from the estimate as collected, in half widths of its 95% interval", about=8)
    f.line(f.px(0), f.y0, f.px(0), f.y1, stroke="ink", dash="3 3")
    for i, (name, a, b) in enumerate(drawn):
        y = f.y1 + (i + 0.5) * (f.y0 - f.y1) / len(drawn)
        f.text(f.x0 - 10, y + 4, short(shown(name), 24), anchor="end")
        f.line(f.px(-1), y - 7, f.px(1), y - 7, stroke="before", width=3.5)
        f.dot(f.px(0), y - 7, "before", ring=True, r=4.5)
        one, two = min(max(a, low), high), min(max(b, low), high)
        f.line(f.px(one), y + 7, f.px(two), y + 7, stroke="after", width=3.5)
        f.dot(f.px((one + two) / 2), y + 7, "after", r=4.5)
        f.line(f.x0, y + 18, f.x1, y + 18)
    return Markup(f.svg("Coefficients before and after", "Each coefficient's 95% interval before and after"))


def risk_map(
    points: Sequence[dict[str, Any]],
    *,
    risk_limit: float | None,
    loss_limit: float | None,
    best: str | None,
    here: str | None,
    before: float | None,
) -> Markup:
    """Every plan a point and a link, the frontier joined, the limits as lines with what they allow."""
    right = max([0.01, loss_limit or 0, *(p["loss"] + 2 * p["loss_se"] for p in points)]) * 1.08
    top = min(
        max([0.02, risk_limit or 0, before or 0, *(p["risk"] + 2 * p["risk_se"] for p in points)]) * 1.08,
        1.05,
    )
    f = Frame(860, 460, (-0.02 * right, right), (0.0, top), left=62, top=24, right=24, bottom=46)
    if risk_limit is not None or loss_limit is not None:
        x1 = f.px(loss_limit) if loss_limit is not None else f.x1
        y1 = f.py(risk_limit) if risk_limit is not None else f.y1
        f.add(
            f'<rect x="{f.px(0):.1f}" y="{y1:.1f}" width="{max(x1 - f.px(0), 0):.1f}" '
            f'height="{max(f.y0 - y1, 0):.1f}" class="allow"/>'
        )
    f.y_axis("found by the quick intruder", percents=True, about=6)
    f.x_axis("loss to analysts, 0 to 1", about=8)
    if risk_limit is not None:
        y = f.py(risk_limit)
        f.add(f'<line x1="{f.x0}" x2="{f.x1}" y1="{y:.1f}" y2="{y:.1f}" class="limit"/>')
        f.add(_drag("risk", f.x0, f.x1, y, y, risk_limit, f"Risk at most {percent(risk_limit)}", top))
        f.add(_said(f.x1, y - 6, f"risk at most {percent(risk_limit)}", "end"))
    if loss_limit is not None:
        x = f.px(loss_limit)
        f.add(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{f.y0}" y2="{f.y1}" class="limit"/>')
        f.add(_drag("loss", x, x, f.y0, f.y1, loss_limit, f"Loss at most {number(loss_limit)}", right))
        inside = x + 110 < f.x1
        f.add(
            _said(
                x + (6 if inside else -6),
                f.y1 + 10,
                f"loss at most {number(loss_limit)}",
                "start" if inside else "end",
            )
        )
    if before is not None:
        f.dot(f.px(0), f.py(before), "before", f"as collected: {percent(before)}", ring=True)
        f.text(f.px(0) + 11, f.py(before) + 4, "as collected", anchor="start", fill="soft")
    front = sorted((p for p in points if p["frontier"]), key=lambda p: p["loss"])
    if len(front) > 1:
        path = "L".join(f"{f.px(p['loss']):.1f},{f.py(p['risk']):.1f}" for p in front)
        f.add(f'<path d="M{path}" class="front-line"/>')
    taken: list[tuple[float, float]] = []
    for p in sorted(points, key=lambda p: (p["loss"], p["risk"])):
        x, y = f.px(p["loss"]), f.py(p["risk"])
        kind = "front" if p["frontier"] else "ghost"
        bars = (
            f'<line x1="{f.px(max(p["loss"] - 2 * p["loss_se"], 0)):.1f}" '
            f'x2="{f.px(p["loss"] + 2 * p["loss_se"]):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            f'class="err {kind}-err"/>'
            f'<line y1="{f.py(max(p["risk"] - 2 * p["risk_se"], 0)):.1f}" '
            f'y2="{f.py(p["risk"] + 2 * p["risk_se"]):.1f}" x1="{x:.1f}" x2="{x:.1f}" '
            f'class="err {kind}-err"/>'
        )
        mark = _mark(p.get("shape", 0), x, y, kind)
        if p["letter"] == best:
            bars += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="11" class="best"/>'
        if p["letter"] == here:
            bars += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="14" class="here"/>'
        words = f"Plan {p['letter']}, {p['label']}: risk {percent(p['risk'])}, loss {p['loss']:.3f}"
        words += ", on the frontier" if p["frontier"] else ""
        f.add(
            f'<a href="#point-{p["letter"]}" aria-label="{esc(shown(words))}">{bars}'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="13" class="halo"/>{mark}'
            f"<title>{esc(shown(words))}</title></a>"
        )
        places = [
            (x + 13, y - 9),
            (x - 13, y + 17),
            (x + 13, y + 17),
            (x - 13, y - 9),
            (x, y - 16),
            (x, y + 24),
        ]
        place = next(
            (q for q in places if all(abs(q[0] - a) > 12 or abs(q[1] - b) > 12 for a, b in taken)), places[0]
        )
        taken.append(place)
        f.text(
            *place, p["letter"], weight=650 if p["frontier"] else 400, fill="ink" if p["frontier"] else "soft"
        )
    drawn = f.svg("Risk-utility map", "Risk-utility map: one link a plan, by loss")
    return Markup(
        drawn.replace('role="img"', 'role="group"', 1).replace(
            'class="sf-chart"', 'class="sf-chart wide-chart"', 1
        )
    )


def _said(x: float, y: float, words: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="11" class="goodly">{esc(words)}</text>'


def _drag(name: str, x1: float, x2: float, y1: float, y2: float, value: float, words: str, top: float) -> str:
    """A wide line that can be dragged or moved by arrows; the typed field is the same value."""
    return (
        f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" class="limit-hit {name}-hit" '
        f'id="limit-{name}" tabindex="0" '
        f'role="slider" aria-label="{esc(words)}" aria-valuenow="{value:g}" aria-valuemin="0" '
        f'aria-valuemax="{top:g}" data-limit="{name}"/>'
    )


def _mark(shape: int, x: float, y: float, kind: str) -> str:
    if shape % 3 == 1:
        return f'<rect x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10" class="pt {kind}"/>'
    if shape % 3 == 2:
        return f'<path d="M{x:.1f} {y - 6:.1f} l6 11 h-12 z" class="pt {kind}"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" class="pt {kind}"/>'
