"""Copies of a release: the plausibility check and the price."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.draws import Seed
from sfumato.errors import MeasureError
from sfumato.utility.copies import compare_copies, independent_copies, price_of_copies


@pytest.fixture(scope="module")
def data() -> sf.Microdata:
    rng = np.random.default_rng(0)
    x = rng.normal(40, 12, 400)
    return sf.Microdata(
        pl.DataFrame({"AGE": x, "PAY": 100 * x + rng.normal(0, 300, 400), "LUCK": rng.normal(0, 300, 400)})
    )


def test_copies_are_independent_and_the_first_has_the_seed_itself(data: sf.Microdata) -> None:
    mask = sf.AdditiveNoise(columns=["PAY"], variance_ratio=0.1)
    one, two, three = independent_copies(mask, data, 3, seed=7)
    assert one.frame.equals(mask.mask(data, seed=7).frame)
    assert two.frame.equals(mask.mask(data, seed=Seed.from_int(7).child("copy 2")).frame)
    noise = [c.frame["PAY"].to_numpy() - data.frame["PAY"].to_numpy() for c in (one, two, three)]
    assert np.abs(np.corrcoef(noise)[np.tril_indices(3, -1)]).max() < 4 / np.sqrt(400)


def test_a_plan_makes_copies_too(data: sf.Microdata) -> None:
    plan = sf.Plan(steps=[sf.AdditiveNoise(columns=["PAY"], variance_ratio=0.1)])
    one, two = independent_copies(plan, data, 2, seed=7)
    assert not one.frame.equals(two.frame)


def test_a_strong_slope_is_plausible_and_a_chance_one_is_not(data: sf.Microdata) -> None:
    mask = sf.AdditiveNoise(columns=["AGE", "PAY", "LUCK"], variance_ratio=0.2)
    copies = independent_copies(mask, data, 2, seed=3)
    strong = compare_copies(copies, "PAY ~ AGE")
    assert "AGE" not in strong.flagged
    by_hand = [np.polyfit(c.frame["AGE"].to_numpy(), c.frame["PAY"].to_numpy(), 1)[0] for c in copies]
    row = strong.table.filter(pl.col("estimate") == "AGE").row(0, named=True)
    assert [row["copy_1"], row["copy_2"]] == pytest.approx(by_hand)
    assert row["difference"] == pytest.approx(abs(by_hand[0] - by_hand[1]))
    weak = compare_copies(copies, lambda d: {"mean of luck": float(np.mean(d.numbers("LUCK")))})
    assert not weak.plausible
    assert weak.flagged == ["mean of luck"]
    assert "common bias" in weak.notes[0]


def test_copies_are_blind_to_common_bias(data: sf.Microdata) -> None:
    exact = sf.AdditiveNoise(columns=["PAY"], variance_ratio=0.2, exact=True)
    check = compare_copies(
        independent_copies(exact, data, 2, seed=1), lambda d: {"v": float(np.var(d.numbers("PAY")))}
    )
    assert check.plausible  # both are 20% too large, and agree on it


def test_averaging_copies_costs_protection(data: sf.Microdata) -> None:
    columns = ["AGE", "PAY", "LUCK"]
    copies = independent_copies(sf.AdditiveNoise(columns=columns, variance_ratio=0.3), data, 4, seed=5)
    table = price_of_copies(data, copies, sf.DistanceLinkage(known=columns, metric="mahalanobis"))
    assert table["copies"].to_list() == [1, 2, 3, 4]
    assert table["noise_variance"].to_list() == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])
    rates = table["rate"].to_list()
    assert rates[3] > rates[0] + 4 * np.sqrt(rates[0] * (1 - rates[0]) / 400)


def test_bad_requests(data: sf.Microdata) -> None:
    with pytest.raises(MeasureError, match="two copies"):
        compare_copies([data], "PAY ~ AGE")
    with pytest.raises(MeasureError, match="tolerance"):
        compare_copies([data, data], "PAY ~ AGE", tolerance=0)
    with pytest.raises(MeasureError, match="can't be used"):
        compare_copies([data, data], "PAY ~ WAGE")
    with pytest.raises(MeasureError, match="tell apart"):
        compare_copies([data, data], "PAY ~ AGE + I(2 * AGE)")
    with pytest.raises(MeasureError, match="at least 1"):
        independent_copies(sf.AdditiveNoise(columns=["PAY"], variance_ratio=0.1), data, 0)
