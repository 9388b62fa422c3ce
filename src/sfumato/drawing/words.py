"""How numbers and names are written for people, and text for SVG and HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape as _escape

_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def esc(text: Any) -> str:
    """Text for SVG and HTML: escaped, on one line, without signs that XML can't hold."""
    return _escape(_NO_XML.sub("\ufffd", " ".join(str(text).split("\n"))), {'"': "&quot;"})


def number(value: float | None, digits: int = 3) -> str:
    """A number for people: 0.0123, 1,234, 2.5e-7, or a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e12:
        return f"{value:.{digits}g}".replace("e+", "e")
    if size >= 1000:
        return f"{value:,.0f}"
    if size < 1e-15:
        return "0"  # the dust of floating point
    if size < 1e-4:
        return f"{value:.1e}".replace("e-0", "e-")
    return f"{value:.{digits}g}"


def span(low: float, high: float) -> str:
    """An interval whose ends have the same number of decimals.

    >>> span(0.14, 0.1834)
    '0.140 to 0.183'
    """
    size = max(abs(low), abs(high))
    if not math.isfinite(size) or size >= 1000 or size < 1e-4:
        return f"{number(low)} to {number(high)}"
    decimals = max(0, 2 - math.floor(math.log10(size)))
    return f"{low:.{decimals}f} to {high:.{decimals}f}"


def percent(share: float | None) -> str:
    """A share as a percentage: never rounded to 0% or 100% unless it is."""
    if share is None or not math.isfinite(share):
        return "–"
    if 0 < share < 0.0005:
        return "below 0.1%"
    if 0.9995 < share < 1:
        return "above 99.9%"
    return f"{100 * share:.1f}%".replace(".0%", "%")


def tenths(share: float | None) -> str:
    """A share in a column of a table: one decimal always, so that figures stand under each other.

    >>> tenths(0.05), tenths(0.125), tenths(0.0001), tenths(0.0), tenths(1.0)
    ('5.0%', '12.5%', 'below 0.1%', '0.0%', '100.0%')
    """
    said = percent(share)
    return said if "." in said or "%" not in said else said.replace("%", ".0%")


def plural(n: int, one: str, many: str | None = None) -> str:
    """``1 record``, ``2 records``.

    >>> plural(1, "record"), plural(1200, "step"), plural(0, "reply", "replies")
    ('1 record', '1,200 steps', '0 replies')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def folded(names: Sequence[str], most: int = 8) -> str:
    """A long list of names with its end folded away.

    >>> folded(["A", "B", "C"], 2), folded(["A", "B"], 2), folded([])
    ('A, B and 1 more', 'A, B', 'none')
    """
    rest = len(names) - most
    if rest <= 0:
        return ", ".join(names) or "none"
    return f"{', '.join(names[:most])} and {rest:,} more"


def short(text: Any, most: int) -> str:
    said = " ".join(str(text).split())
    return said if len(said) <= most else said[: most - 1] + "…"
