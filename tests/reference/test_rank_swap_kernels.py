"""The kernels of rank swapping against slow, obvious twins."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sfumato.draws import Seed
from sfumato.kernels import rank_law, rank_swap, sort, t_order
from sfumato.masks.rank_swap.law import Law, Spread
from sfumato.masks.rank_swap.ranks import rank


def generator(name: str = "", seed: int = 0) -> np.random.Generator:
    return Seed.from_int(seed).draws("kernel tests").stream(name).generator()


# -- sorting --------------------------------------------------------------------------------------

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, max_size=60))
def test_floats_are_sorted_stably_with_their_places(values):
    x = np.array(values, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    got, places, distinct = sort.sorted_with_places(x)
    assert places.tolist() == order.tolist()
    assert (got == x[order]).all()
    assert distinct == (len(set(values)) == len(values))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60))
def test_integers_are_sorted_stably_with_their_places(values):
    x = np.array(values, dtype=np.int64)
    order = np.argsort(x, kind="stable")
    got, places, distinct = sort.sorted_with_places(x)
    assert places.tolist() == order.tolist()
    assert (got == x[order]).all()
    assert distinct == (len(set(values)) == len(values))


def columns_of_many() -> dict[str, np.ndarray]:
    """Columns long enough for radix passes (some 50,000 places take 16 of 64 bits)."""
    n, rng = 50_000, generator("many")
    skewed = rng.lognormal(10, 1, n)
    near_one = 1.0 + rng.random(n) * 1e-9
    steps = rng.integers(0, 50, n) * np.spacing(1.0)
    return {
        "floats": skewed,
        "both signs": rng.normal(0, 1, n),
        "whole": np.rint(skewed).astype(np.int64),
        "wide whole": rng.integers(-(2**63), 2**63 - 1, n),
        "two values": rng.integers(0, 2, n),
        "many zeros": np.where(rng.random(n) < 0.9, 0.0, skewed),
        # Neighbours in the last bits of a float collide when the key is cut, in short runs …
        "collisions": np.append(1.0 + rng.integers(0, 20_000, n - 1) * 1e-3 + steps[1:], -1e300),
        "a few collisions": np.append(skewed, skewed[:100] * (1 + np.spacing(1.0))),
        # … and a far value leaves the others no bits at all.
        "long runs": np.append(1.0 + rng.integers(0, 3, n - 1) * 1e-3 + steps[1:], -1e300),
        "one far value": np.append(near_one[1:], 1e300),
    }


@pytest.mark.parametrize("name", columns_of_many())
def test_many_values_are_sorted_stably_with_their_places(name):
    x = columns_of_many()[name]
    got, places, distinct = sort.sorted_with_places(x)
    order = np.argsort(x, kind="stable")
    assert (places == order).all()
    assert (got == x[order]).all()
    assert distinct <= (len(np.unique(x)) == len(x))


def test_not_a_number_and_infinities_stand_at_the_ends():
    for n in (5, 50_000):
        x = generator("ends").normal(0, 1, n)
        x[[1, 3]] = np.nan, np.inf
        got, _, _ = sort.sorted_with_places(x)
        assert np.isnan(got[-1])
        assert got[-2] == np.inf
        assert np.isnan(sort.sorted_with_places(-x)[0][[0, -1]]).any()


def test_minus_zero_ties_with_zero():
    got, places, distinct = sort.sorted_with_places(np.array([0.0, -0.0, -1.0, 0.0]))
    assert not distinct
    assert places.tolist() == [2, 0, 1, 3]
    assert got.tolist() == [-1.0, 0.0, 0.0, 0.0]


def test_strata_are_gathered_stably():
    rng = generator("strata")
    x, strata = rng.integers(0, 9, 500).astype(np.int64), rng.integers(0, 4, 500)
    values, places, _ = sort.sorted_with_places(x)
    starts = np.concatenate([[0], np.cumsum(np.bincount(strata, minlength=4))])
    out_values, out_places = np.empty_like(values), np.empty_like(places)
    sort.gather_strata(values, places, strata, starts, out_values, out_places)
    twin = sorted(range(500), key=lambda i: (strata[i], x[i], i))
    assert out_places.tolist() == twin
    assert out_values.tolist() == [x[i] for i in twin]


@pytest.mark.parametrize("n", [2, 24, 25, 400, 3000])
def test_equal_values_are_ordered_by_their_bits(n: int) -> None:
    """Against a plain sort by (stratum, value, bits)."""
    rng = generator(f"ties {n}")
    x, strata = rng.integers(0, 3, n).astype(np.float64), rng.integers(0, 2, n)
    bits = rng.integers(0, 2**64, n, dtype=np.uint64)
    values, places, _ = sort.sorted_with_places(x)
    starts = np.concatenate([[0], np.cumsum(np.bincount(strata, minlength=2))])
    held, where = np.empty_like(values), np.empty_like(places)
    sort.gather_strata(values, places, strata, starts, held, where)
    sort.order_equals(held, where, starts, bits)
    assert where.tolist() == sorted(range(n), key=lambda i: (strata[i], x[i], bits[i]))


def test_equal_values_come_in_every_order_alike():
    values, starts = np.array([1.0, 2.0, 2.0, 2.0, 3.0, 3.0]), np.array([0, 5, 6])
    rng, seen = generator("ties"), Counter()
    for _ in range(6000):
        places = np.arange(6, dtype=np.uint32)
        sort.order_equals(values, places, starts, rng.integers(0, 2**64, 6, dtype=np.uint64))
        assert places[0] == 0
        assert places[4:].tolist() == [4, 5]  # the two 3s lie in different strata
        seen[tuple(places[1:4].tolist())] += 1
    assert len(seen) == 6
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4


# -- pairing --------------------------------------------------------------------------------------


def law_of_pairing(n: int, weight) -> dict[tuple[int, ...], Fraction]:
    """Every pairing of Moore's section VII and its exact chance; weight(d) of a displacement d."""
    out: dict[tuple[int, ...], Fraction] = {}

    def go(source: list[int], chance: Fraction) -> None:
        free = [r for r in range(n) if source[r] < 0]
        if not free:
            key = tuple(source)
            out[key] = out.get(key, Fraction(0)) + chance
            return
        j, rest = free[0], [k for k in free[1:] if weight(k - free[0]) > 0]
        if not rest:
            go([*source[:j], j, *source[j + 1 :]], chance)
            return
        total = sum(weight(k - j) for k in rest)
        for k in rest:
            new = source.copy()
            new[j], new[k] = k, j
            go(new, chance * weight(k - j) / total)

    go([-1] * n, Fraction(1))
    return out


