"""(α, k)-anonymity: enough peers, and no value that most of them have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.cells.attributes import judged
from sfumato.cells.diversity import ValueCounts
from sfumato.cells.keys import MISSING_DOC, check_keys, check_sensitive, chosen_keys, key_notes, key_table
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem


@dataclass(frozen=True, kw_only=True)
class AlphaKAnonymity(RiskMeasure):
    """Count the records with fewer than k peers, or whose peers mostly share a sensitive value.

    A record passes if at least ``k`` records share its keys and no value of a sensitive column (or
    none of ``values``, where only some of them are sensitive) has a share above ``alpha`` among
    them.

    ``value`` is the number of records that fail; ``few`` those with fewer than k peers,
    ``frequent`` those with too frequent a value, ``share`` the largest share.

    Reference: Wong, R. C.-W., Li, J., Fu, A. W.-C., Wang, K. (2006). (α, k)-anonymity: an enhanced
    k-anonymity model for privacy-preserving data publishing. KDD 2006, 754-759.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [3, 3, 4, 4], "ILL": ["a", "a", "a", "b"]}))
    >>> found = sf.measure(data, sf.AlphaKAnonymity(keys=["AGE"], sensitive=["ILL"], alpha=0.5, k=2))[0]
    >>> found.value, found.few, found.frequent
    (2, 0, 2)
    """

    name: ClassVar[str] = "alpha_k_anonymity"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Wong et al. (2006)"
    setting: ClassVar[Literal["file", "population", "attribute", "values"]] = "attribute"
    per_record: ClassVar[str] = "flags"
    assumes: ClassVar[str] = "the intruder knows all keys exactly and that the person is in the file"

    alpha: float = parameter(0.5, doc="The largest share a sensitive value may have.", above=0, at_most=1)
    k: int = parameter(3, doc="How many records must share each combination.", at_least=2)
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    sensitive: tuple[str, ...] = parameter((), doc="The sensitive columns.", columns="sensitive")
    values: tuple[str, ...] = parameter((), doc="The sensitive values; all by default.")
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        return [
            *self.check_columns(types),
            *check_keys(self.keys, (), schema, types),
            *check_sensitive(self.keys, self.sensitive, schema),
        ]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        table = key_table(masked, chosen_keys(self.keys, (), masked.schema), self.missing)
        few = table.frequencies(enough=self.k) < self.k

        def judge(name: str, counts: ValueCounts) -> tuple[FloatArray, BoolArray]:
            share = counts.largest_of(self.values)
            return share, np.asarray(share > self.alpha + 1e-12)

        found = judged(table, masked, self.sensitive or masked.schema.sensitive, judge)
        fails = found.fails | few
        violations = int(table.counts[fails].sum())
        return Result(
            value=violations,
            unit="records",
            breakdown=found.rows,
            notes=tuple(key_notes(table)),
            figures={
                **found.figures("share"),
                "violations": violations,
                "rate": violations / max(table.records, 1),
                "few": int(table.counts[few].sum()),
                "frequent": found.violations,
            },
            confidential={"flags": table.at_records(fails), "shares": table.at_records(found.worst)},
        )
