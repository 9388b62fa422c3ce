"""Pairing of strata: greedy, lazy greedy and matching against brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.masks.group_swap.matching import lazy_matching
from sfumato.masks.group_swap.pairs import (
    Distances,
    fit_pair,
    greedy,
    lazy_greedy,
    linear_distances,
    matching,
    pair_strata,
)
from sfumato.masks.group_swap.swap import allocate


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


@given(st.integers(2, 9), st.integers(0, 1000), st.floats(0.3, 1.0))
@settings(max_examples=60)
def test_the_lazy_matching_has_the_least_total(size: int, seed: int, tight: float) -> None:
    """Against trying everything, where the bound is one; odd numbers and odd cycles included."""
    d = random_distances(size, seed)
    if seed % 2:  # distances of points: near triples make fractional solutions
        x = np.random.default_rng(seed).normal(0, 1, (size, 2)).round(1)
        d = {(a, b): float(np.hypot(*(x[a] - x[b]))) + 1e-6 * (a + b) for a, b in d}
    rng = np.random.default_rng(seed + 1)
    at, to = (np.array(v) for v in zip(*d, strict=True))
    bound = np.array([v * rng.uniform(tight, 1.0) for v in d.values()])
    lazy = Given(d)
    pairs, optimal = lazy_matching(lazy.__getitem__, lazy.fit, np.arange(size), at, to, bound)
    assert optimal
    total = sum(d[p] for p in pairs)
    left = set(range(size)) - {s for p in pairs for s in p}
    assert len(left) == size % 2
    total += sum(min(v for p, v in d.items() if s in p) for s in left)
    assert total == pytest.approx(least_total(size, d))
    assert lazy.fits <= len(d)


def test_the_lazy_matching_asks_for_few_distances() -> None:
    """Sixty points in the plane with an exact bound: little more than the thirty pairs themselves."""
    x = np.random.default_rng(3).random((60, 2))
    d = {(a, b): float(np.hypot(*(x[a] - x[b]))) for a, b in itertools.combinations(range(60), 2)}
    at, to = (np.array(v) for v in zip(*d, strict=True))
    lazy = Given(d)
    pairs, optimal = lazy_matching(
        lazy.__getitem__, lazy.fit, np.arange(60), at, to, np.array(list(d.values()))
    )
    assert optimal
    assert len(pairs) == 30
    assert lazy.fits < 60
    by_program = matching(Given(d), np.arange(60), d)
    assert sum(d[p] for p in pairs) == pytest.approx(sum(d[p] for p in by_program))


def test_a_matching_that_is_cut_short_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import polars as pl

    import sfumato as sf
    from sfumato.draws import Seed
    from sfumato.masks.group_swap import matching as _strata_matching

    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"AREA": np.repeat(np.arange(9), 20), "X": rng.normal(0, 1, 180)})

    def noted(search: str) -> sf.masks.base.Notes:
        mask = sf.GroupSwap(strata=["AREA"], n_swap=2, covariates=["X"], search=search)
        return mask.carry_out(sf.Microdata(frame), Seed.from_int(1).draws("group_swap"))[1]

    for search in ("exact", "fast"):
        notes = noted(search)
        assert notes.figures["matchings_cut_short"] == 0
        assert not any("cut short" in w for w in notes.warnings)
    monkeypatch.setattr(_strata_matching, "ROUNDS", 1)
    notes = noted("fast")
    assert notes.figures["matchings_cut_short"] == 1
    assert any("cut short" in w for w in notes.warnings)
    assert notes.figures["records_moved"] > 0

    import scipy.optimize

    real = scipy.optimize.milp

    def stopped(*args: object, **more: object) -> object:
        found = real(*args, **more)  # type: ignore[arg-type]
        found.status = 1  # as HiGHS says at its node limit
        return found

    monkeypatch.setattr(scipy.optimize, "milp", stopped)
    assert noted("exact").figures["matchings_cut_short"] == 1


def test_distances_of_pairs_are_those_of_single_fits() -> None:
    """Against fit_pair: skewed and uneven strata, a term constant in a pair, separated strata."""
    rng = np.random.default_rng(8)
    strata = []
    for s in range(7):
        n = 25 + 40 * s
        x = rng.normal(0.4 * s, 1, (4, n))
        x[1] = np.exp(x[1])
        x[2] = x[0] > 0.5
        x[3] = 3.0 if s < 2 else rng.poisson(1.0, n)
        strata.append(x)
    strata.append(strata[0] + 50.0)  # separated from all others
    distances = Distances(strata)
    pairs = list(itertools.combinations(range(8), 2))
    distances.fit(pairs)
    for a, b in pairs:
        want = fit_pair(strata[a], strata[b])
        tolerance = 2e-3 if want.separated else 2e-7
        assert distances.u[a, b] == pytest.approx(want.u, abs=tolerance), (a, b)
        c = strata[b].shape[1] / (strata[a].shape[1] + strata[b].shape[1])
        assert distances.u[a, b] <= c * (1 - c)
    assert distances.fits == len(pairs)


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


def test_strata_of_one_record_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs are alike, so no programme proves anything: it ends after a round a stratum and some."""
    from sfumato.masks.group_swap import matching

    solved = []
    solve = matching._Programme.solve

    def counted(self: matching._Programme, *given: Any) -> Any:
        solved.append(1)
        return solve(self, *given)

    monkeypatch.setattr(matching._Programme, "solve", counted)
    n = 60
    x = np.random.default_rng(0).normal(size=n)
    data = sf.Microdata(pl.DataFrame({"S": [f"s{k}" for k in range(n)], "X": x}))
    masked = sf.GroupSwap(strata=["S"], n_swap=1, covariates=["X"]).mask(data, seed=1)
    assert sorted(masked.frame["S"]) == sorted(data.frame["S"])
    assert len(solved) <= matching.FEW_ROUNDS + n
