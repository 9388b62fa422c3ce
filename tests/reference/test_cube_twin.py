"""The cube method: exact sizes, right inclusion probabilities, balanced totals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.draws import Seed
from sfumato.kernels.cube import cube, null_vector
from sfumato.masks.group_swap.swap import balanced, inclusion, successive


def draws(number: int) -> np.random.Generator:
    return Seed.from_int(number).draws("cube").stream().generator()


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 8))
def test_the_null_vector_solves_the_equations(seed: int, c: int, m: int) -> None:
    """Against the rank by singular values."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-2, 3, (c, m)).astype(float)
    out = np.full(m, np.nan)
    found = null_vector(matrix.copy(), c, m, out)
    assert found == (np.linalg.matrix_rank(matrix) < m)
    if found:
        assert np.abs(out).max() > 0
        assert np.abs(matrix @ out).max() < 1e-9


@given(st.integers(0, 10_000))
def test_sizes_are_exact_in_both_directions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n0, n1 = (int(v) for v in rng.integers(2, 40, 2))
    k = int(rng.integers(1, min(n0, n1) + 1))
    terms = rng.lognormal(0, 2, (4, n0 + n1))
    out, back = balanced(
        rng.random(n0) ** 3, rng.random(n1) ** 3, k, terms[:, :n0], terms[:, n0:], draws(seed)
    )
    assert len(out) == len(back) == k


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=30), st.data())
def test_inclusion_probabilities(weights: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(weights)))
    w = np.array(weights)
    pi = inclusion(w, k)
    assert pi.sum() == pytest.approx(k)
    assert (pi >= 0).all()
    assert (pi <= 1 + 1e-12).all()
    free = pi < 1 - 1e-9
    if free.sum() > 1:  # proportional where not capped
        ratio = pi[free] / w[free]
        assert ratio == pytest.approx(ratio[0], rel=1e-6)


def test_the_cube_keeps_inclusion_probabilities() -> None:
    rng = np.random.default_rng(3)
    n, runs = 14, 4000
    pi = inclusion(rng.random(n) + 0.05, 5)
    matrix = np.c_[np.ones(n), rng.normal(size=(n, 2))]
    counts = np.zeros(n)
    generator = draws(1)
    for _ in range(runs):
        counts += cube(pi, matrix, generator.permutation(n), generator)
    error = np.sqrt(np.maximum(pi * (1 - pi), 1e-12) / runs)
    assert (np.abs(counts / runs - pi) < 4.5 * error + 1e-9).all()


def test_the_cube_balances_what_independent_draws_do_not() -> None:
    rng = np.random.default_rng(5)
    n = 300
    terms = rng.normal(size=(5, 2 * n))
    e = np.full(n, 0.3)
    generator = draws(2)
    off, off_successive = [], []
    for _ in range(60):
        out, back = balanced(e, e, 60, terms[:, :n], terms[:, n:], generator)
        expected = 0.2 * (terms[:, :n].sum(axis=1) - terms[:, n:].sum(axis=1))
        off.append(terms[:, out].sum(axis=1) - terms[:, n + back].sum(axis=1) - expected)
        one, two = (successive(e, 60, generator.random(n)) for _ in range(2))
        off_successive.append(terms[:, one].sum(axis=1) - terms[:, n + two].sum(axis=1) - expected)
    # Landing moves a few units at most, each of size about one.
    assert np.std(off) < 0.25 * np.std(off_successive)


def test_successive_draws_follow_their_law() -> None:
    """P(first i, then j) = w_i/W · w_j/(W − w_i), summed over both orders, for every set of two."""
    w = np.array([0.5, 0.2, 0.2, 0.1])
    runs = 20_000
    generator = draws(3)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(runs):
        got = tuple(successive(w, 2, generator.random(4)).tolist())
        counts[got] = counts.get(got, 0) + 1
    for i, j in itertools.combinations(range(4), 2):
        p = w[i] * w[j] / (1 - w[i]) + w[j] * w[i] / (1 - w[j])
        error = np.sqrt(p * (1 - p) / runs)
        assert counts.get((i, j), 0) / runs == pytest.approx(p, abs=4.5 * error)