def simulated(pair, n: int, argument, draws: int) -> Counter[tuple[int, ...]]:
    rng, seen = generator(f"{n} {argument}"), Counter()
    starts, arguments, source = np.array([0, n]), np.array([argument]), np.empty(n, np.uint32)
    for _ in range(draws):
        pair(starts, arguments, rng, source)
        seen[tuple(source.tolist())] += 1
    return seen


@pytest.mark.parametrize(("n", "window"), [(4, 2), (5, 3), (6, 2), (7, 3), (7, 6)])
def test_uniform_pairing_has_the_law_of_the_literal_algorithm(n, window):
    exact = law_of_pairing(n, lambda d: Fraction(1 if d <= window else 0))
    seen = simulated(rank_swap.pair_uniform, n, window, 8000)
    assert set(seen) <= set(exact)
    expected = np.array([float(p) for p in exact.values()]) * 8000
    assert stats.chisquare([seen[key] for key in exact], expected).pvalue > 1e-4


@pytest.mark.parametrize(("n", "scale"), [(5, 0.7), (6, 2.0), (7, 1.0)])
def test_geometric_pairing_has_the_law_of_the_literal_algorithm(n, scale):
    exact = law_of_pairing(n, lambda d: Fraction(float(np.exp(-d / scale))))
    likely = {key: float(p) for key, p in exact.items() if p * 8000 > 5}
    seen = simulated(rank_swap.pair_geometric, n, scale, 8000)
    assert set(seen) <= set(exact)
    others = 8000 - sum(seen[key] for key in likely)
    counts = [seen[key] for key in likely] + [others]
    expected = [p * 8000 for p in likely.values()] + [(1 - sum(likely.values())) * 8000]
    if expected[-1] < 1e-6:
        counts, expected = counts[:-1], expected[:-1]
    assert stats.chisquare(counts, expected).pvalue > 1e-4


