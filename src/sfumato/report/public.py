"""What of a plan and its figures may be handed out.

- Parameters that name records or hold values of the file (which records were distorted and by how
  much, which codes a recode replaced) are never published, secret or not: from a shift and the
  released value the original one follows.
- With ``release.secret_parameters`` a measured value is published as a bound only: the next of 1, 2
  or 5 times a power of ten. A loss is a parameter in disguise (with additive noise s0 is about half
  the variance ratio), and two digits of it are two digits of the parameter.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from sfumato.contract.mask import Mask

OF_RECORDS = frozenset({"records", "helpers", "values", "shift"})
"""Parameters that name records, or say where single ones go."""
WITHHELD = "not published"


def public_parameters(mask: Mask, plain: Mapping[str, Any]) -> dict[str, Any]:
    """A mask's parameters without records, original values or paths."""
    holds_columns = {f.name for f in dataclasses.fields(mask) if f.metadata.get("columns")}
    out: dict[str, Any] = {}
    for name, value in plain.items():
        if name in OF_RECORDS:
            out[name] = WITHHELD
        elif name == "mapping" and isinstance(value, Mapping):
            classes = list(dict.fromkeys("missing" if v is None else str(v) for v in value.values()))
            out[name] = f"{len(value):,} codes to {', '.join(classes[:20])}{', …' * (len(classes) > 20)}"
        elif name == "hierarchy" and name not in holds_columns:
            out[name] = PurePath(value.replace("\\", "/")).name if isinstance(value, str) else WITHHELD
        elif name not in holds_columns and isinstance(value, list) and len(value) > 20:
            out[name] = f"{len(value):,} values, {WITHHELD}"
        else:
            out[name] = value
    return out


def names_a_number(text: str, names: list[str]) -> bool:
    """Whether a promise's text holds a digit that isn't part of a column's name."""
    text = re.sub(r" and \d+ more\b", "", text)  # columns left out of a long list
    for name in names:
        # A column called 7 would hide a window of 7 percent.
        if re.search(r"[^\W\d_]", name):
            text = text.replace(name, "")
    return re.search(r"\d", text) is not None


def bound(value: Any, *, higher_is_better: bool, bounds: tuple[float, float]) -> tuple[Any, str | None]:
    """The value as a bound of the 1-2-5 series, and its words.

    >>> bound(0.0834, higher_is_better=False, bounds=(0.0, 1.0))
    (0.1, 'at most')
    >>> bound(0.934, higher_is_better=True, bounds=(0.0, 1.0))
    (0.9, 'at least')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value, None
    if higher_is_better:
        top = bounds[1] if math.isfinite(bounds[1]) else 0.0
        gap = _above(top - value, share=True) if value < top else 0.0
        return float(f"{top - gap:.6g}"), "at least"
    if value <= 0:
        return value, None
    return _above(float(value), share=bounds == (0.0, 1.0)), "at most"


def _above(value: float, *, share: bool) -> float:
    if share and 0.5 < value <= 0.75:
        return 0.75
    if share and 0.75 < value <= 1:
        return 1.0
    if value < 1e-4:
        return 1e-4
    power = math.floor(math.log10(value))
    return next(float(f"{f}e{power}") for f in (1, 2, 5, 10) if float(f"{f}e{power}") >= value * (1 - 1e-12))
