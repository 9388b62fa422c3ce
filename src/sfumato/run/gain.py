"""Attribute gain: what a release tells of a person's values beyond what it tells of people.

A part of the file is masked by the plan; persons inside and outside of that part are attacked by the same
rules: all else is known, the rows nearest to it are looked up, and their value is the guess. With g the share
guessed right inside and b outside, the gain of a column is (g − b) / (1 − b): 1 for a file as it was, 0 for
one that tells of people and of nobody in particular. A release is judged by its worst column
(:mod:`sfumato.stats.worst`): the mean over columns hides the one that is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.contract.held_back import split
from sfumato.contract.known import is_comparable, is_number
from sfumato.contract.mask import Mask
from sfumato.contract.own_list import by_steps
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.draws import Draws, Seed, as_seed
from sfumato.linkage.nearest import Intruder, Known, coded, unchanged
from sfumato.stats.worst import worst_of

NEAR: Final = 0.05
"""A guess is right within this distance in rank; of a category, where it is the same."""
WHOLE_COLUMNS: Final = 6
"""Of more columns, fewer persons are attacked in each, so that the cost stays."""
LEAST_PEOPLE: Final = 200
NEIGHBOURS: Final = 5
SPLITS: Final = 3
MOST_SPLITS: Final = 8
ENOUGH: Final = 6_000
"""Of a smaller file more splits are made, until so many records have been masked."""
_FEW: Final = 10  # persons whose value others don't tell, below whom a share of them says nothing

Again = Callable[[Microdata, Seed], Microdata]
"""Masks a part of the file by the same plan."""


@dataclass(frozen=True)
class ColumnGain:
    """What is told of one column: guessed inside, guessed outside, the gain and its standard error."""

    column: str
    inside: float
    outside: float
    gain: float
    error: float


@dataclass(frozen=True)
class Gain:
    """The gain of the worst column, and what it rests on."""

    value: float
    """The worst column's, without the luck of looking at several, or the pooled if that is more."""
    low: float
    high: float
    """The interval of the worst column's gain; those of all columns hold at once in 95 of 100 cases."""
    pooled: float
    """Of all columns' guesses together."""
    columns: tuple[ColumnGain, ...]
    """The most exposed first."""
    people: int

    @property
    def by_column(self) -> dict[str, float]:
        return {c.column: c.gain for c in self.columns}

    @property
    def worst(self) -> str:
        return self.columns[0].column if self.columns else ""


