"""Values learnt beyond what other people tell, and who is in the file."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.linkage.neighbours import without
from sfumato.risk.membership import auc
from sfumato.stats.boosting import Boosting
from sfumato.stats.regression import Regression


def people(n: int = 400, seed: int = 1) -> pl.DataFrame:
    """PAY depends on AGE and SEX; TAX nearly follows PAY."""
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(18, 80, n), rng.integers(0, 2, n)
    pay = np.exp(9 + 0.01 * age + 0.2 * sex + 0.6 * rng.normal(size=n))
    return pl.DataFrame(
        {
            "AGE": age,
            "SEX": pl.Series(sex).cast(pl.String),
            "RENT": np.exp(6 + 0.5 * rng.normal(size=n)),
            "PAY": pay,
            "TAX": 0.2 * pay * np.exp(0.1 * rng.normal(size=n)),
        }
    )


ATTACK = sf.AttributeAttack(known=["AGE", "SEX", "RENT", "TAX"], sensitive=["PAY"], within_percent=5)


def test_the_unmasked_file_has_gain_one_and_what_others_tell_does_not_count():
    data = people()
    found = ATTACK.measure(data, data)
    assert found.value == 1.0
    assert found.rate == 1.0
    # TAX tells PAY within 5% for about 2·Φ(.5) − 1 = .38 of others: the model of other people finds it.
    assert found.baseline == pytest.approx(0.383, abs=4 * np.sqrt(0.383 * 0.617 / len(data)))


def test_a_release_of_other_people_has_no_gain():
    """What a model learns about people in general is no disclosure, however good it is."""
    data, strangers = people(seed=1), people(seed=2)
    found = ATTACK.measure(data, strangers)
    assert found.rate > 0.25
    assert found.interval[0] == 0.0
    assert found.value < 0.06


def test_the_gain_is_the_formula():
    """g and b by hand: PAY known for those whose record stays; the others' values are drawn anew."""
    rng = np.random.default_rng(3)
    n = 300
    data = pl.DataFrame({"KEY": rng.permutation(n) * 1.0, "WORK": rng.integers(0, 10, n).astype(str)})
    stays = rng.random(n) < 0.5
    masked = data.with_columns(
        WORK=pl.Series(np.where(stays, data["WORK"], rng.integers(0, 10, n).astype(str)))
    )
    found = sf.AttributeAttack(known=["KEY"], sensitive=["WORK"]).measure(data, masked)
    g = float((data["WORK"] == masked["WORK"]).mean())
    assert found.rate == pytest.approx(g)  # nobody else has his KEY: the nearest record is his own
    assert found.value == pytest.approx((g - found.baseline) / (1 - found.baseline))
    assert found.baseline < 0.2
    low, high = found.interval
    assert low < found.value < high
    assert high - low < 0.2


def test_microaggregation_gives_values_though_hardly_a_record():
    """The right group is found: the record rate is about 1/k, the value is near for many more."""
    rng = np.random.default_rng(4)
    factor = rng.normal(size=(600, 1))
    X = np.exp(9 + factor + 0.35 * rng.normal(size=(600, 5)))
    names = list("ABCDE")
    data = sf.Microdata(pl.DataFrame(X, schema=names), sf.Schema(sensitive=names))
    masked = sf.Microaggregate(columns=names, k=5).mask(data, seed=1)
    links = sf.DistanceLinkage(known=names[1:]).measure(data, masked)
    found = sf.AttributeAttack(known=names[1:], sensitive=["A"], within_percent=10).measure(data, masked)
    assert links.value < 0.2
    assert found.value > 0.1
    assert found.interval[0] > 0.05


def test_several_columns_are_each_learnt_from_the_others_and_the_worst_counts():
    data = people(200)
    masked = data.with_columns(pl.col("PAY").shuffle(seed=1))
    found = sf.AttributeAttack(sensitive=["PAY", "RENT"]).measure(data, masked)
    by = dict(zip(found.breakdown["column"], found.breakdown["gain"], strict=True))
    assert by["RENT"] > 0.9 > 0.1 > by["PAY"]
    assert found.value == by["RENT"]


def test_both_are_in_the_battery_and_do_not_count_as_records_found():
    data = sf.Microdata(people(150), sf.Schema(keys=["AGE", "SEX"], sensitive=["PAY", "TAX"]))
    step = sf.RankSwap(columns=["PAY", "TAX"], window_percent=20)
    battery = sf.run_battery(data, step.mask(data, seed=1), [step])
    names = {t.attack.name: t for t in battery.tried}
    assert names["attribute_attack"].result is not None
    assert names["membership_attack"].result is not None
    assert battery.strongest.attack.finds == "records"


