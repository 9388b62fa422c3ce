"""The tree kernels against slow and obvious ones."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels.nearest import nearest_distance
from sfumato.kernels.trees import fall, grow
from sfumato.masks.synthesise.forest import binned, level_order
from sfumato.masks.synthesise.parts import Part


def impurity(y: np.ndarray, kinds: np.ndarray) -> float:
    """Sum of squares around the mean plus the records times Gini's impurity."""
    out = float(((y - y.mean(axis=0)) ** 2).sum())
    share = np.unique(kinds, return_counts=True)[1] / len(kinds)
    return out + len(kinds) * float(1 - (share**2).sum())


def twin(x: np.ndarray, y: np.ndarray, kinds: np.ndarray, mass: np.ndarray, leaf: int, rows: list[int]):
    """The leaves (sets of records) of the tree: every cut of every predictor is tried."""
    best, parts = impurity(y[rows], kinds[rows]), None
    for f in range(len(x)):
        for cut in sorted({int(x[f, r]) for r in rows}):
            left = [r for r in rows if x[f, r] <= cut]
            right = [r for r in rows if x[f, r] > cut]
            if min(mass[left].sum(), mass[right].sum()) < leaf - 1e-6:
                continue
            now = impurity(y[left], kinds[left]) + impurity(y[right], kinds[right])
            if now < best - 1e-7:
                best, parts = now, (left, right)
    if parts is None:
        return [frozenset(rows)]
    return [*twin(x, y, kinds, mass, leaf, parts[0]), *twin(x, y, kinds, mass, leaf, parts[1])]


def grown(x, y, kinds, mass, leaf, strata, small):
    bins = np.column_stack([binned(line)[0] for line in x])
    tops = np.stack([binned(line)[1] for line in x])
    rows = np.argsort(strata, kind="stable").astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(strata))]).astype(np.int64)
    n_kinds = int(kinds.max()) + 1
    return (*grow(x, bins, tops, rows, starts, y, kinds.astype(np.int32), n_kinds, mass, leaf, small), rows)


def leaves(tree) -> list[frozenset[int]]:
    feature, _, _, low, high, rows = tree
    return [frozenset(rows[low[i] : high[i]].tolist()) for i in np.flatnonzero(feature < 0)]


@pytest.mark.parametrize("small", [0, 4096], ids=["between classes", "exactly"])
@pytest.mark.parametrize("seed", range(6))
def test_a_tree_is_the_twins(seed: int, small: int) -> None:
    rng = np.random.default_rng(seed)
    n, leaf = 70, 3
    x = rng.integers(0, [[3], [12], [60]], (3, n)).astype(np.int32)
    y = rng.normal(size=(n, 1)) + 0.3 * x[1][:, None]
    kinds = (rng.random(n) < 0.1 * x[0]).astype(np.int64)
    strata = rng.integers(0, 2, n)
    mass = np.ones(n) if seed % 2 else 1.0 / rng.integers(1, 4, n)
    tree = grown(x, y, kinds, mass, leaf, strata, small)
    want = [
        part for s in (0, 1) for part in twin(x, y, kinds, mass, leaf, np.flatnonzero(strata == s).tolist())
    ]
    assert set(leaves(tree)) == set(want)
    # Every record falls into the leaf that it helped to make.
    at = fall(*tree[:3], strata.astype(np.int32), x)
    low, high, rows = tree[3:]
    assert all(r in rows[low[at[r]] : high[at[r]]] for r in range(n))


def test_a_large_node_that_no_class_divides_is_cut_exactly() -> None:
    """Two values that share a class of 256 differ in the response: the exact search must find them."""
    n = 6000
    x = np.full((1, n), 1000, np.int32)
    x[0, :100] = np.arange(100)
    assert len(set(binned(x[0])[0][:20].tolist())) == 1
    y = np.zeros((n, 1))
    y[:10] = 1.0
    tree = grown(x, y, np.zeros(n, np.int64), np.ones(n), 5, np.zeros(n, np.int64), 10)
    assert frozenset(range(10)) in leaves(tree)


@pytest.mark.parametrize("seed", range(4))
def test_ordering_levels_by_their_mean_finds_the_best_two_groups(seed: int) -> None:
    """All 2^5 − 1 ways to divide six levels are tried."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 6, 200).astype(np.int32)
    y = rng.normal(size=6)[level] + rng.normal(size=200)
    response = Part("y", None, level, 6, True, y[:, None], np.zeros(200, np.int32), 1)  # type: ignore[arg-type]
    place = level_order(level, 6, response)[level]
    none = np.zeros(200)
    by_order = min(
        impurity(y[place <= c, None], none[place <= c]) + impurity(y[place > c, None], none[place > c])
        for c in range(5)
    )
    best = np.inf
    for subset in range(1, 31):
        left = (subset >> level) & 1 == 1
        if left.any() and not left.all():
            best = min(best, impurity(y[left, None], none[left]) + impurity(y[~left, None], none[~left]))
    assert by_order == pytest.approx(best)


def test_classes_hold_about_as_many_records_and_keep_the_order() -> None:
    rng = np.random.default_rng(0)
    codes = np.sort(rng.integers(0, 5000, 20_000)).astype(np.int32)
    bins, tops = binned(codes)
    assert (np.diff(bins.astype(int)) >= 0).all()
    assert np.bincount(bins).max() <= 2 * 20_000 / 256
    for b in np.unique(bins):
        assert codes[bins == b].max() <= tops[b]
        assert (codes[bins > b] > tops[b]).all()


def test_nearest_distance_is_the_smallest_of_all() -> None:
    rng = np.random.default_rng(1)
    x, z = rng.random((30, 3)), rng.random((40, 3))
    x[3, 1] = z[5, 1] = np.nan
    a, b = rng.integers(0, 3, (30, 2)).astype(np.int32), rng.integers(0, 3, (40, 2)).astype(np.int32)
    but = np.arange(30) - 1

    def far(i: int, r: int) -> float:
        gap = 0.0
        for j in range(3):
            one, two = x[i, j], z[r, j]
            gap += (np.isnan(one) != np.isnan(two)) if np.isnan(one) or np.isnan(two) else abs(one - two)
        return gap + int((a[i] != b[r]).sum())

    want = [min(far(i, r) for r in range(40) if r != but[i]) for i in range(30)]
    np.testing.assert_allclose(nearest_distance(x, a, z, b, but), want)
