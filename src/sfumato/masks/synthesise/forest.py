"""A tree for each column on the columns before it, and rows drawn from them one column after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import FloatArray, IntArray
from sfumato.draws import Draws
from sfumato.kernels.trees import BINS, fall, grow
from sfumato.masks.synthesise.parts import Codes, Part

NOBODY = -1
"""The code of a member who isn't there: the first of a household has no one before."""


@dataclass(frozen=True)
class Predictor:
    """A column of the record itself, or of another member of its household."""

    part: Part
    member: IntArray | None = None
    """For each record, the record that is looked at (−1: nobody); None for the record itself."""

    def of(self, codes: Codes, rows: IntArray) -> Codes:
        """The codes that these rows see, given the column's codes by record."""
        if self.member is None:
            return codes[rows]
        seen = self.member[rows]
        return np.where(seen < 0, NOBODY, codes[seen]).astype(np.int32)


@dataclass(frozen=True)
class Tree:
    """What :func:`~sfumato.kernels.trees.grow` gives, and the order of unordered predictors' levels."""

    nodes: tuple[Codes, Codes, Codes, Codes, Codes, Codes]
    predictors: tuple[Predictor, ...]
    places: tuple[Codes | None, ...]

    @property
    def sizes(self) -> Codes:
        """How many donors each leaf has."""
        feature, _, _, low, high, _ = self.nodes
        return np.asarray((high - low)[feature < 0])

    def constant_percent(self, response: Part) -> float:
        """How many percent of the records stand in leaves whose records all have one value."""
        feature, _, _, low, high, donors = self.nodes
        ends = np.flatnonzero(feature < 0)
        if not len(donors):
            return 0.0
        codes = response.codes[donors]
        # Donors stand in the order of their values: a leaf is constant if its ends are equal.
        same = codes[low[ends]] == codes[high[ends] - 1]
        return float(100 * (high - low)[ends][same].sum() / len(donors))

    def leaves(self, synthetic: dict[str, Codes], rows: IntArray, strata: Codes) -> Codes:
        """The leaf of each of these rows, by what has been drawn for them so far."""
        seen = np.empty((len(self.predictors), len(rows)), np.int32)
        for line, (predictor, place) in enumerate(zip(self.predictors, self.places, strict=True)):
            codes = predictor.of(synthetic[predictor.part.name], rows)
            seen[line] = codes if place is None else place[codes]
        feature, cut, below, *_ = self.nodes
        return fall(feature, cut, below, strata[rows], seen)


def fit(
    response: Part, predictors: Sequence[Predictor], strata: Codes, n_strata: int, mass: FloatArray, leaf: int
) -> Tree:
    """The tree of one column on the others, a root for each stratum."""
    n = len(strata)
    everybody = np.arange(n)
    codes = np.empty((len(predictors), n), np.int32)
    bins = np.empty((n, len(predictors)), np.uint8)
    tops = np.zeros((len(predictors), BINS), np.int32)
    places: list[Codes | None] = []
    for line, predictor in enumerate(predictors):
        seen = predictor.of(predictor.part.codes, everybody)
        place = None if predictor.part.ordered else level_order(seen, predictor.part.levels, response)
        codes[line] = seen if place is None else place[seen]
        bins[:, line], tops[line] = binned(codes[line])
        places.append(place)
    key = strata.astype(np.int64) * max(response.levels, 1) + response.codes
    rows = np.argsort(key, kind="stable").astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(strata, minlength=n_strata))]).astype(np.int64)
    nodes = grow(
        codes, bins, tops, rows, starts, np.ascontiguousarray(response.numbers), response.classes,
        response.n_classes, mass, leaf,
    )  # fmt: skip
    return Tree((*nodes, rows), tuple(predictors), tuple(places))


