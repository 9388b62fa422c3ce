"""Key combinations that too few records have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np
import polars as pl

from sfumato.cells.assess import Assessment, assess
from sfumato.cells.cells import Cells
from sfumato.cells.generalise.models import Model, Tolerant
from sfumato.cells.keys import (
    MISSING_DOC,
    check_dimension,
    check_keys,
    chosen_keys,
    chosen_sets,
    key_notes,
    key_table,
)
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem

LISTED: Final = 10_000
"""At most this many unsafe combinations are listed; the counts are always complete."""
LISTED_WORK: Final = 20_000_000


@dataclass(frozen=True, kw_only=True)
class Tolerance(RiskMeasure):
    """Count the key combinations, and the records, that fail the tolerance.

    A combination of key values is unsafe where fewer than ``tolerance`` records have it. mu-ARGUS's
    threshold is inclusive (unsafe if f ≤ threshold): its threshold 3 is ``tolerance=4`` here. Key
    sets are given by name, or all combinations of up to ``max_dimension`` keys are looked at;
    with neither, the one combination of all keys.

    ``value`` is the number of records that are unsafe in at least one key set. The breakdown has one
    row a key set, the worst first; ``by_dimension`` and ``by_key`` (the matrix that mu-ARGUS shows,
    with each key's entropy in bits) sum it up; ``combinations`` lists the unsafe ones.

    Reference: Pieters, A. J., de Waal, A. G. (1995). A demonstration of ARGUS. Statistics
    Netherlands; Moore, R. A. (1996). Improving the 1990 Confidentiality Edit, section VI.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AREA": ["n", "n", "s"], "SEX": [1, 1, 1]}))
    >>> found = sf.measure(data, sf.Tolerance(tolerance=2, keys=["AREA", "SEX"], max_dimension=2))[0]
    >>> found.value, found.breakdown["unsafe_combinations"].to_list()
    (1, [1, 1, 0])
    """

    name: ClassVar[str] = "tolerance"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Pieters, de Waal (1995); Moore (1996)"
    per_record: ClassVar[str] = "flags"
    assumes: ClassVar[str] = (
        "the intruder knows the keys of one key set exactly and that the person is in the file"
    )

    tolerance: int = parameter(
        3, doc="A combination is unsafe if fewer records than this have it.", at_least=2
    )
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    key_sets: tuple[tuple[str, ...], ...] = parameter(
        (), doc="The combinations of keys to look at, by name.", columns=True
    )
    max_dimension: int | None = parameter(
        None, doc="Look at all combinations of up to this many keys.", at_least=1
    )
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))

    def as_condition(self, data: Microdata) -> Model:
        return Tolerant(self.tolerance, self.max_dimension, self.key_sets)

    def _check(self) -> Sequence[Fault]:
        if self.key_sets and self.max_dimension is not None:
            return [
                (
                    "`key_sets` and `max_dimension` exclude each other",
                    "name the sets, or a dimension",
                    "key_sets",
                )
            ]
        return ()

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        keys = chosen_keys(self.keys, self.key_sets, schema)
        return [
            *self.check_columns(types),
            *check_keys(self.keys, self.key_sets, schema, types),
            *check_dimension(keys, self.max_dimension),
        ]

    def assess(self, data: Microdata) -> Assessment:
        """The assessment itself, with its cell table."""
        table = key_table(data, chosen_keys(self.keys, self.key_sets, data.schema), self.missing)
        return self.assess_cells(table)

    def assess_cells(self, table: Cells) -> Assessment:
        """The same on a cell table, for instance after a recode."""
        return assess(table, self.tolerance, chosen_sets(table.keys, self.key_sets, self.max_dimension))

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        found = self.assess(masked)
        table = found.table
        unsafe = int(found.unsafe_combinations.sum())
        entropy = {key: table.entropy(key) for key in table.keys}
        return Result(
            value=found.records_unsafe,
            unit="records",
            breakdown=found.by_key_set,
            notes=tuple(
                [
                    f"unsafe: fewer than {self.tolerance} records "
                    f"(mu-ARGUS's threshold {self.tolerance - 1}, which is inclusive)",
                    *key_notes(table),
                ]
            ),
            figures={
                "unsafe_records": found.records_unsafe,
                "unsafe_combinations": unsafe,
                "records": table.records,
                "rate": found.records_unsafe / table.records if table.records else 0.0,
                "by_dimension": found.by_dimension,
                "by_key": found.by_key,
                "entropy": entropy,
            },
            confidential={
                "combinations": unsafe_combinations(found),
                "unsafe_sets": table.at_records(found.unsafe_sets),
                "flags": table.at_records(found.unsafe_sets) > 0,
            },
        )


def unsafe_combinations(found: Assessment, limit: int = LISTED, work: int = LISTED_WORK) -> pl.DataFrame:
    """The unsafe combinations themselves, the rarest first: key set, values, count.

    Key sets are taken from the worst on, until ``limit`` combinations are listed or as many cells
    as ``work`` have been looked through.
    """
    table = found.table
    parts = []
    for place in np.argsort(-found.unsafe_records, kind="stable").tolist():
        names = found.key_sets[place]
        if not found.unsafe_combinations[place] or limit <= 0 or work <= 0:
            break
        _, first = table.groups(names)
        frequency = table.frequencies(names)[first]
        bad = np.flatnonzero(frequency < found.tolerance)
        bad = bad[np.argsort(frequency[bad], kind="stable")][:limit]
        limit -= len(bad)
        work -= len(table)
        values = {}
        for key in names:
            codes = pl.Series(table.codes[table.position(key)][first[bad]].astype(np.int64))
            levels = table.levels[key]
            values[key] = levels.gather(codes.set(codes == len(levels), None)).cast(pl.String)
        rows = pl.DataFrame(values).select(pl.concat_list(pl.all()).alias("values"))
        parts.append(
            rows.select(
                pl.lit(" × ".join(names)).alias("key_set"), "values", pl.Series("records", frequency[bad])
            )
        )
    if not parts:
        return pl.DataFrame(schema={"key_set": pl.String, "values": pl.List(pl.String), "records": pl.Int64})
    return pl.concat(parts).sort("records", maintain_order=True)