@given(st.lists(st.integers(0, 30), min_size=1, max_size=5), st.integers(0, 12), st.integers(0, 5))
def test_pairs_are_mutual_inside_window_and_stratum(sizes, window, seed):
    starts = np.concatenate([[0], np.cumsum(sizes)])
    n = int(starts[-1])
    source = np.empty(n, np.uint32)
    windows = np.full(len(sizes), window)
    left = rank_swap.pair_uniform(starts, windows, generator("pairs", seed), source)
    ranks = np.arange(n)
    assert (source[source] == ranks).all()
    assert (np.abs(source.astype(int) - ranks) <= window).all()
    stratum = np.searchsorted(starts, ranks, side="right")
    assert (stratum[source] == stratum).all()
    assert left == (sum(s % 2 for s in sizes) if window else 0)
    if window:
        assert (source == ranks).sum() == left  # an even stratum leaves none, an odd one exactly one


@pytest.mark.parametrize("source", [[2, 1, 0, 3], [1, 2, 0, 3]])
def test_change_sums_squares_and_relative_changes(source):
    values, source = np.array([-1.0, 0.0, 2.0, 4.0]), np.array(source, np.uint32)
    squares = {2: 18.0, 1: 1 + 4 + 9}[int(source[0])]
    moved = {2: 2, 1: 3}[int(source[0])]
    # Of the positive values only the 2 moved, by 3.
    assert rank_swap.changes(values, source) == (squares, 3 / 2, moved)
    assert (rank_swap.change(values, source, False), rank_swap.change(values, source, True)) == (squares, 1.5)
    places, rows = np.array([3, 0, 2, 1], np.uint32), np.array([5, 1, 0, 4])
    for at, size in ((np.empty(0, np.int64), 4), (rows, 6)):
        out = np.full(size, 77.0)
        assert rank_swap.write_values(values, places, at, source, out) == (squares, 3 / 2, moved)
        twin = np.full(size, 77.0)
        for j in range(4):
            twin[at[places[j]] if len(at) else places[j]] = values[source[j]]
        assert (out == twin).all()


def test_staying_ranks_are_found():
    source = np.array([1, 0, 2, 4, 3, 5], np.uint32)
    assert rank_swap.staying(source, 2).tolist() == [2, 5]
    assert rank_swap.staying(source, 0).tolist() == []


@pytest.mark.parametrize("relative", [False, True])
def test_re_pairing_reaches_the_wanted_sum_inside_window_and_strata(relative):
    rng = generator("re-pair")
    starts = np.array([0, 1500, 4000])
    values = np.concatenate([np.sort(rng.gamma(2, 1, 1500)), np.sort(rng.gamma(3, 1, 2500))])
    windows, source = np.array([60, 100]), np.empty(4000, np.uint32)
    rank_swap.pair_uniform(starts, windows, rng, source)
    now = rank_swap.change(values, source, relative)
    lever = np.empty(4000)
    rank_swap.leverage(values, starts, windows, relative, 1, lever)
    reached, moves = rank_swap.re_pair(
        values, source, starts, windows, now, 0.99 * now, 1e-9 * now, relative, lever, 1, rng, 1000, 10**6
    )
    assert 0 < moves < 1000
    assert reached == pytest.approx(0.99 * now, rel=2e-9)
    assert rank_swap.change(values, source, relative) == pytest.approx(reached, rel=1e-9)
    ranks = np.arange(4000)
    assert (source[source] == ranks).all()
    assert (np.abs(source.astype(int) - ranks) <= np.repeat(windows, [1500, 2500])).all()
    assert ((source < 1500) == (ranks < 1500)).all()


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_leverage_is_the_span_of_the_windows_block_by_block(relative, size):
    values, starts, windows = np.array([-1.0, 0.5, 2.0, 3.0, 7.0, 1.0, 4.0, 6.0]), [0, 5, 8], [2, 1]
    twin, total = [], 0.0
    for at in range(0, 8, size):
        for s, (start, stop) in enumerate(itertools.pairwise(starts)):
            ranks = [j for j in range(at, min(8, at + size)) if start <= j < stop]
            if ranks:
                high, low = min(stop - 1, ranks[-1] + windows[s]), max(start, ranks[0] - windows[s])
                span, least = values[high] - values[low], values[ranks[0]]
                least = least if least > 0 else values[ranks[-1]]
                total += len(ranks) * ((span / least if least > 0 else 0.0) if relative else span**2)
        twin.append(total)
    out = np.empty(len(twin))
    rank_swap.leverage(values, np.array(starts), np.array(windows), relative, size, out)
    assert out == pytest.approx(twin)


