"""Rank swapping keeps to what it was asked: the law of the swap, targets met, published figures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy.stats import rankdata

import sfumato as sf
from sfumato.draws import Seed
from sfumato.kernels.rank_swap import pair_geometric, pair_uniform

pytestmark = pytest.mark.statistical

LN2 = math.log(2)


def generator(name: str) -> np.random.Generator:
    return Seed.from_int(0).draws("rank swap statistics").stream(name).generator()


def carried_out(mask: sf.masks.base.Mask, data: sf.Microdata, seed: int):
    return mask.carry_out(data, Seed.from_int(seed).draws("test"))


# -- the law of the swap --------------------------------------------------------------------------


def pools(source: np.ndarray, window: int) -> np.ndarray:
    """How many ranks of its window were still unswapped at the turn of each rank that had one."""
    n = len(source)
    ranks = np.arange(n)
    upper = np.flatnonzero(source < ranks)  # taken from the turn after its partner's on
    step = np.zeros(n + 1)
    np.add.at(step, source[upper] + 1, -1)
    np.add.at(step, upper, 1)
    pool = window + np.cumsum(step[:n])
    return pool[(source > ranks) & (ranks > 3 * window) & (ranks < n - 3 * window)]


# Window, Moore's Monte-Carlo pool size s (Table B.4).
TABLE_B4 = [(100, 73), (250, 180), (500, 361), (1000, 721), (1500, 1082), (2000, 1444), (2500, 1806)]


@pytest.mark.parametrize(("window", "published"), TABLE_B4)
def test_mean_pool_is_that_of_table_b4_and_of_the_law(window, published):
    n = 100_000
    source = np.empty(n, np.int64)
    means = []
    for _ in range(3):
        pair_uniform(np.array([0, n]), np.array([window]), generator(f"pool {window}"), source)
        means.append(pools(source, window).mean())
    mean = np.mean(means)
    assert mean == pytest.approx(published, rel=0.01)  # the paper prints whole numbers of few runs
    # A narrow window's pool is larger by about a fifth of a rank (72.3 at W = 100).
    assert mean / window == pytest.approx(1 / (2 * LN2), abs=0.002 + 0.3 / window)


def test_displacements_have_density_ln2_times_2_to_the_u():
    n, window = 600_000, 3_000
    source = np.empty(n, np.int64)
    pair_uniform(np.array([0, n]), np.array([window]), generator("law"), source)
    inner = np.arange(4 * window, n - 4 * window)
    u = np.abs(source[inner] - inner) / window
    assert u.max() <= 1
    # Neighbouring displacements are nearly independent; 4 standard errors, and 1/W for whole ranks.
    slack = 4 / math.sqrt(len(u)) + 1 / window
    assert u.mean() == pytest.approx(2 - 1 / LN2, abs=0.28 * slack)
    assert (u**2).mean() == pytest.approx(2 - 4 / LN2 + 2 / LN2**2, abs=0.3 * slack)
    assert (u**2).mean() == pytest.approx(0.39196, abs=0.002)
    seen, edges = np.histogram(u, bins=20, range=(0, 1))
    expected = 2 ** edges[1:] - 2 ** edges[:-1]  # ∫ ln 2 · 2^u du
    assert seen / len(u) == pytest.approx(expected, abs=5 * math.sqrt(0.07 / len(u)) + 1 / window)


def test_geometric_displacements_have_their_density_too():
    n, scale = 600_000, 1_000.0
    source = np.empty(n, np.int64)
    pair_geometric(np.array([0, n]), np.array([scale]), generator("geometric law"), source)
    inner = np.arange(20_000, n - 20_000)
    v = np.abs(source[inner] - inner) / scale
    # Density 2 ln 2 · e^−v · 2^(−e^−v): its distribution function is 2^(1−e^−v) − 1.
    grid = np.array([0.1, 0.3, 0.7, 1.0, 1.5, 2.5, 4.0, 6.0])
    got = np.array([(v <= g).mean() for g in grid])
    assert got == pytest.approx(2 * 2.0 ** -np.exp(-grid) - 1, abs=4 * 0.5 / math.sqrt(len(v)) + 1 / scale)
    assert v.max() > 6  # no hard bound


def test_random_order_of_ties_leaves_no_drift_along_the_file():
    # 61 values in 30,000 records, as TAXES has: in file order, the first half would lose 0.24.
    rng = generator("drift")
    data = sf.Microdata(pl.DataFrame({"TAXES": np.minimum(rng.gamma(2.4, 8.3, 30_000).astype(int), 61)}))
    before, shifts = data.numbers("TAXES"), []
    for seed in range(20):
        masked = sf.RankSwap(columns=["TAXES"], window_percent=4.6).mask(data, seed=seed)
        shifts.append((masked.numbers("TAXES") - before)[:15_000].mean())
    assert abs(np.mean(shifts)) < 4 * np.std(shifts) / math.sqrt(20)
    assert abs(np.mean(shifts)) < 0.03


# -- targets are met ------------------------------------------------------------------------------

N = 20_000


@cache
def column(shape: str) -> sf.Microdata:
    rng = generator(shape)
    values = {
        "uniform": lambda: rng.random(N),
        "normal": lambda: rng.normal(50, 10, N),
        "exponential": lambda: rng.exponential(1, N),
        "lognormal": lambda: rng.lognormal(9, 1.5, N),
        "bimodal": lambda: np.where(rng.random(N) < 0.5, rng.normal(0, 1, N), rng.normal(10, 1, N)),
        "zero-inflated": lambda: np.where(rng.random(N) < 0.6, 0, rng.exponential(1, N)),
    }[shape]()
    return sf.Microdata(pl.DataFrame({"X": values}))


SHAPES = ["uniform", "normal", "exponential", "lognormal", "bimodal", "zero-inflated"]


def own_correlation(data: sf.Microdata, masked: sf.Microdata) -> float:
    return float(np.corrcoef(data.numbers("X"), masked.numbers("X"))[0, 1])


@pytest.mark.parametrize("shape", ["uniform", "normal", "exponential", "bimodal", "zero-inflated"])
@pytest.mark.parametrize("goal", [0.90, 0.97, 0.995])
def test_a_calibrated_window_of_ranks_meets_its_correlation(shape, goal):
    data = column(shape)
    mask = sf.RankSwap(columns=["X"], correlation=goal**2, interval="ranks")
    got = []
    for seed in range(8):
        masked, notes, _ = carried_out(mask, data, seed)
        got.append(own_correlation(data, masked))
        assert notes.figures["achieved"]["X"] == pytest.approx(got[-1], abs=1e-9)
        assert notes.figures["target"]["X"] == pytest.approx(goal)
    assert np.mean(got) == pytest.approx(goal, abs=0.002)


# -- two bounds -----------------------------------------------------------------------------------

HEAVY = ["lognormal 1", "lognormal 2", "lognormal 3", "Pareto 1.2", "heaped", "97% zeros"]


@cache
def heavy(shape: str, n: int = 4_000) -> sf.Microdata:
    rng = generator(shape)
    values = {
        "lognormal 1": lambda: rng.lognormal(0, 1, n),
        "lognormal 2": lambda: rng.lognormal(0, 2, n),
        "lognormal 3": lambda: rng.lognormal(0, 3, n),
        "Pareto 1.2": lambda: rng.pareto(1.2, n) + 1,
        "heaped": lambda: np.round(rng.lognormal(9, 1, n), -2),
        "97% zeros": lambda: np.where(rng.random(n) < 0.97, 0, rng.lognormal(0, 1, n)),
    }
    return sf.Microdata(pl.DataFrame({"X": values[shape]()})) if shape in values else column(shape)


def kept(data: sf.Microdata, masked: sf.Microdata) -> tuple[float, float]:
    """The correlations of values and of ranks, over the values that no code was given to."""
    a, b = data.numbers("X"), masked.numbers("X")
    top, bottom = masked.schema["X"].top, masked.schema["X"].bottom
    use = (a <= (np.inf if top is None else top)) & (a >= (-np.inf if bottom is None else bottom))
    ranks = np.corrcoef(rankdata(a[use]), rankdata(b[use]))[0, 1]
    return float(np.corrcoef(a[use], b[use])[0, 1]), float(ranks)


@pytest.mark.parametrize("shape", [*SHAPES, *HEAVY])
@pytest.mark.parametrize("target", [0.95, 0.8])
def test_both_correlations_are_kept_and_everybody_has_many_candidates(shape, target):
    data, goal = heavy(shape), math.sqrt(target)
    mask = sf.RankSwap(columns=["X"], correlation=target, far_values="code")
    for seed in range(3):
        masked, notes, checks = carried_out(mask, data, seed)
        figures = notes.figures
        values, ranks = figures["correlation"]["X"], figures["rank_correlation"]["X"]
        if not figures.get("far_grouped", {}).get("X"):
            assert (values, ranks) == pytest.approx(kept(data, masked), abs=1e-9)
        assert min(values, ranks) > goal - 0.001
        assert min(values, ranks) < goal + 0.02  # the ends of a column lose less; as far as one bound allows
        assert figures["candidates_median_percent"]["X"] > 10
        assert figures["candidates_least"]["X"] >= 5
        assert all(c.ok for c in checks)
        assert not any("was to have" in w for w in notes.warnings)


@pytest.mark.parametrize("shape", ["lognormal 2", "lognormal 3"])
def test_exchanging_neighbours_of_the_release_gives_nothing_back(shape):
    # The window of ranks alone shrinks to a rank or two: neighbours change places, and back again.
    data = heavy(shape)
    a = data.numbers("X")

    def restored(masked: sf.Microdata) -> float:
        ordered = np.sort(a)
        rank_of = np.argsort(np.argsort(masked.numbers("X"), kind="stable"), kind="stable")
        return max(
            float((ordered[np.clip(rank_of + shift * (-1) ** rank_of, 0, len(a) - 1)] == a).mean())
            for shift in (1, -1)
        )

    narrow = sf.RankSwap(columns=["X"], correlation=0.95, interval="ranks")
    masked, notes, _ = carried_out(narrow, data, 1)
    assert restored(masked) > 0.9
    assert any("whoever exchanges neighbouring ranks" in w for w in notes.warnings)
    wide = sf.RankSwap(columns=["X"], correlation=0.95, far_values="code")
    assert restored(carried_out(wide, data, 1)[0]) < 0.01


def real_columns(folder) -> Iterator[tuple[str, pl.Series]]:
    """Every number with 200 different values or more, of the reference files."""
    files = [
        "CASCrefmicrodata.csv",
        "smho_n874.csv",
        "testdata.csv",
        "free1.csv",
        "titanic_889.csv",
        "ahs/ahs_national_1989.csv",
        "income/cps_taxunits_2013.csv",
        "census/acs2011_households.csv",
        "census/eusilc_laeken.csv",
    ]
    for name in files:
        frame = pl.read_csv(folder / name, infer_schema_length=None, null_values=["NA"])
        for series in frame.head(20_000).select(pl.selectors.numeric()):
            found = series.drop_nulls().drop_nans()
            if found.n_unique() >= 200:
                yield f"{name}: {series.name}", found


def test_real_columns_keep_both_correlations_and_everybody_has_many_candidates(reference_data):
    target = 0.95
    seen = 0
    for name, series in real_columns(reference_data):
        data = sf.Microdata(pl.DataFrame({"X": series}))
        mask = sf.RankSwap(columns=["X"], correlation=target, far_values="code")
        _, notes, _ = carried_out(mask, data, 1)
        figures = {k: v["X"] for k, v in notes.figures.items()}
        assert figures["correlation"] > math.sqrt(target) - 0.002, name
        assert figures["rank_correlation"] > math.sqrt(target) - 0.002, name
        assert figures["candidates_median_percent"] > 10, name
        assert figures["candidates_least"] >= 5, name
        seen += 1
    assert seen > 70


def test_far_values_are_refused_with_what_each_way_costs():
    data = sf.Microdata(pl.DataFrame({"X": np.append(np.arange(999.0), 1e6)}))
    with pytest.raises(sf.errors.MaskError, match="of X with fewer than 5 others") as problem:
        sf.RankSwap(columns=["X"], correlation=0.9).mask(data, seed=1)
    assert 'far_values = "code"' in problem.value.hint
    assert 'far_values = "group"' in problem.value.hint
    assert "1000000" not in str(problem.value)
    coded, notes, _ = carried_out(sf.RankSwap(columns=["X"], correlation=0.9, far_values="code"), data, 1)
    top = coded.schema["X"].top
    at_top = coded.numbers("X") == top
    # Five records share the code, which is nobody's value; none of them moved.
    assert at_top.sum() == 5
    assert top not in set(data.numbers("X"))
    assert (np.flatnonzero(at_top) == np.arange(995, 1000)).all()
    assert any("1 value of X stand" in w for w in notes.warnings)
    grouped, notes, _ = carried_out(sf.RankSwap(columns=["X"], correlation=0.9, far_values="group"), data, 1)
    x = grouped.numbers("X")
    assert sorted(x) == sorted(data.numbers("X"))
    assert set(x[995:]) == set(data.numbers("X")[995:])
    assert (x[995:] != data.numbers("X")[995:]).all()
    assert notes.figures["correlation_with_far"]["X"] == pytest.approx(
        np.corrcoef(x, data.numbers("X"))[0, 1]
    )
    assert notes.figures["achieved"]["X"] > math.sqrt(0.9) - 0.001


def test_the_record_that_stays_may_be_any():
    # An odd number of records: re-pairing left the largest value where it was in 30 of 30 runs.
    rng = generator("odd")
    for more, x in (({"interval": "ranks"}, rng.lognormal(0, 0.7, 301)), ({}, rng.beta(1, 2, 301))):
        data = sf.Microdata(pl.DataFrame({"X": x}))
        order = np.argsort(np.argsort(x))
        mask = sf.RankSwap(columns=["X"], correlation=0.9, **more)
        stays = []
        for seed in range(60):
            masked, notes, _ = carried_out(mask, data, seed)
            here = order[masked.numbers("X") == data.numbers("X")]
            assert len(here) == notes.figures["left_over"]["X"] == 1
            stays.append(here[0] / 300)
        # Uniform on 0 … 1: mean and spread of 60 within four standard errors, and never one place twice over.
        assert np.mean(stays) == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / 60))
        assert np.std(stays) == pytest.approx(
            math.sqrt(1 / 12), abs=4 * math.sqrt(1 / 12) * math.sqrt(0.8 / 240)
        )
        assert len(set(stays)) > 40
        cycle = sf.RankSwap(columns=["X"], correlation=0.9, leftover="cycle", **more)
        for seed in range(10):
            assert (carried_out(cycle, data, seed)[0].numbers("X") != data.numbers("X")).all()


@pytest.mark.parametrize("partner", ["uniform", "geometric"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_prediction_is_right_before_anything_is_adjusted(shape, partner):
    data, goal = column(shape), 0.95
    mask = sf.RankSwap(columns=["X"], correlation=goal**2, adjust=False, partner=partner, interval="ranks")
    outcomes = [carried_out(mask, data, seed) for seed in range(8)]
    got = [own_correlation(data, masked) for masked, _, _ in outcomes]
    predicted = outcomes[0][1].figures["predicted"]["X"]
    assert predicted == pytest.approx(goal, abs=0.002)
    assert np.mean(got) == pytest.approx(predicted, abs=0.0005 + 4.5 * np.std(got, ddof=1) / math.sqrt(8))


@pytest.mark.parametrize("shape", ["normal", "lognormal", "zero-inflated"])
def test_geometric_partners_meet_the_same_targets(shape):
    data, goal = column(shape), 0.95
    mask = sf.RankSwap(columns=["X"], correlation=goal**2, partner="geometric")
    got = [own_correlation(data, mask.mask(data, seed=seed)) for seed in range(5)]
    assert np.mean(got) == pytest.approx(goal, abs=0.002)


@pytest.mark.parametrize("shape", ["normal", "exponential", "lognormal", "zero-inflated"])
@pytest.mark.parametrize("goal", [0.05, 0.10])
def test_calibrated_mean_change_is_met(shape, goal):
    data = column(shape)
    a = data.numbers("X")
    use = a > 0
    got = []
    for seed in range(5):
        b = sf.RankSwap(columns=["X"], mean_change=goal).mask(data, seed=seed).numbers("X")
        got.append(np.mean(np.abs(b[use] - a[use]) / a[use]))
    assert np.mean(got) == pytest.approx(goal, abs=0.0003)


def test_targets_are_met_within_strata_as_a_whole():
    rng = generator("strata")
    region = rng.integers(0, 4, N)
    data = sf.Microdata(pl.DataFrame({"X": rng.lognormal(9 + 0.3 * region, 1), "REGION": region}))
    for more in ({"interval": "ranks"}, {"far_values": "group"}):
        mask = sf.RankSwap(columns=["X"], correlation=0.9, within=["REGION"], **more)
        masked, notes, _ = carried_out(mask, data, 1)
        if not notes.figures.get("far_grouped"):
            assert own_correlation(data, masked) == pytest.approx(math.sqrt(0.9), abs=1e-4)
        assert notes.figures["achieved"]["X"] == pytest.approx(math.sqrt(0.9), abs=1e-4)
        assert notes.figures["predicted"]["X"] == pytest.approx(math.sqrt(0.9), abs=0.002)


def test_an_uncoded_heavy_tail_is_out_of_reach_and_that_is_said():
    data = sf.Microdata(pl.DataFrame({"X": generator("heavy").lognormal(0, 3, 5_000)}))
    ranks = sf.RankSwap(columns=["X"], correlation=0.99, interval="ranks")
    _, notes, _ = carried_out(ranks, data, 1)
    assert "X can't be brought to R(a,a′) = 0.995" in notes.warnings[0]
    # Top-coding the largest 0.5 percent makes the target reachable.
    coded = data.with_variable("X", top=float(np.quantile(data.numbers("X"), 0.995)))
    _, notes, _ = carried_out(ranks, coded, 1)
    assert notes.warnings == []
    assert notes.figures["achieved"]["X"] == pytest.approx(0.99**0.5, abs=1e-4)


# -- published figures ----------------------------------------------------------------------------

TOPS = {"INCOME": 100_000, "HOME_VAL": 350_000, "MORTGAGE": 1_800, "MAINTAIN": 9_000, "TAXES": 62}


@cache
def deck() -> sf.Microdata:
    return sf.decks.housing()


# Table 4: actual R(a,a′) and mean absolute percentage change for R0 = .975, .95, .90 and K0 = .10.
TABLE_4 = {
    "INCOME": [(0.955, 19.70), (0.930, 27.56), (0.895, 39.52), (0.975, 11.43)],
    "HOME_VAL": [(0.982, 11.62), (0.967, 16.79), (0.943, 23.24), (0.981, 13.21)],
    "MORTGAGE": [(0.985, 8.84), (0.973, 12.84), (0.953, 17.45), (0.980, 13.18)],
    "TAXES": [(0.983, 10.75), (0.970, 14.85), (0.949, 20.68), (0.983, 11.79)],
}
SETTINGS = [{"correlation": 0.975}, {"correlation": 0.95}, {"correlation": 0.90}, {"mean_change": 0.10}]


@pytest.mark.parametrize("case", range(4), ids=["R0=.975", "R0=.95", "R0=.90", "K0=.10"])
def test_the_theorems_give_table_4_on_the_housing_deck(case):
    mask = sf.RankSwap(columns=list(TABLE_4), interval="theorem", **SETTINGS[case])
    runs = [carried_out(mask, deck(), seed)[1].figures for seed in range(6)]
    for name, published in TABLE_4.items():
        r = np.mean([figures["correlation"][name] for figures in runs])
        k = np.mean([figures["mean_change"][name] for figures in runs])
        assert r == pytest.approx(published[case][0], abs=0.01), name
        assert 100 * k == pytest.approx(published[case][1], abs=2.0), name


def test_the_theorems_windows_are_the_papers():
    # FORMULAS and Table 4: INCOME 3.13, 4.42, 6.25 (printed 3.1, 4.4, 6.2) and 1.86 (printed 1.8).
    for setting, percent in zip(SETTINGS, [3.13, 4.42, 6.25, 1.86], strict=True):
        mask = sf.RankSwap(columns=["INCOME"], interval="theorem", **setting)
        figures = carried_out(mask, deck(), 0)[1].figures
        assert figures["window_percent"]["INCOME"] == pytest.approx(percent, abs=0.005)


# Table 2: correlations observed after a swap with R0 = .975.
TABLE_2 = {
    ("INCOME", "HOME_VAL"): 0.141,
    ("INCOME", "MORTGAGE"): 0.024,
    ("INCOME", "MAINTAIN"): 0.045,
    ("INCOME", "TAXES"): 0.087,
    ("HOME_VAL", "MORTGAGE"): 0.595,
    ("HOME_VAL", "MAINTAIN"): 0.202,
    ("HOME_VAL", "TAXES"): 0.567,
    ("MORTGAGE", "MAINTAIN"): 0.164,
    ("MORTGAGE", "TAXES"): 0.500,
    ("MAINTAIN", "TAXES"): 0.168,
}


def test_correlations_after_the_swap_are_predicted_and_near_table_2():
    mask = sf.RankSwap(columns=list(TOPS), correlation=0.975, interval="theorem")
    runs = [carried_out(mask, deck(), seed)[1].figures["pair_correlations"] for seed in range(8)]
    worst_lemma = 0.0
    for place, pair in enumerate(runs[0]):
        achieved = np.array([run[place]["achieved"] for run in runs])
        error = achieved.std(ddof=1) / math.sqrt(len(achieved))
        assert pair["predicted"] == pytest.approx(achieved.mean(), abs=0.002 + 3 * error)
        # The published figure is one swap, and the deck isn't the survey: 0.010 and that swap's error.
        assert achieved.mean() == pytest.approx(TABLE_2[tuple(pair["columns"])], abs=0.010 + error)
        worst_lemma = max(worst_lemma, abs(np.mean([r[place]["lemma"] for r in runs]) - achieved.mean()))
    assert worst_lemma > 0.006  # Lemma 1 isn't exact (HOME_VAL and MAINTAIN)


def literal_swap(values: np.ndarray, window: int, rng: np.random.Generator) -> np.ndarray:
    """Moore's section VII as it stands."""
    n = len(values)
    order = np.lexsort((rng.random(n), values))
    free, out = np.ones(n, dtype=bool), values.copy()
    for j in range(n):
        if free[j]:
            free[j] = False
            options = np.flatnonzero(free[j + 1 : j + 1 + window])
            if len(options):
                k = j + 1 + options[rng.integers(len(options))]
                free[k] = False
                out[order[j]], out[order[k]] = values[order[k]], values[order[j]]
    return out