# -- membership -------------------------------------------------------------------------------------


def test_the_area_under_the_curve_is_that_of_all_pairs():
    rng = np.random.default_rng(5)
    one, two = rng.integers(0, 6, 40).astype(float), rng.integers(0, 5, 30).astype(float)
    pairs = [(a > b) + 0.5 * (a == b) for a in one for b in two]
    assert auc(one, two) == pytest.approx(np.mean(pairs))


def test_what_is_to_be_left_out_is():
    found = np.array([[3, 1, 2], [0, 5, 4]])
    assert without(found, found == np.array([[1], [9]]), 2).tolist() == [[0, 2], [0, 1]]
    assert without(found, found < 4, 2).tolist() == [[-1, -1], [1, 2]]


def test_values_that_a_swap_keeps_give_their_owner_away():
    """Rank swapping moves every record, and still has each value: whoever is in the file is seen."""
    data = people(300).select("RENT", "PAY", "TAX")
    swapped = sf.RankSwap(columns=["RENT", "PAY", "TAX"], window_percent=20).mask(data, seed=1)
    found = sf.MembershipAttack().measure(data, swapped)
    assert found.value == 1.0
    assert found.sign == "values"
    assert found.auc_nearest < 0.75


def test_strangers_and_heavy_noise_tell_nothing():
    data, others = people(500, 1), people(500, 2)
    assert sf.MembershipAttack(known=["AGE", "SEX", "RENT", "PAY"]).measure(data, others).value < 0.05
    noisy = sf.AdditiveNoise(columns=["RENT", "PAY", "TAX"], variance_ratio=4.0).mask(data, seed=1)
    found = sf.MembershipAttack(known=["RENT", "PAY", "TAX"]).measure(data, noisy)
    assert found.value < 0.2


# -- people who were held back ------------------------------------------------------------------------


def drawn(n: int, seed: int) -> pl.DataFrame:
    """People of one law, in which PAY follows from the others but for a lognormal error."""
    return people(n, seed)


def planted(data: pl.DataFrame, share: float) -> pl.DataFrame:
    """A synthetic file: strangers of the same law, some rows copies of people, in other places."""
    n = len(data)
    copies = int(share * n)
    rows = np.random.default_rng(9).permutation(n)[:copies]
    return pl.concat([drawn(n - copies, 77), data[rows]]).sample(fraction=1.0, shuffle=True, seed=3)


def test_a_leak_planted_in_a_synthetic_file_is_found_and_none_where_there_is_none():
    """Row i isn't person i: to leave row i out left the copies in, and the gain was nothing."""
    data = drawn(600, 1)
    leaky = ATTACK.measure(data, planted(data, 0.3))
    assert leaky.value == pytest.approx(0.3, abs=3 * np.sqrt(0.21 / 600) + 0.03)
    assert leaky.interval[0] > 0.15
    clean = ATTACK.measure(data, planted(data, 0.0))
    assert clean.interval[0] == 0.0
    assert clean.value < 0.06


def test_a_file_of_other_people_is_the_control_where_there_is_one(tmp_path):
    data, others = drawn(600, 1), drawn(600, 5)
    others.write_parquet(tmp_path / "others.parquet")
    attack = sf.AttributeAttack(
        known=["AGE", "SEX", "RENT", "TAX"],
        sensitive=["PAY"],
        within_percent=5,
        holdout=str(tmp_path / "others.parquet"),
    )
    leaky, clean = (attack.measure(data, planted(data, share)) for share in (0.3, 0.0))
    assert leaky.value == pytest.approx(0.3, abs=0.1)
    assert clean.interval[0] == 0.0
    assert attack.measure(data, data).value == pytest.approx(1.0)
    member = sf.MembershipAttack(known=["RENT", "PAY"], holdout=str(tmp_path / "others.parquet"))
    assert member.measure(data, data).value > 0.99
    # A third of the people are in it with their exact values: AUC = 1/3 · 1 + 2/3 · 1/2.
    assert member.measure(data, planted(data, 1 / 3)).value == pytest.approx(1 / 3, abs=0.1)
    assert member.measure(data, planted(data, 0.0)).value < 0.08


