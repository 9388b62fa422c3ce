"""The stronger attacks: each against a mask made here, with what it must find and what it must say."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError, ParameterError
from sfumato.kernels import rank_attack as kernels
from sfumato.linkage.points import whitener
from sfumato.risk.intruder import TABLE_5
from sfumato.run.battery import fitting_attacks, run_battery
from sfumato.run.curve import known_curve

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import linkage_twins as twins


def correlated(n=250, m=6, seed=0):
    """Skewed columns with one common factor, and an exact sum."""
    rng = np.random.default_rng(seed)
    X = np.exp(9 + 0.6 * rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, m)))
    X[:, -1] = X[:, 0] + X[:, 1]
    return X


def frame(X):
    return pl.DataFrame(X, schema=[f"x{j}" for j in range(X.shape[1])])


ATTACKS = [
    sf.DistanceLinkage(),
    sf.DistanceLinkage(metric="mahalanobis"),
    sf.DistanceLinkage(metric="rank"),
    sf.SelfTrainedLinkage(),
    sf.RankAttack(),
    sf.NoiseAttack(),
    sf.SupervisedLinkage(),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: f"{a.name} {getattr(a, 'metric', '')}")
def test_every_attack_finds_everybody_in_an_unmasked_file(attack):
    X = correlated()
    result = attack.measure(frame(X), frame(X))
    assert result.rate == 1
    assert result.correct == result.attacked
    assert 0 < result.baseline < 0.01
    assert result.interval[1] == 1
    assert {"original", "masked", "weight"} <= set(result.links.columns)
    assert any("intruder" in note for note in result.notes)


# -- distances ------------------------------------------------------------------------------------


def test_mahalanobis_survives_exact_sums_and_ignores_units():
    X = correlated()
    Z = twins.normal_noise(X, 0.05, np.random.default_rng(1))
    attack = sf.DistanceLinkage(metric="mahalanobis")
    here = attack.measure(frame(X), frame(Z))
    units = np.array([1, 1e-3, 50, 1, 7, 1])
    there = attack.measure(frame(X * units), frame(Z * units))
    assert here.links["masked"].equals(there.links["masked"])


def test_rescaling_protects_nothing():
    X = correlated()
    Z = twins.normal_noise(X, 0.2, np.random.default_rng(1))
    a = 1 / math.sqrt(1.2)
    scaled = a * Z + (1 - a) * Z.mean(axis=0)
    for attack in (sf.DistanceLinkage(metric="mahalanobis"), sf.NoiseAttack(form="normal")):
        one = attack.measure(frame(X), frame(Z)).rate
        two = attack.measure(frame(X), frame(scaled)).rate
        assert one == pytest.approx(two, abs=1e-12)


@given(st.integers(0, 1000), st.integers(1, 5))
def test_whitening_makes_the_covariance_the_identity_on_its_range(seed, m):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m + 2, m)) * 10.0 ** rng.integers(-3, 4, m)
    cov = A.T @ A
    cov = np.pad(cov, ((0, 1), (0, 1)))
    cov[m, :m] = cov[:m, m] = cov[:m, :m].sum(0)  # an exact sum of the others
    cov[m, m] = cov[:m, :m].sum()
    T = whitener(cov)
    assert T.shape[0] <= m
    np.testing.assert_allclose(T @ cov @ T.T, np.eye(T.shape[0]), atol=1e-5)


def test_categories_agree_or_not_by_gowers_way():
    """Four jobs, one of them twice: a disagreement costs 2 / (1 − u) with u = Σ f²."""
    one = pl.DataFrame({"job": ["a", "a", "b", "c"], "x": [0.0, 2.0, 4.0, 6.0]})
    two = one.with_columns(job=pl.Series(["a", "b", "b", "c"]))
    result = sf.DistanceLinkage(known=["job", "x"]).measure(one, two)
    shares = np.array([2, 1, 1]) @ np.array([1, 2, 1]) / 16  # pairs of equal jobs, in file times release
    gain = 2 / (1 - shares)
    weight = dict(result.links.select("original", "weight").iter_rows())
    assert result.rate == 1
    # A category adds its gain where it agrees, nothing where it doesn't.
    assert [weight[i] for i in range(4)] == pytest.approx([gain, 0, gain, gain])


@pytest.mark.parametrize(
    "attack", [*ATTACKS[:4], ATTACKS[6]], ids=lambda a: f"{a.name} {a.parameters()}"[:24]
)
def test_a_known_category_helps_and_alone_it_is_enough_to_run(attack):
    rng = np.random.default_rng(2)
    X = correlated(300, 3)
    Z = frame(twins.rank_swap(X, 0.3, rng)).with_columns(job=pl.Series(np.arange(300) % 15).cast(pl.String))
    one = frame(X).with_columns(job=Z["job"])
    numbers = ["x0", "x1", "x2"]
    plain = replace(attack, known=numbers).measure(one, Z)
    both = replace(attack, known=[*numbers, "job"]).measure(one, Z)
    assert both.rate > plain.rate
    alone = replace(attack, known=["job"], one_to_one=False).measure(one, Z)
    # Twenty share a job (a few less where some are known already): one in twenty by chance.
    assert alone.rate == pytest.approx(1 / 20, abs=0.01)


def test_self_training_finds_the_space_of_the_mask():
    X = correlated(400)
    swapped = frame(twins.rank_swap(X, 0.1, np.random.default_rng(1)))
    noise = frame(twins.normal_noise(X, 0.05, np.random.default_rng(1)))
    by_rank = sf.SelfTrainedLinkage().measure(frame(X), swapped)
    by_value = sf.SelfTrainedLinkage().measure(frame(X), noise)
    assert by_rank.space == "ranks"
    assert by_value.space == "values"
    plain = sf.DistanceLinkage().measure(frame(X), noise)
    informed = sf.NoiseAttack(form="normal").measure(frame(X), noise)
    assert by_value.rate > plain.rate
    # Four standard errors of a difference of rates among the same 400 records.
    assert by_value.rate > informed.rate - 4 * math.sqrt(0.25 / 400)


# -- ranks ----------------------------------------------------------------------------------------


def rank_law(s, w):
    return math.log(2) * 2 ** (abs(s) / w) / (2 * w) if abs(s) <= w else 0.0


@pytest.mark.parametrize("spans", [(3, 4, 9, 10), (3, 7, 5, 9), (0, 6, 10, 23), (10, 12, 2, 3)])
def test_the_density_of_displacements_is_the_mean_of_its_law(spans):
    """The closed form against numerical integration over both intervals of ranks."""
    low, high, other_low, other_high = spans
    w = 12.0
    x = low + (np.arange(400) + 0.5) / 400 * (high - low)
    z = other_low + (np.arange(400) + 0.5) / 400 * (other_high - other_low)
    numeric = np.mean([[rank_law(b - a, w) for b in z[::4]] for a in x[::4]])
    got = kernels.log_density(*map(float, spans), w)
    if high - low == other_high - other_low == 1:
        # Single ranks have the law's own density at their distance.
        assert math.exp(got) == pytest.approx(rank_law(other_low - low, w))
    else:
        assert math.exp(got) == pytest.approx(numeric, rel=0.03)


def brute_candidates(X, Z, w):
    """Candidates by the definition: some ranks of the two values' ties within w, on every column."""
    n, m = X.shape
    out = []
    for i in range(n):
        mine = []
        for k in range(len(Z)):
            ok = True
            for j in range(m):
                a = [r for r, v in enumerate(sorted(Z[:, j])) if v == X[i, j]]
                b = [r for r, v in enumerate(sorted(Z[:, j])) if v == Z[k, j]]
                ok &= min(abs(p - q) for p, q in itertools.product(a, b)) <= w
            if ok:
                mine.append(k)
        out.append(mine)
    return out


