"""Values with their intervals and baselines on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.drawing.frame import Frame
from sfumato.drawing.words import number, short, span


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
        f.line(f.x0, y, f.x1, y, stroke="rule")
        f.text(f.x0 - 10, y + 4, short(r["name"], 30), anchor="end", size=12)
        tip = f"{r['name']}: {r.get('bound') or ''} {number(r['value'])}".replace("  ", " ")
        if r.get("low") is not None and r.get("high") is not None:
            f.line(f.px(r["low"]), y, f.px(r["high"]), y, stroke="after", width=3.5)
            tip += f" ({span(r['low'], r['high'])})"
        if r.get("baseline") is not None:
            x = f.px(r["baseline"])
            f.line(x, y - 9, x, y + 9, stroke="dim", width=2.5)
            tip += f", by chance {number(r['baseline'])}"
        if r.get("before") is not None:
            tip += f", before {number(r['before'])}"
            f.dot(f.px(r["before"]), y, "before", tip, ring=True)
        if r.get("value") is not None:
            f.dot(f.px(r["value"]), y, "after", tip, r=5)
            said = f"≤ {number(r['value'])}" if r.get("bound") == "at most" else number(r["value"])
            x = max(f.px(r["value"]), f.x0 + 3.2 * len(said))
            f.text(x, y - 10, said, size=10, fill="soft")
    f.head(title, 6)
    keys = [
        ("before", "before", "ring", any(r.get("before") is not None for r in rows)),
        ("at most" if all(r.get("bound") for r in rows) else "after", "after", "dot", True),
        ("95% interval", "after", "line", any(r.get("low") is not None for r in rows)),
        ("by chance", "dim", "tick", any(r.get("baseline") is not None for r in rows)),
    ]
    f.legend([(name, colour, shape) for name, colour, shape, there in keys if there])
    return f.svg(title, f"{title}: " + "; ".join(f"{r['name']} {number(r['value'])}" for r in rows))
