"""Log-linear models of a table of keys, fitted on its margins: expected counts of every combination.

A model is a list of terms (sets of keys); its fit has the table's own margin on each term. Keys that no
term joins are independent, so the table falls into components that are fitted apart, and a model of main
effects needs no table at all. A small component is fitted by iterative proportional fitting on its whole
cross product. In a large one the two largest keys a and b never meet but in a matrix product: with C the
combinations of the other keys, μ(a, b, c) = φ(a, b) · A(a, c) · B(b, c), and every margin comes from

    Σ_b μ = A ∘ (φ B),    Σ_a μ = B ∘ (φᵀ A),    Σ_c μ = φ ∘ (A Bᵀ),

so that 10⁹ combinations are fitted in the memory of (|a| + |b|) · |C| numbers. Empty combinations enter
through these margins only.

Reference: Darroch, J. N., Ratcliff, D. (1972). Generalized iterative scaling for log-linear models.
Annals of Mathematical Statistics 43, 1470-1480; Bishop, Y., Fienberg, S., Holland, P. (1975). Discrete
Multivariate Analysis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from sfumato.errors import MeasureError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Term = tuple[int, ...]

DENSE: Final = 1 << 20
"""A component of at most this many combinations is fitted on its whole cross product."""
ROOM: Final = 60_000_000
"""At most this many numbers are held for a component that isn't."""
LARGEST: Final = 8_000_000_000
"""With more combinations than this, a margin takes minutes."""
SWEEPS: Final = 200
STEP: Final = 1 / 256
_LOW, _HIGH = -40.0, 24.0


