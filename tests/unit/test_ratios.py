"""Ratio rules: found in the data, made anew after masking, told where they can't be right."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.data.follow import follow
from sfumato.errors import MaskError, SchemaError
from sfumato.plan.check import data_problems
from sfumato.plan.suggest.ratios import find_ratios


def shares(n: int = 400, seed: int = 1, places: int = 2, times: float = 100.0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rent, income = rng.integers(200, 900, n), rng.integers(900, 9000, n)
    other = rng.integers(1, 5000, n)
    return pl.DataFrame(
        {"RENT": rent, "INCOME": income, "OTHER": other, "SHARE": np.round(times * rent / income, places)}
    )


SCHEMA = {"variables": {"SHARE": {"ratio_of": ["RENT", "INCOME"], "times": 100, "unit": 0.01}}}


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), places=st.integers(1, 6), times=st.sampled_from([1.0, 100.0, 1000.0]))
def test_a_ratio_is_found_at_any_rounding_that_shows_it(seed, places, times):
    frame = shares(seed=seed, places=places + 2 if times == 1 else places, times=times)
    found = find_ratios(sf.Microdata(frame), frame.columns, frame.columns)
    assert set(found) == {"SHARE"}
    assert found["SHARE"].ratio.parts == ("RENT", "INCOME")
    assert found["SHARE"].ratio.times == times
    assert found["SHARE"].share == 1


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), columns=st.integers(3, 10))
def test_no_ratios_among_independent_columns(seed, columns):
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame({f"c{i}": np.round(rng.lognormal(3, 1, 300), 2) for i in range(columns)})
    assert find_ratios(sf.Microdata(frame), frame.columns, frame.columns) == {}


def test_a_masked_share_is_the_share_of_what_is_released():
    data = sf.Microdata(shares(), SCHEMA)
    plan = sf.Plan(steps=[sf.RankSwap(columns=["RENT", "INCOME"], window_percent=10)])
    masked = plan.run(data, seed=1).masked.frame
    assert (masked["SHARE"] != data.frame["SHARE"]).sum() > 300
    right = 100 * masked["RENT"].cast(pl.Float64) / masked["INCOME"]
    assert (masked["SHARE"] - right).abs().max() <= 0.005 + 1e-9


def test_a_share_that_is_swapped_itself_is_refused():
    data = sf.Microdata(shares(), SCHEMA)
    plan = sf.Plan(steps=[sf.RandomSwap(columns=["RENT", "SHARE"], rate_percent=50)])
    with pytest.raises(MaskError, match="leave SHARE out of the step"):
        plan.run(data, seed=1)


def test_records_in_which_the_ratio_never_held_keep_what_they_have():
    frame = shares(8).with_columns(
        SHARE=pl.when(pl.int_range(8) == 3).then(77.0).otherwise(pl.col("SHARE")),
        INCOME=pl.when(pl.int_range(8) == 5).then(0).otherwise(pl.col("INCOME")),
    )
    one = sf.Microdata(frame, SCHEMA)
    two, anew = follow(one, one.with_columns({"RENT": one.column("RENT").reverse()}), ["RENT"])
    assert list(anew) == ["SHARE"]
    assert two.frame["SHARE"][3] == 77.0, "it wasn't the ratio before"
    assert two.frame["SHARE"][5] == one.frame["SHARE"][5], "nothing is divided by nothing"
    changed = [i for i in range(8) if two.frame["SHARE"][i] != one.frame["SHARE"][i]]
    assert set(changed) <= {0, 1, 2, 4, 6, 7}
    assert len(changed) >= 5


def test_missing_values_stay_missing():
    one = sf.Microdata(pl.DataFrame({"A": [1, 2], "B": [2, None], "R": [0.5, None]}),
                       {"variables": {"R": {"ratio_of": ["A", "B"]}}})  # fmt: skip
    two, _ = follow(one, one.with_columns({"A": pl.Series([2, 1])}), ["A"])
    assert two.frame["R"].to_list() == [1.0, None]


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"ratio_of": ["A"]}, "two columns"),
        ({"ratio_of": ["R", "B"]}, "ratio of itself"),
        ({"times": 100}, "belongs to a ratio"),
        ({"ratio_of": ["A", "B"], "times": 0}, "above 0"),
    ],
)
def test_wrong_rules_are_told(details, said):
    with pytest.raises(SchemaError, match=said):
        sf.Schema(variables={"R": details})


def test_a_rule_that_holds_nowhere_is_an_error():
    data = sf.Microdata(shares(), {"variables": {"SHARE": {"ratio_of": ["INCOME", "RENT"]}}})
    assert "SHARE = INCOME / RENT holds in no record" in [p.message for p in data_problems(data)]
    assert data_problems(sf.Microdata(shares(), SCHEMA)) == []


def test_a_plan_with_a_ratio_is_read_and_written():
    text = '[variables.SHARE]\nratio_of = ["RENT", "INCOME"]\ntimes = 100\n'
    plan = sf.Plan.loads(text)
    assert plan.schema is not None
    assert plan.schema.ratios == {"SHARE": ("RENT", "INCOME")}
    assert sf.Plan.loads(plan.to_toml()).schema == plan.schema
    kept = plan.schema.restricted_to(["SHARE", "RENT"])
    assert kept.ratios == {}