@given(st.integers(0, 1000))
def test_candidates_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 8, (12, 2)).astype(float)
    Z = X.copy()
    for j in range(2):
        order = np.lexsort((rng.random(12), X[:, j]))
        Z[order, j] = X[order[np.arange(12) ^ 1], j]  # neighbours exchanged: window 1
    result = sf.RankAttack(window_percent=100 / 12).measure(frame(X), frame(Z))
    expected = brute_candidates(X, Z, 1)
    assert result.mean_candidates == pytest.approx(np.mean([len(c) for c in expected]))
    singles = [i for i, c in enumerate(expected) if len(c) == 1]
    assert result.certain_rate == pytest.approx(len(singles) / 12)
    assert result.truth_among_candidates == 1
    assert result.false_certain == 0


def test_the_window_is_recovered_exactly():
    X = correlated(300, 5)[:, :4]
    for window in (15, 30):
        Z = twins.rank_swap(X, (window + 0.5) / 300, np.random.default_rng(window))
        result = sf.RankAttack(columns=["x0", "x1", "x2", "x3"]).measure(frame(X), frame(Z))
        assert not result.window_refined
        assert list(result.window_percent.values()) == [pytest.approx(100 * window / 300, abs=1e-4)] * 4
        assert result.truth_among_candidates == 1
        assert result.false_certain == result.false_propagated == 0
        assert result.certain_rate <= result.propagated_rate <= result.rate + 1e-12


