"""Reports: a summary (plain values) first, then HTML and text made from it.

``summary(run, public=True)`` is what may be handed out; see :mod:`sfumato.report.summary` for what it
leaves out. ``html`` and ``text`` show whatever summary they are given and add nothing to it.
"""

from __future__ import annotations

from sfumato.report.html import html
from sfumato.report.summary import summary
from sfumato.report.text import text

__all__ = ["html", "summary", "text"]
