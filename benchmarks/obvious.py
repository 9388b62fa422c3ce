"""The obvious attacks of somebody who knows the method and nothing of the code, in plain NumPy and SciPy.

Each takes the original and the released frame (record i is record i), the columns known, and returns
the share of persons found. Nothing of sfumato is used: the battery must never find less than these.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

RNG = np.random.default_rng(12345)


def codes(a: pl.Series, b: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """The same number for the same value; blanks are a value."""
    if a.dtype != b.dtype:
        a, b = a.cast(pl.String), b.cast(pl.String)
    both = pl.concat([a.cast(pl.Categorical).to_physical() if a.dtype == pl.Categorical else a, b])
    dense = both.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return dense[: len(a)], dense[len(a) :]


def shuffled(n: int) -> np.ndarray:
    """Released records come in any order: ties must not fall on the truth."""
    return RNG.permutation(n)


def nearest(weight: np.ndarray, order: np.ndarray) -> float:
    """The share for which a draw among the heaviest pairs is right."""
    top = weight.max(axis=1, keepdims=True)
    tied = weight >= top - 1e-9
    truth = np.argsort(order)
    hit = tied[np.arange(len(weight)), truth]
    return float((hit / tied.sum(axis=1)).mean())


def assigned(weight: np.ndarray, order: np.ndarray) -> float:
    """The share right in the 1-1 assignment of the greatest total."""
    rows = RNG.permutation(len(weight))
    _, cols = linear_sum_assignment(-weight[rows])
    return float((order[cols] == rows).mean())


def agreements(original: pl.DataFrame, released: pl.DataFrame, columns: Sequence[str]) -> dict[str, float]:
    """Most exact agreements, and the same weighted by how rare the value is."""
    n = len(original)
    order = shuffled(n)
    plain, rare = np.zeros((n, n), np.float32), np.zeros((n, n), np.float32)
    for column in columns:
        a, b = codes(original[column], released[column])
        share = np.bincount(b, minlength=int(max(a.max(), b.max())) + 1)[a] / n
        same = a[:, None] == b[order][None, :]
        plain += same
        rare += same * (-np.log(np.maximum(share, 0.5 / n)))[:, None].astype(np.float32)
    return {
        "agreements": nearest(plain, order),
        "rare agreements": nearest(rare, order),
        "rare agreements 1-1": assigned(rare, order),
    }


def matrix(frame: pl.DataFrame, columns: Sequence[str]) -> np.ndarray:
    return np.column_stack([frame[c].cast(pl.Float64).fill_null(strategy="mean").to_numpy() for c in columns])


def distances(original: pl.DataFrame, released: pl.DataFrame, columns: Sequence[str]) -> dict[str, float]:
    """Nearest in standard units, whitened, by ranks: 1-1."""
    x, z = matrix(original, columns), matrix(released, columns)
    order = shuffled(len(x))
    spread = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    spaces = {"standardised": (x / spread, z / spread)}
    cov = np.cov((z - z.mean(axis=0)) / spread, rowvar=False).reshape(len(spread), -1)
    values, vectors = np.linalg.eigh(cov)
    live = values > 1e-9 * values.max()
    turn = vectors[:, live] / np.sqrt(values[live])
    spaces["Mahalanobis"] = (x / spread @ turn, z / spread @ turn)
    ranks = [np.column_stack([rankdata(v) for v in m.T]) for m in (x, z)]
    spaces["ranks"] = (ranks[0], ranks[1])
    out = {}
    for name, (one, two) in spaces.items():
        out[name] = assigned(-square(one, two[order]), order)
    return out


def square(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return (one**2).sum(1)[:, None] + (two**2).sum(1)[None, :] - 2 * one @ two.T


def mixed(
    original: pl.DataFrame, released: pl.DataFrame, numbers: Sequence[str], keys: Sequence[str]
) -> dict[str, float]:
    """Standardised distance on numbers, minus what agreeing keys are worth by rarity, 1-1."""
    n = len(original)
    order = shuffled(n)
    x, z = matrix(original, numbers), matrix(released, numbers)
    spread = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    weight = -square(x / spread, (z / spread)[order])
    for column in keys:
        a, b = codes(original[column], released[column])
        share = np.bincount(b, minlength=int(max(a.max(), b.max())) + 1)[a] / n
        weight += (a[:, None] == b[order][None, :]) * (-np.log(np.maximum(share, 0.5 / n)))[:, None]
    return {"distance and rare keys": assigned(weight, order)}


def vector(original: pl.DataFrame, released: pl.DataFrame, columns: Sequence[str]) -> dict[str, float]:
    """Look for the whole vector of values, wherever it went."""
    one = original.select(columns).hash_rows(seed=1).to_numpy()
    two, count = np.unique(released.select(columns).hash_rows(seed=1).to_numpy(), return_counts=True)
    place = np.clip(np.searchsorted(two, one), 0, len(two) - 1)
    found = two[place] == one
    return {"vector": float(np.where(found, 1 / count[place], 0.0).mean())}


def windows(
    original: pl.DataFrame, released: pl.DataFrame, columns: Sequence[str], percent: float
) -> dict[str, float]:
    """Whoever is within the window of ranks on every column; among those, the nearest ranks."""
    n = len(original)
    order = shuffled(n)
    weight = np.zeros((n, n))
    for column in columns:
        one, two = (f[column].cast(pl.Float64).fill_null(-1e30).to_numpy() for f in (original, released))
        ranks = rankdata(one), rankdata(two)
        apart = np.abs(ranks[0][:, None] - ranks[1][order][None, :])
        weight -= np.where(apart <= percent / 100 * n + 1, 0.01 * apart / n, 10.0)
    return {"window": assigned(weight, order)}
