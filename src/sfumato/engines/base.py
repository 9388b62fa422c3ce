"""What an engine is: something that carries out one mask, by the mask's locality."""

from __future__ import annotations

from typing import Protocol

from sfumato.contract.guarantees import Check
from sfumato.contract.mask import Mask, Notes
from sfumato.data.microdata import Microdata
from sfumato.draws import Draws


class Engine(Protocol):
    """Carries out one step. The same plan and seed give the same file on every engine."""

    name: str

    def apply(self, mask: Mask, data: Microdata, draws: Draws) -> tuple[Microdata, Notes, list[Check]]:
        """The masked data, what the step has to say, and the outcome of its guarantees."""
        ...