def test_columns_with_windows_of_their_own_are_told_apart():
    rng = np.random.default_rng(4)
    X = correlated(600, 6)
    Z = np.column_stack([twins.rank_swap(X[:, [j]], s, rng) for j, s in enumerate([0.02] * 4 + [0.10] * 2)])
    result = sf.RankAttack().measure(frame(X), frame(Z))
    assert result.window_refined
    windows = list(result.window_percent.values())
    assert max(windows[:4]) < 3.0
    assert min(windows[4:]) > 8.0


def test_propagation_equals_the_definition_and_survives_contradictions():
    cases = [[[0], [0, 1], [1, 2]], [[0, 1], [0, 1], [0, 1, 2]], [[0], [0], [1, 2]], [[], [0, 1], [1]]]
    expected = [[0, 1, 2], [-1, -1, 2], None, [-1, 0, 1]]
    for lists, wanted in zip(cases, expected, strict=True):
        starts = np.concatenate([[0], np.cumsum([len(c) for c in lists])]).astype(np.int64)
        cols = np.array([c for one in lists for c in one], dtype=np.int64)
        fixed = kernels.propagate(starts, cols, 3, True)
        if wanted is None:  # two rows with one and the same candidate: one of them, and no crash
            assert sorted(fixed[:2]) == [-1, 0]
        else:
            assert list(fixed) == wanted


def test_values_that_a_swap_leaves_alone_must_be_the_same():
    schema = sf.Schema(variables={"x0": {"top": 100, "missing": [-9]}})
    X = pl.DataFrame({"x0": [-9.0, 100.0, 5.0, 6.0, 7.0, 100.0]})
    Z = pl.DataFrame({"x0": [-9.0, 100.0, 6.0, 5.0, 7.0, 100.0]})
    result = sf.RankAttack(window_percent=40).measure(sf.Microdata(X, schema), sf.Microdata(Z, schema))
    # Missing: one candidate. Top codes: two. Ranks 0, 1, 2 with a window of one: 2, 3, 2.
    assert result.mean_candidates == pytest.approx((1 + 2 + 2 + 3 + 2 + 2) / 6)
    assert result.truth_among_candidates == 1


def test_a_large_file_is_attacked_by_a_sample():
    X = correlated(900, 5)
    result = sf.RankAttack(records=200).measure(frame(X), frame(X))
    assert result.attacked == 200
    assert any("sample" in note for note in result.notes)
    assert result.rate == 1


