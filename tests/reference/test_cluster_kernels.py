"""The kernels of clusters and of the shuffle against slow, obvious twins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sfumato.draws import Seed
from sfumato.kernels import clusters, shuffle
from sfumato.kernels.mdav import mdav
from sfumato.stats.clusters import Atoms, gather


def points_of(n: int, q: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, q)).astype(np.float32)


@pytest.mark.parametrize("n", [7, 20, 41, 200])
@pytest.mark.parametrize("k", [2, 3, 10])
def test_atoms_of_one_record_are_gathered_as_mdav_does(n: int, k: int) -> None:
    """One record an atom, no units: the clusters are MDAV's (an independent kernel, tested on its own)."""
    if n < 2 * k:
        return
    points = points_of(n, 3, n + k)
    ones = np.ones(n, np.int64)
    label = np.empty(n, np.int64)
    count = clusters.gather_alike(points, np.arange(n), ones, ones, k, label)
    want = mdav(points.astype(np.float64), k)
    assert count == want.max() + 1
    pairs = set(zip(label.tolist(), want.tolist(), strict=True))
    assert len(pairs) == count


@pytest.mark.parametrize("seed", range(6))
def test_a_cluster_is_whole_atoms_and_large_enough_for_its_largest_unit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = 300, 5
    weight = rng.integers(1, 9, n)
    cap = np.minimum(weight, rng.integers(1, 4, n))
    found = Atoms(np.arange(n), np.arange(n), weight, cap)
    got = gather(points_of(n, 4, seed), found, np.sort(rng.integers(0, 3, n)), k)
    for g in range(got.n_clusters):
        own = got.label == g
        assert weight[own].sum() >= k * cap[own].max()


def test_the_cut_nearest_to_half_of_the_records() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        m, k = int(rng.integers(2, 12)), int(rng.integers(1, 5))
        weight, cap = rng.integers(1, 6, m), np.ones(m, np.int64)
        cap = np.minimum(weight, rng.integers(1, 3, m))
        order = rng.permutation(m)
        w, c = weight[order], cap[order]
        allowed = {
            cut: abs(2 * w[:cut].sum() - w.sum())
            for cut in range(1, m)
            if w[:cut].sum() >= k * c[:cut].max() and w[cut:].sum() >= k * c[cut:].max()
        }
        got = clusters.best_cut(order, np.arange(m), weight, cap, k)
        assert (got == 0) == (not allowed)
        if allowed:
            assert allowed[got] == min(allowed.values())


def test_the_longest_axis_is_the_first_eigenvector() -> None:
    points = points_of(500, 5, 8) * np.array([1, 5, 1, 2, 1], np.float32)
    weight = np.random.default_rng(1).integers(1, 4, 500)
    axis = clusters.longest_axis(points, np.arange(500), weight, 10_000)
    mean = np.average(points, axis=0, weights=weight)
    cov = ((points - mean) * weight[:, None]).T @ (points - mean)
    first = np.linalg.eigh(cov)[1][:, -1]
    assert abs(first @ axis) == pytest.approx(1, abs=1e-6)
    assert axis[np.abs(axis).argmax()] > 0


def blurred_by_hand(values: list[float], counts: list[int], least: int) -> float:
    """The least sum of squares of any grouping of neighbours with ``least`` records or more."""
    n = len(values)
    best = np.inf
    for cuts in itertools.product([False, True], repeat=n - 1):
        groups, at = [], 0
        for i, cut in enumerate([*cuts, True]):
            if cut:
                groups.append(range(at, i + 1))
                at = i + 1
        if any(sum(counts[i] for i in g) < least for g in groups):
            continue
        loss = 0.0
        for g in groups:
            own = np.repeat([values[i] for i in g], [counts[i] for i in g])
            loss += float(((own - own.mean()) ** 2).sum())
        best = min(best, loss)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_blur_groups_are_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, least = 9, 3
    values = np.sort(rng.choice(100, n, replace=False)).astype(np.float64)
    counts = rng.integers(1, least, n)
    group = shuffle.blur_groups(values, counts, least)
    assert (np.diff(group) <= 0).all() or (np.diff(group) >= 0).all()
    loss = 0.0
    for g in np.unique(group):
        own = np.repeat(values[group == g], counts[group == g])
        assert len(own) >= least
        loss += float(((own - own.mean()) ** 2).sum())
    assert loss == pytest.approx(blurred_by_hand(values.tolist(), counts.tolist(), least))


def test_root_of_a_correlation_singular_or_not() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4))
    x = np.column_stack([x, x[:, 0] + x[:, 1], np.zeros(50)])
    x -= x.mean(0)
    factor = shuffle.root(x.T @ x)
    want = np.eye(6)
    want[:5, :5] = np.corrcoef(x[:, :5].T)
    np.testing.assert_allclose(factor @ factor.T, want, atol=1e-8)


