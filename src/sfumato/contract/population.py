"""Measures that know the population: its file, read once and recoded as the release is."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.contract.mask import Mask
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.own_list import by_steps
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.data.schema import Schema
from sfumato.draws import Seed
from sfumato.errors import InputError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class PopulationMeasure(RiskMeasure):
    """A measure of a sample that may count in a file of its population."""

    population: str | None = parameter(
        None, doc="The file of the population; its columns have the keys' names and codes.", file=True
    )

    def people(self, keys: Sequence[str]) -> Microdata | None:
        """The population, as the release would show it; None where none was given."""
        found: Microdata | None = getattr(self, "_people", None)
        lacking = [k for k in keys if found is not None and k not in found.columns]
        if found is not None and lacking:
            raise InputError(
                f"the population {self.population} has no column {lacking[0]!r}",
                hint=did_you_mean(lacking[0], found.columns),
            )
        return found

    def measure(
        self,
        original: Any,
        masked: Any = None,
        *,
        seed: Seed | int | None = 0,
        steps: Sequence[Mask] = (),
    ) -> Result:
        """The result; the population is recoded by the steps that made the masked file."""
        if self.population is None:
            return super().measure(original, masked, seed=seed, steps=steps)
        holder = copy.copy(self)
        schema = as_microdata(original if masked is None else masked).schema
        object.__setattr__(holder, "_people", by_steps(_read(self.file(self.population), schema), steps))
        return RiskMeasure.measure(holder, original, masked, seed=seed, steps=steps)


def _read(path: Path, schema: Schema) -> Microdata:
    from sfumato.io import read

    people = read(path)
    meant = {c: v for c, v in schema.variables.items() if c in people.columns}
    plain = {c: replace(v, sum_of=(), imputed=None) for c, v in meant.items()}
    return people.with_schema(Schema(variables={**people.schema.variables, **plain}))
