"""A plotting area with axes: what all charts share.

A colour is a word (``before``, ``after``, ``move``, ``dim``, ``ink``, ``soft``, ``rule``, ``paper``) and
ends up as a class; ``style.py`` says what it looks like. Before and after differ in shape too (line and
bars, ring and dot), so that they survive a black-and-white printer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.drawing.words import esc, number, short


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values between low and high."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((f * power for f in (1, 2, 2.5, 5, 10)), key=lambda s: abs(s - raw))
    first = math.ceil(low / step - 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_words(values: Sequence[float]) -> list[str]:
    """Labels of ticks: all with as many decimals as the closest two need, large ones in millions."""
    size = max((abs(v) for v in values), default=0.0)
    if size and (size >= 1e12 or size < 1e-3):
        return [number(v).replace("-", "−") for v in values]
    scale, unit = (1e9, " bn") if size >= 1e9 else (1e6, " m") if size >= 1e6 else (1.0, "")
    shown = [f"{v / scale:.6g}" for v in values]
    decimals = max((len(s.partition(".")[2]) for s in shown), default=0)
    words = [f"{v / scale:,.{decimals}f}{unit}" if v else "0" for v in values]
    return [w.replace("-", "−") for w in words]


class Frame:
    """A plotting area with axes; what is drawn is collected as text."""

    def __init__(
        self,
        width: int,
        height: int,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        left: int = 58,
        right: int = 26,
        top: int = 34,
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
        fill: str = "ink",
        weight: int = 400,
    ) -> None:
        self.add(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" class="fill-{fill}" '
            f'font-weight="{weight}">{esc(text)}</text>'
        )

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        *,
        stroke: str = "rule",
        width: float = 1,
        dash: str = "",
    ) -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="line-{stroke}" '
            f'stroke-width="{width}"{dashed}/>'
        )

    def dot(
        self, x: float, y: float, colour: str, tip: str = "", *, ring: bool = False, r: float = 6
    ) -> None:
        title = f"<title>{esc(tip)}</title>" if tip else ""
        self.add(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" '
            f'class="fill-{"paper" if ring else colour} line-{colour}" stroke-width="2">{title}</circle>'
        )

    def bar(self, a: float, b: float, share: float, fill: str, tip: str, opacity: float = 0.85) -> None:
        """A bar from a to b (data) on the x axis, share high."""
        left, right, top = self.px(a), self.px(b), self.py(share)
        self.add(
            f'<rect x="{left + 0.5:.2f}" y="{top:.2f}" width="{max(right - left - 1, 0.5):.2f}" '
            f'height="{max(self.y0 - top, 0):.2f}" class="fill-{fill}" fill-opacity="{opacity}">'
            f"<title>{esc(tip)}</title></rect>"
        )

    def y_axis(self, label: str, *, percents: bool = False, whole: bool = False, about: int = 4) -> None:
        marks = [t for t in ticks(*self.y, about) if not whole or t == int(t)]
        words = tick_words([100 * t for t in marks] if percents else marks)
        for t, word in zip(marks, words, strict=True):
            self.line(self.x0, self.py(t), self.x1, self.py(t))
            self.text(self.x0 - 6, self.py(t) + 4, word + "%" * percents, anchor="end", fill="soft")
        if label:
            self.add(
                f'<text transform="translate(12 {(self.y0 + self.y1) / 2:.1f}) rotate(-90)" '
                f'text-anchor="middle" font-size="11" class="fill-soft">{esc(label)}</text>'
            )

    def x_axis(self, label: str, *, about: int = 5, marks: Sequence[tuple[float, str]] | None = None) -> None:
        """Round ticks, or those given; one that would touch its neighbour goes without its words."""
        if marks is None:
            values = ticks(*self.x, about)
            marks = list(zip(values, tick_words(values), strict=True))
        end = -math.inf
        for t, word in marks:
            x, half = self.px(t), 3.3 * len(word)
            self.line(x, self.y0, x, self.y0 + 4, stroke="dim")
            if x - half >= end:
                self.text(min(x, self.width - half), self.y0 + 17, word, fill="soft")
                end = x + half + 6
        self.line(self.x0, self.y0, self.x1, self.y0, stroke="ink")
        self.text((self.x0 + self.x1) / 2, self.height - 6, short(label, 64), fill="soft")

    def legend(self, items: Sequence[tuple[str, str, str]], y: float = 15) -> None:
        """(name, colour, shape) from right to left in the top right corner."""
        x = float(self.x1)
        for name, colour, shape in reversed(items):
            self.text(x, y, name, anchor="end", fill="soft")
            x -= 6.1 * len(name) + 6
            if shape == "line":
                self.line(x - 16, y - 4, x, y - 4, stroke=colour, width=2.5)
            elif shape == "tick":
                self.line(x - 5, y - 10, x - 5, y + 2, stroke=colour, width=2.5)
            elif shape in ("dot", "ring"):
                self.dot(x - 7, y - 4, colour, ring=shape == "ring", r=5)
            elif shape == "square":
                self.add(
                    f'<rect x="{x - 11:.1f}" y="{y - 8:.1f}" width="8" height="8" '
                    f'class="fill-paper line-{colour}" stroke-width="1.5"/>'
                )
            else:
                self.add(
                    f'<rect x="{x - 14:.1f}" y="{y - 9:.1f}" width="14" height="10" class="fill-{colour}" '
                    'fill-opacity="0.55"/>'
                )
            x -= 30

    def head(self, title: str, x: float | None = None, most: int = 34) -> None:
        at = self.x0 if x is None else x
        self.text(at, 15, short(title, most), anchor="start", size=13, weight=600)

    def svg(self, title: str, about: str) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{esc(about)}" class="sf-chart"><title>{esc(title)}</title>'
            + "".join(self.parts)
            + "</svg>"
        )