@pytest.mark.parametrize(("percent", "quoted"), [(5, 0.944), (10, 0.900), (15, 0.854)])
def test_casc_windows_lose_what_the_literal_algorithm_loses(reference_data, percent, quoted):
    data = sf.Microdata(pl.read_csv(reference_data / "CASCrefmicrodata.csv"))
    mask, rng = sf.RankSwap(columns=data.columns, window_percent=percent), generator("casc")
    ours, literal = [], []
    for seed in range(10):
        notes = carried_out(mask, data, seed)[1]
        ours.append(np.mean(list(notes.figures["correlation"].values())))
        columns = (data.numbers(c) for c in data.columns)
        window = percent * len(data) // 100
        literal.append(np.mean([np.corrcoef(x, literal_swap(x, window, rng))[0, 1] for x in columns]))
    error = math.sqrt((np.var(ours, ddof=1) + np.var(literal, ddof=1)) / 10)
    assert np.mean(ours) == pytest.approx(np.mean(literal), abs=4 * error)
    predicted = np.mean(list(notes.figures["predicted"].values()))
    assert np.mean(ours) == pytest.approx(predicted, abs=0.001 + 4 * np.std(ours, ddof=1) / math.sqrt(10))
    # Another implementation's means of 20 swaps, with a similar standard error (it loses a little more:
    # docs/benchmarks/rank_swap_casc.md).
    error = np.std(ours, ddof=1) * math.sqrt(1 / 10 + 1 / 20)
    assert np.mean(ours) == pytest.approx(quoted, abs=4 * error)


