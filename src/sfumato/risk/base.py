"""What every risk measure and every attack is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sfumato.measures import Measure, Result

__all__ = ["Attack", "Result", "RiskMeasure"]


@dataclass(frozen=True, kw_only=True)
class RiskMeasure(Measure):
    """A measure of how much an intruder can learn: lower is safer."""

    side: ClassVar[Literal["risk", "utility"]] = "risk"
    direction: ClassVar[Literal["lower", "higher"]] = "lower"


@dataclass(frozen=True, kw_only=True)
class Attack(RiskMeasure):
    """An intruder who has some original values and looks for the persons in the masked file.

    ``value`` is the rate of right re-identifications among all records attacked; the result also
    has ``rate`` (the same), ``correct`` (their number), ``baseline`` (the rate by chance) and an
    interval, and says in its notes what the intruder was assumed to know.
    """

    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
