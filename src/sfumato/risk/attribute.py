"""The intruder who wants a value, not a name: what the release tells about a person beyond people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.held_back import BesideOthers
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.assign import link
from sfumato.linkage.blocks import Blocks, make_blocks
from sfumato.linkage.fields import Fields
from sfumato.linkage.learn import learn
from sfumato.linkage.neighbours import nearest_records, without
from sfumato.linkage.points import standard_points, whitener
from sfumato.linkage.results import true_links
from sfumato.risk.guesses import Fellows, Hits, Learnt, Model, Target
from sfumato.stats.boosting import Boosting
from sfumato.stats.regression import Regression

_SPLITS = 5
_NEAR = 10  # released records that make a nearest group
_STANDS_OUT = 4.0
_IN_BATTERY = 3  # sensitive columns that the battery tries


@dataclass(frozen=True, kw_only=True)
class AttributeAttack(BesideOthers):
    """Learn a sensitive value of a person whose other values are known: the gain over what others tell.

    Whoever knows some columns of a person predicts the sensitive one from the release: by the record
    that he links (nearest by values, whitened values, ranks, or learnt agreement; and 1-1), by the
    ten nearest records, by a regression, by boosted trees, by a record that stands out and else by a model,
    or by the best constant. g is the share of
    persons whose value he then has within ``within_percent`` (a category: exactly), by the best of these
    ways. b is the same without the person, so that what the release tells about people in general doesn't
    count. ``value`` is the gain (g − b)/(1 − b), 0 where nobody is learnt of beyond that, 1 for the
    unmasked file. With several sensitive columns each is learnt from the other known ones, and the value is
    that of the worst.

    Whose values b is made of, the best that there is:

    - ``holdout`` names a file of other people of the same population: they are attacked by the same ways;
    - where the steps are known (in a battery), a quarter of the people is held back and the rest masked by
      the same steps: those held back are attacked by the same ways;
    - else the person's own record is left out, with those that the mask made equal to it (a group's mean is
      his too), and models are trained on the other parts of five. If his own row tells no more of him than
      the nearest other one, as in a synthetic file, where row i isn't person i, leaving it out controls
      nothing. Then other people's original records predict him, if they tell clearly less.

    More than ``records`` persons are attacked by a random sample.

    Reference: the control by other people is that of Giomi et al. (2023), A unified framework for
    quantifying privacy risk in synthetic data, PoPETs 2023(2), 312-328; gain and ways are ours.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(0)
    >>> people = pl.DataFrame(rng.lognormal(9, 1, (200, 3)), schema=["RENT", "TAX", "PAY"])
    >>> attack = sf.AttributeAttack(known=["RENT", "TAX"], sensitive=["PAY"])
    >>> attack.measure(people, people).value
    1.0
    >>> attack.measure(people, people.with_columns(pl.col("PAY").shuffle(seed=1))).value < 0.1
    True
    """

    name: ClassVar[str] = "attribute_attack"
    reference: ClassVar[str] = "after Giomi et al. (2023)"
    finds: ClassVar[Literal["records", "targets", "values", "members"]] = "values"
    compares_all: ClassVar[bool] = False

    known: tuple[str, ...] = parameter(
        (), doc="The columns that the intruder knows; by default all but ids, weight and the one to learn.",
        columns=True,
    )  # fmt: skip
    sensitive: tuple[str, ...] = parameter(
        (), doc="The columns that he wants to learn; the sensitive ones by default.", columns="sensitive"
    )
    within_percent: float = parameter(
        10.0, doc="How near, in percent of the value, a prediction must be.", at_least=0
    )

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        wanted = [c for c in original.schema.sensitive if c in masked.columns] or list(intruder.numbers)
        known = tuple(dict.fromkeys([*intruder.values, *intruder.block_on]))
        wanted = [c for c in wanted if [k for k in known if k != c]][:_IN_BATTERY]
        return [cls(known=known, sensitive=tuple(wanted))] if wanted else ()

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        wanted = self.sensitive or tuple(c for c in original.schema.sensitive if c in masked.columns)
        if not wanted:
            raise MeasureError("there is no value to learn", hint="name the columns in `sensitive`")
        truth = true_links(original, masked, self.truth)
        parts = [self._learnt(c, original, masked, truth, draws) for c in wanted]
        worst = max(parts, key=lambda p: p.gain)
        return Result(
            value=worst.gain,
            unit="gain over what other people tell",
            interval=worst.interval,
            breakdown=pl.DataFrame([p.row() for p in parts], infer_schema_length=None),
            notes=(
                f"the intruder has the original values of {', '.join(worst.known)} and learns {worst.column} "
                + (f"within {self.within_percent:g} percent" if worst.number else "exactly"),
                f"with the release he is right for {worst.with_release:.1%} ({worst.way}); for "
                f"{worst.others:.1%} ({worst.way_of_others}) without the person: {worst.control}",
            ),
            figures={
                "rate": worst.with_release,
                "baseline": worst.others,
                "gain": worst.gain,
                "attacked": worst.persons,
                "column": worst.column,
                "way": worst.way,
                "control": worst.control,
            },
        )

    def _learnt(
        self, column: str, original: Microdata, masked: Microdata, truth: IntArray, draws: Draws
    ) -> Learnt:
        known = tuple(c for c in self.known or _everything(original, masked) if c != column)
        if not known:
            raise MeasureError(f"the intruder knows nothing but {column}", hint="name columns in `known`")
        people = self._people(original, column, truth >= 0, draws)
        if len(people) < 2:
            raise MeasureError(f"there are too few persons with a value of {column}")
        target = Target.of(column, original, masked, self.within_percent)
        held = self._others
        if held is not None and all(c in held.outside.columns for c in (*known, column)):
            ways, _ = self._guessed(original, masked, column, known, people, None, draws)
            strangers = self._people(held.outside, column, np.ones(len(held.outside), np.bool_), draws)
            others, _ = self._guessed(held.outside, held.released, column, known, strangers, None, draws)
            return Learnt.of(column, known, target.number, ways, others, held.how, same_people=False)
        ways, others = self._guessed(original, masked, column, known, people, truth, draws)
        control = "his own record was left out"
        own = float(target.hits(people, target.of_record(truth[people])).mean())
        nearest = max((float(h.mean()) for w, h in others.items() if w.startswith("nearest")), default=0.0)
        if own <= nearest + 2 * np.sqrt(0.25 / len(people)):
            # His own row tells no more of him than another: to leave it out controls nothing.
            itself = np.arange(len(original))
            _, instead = self._guessed(original, original, column, known, people, itself, draws)
            if _best(instead) < _best(others) - 1.5 * np.sqrt(0.5 / len(people)):
                others, control = instead, "other people's original records, since rows aren't persons"
        return Learnt.of(column, known, target.number, ways, others, control, same_people=True)

    def _people(self, data: Microdata, column: str, there: BoolArray, draws: Draws) -> IntArray:
        people = np.flatnonzero(there & ~data.missing(column))
        if len(people) > self.records:
            order = draws.stream(column, purpose="persons").permutation(len(people))
            people = np.sort(people[order[: self.records]])
        return people

    def _guessed(
        self,
        original: Microdata,
        masked: Microdata,
        column: str,
        known: tuple[str, ...],
        people: IntArray,
        truth: IntArray | None,
        draws: Draws,
    ) -> tuple[Hits, Hits]:
        """Who is guessed right by every way; and, where ``truth`` says which record is whose, the same with
        each person's own record left out."""
        target = Target.of(column, original, masked, self.within_percent)
        fellows = None if truth is None else Fellows.made(original, masked, (*known, column), truth)
        blocks = make_blocks(original, masked, (), draws, left=people)
        ways, others = Hits(), Hits()
        place = np.full(len(original), -1)
        place[people] = np.arange(len(people))
        sure, sure_apart = np.full(len(people), np.nan), np.full(len(people), np.nan)

        def add(where: Hits, name: str, rows: IntArray, guess: FloatArray) -> None:
            where[name] = np.zeros(len(people), np.bool_)
            where[name][place[rows]] = target.hits(rows, guess)

        for name, fields in self._spaces(original, masked, known, blocks, draws).items():
            rows, found, weights = nearest_records(fields, blocks, _NEAR + (fellows.most if fellows else 1))
            add(ways, f"nearest by {name}", rows, target.of_record(found[:, 0]))
            add(ways, f"group by {name}", rows, target.of_group(found[:, :_NEAR]))
            if name == "values":
                away = fields.weight_range()[1] - weights
                sure[place[rows]] = target.of_record(_alone(found, away))
            if fellows is not None and truth is not None:
                spot = without(found, fellows.of[found] == fellows.of[truth[rows]][:, None], _NEAR)
                apart = np.where(spot >= 0, np.take_along_axis(found, np.maximum(spot, 0), axis=1), -1)
                add(others, f"nearest by {name}", rows, target.of_record(apart[:, 0]))
                add(others, f"group by {name}", rows, target.of_group(apart))
                if name == "values":
                    far = np.take_along_axis(away, np.maximum(spot, 0), axis=1)
                    sure_apart[place[rows]] = target.of_record(_alone(apart, far))
            if len(people) == len(original) == len(masked):
                match = link(fields, blocks, np.full(len(original), -1)).match[rows]
                add(ways, f"1-1 by {name}", rows, target.of_record(match))
        constant = np.full(len(people), target.constant())
        add(ways, "constant", people, constant)
        models: dict[str, Model] = {
            "regression": Regression.of(original, masked, known),
            "boosted trees": Boosting.of(original, masked, known),
        }
        for name, model in models.items():
            guess = target.predicted(model, None, people)
            add(ways, name, people, guess)
            add(ways, f"a record that stands out, else {name}", people, np.where(np.isnan(sure), guess, sure))
        if fellows is not None and truth is not None:
            add(others, "constant", people, constant)
            part = (draws.stream(column, purpose="splits").permutation(fellows.number) % _SPLITS)[fellows.of]
            for name, model in models.items():
                guess = np.full(len(people), np.nan)
                for split in range(_SPLITS):
                    mine = part[truth[people]] == split
                    if mine.any() and (part != split).sum() > 1:
                        guess[mine] = target.predicted(model, np.flatnonzero(part != split), people[mine])
                add(others, name, people, guess)
                guess = np.where(np.isnan(sure_apart), guess, sure_apart)
                add(others, f"a record that stands out, else {name}", people, guess)
        return ways, others

    def _spaces(
        self, original: Microdata, masked: Microdata, known: Sequence[str], blocks: Blocks, draws: Draws
    ) -> dict[str, Fields]:
        out: dict[str, Fields] = {}
        try:
            points = standard_points(original, masked, known)
        except MeasureError:  # everything known is constant
            return out
        out["values"] = points.fields(points.left, points.right)
        if points.names:
            out["whitened values"] = points.turned(
                whitener(np.atleast_2d(np.cov(points.right, rowvar=False)))
            )
            ranks = standard_points(original, masked, known, ranks=True)
            out["ranks"] = ranks.fields(ranks.left, ranks.right)
        out["agreement"] = learn(original, masked, known, blocks, draws, {}).fields
        return out


def _alone(found: IntArray, away: FloatArray) -> IntArray:
    """The nearest record where it is four times as near as the next (by squared distances); else −1."""
    if found.shape[1] < 2:
        return np.full(len(found), -1)
    return np.where(away[:, 0] <= away[:, 1] / _STANDS_OUT**2 + 1e-12, found[:, 0], -1)


def _best(hits: Hits) -> float:
    return max((float(h.mean()) for h in hits.values()), default=0.0)


def _everything(original: Microdata, masked: Microdata) -> tuple[str, ...]:
    schema = original.schema
    apart = {schema.id, schema.household, schema.weight}
    return tuple(c for c in original.columns if c in masked.columns and c not in apart)
