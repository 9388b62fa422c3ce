"""k-map: enough people of the population share each released combination."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.cells.generalise.models import KMapped, Model
from sfumato.cells.keys import MISSING_DOC, check_keys, chosen_keys, key_notes, key_table
from sfumato.cells.population import check_population, population_counts
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.population import PopulationMeasure
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem


@dataclass(frozen=True, kw_only=True)
class KMap(PopulationMeasure):
    """Count the records whose keys fewer than k people of the population have.

    k-anonymity asks how many records of the file share a combination; k-map how many people of the
    population that the file is a sample of. F is

    - counted in a ``population`` file, whose columns have the keys' names and codes (a plan's
      recodes are applied to it first);
    - else estimated as the sum of the weights of the records that share the combination.

    ``value`` is the number of records with F < k; ``achieved`` is the smallest F, and
    ``population_uniques`` the records that are alone in the population. Without the population or
    weights nothing can be said: k-anonymity is the safe side.

    Reference: Sweeney, L. (2002). k-anonymity: a model for protecting privacy. IJUFKS 10, 557-570 (the
    k-map of section 2.3); El Emam, K., Dankar, F. K. (2008). Protecting privacy using k-anonymity. JAMIA
    15, 627-637.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [30, 40, 40], "W": [10.0, 1.0, 1.5]}))
    >>> found = sf.measure(data, sf.KMap(k=3, keys=["AGE"], weight="W"))[0]
    >>> found.value, found.achieved
    (2, 2.5)
    """

    name: ClassVar[str] = "k_map"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Sweeney (2002)"
    setting: ClassVar[Literal["file", "population", "attribute", "values"]] = "population"
    per_record: ClassVar[str] = "flags"
    assumes: ClassVar[str] = (
        "the file is a sample; the intruder knows all keys exactly but not who was sampled, and the "
        "population is the one given (or what the weights say of it)"
    )

    k: int = parameter(3, doc="How many people must share each combination.", at_least=2)
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    weight: str | None = parameter(
        None, doc="The sampling weight, without a population; the schema's by default.", columns="weight"
    )
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))

    def as_condition(self, data: Microdata) -> Model:
        return KMapped(self.k)

    @classmethod
    def usual(cls, schema: Schema) -> Sequence[RiskMeasure]:
        return (cls(),) if schema.keys and schema.weight else ()

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = [*self.check_columns(types), *check_keys(self.keys, (), schema, types)]
        if self.population is None and not (self.weight or schema.weight):
            out.append(
                Problem(
                    0,
                    "k-map needs to know the population",
                    "give `population` (a file) or a weight; without either, k_anonymity is the safe side",
                )
            )
        return out

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        keys = chosen_keys(self.keys, (), masked.schema)
        weight = None if self.population else self.weight or masked.schema.weight
        table = key_table(masked, keys, self.missing, weight)
        people: FloatArray
        notes: Sequence[str]
        population = self.people(keys)
        if population is not None:
            matches = population_counts(table, population)
            people, notes = matches.astype(np.float64), check_population(table, matches)
        else:
            people, notes = table.weighted_frequencies(), ("F is the sum of the weights, an estimate",)
        few = people < self.k
        violations = int(table.counts[few].sum())
        return Result(
            value=violations,
            unit="records",
            breakdown=_sizes(people, table.counts),
            notes=(*notes, *key_notes(table)),
            figures={
                "violations": violations,
                "rate": violations / max(table.records, 1),
                "achieved": float(people.min()) if len(people) else 0.0,
                "population_uniques": int(table.counts[people <= 1].sum()),
                "counted": self.population is not None,
            },
            confidential={"flags": table.at_records(few), "population_frequencies": table.at_records(people)},
        )


def _sizes(people: FloatArray, records: np.ndarray[Any, Any]) -> pl.DataFrame:
    """Records by the number of people they can be."""
    edges = [0, 1, 2, 3, 5, 10, 20, 50, 100, 1000]
    counts, _ = np.histogram(people, bins=[*edges, np.inf], weights=records)
    return pl.DataFrame({"from": edges, "below": [*edges[1:], None], "records": counts.astype(np.int64)})
