"""What an intruder makes of a release who wants one value of a person: guesses, and who is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sfumato.contract.known import is_number
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata

_Z95 = 1.959963984540054
_MOST_FELLOWS = 60

Hits = dict[str, BoolArray]
"""For each way of guessing, whose value it had right."""


class Model(Protocol):
    """Predicts a column of the left file's people from the right file's records."""

    def number(self, rows: IntArray, values: FloatArray, people: IntArray) -> FloatArray: ...

    def category(self, rows: IntArray, values: FloatArray, people: IntArray) -> FloatArray: ...


@dataclass(frozen=True)
class Fellows:
    """Released records that the mask made equal on these columns: each record's group, and their number."""

    of: IntArray
    number: int
    most: int

    @classmethod
    def of_groups(cls, groups: IntArray) -> Fellows:
        dense = np.unique(groups, return_inverse=True)[1]
        sizes = np.bincount(dense)
        return cls(dense, len(sizes), int(min(sizes.max(), _MOST_FELLOWS)))

    @classmethod
    def made(cls, original: Microdata, masked: Microdata, columns: Sequence[str], truth: IntArray) -> Fellows:
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
class Learnt:
    """What was learnt of one column."""

    column: str
    known: tuple[str, ...]
    number: bool
    persons: int
    with_release: float
    way: str
    others: float
    way_of_others: str
    control: str
    gain: float
    interval: tuple[float, float]

    @classmethod
    def of(
        cls, column: str, known: tuple[str, ...], number: bool, ways: Hits, others: Hits, control: str,
        *, same_people: bool,
    ) -> Learnt:  # fmt: skip
        """By the best way with the release, and the best way of the control (the same persons, or others)."""
        way, other = (max(d, key=lambda w: float(d[w].mean())) for d in (ways, others))
        hits, theirs = ways[way], others[other]
        n, g, b = len(hits), float(hits.mean()), float(theirs.mean())
        if b >= 1.0:
            return cls(column, known, number, n, g, way, b, other, control, 0.0, (0.0, 0.0))
        gain = (g - b) / (1 - b)
        # 1 − gain is the ratio of two shares of misses; the delta method.
        missed, miss = 1.0 - hits, (1 - gain) * (1.0 - theirs)
        if same_people:
            variance = float(np.var(missed - miss)) / n
        else:
            variance = float(np.var(missed)) / n + float(np.var(miss)) / len(theirs)
        half = _Z95 * float(np.sqrt(variance)) / (1 - b)
        value = max(0.0, gain)
        ends = max(0.0, min(gain - half, value)), min(1.0, max(gain + half, value))
        return cls(column, known, number, n, g, way, b, other, control, value, ends)

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
            "control": self.control,
        }


@dataclass(frozen=True)
class Target:
    """The column to learn: what is true of the persons, what the release has."""

    number: bool
    true: FloatArray
    released: FloatArray
    within: float

    @classmethod
    def of(cls, column: str, original: Microdata, masked: Microdata, percent: float) -> Target:
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

    def predicted(self, model: Model, rows: IntArray | None, people: IntArray) -> FloatArray:
        """A model of released records ``rows`` (None: all), for these persons."""
        rows = np.arange(len(self.released)) if rows is None else rows
        rows = rows[~np.isnan(self.released[rows])]
        if len(rows) < 2:
            return np.full(len(people), np.nan)
        predict = model.number if self.number else model.category
        return predict(rows, self.released[rows], people)


def _mode(values: FloatArray) -> float:
    held = values[~np.isnan(values)]
    if not len(held):
        return float("nan")
    codes, counts = np.unique(held, return_counts=True)
    return float(codes[int(np.argmax(counts))])
