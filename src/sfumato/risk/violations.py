"""Threshold rules over many key sets: how often a record fails, by count, by weight, or by both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.cells import CellTable
from sfumato.cells.keys import (
    MISSING_DOC,
    check_dimension,
    check_keys,
    chosen_keys,
    chosen_sets,
    key_notes,
    key_table,
)
from sfumato.cells.risks import cell_risks
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem


@dataclass(frozen=True, kw_only=True)
class ThresholdViolations(RiskMeasure):
    """Count how often each record fails a threshold rule, over all combinations of a few keys.

    In every key set a combination fails if fewer than ``tolerance`` records have it, if those records'
    weights add up to less than ``weight_tolerance``, or (``condition="and"``) only if both. A
    record's violations are the number of key sets in which its combination fails (SDCNway's
    exhaustive tabulation).

    ``value`` is the number of records that fail at least once; ``mean_violations`` and
    ``most_violations`` are over records, the breakdown has each key's levels with the share of
    their records that fail. With all keys as one set, after El Emam (2011), for a prosecutor who
    knows that the person is in the file (``p``) and a journalist who doesn't (``j``, by individual
    risk): ``pRa`` and ``jRa`` are the shares of records with a risk above ``share``, ``pRb`` and
    ``jRb`` the largest risks, ``pRc`` and ``jRc`` the mean ones.

    Reference: Krenzke, T., Li, J., Zhu, L. (2017). Statistical disclosure control in SAS and R (SDCNway).
    Westat; El Emam, K. (2011). Methods for the de-identification of electronic health records for genomic
    research. Genome Medicine 3, 25.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"A": [1, 1, 2], "B": [1, 2, 2]}))
    >>> found = sf.measure(data, sf.ThresholdViolations(keys=["A", "B"], tolerance=2, max_dimension=2))[0]
    >>> found.value, found.violations.tolist(), found.pRb
    (3, [2, 1, 2], 1.0)
    """

    name: ClassVar[str] = "threshold_violations"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Krenzke, Li, Zhu (2017); El Emam (2011)"
    per_record: ClassVar[str] = "flags"
    assumes: ClassVar[str] = (
        "the intruder knows any few keys exactly; by count he knows that the person is in the file, by "
        "weight only that the person is in the population"
    )

    tolerance: int | None = parameter(3, doc="A combination fails with fewer records than this.", at_least=2)
    weight_tolerance: float | None = parameter(
        None, doc="A combination fails if its weights add up to less than this.", above=0
    )
    condition: str = parameter("or", doc="Whether either or both must fail.", choices=("or", "and"))
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    key_sets: tuple[tuple[str, ...], ...] = parameter(
        (), doc="The combinations of keys to look at, by name.", columns=True
    )
    max_dimension: int = parameter(2, doc="Look at all combinations of up to this many keys.", at_least=1)
    weight: str | None = parameter(
        None, doc="The sampling weight; the schema's by default.", columns="weight"
    )
    share: float = parameter(0.2, doc="The risk that pRa and jRa count from.", above=0, at_most=1)
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))

    def _check(self) -> Sequence[tuple[str, str | None]]:
        if self.tolerance is None and self.weight_tolerance is None:
            return [("a rule needs `tolerance`, `weight_tolerance` or both", None)]
        return ()

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        keys = chosen_keys(self.keys, self.key_sets, schema)
        out = [
            *self.check_columns(types),
            *check_keys(self.keys, self.key_sets, schema, types),
            *check_dimension(keys, None if self.key_sets else self.max_dimension),
        ]
        if self.weight_tolerance is not None and not (self.weight or schema.weight):
            out.append(Problem(0, "`weight_tolerance` needs a weight", "name it, or give it as a role"))
        return out

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        weight = self.weight or masked.schema.weight
        keys = chosen_keys(self.keys, self.key_sets, masked.schema)
        table = key_table(masked, keys, self.missing, weight)
        sets = chosen_sets(table.keys, self.key_sets, None if self.key_sets else self.max_dimension)
        times = np.zeros(len(table), np.int64)
        for names in sets:
            times += self._fails(table, names)
        failing = times > 0
        n = max(table.records, 1)
        value = int(table.counts[failing].sum())
        return Result(
            value=value,
            unit="records",
            breakdown=_by_level(table, times),
            notes=(self._words(), *key_notes(table)),
            figures={
                "rate": value / n,
                "key_sets": len(sets),
                "mean_violations": float((times * table.counts).sum() / n),
                "most_violations": int(times.max(initial=0)),
                **self._el_emam(table, weight is not None),
            },
            confidential={"flags": table.at_records(failing), "violations": table.at_records(times)},
        )

    def _fails(self, table: CellTable, names: Sequence[str]) -> BoolArray:
        rules = []
        if self.tolerance is not None:
            rules.append(table.frequencies(names, enough=self.tolerance) < self.tolerance)
        if self.weight_tolerance is not None:
            rules.append(table.weighted_frequencies(names) < self.weight_tolerance)
        if len(rules) == 1:
            return rules[0]
        return np.asarray(rules[0] & rules[1] if self.condition == "and" else rules[0] | rules[1])

    def _words(self) -> str:
        parts = []
        if self.tolerance is not None:
            parts.append(f"fewer than {self.tolerance} records")
        if self.weight_tolerance is not None:
            parts.append(f"weights below {self.weight_tolerance:g}")
        return f"a combination fails with {f' {self.condition} '.join(parts)}"

    def _el_emam(self, table: CellTable, weighted: bool) -> dict[str, Any]:
        n = max(table.records, 1)
        frequency = table.frequencies()
        out: dict[str, Any] = {
            "pRa": float(table.counts[frequency * self.share < 1 - 1e-12].sum() / n),
            "pRb": 1 / int(frequency.min()) if len(frequency) else 0.0,
            "pRc": float((table.counts / np.maximum(frequency, 1)).sum() / n),
        }
        if weighted:
            risk, _ = cell_risks(frequency, table.weighted_frequencies(), "argus")
            out |= {
                "jRa": float(table.counts[risk > self.share].sum() / n),
                "jRb": float(risk.max(initial=0.0)),
                "jRc": float((risk * table.counts).sum() / n),
            }
        return out


def _by_level(table: CellTable, times: IntArray) -> pl.DataFrame:
    """For every level of every key: its records, how many fail, and their share; the worst first."""
    parts = []
    for j, key in enumerate(table.keys):
        codes = table.codes[j].astype(np.int64)
        records = np.bincount(codes, weights=table.counts, minlength=1)
        failing = np.bincount(codes, weights=table.counts * (times > 0), minlength=1)
        there = np.flatnonzero(records)
        index = pl.Series(there)
        levels = table.levels[key]
        names = levels.gather(index.set(index == len(levels), None)).cast(pl.String)
        parts.append(
            pl.DataFrame(
                {
                    "key": [key] * len(there),
                    "level": names,
                    "records": records[there].astype(np.int64),
                    "failing": failing[there].astype(np.int64),
                }
            )
        )
    frame = pl.concat(parts).with_columns(rate=pl.col("failing") / pl.col("records"))
    return frame.sort(["rate", "records"], descending=True, maintain_order=True)
