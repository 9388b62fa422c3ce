"""A matrix as coloured cells."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.drawing.frame import Frame
from sfumato.drawing.words import esc, number, plural, short


def _shade(v: float) -> str:
    """Blue (−1) through white (0) to orange (1): a cell is its own paper, in light and dark alike."""
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
            f'class="fill-ink">{esc(words[i])}</text>'
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
                    fill="on-dark" if abs(v) / scale > 0.62 else "on-light",
                )
    steps = 10
    for k in range(steps):
        v = 1 - 2 * (k + 0.5) / steps
        f.add(
            f'<rect x="{width - 54}" y="{34 + k * n * cell / steps:.1f}" width="12" '
            f'height="{n * cell / steps + 0.5:.1f}" fill="{_shade(v)}"/>'
        )
    for mark, place in ((scale, 42.0), (0.0, 37.0 + n * cell / 2), (-scale, 33.0 + n * cell)):
        f.text(width - 38, place, number(mark).replace("-", "−"), anchor="start", size=10, fill="soft")
    return f.svg(title, f"Heat map: {title}, {plural(n, 'column')}")
