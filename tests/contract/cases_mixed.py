"""Examples of masks of numbers and categories together."""

from __future__ import annotations

import sfumato as sf

CASES = {
    "microaggregate_mixed": lambda data: sf.MicroaggregateMixed(
        columns=("SEX", "RACE", "WAGE", "WEALTH"), k=3
    ),
}