@dataclass(frozen=True)
class LogLinear:
    """Expected counts of every combination under a log-linear model.

    >>> import numpy as np
    >>> cells = np.array([[0, 0, 1], [0, 1, 1]])
    >>> fit = LogLinear.fit(cells, np.array([2.0, 1.0, 1.0]), (2, 2), [(0,), (1,)])
    >>> fit.at(cells).tolist()
    [1.5, 1.5, 0.5]
    """

    total: float
    parts: tuple[Component, ...]

    @classmethod
    def fit(
        cls, codes: npt.NDArray[np.integer], counts: FloatArray, sizes: Sequence[int], terms: Sequence[Term]
    ) -> LogLinear:
        """``codes`` is keys × combinations that occur, ``counts`` their numbers (or weights)."""
        total = float(counts.sum())
        keys = range(len(sizes))
        terms = maximal([*terms, *((j,) for j in keys)])
        parts = []
        for inside in components(len(sizes), terms):
            own = [tuple(inside.index(j) for j in t) for t in terms if t[0] in inside]
            parts.append(
                _component(codes[list(inside)], counts, [int(sizes[j]) for j in inside], own, inside)
            )
        return cls(total, tuple(parts))

    def at(self, codes: npt.NDArray[np.integer]) -> FloatArray:
        """The expected counts of some combinations (keys × combinations)."""
        out = np.full(codes.shape[1], max(self.total, 0.0))
        for part in self.parts:
            out *= part.at(codes[list(part.keys)]) / (self.total or 1.0)
        return out

    @property
    def deviation(self) -> float:
        """The largest difference between a margin of the fit and of the table."""
        return max((p.deviation for p in self.parts), default=0.0)

    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Expected counts μ, and how many combinations of the whole cross product have about that.

        The logarithms of the components' counts are laid on a grid (each split between its two
        neighbours) and convolved: a sum of a smooth function over any number of combinations costs
        no more than over the grid, within 10⁻⁵ of itself. Combinations that the model gives nothing
        aren't in it.
        """
        if self.total <= 0:
            return np.zeros(0), np.zeros(0)
        low, mass = 0.0, np.ones(1)
        for part in self.parts:
            start, counts = part.spectrum(self.total)
            low, mass = low + start, _convolved(mass, counts)
        grid = low + STEP * np.arange(len(mass)) + math.log(self.total)
        kept = mass > 0
        return np.exp(grid[kept]), mass[kept]


@dataclass(frozen=True)
class Component:
    """Keys that the model joins, and their fitted table as φ(a, b) · A(a, c) · B(b, c)."""

    keys: tuple[int, ...]
    sizes: tuple[int, ...]
    first: int
    second: int
    phi: FloatArray
    one: FloatArray
    two: FloatArray
    deviation: float

    @property
    def rest(self) -> tuple[int, ...]:
        return tuple(j for j in range(len(self.sizes)) if j not in (self.first, self.second))

    def at(self, codes: npt.NDArray[np.integer]) -> FloatArray:
        c = np.zeros(codes.shape[1], np.int64)
        for j in self.rest:
            c = c * self.sizes[j] + codes[j]
        a = codes[self.first].astype(np.int64)
        b = codes[self.second].astype(np.int64) if self.second >= 0 else np.zeros_like(a)
        return np.asarray(self.phi[a, b] * self.one[a, c] * self.two[b, c])

    def spectrum(self, total: float) -> tuple[float, FloatArray]:
        """Counts of the logarithms of μ / total on a grid that starts at the first number returned."""
        from sfumato.kernels.loglinear import log_histogram

        with np.errstate(divide="ignore"):
            phi, one, two = np.log(self.phi / total), np.log(self.one), np.log(self.two)
        bins = int((_HIGH - _LOW) / STEP) + 2
        return _LOW, log_histogram(
            phi, np.ascontiguousarray(one.T), np.ascontiguousarray(two.T), _LOW, STEP, bins
        )


def maximal(terms: Sequence[Term]) -> list[Term]:
    """The terms that no other contains, each in order: they imply the others."""
    unique = {tuple(sorted(set(t))) for t in terms}
    return sorted(t for t in unique if not any(set(t) < set(o) for o in unique))


def components(keys: int, terms: Sequence[Term]) -> list[tuple[int, ...]]:
    """The sets of keys that terms join, directly or through others."""
    home = list(range(keys))
    for term in terms:
        joined = {home[j] for j in term}
        home = [min(joined) if h in joined else h for h in home]
    return [tuple(j for j in range(keys) if home[j] == h) for h in sorted(set(home))]


@dataclass
class _Margins:
    """The table's own margins on each term."""

    target: dict[Term, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, codes: npt.NDArray[np.integer], counts: FloatArray, sizes: Sequence[int], terms: Sequence[Term]
    ) -> _Margins:
        out = cls()
        for term in terms:
            at = np.zeros(codes.shape[1], np.int64)
            for j in term:
                at = at * sizes[j] + codes[j]
            shape = [sizes[j] for j in term]
            flat = np.bincount(at, weights=counts, minlength=math.prod(shape))
            out.target[term] = flat.reshape(shape).astype(np.float64)
        return out

    def ratio(self, term: Term, margin: FloatArray) -> tuple[FloatArray, float]:
        """What the fit must be multiplied with, and by how much it was off."""
        target = self.target[term]
        off = float(np.abs(target - margin).max(initial=0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(margin > 0, target / margin, 0.0), off


def _component(
    codes: npt.NDArray[np.integer],
    counts: FloatArray,
    sizes: Sequence[int],
    terms: Sequence[Term],
    keys: tuple[int, ...],
) -> Component:
    shape = tuple(sizes)
    if len(sizes) > 1 and max(math.prod(sizes[j] for j in t) for t in terms) > ROOM:
        raise _too_large(shape)
    margins = _Margins.of(codes, counts, sizes, terms)
    if len(sizes) == 1:
        ones = np.ones((1, 1))
        return Component(
            keys, shape, 0, -1, margins.target[(0,)][:, None].copy(), np.ones((sizes[0], 1)), ones, 0.0
        )
    if len(terms) == 1:  # the full table: it fits itself
        fitted, off = margins.target[terms[0]], 0.0
        return _from_table(fitted, keys, shape, off)
    if math.prod(sizes) <= DENSE:
        fitted, off = _fit_table(margins, shape, terms)
        return _from_table(fitted, keys, shape, off)
    return _fit_factors(margins, keys, shape, terms)


def _from_table(fitted: FloatArray, keys: tuple[int, ...], shape: tuple[int, ...], off: float) -> Component:
    """A table as factors: the first key against all others."""
    flat = np.ascontiguousarray(fitted.reshape(shape[0], -1))
    return Component(keys, shape, 0, -1, np.ones((shape[0], 1)), flat, np.ones((1, flat.shape[1])), off)


def _axes(term: Term, keys: Sequence[int]) -> tuple[int, ...]:
    return tuple(i for i, j in enumerate(keys) if j not in term)


def _fit_table(margins: _Margins, shape: tuple[int, ...], terms: Sequence[Term]) -> tuple[FloatArray, float]:
    total = float(next(iter(margins.target.values())).sum())
    fitted = np.full(shape, total / math.prod(shape))
    keys = range(len(shape))
    off = math.inf
    for _ in range(SWEEPS):
        off = 0.0
        for term in terms:
            ratio, one = margins.ratio(term, fitted.sum(axis=_axes(term, keys)))
            fitted *= _spread_out(ratio, term, keys)
            off = max(off, one)
        if off <= _enough(total):
            break
    return fitted, off


def _spread_out(ratio: FloatArray, term: Term, keys: Sequence[int]) -> FloatArray:
    """A factor of some keys, shaped to multiply an array of ``keys`` (both in rising order of keys)."""
    return np.expand_dims(ratio, _axes(term, keys))


def _enough(total: float) -> float:
    return max(1e-4, 1e-9 * total)


def _fit_factors(
    margins: _Margins, keys: tuple[int, ...], shape: tuple[int, ...], terms: Sequence[Term]
) -> Component:
    a, b = _apart(shape, terms)
    rest = tuple(j for j in range(len(shape)) if j not in (a, b))
    others = math.prod(shape[j] for j in rest)
    if (shape[a] + shape[b]) * others > ROOM or math.prod(shape) > LARGEST:
        raise _too_large(shape)
    total = float(next(iter(margins.target.values())).sum())
    phi = np.full((shape[a], shape[b]), total / math.prod(shape))
    one, two = np.ones((shape[a], others)), np.ones((shape[b], others))
    with_a, with_b = sorted((a, *rest)), sorted((b, *rest))
    on_a = [t for t in terms if b not in t]
    on_b = [t for t in terms if b in t and a not in t]
    pair = (min(a, b), max(a, b))
    off = math.inf
    for _ in range(SWEEPS):
        off = max(
            _side(margins, on_a, one, phi @ two, a, with_a, shape),
            _side(margins, on_b, two, phi.T @ one, b, with_b, shape),
        )
        if pair in margins.target:
            joint = phi * (one @ two.T)
            ratio, last = margins.ratio(pair, joint if a < b else joint.T)
            phi *= ratio if a < b else ratio.T
            off = max(off, last)
        if off <= _enough(total):
            break
    return Component(keys, shape, a, b, phi, one, two, off)


def _too_large(shape: tuple[int, ...]) -> MeasureError:
    return MeasureError(
        f"a log-linear model that joins {len(shape)} keys has {math.prod(shape):,} combinations, "
        "too many to fit",
        hint="take fewer interactions (keys that no term joins cost nothing), or recode the keys",
    )


def _apart(shape: tuple[int, ...], terms: Sequence[Term]) -> tuple[int, int]:
    """The two keys to hold apart: as large as can be, and together in no term but their own."""
    fits = [
        (a, b)
        for a, b in itertools.permutations(range(len(shape)), 2)
        if not any({a, b} < set(t) for t in terms)
    ]
    if not fits:
        raise MeasureError(
            "the log-linear model's interactions join all of its keys three by three, and its table is too "
            "large to fit whole",
            hint="take interactions of two keys, or fewer keys",
        )
    return max(fits, key=lambda f: (shape[f[0]] * shape[f[1]], shape[f[0]], -f[0]))


def _side(
    margins: _Margins,
    terms: Sequence[Term],
    factor: FloatArray,
    other: FloatArray,
    lead: int,
    keys: Sequence[int],
    shape: tuple[int, ...],
) -> float:
    """Fit the terms of one side: ``factor ∘ other`` is its margin, and ``factor`` is what may change.

    ``factor`` is lead × rest, while margins are in the order of keys, so the lead axis is moved.
    """
    if not terms:
        return 0.0
    place = list(keys).index(lead)
    rest = [shape[j] for j in keys if j != lead]
    view = np.moveaxis(factor.reshape([shape[lead], *rest]), 0, place)
    table = np.moveaxis((factor * other).reshape([shape[lead], *rest]), 0, place)
    off = 0.0
    for term in terms:
        ratio, one = margins.ratio(term, table.sum(axis=_axes(term, keys)))
        wide = _spread_out(ratio, term, keys)
        table *= wide
        view *= wide
        off = max(off, one)
    return off


def _convolved(one: FloatArray, two: FloatArray) -> FloatArray:
    from scipy.signal import fftconvolve

    if len(one) == 1:
        return np.asarray(two * one[0])
    out: FloatArray = np.asarray(fftconvolve(one, two))
    # What a transform leaves where nothing is.
    out[out < 1e-9 * out.max(initial=0.0)] = 0.0
    return out
