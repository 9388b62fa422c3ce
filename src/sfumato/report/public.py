"""What of a plan and its figures may be handed out.

- Parameters are withheld, unless the plan says ``release.publish_parameters``; then those are given that
  their class declares public. What names records or holds values of the file never is: from a shift
  and the released value the original one follows.
- Where parameters are withheld, a measured value is published as a bound only: the next of 1, 2 or 5
  times a power of ten. A loss is a parameter in disguise (with additive noise s0 is about half
  the variance ratio), and two digits of it are two digits of the parameter.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from sfumato.contract.mask import Mask
from sfumato.contract.parameters import flat_names

WITHHELD = "not published"


def public_parameters(mask: Mask, plain: Mapping[str, Any], released: Collection[str]) -> dict[str, Any]:
    """A mask's parameters that its class declares public; columns only where they are released."""
    declared = {f.name: f.metadata for f in dataclasses.fields(mask)}
    out: dict[str, Any] = {}
    for name, value in plain.items():
        if not declared[name].get("public"):
            out[name] = WITHHELD
        elif not declared[name].get("columns") or set(flat_names(value)) <= set(released):
            out[name] = value
        else:
            out[name] = [c for c in flat_names(value) if c in released] or WITHHELD
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
