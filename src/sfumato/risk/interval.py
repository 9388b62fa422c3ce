"""Interval disclosure: how narrowly the released values give the original ones away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.fields import known_columns

_Z95 = 1.959963984540054


@dataclass(frozen=True, kw_only=True)
class IntervalDisclosure(RiskMeasure):
    """The share of original values that lie in a narrow interval around the released value.

    ``by="rank"``: the interval holds the released values whose ranks are within ± percent/2 percent
    of the records around the released value's rank (ties included). ``by="sd"``: the released value
    ± percent percent of the column's standard deviation in the release. The intruder is assumed to
    know which record is whose. ``baseline`` is the share for a value drawn at random from the
    original column. Values missing in either file are left out.

    Reference: Pagliuca and Seri (1999); Domingo-Ferrer and Torra (2001), A quantitative comparison
    of disclosure control methods for microdata. Yancey, Winkler and Creecy (2002) hold it to be far
    too weak a notion of disclosure; it is offered because their scores are compared with others'.

    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"A": [float(i) for i in range(100)]})
    >>> sf.IntervalDisclosure(percent=10).measure(people, people + 3).value
    0.97
    >>> sf.IntervalDisclosure(percent=4).measure(people, people + 3).value
    0.0
    """

    name: ClassVar[str] = "interval_disclosure"
    reference: ClassVar[str] = "Domingo-Ferrer and Torra (2001)"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    columns: tuple[str, ...] = parameter((), doc="The columns to look at.", columns="sensitive", numeric=True)
    known: tuple[str, ...] = parameter(
        (), doc="Those of the columns to look at; all by default.", columns=True, numeric=True
    )
    percent: float = parameter(10.0, doc="The width of the interval in percent.", above=0, at_most=100)
    by: Literal["rank", "sd"] = parameter(
        "rank", doc="Whether the percentage is of ranks or of a standard deviation.", choices=("rank", "sd")
    )

    def _check(self) -> Sequence[Fault]:
        strange = [c for c in self.known if self.columns and c not in self.columns]
        return [(f"`known` names {strange[0]}, which isn't in `columns`", None, "known")] if strange else ()

    def before(self, original: Microdata, masked: Microdata) -> tuple[float, str] | None:
        return 1.0, "each value of an exact copy lies within its own interval"

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        if len(original) != len(masked):
            raise MeasureError(f"the files have {len(original):,} and {len(masked):,} records")
        columns = known_columns(original, masked, self.known or self.columns, numbers=True)
        rows, hits, seen = [], np.zeros(len(original)), np.zeros(len(original))
        expected = 0.0
        for column in columns:
            x, z = original.numbers(column), masked.numbers(column)
            here = ~(np.isnan(x) | np.isnan(z))
            n = int(here.sum())
            if n == 0:
                continue
            low, high = self._interval(z[here])
            inside: BoolArray = (x[here] >= low) & (x[here] <= high)
            hits[here] += inside
            seen[here] += 1
            ordered = np.sort(x[here])
            by_chance = (np.searchsorted(ordered, high, "right") - np.searchsorted(ordered, low, "left")) / n
            expected += float(by_chance.sum())
            rows.append((column, n, float(inside.mean()), float(by_chance.mean())))
        cells = int(seen.sum())
        if cells == 0:
            raise MeasureError("no value is there in both files")
        rate = float(hits.sum() / cells)
        # Values of one record belong together: the error is that of a ratio over records.
        n = int((seen > 0).sum())
        error = float(np.sqrt(((hits - rate * seen) ** 2).sum() * n / max(n - 1, 1)) / cells)
        return Result(
            value=rate,
            unit="share of values disclosed within the interval",
            interval=(max(0.0, rate - _Z95 * error), min(1.0, rate + _Z95 * error)),
            breakdown=pl.DataFrame(
                rows,
                schema={"column": pl.String, "values": pl.Int64, "rate": pl.Float64, "baseline": pl.Float64},
                orient="row",
            ),
            notes=("the intruder is assumed to know which released record is whose",),
            figures={
                "rate": rate,
                "correct": int(hits.sum()),
                "baseline": expected / cells,
                "attacked": cells,
            },
        )

    def _interval(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.by == "sd":
            half = self.percent / 100 * (z.std(ddof=1) if len(z) > 1 else 0.0)
            return z - half, z + half
        ordered = np.sort(z)
        reach = int(np.floor(self.percent / 200 * len(z) + 1e-9))
        low = np.searchsorted(ordered, z, "left") - reach
        high = np.searchsorted(ordered, z, "right") - 1 + reach
        return ordered[np.maximum(low, 0)], ordered[np.minimum(high, len(z) - 1)]
