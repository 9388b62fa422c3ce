"""Population risk: what sdcMicro's documentation prints, what a real population says, hand calculations."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, getcontext

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

import sfumato as sf
from sfumato.errors import MeasureError, ParameterError
from sfumato.stats import loglinear, superpopulation
from sfumato.stats.loglinear import LogLinear, components, maximal
from sfumato.stats.poisson import bias_terms, fit_poisson, grid_design, match_chance

KEYS = ["sex", "water", "roof"]


def by_proportional_fitting(table, terms, sweeps=2000):
    """The whole cross product, one margin after another."""
    fitted = np.full(table.shape, table.mean())
    for _ in range(sweeps):
        for term in terms:
            axes = tuple(i for i in range(table.ndim) if i not in term)
            have, want = (x.sum(axis=axes, keepdims=True) for x in (fitted, table))
            fitted = fitted * np.divide(want, have, out=np.zeros_like(want), where=have > 0)
    return fitted


# -- sdcMicro's documentation -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weighting", "scores", "first", "second"),
    [
        ("none", True, 0.24436, 0.38400),  # method "default"
        ("ce", True, 0.23740, 0.37936),
        ("pml", True, 0.24436, 0.38400),
        ("weighted", True, 0.31424, 0.44249),  # "weightedLLM"
        ("none", False, 0.27354, 0.41038),  # "IPF", which takes the keys as categories
    ],
)
def test_mod_risk_as_the_documentation_of_sdcmicro_prints_it(
    reference_data, weighting, scores, first, second
):
    data = sf.Microdata(pl.read_csv(reference_data / "testdata2.csv"))
    found = sf.measure(
        data,
        sf.PopulationRisk(
            keys=KEYS,
            interactions="main",
            weighting=weighting,
            scores=KEYS if scores else (),
            weight="sampling_weight",
        ),
    )[0]
    assert found.sdcmicro_1 == pytest.approx(first, abs=5e-6)
    assert found.sdcmicro_2 == pytest.approx(second, abs=5e-6)
    # Its risk takes the sample's mean for the population's: with weights of 100 that is far too much.
    assert found.tau2 / found.sample_uniques < 0.05 < found.sdcmicro_2


# -- the fit ------------------------------------------------------------------------------------------

MODELS = [
    [(0,), (1,), (2,), (3,)],
    [(0, 1), (2, 3)],
    [(0, 1), (1, 2), (0, 2), (3,)],
    list(itertools.combinations(range(4), 2)),
    [(0, 1, 2), (2, 3)],
    [(0, 1, 2, 3)],
]


@pytest.mark.parametrize("terms", MODELS, ids=str)
@pytest.mark.parametrize("whole", [True, False], ids=["table", "factors"])
def test_the_fit_is_that_of_proportional_fitting_on_the_cross_product(monkeypatch, terms, whole):
    if not whole:
        monkeypatch.setattr(loglinear, "DENSE", 1)
    rng = np.random.default_rng(3)
    table = rng.multinomial(400, rng.dirichlet(np.full(120, 0.5))).reshape(3, 4, 2, 5).astype(float)
    codes = np.array(np.nonzero(table))
    fit = LogLinear.fit(codes, table[tuple(codes)], table.shape, terms)
    want = by_proportional_fitting(table, terms)
    every = np.indices(table.shape).reshape(4, -1)
    assert fit.at(every) == pytest.approx(want.ravel(), abs=1e-4)
    assert fit.deviation < 2e-4
    # Sums over all combinations from the grid of logarithms, to the order of its step squared.
    levels, mass = fit.spectrum()
    assert mass.sum() == pytest.approx((want > 1e-12).sum(), rel=1e-6)
    for smooth in (lambda x: x, lambda x: x**2 * np.exp(-x), lambda x: np.exp(-x) * x):
        assert (mass * smooth(levels)).sum() == pytest.approx(smooth(want).sum(), rel=5e-5)


@pytest.mark.parametrize("terms", MODELS[:4], ids=str)
def test_poisson_regression_fits_the_same(terms):
    rng = np.random.default_rng(5)
    table = rng.poisson(4, (3, 2, 2, 3)).astype(float)
    _, design = grid_design(table.shape, [*terms, *((j,) for j in range(4))], {})
    got = fit_poisson(design, table.ravel())
    assert got == pytest.approx(
        by_proportional_fitting(table, [*terms, *((j,) for j in range(4))]).ravel(), abs=1e-5
    )


def test_a_table_too_large_is_refused_with_a_way_out():
    codes = np.zeros((3, 1), np.int64)
    pairs = [(0, 1), (1, 2), (0, 2)]
    with pytest.raises(MeasureError, match="too many") as problem:
        LogLinear.fit(codes, np.ones(1), (100_000, 100_000, 2000), pairs)
    assert "fewer interactions" in problem.value.hint
    with pytest.raises(MeasureError, match="three by three"):
        loglinear._apart((5, 5, 5), [(0, 1, 2)])
    with pytest.raises(MeasureError, match="Poisson regression"):
        grid_design((1000, 1000, 100), [(0, 1)], {})


def test_terms_and_components():
    assert maximal([(0,), (1, 0), (2,), (0, 1)]) == [(0, 1), (2,)]
    assert components(5, [(0, 3), (1,), (3, 4)]) == [(0, 3, 4), (1,), (2,)]


# -- the law of F given f -----------------------------------------------------------------------------


@given(st.integers(1, 30), st.floats(0, 60), st.floats(0.001, 0.999))
@settings(max_examples=40)
def test_the_match_chance_is_the_mean_of_one_over_the_count(f, mean, fraction):
    v = (1 - fraction) * mean
    rest = np.arange(0, 400)
    want = float((poisson.pmf(rest, v) / (f + rest)).sum())
    got = match_chance(np.array([f]), np.array([mean]), np.array([fraction]))
    assert got[0] == pytest.approx(want, rel=1e-9)


def test_the_match_chance_of_very_many():
    got = match_chance(np.array([5000, 2]), np.array([10.0, 90_000.0]), np.array([0.5, 0.1]))
    assert got[0] == pytest.approx(1 / 5005, rel=1e-4)
    assert got[1] == pytest.approx(1 / (2 + 81_000), rel=1e-3)


@pytest.mark.parametrize("mean", ["0.000001", "0.001", "0.0035", "0.5", "5"])
@pytest.mark.parametrize("f", [0, 1, 3])
def test_bias_terms_as_skinner_and_shlomo_print_them(mean, f):
    """With fifty digits: for small λ the differences cancel."""
    getcontext().prec = 50
    lam, p = Decimal(mean), Decimal("0.05")
    v, off = (1 - p) * lam, f - p * lam
    h = (1 - (-v).exp()) / v
    a1, b1 = (1 - p) * lam * (-lam).exp(), (1 - p) ** 2 / (2 * p) * lam * (-lam).exp()
    a2 = (-p * lam).exp() * h - (-lam).exp()
    b2 = ((-p * lam).exp() * h - (-lam).exp() * (1 + v / 2)) / (p * lam)
    want = [
        *(a * off + b * (off**2 - f) for a, b in ((a1, b1), (a2, b2))),
        *(a**2 * p * lam + 2 * b**2 * (p * lam) ** 2 for a, b in ((a1, b1), (a2, b2))),
    ]
    got = bias_terms(np.array([float(f)]), np.array([float(lam)]), np.array([0.05]))
    assert [float(g[0]) for g in got] == pytest.approx([float(w) for w in want], rel=1e-7)


# -- a population that is known -----------------------------------------------------------------------

PEOPLE = ["region", "gender", "ecoStat", "citizenship", "age", "hsize"]


@pytest.fixture(scope="module")
def people(reference_data):
    path = reference_data / "census" / "eusilcP_population.csv"
    frame = pl.read_csv(path, null_values="NA", infer_schema_length=None)
    return frame.select(PEOPLE).with_columns(pl.col("age").cast(pl.Int64) // 5)


def truth(people: pl.DataFrame, sample: pl.DataFrame) -> tuple[int, float]:
    whole = people.group_by(PEOPLE).len()
    once = sample.group_by(PEOPLE).agg(f=pl.len()).filter(pl.col("f") == 1)
    alone = once.join(whole, on=PEOPLE, nulls_equal=True)
    return int((alone["len"] == 1).sum()), float((1 / alone["len"]).sum())


def test_models_against_a_known_population(people):
    """Two samples of 5 percent: the chosen model is near, main effects overstate and say so."""
    simple = []
    for seed in (1, 2):
        sample = people.sample(fraction=0.05, seed=seed)
        one, two = truth(people, sample)
        main, chosen = sf.measure(
            sf.Microdata(sample),
            sf.PopulationRisk(keys=PEOPLE, sampling_percent=5, interactions="main"),
            sf.PopulationRisk(keys=PEOPLE, sampling_percent=5),
        )
        # The true counts vary about the model's expectation as Poisson counts do (Σ 1/F by less).
        assert abs(chosen.tau1 - one) <= 3 * math.sqrt(chosen.tau1)
        assert abs(chosen.tau2 - two) <= 3 * math.sqrt(chosen.tau2)
        simple.append(main.tau1 / one)
        assert main.bias_1 > 20
        assert any("too simple" in note for note in main.notes)
        assert abs(chosen.bias_1) < 3
        assert chosen.interactions
        assert chosen.value == pytest.approx(chosen.tau1 / len(sample))
        single = chosen.confidential["unique_risk"] > 0
        assert single.sum() == chosen.sample_uniques
    assert min(simple) > 2


def parity_population(seed):
    """Who a is and who b is tell nothing of c; both together tell nearly all: c = a + b (mod 4), mostly."""
    rng = np.random.default_rng(seed)
    n = 60_000
    a, b = rng.integers(0, 4, n), rng.integers(0, 4, n)
    c = np.where(rng.random(n) < 0.9, (a + b) % 4, rng.integers(0, 4, n))
    d, e = (np.minimum(rng.geometric(p, n), 40) for p in (0.12, 0.2))
    return pl.DataFrame({"a": a, "b": b, "c": c, "d": d, "e": e})


def test_interactions_of_three_are_chosen_where_pairs_do_not_do():
    frame = parity_population(1)
    keys = frame.columns
    whole = frame.group_by(keys).len()
    for seed in (1, 2, 3):
        sample = frame.sample(fraction=0.1, seed=seed)
        once = sample.group_by(keys).agg(f=pl.len()).filter(pl.col("f") == 1).join(whole, on=keys)
        one, two = int((once["len"] == 1).sum()), float((1 / once["len"]).sum())
        pairs, chosen, told = sf.measure(
            sf.Microdata(sample),
            sf.PopulationRisk(keys=keys, sampling_percent=10, interactions="two_way"),
            sf.PopulationRisk(keys=keys, sampling_percent=10),
            sf.PopulationRisk(keys=keys, sampling_percent=10, terms=[["a", "b", "c"]]),
        )
        assert pairs.bias_1 > 2
        assert "a × b × c" in chosen.interactions
        assert abs(chosen.bias_1) < 2.5
        assert told.interactions == ["a × b × c"]
        # The counts vary about what the right model expects; pairs alone are far off.
        for found in (chosen, told):
            assert abs(found.tau1 - one) <= 4 * math.sqrt(found.tau1)
            assert abs(found.tau2 - two) <= 4 * math.sqrt(found.tau2)
        assert abs(pairs.tau2 - two) > 4 * math.sqrt(pairs.tau2)


@pytest.mark.parametrize(("percent", "model"), [(5, "pitman"), (20, "snb")])
def test_dankar_s_rule_against_a_known_population(people, percent, model):
    ratios = []
    for seed in range(6):
        sample = people.sample(fraction=percent / 100, seed=seed)
        one, _ = truth(people, sample)
        found = sf.measure(
            sf.Microdata(sample), sf.PopulationRisk(keys=PEOPLE, sampling_percent=percent, model="dankar")
        )[0]
        assert found.model == model
        assert found.population_uniques / found.population_size == pytest.approx(found.value)
        ratios.append(found.tau1 / one)
    # Over six samples the estimate is right on average: within three standard errors, none above .07.
    error = np.std(ratios, ddof=1) / math.sqrt(len(ratios))
    assert error < 0.07
    assert np.mean(ratios) == pytest.approx(1, abs=3 * error)


# -- superpopulation models by their own equations --------------------------------------------------------


@pytest.fixture(scope="module")
def classes(people):
    sample = people.sample(fraction=0.2, seed=4)
    sizes, number = np.unique(sample.group_by(PEOPLE).len()["len"].to_numpy(), return_counts=True)
    return sizes.astype(np.int64), number.astype(np.int64), len(people)


def test_pitman_solves_its_likelihood_equations(classes):
    """∂L/∂θ and ∂L/∂α of Hoshino's likelihood, summed term by term."""
    sizes, number, _ = classes
    theta, alpha = superpopulation.pitman_parameters(sizes, number)
    u, n = int(number.sum()), int((sizes * number).sum())
    i, j = np.arange(1, u), np.arange(1, n)
    by_theta = (1 / (theta + i * alpha)).sum() - (1 / (theta + j)).sum()
    within = sum(
        int(c) * (1 / (np.arange(1, int(s)) - alpha)).sum() for s, c in zip(sizes, number, strict=True)
    )
    by_alpha = (i / (theta + i * alpha)).sum() - within
    assert 0 < alpha < 1
    assert by_theta * theta == pytest.approx(0, abs=1e-3 * u)
    assert by_alpha / u == pytest.approx(0, abs=1e-4)


