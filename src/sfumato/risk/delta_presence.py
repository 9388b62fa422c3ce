"""δ-presence: nobody of the population can be said to be, or not to be, in the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.cells.generalise.models import Model, Present
from sfumato.cells.keys import MISSING_DOC, check_keys, chosen_keys, key_notes, key_table
from sfumato.cells.population import check_population, in_population
from sfumato.contract.parameters import parameter
from sfumato.contract.population import PopulationMeasure
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem


@dataclass(frozen=True, kw_only=True)
class DeltaPresence(PopulationMeasure):
    """Count the people whose keys tell too surely whether they are in the file.

    Of the F people of the population with a combination, f are in the file: somebody with those keys
    is in it with probability f/F, which must lie in [δ_min, δ_max] (``lowest`` and ``highest``). F is
    counted in a ``population`` file, or estimated by the sum of the weights; with weights alone,
    combinations that nobody in the file has can't be seen, and only the upper bound is held.

    ``value`` is the number of records of the file outside; ``maximum`` is the largest probability,
    ``people_outside`` and ``minimum`` (with a population) are over all people of the population.

    Reference: Nergiz, M. E., Atzori, M., Clifton, C. (2007). Hiding the presence of individuals from
    shared databases. SIGMOD 2007, 665-676.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [30, 40, 40], "W": [10.0, 1.0, 1.0]}))
    >>> found = sf.measure(data, sf.DeltaPresence(keys=["AGE"], weight="W", highest=0.5))[0]
    >>> found.value, found.maximum
    (2, 1.0)
    """

    name: ClassVar[str] = "delta_presence"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Nergiz, Atzori, Clifton (2007)"
    setting: ClassVar[Literal["file", "population", "attribute", "values"]] = "population"
    per_record: ClassVar[str] = "flags"
    assumes: ClassVar[str] = (
        "to be in the file is itself the secret; the intruder knows all keys of everybody in the "
        "population exactly, and nothing of who was sampled"
    )

    highest: float = parameter(0.5, doc="The largest probability of being in the file.", above=0, at_most=1)
    lowest: float = parameter(
        0.0, doc="The smallest probability of being in the file, over the population.", at_least=0, below=1
    )
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    weight: str | None = parameter(
        None, doc="The sampling weight, without a population; the schema's by default.", columns="weight"
    )
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))

    def as_condition(self, data: Microdata) -> Model:
        return Present(self.highest, self.lowest)

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = [*self.check_columns(types), *check_keys(self.keys, (), schema, types)]
        if self.population is None:
            if not (self.weight or schema.weight):
                out.append(
                    Problem(0, "δ-presence needs to know the population", "give `population` or a weight")
                )
            if self.lowest > 0:
                out.append(
                    Problem(
                        0,
                        "`lowest` is about people who aren't in the file",
                        "give `population`, a file of everybody",
                    )
                )
        if self.lowest >= self.highest:
            out.append(Problem(0, "`lowest` must be below `highest`"))
        return out

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        keys = chosen_keys(self.keys, (), masked.schema)
        population = self.people(keys)
        weight = None if population is not None else self.weight or masked.schema.weight
        table = key_table(masked, keys, self.missing, weight)
        figures: dict[str, Any] = {}
        notes: tuple[str, ...] = ()
        frequency = table.frequencies().astype(np.float64)
        if population is not None:
            found = in_population(table, key_table(population, keys, self.missing))
            notes = tuple(check_population(table, found.matches))
            # Where the population lacks somebody of the file, everybody with those keys is in it.
            with np.errstate(divide="ignore"):
                chance = np.minimum(frequency / found.matches, 1.0)
            there = np.minimum(found.presence / np.maximum(found.sizes, 1), 1.0)
            outside = (there > self.highest + 1e-12) | (there < self.lowest - 1e-12)
            figures = {
                "people_outside": int(found.population.counts[outside].sum()),
                "minimum": float(there.min(initial=1.0)),
                "people": found.population.records,
            }
        else:
            with np.errstate(divide="ignore"):
                chance = np.minimum(frequency / table.weighted_frequencies(), 1.0)
            notes = ("F is the sum of the weights, an estimate",)
        bad = (chance > self.highest + 1e-12) | (chance < self.lowest - 1e-12)
        violations = int(table.counts[bad].sum())
        return Result(
            value=violations,
            unit="records",
            notes=(*notes, *key_notes(table)),
            figures={
                "violations": violations,
                "rate": violations / max(table.records, 1),
                "maximum": float(chance.max(initial=0.0)),
                **figures,
            },
            confidential={"flags": table.at_records(bad), "presence": table.at_records(chance)},
        )
