"""The kernels of a deal in blocks against slow, obvious twins."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels.blocks import (
    AT_MOST,
    EQUAL,
    LESS,
    UNEQUAL,
    alike_groups,
    count_broken,
    mend,
    repair_blocks,
)
from sfumato.masks.cluster_shuffle.clauses import Clauses, Literal


def table(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of four columns (some absent), their numbers, and where each column's begin."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 6, (n, 4)).astype(np.int32)
    codes[rng.random((n, 4)) < 0.1] = -1
    numbers = np.tile(np.array([0.0, 1.0, 2.0, 3.0, 4.0, np.nan]), 4)
    return codes, numbers, np.arange(0, 30, 6).astype(np.int64)


CLAUSES = Clauses(
    [
        [Literal(0, 1, AT_MOST, 1.0)],
        [Literal(2, -1, UNEQUAL, 3.0), Literal(3, 0, LESS, 0.0)],
        [Literal(1, -1, EQUAL, 2.0, open=False), Literal(3, -1, AT_MOST, 2.0, open=False)],
    ]
)


def twin(codes: np.ndarray, numbers: np.ndarray, at: np.ndarray) -> list[int]:
    def value(r: int, c: int) -> float:
        return float(numbers[at[c] + codes[r, c]]) if codes[r, c] >= 0 else float("nan")

    out = []
    for r in range(len(codes)):
        bad = 0
        for clause in CLAUSES.literals:
            true = []
            for z in clause:
                x = value(r, z.column)
                y = z.constant if z.other < 0 else value(r, z.other) + z.constant
                if np.isnan(x) or np.isnan(y):
                    true.append(z.open)
                else:
                    true.append({LESS: x < y, AT_MOST: x <= y, EQUAL: x == y, UNEQUAL: x != y}[z.relation])
            bad += not any(true)
        out.append(bad)
    return out


@pytest.mark.parametrize("seed", range(5))
def test_broken_clauses_are_counted_as_the_twin_counts_them(seed: int) -> None:
    codes, numbers, at = table(seed=seed)
    assert count_broken(codes, *CLAUSES.arrays(), numbers, at).tolist() == twin(codes, numbers, at)


def pool_arrays(pool: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    of = pool.reshape(-1, 1).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(np.bincount(pool))]).reshape(1, -1).astype(np.int64)
    return of, start, np.argsort(pool, kind="stable").reshape(-1, 1).astype(np.int64)


@pytest.mark.parametrize("seed", range(3))
def test_mending_leaves_fewer_broken_and_every_pool_its_values(seed: int) -> None:
    codes, numbers, at = table(seed=seed)
    pool = np.arange(60) // 20
    before = codes.copy()
    words = np.random.default_rng(seed).integers(0, 2**63, 20_000).astype(np.uint64)
    moves = np.array([(0, 1, 0), (1, 2, 0), (2, 4, 0)], np.int64)
    left = mend(codes, moves, *pool_arrays(pool), *CLAUSES.arrays(), numbers, at, words)
    now = twin(codes, numbers, at)
    assert sorted(left.tolist()) == [r for r in range(60) if now[r]]
    assert sum(now) < sum(twin(before, numbers, at))
    for g in range(3):
        for a, b in ((0, 1), (1, 2), (2, 4)):
            rows = pool == g
            assert sorted(map(tuple, codes[rows, a:b])) == sorted(map(tuple, before[rows, a:b]))


PLAIN = (np.empty((0, 0), np.bool_), np.empty(0, np.int64), np.empty(0), np.empty((0, 0)))
"""All products count, and none is weighted."""


@pytest.mark.parametrize("seed", range(3))
def test_a_repair_of_some_products_and_of_weighted_ones_against_a_slow_twin(seed: int) -> None:
    """Every exchange judged by the whole file: the same are taken, and the same gaps are left."""
    rng = np.random.default_rng(seed)
    n, p = 24, 3
    cluster = np.arange(n) // 8
    codes = rng.integers(0, 6, (n, p)).astype(np.int32)
    weight = rng.uniform(0.2, 3.0, n)
    tables = [rng.normal(size=(2, 6)).astype(np.float32).astype(float) for _ in range(p)]
    first = np.array([0, 2, 4, 6])
    main = np.array([0, 2, 4])
    on = np.repeat(np.arange(p), 2)[:, None] != np.repeat(np.arange(p), 2)[None]
    on[1, 3] = on[3, 1] = on[5, 0] = on[0, 5] = False

    def made(c: np.ndarray) -> np.ndarray:
        return np.column_stack([t[u][c[:, j]] for j, t in enumerate(tables) for u in range(2)])

    there = made(rng.integers(0, 6, (n, p)))

    def gaps(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        f = made(c)
        heavy = ((f * weight[:, None]).T @ f - (there * weight[:, None]).T @ there) / n
        heavy = heavy[np.ix_(main, main)] * (1 - np.eye(3))
        return np.where(on, (f.T @ f - there.T @ there) / n, 0.0), heavy

    def left(c: np.ndarray) -> float:
        return sum(float((g**2).sum()) for g in gaps(c))

    words = rng.integers(0, 2**63, 400).astype(np.uint64)
    slow, taken = codes.copy(), 0
    for word in words.tolist():
        a = ((word >> 32) * n) >> 32
        j = ((word & 0xFFFF) * p) >> 16
        b = int(cluster[a]) * 8 + (((word * 0x9E3779B97F4A7C15) % 2**64) >> 24) % 8
        trial = slow.copy()
        trial[a, j], trial[b, j] = slow[b, j], slow[a, j]
        if left(trial) < left(slow) - 1e-12:
            slow, taken = trial, taken + 1
    fast, features = codes.copy(), made(codes).astype(np.float32)
    gap, heavy = gaps(codes)
    moves = np.array([(j, j + 1, 0, 0) for j in range(p)], np.int64)
    none, at = np.empty(0, np.int64), np.zeros(p + 1, np.int64)
    done, _, total = repair_blocks(
        features, first, fast, moves, np.zeros(1, np.int32), at, *pool_arrays(cluster), np.zeros(n, np.bool_),
        none, np.zeros(p + 1, np.int64), *Clauses().arrays(), np.empty(0), at, gap, on, main, weight, heavy,
        words, 0.0,
    )  # fmt: skip
    assert done == taken > 10
    np.testing.assert_array_equal(fast, slow)
    for got, want in zip((gap, heavy), gaps(slow), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)
    assert total == pytest.approx(left(slow), abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_repair_brings_moments_nearer_and_breaks_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 120
    codes = rng.integers(0, 6, (n, 4)).astype(np.int32)
    numbers = np.tile(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), 4)
    at = np.arange(0, 30, 6).astype(np.int64)
    rules = Clauses([[Literal(0, 2, AT_MOST, 4.0)]])
    first = np.arange(5).astype(np.int64)
    features = codes.astype(np.float32)
    wanted = rng.normal(size=(4, 4))
    wanted = wanted + wanted.T
    gap = features.astype(float).T @ features / n - wanted
    for a, b in ((0, 1), (1, 3), (3, 4)):
        gap[a:b, a:b] = 0.0  # what moves whole
    gap[1, 2] = gap[2, 1] = (features[:, 1].astype(float) @ features[:, 2]) / n - wanted[
        1, 2
    ]  # but 2 moves alone, too
    kind = np.tile(np.array([0, 1, 1, 1, 1, 1], np.int32), 4)
    moves = np.array([(0, 1, 0, 0), (1, 3, 0, 0), (3, 4, 0, 0), (2, 3, 0, 1)], np.int64)
    touching = [rules.touching(int(m[0]), int(m[1])) for m in moves]
    assert [len(t) for t in touching] == [1, 1, 0, 1]
    touched = np.array([c for t in touching for c in t], np.int64)
    touched_at = np.concatenate([[0], np.cumsum([len(t) for t in touching])]).astype(np.int64)
    pool = np.arange(n) // 30
    frozen = pool == 3
    before, start = codes.copy(), float((gap**2).sum())
    was = count_broken(codes, *rules.arrays(), numbers, at)
    words = rng.integers(0, 2**63, 30_000).astype(np.uint64)
    done, refused, left = repair_blocks(
        features, first, codes, moves, kind, at, *pool_arrays(pool), frozen, touched, touched_at,
        *rules.arrays(), numbers, at, gap, *PLAIN, words, 0.0,
    )  # fmt: skip
    assert done > 50
    assert refused > 0
    assert left < start
    assert np.array_equal(features, codes.astype(np.float32))
    fresh = features.astype(float).T @ features / n - wanted
    for u, v in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
        assert gap[u, v] == pytest.approx(fresh[u, v], abs=1e-9)
    assert left == pytest.approx(float((gap**2).sum()))
    now = count_broken(codes, *rules.arrays(), numbers, at)
    assert now.sum() <= was.sum()
    assert np.array_equal(codes[frozen][:, :3], before[frozen][:, :3])  # those moves touch the rule
    for g in range(4):
        rows = pool == g
        for c in range(4):
            assert sorted(codes[rows, c]) == sorted(before[rows, c])
        # Column 2 alone changes places among codes of one kind only: patterns of (column 1, kind) stay.
        patterns = [sorted((a, int(b > 0)) for a, b in x[rows][:, 1:3]) for x in (codes, before)]
        assert patterns[0] == patterns[1]


def test_alike_rows_share_a_group_of_enough() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 80, (50, 2)).astype(float)
    begin = np.array([0, 2, 9, 50], np.int64)
    group = np.empty(50, np.int64)
    many = alike_groups(values, begin, 3, group)
    assert sorted(set(group.tolist())) == list(range(many))
    held = np.bincount(group)
    assert held[group[0]] == 2  # nobody else may share with these two
    assert all(3 <= h <= 5 for g, h in enumerate(held) if g != group[0])
    for a, b in ((0, 2), (2, 9), (9, 50)):
        assert not set(group[a:b]) & set(np.delete(group, np.arange(a, b)))