def test_pitman_recovers_the_parameters_of_its_own_restaurant():
    rng = np.random.default_rng(11)
    theta, alpha, tables = 200.0, 0.4, [1]
    for n in range(1, 6000):
        if rng.random() < (theta + len(tables) * alpha) / (theta + n):
            tables.append(1)
        else:
            weights = np.array(tables) - alpha
            tables[int(rng.choice(len(tables), p=weights / weights.sum()))] += 1
    sizes, number = np.unique(tables, return_counts=True)
    got = superpopulation.pitman_parameters(sizes.astype(np.int64), number.astype(np.int64))

    def likelihood(theta, alpha):
        """Of the seating: Π (θ + iα) Π (j − α) / Π (θ + j)."""
        i, j = np.arange(1, len(tables)), np.arange(1, sum(tables))
        seats = sum(np.log(np.arange(1, s) - alpha).sum() for s in tables)
        return np.log(theta + i * alpha).sum() - np.log(theta + j).sum() + seats

    # Standard errors by the likelihood's curvature: estimates lie within four of the truth.
    steps = np.array([1.0, 0.005])
    at = np.array(got)
    curvature = np.empty((2, 2))
    for a, b in itertools.product(range(2), range(2)):
        one, two = np.eye(2)[a] * steps, np.eye(2)[b] * steps
        curvature[a, b] = (
            likelihood(*(at + one + two)) - likelihood(*(at + one - two))
            - likelihood(*(at - one + two)) + likelihood(*(at - one - two))
        ) / (4 * steps[a] * steps[b])  # fmt: skip
    errors = np.sqrt(np.diag(np.linalg.inv(-curvature)))
    assert errors[0] < 0.15 * theta
    assert errors[1] < 0.05
    assert abs(got[0] - theta) < 4 * errors[0]
    assert abs(got[1] - alpha) < 4 * errors[1]


