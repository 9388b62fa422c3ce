"""The risk-utility map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.drawing.frame import Frame
from sfumato.drawing.words import esc, number, plural, short


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
        f.add(f'<path d="{path}" fill="none" class="line-before" stroke-width="1.5" stroke-dasharray="5 4"/>')
    # Long labels would cover each other: points then carry their number in the table below.
    numbered = not single and (len(points) > 6 or any(len(p["label"]) > 24 for p in points))
    place = {id(p): at for at, p in enumerate(points, start=1)}
    for p in sorted(points, key=lambda p: bool(p.get("frontier"))):
        x, y = f.px(p["x"]), f.py(p["y"])
        on = bool(p.get("frontier"))
        colour = "after" if single else "before" if on else "dim"
        tip = f"{p['label']}: {x_label} {number(p['x'])}, {y_label} {number(p['y'])}"
        if p.get("from") is not None:
            f.line(f.px(0), f.py(p["from"]), x, y, stroke="dim", dash="2 4")
            f.dot(
                f.px(0),
                f.py(p["from"]),
                "before",
                f"{p['label']} before: {number(p['from'])}",
                ring=True,
                r=5,
            )
        for across, error in ((True, p.get("x_error")), (False, p.get("y_error"))):
            if error and across:
                f.line(f.px(max(p["x"] - 2 * error, 0)), y, f.px(p["x"] + 2 * error), y, stroke=colour)
            elif error:
                f.line(x, f.py(max(p["y"] - 2 * error, 0)), x, f.py(p["y"] + 2 * error), stroke=colour)
        if on or single:
            f.dot(x, y, colour, tip)
        else:
            f.add(
                f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" '
                f'class="fill-paper line-{colour}" stroke-width="1.5"><title>{esc(tip)}</title></rect>'
            )
    _labels(f, points, {i: str(n) for i, n in place.items()} if numbered else {}, single=single)
    f.head(title)
    items = [("before masking", "before", "ring")] if any(p.get("from") is not None for p in points) else []
    items += [("after", "after", "dot")] if single else []
    if best:
        items += [("on the frontier", "before", "dot")]
    if not single and len(best) < len(points):
        items += [("dominated", "dim", "square")]
    if any(p.get("x_error") or p.get("y_error") for p in points):
        items += [("± 2 standard errors", "dim", "line")]
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
