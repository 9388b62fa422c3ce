"""CellTable: counts of every key combination."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.microdata import Microdata


class CellTable:
    """Counts of every combination of integer-coded keys."""

    @classmethod
    def of(cls, data: Microdata, keys: Sequence[str]) -> CellTable:
        raise NotImplementedError
