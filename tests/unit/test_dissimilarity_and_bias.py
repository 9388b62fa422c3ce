"""The D statistic and PERCENTAGE BIAS: the papers' examples, areas, bad input."""

from __future__ import annotations

import itertools
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError, ParameterError
from sfumato.stats.acceptable_bias import acceptable_range, share_to_keep
from sfumato.utility.bias import bias_of_means
from sfumato.utility.dissimilarity import dissimilarity


def test_moores_example_2() -> None:
    assert dissimilarity([3, 4, 4, 5, 4], [2, 5, 3, 7, 3]) == pytest.approx(0.15, abs=1e-15)


def test_d_by_area_at_each_level() -> None:
    frame = pl.DataFrame(
        {
            "STATE": [1, 1, 1, 1, 2, 2],
            "BLOCK": ["a", "a", "b", "b", "c", "c"],
            "AGE": ["young", "old", "young", "young", "old", "old"],
        }
    )
    schema = {"roles": {"geography": ["STATE", "BLOCK"], "keys": ["AGE"]}}
    # The second and third record exchange their block within state 1.
    after = frame.with_columns(BLOCK=pl.Series(["a", "b", "a", "b", "c", "c"]))
    found = sf.Dissimilarity().measure(sf.Microdata(frame, schema), sf.Microdata(after, schema))
    assert found.value == 0
    levels = {row["level"]: row for row in found.by_level.to_dicts()}
    assert list(levels) == ["STATE", "BLOCK"]
    assert levels["STATE"]["maximum"] == 0
    # Block a: (1 young, 1 old) → 2 young: D = ½; block b: 2 young → (1, 1): D = ½; block c: 0.
    assert levels["BLOCK"]["areas"] == 3
    assert levels["BLOCK"]["mean"] == pytest.approx(1 / 3)
    assert levels["BLOCK"]["share_unchanged"] == pytest.approx(1 / 3)
    areas = dict(found.by_area.filter(pl.col("level") == "BLOCK").select("area", "d").iter_rows())
    assert areas == {"1 / a": pytest.approx(0.5), "1 / b": pytest.approx(0.5), "2 / c": 0.0}


def test_an_area_that_vanishes_is_counted() -> None:
    before = pl.DataFrame({"AREA": [1, 2, 2], "K": [1, 1, 2]})
    after = pl.DataFrame({"AREA": [2, 2, 2], "K": [1, 1, 2]})
    found = sf.Dissimilarity(table=["K"], areas=["AREA"]).measure(before, after)
    assert found.areas_lost == 1
    assert any("only one file" in note for note in found.notes)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20))
def test_d_is_a_total_variation_distance(cells: list[tuple[int, int]]) -> None:
    x, y = (np.array(v, dtype=float) for v in zip(*cells, strict=True))
    if not x.sum() or not y.sum():
        with pytest.raises(MeasureError, match="empty"):
            dissimilarity(x, y)
        return
    d = dissimilarity(x, y)
    if len(cells) <= 10:
        events = itertools.product([0, 1], repeat=len(cells))
        largest = max(abs((x / x.sum() - y / y.sum()) @ np.array(e)) for e in events)
        assert d == pytest.approx(largest, abs=1e-12)
    assert 0 <= d <= 1
    assert dissimilarity(x, x) == 0


def test_d_refuses_what_is_no_table() -> None:
    with pytest.raises(MeasureError, match="5 and 4 cells"):
        dissimilarity([1, 2, 3, 4, 5], [1, 2, 3, 4])
    with pytest.raises(MeasureError, match="negative"):
        dissimilarity([1, -2], [1, 1])
    with pytest.raises(MeasureError, match="no table"):
        sf.Dissimilarity().measure(pl.DataFrame({"A": [1]}), pl.DataFrame({"A": [1]}))
    with pytest.raises(ParameterError, match="twice"):
        sf.Dissimilarity(table=["A", "A"])


def test_moores_acceptable_range() -> None:
    low, high = acceptable_range(11_369, 16_572, n_s=582, n=64_998, p=10, f=0.01)
    assert low == pytest.approx(10 * 582 / 64_998)
    assert high == pytest.approx(20.67, abs=0.005)


def test_theorem_a3_solves_its_equation() -> None:
    assert share_to_keep(2 / 3, 582, 109) == pytest.approx(0.3105, abs=5e-5)
    # The expected records changed, 258.7: x² (T−2N) + 2x(1−x)(T−2N) + 2N x = p² T.
    x = share_to_keep(2 / 3, 582, 109)
    assert x * x * 364 + 2 * x * (1 - x) * 364 + 218 * x == pytest.approx(4 / 9 * 582)
    assert share_to_keep(0.5, 200, 100) == pytest.approx(0.25)  # every pair is mixed: T = 2N


@given(st.floats(0.01, 1), st.integers(1, 1000), st.floats(0, 0.5))
def test_theorem_a3_keeps_at_most_a2(ratio: float, total: int, share: float) -> None:
    helpers = int(total * share)
    assert 0 < share_to_keep(ratio, total, helpers) <= ratio**2 + 1e-12


