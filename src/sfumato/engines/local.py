"""The local engine: Polars in memory, the kernels on all cores."""

from __future__ import annotations

from sfumato.contract.guarantees import Check
from sfumato.contract.mask import Mask, Notes
from sfumato.data.microdata import Microdata
from sfumato.draws import Draws


class LocalEngine:
    """Carries out steps in this process; chunks and threads are the masks' own business here."""

    name = "local"

    def apply(self, mask: Mask, data: Microdata, draws: Draws) -> tuple[Microdata, Notes, list[Check]]:
        return mask.carry_out(data, draws)