def attribute_gain(
    data: Microdata,
    again: Again,
    steps: Sequence[Mask] = (),
    *,
    drop: Sequence[str] = (),
    splits: int | None = None,
    people: int = 1_000,
    records: int = 20_000,
    numbers_known: int | None = None,
    seed: Seed | int | None = 0,
) -> Gain:
    """The gain by random splits of (at most ``records`` of) the file, ``people`` attacked on each side.

    ``again`` masks a part as the plan does. There are three splits, more of a small file. With
    ``numbers_known`` the intruder knows no more numbers than that.
    """
    secret = as_seed(seed).child("attribute gain")
    guesses: dict[str, list[tuple[_Guesses, _Guesses]]] = {}
    attacked = 0
    for number in range(splits or _splits(len(data))):
        draws = secret.draws(f"split {number}")
        inside, outside = split(data, draws, records, 2 / 3)
        masked = again(data.with_frame(data.frame[inside]), secret.child(f"split {number}"))
        a, b = (data.with_frame(data.frame[rows]) for rows in (inside, outside))
        known = _Attacked.of(a, b, (inside, outside), masked, steps, drop, numbers_known)
        each = people
        if len(known.targets) > WHOLE_COLUMNS:
            each = max(people * WHOLE_COLUMNS // len(known.targets), min(people, LEAST_PEOPLE))
        attacked = min(each, len(a), len(b))
        for column in known.targets:
            guesses.setdefault(column, []).append(known.guesses(column, each, draws))
    if not guesses:
        return Gain(0.0, 0.0, 0.0, 0.0, (), 0)
    return _judged(guesses, len(data), attacked)


def _splits(records: int) -> int:
    return min(max(SPLITS, -(-ENOUGH // max(records, 1))), MOST_SPLITS)


@dataclass(frozen=True)
class _Guesses:
    """Whether each way of guessing was right for each person."""

    persons: IntArray
    right: BoolArray
    """(ways, persons)"""


def _judged(guesses: dict[str, list[tuple[_Guesses, _Guesses]]], records: int, people: int) -> Gain:
    columns = [_column(name, sides, records) for name, sides in guesses.items()]
    worst = worst_of([c.gain for c in columns], [c.error for c in columns])
    # Each side by its best way over all columns.
    shares = [
        np.concatenate([s[side].right for sides in guesses.values() for s in sides], axis=1).mean(axis=1)
        for side in (0, 1)
    ]
    pooled = _ratio(float(shares[0].max()), float(shares[1].max()), people)
    first = columns[worst.at]
    rest = sorted((c for c in columns if c is not first), key=lambda c: -c.gain)
    return Gain(max(worst.value, pooled), worst.low, worst.high, pooled, (first, *rest), people)


def _column(name: str, sides: Sequence[tuple[_Guesses, _Guesses]], records: int) -> ColumnGain:
    """The gain of a column, each side by its best way, with its error over persons."""
    parts = []
    for side in (0, 1):
        persons = np.concatenate([s[side].persons for s in sides])
        right = np.concatenate([s[side].right for s in sides], axis=1)
        parts.append((persons, right[int(right.mean(axis=1).argmax())].astype(np.float64)))
    (who, hits), (others, theirs) = parts
    g, b = float(hits.mean()), float(theirs.mean())
    gain, rest = _ratio(g, b, len(others)), _rest(b, len(others))
    # The delta method; a person who is attacked in several splits is one person.
    pull = np.bincount(who, (hits - g) / len(who), minlength=records)
    pull -= np.bincount(others, (theirs - b) * (1 - gain) / len(others), minlength=records)
    # Shares of 0 and 1 are no more certain than one person in as many.
    error = float(np.sqrt(np.square(pull).sum() + 1 / len(who) ** 2 + 1 / len(others) ** 2)) / rest
    return ColumnGain(name, g, b, gain, error)


def _rest(outside: float, people: int) -> float:
    return max(1.0 - outside, min(1.0, _FEW / max(people, 1)))


def _ratio(inside: float, outside: float, people: int) -> float:
    return (inside - outside) / _rest(outside, people)


def gain_against(
    inside: Microdata,
    outside: Microdata,
    released: Microdata,
    *,
    paired: bool,
    people: int = 1_000,
    records: int = 20_000,
    numbers_known: int | None = None,
    seed: Seed | int | None = 0,
) -> Gain:
    """The gain of a release that is there already, against people who were never in it.

    Both lists are in the release's classes already. ``paired``: row i of the release is row i of those
    inside; else the intruder can't know which keys are as they were.
    """
    draws = as_seed(seed).child("attribute gain").draws("against")
    rows = np.sort(draws.stream(purpose="rows").permutation(len(released))[:records])
    seen = released.with_frame(released.frame[rows])
    mine = inside.with_frame(inside.frame[rows]) if paired else inside
    n, m = len(mine), len(outside)
    places = np.arange(n), n + np.arange(m)
    known = _Attacked.of(mine, outside, places, seen, (), (), numbers_known, paired=paired)
    guesses = {c: [known.guesses(c, people, draws)] for c in known.targets}
    return _judged(guesses, n + m, min(people, n, m)) if guesses else Gain(0.0, 0.0, 0.0, 0.0, (), 0)


@dataclass(frozen=True)
class _Attacked:
    """Both sides of a split and the release, in one coding."""

    sides: tuple[Known, Known]
    truths: tuple[Microdata, Microdata]
    """The sides as collected."""
    released: Known
    rows: tuple[IntArray, IntArray]
    """Which records of the file they are."""
    numbers: tuple[str, ...]
    keys: tuple[str, ...]
    known_keys: IntArray
    """Places of the keys that he knows: one in which nearly everybody has his own value is a name."""
    targets: tuple[str, ...]
    trusted: npt.NDArray[np.bool_]
    numbers_known: int | None

    @classmethod
    def of(
        cls,
        a: Microdata,
        b: Microdata,
        rows: tuple[IntArray, IntArray],
        masked: Microdata,
        steps: Sequence[Mask],
        drop: Sequence[str],
        numbers_known: int | None,
        *,
        paired: bool = True,
    ) -> _Attacked:
        own_a, own_b = by_steps(a, steps), by_steps(b, steps)
        schema = a.schema
        apart = {schema.id, schema.household, schema.weight, *drop}
        names = [c for c in masked.columns if c in own_b.columns and c not in apart]
        numbers = tuple(c for c in names if all(is_number(d, c) for d in (own_a, own_b, masked)))
        keys = tuple(c for c in names if c not in numbers and is_comparable(masked, c))
        shared = [j for j, c in enumerate(keys) if masked.column(c).n_unique() <= len(masked) // 2]
        if numbers_known is not None:
            # Those that tell the most come first; of the categories he has the keys.
            numbers = tuple(sorted(numbers, key=lambda c: -a.column(c).n_unique()))
            shared = [j for j in shared if keys[j] in (*schema.keys, *schema.geography)]
        known_a, known_b, released = coded((own_a, own_b, masked), numbers, keys)
        said = [c for c in schema.sensitive if c in numbers or c in keys]
        return cls(
            (known_a, known_b),
            (a, b),
            released,
            rows,
            numbers,
            keys,
            np.array(shared, np.int64),
            tuple(said or numbers or keys),
            unchanged(known_a, released) if paired else np.zeros(len(keys), np.bool_),
            numbers_known,
        )

    def guesses(self, column: str, people: int, draws: Draws) -> tuple[_Guesses, _Guesses]:
        """Who is guessed right inside and outside, by the nearest row and by five of them."""
        number = self.numbers.index(column) if column in self.numbers else None
        key = self.keys.index(column) if column in self.keys else None
        others = [j for j in range(len(self.numbers)) if j != number][: self.numbers_known]
        keep, named = np.array(others, np.int64), self.known_keys[self.known_keys != key]

        def hide(one: Known) -> Known:
            return Known(one.numbers[:, keep], one.keys[:, named])

        intruder = Intruder(hide(self.released), self.trusted[named], draws)
        out = []
        for which, side in enumerate(self.sides):
            order = draws.stream(column, purpose=f"people {which}").permutation(len(side))
            who = np.sort(order[:people])
            found, _ = intruder.find(hide(side.take(who)), "rank", min(NEIGHBOURS, len(self.released)))
            if number is not None:
                truth = self.truths[which].numbers(column)[who]
                right = _near(truth, self.released.numbers[:, number], found)
            else:
                assert key is not None
                right = _same(side.keys[who, key], self.released.keys[:, key], found)
            out.append(_Guesses(self.rows[which][who], right))
        return out[0], out[1]


def _near(truth: FloatArray, released: FloatArray, found: npt.NDArray[np.int32]) -> BoolArray:
    """Right within 5% of the release's ranks; a missing value only by a missing guess."""
    there = np.sort(released[~np.isnan(released)])

    def place(values: FloatArray) -> FloatArray:
        ends = np.searchsorted(there, values, "left") + np.searchsorted(there, values, "right")
        return np.where(np.isnan(values), -1.0, ends / 2 / max(len(there), 1))

    five = released[found]
    middle = np.median(np.nan_to_num(five, nan=-np.inf), axis=1)
    guesses = (released[found[:, 0]], np.where(np.isinf(middle), np.nan, middle))
    at = place(truth)
    return np.array([np.abs(place(g) - at) <= NEAR for g in guesses])


def _same(
    truth: npt.NDArray[np.int32], released: npt.NDArray[np.int32], found: npt.NDArray[np.int32]
) -> BoolArray:
    one = released[found[:, 0]]
    five = released[found]
    votes = (five[:, :, None] == five[:, None, :]).sum(axis=2)
    most = five[np.arange(len(five)), votes.argmax(axis=1)]
    return np.array([one == truth, most == truth])


def by_column_frame(gain: Gain) -> pl.DataFrame:
    """One row a column, the most exposed first."""
    return pl.DataFrame(
        {
            "column": [c.column for c in gain.columns],
            "gain": [c.gain for c in gain.columns],
            "error": [c.error for c in gain.columns],
            "inside": [c.inside for c in gain.columns],
            "outside": [c.outside for c in gain.columns],
        }
    )
