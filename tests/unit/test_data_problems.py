"""The look at the data before anything is done: bad input gets a clear word."""

from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import SchemaError
from sfumato.plan.check import data_problems


def problems(frame: pl.DataFrame, **schema) -> list[str]:
    return [f"{p.severity}: {p.message}" for p in data_problems(sf.Microdata(frame, sf.Schema(**schema)))]


def test_a_clean_file_has_no_problems() -> None:
    frame = pl.DataFrame({"id": [1, 2], "k": ["a", "b"], "w": [1.0, 2.0], "x": [1, 2], "t": [1, 2]})
    assert problems(frame, id="id", keys=["k"], weight="w", variables={"t": {"sum_of": ["x"]}}) == []


@pytest.mark.parametrize(
    ("frame", "schema", "words"),
    [
        ({"k": pl.Series([], dtype=pl.Int64)}, {}, "error: the file has no records"),
        (
            {"k": [None, -9]},
            {"keys": ["k"], "variables": {"k": {"missing": [-9]}}},
            "error: the key k is missing in all 2",
        ),
        (
            {"x": [1.0, float("inf"), float("-inf")]},
            {"sensitive": ["x"]},
            "error: x is infinite in 2 records (the first is record 2)",
        ),
        ({"x": [1.0, float("inf")]}, {}, "warning: x is infinite in 1 record"),
        (
            {"x": ["1", "two", "3", "four"]},
            {"variables": {"x": {"kind": "continuous"}}},
            "text in 2 records (records 2, 4)",
        ),
        ({"w": [1.0, None]}, {"weight": "w"}, "error: the weight w is missing in 1"),
        ({"w": [1.0, -1.0]}, {"weight": "w"}, "error: the weight w is negative in 1"),
        ({"w": ["a", "b"]}, {"weight": "w"}, "isn't a number"),
        ({"i": [1, 1]}, {"id": "i"}, "warning: the id i isn't unique: 1"),
        (
            {"s": ["a", "b"], "c": [1, 1]},
            {"geography": ["s", "c"]},
            "1 values of c lie in several of s (for example 1 in a, b)",
        ),
        (
            {"t": [3, 5], "a": [1, 2], "b": [2, 2]},
            {"variables": {"t": {"sum_of": ["a", "b"]}}},
            "t isn't the sum of a, b in 1 of 2",
        ),
    ],
)
def test_each_kind_of_bad_data_is_named(frame, schema, words: str) -> None:
    assert any(words in p for p in problems(pl.DataFrame(frame), **schema))


def test_a_residual_may_be_declared() -> None:
    frame = pl.DataFrame({"t": [3, 5], "a": [1, 2]})
    assert problems(frame, variables={"t": {"sum_of": ["a"], "residual": True}}) == []


def test_a_run_refuses_bad_data_with_all_reasons() -> None:
    frame = pl.DataFrame(
        {"k": [None, None], "x": [1.0, float("inf")]}, schema={"k": pl.Int64, "x": pl.Float64}
    )
    data = sf.Microdata(frame, sf.Schema(keys=["k"], sensitive=["x"]))
    with pytest.raises(SchemaError) as caught:
        sf.Plan(steps=[sf.RandomSwap(columns=["x"], rate_percent=10)]).run(data)
    assert "the key k is missing" in str(caught.value)
    assert "x is infinite" in str(caught.value)


def test_nested_geography_is_accepted() -> None:
    frame = pl.DataFrame({"s": ["a", "a", "b", None], "c": [1, 2, 3, 3]})
    assert problems(frame, geography=["s", "c"]) == []


@pytest.mark.parametrize(
    "ids",
    [
        range(50),
        [*range(20), *range(19, 49)],
        [*range(30, 60), *range(30)],
        [3, 1, 3, 2, 1, 3],
        ["a", "b", "c", "c"],
        ["b", "a", "b", None, None],
        [1, None, 2, None],
        [0.5, 0.5, 1.0],
        [True, False, True],
    ],
)
def test_doubled_ids_are_those_that_are_not_unique(ids, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the file is cut into blocks."""
    from sfumato.data import microdata
    from sfumato.plan.check import _doubled

    frame = pl.DataFrame({"ID": list(ids)})
    for block in (1, 3, 20, 100):
        monkeypatch.setattr(microdata, "BLOCK", block)
        assert _doubled(sf.Microdata(frame), "ID") == frame.height - frame["ID"].n_unique()


def test_nesting_is_judged_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from sfumato.data import microdata

    monkeypatch.setattr(microdata, "BLOCK", 2)
    frame = pl.DataFrame({"s": ["a", "a", None, "b", "b", "c"], "c": [1, 2, 9, 3, None, 2]})
    assert problems(frame, geography=["s", "c"]) == [
        "error: the geography doesn't nest: 1 values of c lie in several of s (for example 2 in a, c)"
    ]
