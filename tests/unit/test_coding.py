"""Top and bottom coding: codes, percents, ties, types, schema, guarantees."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.contract.mask import Notes, RowsMask
from sfumato.data.microdata import Microdata
from sfumato.draws import Seed
from sfumato.errors import MaskError, ParameterError
from sfumato.masks.coding.guarantees import SharedExtreme, WithinCodes
from sfumato.masks.coding.top_bottom_code import TopBottomCode


def coded(values: list[object], dtype: pl.DataType | None = None, **parameters: object) -> Microdata:
    variable = parameters.pop("variable", {})
    data = Microdata(pl.DataFrame({"X": pl.Series(values, dtype=dtype)}), {"variables": {"X": variable}})
    return TopBottomCode(columns=["X"], **parameters).mask(data)  # type: ignore[arg-type]


def notes_of(mask: TopBottomCode, data: Microdata) -> Notes:
    return mask.carry_out(data, Seed.from_int(1).draws("s"))[1]


def test_values_become_the_codes_and_the_schema_learns_them() -> None:
    masked = coded([1, 5, 10, None], top=7, bottom=2)
    assert masked.frame["X"].to_list() == [2, 5, 7, None]
    assert (masked.schema["X"].top, masked.schema["X"].bottom) == (7, 2)
    assert masked.top_coded("X").tolist() == [False, False, True, False]


def test_mean_and_median_of_the_coded_values() -> None:
    values = [1.0, 2.0, 3.0, 10.0, 30.0, 80.0]
    mean = coded(values, top=5, replace="mean").frame["X"]
    assert mean.to_list() == [1.0, 2.0, 3.0, 40.0, 40.0, 40.0]
    assert mean.mean() == pytest.approx(np.mean(values))
    assert coded(values, top=5, replace="median").frame["X"].to_list()[3:] == [30.0] * 3
    low = coded(values, bottom=2, replace="mean").frame["X"]
    assert low.to_list() == [1.5, 1.5, 3.0, 10.0, 30.0, 80.0]


def test_a_mean_in_whole_numbers_is_rounded_to_even_and_said() -> None:
    data = Microdata(pl.DataFrame({"X": [1, 10, 11]}))
    mask = TopBottomCode(columns=["X"], top=10, replace="mean")
    assert mask.mask(data).frame["X"].to_list() == [1, 10, 10]
    data = Microdata(pl.DataFrame({"X": [1, 10, 11, 11, 11]}))
    assert mask.mask(data).frame["X"].to_list() == [1, 11, 11, 11, 11]
    assert any("rounded" in w for w in notes_of(mask, data).warnings)


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(0, [1, 2, 3, 4, 5]), (1, [1, 2, 3, 4, 5]), (20, [1, 2, 3, 4, 5]), (40, [1, 2, 3, 4, 4])]
    + [(50, [1, 2, 3, 3, 3]), (60, [1, 2, 3, 3, 3]), (100, [1, 1, 1, 1, 1])],
)
def test_a_top_percent_is_the_kth_largest(percent: float, expected: list[int]) -> None:
    """k = ⌈p·5/100⌉: 20% makes the largest value the code (it shares it with nobody new)."""
    assert coded([1, 2, 3, 4, 5], top_percent=percent).frame["X"].to_list() == expected


def test_ties_at_the_cut_are_coded_too() -> None:
    data = Microdata(pl.DataFrame({"X": [0.0] * 88 + [float(i) for i in range(1, 13)]}))
    mask = TopBottomCode(columns=["X"], bottom_percent=5, replace="mean")
    notes = notes_of(mask, data)
    assert notes.figures["bottom_coded"] == {"X": 88}
    assert any("ties" in w for w in notes.warnings)
    assert mask.mask(data).frame["X"].equals(data.frame["X"])


def test_percents_look_at_eligible_values_only() -> None:
    values = [1, 2, 3, 4, 100, 100, -9]
    variable = {"top": 100, "missing": [-9]}
    masked = coded(values, top_percent=50, variable=variable)
    # Eligible: 1 2 3 4; k = 2, so the code is 3; the old top codes take the stricter one.
    assert masked.frame["X"].to_list() == [1, 2, 3, 3, 3, 3, -9]
    assert masked.schema["X"].top == 3
    assert masked.schema["X"].missing == (-9,)


def test_a_looser_code_leaves_the_stricter_one_in_the_schema() -> None:
    masked = coded([1, 50, 100], top=200, variable={"top": 100})
    assert masked.frame["X"].to_list() == [1, 50, 100]
    assert masked.schema["X"].top == 100


def test_percents_within_strata() -> None:
    frame = pl.DataFrame({"S": ["a"] * 4 + ["b"] * 4, "X": [1, 2, 3, 4, 10, 20, 30, 40]})
    mask = TopBottomCode(columns=["X"], top_percent=50, within=["S"])
    masked = mask.mask(Microdata(frame))
    assert masked.frame["X"].to_list() == [1, 2, 3, 3, 10, 20, 30, 30]
    assert masked.schema["X"].top is None
    mean = TopBottomCode(columns=["X"], top_percent=50, within=["S"], replace="mean").mask(Microdata(frame))
    assert mean.frame["X"].to_list() == [1, 2, 4, 4, 10, 20, 35, 35]  # 3.5 goes to even


def test_missing_codes_nan_and_null_stay() -> None:
    variable = {"missing": [999, {"from": -99, "to": -90}]}
    masked = coded([5.0, 999.0, None, math.nan, -95.0, 50.0, -7.0], top=10, bottom=0, variable=variable)
    out = masked.frame["X"].to_list()
    assert out[0] == 5.0
    assert out[1] == 999.0
    assert out[2] is None
    assert math.isnan(out[3])
    assert out[4:] == [-95.0, 10.0, 0.0]


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int16, pl.UInt8, pl.UInt64, pl.Int64, pl.Float32, pl.Float64])
def test_types_stay(dtype: pl.DataType) -> None:
    masked = coded([1, 5, 100], dtype, top=7)
    assert masked.dtype("X") == dtype
    assert masked.frame["X"].to_list() == [1, 5, 7]
    assert coded([1, 5, 100], dtype, top=1e30).frame["X"].to_list() == [1, 5, 100]


def test_a_fractional_code_on_whole_numbers_is_never_looser() -> None:
    assert coded([1, 99, 100, 120], top=99.5).frame["X"].to_list() == [1, 99, 99, 99]
    assert coded([1, 2, 3], bottom=1.5).frame["X"].to_list() == [2, 2, 3]


def test_infinite_values_are_coded_but_have_no_mean() -> None:
    assert coded([1.0, math.inf, -math.inf], top=5, bottom=0).frame["X"].to_list() == [1.0, 5.0, 0.0]
    with pytest.raises(MaskError, match="infinite"):
        coded([1.0, math.inf], top=5, replace="mean")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "has no code"),
        ({"top": 5, "top_percent": 5}, "both `top` and `top_percent`"),
        ({"top": 5, "bottom": 5}, "isn't below"),
        ({"top_percent": 60, "bottom_percent": 50}, "more than 100"),
        ({"top": {"Y": 5}}, "isn't in `columns`"),
        ({"top_percent": 101}, "at most 100"),
        ({"top": 5, "within": ["S"]}, "is for percents"),
        ({"top_percent": 5, "within": ["X"]}, "within itself"),
        ({"top": 5, "replace": "mode"}, "replace"),
        ({"top": math.nan}, "finite"),
    ],
)
def test_parameters_that_make_no_sense(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        TopBottomCode(columns=["X"], **parameters)  # type: ignore[arg-type]


def test_columns_that_cant_be_coded() -> None:
    frame = pl.DataFrame({"T": ["a"], "B": [True], "D": pl.Series([1]).cast(pl.Date), "M": [3]})
    data = Microdata(frame, {"variables": {"M": {"missing": [9]}}})
    for column in "TBD":
        with pytest.raises(MaskError, match=column):
            TopBottomCode(columns=[column], top=3).mask(data)
    with pytest.raises(MaskError, match="missing code"):
        TopBottomCode(columns=["M"], top=9).mask(data)


def test_a_sum_rule_is_kept() -> None:
    """By hand: A coded at 5 makes the totals 5 + 1, 2 + 2 and 5 + 9; a total coded alone is refused."""
    frame = pl.DataFrame({"A": [7, 2, 9], "B": [1, 2, 9], "T": [8, 4, 18]})
    data = sf.Microdata(frame, sf.Schema(variables={"T": {"sum_of": ["A", "B"]}}))  # type: ignore[dict-item]
    assert TopBottomCode(columns=["A"], top=5).mask(data).frame["T"].to_list() == [6, 4, 14]
    with pytest.raises(MaskError, match="A \\+ B gives it back"):
        TopBottomCode(columns=["T"], top=5).mask(data)


def test_codes_that_meet() -> None:
    with pytest.raises(MaskError, match="meet"):
        coded([1, 5, 5, 5, 9], top_percent=40, bottom_percent=40)
    assert coded([5, 5, 5], top_percent=40, bottom_percent=40).frame["X"].to_list() == [5, 5, 5]


def test_the_guarantees_can_fail() -> None:
    before = Microdata(pl.DataFrame({"X": [1, 5, 9]}))
    wrong = Microdata(pl.DataFrame({"X": [1, 4, 9]}))
    assert "beyond" in (WithinCodes("X", top=7).failure(before, wrong) or "")
    assert "between" in (WithinCodes("X", top=9).failure(before, wrong) or "")
    assert SharedExtreme("X", 50).failure(before, wrong) is not None
    assert SharedExtreme("X", 33).failure(before, wrong) is None
    many = Microdata(pl.DataFrame({"X": [1, 8, 9]}))
    assert WithinCodes("X", top=7, exact=False).failure(before, many) is not None


@given(
    st.lists(st.one_of(st.none(), st.integers(-50, 50)), min_size=1, max_size=60),
    st.floats(0, 50),
    st.floats(0, 50),
    st.sampled_from(["code", "mean", "median"]),
    st.booleans(),
)
def test_any_column_keeps_the_promises(
    values: list[int | None], top: float, bottom: float, replace: str, floats: bool
) -> None:
    """The definition, written the slow way."""
    series = pl.Series("X", values, dtype=pl.Float64 if floats else pl.Int64)
    frame = pl.DataFrame({"X": series})
    mask = TopBottomCode(columns=["X"], top_percent=top, bottom_percent=bottom, replace=replace)  # type: ignore[arg-type]
    there = sorted(v for v in values if v is not None)
    k, j = (math.ceil(len(there) * (p / 100) - 1e-9) for p in (top, bottom))
    high = there[-k] if k else math.inf
    low = there[j - 1] if j else -math.inf
    if there and low >= high and len(set(there)) > 1:
        with pytest.raises(MaskError, match="meet"):
            mask.mask(frame)
        return
    masked = mask.mask(frame).frame["X"].to_list()
    for was, now in zip(values, masked, strict=True):
        if was is None or low < was < high:
            assert now == was
            continue
        if len(set(there)) == 1 and k and j:
            assert now == was
            continue
        side = [v for v in there if (v >= high if was >= high else v <= low)]
        want = {"code": high if was >= high else low, "mean": np.mean(side), "median": np.median(side)}[
            replace
        ]
        assert now == pytest.approx(want if floats else np.rint(want))


def test_chunks_dont_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunked path (which an engine takes) gives the same bytes as the whole-file path."""
    data = sf.decks.housing()
    for mask in (
        TopBottomCode(columns=["INCOME", "TAXES"], top_percent=3, bottom_percent=2, replace="median"),
        TopBottomCode(columns=["INCOME", "TAXES"], top_percent=3, within=["REGION"], replace="mean"),
    ):
        whole = mask.mask(data).frame
        monkeypatch.setattr(TopBottomCode, "chunk_records", 7_001)
        pieces = RowsMask._apply(mask, data, Seed.from_int(1).draws("s"), Notes()).frame
        assert whole.equals(pieces)