def test_sampled_ranks_are_those_of_every_so_many_records():
    rng = generator("sampled")
    places = rng.permutation(20).astype(np.uint32)
    out = np.empty(5, np.int64)
    rank_swap.sampled_ranks(places, np.empty(0, np.int64), 2, out)
    assert places[out].tolist() == [0, 4, 8, 12, 16]
    rows, inner = np.array([0, 3, 4, 9, 16, 17]), np.array([5, 2, 0, 4, 1, 3], np.uint32)
    rank_swap.sampled_ranks(inner, rows, 2, out)
    assert out.tolist() == [2, 1, -1, -1, 3]  # records 8 and 12 may not move


# -- the law --------------------------------------------------------------------------------------


def mean_field(values, weight):
    """The recursion of kernels/rank_law.py, written out: Σ(a′−a)², Σ|a′−a|/a, E a′, E a′²."""
    n = len(values)
    left = np.ones(n)
    squares = relative = 0.0
    e1, e2 = np.zeros(n), np.zeros(n)
    for j in range(n):
        w = np.array([weight(t - j) for t in range(j + 1, n)])
        pool = (w * left[j + 1 :]).sum()
        if pool <= 1e-12:
            e1[j] += left[j] * values[j]
            e2[j] += left[j] * values[j] ** 2
            continue
        h = left[j] / pool
        hw = np.minimum(h * w, 1 - 1e-9)
        g = hw * left[j + 1 :]
        for k, chance in enumerate(g, start=j + 1):
            d = values[k] - values[j]
            squares += 2 * chance * d * d
            relative += chance * sum(d / v for v in (values[j], values[k]) if v > 0)
            e1[j] += chance * values[k]
            e1[k] += chance * values[j]
            e2[j] += chance * values[k] ** 2
            e2[k] += chance * values[j] ** 2
        stay = left[j] - g.sum()
        e1[j] += stay * values[j]
        e2[j] += stay * values[j] ** 2
        left[j + 1 :] *= 1 - hw
    return squares, relative, e1, e2


VALUES = np.sort(np.concatenate([np.zeros(7), [-3.0, -1.0], np.exp(np.linspace(-1, 3, 51))]))


@pytest.mark.parametrize("window", [1, 2, 7, 25, 59])
def test_the_uniform_pass_is_the_recursion(window):
    squares, relative, _, _ = mean_field(VALUES, lambda d: 1.0 if d <= window else 0.0)
    starts, windows = np.array([0, len(VALUES)]), np.array([window])
    finite = (1 + 0.173 / window, 1 + 0.105 / window) if window > 1 else (1.0, 1.0)
    got = rank_law.squares_uniform(VALUES, starts, windows, VALUES[30])
    assert got == pytest.approx(squares * finite[0], rel=1e-5)
    assert rank_law.changes_uniform(VALUES, starts, windows) == pytest.approx(relative * finite[1], rel=1e-5)


@pytest.mark.parametrize(("scale", "geometric"), [(6.0, False), (2.5, True), (0.4, True)])
def test_the_dense_prediction_is_the_recursion(scale, geometric):
    weight = (
        (lambda d: np.exp(-d / scale) if d <= 20 * scale + 1 else 0.0)
        if geometric
        else (lambda d: 1.0 if d <= scale else 0.0)
    )
    squares, relative, e1, e2 = mean_field(VALUES, weight)
    n, centre = len(VALUES), 2.0
    starts = np.array([0, n])
    parts = [np.empty(n) for _ in range(4)]
    rank_law.bin_ranks(VALUES, starts, starts, np.array([1]), centre, *parts)
    got1, got2 = np.empty(n), np.empty(n)
    got = rank_law.predict_dense(*parts, centre, starts, np.array([scale]), geometric, np.ones(1), got1, got2)
    assert got == pytest.approx((squares, relative), rel=1e-6)
    assert got1 + centre == pytest.approx(e1, abs=1e-6)
    assert got2 + 2 * centre * got1 + centre**2 == pytest.approx(e2, abs=1e-5)


