"""δ-disclosure: the peers' share of every value is within a factor of everybody's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.cells.attributes import judged
from sfumato.cells.closeness import gains
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
class DeltaDisclosure(RiskMeasure):
    """Count the records whose peers have some sensitive value too often or too seldom.

    With p the share of a value among those who share a record's keys and q its share in the file,
    |log₂(p/q)| must be below δ for every value of the file. A value that none of them has gives
    p = 0 and fails for any δ, as the definition says; with ``absent="ignored"`` only values that
    occur among them are held, as ARX does.

    ``value`` is the number of records that fail in some sensitive column; ``disclosure`` is the
    largest |log₂(p/q)| (of the values that occur), ``absent_violations`` the records some value is
    absent for.

    Reference: Brickell, J., Shmatikov, V. (2008). The cost of privacy: destruction of data-mining utility
    in anonymized data publishing. KDD 2008, 70-78.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [3, 3, 4, 4], "ILL": ["a", "a", "a", "b"]}))
    >>> rule = sf.DeltaDisclosure(keys=["AGE"], sensitive=["ILL"], delta=1.5, absent="ignored")
    >>> found = sf.measure(data, rule)[0]
    >>> found.value, found.disclosure, found.absent_violations
    (0, 1.0, 2)
    """

    name: ClassVar[str] = "delta_disclosure"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Brickell, Shmatikov (2008)"
    setting: ClassVar[Literal["file", "population", "attribute", "values"]] = "attribute"
    per_record: ClassVar[str] = "flags"
    assumes: ClassVar[str] = (
        "the intruder knows all keys exactly, that the person is in the file, and the file's distribution"
    )

    delta: float = parameter(1.0, doc="The bound of |log₂(p/q)|.", above=0)
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    sensitive: tuple[str, ...] = parameter((), doc="The sensitive columns.", columns="sensitive")
    absent: str = parameter(
        "fails", doc="What a value does that none of the peers has.", choices=("fails", "ignored")
    )
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        return [
            *self.check_columns(types),
            *check_keys(self.keys, (), schema, types),
            *check_sensitive(self.keys, self.sensitive, schema),
        ]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        table = key_table(masked, chosen_keys(self.keys, (), masked.schema), self.missing)
        lacking = np.zeros(len(table), np.bool_)

        def judge(name: str, counts: ValueCounts) -> tuple[FloatArray, BoolArray]:
            nonlocal lacking
            _, _, _, whole, there = gains(counts)
            absent = np.isinf(whole)
            lacking = lacking | absent
            found = there / math.log(2)
            failed = found >= self.delta - 1e-12
            return found, np.asarray(failed | absent if self.absent == "fails" else failed)

        found = judged(table, masked, self.sensitive or masked.schema.sensitive, judge)
        return Result(
            value=found.violations,
            unit="records",
            breakdown=found.rows,
            notes=(f"a value that none of the peers has: {self.absent}", *key_notes(table)),
            figures={
                **found.figures("disclosure"),
                "absent_violations": int(table.counts[lacking].sum()),
            },
            confidential=found.confidential("logs"),
        )
