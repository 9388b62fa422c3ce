"""A smooth surface through the noisy figures of a grid: a Gaussian process on the parameters' ranks.

A figure at a point of the grid is its mean plus the error of one run, and means change little from a
value of a parameter to the next. So runs at one point tell of its neighbours, and of points not run.

Numbers are placed by their rank among the grid's values (a grid is spaced as its maker thinks fit),
other values at the same distance from each other. Matérn 5/2 covariance with a length for each parameter;
lengths and the share of error are weighed by their likelihood on a coarse lattice. The variance of a run's
error may grow with a power of the mean (0, 1 or 2, whichever is likeliest): a plan that changes nothing has
no error at all.

Reference: Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, chapters 2 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

LENGTHS = (0.15, 0.3, 0.6, 1.2, 2.4, 4.8)
"""Lengths tried, in units of a parameter's whole range."""
NOISE = (1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
"""Variances of one run's error tried, as shares of the surface's variance."""
POWERS = (0, 1, 2)
"""Powers of the mean that the variance of the error may grow with."""
LEAST = 1e-3
"""A mean below this share of the largest counts as so much, so that no error is quite 0."""

Setting = tuple[tuple[float, ...], float]


def distances(columns: Sequence[Sequence[Any]]) -> FloatArray:
    """Distances between points by each parameter, of shape (parameters, points, points), 0 to 1."""
    out = []
    for values in columns:
        if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            levels = sorted(set(values))
            place = {v: k / max(1, len(levels) - 1) for k, v in enumerate(levels)}
            at = np.array([place[v] for v in values])
            out.append(np.abs(at[:, None] - at[None, :]))
        else:
            words = np.array([repr(v) for v in values])
            out.append((words[:, None] != words[None, :]).astype(np.float64))
    size = len(columns[0]) if columns else 1
    return np.array(out) if out else np.zeros((0, size, size))


def spread_out(apart: FloatArray, count: int) -> list[int]:
    """So many points, each the farthest from those before (by the largest of the least distances)."""
    total = np.sqrt(np.square(apart).sum(axis=0)) if len(apart) else np.zeros(apart.shape[1:])
    chosen = [0]
    nearest = total[0].copy()
    while len(chosen) < min(count, len(total)):
        nearest[chosen] = -1.0
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, total[chosen[-1]])
    return chosen


@dataclass(frozen=True)
class Surface:
    """The ``mean`` at all points, their joint ``covariance``, and the sd of one run there, ``noise``."""

    mean: FloatArray
    covariance: FloatArray
    noise: FloatArray

    @property
    def error(self) -> FloatArray:
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def held_to(self, places: Sequence[int], values: Sequence[float]) -> Surface:
        """The surface with each point that was run where its own runs put it, if it is far from them.

        A surface that is smooth can't follow a jump (a plan that changes nothing loses nothing, the next one
        something): where it is more than two errors of their mean from a point's runs, or where these are all
        the same, the runs count.
        """
        y, at = np.asarray(values, dtype=np.float64), np.asarray(places)
        mean, covariance = self.mean.copy(), self.covariance.copy()
        for k in np.unique(at):
            own = y[at == k]
            exact = bool((own == own[0]).all()) and (len(own) > 1 or own[0] == 0.0)
            error = 0.0 if exact else float(self.noise[k]) / math.sqrt(len(own))
            if exact or abs(mean[k] - own.mean()) > 2 * error:
                mean[k] = own.mean()
                covariance[k, :] = covariance[:, k] = 0.0
                covariance[k, k] = error**2
        return replace(self, mean=mean, covariance=covariance)

    def draws(self, normals: FloatArray) -> FloatArray:
        """Surfaces that the runs allow, one a column of ``normals`` (points × draws)."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(self.mean[:, None] + root @ normals)


def fit_surface(apart: FloatArray, places: Sequence[int], values: Sequence[float]) -> Surface:
    """The surface through runs: ``values[k]`` is the figure of a run at the point ``places[k]``."""
    y, at = np.asarray(values, dtype=np.float64), np.asarray(places)
    where, back, counts = np.unique(at, return_inverse=True, return_counts=True)
    means = np.bincount(back, y) / counts
    points = apart.shape[1]
    scale = float(y.std())
    if not scale > 1e-12 * float(np.abs(y).max(initial=0.0)):
        return Surface(np.full(points, y.mean()), np.zeros((points, points)), np.zeros(points))
    within = np.bincount(back, np.square(y - means[back])) / scale**2
    data = _Data(apart, where, means / scale, counts, within, np.ones(points))
    surface, _ = _weighed(data)
    power = 0
    for turn in range(8):
        # The error's size goes by the surface, not by a run's own figure: else low draws would weigh more.
        tried = {p: _weighed(data.errors_by(surface.mean, p)) for p in (POWERS if not turn else (power,))}
        power = min(tried, key=lambda p: tried[p][1])
        before, surface = surface, tried[power][0]
        if not power or (np.abs(surface.mean - before.mean) <= 0.1 * surface.noise).all():
            break
    return Surface(surface.mean * scale, surface.covariance * scale**2, surface.noise * scale)


@dataclass(frozen=True)
class _Data:
    """Runs by point: mean, number and squares within; ``relative``: each point's variance of the error."""

    apart: FloatArray
    where: npt.NDArray[np.int64]
    means: FloatArray
    counts: npt.NDArray[np.int64]
    within: FloatArray
    relative: FloatArray

    @property
    def runs(self) -> int:
        return int(self.counts.sum())

    def errors_by(self, mean: FloatArray, power: int) -> _Data:
        size = np.abs(mean)
        relative = np.maximum(size, LEAST * size.max()) ** power
        return replace(self, relative=relative / np.exp(np.log(relative).mean()))