def test_zayatz_by_hand():
    """Ten records: 4 alone, 3 pairs; N = 20. A class of one is in the sample with chance ½, and of two
    people exactly one with 2·10·10/(20·19) = 10/19."""
    sizes, number = np.array([1, 2]), np.array([4, 3])
    share = 4 * 0.5 / (4 * 0.5 + 3 * 10 / 19)
    assert superpopulation.zayatz(sizes, number, 20) == pytest.approx(4 * share * 2)


def test_the_slide_negative_binomial_meets_both_counts(classes):
    """Its expected singles and pairs, summed over the law of class sizes, are the sample's."""
    sizes, number, people = classes
    fraction = float((sizes * number).sum()) / people
    found = superpopulation.slide_negative_binomial(sizes, number, people)
    classes_there = superpopulation.shlosser(sizes, number, fraction)
    # U = K β^α fixes one of the two; find the other by the first equation, check the second.
    from scipy.optimize import brentq
    from scipy.stats import nbinom

    size = np.arange(1, 4000)

    def counts(alpha: float) -> tuple[float, float]:
        beta = (found / classes_there) ** (1 / alpha)
        law = classes_there * nbinom.pmf(size - 1, alpha, beta)
        one = (law * size * fraction * (1 - fraction) ** (size - 1)).sum()
        two = (law * size * (size - 1) / 2 * fraction**2 * (1 - fraction) ** (size - 2)).sum()
        return float(one), float(two)

    grid = np.geomspace(0.01, 5, 200)
    off = [counts(a)[0] - number[0] for a in grid]
    crossings = [(a, b) for a, b, x, y in zip(grid, grid[1:], off, off[1:], strict=False) if x * y < 0]
    pairs = [counts(brentq(lambda a: counts(a)[0] - number[0], a, b, xtol=1e-12))[1] for a, b in crossings]
    assert any(p == pytest.approx(number[1], rel=1e-4) for p in pairs)