def test_swaps_within_strata_are_ranked_within_strata():
    X = correlated(400, 4)
    stratum = np.arange(400) % 2
    Z = X.copy()
    for s in (0, 1):
        Z[stratum == s] = twins.rank_swap(X[stratum == s], 0.1, np.random.default_rng(s))
    one, two = (frame(a).with_columns(s=pl.Series(stratum)) for a in (X, Z))
    known = ["x0", "x1", "x2", "x3"]
    result = sf.RankAttack(columns=known, within=["s"], window_percent=10).measure(one, two)
    assert result.truth_among_candidates == 1
    assert result.false_certain == 0


def test_known_must_be_among_the_columns():
    with pytest.raises(ParameterError, match="B"):
        sf.RankAttack(columns=["A"], known=["B"])
    with pytest.raises(ParameterError, match="B"):
        sf.NoiseAttack(columns=["A"], known=["B"])


# -- noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [0.05, 0.2])
def test_the_form_root_and_variance_of_noise_are_found(d):
    X = correlated(400)
    mixed = frame(twins.mixture_noise(X, d, np.random.default_rng(2)))
    found = sf.NoiseAttack().measure(frame(X), mixed)
    assert (found.form, found.root) == ("mixture", "principal")
    # The ratio's standard error is about d · sqrt(2 / (400 · 5)) for normal noise, less for this.
    assert found.variance_ratio == pytest.approx(d, rel=4 * math.sqrt(2 / 2000))
    assert found.rate > 0.95
    assert found.rate > sf.NoiseAttack(form="normal").measure(frame(X), mixed).rate
    normal = frame(twins.normal_noise(X, d, np.random.default_rng(2)))
    assert sf.NoiseAttack().measure(frame(X), normal).form == "normal"


def test_noise_that_keeps_a_sum_is_learnt_and_never_weaker_than_self_training():
    """A total whose unmasked part is in no known column: one direction has no noise at all."""
    rng = np.random.default_rng(5)
    X = correlated(500, 5)[:, :4]
    rest = np.exp(9 + rng.normal(size=500))
    Z = twins.normal_noise(X, 0.1, rng)
    one = frame(np.column_stack([X, X.sum(axis=1) + rest]))
    two = frame(np.column_stack([Z, Z.sum(axis=1) + rest]))
    aware = sf.NoiseAttack(form="normal").measure(one, two)
    assert aware.covariance == "learnt"
    assert any("isn't proportional" in note for note in aware.notes)
    plain = sf.DistanceLinkage(metric="mahalanobis").measure(one, two)
    alone = sf.SelfTrainedLinkage(space="values").measure(one, two)
    assert aware.rate > plain.rate + 0.1
    assert aware.rate >= alone.rate - 0.005


def test_noise_of_its_own_in_each_stratum():
    X = correlated(300)
    X[150:] *= 20
    rng = np.random.default_rng(3)
    Z = np.vstack([twins.mixture_noise(X[:150], 0.1, rng), twins.mixture_noise(X[150:], 0.1, rng)])
    one, two = (frame(a).with_columns(s=pl.Series([0] * 150 + [1] * 150)) for a in (X, Z))
    columns = [f"x{j}" for j in range(6)]
    attack = sf.NoiseAttack(
        columns=columns, within=["s"], form="mixture", root="principal", variance_ratio=0.1
    )
    assert attack.measure(one, two).rate > 0.95


def test_a_part_of_the_columns_leaves_the_normal_likelihood():
    X = correlated()
    Z = frame(twins.mixture_noise(X, 0.1, np.random.default_rng(1)))
    columns = [f"x{j}" for j in range(6)]
    result = sf.NoiseAttack(columns=columns, known=columns[:3]).measure(frame(X), Z)
    assert result.form == "normal"
    assert any("needs all columns" in note for note in result.notes)


