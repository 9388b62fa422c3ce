"""Learn from the release how often a mask left each value alone, and how far it moved the others.

For a person with value a, the released value b of the same person is a with probability m, and else
another one: P(b | a) = m·[a = b] + (1 − m)·g(b | a), g the law of a random record for a category and, for
a number, one that depends on how far apart in rank a and b are. A pair's weight is the sum over columns of

    ln P(b | a) / P(b) = ln(m / f_a + 1 − m) where a = b (f_a: the share of a in the release), ln(1 − m) else,

and for numbers that differ the log ratio t(|rank a − rank b|) as well. Agreeing on a rare value says more;
disagreeing on a key that the mask touched rarely says much, on one that it touched often little.

Many masks leave zeros, missing values and codes alone and move all others. With ``kinds`` what kind a value
is (missing, zero, top- or bottom-coded, any other) is compared by itself, with an m of its own; the values
only where both are of the other kind.

EM over the persons: each has one of the released records, any of them before they are compared; m and t are
the expected shares over all of them (Winkler 1988 with one match a record; the frequencies are Fellegi and
Sunter's 1969).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.contract.known import is_number
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.linkage.blocks import Blocks
from sfumato.linkage.fields import TABLE, Fields, flag_fields, table_fields
from sfumato.linkage.laws import NO_LAWS, Laws
from sfumato.linkage.points import rank_shares

BINS = 200
_ROUNDS = 40
_SHORT = 6
_LEARNERS = 600  # persons from whom the law is learnt
_PAIRS = 3_000_000  # or as many as make so many pairs
_RANDOM_PAIRS = 100_000
_PSEUDO = 2.0
_EDGE = 1e-4
_STAYS = 1e-3  # a gain in mean log-likelihood that isn't worth another round
_STARTS = (0.9, 0.4)


@dataclass(frozen=True)
class Learnt:
    """The fields with the weights that were learnt, the keep probabilities, and how well they fit."""

    fields: Fields
    keep: dict[str, float]
    log_likelihood: float
    rounds: int


def learn(
    original: Microdata,
    masked: Microdata,
    known: Sequence[str],
    blocks: Blocks,
    draws: Draws,
    keep: Mapping[str, float],
    *,
    moves: bool = True,
    kinds: bool = False,
    laws: Laws = NO_LAWS,
) -> Learnt:
    """The weights of all pairs; ``keep`` has the probabilities that are known and needn't be learnt.

    Without ``moves`` a number agrees or doesn't, like a category, however far it went. ``laws`` are fields
    whose weights are known (``linkage.laws``); nothing more is learnt of their columns' displacements.
    """
    shown = kinds_of(original, masked, known) if kinds else {}
    fields, equal_of, shares = _fields(original, masked, known, moves, shown, laws.columns)
    learnt = len(fields)
    if laws.fields is not None:
        fields = fields.and_also(laws.fields)
        equal_of = np.concatenate([equal_of, np.full(len(laws.fields), -1, dtype=np.int64)])
    left_sizes, _ = blocks.sizes
    low = np.repeat(blocks.right_starts[:-1], left_sizes)
    high = np.repeat(blocks.right_starts[1:], left_sizes)
    lesson = _Lesson(
        fields.take(blocks.left, blocks.right),
        equal_of,
        shares[:, blocks.left],
        _some(low, high, draws),
        low,
        high,
        _random_moves(fields, learnt, draws),
        learnt,
    )
    # Short runs from every start tell which is worth finishing.
    tried = [lesson.fit(keep, lesson.start(keep, m), _SHORT) for m in _STARTS]
    best = lesson.fit(keep, max(tried, key=lambda law: law.log_likelihood), _ROUNDS)
    names = fields.names[: len(known)]
    kept = {c: float(m) for c, m in zip(names, best.m[: len(known)], strict=True)}
    return Learnt(_weighted(fields, shares, best.m, best.tables), kept, best.log_likelihood, best.rounds)


def kinds_of(
    original: Microdata, masked: Microdata, known: Sequence[str]
) -> dict[str, tuple[IntArray, IntArray]]:
    """By column: of what kind each known and each released value is, where there are several."""
    out = {}
    for column in known:
        one, two = _kind(original, column), _kind(masked, column)
        if len(np.unique(one)) > 1 and (one == 0).any() and (two == 0).any():
            out[column] = (one, two)
    return out


def _kind(data: Microdata, column: str) -> IntArray:
    """1 missing, 2 zero, 3 top-coded, 4 bottom-coded, 0 any other."""
    kind = np.zeros(len(data), np.int64)
    if is_number(data, column):
        if data.is_numeric(column):
            kind[data.top_coded(column)] = 3
            kind[data.bottom_coded(column)] = 4
            kind[data.numbers(column) == 0] = 2
        kind[data.missing(column)] = 1
    return kind


@dataclass(frozen=True)
class _Law:
    m: FloatArray
    tables: FloatArray
    log_likelihood: float
    rounds: int


@dataclass(frozen=True)
class _Lesson:
    """The pairs to learn from, by block: the equalities come first among the fields."""

    fields: Fields
    equal_of: IntArray
    shares: FloatArray
    rows: IntArray
    low: IntArray
    high: IntArray
    random: FloatArray
    learnt: int
    """How many of the fields have weights to learn; those of the others are known."""

    def start(self, given: Mapping[str, float], m: float) -> _Law:
        """Where EM starts: every value that isn't known to stay does so with probability m."""
        equals = len(self.shares)
        kept = [given.get(c, m) for c in self.fields.names[:equals]]
        tables = self.fields.tables.copy()
        for field in range(equals, self.learnt):  # none where there are categories alone
            tables[field] = _first_table(self.random[field])
        return _Law(np.clip(kept, _EDGE, 1 - _EDGE), tables, -np.inf, 0)

    def fit(self, given: Mapping[str, float], law: _Law, rounds: int) -> _Law:
        """Rounds of EM from a law, until the likelihood stays."""
        from sfumato.kernels.linkage_learn import expected_agreement

        size, equals = len(self.fields), len(self.shares)
        fixed = np.array([c in given for c in self.fields.names[:equals]])
        m, tables, score, done = law.m, law.tables.copy(), -np.inf, 0
        for done in range(1, rounds + 1):
            fields = _weighted(self.fields, self.shares, m, tables)
            agreed, seen, moved = np.zeros(size), np.zeros(size), np.zeros(tables.shape)
            before = score
            score = float(
                expected_agreement(
                    self.rows, self.low, self.high, fields.arrays(), self.equal_of, agreed, seen, moved
                )
            )
            if score - before < _STAYS or done == rounds:
                break
            share = (agreed[:equals] + 0.5) / (seen[:equals] + 1.0)
            m = np.where(fixed, m, np.clip(share, _EDGE, 1 - _EDGE))
            for field in range(equals, self.learnt):
                tables[field] = _table(moved[field], self.random[field])
        return _Law(m, tables, score, law.rounds + done)