def test_pooled_products_and_gap_are_what_they_say() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    y = rng.normal(size=(60, 3)).astype(np.float32)
    start = np.array([0, 10, 35, 60])
    want = np.zeros((3, 3))
    for a, b in itertools.pairwise(start):
        d = x[a:b].astype(float) - x[a:b].astype(float).mean(0)
        want += d.T @ d
    np.testing.assert_allclose(shuffle.pooled_products(x, start), want, rtol=1e-6)
    gap = (x.astype(float).T @ x - y.astype(float).T @ y) / 60
    np.testing.assert_allclose(shuffle.moment_gap(x, y), gap, atol=1e-6)


@pytest.mark.parametrize("size", [5, 100])
def test_deal_gives_codes_in_the_order_of_lots(size: int) -> None:
    rng = np.random.default_rng(size)
    start = np.array([0, size, 3 * size])
    codes = rng.integers(0, 6, 3 * size).astype(np.int32)
    lot = rng.normal(size=3 * size)
    out = np.empty_like(codes)
    shuffle.deal_column(codes, start, lot, out)
    for a, b in itertools.pairwise(start):
        assert sorted(out[a:b]) == sorted(codes[a:b])
        assert (np.diff(out[a:b][np.argsort(lot[a:b])]) >= 0).all()


def test_repair_against_a_slow_twin() -> None:
    """Every exchange judged by the whole file: the same exchanges are taken and the same gap is left."""
    rng = np.random.default_rng(5)
    n, p = 24, 3
    start = np.array([0, 8, 16, 24])
    cluster = np.repeat(np.arange(3), 8).astype(np.int32)
    codes = rng.integers(0, 6, (n, p)).astype(np.int32)
    tables = [rng.normal(size=(2, 6)) for _ in range(p)]
    first = np.array([0, 2, 4, 6])

    def made(c: np.ndarray) -> np.ndarray:
        return np.column_stack([t[u][c[:, j]] for j, t in enumerate(tables) for u in range(2)])

    wanted = made(rng.integers(0, 6, (n, p)))
    owner = np.repeat(np.arange(p), 2)
    across = owner[:, None] != owner[None]

    def gap_of(c: np.ndarray) -> np.ndarray:
        return np.where(across, (made(c).T @ made(c) - wanted.T @ wanted) / n, 0.0)

    words = Seed.from_int(3).draws("t").stream("w").bits(0, 400)
    slow = codes.copy()
    taken = 0
    for word in words.tolist():
        a = ((word >> 32) * n) >> 32
        g = cluster[a]
        b = int(start[g]) + ((((word >> 16) & 0xFFFF) * 8) >> 16)
        j = ((word & 0xFFFF) * p) >> 16
        trial = slow.copy()
        trial[a, j], trial[b, j] = slow[b, j], slow[a, j]
        if (gap_of(trial) ** 2).sum() < (gap_of(slow) ** 2).sum() - 1e-12:
            slow, taken = trial, taken + 1
    features, fast, gap = made(codes).astype(np.float32), codes.copy(), gap_of(codes)
    done, total = shuffle.repair(features, first, fast, cluster, start, gap, words, 0.0)
    assert done == taken > 10
    np.testing.assert_array_equal(fast, slow)
    np.testing.assert_allclose(gap, gap_of(slow), atol=1e-5)
    assert total == pytest.approx((gap**2).sum(), abs=1e-5)


@pytest.mark.parametrize(("size", "levels"), [(20, 3), (300, 3), (200, 9)])
def test_whole_records_counted_by_hand(size: int, levels: int) -> None:
    """Small clusters are compared pair by pair, large ones by hashes."""
    rng = np.random.default_rng(6)
    own, dealt = rng.integers(0, levels, (2, 2 * size, 4)).astype(np.int32)
    start = np.array([0, size, 2 * size])
    counts = [rng.permutation(np.resize([1, 5, 2], levels)) for _ in range(4)]
    rare = np.concatenate([c < 3 for c in counts])
    at = levels * np.arange(5)
    whole = three = 0
    for a, b in itertools.pairwise(start):
        for r in range(a, b):
            alike = [own[i] == dealt[r] for i in range(a, b)]
            whole += any(s.all() for s in alike)
            three += any(sum(s[j] and counts[j][dealt[r, j]] < 3 for j in range(4)) >= 3 for s in alike)
    counted = shuffle.whole_records(own, dealt, start, rare, at)
    assert counted.shape == (2, 2)
    assert tuple(counted.sum(axis=0)) == (whole, three)
    assert whole > 0
    assert three > 0
