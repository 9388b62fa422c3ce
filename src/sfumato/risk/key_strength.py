"""Distinction and separation: how well sets of columns tell records apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.cells.keys import check_dimension, check_keys, chosen_keys, chosen_sets, key_notes, key_table
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem


@dataclass(frozen=True, kw_only=True)
class KeyStrength(RiskMeasure):
    """Measure how well each set of keys tells records apart, to choose the keys by.

    ``distinction`` is the number of different combinations over the number of records: the share of
    records that could stay if the set had to be unique. ``separation`` is the share of pairs of
    records that differ in the set, 1 − Σ f(f − 1) / (n(n − 1)). A set with both near 1 is nearly an
    identifier: whoever knows it knows who it is, and it should be a key. A missing value is one
    more value.

    ``value`` is the separation of all keys together; the breakdown has every set of up to
    ``max_dimension`` keys, the strongest first.

    Reference: Motwani, R., Xu, Y. (2007). Efficient algorithms for masking and finding quasi-identifiers.
    VLDB 2007 (SIAM workshop on practical privacy-preserving data mining).

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"SEX": list("fffmm"), "STATE": ["CA", "CA", "TX", "NY", "CA"]}))
    >>> found = sf.measure(data, sf.KeyStrength(keys=["SEX", "STATE"]))[0]
    >>> found.distinction, found.value
    (0.8, 0.9)
    """

    name: ClassVar[str] = "key_strength"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Motwani, Xu (2007)"
    assumes: ClassVar[str] = "the intruder knows a set of keys exactly; nothing is said of the population"

    keys: tuple[str, ...] = parameter((), doc="The keys to look at.", columns="keys")
    max_dimension: int = parameter(2, doc="The largest sets of keys to list.", at_least=1)

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        keys = chosen_keys(self.keys, (), schema)
        return [
            *self.check_columns(types),
            *check_keys(self.keys, (), schema, types),
            *check_dimension(keys, self.max_dimension),
        ]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        table = key_table(masked, chosen_keys(self.keys, (), masked.schema), "category")
        n = table.records
        rows = []
        for names in [*chosen_sets(table.keys, (), self.max_dimension), table.keys]:
            group, first = table.groups(names)
            sizes = np.bincount(group, weights=table.counts, minlength=len(first))
            same = float((sizes * (sizes - 1)).sum())
            rows.append(
                (
                    " × ".join(names),
                    len(names),
                    len(first) / max(n, 1),
                    1 - same / (n * (n - 1)) if n > 1 else 0.0,
                )
            )
        whole = rows[-1]
        listed = rows if len(table.keys) > self.max_dimension else rows[:-1]
        frame = pl.DataFrame(
            listed,
            schema={
                "key_set": pl.String,
                "dimension": pl.Int64,
                "distinction": pl.Float64,
                "separation": pl.Float64,
            },
            orient="row",
        )
        return Result(
            value=whole[3],
            unit="share of pairs",
            breakdown=frame.sort(["separation", "distinction"], descending=True, maintain_order=True),
            notes=tuple(key_notes(table)),
            figures={"separation": whole[3], "distinction": whole[2], "key_sets": len(listed)},
        )
