"""Key combinations: integer-coded keys, the counts of every combination, instant recodes on the counts."""

from __future__ import annotations

from sfumato.cells.assess import Assessment, combinations_up_to
from sfumato.cells.table import CellTable

__all__ = ["Assessment", "CellTable", "combinations_up_to"]
