"""Values learnt beyond what other people tell, and who is in the file."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.linkage.neighbours import without
from sfumato.risk.membership import auc


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
    assert 0.25 < found.baseline < 0.5


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
