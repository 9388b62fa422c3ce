"""The log-linear population model of a table of keys: its fit, its risks, and how it is chosen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from sfumato.errors import MeasureError
from sfumato.stats.loglinear import DENSE, LogLinear, Term, maximal
from sfumato.stats.poisson import bias_terms, fit_poisson, grid_design, match_chance, unique_chance

FloatArray = npt.NDArray[np.float64]
Weighting: TypeAlias = Literal["none", "pml", "ce", "weighted"]

TOO_SIMPLE: Final = 2.0
"""B/√V is about a standard normal number under the right model: beyond this a model is too simple."""


class KeyTable(Protocol):
    """The combinations of keys that occur in a sample: codes (keys × combinations), counts, weights."""

    @property
    def codes(self) -> npt.NDArray[Any]: ...
    @property
    def counts(self) -> npt.NDArray[np.int64]: ...
    @property
    def weights(self) -> FloatArray | None: ...
    @property
    def sizes(self) -> npt.NDArray[np.int64]: ...


@dataclass(frozen=True)
class PopulationModel:
    """Risks of each cell, and the diagnostics of the model they come from."""

    terms: list[Term]
    unique: FloatArray
    """P(F = 1 | f = 1) of each cell."""
    match: FloatArray
    """E(1/F | f) of each cell."""
    bias_1: float
    bias_2: float
    sdcmicro_1: float
    sdcmicro_2: float
    deviation: float

    def figures(self, single: npt.NDArray[np.bool_]) -> tuple[float, float, float, float]:
        return (
            float(self.unique[single].sum()), float(self.match[single].sum()), self.bias_1, self.bias_2,
        )  # fmt: skip


def fit_population(
    table: KeyTable,
    people: float,
    interactions: str,
    terms: Sequence[Term],
    weighting: Weighting,
    scores: dict[int, FloatArray],
) -> tuple[PopulationModel, list[tuple[Any, ...]]]:
    """The model asked for, or the one that the diagnostics choose, with what was tried on the way."""
    keys = len(table.sizes)
    main: list[Term] = [(j,) for j in range(keys)]
    pairs: list[Term] = list(itertools.combinations(range(keys), 2))

    def fit(extra: Sequence[Term]) -> PopulationModel:
        return _fit(table, people, maximal([*main, *extra]), weighting, scores)

    if interactions != "choose":
        return fit(terms if interactions == "given" else pairs if interactions == "two_way" else []), []
    return _chosen(table, fit, _of_two(table, pairs))


def _chosen(
    table: KeyTable, fit: Callable[[Sequence[Term]], PopulationModel], pairs: dict[Term, float]
) -> tuple[PopulationModel, list[tuple[Any, ...]]]:
    """The number of interactions, the strongest first, whose bias B1 is nearest to nothing.

    A model that is too simple has B > 0, one that follows the sample too closely B < 0, and each
    interaction lowers it: the change of sign is found by halving. Where all pairs of keys are still too
    simple by more than chance, interactions of three are taken among them, each by its own strength.
    """
    found = _crossing(fit, _strongest(pairs), len(pairs))
    if found[max(found)].bias_1 > TOO_SIMPLE and len(table.sizes) > 2:
        more = _crossing(fit, _strongest({**pairs, **_of_three(table)}), 1)
        if min(abs(m.bias_1) for m in more.values()) < min(abs(m.bias_1) for m in found.values()):
            found = {0: found[0], **more}
    single = table.counts == 1
    best = min(found, key=lambda k: (abs(found[k].bias_1) if math.isfinite(found[k].bias_1) else 0.0, k))
    return found[best], [(k, *found[k].figures(single)) for k in sorted(found)]


def _crossing(
    fit: Callable[[Sequence[Term]], PopulationModel], order: list[Term], first: int
) -> dict[int, PopulationModel]:
    """Models of the first 0, ``first``, twice as many … interactions, and those between which B1 changes
    its sign, by how many they have."""
    tried: dict[int, PopulationModel] = {}

    def bias(number: int) -> float:
        if number not in tried:
            tried[number] = fit(order[:number])
        return tried[number].bias_1

    low, high = 0, min(first, len(order))
    if not bias(low) > 0 or not high:
        return tried
    try:
        while bias(high) > 0 and high < len(order):
            low, high = high, min(2 * high, len(order))
    except MeasureError:  # too large a table: what was fitted before it has to do
        return tried
    while high - low > 1 and bias(high) < 0:
        middle = (low + high) // 2
        low, high = (middle, high) if bias(middle) > 0 else (low, middle)
    return tried


def _strongest(terms: dict[Term, float]) -> list[Term]:
    return sorted(terms, key=lambda term: -terms[term])


def _of_two(table: KeyTable, pairs: Sequence[Term]) -> dict[Term, float]:
    """How much two keys depend on each other: G² per degree of freedom of their two-way table."""
    strength: dict[Term, float] = {}
    for a, b in pairs:
        shape = (int(table.sizes[a]), int(table.sizes[b]))
        at = table.codes[a].astype(np.int64) * shape[1] + table.codes[b]
        joint = np.bincount(at, weights=table.counts, minlength=shape[0] * shape[1]).reshape(shape)
        alone = np.outer(joint.sum(axis=1), joint.sum(axis=0)) / max(joint.sum(), 1.0)
        there = joint > 0
        g2 = 2 * float((joint[there] * np.log(joint[there] / alone[there])).sum())
        strength[(a, b)] = g2 / max((shape[0] - 1) * (shape[1] - 1), 1)
    return strength


def _of_three(table: KeyTable) -> dict[Term, float]:
    """How much three keys have to do with each other beyond their pairs: G² of no interaction of three,
    per degree of freedom. Tables with more places than records can fill are left out."""
    strength: dict[Term, float] = {}
    counts = table.counts.astype(np.float64)
    for chosen in itertools.combinations(range(len(table.sizes)), 3):
        sizes = [int(table.sizes[j]) for j in chosen]
        if math.prod(sizes) > min(DENSE, 10 * counts.sum()):
            continue
        codes = table.codes[list(chosen)].astype(np.int64)
        flat, place = np.unique(np.ravel_multi_index(tuple(codes), sizes), return_inverse=True)
        seen = np.bincount(place, weights=counts).astype(np.float64)
        codes = np.array(np.unravel_index(flat, sizes))
        fitted = LogLinear.fit(codes, seen, sizes, [(0, 1), (0, 2), (1, 2)]).at(codes)
        g2 = 2 * float((seen * np.log(seen / fitted)).sum())
        strength[chosen] = g2 / max(math.prod(s - 1 for s in sizes), 1)
    return strength


def _fit(
    table: KeyTable, people: float, terms: list[Term], weighting: Weighting, scores: dict[int, FloatArray]
) -> PopulationModel:
    counts = table.counts.astype(np.float64)
    sizes = [int(s) for s in table.sizes]
    overall = min(float(table.counts.sum()) / people, 1.0)
    own = np.full(len(counts), overall)
    weights = table.weights if table.weights is not None else counts / overall
    if weighting in ("pml", "ce"):
        own = np.minimum(counts / weights, 1.0)
    deviation = 0.0
    if weighting in ("ce", "weighted") or scores:
        mean, theirs, every = _by_regression(table, terms, weighting, scores, weights, overall)
    else:
        target = weights if weighting == "pml" else counts
        fit = LogLinear.fit(table.codes, target, sizes, terms)
        scale = 1.0 if weighting == "pml" else 1 / overall
        mean = fit.at(table.codes) * scale
        theirs = mean * overall
        levels, mass = fit.spectrum()
        every, deviation = (levels * scale, mass), fit.deviation
    bias = _biases(counts, mean, own, overall, every)
    single = table.counts == 1
    there = theirs[single] * (1 - own[single])
    with np.errstate(invalid="ignore", divide="ignore"):
        second = np.where(there > 0, -np.expm1(-there) / there, 1.0)
    return PopulationModel(
        terms,
        unique_chance(mean, own),
        match_chance(table.counts, mean, own),
        *bias,
        float(np.exp(-there).sum()) / len(counts),
        float(second.sum()) / len(counts),
        deviation,
    )


def _by_regression(
    table: KeyTable,
    terms: list[Term],
    weighting: Weighting,
    scores: dict[int, FloatArray],
    weights: FloatArray,
    overall: float,
) -> tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
    """λ of the cells, the expected sample counts in sdcMicro's reading, and λ of every combination."""
    sizes = [int(s) for s in table.sizes]
    grid, design = grid_design(sizes, terms, scores)
    places = np.ravel_multi_index(tuple(table.codes.astype(np.int64)), sizes)
    counts, held = np.zeros(grid.shape[1]), np.zeros(grid.shape[1])
    counts[places], held[places] = table.counts, weights
    if weighting == "ce":
        with np.errstate(invalid="ignore", divide="ignore"):
            inverse = np.where(held > 0, counts / held, overall)
        every = fit_poisson(design, counts, np.log(inverse)) / inverse
        # sdcMicro's offset: 0 for empty combinations, and 0.1 added to all.
        theirs = fit_poisson(design, counts, np.log(np.where(held > 0, inverse, 0.0) + 0.1))
    elif weighting == "weighted":
        theirs = fit_poisson(np.column_stack([design, held]), counts)
        every = theirs / overall
    elif weighting == "pml":
        every = fit_poisson(design, held)
        theirs = every * overall
    else:
        theirs = fit_poisson(design, counts)
        every = theirs / overall
    return every[places], theirs[places], (every, np.ones(len(every)))


def _biases(
    counts: FloatArray,
    mean: FloatArray,
    own: FloatArray,
    overall: float,
    every: tuple[FloatArray, FloatArray],
) -> tuple[float, float]:
    """B1/√V1 and B2/√V2 over all combinations: what an empty one adds for all, mended for the others."""
    if overall >= 1:
        return math.nan, math.nan
    levels, mass = every
    flat = np.full(len(levels), overall)
    empty = [float((mass * t).sum()) for t in bias_terms(np.zeros(len(levels)), levels, flat)]
    here = [float(t.sum()) for t in bias_terms(counts, mean, own)]
    same = np.full(len(counts), overall)
    away = [float(t.sum()) for t in bias_terms(np.zeros(len(counts)), mean, same)]
    total = [e + h - a for e, h, a in zip(empty, here, away, strict=True)]
    return (
        total[0] / math.sqrt(total[2]) if total[2] > 0 else math.nan,
        total[1] / math.sqrt(total[3]) if total[3] > 0 else math.nan,
    )
