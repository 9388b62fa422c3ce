"""Poisson regression of counts, and the law of a population count given the sample's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from sfumato.errors import MeasureError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_DESIGN: Final = 40_000_000
_FLAT = 30.0


def fit_poisson(design: FloatArray, counts: FloatArray, offset: FloatArray | float = 0.0) -> FloatArray:
    """The expected counts exp(Xβ + offset) of largest likelihood, by Newton's steps (halved where they
    go too far). Columns that others determine don't matter.

    >>> import numpy as np
    >>> fit_poisson(np.ones((3, 1)), np.array([1.0, 2.0, 6.0])).round(9).tolist()
    [3.0, 3.0, 3.0]
    """
    spread = np.abs(design).max(axis=0, initial=0.0)
    x = design / np.where(spread > 0, spread, 1.0)
    eta = np.log(counts + 0.5)
    beta = np.linalg.lstsq(x, eta - offset, rcond=None)[0]
    best = -math.inf
    for _ in range(200):
        eta = np.clip(x @ beta + offset, -_FLAT, _FLAT)
        mean = np.exp(eta)
        level = float((counts * eta - mean).sum())
        if abs(level - best) <= 1e-12 * (abs(level) + 1):
            break
        best = level
        step = np.linalg.lstsq((x * mean[:, None]).T @ x, x.T @ (counts - mean), rcond=1e-13)[0]
        size = 1.0
        while size > 1e-6:
            at = np.clip(x @ (beta + size * step) + offset, -_FLAT, _FLAT)
            if float((counts * at - np.exp(at)).sum()) >= level:
                break
            size /= 2
        beta = beta + size * step
    return np.asarray(np.exp(np.clip(x @ beta + offset, -_FLAT, _FLAT)))


def grid_design(
    sizes: Sequence[int], terms: Sequence[tuple[int, ...]], scores: dict[int, FloatArray]
) -> tuple[IntArray, FloatArray]:
    """Every combination (keys × combinations, the last key fastest), and the columns of a model on it.

    A key enters by a column for each level but its first, or, where it has ``scores``, by one column
    of them; a term of several keys by the products of theirs.
    """
    cells = math.prod(sizes)
    wide = 1 + sum(math.prod(1 if j in scores else sizes[j] - 1 for j in t) for t in terms)
    if cells * wide > MAX_DESIGN:
        raise MeasureError(
            f"a Poisson regression on {cells:,} combinations with {wide:,} coefficients is too large",
            hint='take fewer keys or interactions, recode the keys, or weighting="none" or "pml", '
            "which are fitted on margins",
        )
    grid = np.indices(tuple(sizes)).reshape(len(sizes), -1)
    own = {
        j: [scores[j][grid[j]]]
        if j in scores
        else [(grid[j] == v).astype(np.float64) for v in range(1, sizes[j])]
        for j in {j for t in terms for j in t}
    }
    columns = [np.ones(cells)]
    for term in terms:
        columns += [np.prod(parts, axis=0) for parts in itertools.product(*(own[j] for j in term))]
    return grid, np.column_stack(columns)


def unique_chance(mean: FloatArray, fraction: FloatArray) -> FloatArray:
    """P(F = 1 | f = 1) = exp(−(1 − π) λ)."""
    return np.exp(-(1 - fraction) * mean)


def match_chance(frequency: IntArray, mean: FloatArray, fraction: FloatArray) -> FloatArray:
    """E(1/F | f), where F − f is Poisson with mean (1 − π) λ: ₁F₁(1; f + 1; −(1 − π)λ) / f.

    For f = 1 it is (1 − exp(−v)) / v with v = (1 − π) λ.

    >>> import numpy as np
    >>> match_chance(np.array([1, 2]), np.array([0.0, 0.0]), np.array([0.1, 0.1])).tolist()
    [1.0, 0.5]
    """
    from scipy.special import hyp1f1

    v = (1 - fraction) * mean
    out = np.empty(len(v))
    one = frequency == 1
    with np.errstate(invalid="ignore", divide="ignore"):
        out[one] = np.where(v[one] > 0, -np.expm1(-v[one]) / v[one], 1.0)
    # Beyond these the integral ∫ (1−s)^(f−1) e^(−vs) ds is 1/(f + v) to within (f+v)^−2.
    none = ~one & (v < 1e-6)
    out[none] = (1 - v[none] / (frequency[none] + 1)) / frequency[none]
    many = ~one & ~none & (frequency < 1000) & (v < 500)
    out[many] = hyp1f1(1.0, frequency[many] + 1.0, -v[many]) / frequency[many]
    rest = ~one & ~none & ~many
    out[rest] = 1 / (frequency[rest] + v[rest])
    return out


def bias_terms(
    frequency: FloatArray, mean: FloatArray, fraction: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """What each combination adds to the bias of τ1 and τ2 under the model, and to their variances.

    B_i = Σ a_i (f − πλ) + b_i ((f − πλ)² − f), V_i = Σ a_i² πλ + 2 b_i² (πλ)², with h(λ) the risk and
    a_i = −h′ λ e^(−πλ), b_i = h″ λ e^(−πλ) / 2π. B is large and positive where the model is too simple
    (λ scatters more than it says), negative where it follows the sample too closely.

    Reference: Skinner, C. J., Shlomo, N. (2008). Assessing identification risk in survey microdata using
    log-linear models. JASA 103, 989-1001.
    """
    p, lam = fraction, mean
    v = (1 - p) * lam
    sampled = p * lam
    a1 = v * np.exp(-lam)
    b1 = (1 - p) * v * np.exp(-lam) / (2 * p)
    with np.errstate(divide="ignore", invalid="ignore"):
        h = np.where(v > 1e-8, -np.expm1(-v) / v, 1 - v / 2)
        a2 = np.exp(-sampled) * np.where(v > 1e-4, h - np.exp(-v), v / 2 - v**2 / 3)
        # h − e^(−v)(1 + v/2) cancels for small v: its series.
        tail = np.where(v > 0.003, h - np.exp(-v) * (1 + v / 2), v**2 / 6 - v**3 / 8 + 11 * v**4 / 240)
        b2 = np.where(sampled > 0, np.exp(-sampled) * tail / np.where(sampled > 0, sampled, 1.0), 0.0)
    off = frequency - sampled
    twice = off**2 - frequency
    return (
        a1 * off + b1 * twice,
        a2 * off + b2 * twice,
        a1**2 * sampled + 2 * b1**2 * sampled**2,
        a2**2 * sampled + 2 * b2**2 * sampled**2,
    )
