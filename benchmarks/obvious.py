"""The obvious attacks of somebody who knows the method and nothing of the code, in plain NumPy and SciPy.

Each takes the original and the released frame (record i is record i), the columns known, and returns the
share of persons found. Nothing of sfumato is used: the battery must never find less than these.

- rank swap: ranks within the window on every column, nearest first, 1-1; whole vectors where columns travel
  together;
- random swaps, PRAM, edits, group and record swaps: what agrees by rarity and by the rate that the method
  states, 1-1;
- noise: whitened distance among those who agree on the keys that nothing touched, 1-1;
- microaggregation: the nearest mean among those; column by column, one's own list averaged in the same
  groups;
- recodes, top codes, truncation: one's own list coded alike, and what agrees;
- suppression: what agrees, where a blank speaks neither for nor against;
- shuffles and synthesis: the nearest row, and rows that hold one's exact values;
- households: what the members have between them, beside one's own values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

RNG = np.random.default_rng(12345)
Found = dict[str, float]


def codes(a: pl.Series, b: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """The same number for the same value; a blank is 0."""
    a, b = (s.cast(pl.Float64) if s.dtype.is_numeric() else s.cast(pl.String) for s in (a, b))
    if a.dtype != b.dtype:
        a, b = a.cast(pl.String), b.cast(pl.String)
    dense = pl.concat([a, b]).rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return dense[: len(a)], dense[len(a) :]


def nearest(weight: np.ndarray) -> float:
    """The share for which a draw among the heaviest pairs is right."""
    tied = weight >= weight.max(axis=1, keepdims=True) - 1e-6
    return float((np.diag(tied) / tied.sum(axis=1)).mean())


def assigned(weight: np.ndarray, times: int = 3) -> float:
    """The share right in the 1-1 assignment of the greatest total, records in any order: ties mustn't fall
    on the truth. The mean over a few orders: among coarse keys, ties alone make a rate vary by .01."""
    rates = []
    for _ in range(times):
        rows, order = RNG.permutation(len(weight)), RNG.permutation(len(weight))
        _, cols = linear_sum_assignment(-weight[np.ix_(rows, order)])
        rates.append((order[cols] == rows).mean())
    return float(np.mean(rates))


def in_blocks(block: np.ndarray, other: np.ndarray, one: np.ndarray, two: np.ndarray) -> float:
    """Least squared distance 1-1 among those who agree on the block."""
    right = 0
    for value in np.unique(block):
        left, there = np.flatnonzero(block == value), np.flatnonzero(other == value)
        left, there = RNG.permutation(left), RNG.permutation(there)
        if len(left) and len(there):
            rows, cols = linear_sum_assignment(square(one[left], two[there]))
            right += int((left[rows] == there[cols]).sum())
    return right / len(block)


def square(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return (one**2).sum(1)[:, None] + (two**2).sum(1)[None, :] - 2 * one @ two.T


def agreements(
    original: pl.DataFrame, released: pl.DataFrame, columns: Sequence[str], keep: Mapping[str, float]
) -> Found:
    """Most exact agreements; the same by how rare a value is; and with the probability of having stayed that
    the method states (nearly one where it says nothing)."""
    n = len(original)
    plain, rare, told = (np.zeros((n, n), np.float32) for _ in range(3))
    for column in columns:
        a, b = codes(original[column], released[column])
        # Blanks that a mask made say nothing; whose they are, he doesn't know.
        blank = (b == 0) & bool((b == 0).sum() > (a == 0).sum())
        there = b[~blank] if blank.any() else b
        share = np.bincount(there, minlength=int(max(a.max(), b.max())) + 1)[a] / max(len(there), 1)
        share = np.maximum(share, 0.5 / n)
        same = a[:, None] == b[None, :]
        p = keep.get(column, 0.999)
        yes, no = np.log(p / share + 1 - p).astype(np.float32), np.float32(np.log(1 - p))
        plain += same
        rare += same * (-np.log(share)).astype(np.float32)[:, None]
        told += np.where(same, yes[:, None], np.where(blank[None, :], 0, no))
    return {
        "agreements": nearest(plain),
        "rare agreements": nearest(rare),
        "rare agreements 1-1": assigned(rare),
        "agreements by rate 1-1": assigned(told),
    }


def matrix(frame: pl.DataFrame, columns: Sequence[str]) -> np.ndarray:
    return np.column_stack([frame[c].cast(pl.Float64).fill_null(strategy="mean").to_numpy() for c in columns])


def distances(
    original: pl.DataFrame, released: pl.DataFrame, numbers: Sequence[str], exact: Sequence[str]
) -> Found:
    """Nearest in standard units, whitened, by ranks: 1-1 among those who agree on the exact keys."""
    x, z = matrix(original, numbers), matrix(released, numbers)
    spread = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    spaces = {"standardised": (x / spread, z / spread)}
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(z / spread, rowvar=False)))
    live = values > 1e-9 * values.max()
    turn = vectors[:, live] / np.sqrt(values[live])
    spaces["Mahalanobis"] = (x / spread @ turn, z / spread @ turn)
    ranks = [np.column_stack([rankdata(v) for v in m.T]) for m in (x, z)]
    spaces["ranks"] = (ranks[0], ranks[1])
    one, two = np.zeros(len(x), np.int64), np.zeros(len(x), np.int64)
    for column in exact:
        a, b = codes(original[column], released[column])
        size = int(max(a.max(), b.max())) + 1
        one, two = one * size + a, two * size + b
    how = " in keys" if exact else ""
    return {f"{name}{how}": in_blocks(one, two, *pair) for name, pair in spaces.items()}


def mixed(
    original: pl.DataFrame,
    released: pl.DataFrame,
    numbers: Sequence[str],
    keys: Sequence[str],
    keep: Mapping[str, float],
) -> Found:
    """Standardised distance on numbers, and what agreeing keys are worth, 1-1."""
    n = len(original)
    x, z = matrix(original, numbers), matrix(released, numbers)
    spread = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    weight = -square(x / spread, z / spread)
    for column in keys:
        a, b = codes(original[column], released[column])
        share = np.maximum(np.bincount(b, minlength=int(max(a.max(), b.max())) + 1)[a] / n, 0.5 / n)
        p = keep.get(column, 0.999)
        yes = np.log(p / share + 1 - p)[:, None]
        weight += np.where(a[:, None] == b[None, :], yes, np.log(1 - p))
    return {"distance and keys": assigned(weight)}


def vector(original: pl.DataFrame, released: pl.DataFrame, columns: Sequence[str]) -> Found:
    """Look for the whole vector of values, wherever it went."""
    one = original.select(columns).hash_rows(seed=1).to_numpy()
    two, count = np.unique(released.select(columns).hash_rows(seed=1).to_numpy(), return_counts=True)
    place = np.clip(np.searchsorted(two, one), 0, len(two) - 1)
    found = two[place] == one
    return {"vector": float(np.where(found, 1 / count[place], 0.0).mean())}


def windows(
    original: pl.DataFrame,
    released: pl.DataFrame,
    columns: Sequence[str],
    exact: Sequence[str],
    percent: float,
) -> Found:
    """Whoever is within the window of ranks on every column and agrees on the keys; of those, the nearest."""
    n = len(original)
    weight = np.zeros((n, n))
    for column in columns:
        one, two = (f[column].cast(pl.Float64).fill_null(-1e30).to_numpy() for f in (original, released))
        apart = np.abs(rankdata(one)[:, None] - rankdata(two)[None, :])
        weight -= np.where(apart <= percent / 100 * n + 1, 0.01 * apart / n, 10.0)
    for column in exact:
        a, b = codes(original[column], released[column])
        weight -= 100.0 * (a[:, None] != b[None, :])
    return {"window": assigned(weight)}


def averaged(
    original: pl.DataFrame, released: pl.DataFrame, columns: Sequence[str], exact: Sequence[str], k: int
) -> Found:
    """One's own list in the same groups of k by each column's order: the means agree, and the keys."""
    n = len(original)
    group = np.minimum(np.arange(n) // k, max(n // k - 1, 0))
    new = []
    for column in columns:
        values = original[column].cast(pl.Float64).fill_null(strategy="mean").to_numpy()
        order = np.argsort(values, kind="stable")
        means = np.bincount(group, values[order]) / np.bincount(group)
        out = np.empty(n)
        out[order] = means[group]
        new.append(pl.Series(column, out))
    mine = original.with_columns(new)
    found = distances(mine, released, columns, exact)
    return {f"own means, {name}": rate for name, rate in found.items()}


def homes(original: pl.DataFrame, released: pl.DataFrame, household: str, columns: Sequence[str]) -> Found:
    """What a household's members have in each column, beside one's own values."""
    sides = []
    for frame in (original, released):
        text = frame.select(household, *(pl.col(c).cast(pl.String).fill_null("") for c in columns))
        sides.append(
            text.with_columns(
                pl.col(c).sort().implode().list.join("|").over(household).alias(f"{c} at home")
                for c in columns
            )
        )
    names = [*columns, *(f"{c} at home" for c in columns)]
    return {f"{name}, at home": rate for name, rate in agreements(*sides, names, {}).items()}
