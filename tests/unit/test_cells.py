"""CellTable: coding, counting under both missing conventions, recodes, lifting, bad input."""

from __future__ import annotations

import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells import CellTable, combinations_up_to, frequency
from sfumato.cells import assess as assess_module
from sfumato.data import codes as coding

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import key_combinations as twin

NAMES = ["a", "b", "c", "d"]


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[object, ...]]:
    keys = draw(st.integers(1, 4))
    n = draw(st.integers(1, 14))
    value = st.one_of(st.none(), st.integers(0, 2)) if draw(st.booleans()) else st.integers(0, 3)
    return draw(st.lists(st.tuples(*[value] * keys), min_size=n, max_size=n))


def microdata(rows: list[tuple[object, ...]]) -> sf.Microdata:
    names = NAMES[: len(rows[0])]
    return sf.Microdata(pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row"))


@given(tables(), st.sampled_from(["matches_anything", "category"]), st.booleans())
def test_frequencies_equal_the_pairwise_count(rows, missing, joins):
    data = microdata(rows)
    # Both ways of counting wildcards: joins of missing patterns, and pairs of combinations.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frequency, "JOIN_COST", 0 if joins else 10**9)
        check_frequencies(rows, data, missing)


def check_frequencies(rows, data, missing):
    cells = CellTable.of(data, data.columns, missing=missing)
    for key_set in combinations_up_to(data.columns, len(data.columns)):
        at = [data.columns.index(k) for k in key_set]
        want = twin.frequencies(rows, at, missing)
        assert cells.at_records(cells.frequencies(key_set)).tolist() == want
        enough = cells.at_records(cells.frequencies(key_set, enough=3)).tolist()
        assert [min(f, 3) for f in enough] == [min(f, 3) for f in want]


@given(tables(), st.sampled_from(["matches_anything", "category"]), st.integers(2, 4))
def test_assessment_equals_the_pairwise_count(rows, missing, tolerance):
    data = microdata(rows)
    sets = combinations_up_to(data.columns, len(data.columns))
    found = CellTable.of(data, data.columns, missing=missing).assess(tolerance, sets)
    at = [[data.columns.index(k) for k in s] for s in sets]
    bad = twin.unsafe(rows, at, tolerance, missing)
    assert found.table.at_records(found.unsafe_sets).tolist() == [len(b) for b in bad]
    assert found.records_unsafe == sum(bool(b) for b in bad)
    for q, s in enumerate(at):
        distinct = {tuple(r[j] for j in s) for r in rows}
        assert found.combinations[q] == len(distinct)
        assert found.unsafe_records[q] == sum(q in b for b in bad)
        unsafe = {tuple(r[j] for j in s) for r, b in zip(rows, bad, strict=True) if q in b}
        assert found.unsafe_combinations[q] == len(unsafe)
        assert found.smallest[q] == min(twin.frequencies(rows, s, missing))


@pytest.mark.parametrize("block_cells", [1, 30, 1 << 17])
def test_blocks_large_and_small_find_the_same(monkeypatch, block_cells):
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({f"k{j}": rng.geometric(0.3, 400) for j in range(7)})
    cells = sf.Microdata(frame).cells(frame.columns)
    sets = combinations_up_to(frame.columns, 3)
    monkeypatch.setattr(assess_module, "BLOCK_CELLS", block_cells)
    found = cells.assess(3, sets)
    flags = np.zeros(len(frame), int)
    for q, s in enumerate(sets):
        counts = frame.select(pl.len().over(list(s)).alias("f"))["f"].to_numpy()
        flags += counts < 3
        assert found.unsafe_records[q] == (counts < 3).sum()
        assert found.unsafe_combinations[q] == (frame.group_by(list(s)).len()["len"] < 3).sum()
    assert cells.at_records(found.unsafe_sets).tolist() == flags.tolist()


def test_every_type_of_key_is_coded_in_the_order_of_its_values():
    frame = pl.DataFrame(
        {
            "text": ["b", None, "a", "b"],
            "category": pl.Series(["y", "x", None, "y"], dtype=pl.Categorical),
            "whole": [7, -9, 5, None],
            "wide": [10**12, 0, 5, 10**12],
            "number": [0.5, float("nan"), 0.25, None],
            "flag": [True, False, None, True],
            "day": [date(2020, 1, 2), date(2020, 1, 1), None, date(2020, 1, 2)],
        }
    )
    data = sf.Microdata(frame, {"variables": {"whole": {"missing": [-9]}}})
    cells = data.cells(frame.columns)
    assert cells.levels["text"].to_list() == ["a", "b"]
    assert cells.levels["category"].to_list() == ["x", "y"]
    assert cells.levels["whole"].to_list() == [5, 7]
    assert cells.levels["wide"].to_list() == [0, 5, 10**12]
    assert cells.levels["number"].to_list() == [0.25, 0.5]
    assert cells.levels["flag"].to_list() == [False, True]
    assert cells.levels["day"].to_list() == [date(2020, 1, 1), date(2020, 1, 2)]
    for j, key in enumerate(frame.columns):
        gone = cells.at_records(cells.codes[j]) == len(cells.levels[key])
        assert gone.tolist() == data.missing(key).tolist()
    back = cells.marginal(["text", "whole"]).to_frame()
    assert set(back.rows()) == {("b", 7, 1), (None, None, 1), ("a", 5, 1), ("b", None, 1)}


def test_twenty_wide_keys_fit():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"k{j}": rng.integers(0, 40, 300) for j in range(20)})
    frame = pl.concat([frame, frame])
    cells = sf.Microdata(frame).cells(frame.columns)
    assert len(cells) == frame.unique().height
    assert cells.frequencies().min() == 2


