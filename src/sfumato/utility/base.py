"""What every utility measure is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sfumato.measures import Measure, Result

__all__ = ["Result", "UtilityMeasure"]


@dataclass(frozen=True, kw_only=True)
class UtilityMeasure(Measure):
    """A measure of how far an analysis of the masked file is from one of the original."""

    side: ClassVar[Literal["risk", "utility"]] = "utility"
