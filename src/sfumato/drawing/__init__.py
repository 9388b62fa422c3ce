"""Charts as SVG text from plain numbers: axes with units, legends, tooltips.

Nothing is fetched and every text is escaped. Colours are classes, so that a report, the workbench and a
notebook share one drawing (``style.py``).
"""

from sfumato.drawing.distributions import areas, categories, displacement, distribution, left
from sfumato.drawing.dots import dots
from sfumato.drawing.face import Html, Picture, face
from sfumato.drawing.frame import Frame, tick_words, ticks
from sfumato.drawing.gallery import gallery, risk_row
from sfumato.drawing.heatmap import heatmap
from sfumato.drawing.scatter import scatter
from sfumato.drawing.style import rules, standalone
from sfumato.drawing.words import esc, folded, number, percent, plural, short, span, tenths

__all__ = [
    "Frame",
    "Html",
    "Picture",
    "areas",
    "categories",
    "displacement",
    "distribution",
    "dots",
    "esc",
    "face",
    "folded",
    "gallery",
    "heatmap",
    "left",
    "number",
    "percent",
    "plural",
    "risk_row",
    "rules",
    "scatter",
    "short",
    "span",
    "standalone",
    "tenths",
    "tick_words",
    "ticks",
]
