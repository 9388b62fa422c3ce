"""Probabilistic record linkage as a measure of risk: the papers' intruder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.known import is_number
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem
from sfumato.linkage.assign import link
from sfumato.linkage.blocks import Blocks, make_blocks
from sfumato.linkage.em import EMFit, agreement_patterns, fit_em, random_agreement
from sfumato.linkage.fields import Fields, agreement_fields, known_columns
from sfumato.linkage.judge import chance_of_agreement, predicted_agreement
from sfumato.linkage.results import attack_result, block_notes, true_links
from sfumato.linkage.weights import (
    decision_thresholds,
    frequency_weights,
    given_weights,
    log_weights,
    weight_pair,
)

_SILENT = 1e-5  # a field that agrees in a smaller share of pairs than this, or differs in one, says nothing


@dataclass(frozen=True, kw_only=True)
class Linkage(Attack):
    """Re-identify records by probabilistic record linkage, 1-1, from values the intruder knows.

    Pairs within a block get the weight Σ_j w_dis + (w_agr − w_dis) · max(0, 1 − rel_j / t) with
    rel = |ln a − ln b| / max(|ln a|, 0.1) (l method) or |a − b| / max(|a|, 0.1) (d method), a known
    and b released; categories agree or not; a value missing on either side adds nothing. Values of
    different signs, and a zero with a non-zero, disagree in full by the l method. The 1-1
    assignment of the greatest total weight gives the links. The rate is right links / records;
    ``zone_rate`` counts only links above the lowest weight down to which at least 20% are right.

    Equal weights (1 and 0) reproduce the published rates and are the default. With
    ``weights="em"`` the weights are the natural logs of the likelihood ratios by EM. A fit is judged
    by what it predicts: a field is left out, records are linked by the others, and the links' agreement on
    it is compared with that of equal weights; the better of the two is used, and said. A fit that
    drifted away from the matches isn't used.

    References: Fellegi and Sunter (1969), JASA 64, 1183-1210; Yancey, Winkler and Creecy (2002),
    Disclosure risk assessment in perturbative microdata protection, section 3.4.

    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"INCOME": [10_000, 20_000, 40_000], "TAX": [900, 2_500, 7_000]})
    >>> noisy = people.with_columns(pl.col("INCOME") + 500, pl.col("TAX") - 40)
    >>> result = sf.Linkage(known=["INCOME", "TAX"]).measure(people, noisy)
    >>> result.rate, result.correct
    (1.0, 3)
    """

    name: ClassVar[str] = "linkage"
    reference: ClassVar[str] = "Fellegi and Sunter (1969); Yancey, Winkler and Creecy (2002)"

    known: tuple[str, ...] = parameter(
        (), doc="The columns whose original values the intruder knows.", columns="sensitive"
    )
    block_on: tuple[str, ...] | tuple[tuple[str, ...], ...] = parameter(
        (),
        doc="Only records that agree on these columns are compared; several lists: on any of them.",
        columns=True,
    )
    metric: Literal["l", "d"] = parameter(
        "l", doc="How numbers are compared: by logarithms (l) or differences (d).", choices=("l", "d")
    )
    agreement_tolerance: float = parameter(
        0.2, doc="The relative difference t at which a number disagrees in full.", above=0, at_most=1
    )
    weights: str | dict[str, Any] = parameter(  # noqa: RUF009
        "equal",
        doc='"equal", "em", or a table of columns: a number, or [agreement weight, disagreement weight].',
    )
    one_to_one: bool = parameter(
        True,
        doc="Whether each released record is linked at most once; else each record's nearest, ties shared.",
    )
    frequency: bool = parameter(False, doc="Whether agreeing on a rare category weighs more.")
    em_share: Literal["fixed", "bounded", "free"] = parameter(
        "fixed",
        doc="The share of matches in EM: fixed, bounded or free.",
        choices=("fixed", "bounded", "free"),
    )
    em_iterations: int = parameter(2000, doc="How many steps EM may take.", at_least=1)
    em_random_pairs: bool = parameter(True, doc="Whether EM takes the u probabilities from random pairs.")
    false_link_bound: float = parameter(
        0.001, doc="Bound on the probability of a false link in the EM decision rule.", above=0, below=1
    )
    false_nonlink_bound: float = parameter(
        0.05, doc="Bound on the probability of a false non-link in the EM decision rule.", above=0, below=1
    )
    zone_percent: float = parameter(
        20.0,
        doc="The zone ends where fewer than so many percent of the links are right.",
        above=0,
        at_most=100,
    )
    candidates: int = parameter(
        32,
        doc="How many candidates a record starts with in a block too large for a matrix.",
        at_least=1,
    )
    truth: str | None = parameter(
        None, doc="The id column with the true links; by default record i belongs to record i.", columns=True
    )

    def _check(self) -> Sequence[Fault]:
        if isinstance(self.weights, str) and self.weights not in ("equal", "em"):
            return [(f"`weights` can't be {self.weights!r}", 'it is "equal", "em" or a table', "weights")]
        if isinstance(self.weights, dict):
            for name, weight in self.weights.items():
                weight_pair(name, weight)
        return ()

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        if not intruder.values:
            return ()
        return [
            cls(known=intruder.values, block_on=intruder.block_on, metric=metric)
            for metric in (("l", "d") if intruder.numbers else ("l",))
        ]

    @property
    def blockings(self) -> list[tuple[str, ...]]:
        """The blockings; a plain list of columns is one."""
        if self.block_on and isinstance(self.block_on[0], tuple):
            return [tuple(b) for b in self.block_on]
        return [tuple(str(c) for c in self.block_on)]

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        problems = self.check_columns(types)
        both = [c for c in self.known if any(c in b for b in self.blockings)]
        problems += [
            Problem(
                0,
                f"{c} is in `known` and in `block_on`; it adds nothing to the weights",
                severity="warning",
                parameter="known",
            )
            for c in both
        ]
        return problems

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        known = known_columns(original, masked, self.known, numbers=False)
        truth = true_links(original, masked, self.truth)
        fields = agreement_fields(
            original, masked, known, metric=self.metric, tolerance=self.agreement_tolerance
        )
        blockings = [make_blocks(original, masked, on, draws) for on in self.blockings]
        notes = block_notes(sorted({c for b in self.blockings for c in b}), known, truth=self.truth)
        agree, disagree, fit, figures = self._weights(fields, blockings[0], draws, notes)
        per_record = frequency_weights(fields, agree, disagree) if self.frequency else agree
        links = link(
            fields.weighted(per_record, disagree),
            blockings,
            truth,
            one_to_one=self.one_to_one,
            candidates=self.candidates,
        )
        if fit is not None:
            figures |= self._decisions(links.weight, links.match == truth, fit)
        figures["blocks"] = sum(len(b) for b in blockings)
        figures["largest_block"] = max(int(b.sizes[1].max(initial=0)) for b in blockings)
        if self.metric == "l":
            signs = sum(
                int((masked.numbers(c, missing=1.0) <= 0).sum())
                for c in known
                if is_number(masked, c) and is_number(original, c)
            )
            if signs:
                notes.append(
                    f"{signs:,} released values are zero or negative: by the l method they agree only "
                    "with zeros and with values of the same sign"
                )
        return attack_result(
            links,
            blockings,
            truth,
            one_to_one=self.one_to_one,
            notes=notes,
            figures=figures,
            zone_percent=self.zone_percent,
        )

    def _weights(
        self, fields: Fields, blocks: Blocks, draws: Draws, notes: list[str]
    ) -> tuple[FloatArray, FloatArray, EMFit | None, dict[str, Any]]:
        equal = np.ones(len(fields)), np.zeros(len(fields))
        if isinstance(self.weights, dict):
            return *given_weights(fields, self.weights), None, {}
        if self.weights == "equal":
            return *equal, None, {}
        if not 0 < blocks.links < blocks.pairs:
            notes.append("EM has nothing to tell apart (blocks of one record); equal weights were used")
            return *equal, None, {"em_used": False}
        if len(self.blockings) > 1:
            notes.append("EM was fitted to the pairs of the first blocking")
        patterns = agreement_patterns(fields, blocks, draws)
        fit = fit_em(
            patterns,
            expected_share=blocks.links / blocks.pairs,
            share=self.em_share,
            u=random_agreement(patterns) if self.em_random_pairs else None,
            iterations=self.em_iterations,
        )
        agree, disagree = log_weights(fit.m, fit.u)
        overall = random_agreement(patterns)
        silent = (overall > 1 - _SILENT) | (overall < _SILENT)  # the same in every pair
        agree[silent] = disagree[silent] = 0.0
        sensible = bool((agree > disagree)[~silent].all() and not silent.all())
        if silent.any():
            names = ", ".join(n for n, quiet in zip(fields.names, silent, strict=True) if quiet)
            notes.append(f"in EM {names} weighs nothing: all pairs agree on it, or none does")
        predicts = {
            "em": predicted_agreement(fields, agree, disagree, blocks, draws),
            "equal": predicted_agreement(fields, *equal, blocks, draws),
        }
        better = predicts["em"] >= predicts["equal"] - chance_of_agreement(len(fields))
        figures: dict[str, Any] = {
            "em_used": fit.trusted and sensible and better,
            "em_predicts": predicts["em"],
            "equal_predicts": predicts["equal"],
            "em_share_of_matches": fit.share,
            "em_drift": fit.drift,
            "em_iterations": len(fit.log_likelihood) - 1,
            "em_converged": fit.converged,
            "em_m": dict(zip(fields.names, fit.m.tolist(), strict=True)),
            "em_u": dict(zip(fields.names, fit.u.tolist(), strict=True)),
        }
        if fit.trusted and sensible and better:
            notes.append(
                f"EM's weights predict a field that is left out for {predicts['em']:.1%} of the links by the "
                f"others, equal weights for {predicts['equal']:.1%}: EM's are used"
            )
            return agree, disagree, fit, figures
        if not fit.converged:
            why = f"EM didn't converge in {len(fit.log_likelihood) - 1:,} steps"
        elif not fit.trusted:
            why = f"EM drifted: it expects {fit.drift:.3g} times as many matches as there can be"
        elif sensible:
            why = (
                f"EM's weights predict a field that is left out for {predicts['em']:.1%} of the links by the "
                f"others, equal weights for {predicts['equal']:.1%}"
            )
        else:
            odd = [n for n, a, d in zip(fields.names, agree, disagree, strict=True) if a < d] or fields.names
            why = f"EM found {', '.join(odd)} to agree no more among matches than among other pairs"
        notes.append(f"{why}; it isn't used, and equal weights are")
        return *equal, None, figures

    def _decisions(self, weight: FloatArray, right: Any, fit: EMFit) -> dict[str, Any]:
        upper, lower = decision_thresholds(
            fit.m, fit.u, false_link=self.false_link_bound, false_nonlink=self.false_nonlink_bound
        )
        linked = ~np.isnan(weight)
        sure = linked & (weight >= upper)
        review = linked & (weight < upper) & (weight > lower)
        return {
            "upper_threshold": upper,
            "lower_threshold": lower,
            "links_declared": int(sure.sum()),
            "links_declared_right": int((sure & right).sum()),
            "links_for_review": int(review.sum()),
        }
