"""Schema and Microdata: roles, codes, eligibility, and the errors that help."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.data.schema import Range, Schema, Variable
from sfumato.errors import InputError, SchemaError


def test_missing_codes_and_ranges() -> None:
    variable = Variable(missing=[-9, "NA", {"from": 90, "to": 99}, {"to": -100}])
    assert [variable.is_missing_code(v) for v in (-9, "NA", 90, 95.5, 99, 100, -100, -1e9, "x")] == [
        True, True, True, True, True, False, True, True, False,
    ]  # fmt: skip


def test_null_nan_and_codes_are_told_apart() -> None:
    frame = pl.DataFrame({"x": [1.0, None, float("nan"), -9.0, 95.0]})
    data = sf.Microdata(frame, Schema(variables={"x": {"missing": [-9, {"from": 90, "to": 99}]}}))
    assert data.missing("x").tolist() == [False, True, True, True, True]
    assert data.frame["x"].is_null().to_list() == [False, True, False, False, False]
    assert np.isnan(data.numbers("x")).tolist() == [False, True, True, True, True]


def test_eligible_leaves_out_missing_coded_and_imputed() -> None:
    frame = pl.DataFrame({"x": [0, 5, 10, None, -9, 7], "flag": [0, 0, 0, 0, 0, 1]})
    schema = Schema(variables={"x": {"top": 10, "bottom": 0, "missing": [-9], "imputed": "flag"}})
    data = sf.Microdata(frame, schema)
    assert data.eligible("x").tolist() == [False, True, False, False, False, False]
    assert data.top_coded("x").tolist() == [False, False, True, False, False, False]
    # −9 is at or below the bottom code, but it is missing, not coded.
    assert data.bottom_coded("x").tolist() == [True, False, False, False, False, False]


def test_text_codes_mean_missing_only_in_text() -> None:
    data = sf.Microdata(
        pl.DataFrame({"t": ["a", "NA", None], "n": [1, 2, 3]}),
        Schema(variables={"t": {"missing": ["NA", 1]}, "n": {"missing": ["NA", 2]}}),
    )
    assert data.missing("t").tolist() == [False, True, True]
    assert data.missing("n").tolist() == [False, True, False]


@pytest.mark.parametrize(
    "make", [lambda f: f, lambda f: f.to_pandas(), lambda f: f.to_arrow(), lambda f: f.lazy()]
)
def test_frames_of_every_kind_meet_here(make) -> None:
    frame = pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]})
    data = sf.Microdata(make(frame))
    assert len(data) == 3
    assert data.column("a").to_list() == [1, 2, 3]
    assert data.frame["b"].to_list() == ["x", "y", None]
    assert isinstance(data.to_pandas(), pd.DataFrame)
    assert isinstance(data.to_arrow(), pa.Table)


def test_a_lazy_file_reads_only_what_is_asked(tmp_path) -> None:
    path = tmp_path / "f.parquet"
    pl.DataFrame({"a": [1, 2], "b": [3, 4]}).write_parquet(path)
    data = sf.Microdata(pl.scan_parquet(path))
    assert data.column("a").to_list() == [1, 2]
    assert len(data) == 2
    assert data.is_lazy


def test_errors_name_the_nearest_column() -> None:
    frame = pl.DataFrame({"INCOME": [1]})
    with pytest.raises(SchemaError, match=r"roles\.sensitive names the column 'INCOM'") as caught:
        sf.Microdata(frame, Schema(sensitive=["INCOM"]))
    assert "did you mean 'INCOME'?" in str(caught.value)
    with pytest.raises(SchemaError, match="no column 'INCOMES'"):
        sf.Microdata(frame).column("INCOMES")


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(InputError, match="'a'"):
        sf.Microdata(twice)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"keys": ["A", "A"]}, "twice"),
        ({"keys": [1]}, "column names"),
        ({"id": ["A"]}, "one column"),
        ({"variables": {"A": {"tops": 1}}}, "tops"),
        ({"variables": {"A": {"top": "x"}}}, "must be a number"),
        ({"variables": {"A": {"top": 1, "bottom": 1}}}, "below"),
        ({"variables": {"A": {"missing": [{"from": 3, "to": 1}]}}}, "backwards"),
        ({"variables": {"A": {"missing": [{"low": 1}]}}}, "from"),
        ({"variables": {"A": {"sum_of": ["A"]}}}, "itself"),
        ({"variables": {"A": {"kind": "contnuous"}}}, "kind"),
        ({"variables": {"A": 3}}, "table"),
    ],
)
def test_a_bad_schema_says_what_is_wrong(content, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema(**content)


def test_a_schema_survives_plain_values() -> None:
    schema = Schema(
        id="I", keys=["A"], geography=["A"], household="H", weight="W", strata=["S"], sensitive=["X"],
        variables={
            "X": Variable(missing=(-9, Range(90, None)), top=100, sum_of=("Y", "Z"), residual=True),
            "A": Variable(kind="ordinal", order=(1, 2), labels={1: "one"}),
        },
    )  # fmt: skip
    again = Schema.from_dict(schema.to_dict())
    assert again.to_dict() == schema.to_dict()
    assert again["X"].missing == (-9, Range(90, None))


def test_a_restricted_schema_names_only_what_is_there() -> None:
    schema = Schema(id="I", keys=["A", "B"], variables={"T": {"sum_of": ["A", "B"]}, "A": {"imputed": "F"}})
    small = schema.restricted_to(["A", "T"])
    assert (small.id, small.keys, small["T"].sum_of, small["A"].imputed) == (None, ("A",), (), None)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([1, 2, None])), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
)
def test_codes_follow_values_not_records(rows, shuffler) -> None:
    data = sf.Microdata(pl.DataFrame(rows, schema={"k": pl.String, "v": pl.Int64}, orient="row"))
    codes, size = data.codes(["k", "v"])
    assert size == len(set(rows))
    by_value = dict(zip(rows, codes.tolist(), strict=True))
    assert len(set(by_value.values())) == size
    order = list(range(len(rows)))
    shuffler.shuffle(order)
    mixed = sf.Microdata(data.frame[order])
    again = dict(zip([rows[i] for i in order], mixed.codes(["k", "v"])[0].tolist(), strict=True))
    assert again == by_value
    assert all(
        (codes[i] == codes[j]) == (rows[i] == rows[j]) for i in range(len(rows)) for j in range(len(rows))
    )


def test_codes_of_no_columns_are_one_class() -> None:
    codes, size = sf.Microdata(pl.DataFrame({"a": [1, 2]})).codes([])
    assert (codes.tolist(), size) == ([0, 0], 1)


def test_with_columns_shares_the_rest() -> None:
    from sfumato.data.differences import same_memory

    data = sf.Microdata(pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    new = data.with_columns({"a": pl.Series([3, 4])})
    assert new.frame["a"].to_list() == [3, 4]
    assert same_memory(data.frame["b"], new.frame["b"])
    assert data.frame["a"].to_list() == [1, 2]


def test_a_schema_travels_to_another_process() -> None:
    import copy
    import pickle

    variables = {"X": {"labels": {1: "one"}, "missing": [-9, {"from": 90, "to": 99}]}}
    schema = Schema(keys=["A"], variables=variables)
    for back in (pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema)):
        assert back == schema
        assert back["X"].labels == {1: "one"}
        with pytest.raises(TypeError):
            back.variables["Y"] = Variable()


@pytest.mark.parametrize(
    "flags",
    [[1, 0, None, 2], [True, False, None, True], ["1", "0", " ", "2"], [1.0, 0.0, float("nan"), -1.0]],
)
def test_imputed_values_by_any_kind_of_flag(flags: list) -> None:
    data = sf.Microdata(
        pl.DataFrame({"X": [1.0, 2.0, 3.0, 4.0], "F": flags}), {"variables": {"X": {"imputed": "F"}}}
    )
    assert data.imputed("X").tolist() == [True, False, False, True]
    assert data.eligible("X").tolist() == [False, True, True, False]


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_a_flag_of_words_is_refused_not_ignored(kind: pl.DataType) -> None:
    frame = pl.DataFrame({"X": [1.0, 2.0, 3.0], "F": pl.Series(["Y", "N", None], dtype=kind)})
    data = sf.Microdata(frame, {"variables": {"X": {"imputed": "F"}}})
    with pytest.raises(sf.SfumatoError, match="holds text in 2 records"):
        data.eligible("X")
