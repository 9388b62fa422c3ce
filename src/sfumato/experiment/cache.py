"""What the runs of an experiment on the same data share: nothing that is drawn, only what isn't.

A first step and each measure may keep what the original alone gives (``prepared``): strata compared and
paired, regressions fitted. The figures are those of runs on their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.contract.mask import Mask
from sfumato.contract.measure import Measure
from sfumato.data.microdata import Microdata

if TYPE_CHECKING:
    from sfumato.plan.plan import Plan


class Shared:
    """Kept for as long as runs on ``data`` are made. Without ``data`` nothing is shared."""

    def __init__(self, data: Microdata | None) -> None:
        self.data = data
        self._masks: dict[str, Mask] = {}  # by what a mask says: one that holds a table can't be a key
        self._measures: dict[str, Measure] = {}

    def plan(self, plan: Plan) -> Plan:
        """The plan, its first step prepared for the data; later steps are given other data each time."""
        if self.data is None or not plan.steps:
            return plan
        first = plan.steps[0]
        if repr(first) not in self._masks:
            # What is kept may be as large as the file.
            if len(self._masks) >= max(1, min(64, 2_000_000 // max(1, len(self.data)))):
                self._masks.pop(next(iter(self._masks)))
            self._masks[repr(first)] = first.prepared(self.data)
        return replace(plan, steps=(self._masks[repr(first)], *plan.steps[1:]))

    def figures(self, measure: Measure, original: Microdata, masked: Microdata) -> list[tuple[str, float]]:
        """The numbers that a measure finds, by name."""
        if self.data is None:
            return measure.figures(original, masked)
        if repr(measure) not in self._measures:
            self._measures[repr(measure)] = measure.prepared(self.data)
        return self._measures[repr(measure)].figures(original, masked)
