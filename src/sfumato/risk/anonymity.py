"""k-anonymity and l-diversity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.cells.diversity import ValueCounts
from sfumato.cells.generalise.models import Diverse, KAnonymous, Model
from sfumato.cells.keys import (
    MISSING_DOC,
    PARTIAL_DOC,
    check_keys,
    check_sensitive,
    chosen_keys,
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


@dataclass(frozen=True, kw_only=True)
class KAnonymity(RiskMeasure):
    """Count the records that fewer than k records share their keys with.

    ``value`` is the number of records whose combination of all keys has a frequency below ``k``
    (the record itself is counted). ``achieved`` is the smallest frequency: the k that the file has.
    ``violations_2``, ``violations_3`` and ``violations_5`` are the usual three counts, and
    ``frequencies`` (confidential) is every record's.

    Reference: Samarati, P. (2001). Protecting respondents' identities in microdata release. IEEE
    TKDE 13, 1010-1027.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [30, 30, 40]}))
    >>> found = sf.measure(data, sf.KAnonymity(k=2, keys=["AGE"]))[0]
    >>> found.value, found.achieved
    (1, 1)
    """

    name: ClassVar[str] = "k_anonymity"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Samarati (2001)"
    per_record: ClassVar[str] = "flags"
    assumes: ClassVar[str] = (
        "the intruder knows all keys exactly and that the person is in the file (the sample counts alone)"
    )

    k: int = parameter(3, doc="How many records must share each combination.", at_least=2)
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))
    partial: float = parameter(1.0, doc=PARTIAL_DOC, at_least=0, at_most=1)

    @classmethod
    def usual(cls, schema: Schema) -> Sequence[RiskMeasure]:
        return (cls(),) if schema.keys else ()

    def as_condition(self, data: Microdata) -> Model:
        return KAnonymous(self.k)

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        return [*self.check_columns(types), *check_keys(self.keys, (), schema, types)]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        table = key_table(masked, chosen_keys(self.keys, (), masked.schema), self.missing)
        frequency = table.frequencies() if self.partial == 1 else table.partial_frequencies(self.partial)

        def below(k: int) -> int:
            return int(table.counts[frequency < k].sum())

        violations = below(self.k)
        sizes = pl.DataFrame({"frequency": frequency, "records": table.counts})
        return Result(
            value=violations,
            unit="records",
            breakdown=sizes.group_by("frequency").agg(pl.col("records").sum()).sort("frequency"),
            notes=tuple(key_notes(table)),
            figures={
                "achieved": frequency.min().item() if len(frequency) else 0,
                "violations": violations,
                "rate": violations / table.records if table.records else 0.0,
                **{f"violations_{k}": below(k) for k in (2, 3, 5)},
                "combinations": len(table),
            },
            confidential={
                "frequencies": table.at_records(frequency),
                "flags": table.at_records(frequency < self.k),
            },
        )


@dataclass(frozen=True, kw_only=True)
class LDiversity(RiskMeasure):
    """Count the records whose peers have too few different sensitive values.

    The peers of a record are the records that share its keys. With q_s the shares of the sensitive
    values among them (missing ones left out), in falling order:

    - ``variant="distinct"``: l = the number of different values;
    - ``"entropy"``: l = exp(−Σ q_s ln q_s);
    - ``"recursive"``: (c, l)-diversity, q_1 < c · (q_l + q_(l+1) + …).

    ``value`` is the number of records that fail ``l`` in the chosen variant, for the worst of the
    sensitive columns; ``mean_distinct``, ``min_distinct``, ``mean_entropy`` and ``min_entropy`` are
    over records, of the first column; the breakdown has them for every column. ``l`` (confidential) is
    every record's own: its peers' different values (their entropy in that variant), in its worst column.

    Reference: Machanavajjhala, A. et al. (2007). l-diversity: privacy beyond k-anonymity. ACM TKDD 1.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [30, 30, 40, 40], "ILL": ["a", "b", "a", "a"]}))
    >>> found = sf.measure(data, sf.LDiversity(keys=["AGE"], sensitive=["ILL"], l=2))[0]
    >>> found.value, found.mean_distinct
    (2, 1.5)
    """

    name: ClassVar[str] = "l_diversity"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Machanavajjhala et al. (2007)"
    setting: ClassVar[Literal["file", "population", "attribute", "values"]] = "attribute"
    per_record: ClassVar[str] = "flags"
    assumes: ClassVar[str] = "the intruder knows all keys exactly and that the person is in the file"

    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    sensitive: tuple[str, ...] = parameter((), doc="The sensitive columns.", columns="sensitive")
    l: float = parameter(2, doc="How diverse the sensitive values must be.", above=1)  # noqa: E741
    c: float = parameter(2, doc='The constant of variant="recursive".', above=0)
    variant: str = parameter(
        "distinct", doc="How diversity is measured.", choices=("distinct", "entropy", "recursive")
    )
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))

    def _check(self) -> Sequence[Fault]:
        if self.variant == "recursive" and not float(self.l).is_integer():
            return [(f"`l` must be a whole number for the recursive variant, not {self.l}", None, "l")]
        return ()

    @classmethod
    def usual(cls, schema: Schema) -> Sequence[RiskMeasure]:
        return (cls(),) if schema.keys and schema.sensitive else ()

    def as_condition(self, data: Microdata) -> Model:
        return Diverse(self.l, self.variant, self.c)  # type: ignore[arg-type]

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        return [
            *self.check_columns(types),
            *check_keys(self.keys, (), schema, types),
            *check_sensitive(self.keys, self.sensitive, schema),
        ]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        table = key_table(masked, chosen_keys(self.keys, (), masked.schema), self.missing)
        names = self.sensitive or masked.schema.sensitive
        rows, fails, least = [], np.zeros(len(table), np.bool_), np.full(len(table), np.inf)
        for name in names:
            spread = ValueCounts.of(table, masked, name)
            recursive = spread.recursive(int(self.l), self.c)
            failed = {
                "distinct": spread.distinct < self.l,
                "entropy": spread.entropy < self.l - 1e-12,
                "recursive": ~recursive,
            }[self.variant]
            fails |= failed
            own = spread.entropy if self.variant == "entropy" else spread.distinct.astype(np.float64)
            least = np.minimum(least, own)
            share = table.counts / max(table.records, 1)
            rows.append(
                {
                    "sensitive": name,
                    "violations": int(table.counts[failed].sum()),
                    "mean_distinct": float((spread.distinct * share).sum()),
                    "min_distinct": int(spread.distinct.min(initial=np.iinfo(np.int64).max)),
                    "mean_entropy": float((spread.entropy * share).sum()),
                    "min_entropy": float(spread.entropy.min(initial=np.inf)),
                    "recursive_violations": int(table.counts[~recursive].sum()),
                }
            )
        violations = int(table.counts[fails].sum())
        first = {k: v for k, v in rows[0].items() if k not in ("sensitive", "violations")}
        return Result(
            value=violations,
            unit="records",
            breakdown=pl.DataFrame(rows),
            notes=(f"variant: {self.variant}", *key_notes(table)),
            figures={
                "violations": violations,
                "rate": violations / table.records if table.records else 0.0,
                "variant": self.variant,
                **first,
            },
            confidential={"flags": table.at_records(fails), "l": table.at_records(least)},
        )
