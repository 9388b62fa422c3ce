"""The kernels of a swap within two bounds, each against a slow and obvious twin."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, rankdata

from sfumato.draws import Seed
from sfumato.kernels import rank_bounds, rank_bounds_law, rank_re_pair
from sfumato.stats.rank_bounds import BoundedLaw, _edges, calibrate, window_share


def generator(name: str, number: int = 0) -> np.random.Generator:
    return Seed.from_int(number).draws("rank bounds kernels").stream(name).generator()


def near(x, j: int, k: int, window: int, distance: float) -> bool:
    return abs(j - k) <= window and abs(x[j] - x[k]) <= distance


def exact_law(x: list[float], window: int, distance: float) -> dict[tuple[int, ...], Fraction]:
    """Every outcome of the pairing with its probability, by following every choice."""
    out: Counter[tuple[int, ...]] = Counter()

    def go(source: tuple[int, ...], free: frozenset[int], chance: Fraction) -> None:
        if not free:
            out[source] += chance  # type: ignore[assignment]
            return
        j = min(free)
        pool = [k for k in free if k != j and near(x, j, k, window, distance)]
        if not pool:
            return go(source, free - {j}, chance)
        for k in pool:
            new = list(source)
            new[j], new[k] = k, j
            go(tuple(new), free - {j, k}, chance / len(pool))
        return None

    go(tuple(range(len(x))), frozenset(range(len(x))), Fraction(1))
    return dict(out)


CASES = [
    ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 3, np.inf),
    ([0.0, 1.0, 1.0, 2.0, 5.0, 6.0, 7.0], 3, 2.0),
    ([0.0, 0.0, 0.0, 1.0, 10.0, 10.5, 11.0], 6, 1.0),
    ([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 33.0], 4, 7.0),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_pairs_are_drawn_by_the_law_of_the_literal_algorithm(case):
    x, window, distance = CASES[case]
    law = exact_law(x, window, distance)
    values, starts, windows = np.array(x), np.array([0, len(x)]), np.array([window])
    rng, source = generator("law", case), np.empty(len(x), np.uint32)
    draws = 40_000
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(draws):
        left = rank_bounds.pair_bounded(values, starts, windows, distance, rng, source)
        outcome = tuple(int(s) for s in source)
        assert left == sum(s == j for j, s in enumerate(outcome))
        seen[outcome] += 1
    assert set(seen) <= set(law)
    statistic = sum((seen[o] - draws * float(p)) ** 2 / (draws * float(p)) for o, p in law.items())
    assert statistic < chi2.ppf(0.9999, max(len(law) - 1, 1))


@st.composite
def columns(draw):
    sizes = draw(st.lists(st.integers(1, 30), min_size=1, max_size=3))
    kind = draw(st.sampled_from(["even", "heavy", "ties"]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    parts = []
    for n in sizes:
        x = rng.random(n) if kind == "even" else rng.lognormal(0, 2, n)
        parts.append(np.sort(np.round(x * 3) if kind == "ties" else x))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    windows = np.array([draw(st.integers(0, 12)) for _ in sizes])
    distance = draw(st.sampled_from([0.0, 0.3, 1.0, 5.0, np.inf]))
    return np.concatenate(parts), starts, windows, distance, draw(st.integers(0, 99))


def assert_within(values, starts, windows, distance, source) -> None:
    n = len(values)
    assert sorted(source.tolist()) == list(range(n))
    for s in range(len(starts) - 1):
        for j in range(starts[s], starts[s + 1]):
            k = int(source[j])
            assert starts[s] <= k < starts[s + 1]
            assert j == k or near(values, j, k, windows[s], distance)


@given(columns())
def test_nothing_goes_beyond_the_bounds_and_left_overs_are_joined(column):
    values, starts, windows, distance, seed = column
    rng, source = generator("bounds", seed), np.empty(len(values), np.uint32)
    left = rank_bounds.pair_bounded(values, starts, windows, distance, rng, source)
    assert_within(values, starts, windows, distance, source)
    assert (source[source] == np.arange(len(values))).all()
    assert (source == np.arange(len(values))).sum() == left
    stay = rank_bounds.settle(values, starts, windows, distance, source, rng)
    assert_within(values, starts, windows, distance, source)
    assert (source[source] == np.arange(len(values))).all()
    held = [j for s in range(len(starts) - 1) for j in range(starts[s], starts[s + 1]) if windows[s] > 0]
    assert sum(source[j] == j for j in held) == stay <= left
    cycled = rank_bounds.close_cycles(values, starts, windows, distance, source)
    assert_within(values, starts, windows, distance, source)
    assert sum(source[j] == j for j in held) == cycled <= stay


@given(columns())
def test_candidates_are_counted_on_both_sides(column):
    values, starts, windows, distance, _ = column
    out = np.empty(len(values), np.int64)
    rank_bounds.count_candidates(values, starts, windows, distance, out)
    for s in range(len(starts) - 1):
        span = range(starts[s], starts[s + 1])
        for j in span:
            assert out[j] == sum(k != j and near(values, j, k, windows[s], distance) for k in span)


@given(columns(), st.integers(1, 6))
def test_who_has_too_few_others_is_found(column, least):
    values, starts, _, distance, _ = column
    out = np.empty(len(values), np.bool_)
    windows = np.maximum(np.diff(starts) - 1, 0)  # windows that hold every rank
    counts = np.empty(len(values), np.int64)
    rank_bounds.count_candidates(values, starts, windows, distance, counts)
    wanted = np.repeat(np.minimum(least, windows), np.diff(starts))
    assert rank_bounds.short_of(values, starts, distance, least, out) == (counts < wanted).sum()
    assert (out == (counts < wanted)).all()


def test_the_rank_that_stays_is_uniform():
    n, window, runs = 21, 6, 6_000
    values, starts, windows = np.arange(float(n)), np.array([0, n]), np.array([window])
    rng, source = generator("stays"), np.empty(n, np.uint32)
    seen = np.zeros(n)
    for _ in range(runs):
        rank_bounds.pair_bounded(values, starts, windows, np.inf, rng, source)
        assert rank_bounds.settle(values, starts, windows, np.inf, source, rng) == 1
        seen[np.flatnonzero(source == np.arange(n))[0]] += 1
    # Hardly any place is out of reach of a chain, so that the chances are equal.
    assert ((seen - runs / n) ** 2 / (runs / n)).sum() < chi2.ppf(0.9999, n - 1)


def test_a_window_of_one_rank_can_leave_every_other_rank_only():
    n = 9
    values, starts, windows = np.arange(float(n)), np.array([0, n]), np.array([1])
    rng, source = generator("narrow"), np.empty(n, np.uint32)
    seen = set()
    for _ in range(200):
        rank_bounds.pair_bounded(values, starts, windows, np.inf, rng, source)
        rank_bounds.settle(values, starts, windows, np.inf, source, rng)
        seen.add(int(np.flatnonzero(source == np.arange(n))[0]))
    assert seen == {0, 2, 4, 6, 8}


@given(columns())
def test_middle_ranks_are_those_of_rankdata(column):
    values, starts, *_ = column
    out = np.empty(len(values))
    rank_re_pair.middle_ranks(values, starts, out)
    for low, high in itertools.pairwise(starts):
        assert out[low:high] == pytest.approx(rankdata(values[low:high]) - 1 + low)


def paired(column):
    values, starts, windows, distance, seed = column
    rng, source = generator("re-pair", seed), np.empty(len(values), np.uint32)
    rank_bounds.pair_bounded(values, starts, windows, distance, rng, source)
    rank_bounds.settle(values, starts, windows, distance, source, rng)
    middle = np.empty(len(values))
    rank_re_pair.middle_ranks(values, starts, middle)
    return source, middle, rng


def squares(x, source) -> float:
    return float(((x[source] - x) ** 2).sum())


@given(columns(), st.floats(0, 1))
def test_ranks_are_calmed_within_the_bounds_and_the_sum_is_right(column, share):
    values, starts, windows, distance, _ = column
    source, middle, rng = paired(column)
    before = squares(middle, source)
    stay = (source == np.arange(len(values))).sum()
    after, moves = rank_re_pair.calm_ranks(
        values, middle, starts, windows, distance, source, before, share * before, rng
    )
    assert_within(values, starts, windows, distance, source)
    assert (source == np.arange(len(values))).sum() == stay
    assert after == pytest.approx(squares(middle, source), abs=1e-6)
    assert after <= before + 1e-9
    assert (after < before) == (moves > 0)


@given(columns(), st.floats(0, 1.5))
def test_re_pairing_nears_the_wanted_sum_within_the_bounds(column, share):
    values, starts, windows, distance, _ = column
    source, middle, rng = paired(column)
    before, ranks = squares(values, source), squares(middle, source)
    lever = np.empty(len(values))
    rank_re_pair.leverage_bounded(values, starts, windows, distance, 1, lever)
    wanted = share * before
    after, ranks_after, moves = rank_re_pair.re_pair_bounded(
        values,
        middle,
        source,
        starts,
        windows,
        distance,
        before,
        wanted,
        0.0,
        ranks,
        ranks,
        lever,
        1,
        rng,
        50,
        2000,
    )
    assert_within(values, starts, windows, distance, source)
    assert after == pytest.approx(squares(values, source), rel=1e-9, abs=1e-6)
    assert ranks_after == pytest.approx(squares(middle, source), abs=1e-6)
    assert ranks_after <= ranks + 1e-6
    assert abs(after - wanted) <= abs(before - wanted) + 1e-9
    assert (moves > 0) == (after != before) or moves == 0


@given(columns(), st.integers(0, 99))
def test_moves_beyond_a_bound_are_counted(column, seed):
    values, starts, windows, distance, _ = column
    after = np.random.default_rng(seed).permutation(values)
    got = rank_bounds.count_beyond_bounds(values, starts, windows, distance, after)
    ranks = far = 0
    for s in range(len(starts) - 1):
        span = list(range(starts[s], starts[s + 1]))
        for j in span:
            ties = [k for k in span if values[k] == values[j]]
            low, high = max(starts[s], ties[0] - windows[s]), min(starts[s + 1] - 1, ties[-1] + windows[s])
            if not values[low] <= after[j] <= values[high]:
                ranks += 1
            elif abs(after[j] - values[j]) > distance:
                far += 1
    assert got == (ranks, far)


# -- the law --------------------------------------------------------------------------------------


def slow_law(x, window: int, distance: float):
    """The chance of every pair, by the definition: all chances U(k, j) as they stand at each turn."""
    n = len(x)
    unswapped, pairs = np.ones(n), np.zeros((n, n))
    for j in range(n):
        pool = [k for k in range(j + 1, n) if near(x, j, k, window, distance)]
        mass = sum(unswapped[k] for k in pool)
        if mass <= 1e-9:
            continue
        h = min(unswapped[j] / mass, 1 - 1e-9)
        for k in pool:
            pairs[j, k] = h * unswapped[k]
            unswapped[k] *= 1 - h
    return pairs


@pytest.mark.parametrize("shape", ["even", "heavy", "ties", "gap"])
@pytest.mark.parametrize(("window", "distance"), [(9, np.inf), (9, 0.5), (25, 1.0), (3, 2.0)])
def test_one_pass_gives_the_law_of_the_definition(shape, window, distance):
    rng = generator(shape)
    x = {
        "even": lambda: rng.random(80),
        "heavy": lambda: rng.lognormal(0, 1.5, 80),
        "ties": lambda: np.round(rng.exponential(1, 80)),
        "gap": lambda: np.append(rng.random(40), 5 + rng.random(40)),
    }[shape]()
    x = np.sort(x)
    pairs = slow_law(x, window, distance)
    law = BoundedLaw(x, np.array([0, len(x)]))
    log_h, log_a, first, top = law.chances(np.array([window]), distance)
    for j in range(len(x)):
        reach = [k for k in range(j + 1, len(x)) if near(x, j, k, window, distance)]
        assert top[j] == max(reach, default=j)
        assert first[j] == min([i for i in range(j) if near(x, i, j, window, distance)], default=j)
        for k in reach:
            chance = np.exp(log_h[j] + log_a[j] - log_a[first[k]])
            assert chance == pytest.approx(pairs[j, k], rel=1e-6, abs=1e-9)
    # A narrow reach adds 0.173 of a rank's share to the squares, as in a window of ranks.
    reach = top - np.arange(len(x))
    narrow = 1 + 0.173 / np.maximum(reach, 1) * (reach > 1)
    expected = 2 * (narrow[:, None] * pairs * (x[:, None] - x[None, :]) ** 2).sum()
    assert law.squares(np.array([window]), distance) == pytest.approx(expected, rel=1e-6)
    e1, e2 = law.expected(np.array([window]), distance, np.arange(len(x)))
    both = pairs + pairs.T
    stay = 1 - both.sum(axis=1)
    assert e1 == pytest.approx(both @ x + stay * x, abs=1e-6)
    assert e2 == pytest.approx(both @ x**2 + stay * x**2, abs=1e-6)


@pytest.mark.parametrize("shape", ["uniform", "normal", "lognormal 1", "lognormal 2", "zeros"])
@pytest.mark.parametrize("goal", [0.99, 0.95])
def test_the_law_predicts_what_swaps_lose(shape, goal):
    rng, n = generator(shape), 3_000
    x = np.sort(
        {
            "uniform": lambda: rng.random(n),
            "normal": lambda: rng.normal(0, 1, n),
            "lognormal 1": lambda: rng.lognormal(0, 1, n),
            "lognormal 2": lambda: rng.lognormal(0, 2, n),
            "zeros": lambda: np.where(rng.random(n) < 0.6, 0, rng.exponential(1, n)),
        }[shape]()
    )
    starts, windows = np.array([0, n]), np.array([int(n * window_share(goal))])
    found = calibrate(BoundedLaw(x, starts), windows, float(x.var()), goal)
    source, lost = np.empty(n, np.uint32), []
    for _ in range(40):
        rank_bounds.pair_bounded(x, starts, windows, found.distance, rng, source)
        lost.append(squares(x, source) / (2 * n * x.var()))
    error = np.std(lost, ddof=1) / np.sqrt(len(lost))
    assert found.loss <= (1 - goal) * 1.02  # in steps, where a few far values come within reach at once
    assert np.mean(lost) == pytest.approx(found.loss, abs=0.02 * (1 - goal) + 4 * error)


def test_bins_say_what_single_values_say():
    x = np.sort(generator("bins").lognormal(0, 1.5, 60_000))
    starts, windows = np.array([0, len(x)]), np.array([6_000])
    few, all_of_them = BoundedLaw(x, starts, 6_000), BoundedLaw(x, starts, len(x))
    assert len(few._bins[0]) < 9_000 < len(all_of_them._bins[0])
    for distance in (np.inf, 3.0, 0.5):
        one, two = (law.squares(windows, distance) for law in (few, all_of_them))
        assert one == pytest.approx(two, rel=0.015)


@given(st.integers(1, 5_000), st.integers(1, 300))
def test_bins_cover_every_rank_once_and_taper_to_the_ends(n, bulk):
    edges = _edges(n, bulk)
    assert edges[0] == 0
    assert edges[-1] == n
    sizes = np.diff(edges)
    assert (sizes > 0).all()
    assert sizes.max() <= max(bulk, 1)
    assert sizes[0] == sizes[-1] == 1


def test_tops_are_the_highest_bins_within_both_bounds():
    # Ranks 0, 1, 2-4, 5-7 and 8-9: the bin of ranks 2-4 isn't within three ranks of rank 0.
    m1, places = np.array([0.0, 1.0, 1.5, 4.0, 4.2]), np.array([0.0, 1.0, 3.0, 6.0, 8.5])
    out, sizes = np.empty(5, np.int64), np.array([1.0, 1.0, 3.0, 3.0, 2.0])
    rank_bounds_law.tops(m1, places, sizes, np.array([0, 5]), np.array([3]), np.inf, out)
    assert out.tolist() == [1, 2, 2, 4, 4]
    rank_bounds_law.tops(m1, places, sizes, np.array([0, 5]), np.array([9]), 1.2, out)
    assert out.tolist() == [1, 2, 2, 4, 4]