@given(tables())
def test_recode_on_cells_equals_recode_on_records(rows):
    data = microdata(rows)
    classes = {0: "low", 1: "low", 2: "high", 3: None}
    cells = data.cells(data.columns)
    there = {k: v for k, v in classes.items() if k in cells.levels["a"].to_list()}
    if not there:
        return
    after = cells.recode("a", there)
    new = data.frame.with_columns(pl.col("a").replace_strict(classes, default=None, return_dtype=pl.String))
    want = sf.Microdata(new).cells(data.columns)
    assert after.to_frame().equals(want.to_frame())
    assert after.at_records(after.frequencies()).tolist() == want.at_records(want.frequencies()).tolist()
    assert after.records == len(rows)


def test_truncate_suppress_and_marginal_keep_every_record():
    frame = pl.DataFrame({"code": [1011, 1012, 2011, 2019], "sex": [1, 2, 1, 2], "w": [1.0, 2, 3, 4]})
    cells = CellTable.of(sf.Microdata(frame), ["code", "sex"], weight="w")
    short = cells.truncate("code", 2)
    assert short.levels["code"].to_list() == [10, 20]
    assert short.marginal(["code"]).to_frame().rows() == [(10, 2, 3.0), (20, 2, 7.0)]
    blank = short.suppress("sex", np.ones(len(short), bool))
    assert blank.to_frame().rows() == [(10, None, 2, 3.0), (20, None, 2, 7.0)]
    assert blank.at_records(blank.frequencies()).tolist() == [2, 2, 2, 2]
    assert blank.at_records(blank.weighted_frequencies()).tolist() == [3, 3, 7, 7]


def test_a_step_on_cells_equals_the_step_on_records():
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"AGE": rng.integers(16, 90, 300), "ZIP": rng.integers(1000, 1100, 300).astype(str)})
    data = sf.Microdata(frame.with_columns(AGE=pl.when(pl.int_range(300) < 9).then(None).otherwise("AGE")))
    cells = data.cells(["AGE", "ZIP"])
    masks = sf.Recode(column="AGE", width=10, highest=60), sf.Truncate(column="ZIP", digits=2)
    after = data
    for mask in masks:
        cells, after = cells.apply(mask), mask.mask(after)
    assert cells.to_frame().equals(after.cells(["AGE", "ZIP"]).to_frame())
    assert cells.recode("AGE", cells.levels["AGE"]).to_frame().equals(cells.to_frame())


def test_a_hierarchy_works_on_cells(tmp_path):
    path = tmp_path / "area.csv"
    path.write_text("a1;north\na2;north\nb1;south\n", encoding="utf-8")
    frame = pl.DataFrame({"AREA": ["a1", "a2", "b1", None], "SEX": [1, 1, 2, 2]})
    data = sf.Microdata(frame, {"variables": {"AREA": {"hierarchy": str(path)}}})
    cells = data.cells(["AREA", "SEX"])
    after = cells.apply(sf.Recode(column="AREA", level=1), data.schema["AREA"])
    assert after.to_frame().rows() == [("north", 1, 2), ("south", 2, 1), (None, 2, 1)]
    assert cells.assess(2).records_unsafe == 2
    assert after.assess(2).records_unsafe == 0


