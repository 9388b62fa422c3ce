"""Codes that mean missing: single values, and ranges of them.

>>> missing_code({"from": 90, "to": 99}), 95 in missing_code({"from": 90, "to": 99}), missing_code(-9)
(Range(low=90, high=99), True, -9)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sfumato.errors import SchemaError

Code: TypeAlias = float | int | str


@dataclass(frozen=True)
class Range:
    """A range of codes that mean missing, both ends included (an end of None is open)."""

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise SchemaError("a missing range needs `from`, `to` or both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise SchemaError(f"a missing range runs from {self.low} to {self.high}, which is backwards")

    def __contains__(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def to_dict(self) -> dict[str, float]:
        ends = {"from": self.low, "to": self.high}
        return {name: end for name, end in ends.items() if end is not None}


def missing_code(code: Any) -> Code | Range:
    """A code or a range as a plan writes it."""
    if isinstance(code, Range):
        return code
    if isinstance(code, Mapping):
        unknown = set(code) - {"from", "to"}
        if unknown:
            raise SchemaError(
                f"a missing range has `from` and `to`, not {sorted(unknown)[0]!r}", parameter="missing"
            )
        low, high = code.get("from"), code.get("to")
        for end in (low, high):
            if end is not None and (isinstance(end, bool) or not isinstance(end, (int, float))):
                raise SchemaError(
                    f"the ends of a missing range must be numbers, not {end!r}", parameter="missing"
                )
        return Range(low, high)
    if isinstance(code, bool) or not isinstance(code, (int, float, str)):
        raise SchemaError(
            f"a missing code must be a number or text, not {code!r}",
            parameter="missing",
        )
    return code