# -- known pairs ----------------------------------------------------------------------------------


def test_learning_helps_and_only_unknown_records_count():
    X = correlated(500)
    Z = frame(twins.rank_swap(X, 0.12, np.random.default_rng(1)))
    result = sf.SupervisedLinkage(share_known=0.2).measure(frame(X), Z)
    assert result.attacked == 400
    assert result.pairs_known == 100
    assert result.links.height == 400
    assert result.model in ("ranks", "displacements")
    assert result.rate > sf.DistanceLinkage().measure(frame(X), Z).rate


def test_too_few_known_pairs_is_an_error():
    X = frame(correlated(20))
    with pytest.raises(MeasureError, match="known pairs"):
        sf.SupervisedLinkage(share_known=0.05).measure(X, X)


# -- intervals ------------------------------------------------------------------------------------


def test_interval_disclosure_by_hand():
    X = pl.DataFrame({"x": [10.0, 20.0, 30.0, 40.0, 50.0]})
    Z = pl.DataFrame({"x": [20.0, 10.0, 30.0, 50.0, 41.0]})
    # 40% of 5 ranks: one rank to either side. Released 10, 20, 30, 41, 50.
    # 20 → [10, 30] has 10; 10 → [10, 20] has 20; 30 → [20, 41] has 30; 50 → [41, 50] lacks 40;
    # 41 → [30, 50] has 50.
    result = sf.IntervalDisclosure(percent=40).measure(X, Z)
    assert result.value == pytest.approx(4 / 5)
    # By chance: 3/5, 2/5, 3/5 (20, 30, 40), 1/5 (50), 3/5 of the original values.
    assert result.baseline == pytest.approx((3 + 2 + 3 + 1 + 3) / 25)
    spread = Z["x"].std()
    near = sf.IntervalDisclosure(percent=60, by="sd").measure(X, Z).value
    assert near == np.mean(np.abs(X["x"].to_numpy() - Z["x"].to_numpy()) <= 0.6 * spread)


# -- Moore's intruder -----------------------------------------------------------------------------


def housing(reference_data):
    tops = dict(zip(TABLE_5, (100_000, 350_000, 1_800, 9_000, 62), strict=True))
    return sf.Microdata(
        pl.read_parquet(reference_data / "housing_deck.parquet"),
        sf.Schema(
            keys=["REGION", "BEDROOMS", "BATHS", "YR_BLT"],
            sensitive=list(TABLE_5),
            variables={c: {"top": t, "bottom": 0} for c, t in tops.items()},
        ),
    )


def test_moores_setting_and_pattern_on_the_housing_deck(reference_data):
    """FORMULAS section 10: 771 targets, 18,557 in the universe, collapsed classes up to 213; correct
    falls, incorrect stays at about 35, questionable turns into false as R0 falls."""
    data = housing(reference_data)
    test = sf.IntruderTest(
        block_on=data.schema.keys, skeptical_of=["REGION"], known=list(TABLE_5), weights=dict(TABLE_5)
    )
    money = data.matrix(list(TABLE_5))
    counts = []
    for share in (0.03, 0.06, 0.10):
        swapped = money.copy()
        for j, column in enumerate(TABLE_5):
            rows = np.flatnonzero(data.eligible(column))
            swapped[rows, j] = twins.rank_swap(money[rows][:, [j]], share, np.random.default_rng(j))[:, 0]
        masked = data.with_columns(
            {c: pl.Series(swapped[:, j]).fill_nan(None) for j, c in enumerate(TABLE_5)}
        )
        # Which of equal candidates is taken is drawn: the mean over a few draws.
        results = [test.measure(data, masked, seed=s) for s in range(4)]
        for result in results:
            assert (result.targets, result.universe, result.largest_block) == (771, 18_557, 213)
        each = [[r.correct, r.incorrect, r.questionable, r.false] for r in results]
        assert {sum(one) for one in each} == {771}
        counts.append(np.mean(each, axis=0))
    correct, incorrect, questionable, false = np.array(counts).T
    assert correct[0] > correct[1] > correct[2] > 90
    assert (np.abs(incorrect - 35) <= 6).all()
    assert questionable[2] < questionable[0]
    assert false[0] < false[1] < false[2]


