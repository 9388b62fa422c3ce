"""Guarantees catch a mask that breaks its promise, and the run refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.contract.guarantees import (
    Guarantee,
    SameMoments,
    SameMultiset,
    SameRecords,
    SameTable,
    SumRule,
    Untouched,
)
from sfumato.contract.mask import Mask
from sfumato.data.differences import changed, same_memory
from sfumato.errors import GuaranteeError, ParameterError
from sfumato.masks.noise.notes import InflatedMoments

DATA = sf.Microdata(
    pl.DataFrame(
        {"g": [1, 1, 2, 2], "x": [1.0, 2.0, 3.0, None], "y": [1.0, 1.0, 1.0, 1.0], "t": [2.0, 3.0, 4.0, 5.0]}
    ),
    {"variables": {"t": {"sum_of": ["x", "y"]}}},
)


def after(**columns) -> sf.Microdata:
    return DATA.with_columns({n: pl.Series(v) for n, v in columns.items()})


CASES = [
    (SameRecords(), DATA.with_frame(DATA.frame.head(3)), "became 3"),
    (SameRecords(), DATA.with_frame(DATA.frame.drop("y")), "lost columns: y"),
    (SameRecords(), after(new=[1, 2, 3, 4]), "unexpected columns: new"),
    (Untouched(("x",)), after(y=[1.0, 1.0, 9.0, 1.0]), "y changed in 1 record"),
    (Untouched(("x",)), after(y=[1.0, 1.0, None, 1.0]), "y changed in 1 record"),
    (SameMultiset(("x",)), after(x=[1.0, 2.0, 2.0, None]), "x aren't the same set"),
    (SameMultiset(("x",)), after(x=[1, 2, 3, None]), "became Int64"),
    (SameMultiset(("x",), ("g",)), after(x=[1.0, 3.0, 2.0, None]), "x aren't the same set"),
    (SameTable(("g", "y")), after(g=[1, 1, 1, 2]), "2 cells"),
    (SumRule("t", ("x", "y")), after(t=[2.0, 3.0, 4.5, 5.0]), "broken in 1 record"),
    (SameMoments(("t",), order=1), after(t=[2.0, 3.0, 4.0, 5.1]), "off by"),
    (SameMoments(("t",)), after(t=[1.0, 4.0, 3.0, 6.0]), "off by"),
]


@pytest.mark.parametrize(("guarantee", "masked", "words"), CASES)
def test_a_broken_promise_is_seen_and_said(guarantee: Guarantee, masked: sf.Microdata, words: str) -> None:
    check = guarantee.check(DATA, masked)
    assert not check.ok
    assert words in check.detail


@pytest.mark.parametrize("guarantee", [c[0] for c in CASES])
def test_an_unchanged_file_keeps_every_promise(guarantee: Guarantee) -> None:
    copy = sf.Microdata(DATA.frame.clone(), DATA.schema)
    rebuilt = sf.Microdata(pl.DataFrame(DATA.frame.to_dict(as_series=False)), DATA.schema)
    assert guarantee.check(DATA, copy).ok
    assert guarantee.check(DATA, rebuilt).ok


def test_a_permutation_within_strata_keeps_the_multiset() -> None:
    assert SameMultiset(("x",), ("g",)).check(DATA, after(x=[2.0, 1.0, None, 3.0])).ok


def test_a_sum_that_did_not_hold_before_is_not_asked_for() -> None:
    broken = DATA.with_columns({"t": pl.Series([9.0, 3.0, 4.0, 5.0])})
    assert (
        SumRule("t", ("x", "y")).check(broken, broken.with_columns({"t": pl.Series([8.0, 3.0, 4.0, 5.0])})).ok
    )


@dataclass(frozen=True, kw_only=True)
class Careless(Mask):
    """Adds one to x and claims to keep its values."""

    name: ClassVar[str] = ""

    def changes(self, data: sf.Microdata) -> Sequence[str]:
        return ("x",)

    def keeps(self, data: sf.Microdata) -> Sequence[Guarantee]:
        return [SameMultiset(("x",))]

    def _apply(self, data, draws, notes):
        return data.with_columns({"x": data.frame["x"] + 1, "y": data.frame["y"] + 1})


def test_a_run_whose_guarantee_fails_is_refused() -> None:
    with pytest.raises(GuaranteeError) as caught:
        sf.Plan(steps=[Careless(id="careless")]).run(DATA, seed=1)
    message = str(caught.value)
    assert "step careless" in message
    assert "y changed in 4 records" in message
    assert "x aren't the same set" in message


@given(st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=1, max_size=20), st.data())
def test_changed_counts_like_python_does(values, data) -> None:
    other = [data.draw(st.one_of(st.just(v), st.integers(-3, 3), st.none())) for v in values]
    one, two = pl.Series(values, dtype=pl.Int64), pl.Series(other, dtype=pl.Int64)
    assert changed(one, two) == sum(a != b for a, b in zip(values, other, strict=True))


def test_shared_memory_is_seen_and_equal_values_are_not_taken_for_it() -> None:
    for values in ([1.0, None], ["a", "b" * 30], [True, False]):
        series = pl.Series(values)
        assert same_memory(series, pl.DataFrame({"s": series})["s"])
        assert not same_memory(series, pl.Series(values))
        assert not same_memory(series.slice(0, 1), series.slice(1, 1))


def test_moments_are_judged_within_strata() -> None:
    x = np.arange(8.0)
    data = sf.Microdata(pl.DataFrame({"g": [0] * 4 + [1] * 4, "x": x}))
    crossed = data.with_columns({"x": pl.Series(x[::-1].copy())})
    assert SameMoments(("x",)).check(data, crossed).ok
    assert not SameMoments(("x",), within=("g",)).check(data, crossed).ok


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None])
@pytest.mark.parametrize("promise", [SameMoments(("A", "B")), InflatedMoments(("A", "B"), 1.0)])
def test_a_value_that_is_lost_breaks_a_promise_of_moments(promise: Guarantee, bad: float | None) -> None:
    rng = np.random.default_rng(1)
    before = sf.Microdata(pl.DataFrame(rng.normal(size=(50, 2)), schema=["A", "B"]))
    values: list[float | None] = before.frame["A"].to_list()
    values[7] = bad
    after = before.with_columns({"A": pl.Series(values, dtype=pl.Float64)})
    assert promise.failure(before, before) is None
    assert "1 value" in (promise.failure(before, after) or "")


def test_a_mean_is_over_all_values_of_its_column() -> None:
    # Where B is missing A moves; the mean over the records that have both wouldn't see it.
    before = sf.Microdata(pl.DataFrame({"A": [1.0, 2.0, 3.0, 4.0, 9.0], "B": [1.0, 5.0, 2.0, 4.0, None]}))
    after = before.with_columns({"A": pl.Series([1.0, 2.0, 3.0, 4.0, 8.0])})
    assert SameMoments(("A", "B"), order=1).failure(before, before) is None
    assert SameMoments(("A", "B"), order=1).failure(before, after) is not None
    # The covariance is over the records that have both.
    gone = before.with_columns({"B": pl.Series([1.0, 5.0, 4.0, 2.0, None])})
    assert SameMoments(("B",)).failure(before, gone) is None
    assert SameMoments(("A", "B")).failure(before, gone) is not None


def test_a_promise_of_moments_says_how_exactly_and_none_is_too_loose() -> None:
    """A promise "to 2.47" said nothing: of what?"""
    promise = SameMoments(("A", "B"), tolerance=0.002)
    assert promise.describe() == "means and covariances of A, B are kept, to 0.002 of a standard deviation"
    with pytest.raises(ParameterError, match=r"2\.47 of a standard deviation are no promise: at most 0\.05"):
        SameMoments(("A",), tolerance=2.47)
    with pytest.raises(ParameterError, match="no promise"):
        SameMoments(("A",), tolerance=float("nan"))
