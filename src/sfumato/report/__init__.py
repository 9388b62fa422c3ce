"""Reports: a summary (plain values) first, then HTML and text made from it.

``summary(run, public=True)`` is what may be handed out; see :mod:`sfumato.report.summary` for what it
leaves out. ``html`` and ``text`` show whatever summary they are given and add nothing to it; ``brief``
is a screenful of it for a terminal.
"""

from __future__ import annotations

from sfumato.report.html import html
from sfumato.report.summary import summary
from sfumato.report.text import brief, text

__all__ = ["brief", "html", "summary", "text"]