@pytest.mark.parametrize("target", [0.98, 0.95, 0.90])
def test_casc_columns_meet_their_target_or_say_why_not(reference_data, target):
    data = sf.Microdata(pl.read_csv(reference_data / "CASCrefmicrodata.csv"))
    mask = sf.RankSwap(columns=data.columns, correlation=target, interval="ranks")
    met = []
    for seed in range(3):
        _, notes, _ = carried_out(mask, data, seed)
        for name in data.columns:
            off = abs(notes.figures["achieved"][name] - math.sqrt(target))
            said = any(w.startswith(name) for w in notes.warnings)
            assert off <= 0.01 or said, name
            met.append(off <= 0.01)
    # INTVAL and POTHVAL have a few far outliers: their pairs may have to be drawn again.
    assert np.mean(met) > 0.95


def test_pairs_are_drawn_again_where_a_few_far_values_leave_no_way_to_the_target():
    # Lognormal values in four strata: 250 each, windows of three ranks, and the largest carry the loss.
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"X": rng.lognormal(9, 1, 1000), "S": rng.integers(0, 4, 1000)})
    mask = sf.RankSwap(columns=["X"], correlation=0.9, within=["S"], interval="ranks")
    off, said = [], []
    for seed in range(8):
        _, notes, checks = carried_out(mask, sf.Microdata(frame), seed)
        off.append(abs(notes.figures["achieved"]["X"] - math.sqrt(0.9)))
        said.append(any("was to have" in w for w in notes.warnings))
        assert all(c.ok for c in checks)
    assert [o > 0.001 for o in off] == said
    assert np.mean(said) < 0.5  # one draw alone misses in more than half of them