def _fields(
    original: Microdata,
    masked: Microdata,
    known: Sequence[str],
    moves: bool,
    kinds: Mapping[str, tuple[IntArray, IntArray]],
    lawful: Collection[str],
) -> tuple[Fields, IntArray, FloatArray]:
    """Equality of every column, of the kinds of its values, then displacement of every number; the equality
    that a displacement goes with; and the share of the release that has each person's value, by equality."""
    shares = np.zeros((len(known) + len(kinds), len(original)))
    lefts, rights, here, there = [], [], [], []
    for j, column in enumerate(known):
        one, two, size = joint_codes(original, masked, [column])
        gone, lost = original.missing(column), masked.missing(column)
        # Where the release has more blanks than the original, blanks were made: they say nothing.
        blanked = bool(lost.sum() > gone.sum())
        count = np.bincount(two[~lost] if blanked else two, minlength=size)
        shares[j] = count[one] / max(count.sum(), 1)
        lefts.append(one)
        rights.append(two)
        here.append(np.ones(len(one), dtype=np.bool_))
        there.append(~lost if blanked else np.ones(len(two), dtype=np.bool_))
        if column in kinds:
            here[j], there[j] = kinds[column][0] == 0, kinds[column][1] == 0
            shares[j] = np.bincount(two[there[j]], minlength=size)[one] / there[j].sum()
    for j, (column, (before, after)) in enumerate(kinds.items(), start=len(known)):
        told = (
            ~masked.missing(column)
            if masked.missing(column).sum() > original.missing(column).sum()
            else (np.ones(len(after), dtype=np.bool_))
        )
        shares[j] = np.bincount(after[told], minlength=5)[before] / max(told.sum(), 1)
        lefts.append(before)
        rights.append(after)
        here.append(np.ones(len(before), dtype=np.bool_))
        there.append(told)
    names = [*known, *(f"{c}, its kind" for c in kinds)]
    fields = flag_fields(names, np.column_stack(lefts), np.column_stack(rights), np.zeros(len(names)))
    fields = replace(
        fields,
        left_present=np.ascontiguousarray(np.stack(here), dtype=np.float64),
        right_present=np.ascontiguousarray(np.stack(there), dtype=np.float64),
    )
    equal_of = np.full(len(names), -1, dtype=np.int64)
    numbers = [c for c in known if is_number(original, c) and is_number(masked, c) and c not in lawful]
    if numbers and moves:
        values = [original.matrix(numbers), masked.matrix(numbers)]
        for j, column in enumerate(numbers):
            if column in kinds:
                for side, kind in zip(values, kinds[column], strict=True):
                    side[kind != 0, j] = np.nan
        left, right = rank_shares(values[0]), rank_shares(values[1])
        scale = np.full(len(numbers), float(BINS))
        moved = table_fields(
            [f"{c} moved" for c in numbers], left, right, scale, np.zeros((len(numbers), BINS))
        )
        fields = fields.and_also(moved)
        equal_of = np.concatenate([equal_of, [list(known).index(c) for c in numbers]])
    return fields, equal_of, shares


