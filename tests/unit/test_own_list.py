"""The intruder recodes his own list as the release is, before any attack."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.own_list import as_classes, class_range, own_list

RNG = np.random.default_rng(5)


def people(n: int = 400) -> sf.Microdata:
    age = RNG.integers(16, 95, n)
    return sf.Microdata(
        pl.DataFrame(
            {
                "AGE": age,
                "ROOMS": RNG.integers(1, 9, n),
                "AREA": RNG.choice([f"{k:03d}" for k in range(40)], n),
                "PAY": np.rint(RNG.lognormal(10, 1, n)),
            }
        ),
        sf.Schema(keys=["AGE", "ROOMS", "AREA"], sensitive=["PAY"]),
    )


RECODES = [
    sf.Recode(column="AGE", width=10, highest=80),
    sf.Recode(column="ROOMS", width=1, highest=3),
    sf.Truncate(column="AREA", digits=1),
    sf.TopBottomCode(columns=["PAY"], top_percent=5),
]


def released(data: sf.Microdata, steps) -> sf.Microdata:
    for step in steps:
        data = step.mask(data, seed=3)
    return data


@pytest.mark.parametrize("known", ["steps", "nothing"])
def test_a_release_that_was_only_recoded_is_the_recoded_list(known):
    data = people()
    masked = released(data, RECODES)
    mine = own_list(data, masked, RECODES if known == "steps" else ())
    for column in ("AGE", "ROOMS", "AREA"):
        same = mine.column(column).cast(pl.String) == masked.column(column).cast(pl.String)
        assert same.mean() == 1.0, column
    if known == "steps":
        assert mine.frame.equals(masked.frame)


def test_a_recode_never_meets_a_limit_by_confusing_the_attack():
    """Blocked on recoded keys, the rate is that of the list recoded by hand; before, it was 0."""
    data = people()
    steps = [RECODES[0], RECODES[1], sf.RankSwap(columns=["PAY"], window_percent=3)]
    masked = released(data, steps)
    by_hand = data.with_columns({c: masked.column(c) for c in ("AGE", "ROOMS")})
    attack = sf.DistanceLinkage(known=["PAY"], block_on=["AGE", "ROOMS", "AREA"])
    expected = attack.measure(by_hand, masked).value
    assert expected > 0.5
    assert attack.measure(data, masked).value == pytest.approx(expected, abs=0.01)
    assert attack.measure(data, masked, steps=steps).value == pytest.approx(expected, abs=0.01)


def test_a_recode_followed_by_a_swap_is_read_from_its_labels():
    data = people()
    masked = sf.Recode(column="AGE", width=10).mask(data, seed=1)
    moved = masked.with_columns({"AGE": masked.column("AGE").shuffle(seed=2)})
    assert own_list(data, moved).frame["AGE"].to_list() == masked.frame["AGE"].to_list()


def test_noise_swaps_and_suppression_are_no_recodes():
    """What no codebook says must not be learnt from the true pairs."""
    data = people()
    for step in (
        sf.AdditiveNoise(columns=["PAY"], variance_ratio=0.01),
        sf.RankSwap(columns=["PAY"], window_percent=2),
        sf.RandomSwap(columns=["PAY", "AREA"], rate_percent=10),
        sf.Pram(columns=["AREA"], keep_probability=0.9),
        sf.LocalSuppress(keys=["AGE", "ROOMS"], tolerance=3),
    ):
        mine = own_list(data, step.mask(data, seed=1))
        assert mine.frame.equals(data.frame), step.name
    # Groups of several columns: every original value is one record's, its class would be the truth.
    wide = sf.Microdata(pl.DataFrame(RNG.normal(size=(300, 3)), schema=list("ABC")))
    masked = sf.Microaggregate(columns=list("ABC"), k=5).mask(wide, seed=1)
    assert own_list(wide, masked).frame.equals(wide.frame)


def test_zero_flags_are_an_exact_key():
    n = 500
    zeros = RNG.random((n, 6)) < 0.4
    X = np.where(zeros, 0.0, RNG.normal(10, 3, (n, 6)))
    data = sf.Microdata(pl.DataFrame(X, schema=list("ABCDEF")), sf.Schema(sensitive=list("ABCDEF")))
    step = sf.AdditiveNoise(columns=list("ABCDEF"), variance_ratio=0.5, flag_zeros=True)
    masked = step.mask(data, seed=1)
    for steps in ([step], []):
        mine = own_list(data, masked, steps)
        assert mine.frame["A_zero"].to_list() == (data.frame["A"] == 0).to_list()
        battery = sf.run_battery(data, masked, steps)
        assert set(battery.block_on) == {f"{c}_zero" for c in "ABCDEF"}


def test_labels_that_are_ranges():
    assert class_range("-5 to 4") == (-5, 4, True)
    assert class_range("≤ 7") == (float("-inf"), 7, True)
    assert class_range("3") == (3, 3, True)
    assert class_range("north") is None


@pytest.mark.parametrize("dtype", [pl.Int64, pl.String])
def test_a_column_of_zeros_is_not_taken_for_a_recode(dtype: pl.DataType) -> None:
    """97% have 0, and a shuffle of the others leaves fewer levels: nobody recoded them to "0"."""
    rng = np.random.default_rng(1)
    before = np.where(rng.random(2_000) < 0.97, 0, rng.integers(1, 30, 2_000))
    after = before.copy()
    moved = np.flatnonzero(before)
    after[moved] = rng.choice([0, 5, 9], len(moved))
    original = sf.Microdata(pl.DataFrame({"A": pl.Series(before).cast(dtype)}))
    masked = sf.Microdata(pl.DataFrame({"A": pl.Series(after).cast(dtype)}))
    assert as_classes(original, masked).frame.equals(original.frame)
    # A true recode of the same column is still seen.
    coarse = sf.Microdata(pl.DataFrame({"A": pl.Series(before // 10 * 10).cast(dtype)}))
    assert as_classes(original, coarse).frame.equals(coarse.frame)