def test_bias_by_hand_and_at_several_levels() -> None:
    before = pl.DataFrame({"R": [1, 1, 2, 2], "B": [1, 2, 1, 2], "V": [10.0, 20.0, 30.0, 40.0]})
    after = before.with_columns(V=pl.Series([10.0, 30.0, 20.0, 40.0]))
    found = sf.PercentageBias(of="V", classes=[["R", "B"], ["R"], ["B"]], f=0.5).measure(before, after)
    by = {row["keys"]: row["percentage_bias"] for row in found.breakdown.to_dicts()}
    assert by["R × B"] == pytest.approx(100 * math.sqrt(200 / 4) / 25)
    assert by["R"] == pytest.approx(100 * 5 / 25)
    assert by["B"] == pytest.approx(100 * 5 / 25)
    assert found.value == by["R × B"]
    assert found.average == pytest.approx(np.mean(list(by.values())))
    assert found.swapped == 2


def test_verdicts_and_advice() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(100, 5, 400)
    before = pl.DataFrame({"K": np.arange(400) // 2, "V": values})
    much = sf.PercentageBias(of="V", classes=["K"], f=0.01, small_class=2).measure(
        before, before.with_columns(V=pl.Series(rng.permutation(values)))
    )
    assert much.verdict == "too much"
    assert 0 < much.keep_share_a3 <= much.keep_share_a2 < 1
    assert "swap less" in much.advice
    little = sf.PercentageBias(of="V", classes=["K"], p=1000).measure(
        before, before.with_columns(V=pl.Series([values[0] + 1e-6, *values[1:]]))
    )
    assert little.verdict == "too little"
    same = sf.PercentageBias(of="V", classes=["K"]).measure(before, before)
    assert same.value == 0
    assert same.verdict == "acceptable"


@given(st.integers(0, 500))
def test_a_coarser_class_never_has_more_bias(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.lognormal(0, 1, 60)
    z = rng.permutation(x)
    fine = rng.integers(0, 12, 60)
    assert bias_of_means(x, z, fine // 3)[0] <= bias_of_means(x, z, fine)[0] + 1e-12


def test_a_swap_of_keys_moves_the_class_means() -> None:
    before = pl.DataFrame({"K": ["a", "a", "b", "b"], "V": [0.0, 2.0, 4.0, 6.0]})
    after = before.with_columns(K=pl.Series(["a", "b", "a", "b"]))
    found = sf.PercentageBias(of="V", classes=["K"]).measure(before, after)
    assert found.bias == pytest.approx(1.0)
    assert found.swapped == 2


def test_bias_refuses_what_it_cant_divide_by() -> None:
    frame = pl.DataFrame({"K": [1, 2], "V": [-1.0, 1.0]})
    with pytest.raises(MeasureError, match="mean of V is zero"):
        sf.PercentageBias(of="V", classes=["K"]).measure(frame, frame)
    with pytest.raises(MeasureError, match="no classes"):
        sf.PercentageBias(of="V").measure(pl.DataFrame({"V": [1.0, 2.0]}), pl.DataFrame({"V": [1.0, 2.0]}))
    with pytest.raises(ParameterError, match="`f` must be above 0"):
        sf.PercentageBias(of="V", f=0)
    with pytest.raises(MeasureError, match="fewer than 2"):
        sf.PercentageBias(of="V", classes=["K"]).measure(
            frame.with_columns(V=pl.lit(None, pl.Float64)), frame
        )


def test_d_is_the_same_to_the_last_bit_whatever_the_order_of_records() -> None:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"AREA": rng.integers(0, 40, 4000), "AGE": rng.integers(0, 60, 4000)})
    after = frame.with_columns(AREA=pl.Series(rng.permutation(frame["AREA"].to_numpy())))
    measure = sf.Dissimilarity(table=["AGE"], areas=["AREA"])
    first = measure.measure(frame, after)
    for _ in range(4):
        order = rng.permutation(len(frame))
        again = measure.measure(frame[order], after[order])
        assert again.by_area.equals(first.by_area)
        assert again.value == first.value


@pytest.mark.parametrize(("areas", "verdict"), [([1, 1, 2, 2], "acceptable"), ([1, 2, 1, 2], "too little")])
def test_a_constant_column_has_no_bias_and_so_not_too_much(areas: list[int], verdict: str) -> None:
    before = pl.DataFrame({"AREA": [1, 1, 2, 2], "INCOME": [5, 5, 5, 5]})
    found = sf.PercentageBias(of="INCOME", classes=["AREA"]).measure(
        before, before.with_columns(AREA=pl.Series(areas))
    )
    assert (found.value, found.upper, found.verdict) == (0.0, 0.0, verdict)


def test_an_empty_range_is_said_to_be_empty() -> None:
    rng = np.random.default_rng(0)
    x = pl.DataFrame({"K": [1, 2] * 100, "V": rng.normal(100, 10, 200)})
    z = x.with_columns(V=pl.col("V") + pl.Series(rng.normal(0, 1, 200)))
    found = sf.PercentageBias(of="V", classes=["K"], p=10, f=0.01).measure(x, z)
    assert found.lower > found.upper
    assert any("no bias is in that range: with 200 of 200 records changed" in note for note in found.notes)
