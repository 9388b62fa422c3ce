"""Attribute gain: what a release tells of a person's values beyond what it tells of people.

A part of the file is masked by the plan; persons inside and outside of that part are attacked by the same
rules: all else is known, the rows nearest to it are looked up, and their value is the guess. With g the share
guessed right inside and b outside, the gain is (g − b) / (1 − b): 1 for a file as it was, 0 for one that
tells of people and of nobody in particular.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.contract.known import is_number
from sfumato.contract.mask import Mask
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws, Seed, as_seed
from sfumato.errors import SfumatoError
from sfumato.linkage.nearest import Intruder, Known, coded, unchanged

NEAR: Final = 0.05
"""A guess is right within this distance in rank; of a category, where it is the same."""
MOST_COLUMNS: Final = 6
NEIGHBOURS: Final = 5

Again = Callable[[Microdata, Seed], Microdata]
"""Masks a part of the file by the same plan."""


@dataclass(frozen=True)
class Gain:
    """The gain over all sensitive columns, its standard error over splits, and each column's."""

    value: float
    error: float
    by_column: dict[str, float]
    inside: float
    outside: float
    people: int


def attribute_gain(
    data: Microdata,
    again: Again,
    steps: Sequence[Mask] = (),
    *,
    drop: Sequence[str] = (),
    splits: int = 3,
    people: int = 1_000,
    records: int = 20_000,
    numbers_known: int | None = None,
    seed: Seed | int | None = 0,
) -> Gain:
    """The gain by ``splits`` random splits of (at most ``records`` of) the file, ``people`` attacked on
    each side.

    ``again`` masks a part as the plan does. With ``numbers_known`` the intruder knows no more numbers than
    that.
    """
    secret = as_seed(seed).child("attribute gain")
    right: dict[str, list[FloatArray]] = {}
    attacked = 0
    for split in range(splits):
        draws = secret.draws(f"split {split}")
        inside, outside = _split(data, draws, records)
        masked = again(data.with_frame(data.frame[inside]), secret.child(f"split {split}"))
        a, b = (data.with_frame(data.frame[rows]) for rows in (inside, outside))
        known = _Attacked.of(a, b, masked, steps, drop, numbers_known)
        attacked = min(people, len(a), len(b))
        for column in known.targets:
            rates = known.rates(column, people, draws)
            right.setdefault(column, []).append(rates)
    if not right:
        return Gain(0.0, 0.0, {}, 0.0, 0.0, 0)
    # (columns, splits, inside/outside, ways of guessing): each side by its best way over all columns.
    table = np.array([np.array(r) for r in right.values()])
    pooled = table.mean(axis=(0, 1)).max(axis=1)
    each = [_ratio(*table[:, s].mean(axis=0).max(axis=1)) for s in range(splits)]
    columns = {c: _ratio(*np.array(r).mean(axis=0).max(axis=1)) for c, r in right.items()}
    error = float(np.std(each, ddof=1) / np.sqrt(splits)) if splits > 1 else float("nan")
    return Gain(_ratio(*pooled), error, columns, float(pooled[0]), float(pooled[1]), attacked)


def _ratio(inside: float, outside: float) -> float:
    return float((inside - outside) / max(1.0 - outside, 0.05))