def binned(codes: Codes) -> tuple[npt.NDArray[np.uint8], Codes]:
    """Codes in at most 256 classes of about as many records each, and the largest code of each class."""
    low = int(codes.min(initial=0))
    count = np.bincount(codes - low)
    if len(count) <= BINS:
        to = np.arange(len(count))
    else:
        middle = np.cumsum(count) - (count + 1) // 2
        to = np.minimum(middle * BINS // max(len(codes), 1), BINS - 1)
    tops = np.zeros(BINS, np.int32)
    tops[to] = np.arange(len(count)) + low  # the last code of a class is written last
    return to.astype(np.uint8)[codes - low], tops


def level_order(seen: Codes, levels: int, response: Part) -> Codes:
    """The place of each level of an unordered predictor, so that levels with alike responses are near.

    For an amount, and for two classes, the levels stand in the order of their mean: the best cut into
    two groups of levels is then a cut of this order (Breiman et al., theorem 4.5). For more classes they
    stand along the first axis of the correspondence analysis of level by class (reciprocal averaging).
    The last place of all, which code −1 finds, is that of nobody.
    """
    there = seen >= 0
    level = seen[there].astype(np.int64)
    count = np.bincount(level, minlength=levels).astype(np.float64)
    count[count == 0] = 1.0
    if response.numbers.shape[1]:
        score = np.bincount(level, weights=response.numbers[there, -1], minlength=levels) / count
    else:
        score = _first_axis(level, levels, response.classes[there], response.n_classes)
    out = np.empty(levels + 1, np.int32)
    out[np.lexsort((np.arange(levels), score))] = np.arange(levels)
    out[-1] = levels
    return out


def _first_axis(level: IntArray, levels: int, classes: Codes, n_classes: int) -> FloatArray:
    pairs, counts = np.unique(level * n_classes + classes, return_counts=True)
    rows, columns, times = pairs // n_classes, pairs % n_classes, counts.astype(np.float64)
    by_level = np.maximum(np.bincount(rows, weights=times, minlength=levels), 1e-300)
    by_class = np.maximum(np.bincount(columns, weights=times, minlength=n_classes), 1e-300)
    score = np.modf(np.arange(n_classes) * 0.6180339887498949)[0]  # any start that isn't the constant
    out = np.zeros(levels)
    for _ in range(12):
        score = score - np.average(score, weights=by_class)
        size = float(np.abs(score).max(initial=0.0))
        if size < 1e-12:
            break
        score /= size
        out = np.bincount(rows, weights=times * score[columns], minlength=levels) / by_level
        score = np.bincount(columns, weights=times * out[rows], minlength=n_classes) / by_class
    return out


def chosen_donors(
    tree: Tree, leaves: Codes, rows: IntArray, draws: Draws, column: str, purpose: str, balanced: bool
) -> IntArray:
    """A donor from each row's leaf; ``balanced`` lets every donor of a leaf be drawn equally often.

    With m rows in a leaf of d donors, the rows in random order take the donors at the places
    (0, 1, …, m − 1 + u)·d/m with one u a leaf: systematic sampling, so that a donor is drawn m/d times,
    rounded up or down, and each row still gets each donor with probability 1/d.
    """
    _, _, _, low, high, donors = tree.nodes
    size = (high - low)[leaves].astype(np.float64)
    stream = draws.stream(column, purpose=purpose)
    n = int(rows.max(initial=-1)) + 1
    if balanced:
        word = stream.bits(0, n)[rows]
        order = np.lexsort((word, leaves))
        count = np.bincount(leaves, minlength=len(low))
        place = np.empty(len(rows), np.int64)
        place[order] = np.arange(len(rows)) - (np.cumsum(count) - count)[leaves[order]]
        offset = draws.stream(column, purpose=f"{purpose} offset").uniform(0, len(low))
        share = (place + offset[leaves]) / count[leaves]
    else:
        share = stream.uniform(0, n)[rows]
    at = low[leaves] + np.minimum((share * size).astype(np.int64), (size - 1).astype(np.int64))
    return np.asarray(donors[at], dtype=np.int64)


@dataclass
class Synthesis:
    """The state of a synthesis: for each column, whose value each row has. It starts as the original."""

    parts: dict[str, Part]
    trees: dict[str, Tree]
    strata: Codes
    turn: IntArray
    """When a row is drawn: the members of a household one after another."""
    donors: dict[str, IntArray] = field(default_factory=dict)
    synthetic: dict[str, Codes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, part in self.parts.items():
            self.donors.setdefault(name, np.arange(len(part.codes)))
            self.synthetic.setdefault(name, part.codes.copy())

    def draw(self, rows: IntArray, draws: Draws, purpose: str, *, balanced: bool) -> None:
        """Draw every column anew for these rows, each from the columns before it."""
        for turn in np.unique(self.turn[rows]):
            now = rows[self.turn[rows] == turn]
            for column, tree in self.trees.items():
                leaves = tree.leaves(self.synthetic, now, self.strata)
                word = f"{purpose}, turn {turn}"
                self.give(column, now, chosen_donors(tree, leaves, now, draws, column, word, balanced))

    def give(self, column: str, rows: IntArray, donors: IntArray) -> None:
        """Let these rows have these records' values."""
        self.donors[column][rows] = donors
        self.synthetic[column][rows] = self.parts[column].codes[donors]