def test_table_5_thresholds_are_the_pattern_rule():
    """Above 10: all five agree. Below 0: two or more of the last four disagree (FORMULAS section 10)."""
    names = list(TABLE_5)
    X = pl.DataFrame({"key": [1], **{c: [100.0] for c in names}})
    for bits in itertools.product((True, False), repeat=5):
        values = {c: [100.0 if b else 200.0] for c, b in zip(names, bits, strict=True)}
        Z = pl.DataFrame({"key": [1], **values})
        for accept in (None, 10.0):
            test = sf.IntruderTest(block_on=["key"], known=names, weights=dict(TABLE_5), accept_above=accept)
            result = test.measure(X, Z)
            wanted = (
                "correct" if all(bits) else "false" if sum(not b for b in bits[1:]) >= 2 else "questionable"
            )
            assert getattr(result, wanted) == 1


def test_blank_agrees_with_blank_only():
    X = pl.DataFrame({"key": [1, 2, 3], "x": [None, 5.0, None]})
    Z = pl.DataFrame({"key": [1, 2, 3], "x": [None, None, 7.0]})
    result = sf.IntruderTest(block_on=["key"], known=["x"], weights={"x": [1, -1]}).measure(X, Z)
    assert (result.correct, result.false) == (1, 2)


def test_an_intruder_without_targets_says_so():
    X = pl.DataFrame({"key": [1] * 5, "x": [1.0] * 5})
    with pytest.raises(MeasureError, match="target"):
        sf.IntruderTest(block_on=["key"], known=["x"]).measure(X, X)
    with pytest.raises(ParameterError, match="skeptical_of"):
        sf.IntruderTest(block_on=["key"], skeptical_of=["other"])


# -- curve, battery, command ----------------------------------------------------------------------


def test_the_curve_rises_and_shows_its_spread():
    X = correlated(200)
    Z = frame(twins.rank_swap(X, 0.1, np.random.default_rng(1)))
    for attack in (sf.RankAttack(), sf.Linkage(known=[f"x{j}" for j in range(6)])):
        curve = known_curve(attack, frame(X), Z, sizes=[2, 4, 6], subsets=4)
        assert curve["known"].to_list() == [2, 4, 6]
        assert curve["subsets"].to_list() == [4, 4, 1]
        assert curve["mean"].is_sorted()
        assert (curve["lowest"] <= curve["mean"]).all()
        assert (curve["mean"] <= curve["highest"]).all()
        assert curve["mean"][2] == attack.measure(frame(X), Z).value
    with pytest.raises(ParameterError, match="7 of 6"):
        known_curve(sf.Linkage(), frame(X), Z, sizes=[7])


def test_the_battery_knows_the_plan_and_finds_the_strongest():
    X = correlated(300)
    data = sf.Microdata(
        frame(X).with_columns(key=pl.Series(np.arange(300) % 3), moved=pl.Series(np.arange(300) % 2)),
        sf.Schema(keys=["key", "moved"], sensitive=[f"x{j}" for j in range(6)]),
    )
    step = sf.RankSwap(columns=[f"x{j}" for j in range(6)], window_percent=15)
    masked = step.mask(data, seed=1).with_columns({"moved": data.column("moved").shuffle(seed=1)})
    attacks, intruder = fitting_attacks(data, masked, [step])
    assert intruder.values == (*data.schema.sensitive, "moved")  # changed: no block, but compared
    assert intruder.block_on == ("key",)
    aware = [a for a in attacks if isinstance(a, sf.RankAttack)]
    assert aware[0].window_percent == 15
    outcome = run_battery(data, masked, [step])
    assert outcome.strongest.attack.name == "rank_attack"
    assert outcome.strongest.result.value == max(
        outcome.to_frame().filter(pl.col("finds") == "records")["rate"].drop_nulls()
    )
    # Moore's test has no targets here: it is listed with the reason, and nothing fails.
    assert "target" in next(t.reason for t in outcome.tried if t.attack.name == "intruder_test")
    assert outcome.to_dict()["strongest"]["attack"] == "rank_attack"


