"""β-likeness: no value becomes much likelier by knowing somebody's keys."""

from __future__ import annotations

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
class BetaLikeness(RiskMeasure):
    """Count the records whose peers have some sensitive value much more often than everybody.

    With p the share of a value among those who share a record's keys and q its share in the file,
    the gain (p − q)/q must be at most

    - ``variant="basic"``: β, for every value with p > q;
    - ``"enhanced"``: min(β, −ln q), so that frequent values can't come near certainty either.

    Unlike t-closeness it bounds what is learnt of every single value, rare ones too. ``value`` is the
    number of records that fail in some sensitive column, ``likeness`` the largest gain: the β that the
    file has.

    Reference: Cao, J., Karras, P. (2012). Publishing microdata with a robust privacy guarantee. PVLDB 5,
    1388-1399.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [3, 3, 4, 4], "ILL": ["a", "a", "a", "b"]}))
    >>> found = sf.measure(data, sf.BetaLikeness(keys=["AGE"], sensitive=["ILL"], beta=0.5))[0]
    >>> found.value, found.likeness  # AGE 3: (1 − ¾)/¾ is above −ln ¾; AGE 4: (½ − ¼)/¼ is above β
    (4, 1.0)
    """

    name: ClassVar[str] = "beta_likeness"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Cao, Karras (2012)"
    setting: ClassVar[Literal["file", "population", "attribute", "values"]] = "attribute"
    per_record: ClassVar[str] = "flags"
    assumes: ClassVar[str] = (
        "the intruder knows all keys exactly, that the person is in the file, and the file's distribution"
    )

    beta: float = parameter(2.0, doc="The largest relative gain of a value.", above=0)
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    sensitive: tuple[str, ...] = parameter((), doc="The sensitive columns.", columns="sensitive")
    variant: str = parameter(
        "enhanced", doc="Whether frequent values are held as well.", choices=("basic", "enhanced")
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

        def judge(name: str, counts: ValueCounts) -> tuple[FloatArray, BoolArray]:
            _, gain, of_log, _, _ = gains(counts)
            failed = gain > self.beta + 1e-12
            if self.variant == "enhanced":
                failed |= of_log > 1 + 1e-12
            return gain, np.asarray(failed)

        found = judged(table, masked, self.sensitive or masked.schema.sensitive, judge)
        return Result(
            value=found.violations,
            unit="records",
            breakdown=found.rows,
            notes=(f"variant: {self.variant}", *key_notes(table)),
            figures={**found.figures("likeness"), "variant": self.variant},
            confidential=found.confidential("gains"),
        )