def test_weights_follow_wildcards():
    frame = pl.DataFrame({"a": [1, 1, None], "b": [1, 2, 2], "w": [1.0, 10.0, 100.0]})
    cells = CellTable.of(sf.Microdata(frame), ["a", "b"], weight="w")
    assert cells.at_records(cells.weighted_frequencies()).tolist() == [1.0, 110.0, 110.0]


def test_entropy_by_hand():
    frame = pl.DataFrame({"a": ["x", "x", "y", None], "one": [1, 1, 1, 1]})
    cells = sf.Microdata(frame).cells(["a", "one"])
    assert cells.entropy("a") == pytest.approx(1.5)
    assert cells.entropy("one") == 0.0


def test_bad_keys_are_told(monkeypatch):
    data = sf.Microdata(pl.DataFrame({"AGE": [1, 2], "w": [1.0, None], "v": [1.0, -1.0]}))
    with pytest.raises(sf.SfumatoError, match="no key was named"):
        data.cells()
    with pytest.raises(sf.SfumatoError, match="AGE twice"):
        data.cells(["AGE", "AGE"])
    with pytest.raises(sf.SfumatoError, match="no column 'AGES'"):
        data.cells(["AGES"])
    with pytest.raises(sf.SfumatoError, match="category"):
        CellTable.of(data, ["AGE"], missing="categry")  # type: ignore[arg-type]
    with pytest.raises(sf.SfumatoError, match="missing in 1 record"):
        CellTable.of(data, ["AGE"], weight="w")
    with pytest.raises(sf.SfumatoError, match="negative in 1 record"):
        CellTable.of(data, ["AGE"], weight="v")
    cells = data.cells(["AGE"])
    with pytest.raises(sf.SfumatoError, match="isn't one of the keys"):
        cells.assess(3, [["AGE", "SEX"]])
    with pytest.raises(sf.SfumatoError, match="lets every combination pass"):
        cells.assess(1)
    with pytest.raises(sf.SfumatoError, match="names a key twice"):
        cells.assess(2, [["AGE", "AGE"]])
    with pytest.raises(sf.SfumatoError, match="2 levels, but 1 classes"):
        cells.recode("AGE", ["x"])
    with pytest.raises(sf.SfumatoError, match="no value of AGE is recoded"):
        cells.recode("AGE", {99: "old"})
    with pytest.raises(sf.SfumatoError, match="no weights"):
        cells.weighted_frequencies()
    monkeypatch.setattr(coding, "MAX_LEVELS", 1)
    with pytest.raises(sf.SfumatoError, match="AGE has 2 levels, more than a key can have"):
        data.cells(["AGE"])


def test_an_empty_file_and_an_all_missing_key():
    empty = sf.Microdata(pl.DataFrame({"a": pl.Series([], dtype=pl.Int64)})).cells(["a"])
    assert len(empty) == 0
    assert empty.assess(2).records_unsafe == 0
    gone = sf.Microdata(pl.DataFrame({"a": [None, None], "b": [1, 2]}, schema={"a": pl.String, "b": pl.Int8}))
    assert gone.cells(["a", "b"]).frequencies(["a"]).tolist() == [2, 2]
    assert gone.cells(["a", "b"]).assess(2, [["a"], ["b"]]).unsafe_records.tolist() == [0, 2]


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([Decimal("1.5"), Decimal("1.5"), None, Decimal("2.5")]),
        pl.Series([2**64 - 1, 2**64 - 1, None, 2**64 - 3], dtype=pl.UInt64),
        pl.Series([2**64 - 1, 2**64 - 1, None, 0], dtype=pl.UInt64),
    ],
)
def test_keys_of_unusual_numbers(values: pl.Series) -> None:
    data = sf.Microdata(pl.DataFrame({"K": values}))
    table = CellTable.of(data, ["K"], missing="category")
    assert table.at_records(table.counts).tolist() == [2, 2, 1, 1]
    assert table.to_frame()["K"].to_list() == [*sorted({values[0], values[3]}), None]
    safe = sf.LocalSuppress(keys=["K"], tolerance=2).mask(data).frame["K"]
    assert safe.to_list() == [values[0], values[0], None, values[3]]