def _some(low: IntArray, high: IntArray, draws: Draws) -> IntArray:
    """Persons to learn from: enough of them, and not too many pairs."""
    order = draws.stream(purpose="learners").permutation(len(low))
    pairs = np.cumsum((high - low)[order])
    return np.sort(order[: max(1, min(_LEARNERS, int(np.searchsorted(pairs, _PAIRS)) + 1))])


def _random_moves(fields: Fields, learnt: int, draws: Draws) -> FloatArray:
    """How often ranks are so far apart between random records, by field."""
    out = np.ones((len(fields), fields.tables.shape[1]))
    for j in np.flatnonzero(fields.kinds[:learnt] == TABLE):
        sides: list[FloatArray] = []
        for values, present in ((fields.left, fields.left_present), (fields.right, fields.right_present)):
            here = values[j] if present.shape[1] == 1 else values[j][present[j] > 0]
            pick = draws.stream(fields.names[j], purpose=f"random {len(sides)}").uniform(0, _RANDOM_PAIRS)
            sides.append(here[(pick * len(here)).astype(np.int64)] if len(here) else np.zeros(_RANDOM_PAIRS))
        cell = np.minimum((np.abs(sides[0] - sides[1]) * BINS).astype(np.int64), BINS - 1)
        out[j] += np.bincount(cell, minlength=BINS)
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def _first_table(random: FloatArray) -> FloatArray:
    """A law that falls off over a tenth of the ranks."""
    law = np.exp(-np.arange(len(random)) / (0.1 * len(random))) + 1e-3
    return np.asarray(np.log(law / law.sum() / random))


def _table(moved: FloatArray, random: FloatArray) -> FloatArray:
    """The log ratio of expected and random displacements, never rising with the distance.

    A few pseudo-counts of random pairs: the fewer moves were seen, the less is claimed.
    """
    ratio = (moved + _PSEUDO * random) / (float(moved.sum()) + _PSEUDO) / random
    return np.asarray(np.log(np.maximum(falling(ratio, random), 1e-6)))


def falling(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The nearest sequence, by weighted squares, that never rises (pool adjacent violators).

    >>> falling(np.array([1.0, 3.0, 0.0]), np.ones(3)).tolist()
    [2.0, 2.0, 0.0]
    """
    level: list[float] = []
    mass: list[float] = []
    size: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        level.append(value)
        mass.append(weight)
        size.append(1)
        while len(level) > 1 and level[-2] < level[-1]:
            both = mass[-2] + mass[-1]
            level[-2] = (level[-2] * mass[-2] + level[-1] * mass[-1]) / both
            mass[-2], size[-2] = both, size[-2] + size[-1]
            del level[-1], mass[-1], size[-1]
    return np.repeat(level, size)


def _weighted(fields: Fields, shares: FloatArray, m: FloatArray, tables: FloatArray) -> Fields:
    """The fields with the weights of these laws."""
    equals = len(shares)
    agree = np.tile(fields.agree, (1, fields.left_records // fields.agree.shape[1]))
    disagree = fields.disagree.copy()
    agree[:equals] = np.log(m[:, None] / np.maximum(shares, 1e-12) + 1 - m[:, None])
    disagree[:equals] = np.log1p(-m)
    return replace(fields, agree=agree, disagree=disagree, tables=tables)
