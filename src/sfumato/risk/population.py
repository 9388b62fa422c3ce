"""Population risk: how many sample uniques are population uniques, from a sample and a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
import polars as pl

from sfumato.cells import CellTable
from sfumato.cells.keys import check_keys, chosen_keys, key_notes, key_table
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import MeasureError, Problem
from sfumato.stats import superpopulation
from sfumato.stats.population_model import PopulationModel, Weighting, fit_population

MODELS: Final = ("loglinear", "pitman", "zayatz", "snb", "dankar")
INTERACTIONS: Final = ("main", "two_way", "choose")
WEIGHTINGS: Final = ("none", "pml", "ce", "weighted")


@dataclass(frozen=True, kw_only=True)
class PopulationRisk(RiskMeasure):
    """Estimate how many records are unique in the population that the file is a sample of.

    A combination of keys has f records in the sample and F people in the population, F Poisson with
    mean λ and each person sampled with probability π.

    ``model="loglinear"``: ln λ is a sum of effects of the keys: main effects alone, all interactions
    of two (``interactions="two_way"``), those of ``terms``, or those that the diagnostics ask for
    (``"choose"``, the default). Over the sample uniques, with v = (1 − π)λ,

        τ1 = Σ P(F = 1 | f = 1) = Σ exp(−v),    τ2 = Σ E(1/F | f = 1) = Σ (1 − exp(−v)) / v:

    how many are population uniques, and how many links to them would be right. ``bias_1`` and
    ``bias_2`` are B/√V of Skinner and Shlomo: far above 0 the model is too simple and overstates the
    risk, far below it follows the sample too closely and understates it. With ``"choose"``
    interactions of two are added, the keys that depend most on each other first, and where all of them
    are too few (B1/√V > 2) interactions of three, until |B1/√V| is least; the breakdown has what was
    tried. ``terms`` may be of any size.

    ``weighting``: ``"none"`` fits the counts and takes one π for all; ``"pml"`` fits the weights
    (pseudo maximum likelihood) and takes each combination's own π; ``"ce"`` fits the counts with the
    mean inverse weight as offset (Clogg, Eliason); ``"weighted"`` makes the weights a covariate.
    Keys of ``scores`` enter by their number, with one coefficient each. ``sdcmicro_1`` and
    ``sdcmicro_2`` are what sdcMicro's modRisk prints for the model: it takes the fitted *sample*
    count for λ, divides by the number of combinations, and so is far larger.

    ``model="pitman"``, ``"zayatz"``, ``"snb"`` (slide negative binomial) and ``"dankar"`` (the rule
    that chooses among them) need the numbers of combinations by size alone, no model of the keys.

    ``value`` is the share of records that are unique in the population: τ1/n, or U/N with U the
    estimated population uniques (``population_uniques``). A missing key value is one more level.

    Reference: Skinner, C. J., Holmes, D. J. (1998). Estimating the re-identification risk per record in
    microdata. JOS 14, 361-372; Elamir, E. A. H., Skinner, C. J. (2006). Record level measures of
    disclosure risk for survey microdata. JOS 22, 525-539; Skinner, C. J., Shlomo, N. (2008). Assessing
    identification risk in survey microdata using log-linear models. JASA 103, 989-1001; Dankar, F. K.
    et al. (2012). Estimating the re-identification risk of clinical data sets. BMC MIDM 12, 66.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"A": [1, 1, 1, 2], "B": [1, 1, 2, 2]}))
    >>> model = sf.PopulationRisk(keys=["A", "B"], interactions="main", sampling_percent=50)
    >>> found = sf.measure(data, model)[0]
    >>> [round(found.tau1, 4), round(found.tau2, 4), found.sample_uniques]  # λ = 3, 1: e^−1.5 + e^−0.5
    [0.8297, 1.3049, 2]
    """

    name: ClassVar[str] = "population_risk"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Skinner, Shlomo (2008); Dankar et al. (2012)"
    setting: ClassVar[Literal["file", "population", "attribute", "values"]] = "population"
    per_record: ClassVar[str] = "risk"
    assumes: ClassVar[str] = (
        "the file is a sample; the intruder knows all keys exactly but not who was sampled; the "
        "population is what the model says of it"
    )

    model: str = parameter("loglinear", doc="The model of the population.", choices=MODELS)
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    interactions: str = parameter(
        "choose", doc="Which interactions the log-linear model has.", choices=INTERACTIONS
    )
    terms: tuple[tuple[str, ...], ...] = parameter(
        (), doc="The interactions by name, in place of `interactions`.", columns=True
    )
    weighting: str = parameter("none", doc="How weights enter the log-linear model.", choices=WEIGHTINGS)
    scores: tuple[str, ...] = parameter(
        (), doc="Keys that enter by their number, not by level.", columns=True, numeric=True
    )
    weight: str | None = parameter(
        None, doc="The sampling weight; the schema's by default.", columns="weight"
    )
    sampling_percent: float | None = parameter(
        None, doc="The sampling fraction, where there are no weights.", above=0, at_most=100
    )

    def _check(self) -> Sequence[tuple[str, str | None]]:
        out: list[tuple[str, str | None]] = []
        if self.model != "loglinear":
            set_ = [
                name for name in ("terms", "scores") if getattr(self, name)
            ] + (["weighting"] if self.weighting != "none" else [])  # fmt: skip
            out += [(f"`{name}` belongs to the log-linear model", None) for name in set_]
        if self.keys:
            known = set(self.keys)
            out += [
                (f"`{where}` names {name!r}, which isn't a key", None)
                for where, names in (("terms", [k for t in self.terms for k in t]), ("scores", self.scores))
                for name in names
                if name not in known
            ]
        return out

    @classmethod
    def usual(cls, schema: Schema) -> Sequence[RiskMeasure]:
        return (cls(model="dankar"),) if schema.keys and schema.weight else ()

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = [*self.check_columns(types), *check_keys(self.keys, (), schema, types)]
        known = set(chosen_keys(self.keys, (), schema))
        named = {k for t in self.terms for k in t} | set(self.scores)
        out += [
            Problem(0, f"{name!r} isn't one of the keys", "add it to the keys")
            for name in sorted(named - known)
            if name in types
        ]
        weight = self.weight or schema.weight
        if weight is None and self.sampling_percent is None:
            out.append(
                Problem(
                    0,
                    "how large the population is isn't known",
                    "give `sampling_percent`, or a weight (whose sum is the population)",
                )
            )
        if weight is None and self.weighting != "none":
            out.append(Problem(0, f"weighting {self.weighting!r} needs a weight"))
        return out

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        weight = self.weight or masked.schema.weight
        table = key_table(masked, chosen_keys(self.keys, (), masked.schema), "category", weight)
        n = table.records
        if not n:
            raise MeasureError("population_risk: the file has no records")
        people = self._population(table)
        alone = int((table.counts == 1).sum())
        common: dict[str, Any] = {
            "sample_uniques": alone,
            "population_size": people,
            "sampling_percent": 100 * n / people,
            "combinations": len(table),
        }
        if self.model == "loglinear":
            return self._loglinear(table, people, common)
        sizes, number = np.unique(table.counts, return_counts=True)
        found, used = self._superpopulation(sizes, number.astype(np.int64), people)
        notes = [f"model: {used}", *key_notes(table)]
        if math.isnan(found):
            notes.insert(0, f"{used} has no solution on this file: all sample uniques are taken for unique")
            found = alone * people / n
        share = min(found / people, alone / n)
        if found / people > alone / n:
            notes.insert(0, "the estimate exceeds the sample uniques and was cut to them")
        risk = np.where(table.counts == 1, share * n / max(alone, 1), 0.0)
        return Result(
            value=share,
            unit="share of records",
            notes=tuple(notes),
            figures={
                **common, "population_uniques": found, "tau1": share * n, "model": used, "rate": share,
            },
            confidential={"risk": table.at_records(risk)},
        )  # fmt: skip

    def _population(self, table: CellTable) -> float:
        if self.sampling_percent is not None:
            return 100 * table.records / self.sampling_percent
        assert table.weights is not None  # checked before
        people = float(table.weights.sum())
        if people < table.records:
            raise MeasureError(
                "population_risk: the weights add up to fewer people than the file has records",
                hint="weights must say how many people a record stands for; or give `sampling_percent`",
            )
        return people

    def _superpopulation(
        self, sizes: np.ndarray[Any, Any], number: np.ndarray[Any, Any], people: float
    ) -> tuple[float, str]:
        if self.model == "dankar":
            return superpopulation.dankar(sizes, number, people)
        by_name = {
            "pitman": superpopulation.pitman,
            "zayatz": superpopulation.zayatz,
            "snb": superpopulation.slide_negative_binomial,
        }
        return by_name[self.model](sizes, number, people), self.model

    def _loglinear(self, table: CellTable, people: float, common: dict[str, Any]) -> Result:
        weighting: Weighting = self.weighting  # type: ignore[assignment]
        terms = [tuple(table.position(k) for k in t) for t in self.terms]
        scores = {table.position(k): _numbers(table, k) for k in self.scores}
        how = "given" if terms else self.interactions
        found, tried = fit_population(table, people, how, terms, weighting, scores)
        single = table.counts == 1
        tau1, tau2 = float(found.unique[single].sum()), float(found.match[single].sum())
        words = [" × ".join(table.keys[j] for j in t) for t in found.terms if len(t) > 1]
        return Result(
            value=tau1 / table.records,
            unit="share of records",
            breakdown=pl.DataFrame(tried, schema=_TRIED, orient="row") if tried else None,
            notes=(
                f"interactions: {', '.join(words) or 'none (main effects)'}",
                *_verdict(found),
                *key_notes(table),
            ),
            figures={
                **common,
                "rate": tau1 / table.records,
                "tau1": tau1,
                "tau2": tau2,
                "tau2_rate": tau2 / table.records,
                "bias_1": _known(found.bias_1),
                "bias_2": _known(found.bias_2),
                "population_uniques": tau1 * people / table.records,
                "sdcmicro_1": found.sdcmicro_1,
                "sdcmicro_2": found.sdcmicro_2,
                "interactions": words,
                "model": "loglinear",
                "weighting": self.weighting,
            },
            confidential={
                "risk": table.at_records(found.match),
                "unique_risk": table.at_records(np.where(single, found.unique, 0.0)),
            },
        )


_TRIED: Final = {
    "interactions": pl.Int64,
    **dict.fromkeys(("tau1", "tau2", "bias_1", "bias_2"), pl.Float64),
}


def _known(figure: float) -> float | None:
    """The figure, or None where there is none: JSON has no NaN."""
    return figure if math.isfinite(figure) else None


def _verdict(found: PopulationModel) -> Sequence[str]:
    out = []
    if math.isfinite(found.bias_1):
        if found.bias_1 > 1.96:
            out.append(
                f"B1/√V = {found.bias_1:.1f}: the model is too simple for these keys, and the risk is "
                "likely overstated (add interactions)"
            )
        elif found.bias_1 < -1.96:
            out.append(
                f"B1/√V = {found.bias_1:.1f}: the model follows the sample too closely, and the risk is "
                "likely understated (take fewer interactions)"
            )
    if found.deviation > 0.01:
        out.append(f"the fit's margins are still off by up to {found.deviation:.2g} records")
    return out


def _numbers(table: CellTable, key: str) -> np.ndarray[Any, Any]:
    values = table.levels[key].cast(pl.Float64).to_numpy()
    if table.has_missing[table.position(key)]:
        raise MeasureError(
            f"population_risk: {key} has missing values, which have no number",
            hint="leave it out of `scores`",
        )
    return values
