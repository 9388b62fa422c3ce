"""Pairing of strata: greedy, lazy greedy and matching against brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.masks._strata_pairs import (
    Distances,
    fit_pair,
    greedy,
    lazy_greedy,
    linear_distances,
    matching,
    pair_strata,
)
from sfumato.masks._strata_swap import allocate


class Given(Distances):
    """Distances that are given instead of fitted."""

    def __init__(self, values: dict[tuple[int, int], float]) -> None:
        super().__init__([])
        self.given = values

    def fit(self, pairs: object) -> None:
        for p in pairs:  # type: ignore[attr-defined]
            if p not in self.values:
                self.values[p] = self.u[p] = self.given[p]
                self.fits += 1


def random_distances(size: int, seed: int) -> dict[tuple[int, int], float]:
    rng = np.random.default_rng(seed)
    return {p: float(rng.random()) for p in itertools.combinations(range(size), 2)}


def perfect(members: tuple[int, ...]) -> Iterator[list[tuple[int, int]]]:
    """Every way to pair an even number of strata."""
    if not members:
        yield []
        return
    first, rest = members[0], members[1:]
    for other in rest:
        left = tuple(m for m in rest if m != other)
        for more in perfect(left):
            yield [(first, other), *more]


def least_total(size: int, d: dict[tuple[int, int], float]) -> float:
    """The least total by trying everything; a stratum left over costs its nearest's distance."""
    every = tuple(range(size))
    if size % 2 == 0:
        return min(sum(d[p] for p in way) for way in perfect(every))
    best = np.inf
    for alone in every:
        near = min(v for p, v in d.items() if alone in p)
        rest = tuple(m for m in every if m != alone)
        best = min(best, near + min(sum(d[p] for p in way) for way in perfect(rest)))
    return best


@given(st.integers(2, 8), st.integers(0, 1000))
@settings(max_examples=40)
def test_matching_has_the_least_total(size: int, seed: int) -> None:
    d = random_distances(size, seed)
    pairs = pair_strata(Given(d), np.arange(size), "matching", fast=False)
    assert {s for p in pairs for s in p} == set(range(size))
    assert sum(d[p] for p in pairs) == pytest.approx(least_total(size, d))
    by_greedy = pair_strata(Given(d), np.arange(size), "greedy", fast=False)
    assert sum(d[p] for p in pairs) <= sum(d[p] for p in by_greedy) + 1e-12


@given(st.integers(2, 9), st.integers(0, 1000))
def test_greedy_takes_the_nearest_pair_each_time(size: int, seed: int) -> None:
    d = random_distances(size, seed)
    pairs = pair_strata(Given(d), np.arange(size), "greedy", fast=False)
    left = set(range(size))
    want = set()
    while len(left) > 1:
        nearest = min((p for p in d if set(p) <= left), key=lambda p: d[p])
        want.add(nearest)
        left -= set(nearest)
    for odd in left:  # the odd stratum goes with its nearest
        want.add(min((p for p in d if odd in p), key=lambda p: d[p]))
    assert set(pairs) == want
    assert [d[p] for p in pairs] == sorted(d[p] for p in pairs)


@given(st.integers(4, 14), st.integers(0, 1000))
def test_lazy_greedy_is_greedy_where_the_closed_form_is_a_lower_bound(size: int, seed: int) -> None:
    d = random_distances(size, seed)
    rng = np.random.default_rng(seed + 1)
    at, to = (np.array(v) for v in zip(*d, strict=True))
    low = np.array([d[p] * rng.uniform(0.5, 1.0) for p in d])
    lazy = Given(d)
    found = lazy_greedy(lazy, at, to, low, size, slack=0.0)
    assert set(found) == set(greedy(Given(d), d))
    assert lazy.fits <= len(d)


def clouds(count: int, seed: int, n: int = 60) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.normal(0, 1.0, (3, 1)), 1.0, (3, n + 5 * s)) for s in range(count)]


def test_the_fast_search_finds_the_exact_pairs() -> None:
    strata = clouds(46, 1)
    for method in ("greedy", "matching"):
        exact, fast = Distances(strata), Distances(strata)
        want = pair_strata(exact, np.arange(46), method, fast=False)
        found = pair_strata(fast, np.arange(46), method, fast=True)
        assert {s for p in found for s in p} == set(range(46))
        assert len(set(want) & set(found)) >= 21  # of 23
        assert sum(exact[p] for p in found) <= 1.05 * sum(exact[p] for p in want)
        assert fast.fits < exact.fits / 2


def test_an_odd_number_in_the_fast_search() -> None:
    found = pair_strata(Distances(clouds(43, 2)), np.arange(43), "matching", fast=True)
    assert {s for p in found for s in p} == set(range(43))
    assert len(found) == 22


def test_the_closed_form_is_the_linear_probability_model() -> None:
    """Against least squares of the label on the terms."""
    a, b = clouds(2, 4)
    _, _, u = linear_distances([a / 3, b / 3], np.arange(2), "share")  # within the clip
    X = np.c_[np.ones(a.shape[1] + b.shape[1]), np.concatenate([a, b], axis=1).T]
    y = np.r_[np.zeros(a.shape[1]), np.ones(b.shape[1])]
    fitted = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    assert u[0] == pytest.approx(np.mean((fitted - y.mean()) ** 2), rel=1e-6)


def test_half_adds_the_squared_imbalance() -> None:
    a, b = clouds(2, 4)
    share, half = Distances([a, b]), Distances([a, b], "half")
    c = b.shape[1] / (a.shape[1] + b.shape[1])
    assert half[0, 1] == pytest.approx(share[0, 1] + (c - 0.5) ** 2)


def test_separated_strata_have_the_largest_distance() -> None:
    x = np.linspace(0, 1, 30)[None]
    fit = fit_pair(x, x + 5)
    assert fit.separated
    assert fit.u <= 0.25
    assert fit.u == pytest.approx(0.25, abs=1e-3)
    assert fit.capacity < 0.2


def test_a_matching_without_candidates_for_all_keeps_what_greedy_found() -> None:
    d = {(0, 1): 0.1, (0, 2): 0.2, (0, 3): 0.3}
    assert matching(Given(d), np.arange(4), d) == [(0, 1)]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.floats(0, 100), st.integers(0, 60)), min_size=1, max_size=12)
)
def test_allocation_keeps_the_total(rows: list[tuple[int, float, int]]) -> None:
    wanted, capacity, most = (list(v) for v in zip(*rows, strict=True))
    out = allocate(wanted, capacity, most, "capacity")
    assert sum(out) == min(sum(wanted), sum(most))
    assert all(0 <= k <= m for k, m in zip(out, most, strict=True))


def test_allocation_follows_capacity() -> None:
    # 120 swaps by capacities 30.6, 17.6, 75.9: shares 29.6, 17.0, 73.4.
    assert allocate([40, 40, 40], [30.6, 17.6, 75.9], [92, 76, 144], "capacity") == [30, 17, 73]
    assert allocate([40, 40, 40], [30.6, 17.6, 75.9], [92, 36, 144], "equal") == [40, 36, 40]