def test_in_a_battery_people_are_held_back_before_the_steps():
    """Every record is synthetic, and one whose leaf is the whole file tells nothing of anybody."""
    data = sf.Microdata(drawn(500, 1), sf.Schema(keys=["AGE", "SEX"], sensitive=["PAY", "RENT"]))
    steps = [sf.Synthesise(columns=list(data.columns), leaf=30)]
    masked = steps[0].mask(data, seed=1)
    found = {t.attack.name: t.result for t in sf.run_battery(data, masked, steps).tried}
    for name in ("attribute_attack", "membership_attack"):
        assert any("held back" in note for note in found[name].notes)
    assert found["attribute_attack"].interval[0] == 0.0
    # Its amounts are means of three people's: somebody who is in the file is nearer to them.
    assert 0.0 < found["membership_attack"].value < 0.5
    nothing = [sf.RandomSwap(columns=["RENT"], rate_percent=0)]
    open_file = {t.attack.name: t.result for t in sf.run_battery(data, data, nothing).tried}
    assert open_file["attribute_attack"].value == pytest.approx(1.0)
    assert open_file["membership_attack"].value > 0.95


def test_trees_see_what_a_regression_does_not():
    """y is the exclusive or of two signs: no line and no square tells it, four leaves do."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(1_500, 2))
    y = np.where((x[:, 0] > 0) ^ (x[:, 1] > 0), "a", "b")
    data = sf.Microdata(pl.DataFrame({"X": x[:, 0], "Z": x[:, 1], "Y": y}))
    half, rest = np.arange(750), np.arange(750, 1_500)
    model = Boosting.of(data, data, ["X", "Z"])
    truth = (y == "a").astype(float)
    assert (model.category(half, truth[half], rest) == truth[rest]).mean() > 0.93
    plain = Regression.of(data, data, ["X", "Z"])
    assert (plain.category(half, truth[half], rest) == truth[rest]).mean() < 0.6
    # A number, by scikit-learn's trees of the same size and rate: the same error within a tenth.
    z = x[:, 0] * x[:, 1] + 0.1 * rng.normal(size=1_500)
    ensemble = pytest.importorskip("sklearn.ensemble")
    other = ensemble.GradientBoostingRegressor(
        n_estimators=40, learning_rate=0.15, min_samples_leaf=10, max_depth=None, random_state=0
    ).fit(x[:750], z[:750])
    ours = model.number(half, z[half], rest)
    errors = [float(np.mean((guess - z[rest]) ** 2)) for guess in (ours, other.predict(x[750:]))]
    assert errors[0] < 1.25 * errors[1]
    assert errors[0] < 0.2 * np.var(z[rest])


def test_unordered_categories_are_features_too():
    """A level tells the number; the levels' codes are in no order."""
    rng = np.random.default_rng(3)
    level = rng.integers(0, 12, 1_000)
    value = np.array([3.0, -1, 5, 0, 9, 2, 7, -4, 6, 1, 8, 4])[level] + 0.01 * rng.normal(size=1_000)
    data = sf.Microdata(pl.DataFrame({"L": [f"level {k}" for k in level]}))
    model = Boosting.of(data, data, ["L"])
    guess = model.number(np.arange(500), value[:500], np.arange(500, 1_000))
    assert np.abs(guess - value[500:]).mean() < 0.3


def test_insiders_and_people_of_a_holdout_are_recoded_as_one_list(tmp_path):
    """A recode must not tell members by leaving one of the two lists as it was."""
    rng = np.random.default_rng(3)
    people, others = (
        pl.DataFrame({"AGE": rng.integers(20, 80, 400), "PAY": rng.normal(size=400)}) for _ in "ab"
    )
    others.with_columns(pl.col("AGE").cast(pl.Float64)).write_parquet(tmp_path / "others.parquet")
    step = sf.Recode(column="AGE", width=10)
    attack = sf.MembershipAttack(known=["AGE"], holdout=str(tmp_path / "others.parquet"))
    beside = attack._beside(people, step.mask(people, seed=1), 1, [step])
    held = beside._others
    assert held.inside.frame.schema["AGE"] == held.outside.frame.schema["AGE"] == pl.String
    assert set(held.inside.frame["AGE"].unique()) == set(held.outside.frame["AGE"].unique())


@pytest.mark.parametrize("ages", [["old", "young"], [20.5, 30.0]])
def test_a_holdout_of_other_values_is_refused_with_the_column(tmp_path, ages):
    people = pl.DataFrame({"AGE": [20, 30, 40], "PAY": [1.0, 2.0, 3.0]})
    pl.DataFrame({"AGE": ages, "PAY": [1.0, 2.0]}).write_parquet(tmp_path / "others.parquet")
    attack = sf.MembershipAttack(known=["AGE"], holdout=str(tmp_path / "others.parquet"))
    with pytest.raises(MeasureError, match="other values in AGE"):
        attack.measure(people, people)
