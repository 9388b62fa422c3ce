"""Frequency tables: build them, make them safe, and bring the records to them."""

from __future__ import annotations

from sfumato.tables.build import FrequencyTable, tabulate
from sfumato.tables.realise import realise
from sfumato.tables.safe import SafeTable, safe_table

__all__ = ["FrequencyTable", "SafeTable", "realise", "safe_table", "tabulate"]
