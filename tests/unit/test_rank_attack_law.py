"""The rank attack and the law of the swap: partners without a bound, windows that anybody can work out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import polars as pl
import pytest
from scipy import integrate

import sfumato as sf
from sfumato.kernels import rank_attack as kernels
from sfumato.kernels.rank_attack_bounds import mean_chance
from sfumato.linkage.blocks import make_blocks
from sfumato.linkage.rank_bounds import BoundedRanks
from sfumato.linkage.rank_intervals import RankIntervals
from sfumato.run.battery import fitting_attacks
from sfumato.stats.rank_bounds import BoundedLaw
from sfumato.stats.rank_law import MEAN_GEOMETRIC_SHIFT, SCALE_PER_WINDOW

LN2 = math.log(2)


def geometric_law(s: float, scale: float) -> float:
    v = abs(s) / scale
    return LN2 * math.exp(-v) * 2 ** -math.exp(-v) / scale


def test_the_law_is_a_density_with_the_stated_mean():
    # Two sides of the same law; its mean displacement in scales.
    total, _ = integrate.quad(geometric_law, 0, 60, args=(1.0,))
    mean, _ = integrate.quad(lambda s: 2 * s * geometric_law(s, 1.0), 0, 60)
    assert total == pytest.approx(0.5)
    assert mean == pytest.approx(MEAN_GEOMETRIC_SHIFT)


@pytest.mark.parametrize(
    "spans", [(3, 4, 9, 10), (3, 7, 5, 9), (0, 6, 10, 23), (10, 12, 2, 3), (0, 40, 0, 40)]
)
@pytest.mark.parametrize("scale", [0.7, 6.0, 50.0])
def test_the_unbounded_density_is_the_mean_of_its_law(spans, scale):
    low, high, other_low, other_high = map(float, spans)
    got = math.exp(kernels.log_density_geometric(low, high, other_low, other_high, scale))
    if high - low == other_high - other_low == 1:
        assert got == pytest.approx(geometric_law(other_low - low, scale))
        return
    breaks = sorted({low, high, other_low, other_high})

    def inner(a: float) -> float:
        cuts = sorted({other_low, other_high, *([a] if other_low < a < other_high else [])})
        parts = itertools.pairwise(cuts)
        return sum(integrate.quad(lambda b: geometric_law(b - a, scale), x, y)[0] for x, y in parts)

    inside = [b for b in breaks if low <= b <= high]
    mean = sum(integrate.quad(inner, x, y)[0] for x, y in itertools.pairwise(inside))
    mean /= (high - low) * (other_high - other_low)
    if mean * scale > 1e-8:
        assert got == pytest.approx(mean, rel=1e-3)


@pytest.mark.parametrize("ties", [False, True])
def test_the_likeliest_are_those_of_the_definition(ties):
    rng = np.random.default_rng(2)
    m, n, top, far = 3, 60, 7, 1e11
    low = rng.integers(0, 15, (m, n)) * 4.0 if ties else np.argsort(rng.random((m, n)), axis=1).astype(float)
    other = (
        rng.integers(0, 15, (m, n)) * 4.0 if ties else np.argsort(rng.random((m, n)), axis=1).astype(float)
    )
    width = 4.0 if ties else 1.0
    low[1, :3] = other[1, :5] = 1e12  # a value that stays, in some records of both files
    scale = np.full((m, n), 5.0)
    scale[2] = 11.0
    lead = 0
    order = np.argsort(other[lead], kind="stable")
    other = np.ascontiguousarray(other[:, order])
    high, other_high = low + width, other + width
    counts, places, weights = np.empty(n, np.int64), np.empty((n, top), np.int64), np.empty((n, top))
    rows, start, stop = np.arange(n), np.zeros(n, np.int64), np.full(n, n)
    kernels.likeliest(
        rows, start, stop, lead, low, high, other, other_high, scale, far, counts, places, weights
    )
    for i in range(n):
        twin = []
        for k in range(n):
            if all(abs(low[j, i] - other[j, k]) < far for j in range(m)):
                spans = [(low[j, i], high[j, i], other[j, k], other_high[j, k]) for j in range(m)]
                twin.append(sum(kernels.log_density_geometric(*spans[j], scale[j, i]) for j in range(m)))
        assert counts[i] == (n if len(twin) > top else len(twin))
        listed = min(top, len(twin))
        assert sorted(weights[i, :listed]) == pytest.approx(sorted(twin)[len(twin) - listed :])


def people(n: int = 400) -> sf.Microdata:
    rng = np.random.default_rng(7)
    common = rng.normal(0, 1, (n, 1))
    x = np.exp(0.6 * common + 0.8 * rng.normal(0, 1, (n, 6)))
    return sf.Microdata(pl.DataFrame(x, schema=[f"x{j}" for j in range(6)]))


@pytest.fixture(scope="module")
def swapped() -> dict[str, sf.Microdata]:
    data = people()
    return {
        partner: sf.RankSwap(columns=data.columns, window_percent=15, partner=partner).mask(data, seed=3)
        for partner in ("uniform", "geometric")
    }


def test_an_intruder_who_knows_that_there_is_no_bound_finds_more(swapped):
    data, masked = people(), swapped["geometric"]
    wrong = sf.RankAttack(partner="uniform").measure(data, masked)
    right = sf.RankAttack(partner="geometric").measure(data, masked)
    informed = sf.RankAttack(partner="geometric", window_percent=15).measure(data, masked)
    assert right.rate > 3 * wrong.rate
    assert informed.rate > 0.3
    se = np.sqrt(right.rate * (1 - right.rate) / len(data))
    assert informed.rate == pytest.approx(right.rate, abs=4 * se)
    assert right.law == "geometric"
    # Everybody is a candidate, so nobody is certain.
    assert right.certain_rate == right.propagated_rate == 0
    assert right.truth_among_candidates == 1
    assert right.mean_candidates == len(data)
    assert informed.window_percent == dict.fromkeys(data.columns, 15.0)
    # The scales are recovered from nothing but the two files: a column's from about rate · n displacements,
    # so within 1/√(rate · n) of itself. Wrong links are near ones, which makes the estimates smaller.
    found = np.array(list(right.window_percent.values()))
    error = 15 / np.sqrt(right.rate * len(data))
    assert (found < 15 + 4 * error).all()
    assert 15 - 4 * error < found.mean() < 15 + 4 * error / np.sqrt(len(found))


@pytest.mark.parametrize("partner", ["uniform", "geometric"])
def test_by_default_the_law_that_finds_more_is_told_of(swapped, partner):
    data, masked = people(), swapped[partner]
    result = sf.RankAttack().measure(data, masked)
    alone = {law: sf.RankAttack(partner=law).measure(data, masked).rate for law in ("uniform", "geometric")}
    assert result.law == partner
    assert result.rate == max(alone.values())


def test_a_window_that_the_swap_did_not_keep_to_is_said(swapped):
    result = sf.RankAttack(window_percent=15).measure(people(), swapped["geometric"])
    # A column stays within it with the chance 2^(1−e^−2.553) − 1 = 0.895, six columns with 0.51 (more at
    # the ends).
    se = np.sqrt(0.51 * 0.49 / len(people()))
    assert 0.51 - 4 * se < result.truth_among_candidates < 0.51 + 6 * se
    assert any('partner = "geometric"' in note for note in result.notes)
    kept = sf.RankAttack(window_percent=15).measure(people(), swapped["uniform"])
    assert kept.truth_among_candidates == 1
    assert not any("geometric" in note for note in kept.notes)


def test_identity_is_found_under_either_law():
    data = people(60)
    for law in ("auto", "uniform", "geometric"):
        assert sf.RankAttack(partner=law).measure(data, data).rate == 1


@pytest.mark.parametrize("partner", ["uniform", "geometric"])
def test_the_windows_follow_from_the_release_and_the_battery_uses_them(partner):
    data = people()
    step = sf.RankSwap(
        columns=["x0", "x1"],
        correlation={"x0": 0.9},
        mean_change={"x1": 0.2},
        partner=partner,
        far_values="group",
    )
    masked, notes, _ = step.carry_out(data, sf.draws.Seed.from_int(1).draws("t"))
    windows = step.windows(data)
    assert windows == notes.figures["window_percent"]
    # The values are the same ones, so anybody who knows R0 and K0 has the same windows.
    assert step.windows(sf.Microdata(masked.frame)) == pytest.approx(windows)
    (aware,) = [a for a in fitting_attacks(data, masked, [step])[0] if a.name == "rank_attack"]
    assert aware.window_percent == windows
    assert aware.partner == partner


def test_only_columns_whose_own_ranks_were_swapped_have_windows():
    data = people(50)
    block = {"columns": ["x0", "x1"], "window_percent": 10, "together": True}
    assert sf.RankSwap(**block).windows(data) == {"x0": 10}
    assert sf.RankSwap(**block, rank_by="principal").windows(data) == {}
    sums = sf.Microdata(
        data.frame.with_columns(T=pl.col("x0") + pl.col("x1")),
        sf.Schema(variables={"T": {"sum_of": ["x0", "x1"]}}),
    )
    assert sf.RankSwap(columns=["T"], window_percent=10).windows(sums) == {"x0": 10, "x1": 10}
    assert sf.RankSwap(columns=["x0"], window_percent=10, sum_rule="scale").windows(sums) == {"T": 10}


def test_the_scale_of_a_window_has_its_mean_square():
    squares, _ = integrate.quad(lambda v: 2 * v * v * geometric_law(v, 1.0), 0, 60)
    expected = math.sqrt((2 - 4 / LN2 + 2 / LN2**2) / squares)
    assert expected == pytest.approx(SCALE_PER_WINDOW)


# -- two bounds -----------------------------------------------------------------------------------


def chances(x: np.ndarray, window: int, reach: float) -> np.ndarray:
    """The chance of every pair of a swap within two bounds, turn by turn."""
    n = len(x)
    unswapped, pairs = np.ones(n), np.zeros((n, n))
    for j in range(n):
        pool = [k for k in range(j + 1, min(n, j + window + 1)) if x[k] - x[j] <= reach]
        mass = unswapped[pool].sum()
        if mass > 1e-9:
            h = min(unswapped[j] / mass, 1 - 1e-9)
            pairs[j, pool] = h * unswapped[pool]
            unswapped[pool] *= 1 - h
    return pairs + pairs.T


def test_the_chance_of_runs_of_ties_is_the_mean_over_their_ranks():
    rng = np.random.default_rng(4)
    x = np.sort(np.concatenate([np.zeros(60), np.round(rng.exponential(2, 140), 1)]))
    law = BoundedLaw(x, np.array([0, len(x)]))
    log_h, log_a, first, _ = law.chances(np.array([40]), 1.5)
    both = chances(x, 40, 1.5)
    runs = [(int(np.searchsorted(x, v)), int(np.searchsorted(x, v, "right"))) for v in np.unique(x)]
    off = []
    for a, b in itertools.product(runs, runs):
        true = both[a[0] : a[1], b[0] : b[1]].mean()
        got = mean_chance(*a, *b, log_h, log_a, first)
        if a == b and a[1] - a[0] == 1:
            assert got == pytest.approx(np.exp(log_h[a[0]]))  # stayed: as likely as its neighbour
        elif true > 1e-4:
            off.append((true * (a[1] - a[0]) * (b[1] - b[0]), abs(got / true - 1)))
        elif true == 0:
            assert got == 0
    # Four ranks stand for a run: exact but for long runs at the edge of the bounds, half a percent overall.
    mass, error = np.array(off).T
    assert error.max() < 0.15
    assert mass @ error / mass.sum() < 0.005


@pytest.mark.parametrize("ties", [False, True])
def test_candidates_within_both_bounds_are_those_of_the_definition(ties):
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({c: rng.lognormal(0, 1, 120) for c in "AB"})
    data = sf.Microdata(frame.select(pl.all().round(1)) if ties else frame)
    masked = sf.Microdata(data.frame.select(pl.all().shuffle(seed=3)))
    blocks = make_blocks(data, masked, (), sf.draws.Seed.from_int(0).draws("x"))
    ranks = RankIntervals.of(data, masked, ["A", "B"], (), blocks)
    share, reach = np.array([0.2, 0.3]), np.array([0.4, np.inf])
    found = BoundedRanks.of(ranks, share, reach, data, masked, ["A", "B"], (), blocks)
    counts, starts, cols, weights = found.candidates()
    sides = [(data.numbers(c), masked.numbers(c)) for c in "AB"]
    laws = [chances(np.sort(b), w, r) for (_, b), w, r in zip(sides, (24, 36), reach, strict=True)]
    for row, i in enumerate(blocks.left):
        twin = {}
        for k in range(120):
            total = 0.0
            for (a, b), w, r, law in zip(sides, (24, 36), reach, laws, strict=True):
                ordered = np.sort(b)
                (p, p_end), (q, _) = sorted(
                    (np.searchsorted(ordered, v), np.searchsorted(ordered, v, "right")) for v in (a[i], b[k])
                )
                gap = max(0, q - (p_end - 1))
                near = abs(a[i] - b[k]) <= r
                # Both windows hold more than five ranks, so that only the reach makes anybody lonely.
                lonely = any((np.abs(ordered - v) <= r).sum() - 1 < 5 for v in (a[i], b[k]))
                if gap > w or not (near or (gap <= 10 and lonely)):
                    break
                total += np.log(max(law[p, q], 1e-12)) if near else np.log(0.1)
            else:
                twin[k] = total
        span = slice(starts[row], starts[row + 1])
        listed = {int(blocks.right[c]): w for c, w in zip(cols[span], weights[span], strict=True)}
        assert counts[row] == len(twin)
        assert set(listed) == set(twin)
        if not ties:  # and who stayed in place is as likely as a neighbour
            apart = [k for k in twin if all(a[i] != b[k] for a, b in sides)]
            assert [listed[k] for k in apart] == pytest.approx([twin[k] for k in apart], rel=1e-6)


@pytest.mark.parametrize("far", ["code", "group"])
def test_who_knows_both_bounds_misses_nobody_and_finds_more(far):
    data = people(600)
    step = sf.RankSwap(columns=data.columns, correlation=0.6, far_values=far)
    masked = step.mask(data, seed=2)
    (aware,) = [a for a in fitting_attacks(step.own_list(data), masked, [step])[0] if a.name == "rank_attack"]
    assert aware.reach == pytest.approx(step.reaches(step.own_list(data)))
    found = aware.measure(data, masked, steps=[step])
    assert found.law == "two bounds"
    assert found.truth_among_candidates > 0.995
    by_window = sf.RankAttack(columns=data.columns, window_percent=aware.window_percent)
    assert found.rate > by_window.measure(data, masked, steps=[step]).rate + 0.02
    assert found.mean_candidates < by_window.measure(data, masked, steps=[step]).mean_candidates


def test_a_sample_says_how_much_more_a_list_of_everybody_could_find():
    """1-1 among everybody finds more than among a sample; the interval of the sample holds it."""
    rng = np.random.default_rng(7)
    names = ["A", "B"]
    data = pl.DataFrame(rng.normal(size=(1_500, 2)), schema=names)
    masked = sf.RankSwap(columns=names, window_percent=2).mask(data, seed=1)
    attack = {"columns": names, "window_percent": 2, "partner": "uniform"}
    everybody = sf.RankAttack(**attack).measure(data, masked)
    some = sf.RankAttack(**attack, records=300).measure(data, masked)
    assert "rate_at_most" not in everybody.figures
    assert any("a random sample of 300 of 1,500" in note for note in some.notes)
    assert some.rate <= some.rate_at_most
    assert some.interval[0] <= everybody.rate <= some.interval[1]
    assert some.interval[1] >= some.rate_at_most