def test_shlosser_by_hand():
    """One of each size 1 and 2 at π = ½: 2 + 1 · (½·½ … summed by hand)."""
    sizes, number, f = np.array([1, 2]), np.array([1, 1]), 0.5
    up = 1 * f**2 + 2 * f**2 * (1 - f**2)
    down = (1 - f) * ((1 + f) - 1) + (1 - f) ** 2 * ((1 + f) ** 2 - 1)
    ratio = ((1 - f) + (1 - f) ** 2) / (f + 2 * f * (1 - f))
    assert superpopulation.shlosser(sizes, number, f) == pytest.approx(2 + up / down * ratio**2)


def test_models_without_a_solution_take_the_safe_side():
    data = sf.Microdata(pl.DataFrame({"A": range(20)}))
    found = sf.measure(data, sf.PopulationRisk(keys=["A"], model="pitman", sampling_percent=10))[0]
    assert found.value == 1.0
    assert "no solution" in found.notes[0]
    nobody = sf.Microdata(pl.DataFrame({"A": [1] * 10}))
    for model in ("zayatz", "snb", "dankar"):
        assert (
            sf.measure(nobody, sf.PopulationRisk(keys=["A"], model=model, sampling_percent=10))[0].value == 0
        )
    assert math.isnan(superpopulation.pitman(np.array([10]), np.array([1]), 100))


