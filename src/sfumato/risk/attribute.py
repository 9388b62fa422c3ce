"""The intruder who wants a value, not a name: what the release tells about a person beyond people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.known import is_number
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.codes import joint_codes
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
from sfumato.stats.regression import Regression

_Z95 = 1.959963984540054
_SPLITS = 5
_NEAR = 10  # released records that make a nearest group
_MOST_FELLOWS = 60
_IN_BATTERY = 3  # sensitive columns that the battery tries


@dataclass(frozen=True, kw_only=True)
class AttributeAttack(Attack):
    """Learn a sensitive value of a person whose other values are known: the gain over a model of others.

    Whoever knows some columns of a person predicts the sensitive one from the release: by the record
    that he links (nearest by values, whitened values, ranks, or learnt agreement; and 1-1), by the
    ten nearest records, by a regression, or by the best constant. g is the share of persons whose
    value he then has within ``within_percent`` (a category: exactly), by the best of these ways. b is
    the same with the person's own record left out (and those that the mask made equal to it: a
    group's mean is his too), so that what the release tells about people in general doesn't count:
    the nearest records of others, and a regression trained on the other parts of five. ``value`` is
    the gain (g − b)/(1 − b), 0 where nobody is learnt of beyond that, 1 for the unmasked file. With
    several sensitive columns each is learnt from the other known ones, and the value is that of the
    worst.

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
    records: int = parameter(2_000, doc="Attack at most so many persons, drawn at random.", at_least=1)
    truth: str | None = parameter(
        None, doc="The id column with the true links; by default record i belongs to record i.", columns=True
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
            unit="gain over a model of other people",
            interval=worst.interval,
            breakdown=pl.DataFrame([p.row() for p in parts], infer_schema_length=None),
            notes=(
                f"the intruder has the original values of {', '.join(worst.known)} and learns {worst.column} "
                + (f"within {self.within_percent:g} percent" if worst.number else "exactly"),
                f"with the release he is right for {worst.with_release:.1%} ({worst.way}); other people's "
                f"records alone give {worst.others:.1%} ({worst.way_of_others})",
            ),
            figures={
                "rate": worst.with_release,
                "baseline": worst.others,
                "gain": worst.gain,
                "attacked": worst.persons,
                "column": worst.column,
                "way": worst.way,
            },
        )

    def _learnt(
        self, column: str, original: Microdata, masked: Microdata, truth: IntArray, draws: Draws
    ) -> _Learnt:
        known = tuple(c for c in self.known or _everything(original, masked) if c != column)
        if not known:
            raise MeasureError(f"the intruder knows nothing but {column}", hint="name columns in `known`")
        people = np.flatnonzero((truth >= 0) & ~original.missing(column))
        if len(people) < 2:
            raise MeasureError(f"there are too few persons with a value of {column}")
        everybody = len(people) <= self.records
        if not everybody:
            order = draws.stream(column, purpose="persons").permutation(len(people))
            people = np.sort(people[order[: self.records]])
        fellows = _Fellows.made(original, masked, (*known, column), truth)
        target = _Target.of(column, original, masked, self.within_percent)
        blocks = make_blocks(original, masked, (), draws, left=people)
        ways: dict[str, BoolArray] = {}
        others: dict[str, BoolArray] = {}
        for name, fields in self._spaces(original, masked, known, blocks, draws).items():
            rows, found, _ = nearest_records(fields, blocks, _NEAR + fellows.most)
            place = np.argsort(rows)
            rows, found = rows[place], found[place]
            spot = without(found, fellows.of[found] == fellows.of[truth[rows]][:, None], _NEAR)
            apart = np.where(spot >= 0, np.take_along_axis(found, np.maximum(spot, 0), axis=1), -1)
            ways[f"nearest by {name}"] = target.hits(rows, target.of_record(found[:, 0]))
            others[f"nearest by {name}"] = target.hits(rows, target.of_record(apart[:, 0]))
            ways[f"group by {name}"] = target.hits(rows, target.of_group(found[:, :_NEAR]))
            others[f"group by {name}"] = target.hits(rows, target.of_group(apart))
            if everybody:
                match = link(fields, blocks, truth).match[rows]
                ways[f"1-1 by {name}"] = target.hits(rows, target.of_record(match))
        constant = target.hits(people, np.full(len(people), target.constant()))
        ways["constant"] = others["constant"] = constant
        model = Regression.of(original, masked, known)
        ways["regression"] = target.hits(people, target.predicted(model, None, people))
        part = (draws.stream(column, purpose="splits").permutation(fellows.number) % _SPLITS)[fellows.of]
        guess = np.full(len(people), np.nan)
        for split in range(_SPLITS):
            mine = part[truth[people]] == split
            if mine.any() and (part != split).sum() > 1:
                guess[mine] = target.predicted(model, np.flatnonzero(part != split), people[mine])
        others["regression"] = target.hits(people, guess)
        best, best_of_others = (max(d, key=lambda w: float(d[w].mean())) for d in (ways, others))
        return _Learnt.of(
            column, known, target.number, best, ways[best], best_of_others, others[best_of_others]
        )

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


