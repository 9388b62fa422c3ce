"""The algebra of controlled distortion: a Householder reflection of a small set of records.

Let A be r records with weights w, c their weighted mean, B = diag(√w)(X_A − 1c′) and s = √w/|√w|, so
that B′s = 0. Every X_A* with the same weighted mean and cross-products is B* = QB with Q orthogonal
and Qs = s. The reflection Q = I − 2uu′/u′u with u ⟂ s moves each record along one direction only:
x_i* = x_i + α_i·δ. With e the part of the first unit vector orthogonal to s, u = e − p, where B′p =
√w_0·t, |p|² = |e|² and t = x_0 + δ − c; such a p exists iff t is in the row space of B and w_0·t′(B′B)⁺t
≤ 1 − w_0/Σw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from sfumato.contract.guarantees import Guarantee, exactness, lost_values, over
from sfumato.data.microdata import FloatArray, IntArray, Microdata

_RANK = 1e-10


class InfeasibleError(Exception):
    """No set of helpers does what was asked; says why."""

    def __init__(self, message: str, hint: str, columns: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.hint = hint
        self.columns = list(columns)


@dataclass(frozen=True)
class Reflection:
    """A set of records after the reflection; the first is the one distorted."""

    members: IntArray
    moved: FloatArray
    alpha: FloatArray
    outside: tuple[int, ...] = ()

    @property
    def largest(self) -> float:
        return float(np.abs(self.alpha[1:]).max(initial=0.0))


@dataclass(frozen=True)
class WeightedMoments(Guarantee):
    """Weighted means and covariances stay."""

    columns: tuple[str, ...]
    weight: str
    tolerance: float = 1e-9

    def describe(self) -> str:
        words = f"means and covariances of {', '.join(self.columns)}, weighted by {self.weight}, are kept"
        return f"{words}, {exactness(self.tolerance)}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        x, z = before.matrix(self.columns), after.matrix(self.columns)
        if problem := lost_values(int((np.isfinite(x) & ~np.isfinite(z)).sum())):
            return problem
        w = np.nan_to_num(before.numbers(self.weight), nan=0.0)
        whole = np.isfinite(x).all(axis=1)
        x, z, w = x[whole], z[whole], w[whole] / w[whole].sum()
        mean, new = w @ x, w @ z
        one, two = x - mean, z - new
        scale = np.sqrt(w @ one**2)
        scale[scale == 0] = 1.0
        one, two = one / scale, two / scale
        error = max(np.abs((new - mean) / scale).max(), np.abs((two.T * w) @ two - (one.T * w) @ one).max())
        return over([float(error)], self.tolerance)


Attempt = Callable[[IntArray], "Reflection | str"]
"""Tries a set of helpers: the reflection, or why there is none."""


def householder(x: FloatArray, delta: FloatArray, weight: FloatArray) -> FloatArray | str:
    """α of the reflection that moves record 0 of ``x`` by δ; a word ("span", "leverage") where none exists.

    ``x`` and δ must be scaled alike, column by column.
    """
    r = len(x)
    root = np.sqrt(weight)
    s = root / np.linalg.norm(root)
    centre = weight @ x / weight.sum()
    b = root[:, None] * (x - centre)
    u, values, v = np.linalg.svd(b, full_matrices=False)
    rank = int((values > _RANK * max(values[0], 1e-300)).sum())
    u, values, v = u[:, :rank], values[:rank], v[:rank]
    t = x[0] + delta - centre
    inside = v @ t
    if np.linalg.norm(t - v.T @ inside) > 1e-8 * max(np.linalg.norm(t), np.linalg.norm(delta)):
        return "span"
    p = root[0] * (u @ (inside / values))
    e = -s[0] * s
    e[0] += 1.0
    room = (1.0 - s[0] ** 2) - p @ p
    if room < -1e-12:
        return "leverage"
    q = e - u @ (u.T @ e)
    length = np.linalg.norm(q)
    if r - 1 - rank < 1 or length < 1e-9:
        if room > 1e-9:
            return "leverage"
    else:
        p = p - np.sqrt(max(room, 0.0)) * q / length
    direction = e - p
    if abs(direction[0]) < 1e-12:
        return "leverage"
    alpha: FloatArray = direction / direction[0] * root[0] / root
    return alpha


def reflect(
    x: FloatArray,
    place: int,
    delta: FloatArray,
    order: IntArray,
    weight: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
    rank: int,
    *,
    beyond: bool,
) -> Reflection:
    """The reflection with the fewest helpers of ``order`` (nearest first) that keeps the bounds.

    A set that will do still does when it grows, so the smallest neighbourhood is found by doubling and
    bisection, and then thinned out to the helpers that matter most. With bounds, helpers that would
    leave them are passed over and the next are tried.
    """
    scale = x[np.append(order, place)].std(axis=0)
    scale[scale == 0] = 1.0
    low, high = bounds
    target = x[place] + delta
    slack = 1e-9 * scale
    outside = np.flatnonzero((target < low - slack) | (target > high + slack))
    if len(outside) and not beyond:
        raise InfeasibleError(
            "its new values are beyond the bounds", "ask for values within them", outside.tolist()
        )

    def attempt(helpers: IntArray) -> Reflection | str:
        members = np.append(place, helpers)
        alpha = householder(x[members] / scale, delta / scale, weight[members])
        if isinstance(alpha, str):
            return alpha
        return Reflection(members, x[members] + alpha[:, None] * delta, alpha)

    found = _fewest(attempt, order, rank)
    if isinstance(found, str):
        raise _reason(found, x, place, delta, order, scale, rank)
    if not np.isfinite(low).any() and not np.isfinite(high).any():
        return _thinned(attempt, found, rank)
    return _within_bounds(attempt, found, order, x, bounds, slack, beyond=beyond)


def _fewest(attempt: Attempt, order: IntArray, rank: int) -> Reflection | str:
    least, most = min(rank + 1, len(order)), len(order)
    good: Reflection | None = None
    size, why = least, "few"
    while True:
        tried = attempt(order[:size]) if size else "few"
        if isinstance(tried, Reflection):
            good = tried
            break
        why = tried
        least = size + 1
        if size >= most:
            return why
        size = min(2 * size, most)
    low, high = least, len(good.members) - 1
    while low < high:
        middle = (low + high) // 2
        tried = attempt(order[:middle])
        if isinstance(tried, Reflection):
            good, high = tried, middle
        else:
            low = middle + 1
    return good


def _thinned(attempt: Attempt, found: Reflection, rank: int) -> Reflection:
    """Fewer helpers of the same neighbourhood: those that carry most of the reflection come first."""
    for _ in range(20):
        helpers = found.members[1:]
        order = helpers[np.argsort(-np.abs(found.alpha[1:]), kind="stable")]
        fewer = _fewest(attempt, order, rank)
        if isinstance(fewer, str) or len(fewer.members) >= len(found.members):
            break
        found = fewer
    return found


def _within_bounds(
    attempt: Attempt,
    found: Reflection,
    order: IntArray,
    x: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
    slack: FloatArray,
    *,
    beyond: bool,
) -> Reflection:
    """Pass over helpers that would leave the bounds, and take more until all stay within."""
    low, high = bounds
    size = len(found.members) - 1
    best, best_bad = found, np.inf
    shunned = np.zeros(len(x), dtype=np.bool_)
    for _ in range(400):
        allowed = order[~shunned[order]]
        if not len(allowed):
            break
        tried = attempt(allowed[:size])
        if isinstance(tried, str):
            if size >= len(allowed):
                break
            size = min(max(size + 1, int(1.5 * size)), len(allowed))
            continue
        # A value that was beyond a bound before isn't held against its record unless it moves further.
        was = x[tried.members]
        bad = ((tried.moved < np.minimum(low, was) - slack) | (tried.moved > np.maximum(high, was) + slack))[
            1:
        ]
        if bad.sum() < best_bad:
            best, best_bad = tried, bad.sum()
        if not bad.any():
            beyond_it = (tried.moved[0] < low - slack) | (tried.moved[0] > high + slack)
            return replace(tried, outside=tuple(np.flatnonzero(beyond_it).tolist()))
        rows = tried.members[1:][bad.any(axis=1)]
        many = int(shunned.sum()) + len(rows) > len(order) // 2
        if not many:
            shunned[rows] = True
        elif size >= len(allowed):
            break
        size = min(max(size + 1, int(1.2 * size)), len(allowed))
    final = (best.moved < low - slack) | (best.moved > high + slack)
    columns = tuple(int(j) for j in np.flatnonzero(final.any(axis=0)))
    if not beyond:
        raise InfeasibleError(
            "no set of helpers was found that stays within the bounds",
            "ask for a smaller move, widen the bounds, or set beyond_bounds = true",
            columns,
        )
    return Reflection(best.members, best.moved, best.alpha, columns)


def _reason(
    word: str, x: FloatArray, place: int, delta: FloatArray, order: IntArray, scale: FloatArray, rank: int
) -> InfeasibleError:
    if len(order) < rank + 1:
        return InfeasibleError(
            f"{rank + 1} helpers are needed, but only {len(order)} are allowed",
            "allow more helpers, or keep the moments of fewer columns",
        )
    if word == "span":
        rows = x[np.append(order, place)] / scale
        _, values, v = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        null = v[values <= _RANK * values[0]]
        columns = np.flatnonzero((np.abs(null) > 1e-6).any(axis=0)).tolist() if len(null) else []
        return InfeasibleError(
            "the move breaks an exact linear relation among the columns",
            "move the columns of that relation together, so that it still holds",
            columns,
        )
    return InfeasibleError(
        "it is too far out: no allowed set of records can carry its second moment",
        "ask for a smaller move, or allow more helpers",
    )


def whole_file_rank(x: FloatArray) -> int:
    """The rank of the records' centred values."""
    scale = x.std(axis=0)
    scale[scale == 0] = 1.0
    scaled = (x - x.mean(axis=0)) / scale
    values = np.linalg.eigvalsh(scaled.T @ scaled / len(x))
    return int((values > _RANK).sum())


def nearest_first(
    x: FloatArray, place: int, pool: IntArray, keys: Sequence[IntArray], *, given: bool = False
) -> IntArray:
    """The pool by the number of equal keys (most first), then by standardised distance."""
    scale = x[pool].std(axis=0) if len(pool) else np.ones(x.shape[1])
    scale[scale == 0] = 1.0
    distance = (((x[pool] - x[place]) / scale) ** 2).sum(axis=1)
    agree = np.zeros(len(pool), dtype=np.int64)
    if not given:
        for key in keys:
            agree += key[pool] == key[place]
    return pool[np.lexsort((pool, distance, -agree))]


def restore(old: pl.Series, values: FloatArray, rows: IntArray, *, whole: bool) -> pl.Series:
    """A column with some rows replaced; floats unless the new values are whole."""
    if old.dtype.is_temporal():
        physical = old.to_physical()
        new = physical.cast(pl.Float64).scatter(rows, np.rint(values[rows]))
        return new.cast(physical.dtype).cast(old.dtype)
    keep = whole or old.dtype.is_float()
    out = old.cast(pl.Float64).scatter(rows, values[rows])
    return out.cast(old.dtype) if keep else out