def test_the_whole_population_has_its_own_uniques():
    data = sf.Microdata(pl.DataFrame({"A": [1, 1, 2, 3], "B": [1, 1, 1, 2]}))
    for model in ("loglinear", "zayatz"):
        found = sf.measure(data, sf.PopulationRisk(keys=["A", "B"], model=model, sampling_percent=100))[0]
        assert found.tau1 == pytest.approx(2)
        assert found.figures.get("bias_1") is None


def test_what_is_refused():
    data = sf.Microdata(pl.DataFrame({"A": [1, 2], "W": [0.1, 0.1]}))
    with pytest.raises(MeasureError, match="how large the population"):
        sf.measure(data, sf.PopulationRisk(keys=["A"]))
    with pytest.raises(MeasureError, match="fewer people"):
        sf.measure(data, sf.PopulationRisk(keys=["A"], weight="W"))
    with pytest.raises(MeasureError, match="needs a weight"):
        sf.measure(data, sf.PopulationRisk(keys=["A"], weighting="pml", sampling_percent=1))
    with pytest.raises(ParameterError, match="isn't a key"):
        sf.PopulationRisk(keys=["A"], terms=[["A", "B"]])
    with pytest.raises(ParameterError, match="log-linear"):
        sf.PopulationRisk(model="pitman", weighting="ce")
    gone = sf.Microdata(pl.DataFrame({"A": [1, None, 2]}))
    with pytest.raises(MeasureError, match="missing"):
        sf.measure(gone, sf.PopulationRisk(keys=["A"], scores=["A"], sampling_percent=1))
