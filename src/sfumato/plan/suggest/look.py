"""The data, a sample of them, the facts of each column, and what has been decided so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.plan.suggest.facts import Facts

_SAMPLE: Final = 50_000


class Look:
    """One look at a file: ``say`` notes a reason, and with ``take`` that the column has its role."""

    def __init__(self, data: Microdata) -> None:
        frame = data.frame
        # Whole stretches of records, so that those of one household stay together.
        if frame.height > _SAMPLE:
            part = _SAMPLE // 10
            step = frame.height // 10
            sample = pl.concat([frame.slice(i * step, part) for i in range(10)])
        else:
            sample = frame
        self.data, self.sample = data, sample
        self.facts = {c: Facts(sample[c], data.schema[c]) for c in frame.columns}
        self.reasons: dict[str, list[str]] = {}
        self.taken: set[str] = set()
        self.notes: list[str] = []
        self.other_areas: list[str] = []
        """Areas that don't nest in the chain."""
        self.design: dict[str, list[str]] = {}

    def say(self, column: str, reason: str, *, take: bool = False) -> None:
        self.reasons.setdefault(column, []).append(reason)
        if take:
            self.taken.add(column)

    def design_of(self, part: str, column: str, reason: str) -> None:
        """Note a column of the survey's design, which has no role of its own."""
        self.design.setdefault(part, []).append(column)
        self.say(column, reason, take=True)

    def free(self) -> list[str]:
        return [c for c in self.data.columns if c not in self.taken]

    def unique(self, columns: str | Sequence[str]) -> bool:
        """Whether no two records share the value (or values), on all records."""
        listed = [columns] if isinstance(columns, str) else list(columns)
        if len(listed) == 1 and self.facts[listed[0]].distinct < self.sample.height:
            return False
        frame = self.data.select(listed)
        if any(frame[c].null_count() for c in listed):
            return False
        return frame.n_unique() == frame.height

    def nests(self, coarse: str, fine: str) -> bool:
        """Whether each value of ``fine`` lies in one of ``coarse``, missing ones aside, on all records."""
        gone = [c for c in (coarse, fine) if self.data.schema[c].missing]
        pairs = self.data.select([coarse, fine])
        for c in gone:
            pairs = pairs.filter(~self.data.with_frame(pairs).missing_expr(c))
        pairs = pairs.drop_nulls().unique()
        return bool(pairs.height) and pairs[fine].n_unique() == pairs.height

    def label(self, column: str) -> str:
        """The name with the variable's label behind it: both are words about the column."""
        own: Any = self.data.schema[column].label
        return f"{column} {own}" if own else column