def _split(data: Microdata, draws: Draws, records: int) -> tuple[IntArray, IntArray]:
    """Two thirds and one third of the file (of whole households), each in the file's order."""
    n = len(data)
    household = data.schema.household
    unit = np.arange(n) if household is None else data.households(household)[0]
    units = int(unit.max(initial=-1)) + 1
    order = draws.stream(purpose="split").permutation(units)
    share = min(1.0, records / max(n, 1))
    used = max(int(units * share), min(units, 3))
    side = np.full(units, 2)
    side[order[:used]] = 1
    side[order[: 2 * used // 3]] = 0
    return np.flatnonzero(side[unit] == 0), np.flatnonzero(side[unit] == 1)


def _own(data: Microdata, steps: Sequence[Mask]) -> Microdata:
    """A side as the steps recode it: by the steps alone, so that both sides are treated alike."""
    for step in steps:
        try:
            data = step.own_list(data)
        except SfumatoError:
            continue  # a value that the step left to another
    return data


@dataclass(frozen=True)
class _Attacked:
    """Both sides of a split and the release, in one coding."""

    sides: tuple[Known, Known]
    truths: tuple[Microdata, Microdata]
    """The sides as collected."""
    released: Known
    numbers: tuple[str, ...]
    keys: tuple[str, ...]
    targets: tuple[str, ...]
    trusted: npt.NDArray[np.bool_]
    numbers_known: int | None

    @classmethod
    def of(
        cls,
        a: Microdata,
        b: Microdata,
        masked: Microdata,
        steps: Sequence[Mask],
        drop: Sequence[str],
        numbers_known: int | None,
    ) -> _Attacked:
        own_a, own_b = _own(a, steps), _own(b, steps)
        schema = a.schema
        apart = {schema.id, schema.household, schema.weight, *drop}
        names = [c for c in masked.columns if c in own_b.columns and c not in apart]
        numbers = tuple(c for c in names if all(is_number(d, c) for d in (own_a, own_b, masked)))
        keys = tuple(c for c in names if c not in numbers and masked.column(c).n_unique() <= len(masked) // 2)
        known_a, known_b, released = coded((own_a, own_b, masked), numbers, keys)
        said = [c for c in schema.sensitive if c in numbers or c in keys]
        targets = said or list(numbers)
        step = max(1, -(-len(targets) // MOST_COLUMNS))
        return cls(
            (known_a, known_b),
            (a, b),
            released,
            numbers,
            keys,
            tuple(targets[::step]),
            unchanged(known_a, released),
            numbers_known,
        )

    def rates(self, column: str, people: int, draws: Draws) -> FloatArray:
        """The shares guessed right inside and outside, by the nearest row and by five of them."""
        number = self.numbers.index(column) if column in self.numbers else None
        key = self.keys.index(column) if column in self.keys else None
        told = range(len(self.numbers))
        if self.numbers_known is not None:
            others = [j for j in told if j != number][: self.numbers_known]
        else:
            others = [j for j in told if j != number]
        keep = np.array(others, np.int64)

        def hide(one: Known) -> Known:
            return Known(one.numbers[:, keep], one.keys if key is None else np.delete(one.keys, key, 1))

        trusted = self.trusted if key is None else np.delete(self.trusted, key)
        intruder = Intruder(hide(self.released), trusted, draws)
        out = []
        for which, side in enumerate(self.sides):
            order = draws.stream(column, purpose=f"people {which}").permutation(len(side))
            who = np.sort(order[:people])
            found, _ = intruder.find(hide(side.take(who)), "rank", min(NEIGHBOURS, len(self.released)))
            if number is not None:
                truth = self.truths[which].numbers(column)[who]
                out.append(_near(truth, self.released.numbers[:, number], found))
            else:
                assert key is not None
                out.append(_same(side.keys[who, key], self.released.keys[:, key], found))
        return np.array(out)


def _near(truth: FloatArray, released: FloatArray, found: npt.NDArray[np.int32]) -> FloatArray:
    """Right within 5% of the release's ranks; a missing value only by a missing guess."""
    there = np.sort(released[~np.isnan(released)])

    def place(values: FloatArray) -> FloatArray:
        ends = np.searchsorted(there, values, "left") + np.searchsorted(there, values, "right")
        return np.where(np.isnan(values), -1.0, ends / 2 / max(len(there), 1))

    five = released[found]
    middle = np.median(np.nan_to_num(five, nan=-np.inf), axis=1)
    guesses = (released[found[:, 0]], np.where(np.isinf(middle), np.nan, middle))
    at = place(truth)
    return np.array([(np.abs(place(g) - at) <= NEAR).mean() for g in guesses])


def _same(
    truth: npt.NDArray[np.int32], released: npt.NDArray[np.int32], found: npt.NDArray[np.int32]
) -> FloatArray:
    one = released[found[:, 0]]
    five = released[found]
    votes = (five[:, :, None] == five[:, None, :]).sum(axis=2)
    most = five[np.arange(len(five)), votes.argmax(axis=1)]
    return np.array([(one == truth).mean(), (most == truth).mean()])


def by_column_frame(gain: Gain) -> pl.DataFrame:
    """One row a column, the most exposed first."""
    rows = sorted(gain.by_column.items(), key=lambda item: -item[1])
    return pl.DataFrame({"column": [c for c, _ in rows], "gain": [g for _, g in rows]})
