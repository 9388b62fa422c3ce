"""Columns of types that amounts seldom have: coded exactly, or refused in a sentence."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MaskError


def one(values, dtype) -> sf.Microdata:
    other = [float((k * 7) % 11) for k in range(len(values))]
    return sf.Microdata(pl.DataFrame({"X": pl.Series(values, dtype=dtype), "Y": other}))


CENTS = pl.Decimal(12, 2)


@pytest.mark.parametrize("dtype", [CENTS, pl.Int128])
def test_a_percent_of_decimals_and_wide_whole_numbers_is_coded(dtype) -> None:
    data = one(list(range(1, 21)), pl.Int64)
    data = data.with_columns([data.column("X").cast(dtype)])
    masked = sf.TopBottomCode(columns=["X"], top_percent=15, bottom_percent=10).mask(data)
    assert masked.dtype("X") == dtype
    assert [int(v) for v in masked.column("X")] == [2, *range(2, 19), 18, 18]
    assert (masked.schema["X"].top, masked.schema["X"].bottom) == (18, 2)


@pytest.mark.parametrize(("what", "expected"), [("mean", "19.00"), ("median", "19.00"), ("code", "18.00")])
@pytest.mark.parametrize("within", [[], ["Z"]])
def test_decimals_are_replaced_in_their_own_type(what, expected, within) -> None:
    data = one([Decimal(k) for k in range(1, 21)], CENTS).with_columns([pl.Series("Z", [1] * 20)])
    mask = sf.TopBottomCode(columns=["X"], top_percent=15, replace=what, within=within)
    assert mask.mask(data).column("X").to_list()[-3:] == [Decimal(expected)] * 3


def test_a_code_of_decimals_is_never_looser_than_asked() -> None:
    data = one([Decimal("1.10"), Decimal("2.34"), Decimal("2.35"), Decimal("9.00")], CENTS)
    masked = sf.TopBottomCode(columns=["X"], top=2.349).mask(data)
    assert masked.column("X").to_list() == [Decimal("1.10"), *[Decimal("2.34")] * 3]


@pytest.mark.parametrize(
    "mask",
    [
        sf.TopBottomCode(columns=["X"], top_percent=10, replace="mean"),
        sf.TopBottomCode(columns=["X"], top_percent=10, replace="median"),
        sf.Microaggregate(columns=["X"], k=3),
        sf.ControlledDistortion(records=[0], shift={"X": 5}, columns=["X", "Y"]),
    ],
    ids=lambda m: m.name,
)
@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
@pytest.mark.parametrize(("start", "dtype"), [(2**64 - 41, pl.UInt64), (2**60, pl.Int64)])
def test_whole_numbers_beyond_a_double_are_refused(mask, start, dtype) -> None:
    with pytest.raises(MaskError, match=r"X has whole numbers beyond 2\^53"):
        mask.mask(one([start + k for k in range(40)], dtype))


@pytest.mark.parametrize("cls", [sf.AdditiveNoise, sf.MixtureNoise])
def test_noise_refuses_times_of_day(cls) -> None:
    with pytest.raises(MaskError, match="X holds times of day"):
        cls(columns=["X", "Y"], variance_ratio=0.1).mask(one([k * 10**9 for k in range(40)], pl.Time))


def test_controlled_distortion_refuses_dates() -> None:
    mask = sf.ControlledDistortion(records=[0], shift={"X": 5}, columns=["X", "Y"])
    data = one(list(range(40)), pl.Int32).with_columns([pl.Series("X", range(40)).cast(pl.Date)])
    with pytest.raises(MaskError, match="X holds dates"):
        mask.mask(data)


def test_a_message_doesnt_list_an_enums_categories() -> None:
    data = one(["a", "SECRET"] * 20, pl.Enum(["a", "SECRET"]))
    with pytest.raises(MaskError, match=r"`columns` needs numbers, but 'X' holds Enum$"):
        sf.Microaggregate(columns=["X"], k=3).mask(data)
