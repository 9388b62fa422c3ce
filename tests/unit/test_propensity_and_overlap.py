"""Propensity, interval overlap, moment ratios, distances and scores: twins, examples, bad input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
import statsmodels.formula.api as smf
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import sfumato as sf
from sfumato.contract.measure import Attack
from sfumato.contract.result import Result
from sfumato.errors import MeasureError, ParameterError
from sfumato.stats.design import formula_columns, formula_problem
from sfumato.stats.intervals import estimable, overlap
from sfumato.utility.distributions import distances


def titanic(reference_data: Path) -> pl.DataFrame:
    frame = pl.read_csv(reference_data / "titanic_889.csv")
    return frame.with_columns(pl.col("Age").fill_null(29.699))


# -- propensity -----------------------------------------------------------------------------------


def test_titanic_strata_have_the_known_distances(reference_data: Path) -> None:
    """FORMULAS section 9: U of pairs of strata (class × sex), ± 0.0005."""
    frame = titanic(reference_data)
    strata = {
        number: frame.filter((pl.col("Pclass") == c) & (pl.col("Sex") == s))
        for number, (c, s) in enumerate([(c, s) for c in (1, 2, 3) for s in ("male", "female")], start=1)
    }
    model = sf.Propensity(
        formula="Survived*(Age + Fare + SibSp + Parch)",
        permutations=0,
    )
    known = {(1, 2): 0.1023, (1, 3): 0.1628, (3, 5): 0.0405, (4, 5): 0.0782, (5, 6): 0.0526, (2, 3): 0.2384}
    for (a, b), expected in known.items():
        assert model.measure(strata[a], strata[b]).u_p == pytest.approx(expected, abs=0.0005), (a, b)
    assert model.measure(strata[4], strata[6]).u_p == pytest.approx(0.1430, abs=0.002)  # separated


def test_smho_strata_have_the_known_distances(reference_data: Path) -> None:
    frame = pl.read_csv(reference_data / "smho_n874.csv")
    kind = next(c for c in frame.columns if "TYPE" in c.upper())
    columns = [c for c in frame.columns if c.upper() in ("EXPTOTAL", "BEDS", "SEENCNT", "EOYCNT", "FINDIRCT")]
    assert len(columns) == 5
    parts = {k: frame.filter(pl.col(kind) == k) for k in (1, 2, 3, 5)}
    model = sf.Propensity(columns=columns, permutations=0)
    for (a, b), expected in {(1, 2): 0.1160, (2, 3): 0.0819, (2, 5): 0.1129}.items():
        assert model.measure(parts[a], parts[b]).value == pytest.approx(expected, abs=0.0005)


def test_the_null_tells_large_from_small() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3))
    frame = pl.DataFrame(x, schema=["A", "B", "C"])
    other = pl.DataFrame(rng.normal(size=(600, 3)), schema=["A", "B", "C"])
    moved = pl.DataFrame(x + 0.4, schema=["A", "B", "C"])
    model = sf.Propensity(permutations=40)
    same, far = model.measure(frame, other), model.measure(frame, moved)
    assert same.null_mean == pytest.approx(same.expected, rel=4 * math.sqrt(2 / 3 / 40))
    assert 0.2 < same.ratio < 4
    assert far.ratio > 10
    assert far.p_value == pytest.approx(1 / 41)
    assert far.value <= far.largest_possible == 0.25


def test_a_sampled_null_is_scaled_to_the_file() -> None:
    rng = np.random.default_rng(1)
    x, z = (pl.DataFrame(rng.normal(size=(4000, 2)), schema=["A", "B"]) for _ in range(2))
    whole = sf.Propensity(permutations=60).measure(x, z)
    sampled = sf.Propensity(permutations=60, permutation_records=1000).measure(x, z)
    assert sampled.null_mean == pytest.approx(whole.null_mean, rel=4 * math.sqrt(2 * 2 / 2 / 60))


def test_the_score_step_is_what_a_refit_gives() -> None:
    rng = np.random.default_rng(11)
    x, z = (pl.DataFrame(rng.gamma(2.0, size=(500, 4)), schema=list("ABCD")) for _ in range(2))
    refit = sf.Propensity(permutations=25, null="refit").measure(x, z)
    score = sf.Propensity(permutations=25, null="score").measure(x, z)
    one, two = (r.breakdown["null"].to_numpy() for r in (refit, score))
    assert two == pytest.approx(one, rel=0.02)  # the same shuffles; the share is of order 4/1000
    assert score.value == refit.value
    assert refit.null_kind == "fitted anew"
    assert score.null_kind == "by its score step"
    assert score.expected == pytest.approx(4 * 0.25 / 1000)
    assert score.p_value_law == pytest.approx(stats.chi2.sf(score.value * 1000 / 0.25, 4))


def test_the_score_null_of_all_shuffles_has_its_exact_mean() -> None:
    from itertools import combinations

    from sfumato.stats.shuffled import basis

    rng = np.random.default_rng(12)
    X = rng.normal(size=(8, 3))
    X[:, 2] = X[:, 0] - 2 * X[:, 1]  # columns that add up: rank 2
    Q = basis(X)
    assert Q.shape == (8, 2)
    assert np.allclose(Q.T @ Q, np.eye(2), atol=1e-12)
    found = []
    for chosen in combinations(range(8), 3):
        y = np.isin(np.arange(8), chosen) - 3 / 8
        fitted = X @ np.linalg.lstsq(X - X.mean(axis=0), y, rcond=None)[0]
        found.append(np.square(fitted - fitted.mean()).mean())
        assert np.square(y @ Q).sum() / 8 == pytest.approx(found[-1], abs=1e-12)
    assert np.mean(found) == pytest.approx(2 * (3 / 8) * (5 / 8) / 7)


def test_the_null_of_a_table_is_exact_by_the_score_and_rare_cells_count() -> None:
    rng = np.random.default_rng(13)
    frame = pl.DataFrame({"T": rng.choice(list("abc"), 400)})
    other = pl.DataFrame({"T": rng.choice(list("abc"), 400)})
    nulls = [
        sf.Propensity(permutations=5, null=n).measure(frame, other).breakdown["null"].to_numpy()
        for n in ("refit", "score")
    ]
    assert nulls[0] == pytest.approx(nulls[1], rel=1e-5)
    # 2 terms in the sample's rank, and a third category that few records have.
    rare = frame.with_columns(T=pl.when(pl.int_range(400) == 7).then(pl.lit("z")).otherwise("T"))
    found = sf.Propensity(permutations=50, permutation_records=100).measure(rare, other)
    assert found.expected == pytest.approx(3 * 0.25 / 800)
    assert found.null_mean == pytest.approx(found.expected, rel=4 * math.sqrt(2 / 2 / 50))
    assert "score step on a sample of 100 records" in found.null_kind


def test_swaps_are_seen_only_by_products() -> None:
    rng = np.random.default_rng(2)
    a = rng.normal(size=500)
    frame = pl.DataFrame({"A": a, "B": a + rng.normal(0, 0.3, 500)})
    swapped = frame.with_columns(B=pl.Series(rng.permutation(frame["B"].to_numpy())))
    blind = sf.Propensity(permutations=0, interactions=False).measure(frame, swapped)
    assert blind.value == pytest.approx(0, abs=1e-12)
    assert any("main effects see means only" in note for note in blind.notes)
    told = sf.Propensity(permutations=0).measure(
        frame, swapped
    )  # it sees by itself that columns were swapped
    assert told.value == sf.Propensity(permutations=0, interactions=True).measure(frame, swapped).value
    assert any("swapped, which main effects can't see" in note for note in told.notes)
    noisy = frame.with_columns(pl.col("B") + 1)
    assert sf.Propensity(permutations=0).measure(frame, noisy).terms == 2
    for model in (sf.Propensity(interactions=True), sf.Propensity(formula="A*B")):
        found = model.measure(frame, swapped)
        assert found.value > 10 * found.null_mean


def test_mixed_data_missing_values_and_categories() -> None:
    schema = {"variables": {"C": {"kind": "categorical"}, "N": {"missing": [-1]}}}
    frame = pl.DataFrame(
        {"C": [1, 2, 3, 1] * 20, "T": ["x", "y", None, "x"] * 20, "N": [1, -1, 3, None] * 20}
    )
    data = sf.Microdata(frame, schema)
    assert sf.Propensity().measure(data, data).value == 0
    more = sf.Microdata(frame.with_columns(T=pl.lit("x")), schema)
    found = sf.Propensity(permutations=0).measure(data, more)
    assert found.terms == 2 + 2 + 2
    # Records 1 and 2 of each four are told apart by T given C, the two others not at all.
    assert found.value == pytest.approx((80 * 0.25 + 80 * 0.0) / 160, abs=1e-4)


def test_boosting_sees_what_logistic_cannot() -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(3)
    x = pl.DataFrame({"A": rng.normal(size=300)})
    z = pl.DataFrame({"A": rng.normal(size=300) * 3})
    boosted = sf.Propensity(method="boosting", permutations=2).measure(x, z)
    assert boosted.value > 0.02
    assert boosted.value > 2 * boosted.null_mean
    assert sf.Propensity(method="boosting", permutations=0).measure(x, x).value == 0


def test_propensity_refuses() -> None:
    with pytest.raises(ParameterError, match="not both"):
        sf.Propensity(columns=["A"], formula="A")
    with pytest.raises(ParameterError, match="can't call 'system'"):
        sf.Propensity(formula="system(A)")
    with pytest.raises(ParameterError, match="must be one of"):
        sf.Propensity(method="forest")
    with pytest.raises(ParameterError, match="for logistic models"):
        sf.Propensity(method="boosting", null="score")
    with pytest.raises(MeasureError, match="no term"):
        sf.Propensity().measure(pl.DataFrame({"A": ["x", "x"]}), pl.DataFrame({"A": ["x", "x"]}))
    with pytest.raises(MeasureError, match="can't be used"):
        sf.Propensity(formula="A + (B").measure(
            pl.DataFrame({"A": [1.0], "B": [1.0]}), pl.DataFrame({"A": [1.0], "B": [1.0]})
        )


@pytest.mark.parametrize("bad", ["__import__('os')", "a.b", "{a}", "a[0]", "open(a)", "__x", "a; b", "'s'"])
def test_formulas_cannot_run_code(bad: str) -> None:
    assert formula_problem(bad) is not None


def test_formula_columns() -> None:
    assert formula_columns("y ~ C(a) + log(b):`c d` + poly(e, degree=2) + 1") == ["y", "a", "b", "c d", "e"]


# -- interval overlap -----------------------------------------------------------------------------


def test_linear_and_logistic_intervals_equal_statsmodels(reference_data: Path) -> None:
    frame = titanic(reference_data)
    data = sf.Microdata(frame, {"variables": {"Pclass": {"kind": "categorical"}}})
    pandas = frame.to_pandas()
    logistic = smf.logit("Survived ~ C(Pclass) + Sex + Age", pandas).fit(disp=0, tol=1e-12).conf_int()
    found = sf.IntervalOverlap(formula="Survived ~ Pclass + Sex + Age", family="logistic").measure(data, data)
    assert found.value == 1.0
    assert found.coefficients == 5
    ours = found.breakdown.select("original_low", "original_high").to_numpy()
    assert np.sort(ours, axis=0) == pytest.approx(np.sort(logistic.to_numpy(), axis=0), rel=1e-5)
    linear = smf.ols("Fare ~ C(Pclass) + Age", pandas).fit().conf_int().to_numpy()
    found = sf.IntervalOverlap(formula="Fare ~ Pclass + Age").measure(data, data)
    ours = found.breakdown.select("original_low", "original_high").to_numpy()
    assert np.sort(ours, axis=0) == pytest.approx(np.sort(linear, axis=0), rel=1e-8)


@given(*[st.floats(-100, 100) for _ in range(2)], *[st.floats(0.1, 50) for _ in range(2)])
def test_overlap_has_its_properties(a: float, b: float, wide: float, wider: float) -> None:
    one, two = (a, a + wide), (b, b + wider)
    j = overlap(one, two)
    assert j == overlap(two, one)
    assert j <= 1 + 1e-12
    apart = max(one[0], two[0]) - min(one[1], two[1])
    assert (j < 0) == (apart > 0)
    assert overlap(one, one) == 1.0


def test_a_model_that_fits_one_file_exactly_has_no_overlap_there() -> None:
    rng = np.random.default_rng(9)
    x = pl.DataFrame(rng.lognormal(8, 1, (200, 2)), schema=["A", "B"]).with_columns(
        T=pl.col("A") + pl.col("B")
    )
    model = sf.IntervalOverlap(formula="T ~ A + B")
    assert model.measure(x, x).value == 1.0
    # Noise that keeps the sum: the same coefficients, exact in both files.
    other = x.with_columns(A=pl.col("A") * 1.1).with_columns(T=pl.col("A") + pl.col("B"))
    assert model.measure(x, other).value == 1.0
    broken = x.with_columns(A=pl.Series(rng.permutation(x["A"].to_numpy())))
    with pytest.raises(MeasureError, match="fits one file exactly"):
        model.measure(x, broken)
    strata = x.with_columns(G=pl.Series(["a", "b"] * 100)).with_columns(
        T=pl.when(pl.col("G") == "a").then("T").otherwise(pl.col("T") + pl.Series(rng.normal(0, 9, 200)))
    )
    after = strata.with_columns(A=pl.Series(rng.permutation(x["A"].to_numpy())))
    found = sf.IntervalOverlap(formula="T ~ A + B", within=["G"]).measure(strata, after)
    assert found.coefficients == 3
    assert math.isfinite(found.value)
    assert sorted(name.split(" in ")[0] for name in found.not_estimable) == ["A", "B", "Intercept"]


def test_overlap_contained_interval() -> None:
    assert math.isnan(overlap((1.0, 1.0), (0.0, 4.0)))
    assert overlap((0.0, 4.0), (1.0, 2.0)) == pytest.approx(0.5 * (0.25 + 1.0))


def test_strata_aliases_and_separation_are_named() -> None:
    rng = np.random.default_rng(5)
    n = 120
    frame = pl.DataFrame(
        {
            "G": ["a"] * 60 + ["b"] * 58 + ["c"] * 2,
            "x": rng.normal(size=n),
            "zero": [0.0] * 60 + [1.0, 0.0] * 30,
        }
    ).with_columns(y=pl.col("x") * 2 + pl.Series(rng.normal(size=n)), twice=pl.col("x") * 2)
    found = sf.IntervalOverlap(formula="y ~ x + zero + twice", within=["G"]).measure(frame, frame)
    assert "zero in a" in found.not_estimable
    assert "twice in a" in found.not_estimable
    assert "twice in b" in found.not_estimable
    assert any(name.endswith("in c") for name in found.not_estimable)
    assert found.value == 1.0
    assert found.coefficients == 2 + 3
    separated = pl.DataFrame({"y": [0] * 20 + [1] * 20, "x": np.arange(40.0)})
    with pytest.raises(MeasureError, match="no coefficient can be estimated"):
        sf.IntervalOverlap(formula="y ~ x", family="logistic").measure(separated, separated)


def test_a_level_lost_by_masking_is_named() -> None:
    rng = np.random.default_rng(6)
    frame = pl.DataFrame({"k": ["p", "q", "r"] * 20, "y": rng.normal(size=60)})
    after = frame.with_columns(k=pl.col("k").replace("r", "q"))
    found = sf.IntervalOverlap(formula="y ~ k").measure(frame, after)
    assert len(found.not_estimable) == 1
    assert "r" in found.not_estimable[0]


def test_estimable_follows_the_order_of_terms() -> None:
    a = np.arange(5.0)
    X = np.column_stack([np.ones(5), a, a * 3 - 1, np.zeros(5), a**2])
    assert estimable(X).tolist() == [True, True, False, False, True]


def test_interval_overlap_refuses() -> None:
    frame = pl.DataFrame({"y": [1.0, 2.0, 3.0], "x": [1.0, 0.0, 2.0]})
    with pytest.raises(ParameterError, match="needs a response"):
        sf.IntervalOverlap(formula="x + y")
    with pytest.raises(MeasureError, match="names 'z'"):
        sf.IntervalOverlap(formula="y ~ z").measure(frame, frame)
    with pytest.raises(MeasureError, match="two values"):
        sf.IntervalOverlap(formula="y ~ x", family="logistic").measure(frame, frame)


# -- moment ratios --------------------------------------------------------------------------------


def test_moment_ratios_within_moved_strata() -> None:
    before = pl.DataFrame(
        {"G": [1, 1, 1, 2, 2, 2], "A": [1.0, 2.0, 6.0, 4.0, 8.0, 5.0], "B": [2.0, 1.0, 3.0, 1.0, 5.0, 9.0]}
    )
    after = before.with_columns(G=pl.Series([1, 2, 1, 2, 1, 2]))
    found = sf.MomentRatios(columns=["A", "B"], within=["G"]).measure(before, after)
    row = found.breakdown.filter(
        (pl.col("stratum") == "1") & (pl.col("element") == "A") & (pl.col("kind") == "mean")
    )
    assert row["ratio"].item() == pytest.approx(3 / 5)
    covariance = found.breakdown.filter((pl.col("stratum") == "2") & (pl.col("kind") == "covariance"))
    one, two = np.cov([4, 8, 5], [1, 5, 9])[0, 1], np.cov([2, 4, 5], [1, 1, 9])[0, 1]
    assert covariance["ratio"].item() == pytest.approx(one / two)
    assert covariance["sign_change"].item() == ((one > 0) != (two > 0))
    assert sf.MomentRatios(columns=["A", "B"], within=["G"]).measure(before, before).value == 0


def test_ratios_without_a_denominator_are_counted() -> None:
    before = pl.DataFrame({"A": [1.0, 2.0, 3.0]})
    after = pl.DataFrame({"A": [-1.0, 0.0, 1.0]})
    found = sf.MomentRatios().measure(before, after)
    assert found.left_out == 1
    with pytest.raises(MeasureError, match="2 complete records"):
        sf.MomentRatios().measure(before[:1], after[:1])
    with pytest.raises(ParameterError, match="within itself"):
        sf.MomentRatios(columns=["A"], within=["A"])


# -- distributions --------------------------------------------------------------------------------


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=30),
    st.lists(st.integers(-5, 5), min_size=1, max_size=30),
)
def test_distances_equal_scipy(a: list[int], b: list[int]) -> None:
    x, z = np.array(a, dtype=float), np.array(b, dtype=float)
    ks, wasserstein = distances(x, z)
    assert ks == pytest.approx(max(abs(np.mean(x <= t) - np.mean(z <= t)) for t in range(-5, 6)), abs=1e-15)
    assert wasserstein == pytest.approx(stats.wasserstein_distance(x, z), abs=1e-12)


def test_a_swap_shows_in_the_displacement_alone() -> None:
    x = pl.DataFrame({"A": [1.0, 2.0, 3.0, 4.0], "B": [1.0, 5.0, 2.0, 2.0]})
    z = x.with_columns(A=pl.Series([2.0, 1.0, 4.0, 3.0]))
    found = sf.Distributions().measure(x, z)
    assert found.value == 0
    assert found.displacement["A"] == pytest.approx(1 / np.std([1, 2, 3, 4]))
    assert found.correlations_after["A"][1] == pytest.approx(np.corrcoef([2, 1, 4, 3], x["B"])[0, 1])
    same = sf.Distributions().measure(x, x)
    assert same.value == 0
    assert same.displacement == {"A": 0.0, "B": 0.0}


# -- scores ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fixed(Attack):
    """An attack that always links a quarter."""

    name: ClassVar[str] = ""

    def _measure(self, original, masked, draws):  # type: ignore[no-untyped-def]
        return Result(value=0.25, figures={"rate": 0.25})


def test_scores_are_means_of_loss_and_rate() -> None:
    rng = np.random.default_rng(8)
    x = pl.DataFrame(rng.lognormal(size=(200, 3)), schema=["A", "B", "C"])
    z = x.select(pl.all() * 1.1)
    loss = sf.InformationLoss().measure(x, z)
    score = sf.Score(attack=Fixed()).measure(x, z)
    assert score.a_score == pytest.approx(50 * (loss.s0 + 0.25))
    assert score.d_score == pytest.approx(50 * (loss.s1 + 0.25))
    assert score.s_score == pytest.approx(50 * (loss.s2 + 0.25))
    assert score.value == score.a_score
    other = sf.Score(attack=Fixed(), loss={"measure": "distributions"}).measure(x, z)
    assert other.value == pytest.approx(50 * (sf.Distributions().measure(x, z).value + 0.25))


def test_attacks_come_as_names_and_tables() -> None:
    score = sf.Score(attack={"attack": "distance_linkage", "known": ["A"]})
    assert score.attack == sf.DistanceLinkage(known=["A"])
    again = sf.Score.from_dict(score.to_dict())
    assert again == score
    with pytest.raises(ParameterError, match="no measure 'linkag'"):
        sf.Score(attack="linkag")
    with pytest.raises(ParameterError, match="measures utility"):
        sf.Score(attack="information_loss")
    with pytest.raises(ParameterError, match="must name its measure"):
        sf.Score(attack={"known": ["A"]})


@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_a_response_of_three_categories_is_refused(family: str) -> None:
    frame = pl.DataFrame({"R": list("abc") * 20, "X": np.arange(60.0) % 7})
    with pytest.raises(MeasureError, match="3 categories"):
        sf.IntervalOverlap(formula="R ~ X", family=family).measure(frame, frame)