def _weighed(data: _Data) -> tuple[Surface, float]:
    """The surface over all settings by their weight, and −2 log of the largest likelihood."""
    tried, least = _likely(data)
    parts = [_given(data, setting) for setting in tried]
    weights = np.array(list(tried.values()))
    # Several settings explain the runs nearly as well: what they disagree on isn't known.
    mean = np.array([w * part.mean for w, part in zip(weights, parts, strict=True)]).sum(axis=0)
    covariance = np.zeros_like(parts[0].covariance)
    for w, part in zip(weights, parts, strict=True):
        covariance += w * (part.covariance + np.outer(part.mean - mean, part.mean - mean))
    noise = np.sqrt(weights @ np.square([part.noise for part in parts]))
    return Surface(mean, covariance, noise), least


def _given(data: _Data, setting: Setting) -> Surface:
    """The surface at all points, given the runs and one setting of lengths and share of error."""
    lengths, noise = setting
    where = data.where
    K = _matern(data.apart, lengths)
    inverse = np.linalg.inv(K[np.ix_(where, where)] + np.diag(noise * data.relative[where] / data.counts))
    base, variance, _ = _profile(data, setting)
    cross = K[:, where] @ inverse
    one = 1.0 - cross.sum(axis=1)
    # The last term is what not knowing the base costs.
    covariance = K - cross @ K[where] + np.outer(one, one) / inverse.sum()
    mean = base + cross @ (data.means - base)
    return Surface(mean, covariance * variance, np.sqrt(noise * variance * data.relative))


def _matern(apart: FloatArray, lengths: Sequence[float]) -> FloatArray:
    out = np.ones(apart.shape[1:])
    for one, length in zip(apart, lengths, strict=True):
        r = math.sqrt(5.0) * one / length
        out *= (1.0 + r + r * r / 3.0) * np.exp(-r)
    return out


def _profile(data: _Data, setting: Setting) -> tuple[float, float, float]:
    """Base and variance of the largest likelihood given the lengths and the share of error, and −2 log
    of that likelihood (runs at the same point included)."""
    lengths, noise = setting
    where = data.where
    error = noise * data.relative[where]
    A = _matern(data.apart[:, where[:, None], where], lengths) + np.diag(error / data.counts)
    L = np.linalg.cholesky(A)
    ones = np.linalg.solve(L, np.ones(len(A)))
    y = np.linalg.solve(L, data.means)
    base = float(ones @ y / (ones @ ones))
    squares = float(np.square(y - base * ones).sum() + (data.within / error).sum())
    variance = max(squares / data.runs, 1e-300)
    log_det = 2.0 * float(np.log(np.diag(L)).sum()) + float((data.counts - 1) @ np.log(error))
    return base, variance, data.runs * math.log(variance) + log_det


def _likely(data: _Data) -> tuple[dict[Setting, float], float]:
    """Lengths and shares of error with their weights by likelihood: those met on the way to the largest,
    going round the lattice one parameter at a time, of at least a twentieth of the largest; and −2 log of
    the largest."""
    seen: dict[Setting, float] = {}

    def of(setting: Setting) -> float:
        if setting not in seen:
            seen[setting] = _profile(data, setting)[2]
        return seen[setting]

    parameters = len(data.apart)
    best: Setting = ((0.6,) * parameters, 1e-2)
    for _ in range(4):
        before = best
        for k in range(parameters):
            lengths, noise = best
            best = min((((*lengths[:k], x, *lengths[k + 1 :]), noise) for x in LENGTHS), key=of)
        best = min(((best[0], share) for share in NOISE), key=of)
        if best == before:
            break
    weights = {setting: math.exp(-0.5 * (value - seen[best])) for setting, value in seen.items()}
    likely = {setting: w for setting, w in weights.items() if w >= 0.05}
    total = sum(likely.values())
    return {setting: w / total for setting, w in likely.items()}, seen[best]