def test_the_battery_refuses_too_many_pairs():
    X = frame(correlated(50))
    outcome = run_battery(X, X, most_pairs=100)
    assert all(t.result is None for t in outcome.tried if t.attack.compares_all)
    with pytest.raises(MeasureError, match="block"):
        _ = outcome.strongest


def test_the_battery_leaves_totals_out_of_the_rank_attack():
    """A swap makes a total anew from its parts: its ranks aren't within the window."""
    X = correlated(200, 3)[:, :2]
    data = sf.Microdata(
        frame(X).with_columns(total=pl.col("x0") + pl.col("x1")),
        sf.Schema(sensitive=["x0", "x1", "total"], variables={"total": {"sum_of": ["x0", "x1"]}}),
    )
    step = sf.RankSwap(columns=["x0", "x1", "total"], window_percent=5)
    attacks, _ = fitting_attacks(data, step.mask(data, seed=1), [step])
    (aware,) = [a for a in attacks if a.name == "rank_attack"]
    assert aware.columns == ("x0", "x1")


def test_the_command_runs_the_battery(tmp_path, capsys):
    import json

    from sfumato.cli import main

    X = correlated(120, 4)
    frame(X).write_csv(tmp_path / "people.csv")
    (tmp_path / "plan.toml").write_text(
        'format = 1\ndata = "people.csv"\n[roles]\nsensitive = ["x0", "x1", "x2", "x3"]\n'
        '[[step]]\nmask = "rank_swap"\ncolumns = ["x0", "x1", "x2", "x3"]\nwindow_percent = 10\n'
    )
    assert main(["attack", str(tmp_path / "plan.toml"), "--quiet"]) == 0
    text = capsys.readouterr().out
    assert "strongest" in text
    assert "rank_attack" in text
    assert main(["attack", str(tmp_path / "plan.toml"), "--json", "--known", "x0,x1", "--curve"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["known"] == ["x0", "x1"]
    assert [row["known"] for row in content["curve"]] == [1, 2]
    assert all("links" not in a["result"]["figures"] for a in content["attacks"] if a["result"])
    assert main(["attack", str(tmp_path / "plan.toml"), "--known", "nobody", "--quiet"]) == 2


@pytest.mark.parametrize("kind", ["noise", "self-trained"])
def test_a_large_file_teaches_by_some_persons_and_all_are_linked(monkeypatch, kind):
    """A hundred of 400 to learn from: the noise is a twentieth of the spread, so everybody is found."""
    from sfumato.linkage import points

    rng = np.random.default_rng(3)
    names = list("ABCDEF")
    people = pl.DataFrame(rng.normal(size=(400, 6)), schema=names)
    noisy = people + pl.DataFrame(0.05 * rng.normal(size=(400, 6)), schema=names)
    attack = sf.NoiseAttack(columns=names) if kind == "noise" else sf.SelfTrainedLinkage(known=names)
    whole = attack.measure(people, noisy)
    monkeypatch.setattr(points, "LEARNERS", 100)
    monkeypatch.setattr(points, "_LESSON_PAIRS", 1_000)
    some = attack.measure(people, noisy)
    assert not any("from 100 persons" in note for note in whole.notes)
    assert any("from 100 persons" in note for note in some.notes)
    assert some.figures["attacked"] == 400
    assert whole.value == some.value == 1.0
