"""Individual risk: the chance that a record is re-identified, given how many people share its keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np
import polars as pl

from sfumato.cells.keys import MISSING_DOC, PARTIAL_DOC, check_keys, chosen_keys, key_notes, key_table
from sfumato.cells.risks import cell_risks
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.per_record import household_risk
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem

VARIANTS: Final = ("benedetti_franconi", "argus", "sdcmicro")


@dataclass(frozen=True, kw_only=True)
class IndividualRisk(RiskMeasure):
    """Estimate each record's risk of re-identification from a sample with weights.

    A combination of keys has f records in the sample and F in the population. With F negative
    binomial given f (Benedetti, Franconi) the risk is r = E(1/F | f). With p = f / F̂, where F̂ is the
    sum of the weights of the f records, and q = 1 − p:

        r = (p / f) · ₂F₁(1, 1; f + 1; q)

    - ``variant="benedetti_franconi"``: this, exactly;
    - ``"argus"``: exact for f ≤ 3, the series (p/f)(1 + q/(f+1) + 2q²/((f+1)(f+2)) + …) after its
      term in q⁷ cut off for f > 3, as mu-ARGUS does;
    - ``"sdcmicro"``: exact for f ≤ 2, p / (f − 1 + p) for f ≥ 3, as sdcMicro does.

    Without weights p = 1 and r = 1/f. ``value`` (also ``global_risk``) is the mean risk: the share
    of records expected to be re-identified; ``expected_reidentifications`` is their sum, ``maximum``
    the largest. With a household, a person's household risk is 1 − Π (1 − r) over its members.

    Reference: Benedetti, R., Franconi, L. (1998). Statistical and technological solutions for
    controlled data dissemination. NTTS 1; Franconi, L., Polettini, S. (2004). Individual risk
    estimation in mu-Argus: a review. PSD 2004.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [30, 30, 40], "W": [10.0, 10.0, 5.0]}))
    >>> found = sf.measure(data, sf.IndividualRisk(keys=["AGE"], weight="W"))[0]
    >>> [round(float(r), 4) for r in found.risk]
    [0.0827, 0.0827, 0.4024]
    """

    name: ClassVar[str] = "individual_risk"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Benedetti, Franconi (1998)"
    setting: ClassVar[Literal["file", "population", "attribute", "values"]] = "population"
    per_record: ClassVar[str] = "risk"
    assumes: ClassVar[str] = (
        "the file is a sample; the intruder knows all keys exactly but not who was sampled; the population "
        "behind a combination is estimated from its weights"
    )

    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    weight: str | None = parameter(
        None, doc="The sampling weight; the schema's by default, and every record counts 1 without one.",
        columns="weight",
    )  # fmt: skip
    household: str | None = parameter(
        None, doc="The household of a record; the schema's by default.", columns="household"
    )
    variant: str = parameter("benedetti_franconi", doc="How the risk is evaluated.", choices=VARIANTS)
    threshold: float | None = parameter(
        None, doc="Count the records whose risk is at least this.", above=0, at_most=1
    )
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))
    partial: float = parameter(1.0, doc=PARTIAL_DOC, at_least=0, at_most=1)

    @classmethod
    def usual(cls, schema: Schema) -> Sequence[RiskMeasure]:
        return (cls(),) if schema.keys and schema.weight else ()

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        return [*self.check_columns(types), *check_keys(self.keys, (), schema, types)]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        keys = chosen_keys(self.keys, (), masked.schema)
        weight = self.weight or masked.schema.weight
        household = self.household or masked.schema.household
        table = key_table(masked, keys, self.missing, weight)
        # A partial match that isn't counted whole leaves fewer peers: rounded down, the risk is no less.
        frequency = np.floor(table.partial_frequencies(self.partial) + 1e-9).astype(np.int64)
        population = frequency.astype(np.float64)
        if weight:
            population = table.partial_frequencies(self.partial, weighted=True)
        risk, notes = cell_risks(frequency, population, self.variant)
        at_records: FloatArray = table.at_records(risk)
        n = max(table.records, 1)
        expected = float(at_records.sum())
        figures: dict[str, object] = {
            "global_risk": expected / n,
            "global_risk_percent": 100 * expected / n,
            "expected_reidentifications": expected,
            "maximum": float(risk.max(initial=0.0)),
            "variant": self.variant,
            "weighted": weight is not None,
        }
        confidential: dict[str, object] = {
            "risk": at_records,
            "frequencies": table.at_records(frequency),
            "population_frequencies": table.at_records(population),
        }
        if self.threshold is not None:
            figures["records_at_risk"] = int((at_records >= self.threshold).sum())
        if household is not None:
            shared = household_risk(at_records, masked.households(household)[0])
            figures["household_expected_reidentifications"] = float(shared.sum())
            figures["household_global_risk"] = float(shared.mean()) if len(shared) else 0.0
            figures["household_maximum"] = float(shared.max(initial=0.0))
            confidential["household_risk"] = shared
        return Result(
            value=expected / n,
            unit="share of records",
            breakdown=_classes(at_records),
            notes=(
                f"variant: {self.variant}",
                *(() if weight else ("no weight: the file is taken for the whole population",)),
                *notes,
                *key_notes(table),
            ),
            figures=figures,
            confidential=confidential,
        )


def _classes(risk: FloatArray) -> pl.DataFrame:
    edges = [0.0, 1e-4, 1e-3, 1e-2, 5e-2, 0.1, 0.2, 0.5, 1.0]
    counts, _ = np.histogram(np.minimum(risk, 1.0), bins=edges)
    return pl.DataFrame({"from": edges[:-1], "to": edges[1:], "records": counts.astype(np.int64)})
