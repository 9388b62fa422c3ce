"""What the runs of an experiment on the same data share: nothing that is drawn, only what isn't.

Strata of a first step's group swap are compared and paired once, and each regression of an
:class:`~sfumato.utility.intervals.IntervalOverlap` is fitted to the original once. The figures are those
of runs on their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.contract.measure import Measure
from sfumato.data.microdata import Microdata
from sfumato.masks.group_swap.group_swap import GroupSwap
from sfumato.utility.intervals import IntervalOverlap

if TYPE_CHECKING:
    from sfumato.plan.plan import Plan
    from sfumato.utility.overlap_table import Analysis

Figures = list[tuple[str, float]]


class Shared:
    """Kept for as long as runs on ``data`` are made. Without ``data`` nothing is shared."""

    def __init__(self, data: Microdata | None) -> None:
        self.data = data
        self._masks: dict[GroupSwap, GroupSwap] = {}
        self._analyses: dict[IntervalOverlap, Analysis] = {}

    def plan(self, plan: Plan) -> Plan:
        """The plan, its first step with a memory where it has use for one."""
        if self.data is None or not plan.steps or not isinstance(plan.steps[0], GroupSwap):
            return plan
        first = plan.steps[0]
        if first not in self._masks:
            # A prepared swap keeps the model's terms of all records.
            if len(self._masks) >= max(1, min(64, 2_000_000 // max(1, len(self.data)))):
                self._masks.pop(next(iter(self._masks)))
            self._masks[first] = first.remembering()
        return replace(plan, steps=(self._masks[first], *plan.steps[1:]))

    def figures(self, measure: Measure, original: Microdata, masked: Microdata) -> Figures:
        """The numbers that a measure finds, by name; of interval overlap each coefficient's J too."""
        if not isinstance(measure, IntervalOverlap):
            result = measure.measure(original, masked)
            return _numbers({"value": result.value, **result.figures})
        from sfumato.utility.overlap_table import J_K, Analysis, summary

        if self.data is None:
            result = measure.measure(original, masked)
            j_k, lost = dict(result.j_k), int(result.not_estimated)
        else:
            if measure not in self._analyses:
                self._analyses[measure] = Analysis(self.data, measure)
            j_k, lost = self._analyses[measure].overlaps(masked)
        return [*_numbers(summary(j_k, lost)), *((J_K + label, j) for label, j in j_k.items())]


def _numbers(figures: dict[str, object]) -> Figures:
    return [
        (name, float(v))
        for name, v in figures.items()
        if isinstance(v, (int, float)) and not isinstance(v, bool)
    ]
