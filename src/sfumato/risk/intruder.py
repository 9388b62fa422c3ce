"""Moore's simulation of an intruder who looks for rare households."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
import polars as pl

from sfumato.contract.known import is_number
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import MeasureError, Problem
from sfumato.linkage.blocks import make_blocks
from sfumato.linkage.em import Patterns, fit_em
from sfumato.linkage.fields import known_columns
from sfumato.linkage.results import wilson
from sfumato.linkage.weights import log_weights, weight_pair

TABLE_5: Final[Mapping[str, tuple[float, float]]] = {
    "INCOME": (1.8, -0.6),
    "HOME_VAL": (3.0, -3.6),
    "MORTGAGE": (1.2, -5.4),
    "MAINTAIN": (1.9, -3.2),
    "TAXES": (3.0, -4.0),
}
"""The weights of Moore's Table 5 for the 1993 American Housing Survey."""


MOST_TRIED = 50_000
"""Records up to which the test is also made on the file as collected."""


@dataclass(frozen=True, kw_only=True)
class IntruderTest(Attack):
    """Moore's intruder: he looks for rare records by keys he half trusts and values he roughly knows.

    1. The **restricted universe** is the released records in key classes (``block_on``) of fewer
       than ``universe_below`` records; the **targets** are the original records in classes of at
       most ``target_at_most``.
    2. He is **skeptical** of some keys: classes are collapsed over ``skeptical_of``.
    3. A known value **agrees** if it is within ``within_percent`` percent of his; blank agrees with
       blank, and a code with the same code.
    4. Each target is linked to the released record of its collapsed class with the greatest sum of
       agreement and disagreement weights (by EM, or given), ties at random.
    5. A link is a **definite** re-identification above ``accept_above`` (by default: where every
       value agrees), correct or incorrect; **false** below ``reject_below``; and **questionable**
       between.

    The rate is correct definite re-identifications over targets.

    Reference: Moore, R. A. (1996). Controlled data-swapping techniques for masking public use
    microdata sets, section XI. U.S. Bureau of the Census.

    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"ROOMS": [1, 1, 2, 3], "INCOME": [10.0, 50.0, 30.0, 20.0]})
    >>> moved = people.with_columns(INCOME=pl.Series([10.5, 49.0, 60.0, 20.0]))
    >>> test = sf.IntruderTest(block_on=["ROOMS"], known=["INCOME"], weights={"INCOME": [2.0, -1.0]})
    >>> found = test.measure(people, moved)
    >>> found.correct, found.incorrect, found.questionable, found.false
    (3, 0, 0, 1)
    """

    name: ClassVar[str] = "intruder_test"
    reference: ClassVar[str] = "Moore (1996), section XI"
    finds: ClassVar[Literal["records", "targets", "values", "members"]] = "targets"
    compares_all: ClassVar[bool] = False

    block_on: tuple[str, ...] = parameter(doc="The keys that make the classes.", columns="keys")
    skeptical_of: tuple[str, ...] = parameter(
        (), doc="Those of the keys that the intruder doesn't trust.", columns=True
    )
    known: tuple[str, ...] = parameter((), doc="The values that he knows.", columns="sensitive")
    within_percent: float = parameter(10.0, doc="How far, in percent, a value may be off.", at_least=0)
    weights: str | dict[str, Any] = parameter(  # noqa: RUF009
        "em", doc='"em", "equal", or a table of columns: [agreement weight, disagreement weight].'
    )
    universe_below: int = parameter(100, doc="Classes of fewer records make the universe.", at_least=2)
    target_at_most: int = parameter(2, doc="Classes of at most so many records are targets.", at_least=1)
    accept_above: float | None = parameter(
        None, doc="A link of more weight is definite; by default, where every value agrees."
    )
    reject_below: float = parameter(0.0, doc="A link of less weight is false.")

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        keys = tuple(c for c in original.schema.keys if c in masked.columns)
        values = tuple(c for c in intruder.values if c not in keys)
        return [cls(block_on=keys, known=values)] if keys and values else ()

    def _check(self) -> Sequence[Fault]:
        if isinstance(self.weights, str) and self.weights not in ("em", "equal"):
            return [(f"`weights` can't be {self.weights!r}", 'it is "em", "equal" or a table', "weights")]
        if isinstance(self.weights, dict):
            for name, weight in self.weights.items():
                weight_pair(name, weight)
        strange = [c for c in self.skeptical_of if c not in self.block_on]
        return (
            [(f"`skeptical_of` names {strange[0]}, which isn't in `block_on`", None, "skeptical_of")]
            if strange
            else ()
        )

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        return self.check_columns(types)

    def before(self, original: Microdata, masked: Microdata) -> tuple[float, str] | None:
        # Its targets are few records of its own choice, so only the test itself can say.
        if len(original) > MOST_TRIED:
            return None
        return self.measure(original, original).value, "the same measure of the file as collected"

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        if len(original) != len(masked):
            raise MeasureError(f"the files have {len(original):,} and {len(masked):,} records")
        known = known_columns(original, masked, self.known, numbers=False)
        codes, size = original.codes(self.block_on)
        targets = np.flatnonzero(np.bincount(codes, minlength=size)[codes] <= self.target_at_most)
        codes, size = masked.codes(self.block_on)
        universe = np.flatnonzero(np.bincount(codes, minlength=size)[codes] < self.universe_below)
        if not len(targets):
            raise MeasureError(
                f"no class of {', '.join(self.block_on)} has {self.target_at_most} records or fewer: "
                "the intruder has no target",
                hint="name more keys in `block_on`, or raise `target_at_most`",
            )
        trusted = [c for c in self.block_on if c not in self.skeptical_of]
        blocks = make_blocks(original, masked, trusted, draws, left=targets, right=universe)
        agrees, pair_target, pair_record = self._compare(original, masked, known, blocks)
        notes: list[str] = [
            f"the intruder knows the keys and, within {self.within_percent:g} percent, "
            f"{', '.join(known)} of every target, and that each target is in the release",
        ]
        agree, disagree, used = self._weights(known, agrees, len(targets), notes)
        weight = agrees @ agree + (~agrees) @ disagree
        # Blocks come in random order, so the first of equals is a random one.
        order = np.lexsort((-weight, pair_target))
        first = order[np.flatnonzero(np.diff(pair_target[order], prepend=-1))]
        linked, record, score = pair_target[first], pair_record[first], weight[first]
        accept = self.accept_above
        if accept is None:
            accept = float(agree.sum() - (agree - disagree).min()) + 1e-9
        definite, dismissed = score > accept, score < self.reject_below
        right = linked == record
        outcome = np.where(
            definite,
            np.where(right, "correct", "incorrect"),
            np.where(dismissed, "false", "questionable"),
        )
        n = len(targets)
        count = {
            word: int((outcome == word).sum()) for word in ("correct", "incorrect", "questionable", "false")
        }
        alone = n - len(linked)  # nobody in the universe shares the class: no suitable match
        count["false"] += alone
        left, right_sizes = blocks.sizes
        chance = float((np.isin(blocks.left, universe) / np.repeat(right_sizes, left)).sum() / n)
        return Result(
            value=count["correct"] / n,
            unit="share of targets re-identified",
            interval=wilson(count["correct"], n),
            breakdown=pl.DataFrame(
                {
                    "outcome": list(count),
                    "targets": list(count.values()),
                    "share": [c / n for c in count.values()],
                }
            ),
            notes=tuple(notes),
            figures={
                "rate": count["correct"] / n,
                **count,
                "baseline": chance,
                "attacked": n,
                "targets": n,
                "universe": len(universe),
                "pairs": len(weight),
                "largest_block": int(np.bincount(masked.codes(trusted)[0][universe]).max(initial=0)),
                "weights_used": {
                    c: [float(a), float(d)] for c, a, d in zip(known, agree, disagree, strict=True)
                },
                "em_used": used,
            },
            confidential={
                "links": pl.DataFrame(
                    {
                        "original": linked,
                        "masked": record,
                        "weight": score,
                        "correct": right,
                        "outcome": outcome,
                    }
                ).sort("weight", descending=True)
            },
        )

    def _compare(
        self, original: Microdata, masked: Microdata, known: Sequence[str], blocks: Any
    ) -> tuple[Any, IntArray, IntArray]:
        """Which known values agree, for every pair of a target and a record of its class."""
        left_sizes, right_sizes = blocks.sizes
        wide = np.repeat(right_sizes, left_sizes)
        target = np.repeat(blocks.left, wide)
        begin = np.repeat(np.repeat(blocks.right_starts[:-1], left_sizes), wide)
        place = np.arange(len(target)) - np.repeat(np.cumsum(wide) - wide, wide)
        record = blocks.right[begin + place]
        agrees = np.zeros((len(target), len(known)), dtype=np.bool_)
        for j, column in enumerate(known):
            gone, other_gone = original.missing(column)[target], masked.missing(column)[record]
            if is_number(original, column) and is_number(masked, column):
                a = original.numbers(column, missing=0.0)[target]
                b = masked.numbers(column, missing=0.0)[record]
                # A little room for the rounding of tolerance · value.
                near = np.abs(a - b) <= self.within_percent / 100 * np.abs(a) * (1 + 1e-12)
            else:
                one, two, _ = joint_codes(original, masked, [column])
                near = one[target] == two[record]
            agrees[:, j] = np.where(gone | other_gone, gone & other_gone, near)
        return agrees, target, record

    def _weights(
        self, known: Sequence[str], agrees: Any, targets: int, notes: list[str]
    ) -> tuple[FloatArray, FloatArray, bool]:
        m = len(known)
        if isinstance(self.weights, dict):
            absent = [c for c in known if c not in self.weights]
            if absent:
                raise MeasureError(f"`weights` leaves out {', '.join(absent)}")
            pairs = [weight_pair(c, self.weights[c]) for c in known]
            notes.append("the matching weights were given")
            return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs]), False
        # One disagreement is questionable, two are not: as the paper's weights decide.
        equal = np.ones(m), np.full(m, -max(1.0, m / 2))
        if self.weights == "equal":
            return *equal, False
        if len(agrees) > targets:
            states, counts = np.unique(agrees.astype(np.int8), axis=0, return_counts=True)
            fit = fit_em(
                Patterns(states, counts.astype(np.float64)), expected_share=min(targets / len(agrees), 0.5)
            )
            agree, disagree = log_weights(fit.m, fit.u)
            if fit.trusted and (agree > disagree).all():
                notes.append("the matching weights were estimated by EM, as natural logs")
                return agree, disagree, True
        notes.append("EM couldn't tell matches from other pairs; equal weights were used")
        return *equal, False