@pytest.mark.parametrize("window", [1, 2, 7, 25, 59])
def test_the_pass_over_bins_is_the_recursion_where_bins_hold_one_rank(window):
    squares, relative, _, _ = mean_field(VALUES, lambda d: 1.0 if d <= window else 0.0)
    n, centre = len(VALUES), 2.0
    starts, parts = np.array([0, n]), [np.empty(n) for _ in range(4)]
    rank_law.bin_ranks(VALUES, starts, starts, np.array([1]), centre, *parts)
    m1, m2, mi, mp = parts
    assert rank_law.squares_binned(m1, m2, window) == pytest.approx(squares, rel=1e-5)
    assert rank_law.changes_binned(m1, mi, mp, centre, window) == pytest.approx(relative, rel=1e-5)


@pytest.mark.parametrize("n", [1, 2, 1003])
def test_moments_are_those_of_numpy(n):
    x = 1e6 + generator("moments").lognormal(0, 1, n)
    got = rank_law.moments(x, float(np.median(x)))
    assert got[0] == pytest.approx(x.mean(), rel=1e-14)
    assert got[1] == pytest.approx(x.var(), rel=1e-9)


def test_the_spread_of_strata_is_that_of_all_values():
    x, strata = generator("spread").normal(0, 1, 500) + 1e5, np.repeat([0, 1, 2, 3], 125)
    x[strata == 2] -= 1e5
    spread = Spread.of(rank(x, strata, 4))
    assert (spread.mean, spread.variance) == pytest.approx((x.mean(), x.var()), rel=1e-12)
    assert (spread.low, spread.high, spread.positive) == (x.min(), x.max(), (x > 0).sum())


@pytest.mark.parametrize("shape", ["lognormal", "exponential", "zeros", "two peaks"])
@pytest.mark.parametrize("n", [80_000, 270_001])
def test_what_bins_predict_is_what_all_values_predict(shape, n):
    rng = generator(f"bins {shape}")
    values = {
        "lognormal": lambda: rng.lognormal(9, 1, n),
        "exponential": lambda: rng.exponential(1, n),
        "zeros": lambda: np.where(rng.random(n) < 0.6, 0.0, rng.exponential(1, n)),
        "two peaks": lambda: np.where(rng.random(n) < 0.5, rng.normal(2, 1, n), rng.normal(10, 1, n)),
    }[shape]()
    ranked = rank(values)
    law = Law(ranked, Spread.of(ranked), "uniform")
    seen = set()
    for percent in (0.6 if n < 100_000 else 0.2, 4.0, 25.0):
        group = law.group_for(law.windows(percent)[0])
        seen.add(group)
        for relative in (False, True):
            whole = law.effect(percent, relative=relative)
            binned = law.effect(percent, relative=relative, group=group)
            assert binned == pytest.approx(whole, abs=5e-4, rel=0.002 if relative else 1e-9)
    assert seen == ({1} if n < 100_000 else {1, 8})
    assert law.group_for(20) == 0  # too narrow for bins


def test_bins_are_counted_from_both_ends():
    values = np.arange(1.0, 12.0)  # eleven values in bins of three: 3, 3, 2, 3
    m1, m2, mi, mp = (np.empty(4) for _ in range(4))
    rank_law.bin_ranks(values, np.array([0, 11]), np.array([0, 4]), np.array([3]), 0.0, m1, m2, mi, mp)
    assert m1.tolist() == [2.0, 5.0, 7.5, 10.0]
    assert m2[2] == pytest.approx((49 + 64) / 2)
    assert mi[0] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert mp.tolist() == [1.0] * 4


# -- classes --------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 5), max_size=60), st.sampled_from([0.01, 0.3, 0.5, 1.0]), st.integers(0, 9))
def test_a_share_of_each_class_changes_hands(classes, share, seed):
    codes, source = np.array(classes, dtype=np.int64), np.arange(len(classes))
    t_order.exchange_within(codes, 6, share, generator("classes", seed), source)
    assert sorted(source.tolist()) == list(range(len(classes)))
    assert (codes[source] == codes).all()
    for c in range(6):
        r = classes.count(c)
        moved = sum(source[i] != i for i in range(len(classes)) if classes[i] == c)
        assert moved == (0 if r < 2 else min(max(2, int(share * r + 0.5)), r))