def _everything(original: Microdata, masked: Microdata) -> tuple[str, ...]:
    schema = original.schema
    apart = {schema.id, schema.household, schema.weight}
    return tuple(c for c in original.columns if c in masked.columns and c not in apart)


@dataclass(frozen=True)
class _Fellows:
    """Released records that the mask made equal on these columns: each record's group, and their number."""

    of: IntArray
    number: int
    most: int

    @classmethod
    def of_groups(cls, groups: IntArray) -> _Fellows:
        dense = np.unique(groups, return_inverse=True)[1]
        sizes = np.bincount(dense)
        return cls(dense, len(sizes), int(min(sizes.max(), _MOST_FELLOWS)))

    @classmethod
    def made(
        cls, original: Microdata, masked: Microdata, columns: Sequence[str], truth: IntArray
    ) -> _Fellows:
        after, size = masked.codes(columns)
        before, _ = original.codes(columns)
        # A group counts where its persons were different: people who were equal before are other people.
        people = np.flatnonzero(truth >= 0)
        low, high = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
        np.minimum.at(low, after[truth[people]], before[people])
        np.maximum.at(high, after[truth[people]], before[people])
        mixed = high > low
        return cls.of_groups(np.where(mixed[after], after, size + np.arange(len(after))))


@dataclass(frozen=True)
class _Learnt:
    """What was learnt of one column."""

    column: str
    known: tuple[str, ...]
    number: bool
    persons: int
    with_release: float
    way: str
    others: float
    way_of_others: str
    gain: float
    interval: tuple[float, float]

    @classmethod
    def of(
        cls, column: str, known: tuple[str, ...], number: bool, way: str, hits: BoolArray, other: str,
        theirs: BoolArray,
    ) -> _Learnt:  # fmt: skip
        n = len(hits)
        g, b = float(hits.mean()), float(theirs.mean())
        if b >= 1.0:
            return cls(column, known, number, n, g, way, b, other, 0.0, (0.0, 0.0))
        gain = (g - b) / (1 - b)
        # 1 − gain is the ratio of two shares of misses over the same persons; the delta method.
        rest = (1.0 - hits) - (1 - gain) * (1.0 - theirs)
        half = _Z95 * float(rest.std()) / np.sqrt(n) / (1 - b)
        value = max(0.0, gain)
        ends = max(0.0, min(gain - half, value)), min(1.0, max(gain + half, value))
        return cls(column, known, number, n, g, way, b, other, value, ends)

    def row(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "gain": self.gain,
            "low": self.interval[0],
            "high": self.interval[1],
            "with_release": self.with_release,
            "way": self.way,
            "other_people": self.others,
            "way_of_others": self.way_of_others,
        }


@dataclass(frozen=True)
class _Target:
    """The column to learn: what is true of the persons, what the release has."""

    number: bool
    true: FloatArray
    released: FloatArray
    within: float

    @classmethod
    def of(cls, column: str, original: Microdata, masked: Microdata, percent: float) -> _Target:
        number = is_number(original, column) and is_number(masked, column)
        if number:
            return cls(True, original.numbers(column), masked.numbers(column), percent / 100)
        one, two, _ = joint_codes(original, masked, [column])
        released = np.where(masked.missing(column), np.nan, two.astype(np.float64))
        return cls(False, one.astype(np.float64), released, 0.0)

    def hits(self, people: IntArray, guess: FloatArray) -> BoolArray:
        """Whose value is near enough; a person without a guess isn't learnt of."""
        true = self.true[people]
        room = self.within * np.abs(true) * (1 + 1e-12)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(guess - true) <= room)

    def of_record(self, record: IntArray) -> FloatArray:
        return np.where(record >= 0, self.released[record], np.nan)

    def of_group(self, found: IntArray) -> FloatArray:
        """The median of a group's values, or its most frequent category."""
        held = np.where(found >= 0, self.released[found], np.nan)
        if self.number:
            empty = np.isnan(held).all(axis=1)
            held[empty] = 0.0
            return np.where(empty, np.nan, np.nanmedian(held, axis=1))
        return np.array([_mode(row) for row in held])

    def constant(self) -> float:
        """The value that is right for most of the release."""
        held = np.sort(self.released[~np.isnan(self.released)])
        if not len(held):
            return float("nan")
        if not self.number:
            return _mode(held)
        tries = np.unique(held[np.linspace(0, len(held) - 1, 200).astype(np.int64)])
        near = [float((np.abs(t - held) <= self.within * np.abs(held)).mean()) for t in tries]
        return float(tries[int(np.argmax(near))])

    def predicted(self, model: Regression, rows: IntArray | None, people: IntArray) -> FloatArray:
        """A regression on released records ``rows`` (None: all), for these persons."""
        rows = np.arange(len(self.released)) if rows is None else rows
        rows = rows[~np.isnan(self.released[rows])]
        if len(rows) < 2:
            return np.full(len(people), np.nan)
        predict: Callable[..., FloatArray] = model.number if self.number else model.category
        return predict(rows, self.released[rows], people)


def _mode(values: FloatArray) -> float:
    held = values[~np.isnan(values)]
    if not len(held):
        return float("nan")
    codes, counts = np.unique(held, return_counts=True)
    return float(codes[int(np.argmax(counts))])
