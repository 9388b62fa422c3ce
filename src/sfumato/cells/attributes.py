"""What the keys of a record give away of its sensitive values, judged column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.diversity import ValueCounts
from sfumato.cells.table import CellTable
from sfumato.data.microdata import BoolArray, FloatArray, Microdata

Judge = Callable[[str, ValueCounts], tuple[FloatArray, BoolArray]]
"""Of a column and its counts: each cell's figure (more is riskier), and whether it fails."""


@dataclass(frozen=True)
class Judged:
    """The worst figure of each cell over the columns, which cells fail, and a row for each column."""

    table: CellTable
    worst: FloatArray
    fails: BoolArray
    rows: pl.DataFrame

    @property
    def violations(self) -> int:
        """How many records fail in at least one column."""
        return int(self.table.counts[self.fails].sum())

    def figures(self, name: str) -> dict[str, Any]:
        """The figures that every such measure has; ``name`` is what it measures."""
        n = max(self.table.records, 1)
        return {
            "violations": self.violations,
            "rate": self.violations / n,
            name: float(self.worst.max(initial=0.0)),
            f"mean_{name}": float((self.worst * self.table.counts).sum() / n),
        }

    def confidential(self, name: str) -> dict[str, Any]:
        return {"flags": self.table.at_records(self.fails), name: self.table.at_records(self.worst)}


def judged(table: CellTable, data: Microdata, columns: Sequence[str], judge: Judge) -> Judged:
    """Judge every cell in every column."""
    worst, fails = np.zeros(len(table)), np.zeros(len(table), np.bool_)
    rows = []
    for column in columns:
        counts = ValueCounts.of(table, data, column)
        figure, failed = judge(column, counts)
        worst, fails = np.maximum(worst, figure), fails | failed
        rows.append(
            {
                "sensitive": column,
                "violations": int(table.counts[failed].sum()),
                "largest": float(figure.max(initial=0.0)),
                "values": len(counts.levels),
                "missing": table.records - int(counts.whole.sum()),
            }
        )
    return Judged(table, worst, fails, pl.DataFrame(rows))
