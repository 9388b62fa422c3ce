"""Recodes: widths, mappings, hierarchies, mu-ARGUS files, truncation, and what the schema learns."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.data.hierarchy import Hierarchy
from sfumato.data.microdata import Microdata
from sfumato.data.recoding import read_grc, span
from sfumato.data.schema import Variable
from sfumato.errors import InputError, MaskError, ParameterError, SchemaError
from sfumato.masks.recode.coarser import Coarser
from sfumato.masks.recode.recode import Recode
from sfumato.masks.recode.truncate import Truncate


def recoded(values: list[Any], variable: dict[str, Any] | None = None, **parameters: Any) -> Microdata:
    data = Microdata(pl.DataFrame({"X": values}), {"variables": {"X": variable or {}}})
    return Recode(column="X", **parameters).mask(data)


def classes(values: list[Any], **parameters: Any) -> list[Any]:
    return recoded(values, **parameters).frame["X"].to_list()


# -- widths ---------------------------------------------------------------------------------------


def test_classes_of_equal_width() -> None:
    assert classes([0, 9, 10, 25, 30], width=10) == ["0-9", "0-9", "10-19", "20-29", "30-39"]
    assert classes([1, 10, 11, 30], width=10, origin=1) == ["1-10", "1-10", "11-20", "21-30"]
    assert classes([-5, -1, 3], width=5) == ["-5 to -1", "-5 to -1", "0-4"]
    assert classes([3, 4], width=1) == ["3", "4"]
    assert classes([0.5, 1.0, 1.49, 2.2], width=0.5) == ["[0.5, 1)", "[1, 1.5)", "[1, 1.5)", "[2, 2.5)"]


def test_open_classes() -> None:
    got = classes([5, 15, 20, 29, 60, 99], width=10, lowest=20, highest=60)
    assert got == ["<20", "<20", "20-29", "20-29", "60+", "60+"]
    # A cut inside a class shortens it, so that classes don't overlap.
    assert classes([15, 17, 19], width=10, lowest=16, highest=18) == ["<16", "16-17", "18+"]


def test_lower_ends_keep_the_type() -> None:
    masked = recoded([3, 17, 95], width=10, labels="low", highest=90)
    assert masked.dtype("X") == pl.Int64
    assert masked.frame["X"].to_list() == [0, 10, 90]
    with pytest.raises(MaskError, match="no lower end"):
        recoded([3], width=10, labels="low", lowest=5)


def test_infinite_values_are_in_no_class_unless_it_is_open() -> None:
    with pytest.raises(MaskError, match="no class"):
        classes([1.0, float("inf")], width=1)
    assert classes([1.0, float("inf")], width=1, highest=2) == ["[1, 2)", "2+"]


@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=50),
    st.integers(1, 50),
    st.integers(-20, 20),
)
def test_every_value_lies_in_the_class_it_is_given(values: list[int], width: int, origin: int) -> None:
    masked = recoded(values, width=width, origin=origin).frame["X"].to_list()
    for value, name in zip(values, masked, strict=True):
        low = origin + (value - origin) // width * width
        high = low + width - 1
        want = str(low) if width == 1 else f"{low}-{high}" if low >= 0 else f"{low} to {high}"
        assert name == want


# -- mappings -------------------------------------------------------------------------------------


def test_a_mapping_of_codes_and_ranges() -> None:
    table = {"-20": "young", "21-60": "middle", "61-": "old"}
    assert classes([5, 20, 21, 60, 61, None], mapping=table) == [
        "young",
        "young",
        "middle",
        "middle",
        "old",
        None,
    ]
    assert classes(["a", "b", "c"], mapping={"a": "x", "b": "x", "c": "y"}) == ["x", "x", "y"]
    assert classes([1, 2, 3, 4], mapping={"1,2": 1, "3,4": 3}) == [1, 1, 3, 3]
    assert classes([1.5, 2.5], mapping={"1-2": "a", "2.1-3": "b"}) == ["a", "b"]


def test_whole_number_classes_keep_the_type() -> None:
    data = Microdata(pl.DataFrame({"X": pl.Series([1, 2, 3], dtype=pl.Int8)}))
    masked = Recode(column="X", mapping={"1-2": 1, "3": 3}).mask(data)
    assert masked.dtype("X") == pl.Int8
    wide = Recode(column="X", mapping={"1-2": 1000, "3": 3}).mask(data)
    assert wide.frame["X"].to_list() == [1000, 1000, 3]


def test_a_negative_number_as_key_is_itself_also_after_a_round_trip() -> None:
    mask = Recode(column="X", mapping={-5: "five", 1: "one"})  # type: ignore[dict-item]
    again = Recode.from_dict(mask.to_dict())
    assert again == mask
    data = Microdata(pl.DataFrame({"X": [-5, 1]}))
    assert again.mask(data).frame["X"].to_list() == ["five", "one"]
    with pytest.raises(MaskError, match="no class"):
        again.mask(pl.DataFrame({"X": [-7]}))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("7", 7, 7),
        ("-20", None, 20),
        ("61-", 61, None),
        ("21-30", 21, 30),
        ("-5--1", -5, -1),
        ("--3", None, -3),
    ]
    + [("1.5-2.5", 1.5, 2.5), (" 3 - 4 ", 3, 4), ("-4-2", -4, 2)],
)
def test_ranges(text: str, low: float | None, high: float | None) -> None:
    got = span(text)
    assert got is not None
    assert (got.low, got.high) == (low, high)


def test_ranges_that_are_none() -> None:
    assert span("north") is None
    assert span("") is None
    with pytest.raises(SchemaError, match="backwards"):
        span("9-3")


def test_values_in_no_class_are_named_with_a_way_out() -> None:
    with pytest.raises(MaskError, match=r"2 values of X are in no class: 3, 4") as caught:
        classes([1, 3, 4], mapping={"1": "a"})
    assert "other" in str(caught.value)
    assert classes([1, 3, 4], mapping={"1": "a"}, other="rest") == ["a", "rest", "rest"]
    assert classes([1, 3, 4], mapping={"1": "a"}, keep_others=True) == ["a", "3", "4"]
    assert classes([1, 3, 4], mapping={"1": 7}, keep_others=True) == [7, 3, 4]


def test_values_of_a_sensitive_column_arent_named() -> None:
    data = Microdata(pl.DataFrame({"X": [1, 98765]}), {"roles": {"sensitive": ["X"]}})
    with pytest.raises(MaskError) as caught:
        Recode(column="X", mapping={"1": "a"}).mask(data)
    assert "98765" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [({"1-5": "a", "5-9": "b"}, "overlap"), ({"-5": "a", "3": "b"}, "overlap"), ({"north": "a"}, "neither")],
)
def test_mappings_that_make_no_sense_on_numbers(table: dict[str, str], message: str) -> None:
    with pytest.raises((SchemaError, MaskError), match=message):
        classes([1, 3], mapping=table)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "one of"),
        ({"width": 5, "mapping": {"1": "a"}}, "one of"),
        ({"width": 0}, "above 0"),
        ({"hierarchy": "x.csv"}, "needs a `level`"),
        ({"mapping": {}}, "empty"),
        ({"mapping": {"1": 1.5}}, "whole number"),
        ({"mapping": {"1": "a"}, "lowest": 3}, "go with `width`"),
        ({"width": 5, "lowest": 9, "highest": 3}, "below"),
        ({"width": 5, "other": "x", "keep_others": True}, "exclude"),
    ],
)
def test_parameters_that_make_no_sense(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Recode(column="X", **parameters)


def test_a_width_needs_numbers() -> None:
    with pytest.raises(MaskError, match="needs numbers"):
        classes(["a"], width=5)


# -- the schema -----------------------------------------------------------------------------------


def test_missing_codes_stay_missing_and_codes_of_the_tails_are_dropped() -> None:
    variable = {"missing": [99, {"from": -9, "to": -1}], "top": 90, "bottom": 0, "label": "Age", "unit": 1}
    masked = recoded([5, 25, 99, -3, None], variable, width=10)
    assert masked.frame["X"].to_list() == ["0-9", "20-29", "99", "-3", None]
    assert masked.missing("X").tolist() == [False, False, True, True, True]
    known = masked.schema["X"]
    assert (known.top, known.bottom, known.unit, known.label) == (None, None, None, "Age")
    assert (known.kind, known.order) == ("ordinal", ("0-9", "20-29"))


def test_a_class_that_is_a_missing_code() -> None:
    with pytest.raises(MaskError, match="missing code"):
        recoded([1, 2], {"missing": [9]}, mapping={"1": 9, "2": 2})


def test_sum_rules_end_with_a_warning() -> None:
    data = Microdata(
        pl.DataFrame({"T": [3], "A": [1], "B": [2]}), {"variables": {"T": {"sum_of": ["A", "B"]}}}
    )
    mask = Recode(column="A", width=10)
    assert [p.severity for p in mask.check(data.schema, data._types)] == ["warning"]
    assert mask.mask(data).schema.sums == {}


def test_the_guarantee_can_fail() -> None:
    before = Microdata(pl.DataFrame({"X": [1, 1, None]}))
    assert "split" in (Coarser("X").failure(before, Microdata(pl.DataFrame({"X": [1, 2, None]}))) or "")
    assert "missing" in (Coarser("X").failure(before, Microdata(pl.DataFrame({"X": [1, 1, 7]}))) or "")


def test_classes_of_distinct_values_are_the_recode() -> None:
    """The core that the cell table uses: levels → classes, without records."""
    mask = Recode(column="X", width=10)
    levels = pl.Series([5, 15, 99, None])
    variable = Variable(missing=(99,))
    assert mask.class_of(levels, variable).to_list() == ["0-9", "10-19", "99", None]
    data = Microdata(pl.DataFrame({"X": [15, 99, 5, None, 15]}), {"variables": {"X": {"missing": [99]}}})
    assert mask.mask(data).frame["X"].to_list() == ["10-19", "99", "0-9", None, "10-19"]


# -- hierarchies ----------------------------------------------------------------------------------


@pytest.fixture
def nested(tmp_path: Path) -> str:
    path = tmp_path / "h.csv"
    path.write_text("11;1;*\n12;1;*\n21;2;*\n", encoding="utf-8")
    return str(path)


def test_levels(nested: str) -> None:
    assert classes([11, 21], hierarchy=nested, level=1) == ["1", "2"]
    assert classes([11, 21], hierarchy=nested, level=2) == ["*", "*"]
    assert classes([11, 21], hierarchy=nested, level=0) == [11, 21]
    masked = recoded([11, 12], {"hierarchy": nested}, level=1)
    assert masked.frame["X"].to_list() == ["1", "1"]
    assert masked.schema["X"].hierarchy is None


def test_hierarchies_with_mistakes(nested: str, tmp_path: Path) -> None:
    with pytest.raises(MaskError, match="no level 5"):
        classes([11], hierarchy=nested, level=5)
    with pytest.raises(MaskError, match="in no class: 99"):
        classes([99], hierarchy=nested, level=1)
    with pytest.raises(MaskError, match="names no hierarchy"):
        classes([11], level=1)
    with pytest.raises(MaskError, match="can't be read"):
        classes([11], hierarchy=str(tmp_path / "none.csv"), level=1)
    with pytest.raises(InputError, match="can't be read"):
        Hierarchy.read(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;1;x\nb;1;y\n", r"doesn't nest at level 2: '1' is in 'x' and 'y'"),
        ("a;1\na;2\n", "puts 'a' into two classes of level 1"),
        ("a;1;x\nb;1\n", "3 levels on line 1 and 2 on line 2"),
        ("", "is empty"),
    ],
)
def test_hierarchies_that_dont_nest(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "h.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError, match=message):
        Hierarchy.read(path)


ADULT = ["age", "education", "marital-status", "native-country", "occupation", "race", "salary-class", "sex"]


@pytest.mark.parametrize("column", [*ADULT, "workclass"])
def test_the_hierarchies_of_arx(reference_data: Path, column: str) -> None:
    folder = reference_data / "formats_arx"
    data = Microdata(pl.read_csv(folder / "adult.csv", separator=";"))
    path = folder / f"adult_hierarchy_{column}.csv"
    lines = {r.split(";")[0]: r.split(";") for r in path.read_text(encoding="utf-8").splitlines() if r}
    height = len(next(iter(lines.values()))) - 1
    sizes = []
    for level in range(1, height + 1):
        masked = Recode(column=column, hierarchy=str(path), level=level).mask(data)
        for was, now in list(zip(data.frame[column], masked.frame[column], strict=True))[:500]:
            assert now == lines[str(was)][level]
        sizes.append(masked.frame[column].n_unique())
    assert sizes == sorted(sizes, reverse=True)


# -- mu-ARGUS files -------------------------------------------------------------------------------


def test_every_recoding_of_argus_is_read(reference_data: Path) -> None:
    folder = reference_data / "formats_argus" / "data"
    paths = sorted(folder.glob("*.grc"))
    assert len(paths) == 9
    for path in paths:
        assert read_grc(path).mapping


def test_a_recoding_of_argus_with_its_missing_codes_and_labels(reference_data: Path) -> None:
    path = reference_data / "formats_argus" / "data" / "Age.grc"
    masked = recoded([7, 20, 21, 61, 99], {"missing": [99]}, mapping=str(path))
    assert masked.frame["X"].to_list() == [1, 1, 2, 6, 99]
    known = masked.schema["X"]
    assert known.missing == (99, 8, 9)
    assert known.labels[1] == "age under 20"
    assert known.labels[6] == "age 61 and over"
    marital = reference_data / "formats_argus" / "data" / "Marstat.grc"
    assert classes([1, 2, 3, 4], mapping=str(marital)) == [1, 1, 3, 3]
    # The same codes as text, as a fixed-width file gives them.
    assert classes(["1", "2", "3", "4"], mapping=str(marital)) == ["1", "1", "3", "3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no recoding"), ("1 2-3\n", "expected"), ("1:2\n3:2\n", "two classes"), ("1:2\n<ODD> 3\n", "ODD")],
)
def test_recodings_with_mistakes(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.grc"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError, match=message):
        read_grc(path)
    with pytest.raises(MaskError, match=message):
        classes([2], mapping=str(path))


# -- truncation -----------------------------------------------------------------------------------


def truncated(values: list[Any], digits: int, variable: dict[str, Any] | None = None) -> Microdata:
    data = Microdata(pl.DataFrame({"X": values}), {"variables": {"X": variable or {}}})
    return Truncate(column="X", digits=digits).mask(data)


def test_truncation() -> None:
    assert truncated([12345, 678, -1299, None], 2).frame["X"].to_list() == [123, 6, -12, None]
    assert truncated(["12345", "0678", None], 2).frame["X"].to_list() == ["123", "06", None]
    assert truncated([12345], 0).frame["X"].to_list() == [12345]
    masked = truncated([1234, 9999], 2, {"missing": [9999], "top": 2000, "labels": {1234: "a"}})
    assert masked.frame["X"].to_list() == [12, 9999]
    assert (masked.schema["X"].top, dict(masked.schema["X"].labels)) == (None, {})


def test_truncations_that_cant_be_done() -> None:
    with pytest.raises(MaskError, match="no more than 2 characters: 12"):
        truncated(["123", "12"], 2)
    with pytest.raises(MaskError, match="missing code"):
        truncated([990], 1, {"missing": [99]})
    with pytest.raises(MaskError, match="no digits"):
        truncated([1.5], 1)


def test_recodes_are_found_by_name() -> None:
    assert sf.registry.mask("recode") is Recode
    assert sf.registry.mask("truncate") is Truncate


DAYS = [date(1959, 12, 31), date(1987, 5, 30), None, date(1990, 1, 1), date(2004, 11, 2)]


@pytest.mark.parametrize(
    ("period", "names", "firsts"),
    [
        (
            "decade",
            ["1950-1959", "1980-1989", None, "1990-1999", "2000-2009"],
            [date(1950, 1, 1), date(1980, 1, 1), None, date(1990, 1, 1), date(2000, 1, 1)],
        ),
        (
            "year",
            ["1959", "1987", None, "1990", "2004"],
            [date(1959, 1, 1), date(1987, 1, 1), None, date(1990, 1, 1), date(2004, 1, 1)],
        ),
        (
            "quarter",
            ["1959-Q4", "1987-Q2", None, "1990-Q1", "2004-Q4"],
            [date(1959, 10, 1), date(1987, 4, 1), None, date(1990, 1, 1), date(2004, 10, 1)],
        ),
        (
            "month",
            ["1959-12", "1987-05", None, "1990-01", "2004-11"],
            [date(1959, 12, 1), date(1987, 5, 1), None, date(1990, 1, 1), date(2004, 11, 1)],
        ),
        ("day", ["1959-12-31", "1987-05-30", None, "1990-01-01", "2004-11-02"], DAYS),
    ],
)
@pytest.mark.parametrize("dtype", [pl.Date, pl.Datetime("us"), pl.Datetime("ms", "Europe/Berlin")])
def test_dates_by_period(period, names, firsts, dtype) -> None:
    born = pl.Series("BORN", DAYS).cast(pl.Datetime("us"))
    if dtype != pl.Date:  # some time of day, which no period keeps
        born = born.dt.offset_by("7h30m")
    zone = getattr(dtype, "time_zone", None)
    born = (born.dt.replace_time_zone(zone) if zone else born).cast(dtype)
    data = sf.Microdata(born.to_frame())
    masked = sf.Recode(column="BORN", period=period).mask(data)
    assert masked.column("BORN").to_list() == names
    assert masked.schema["BORN"].kind == "ordinal"
    assert masked.schema["BORN"].order == tuple(n for n in names if n)
    low = sf.Recode(column="BORN", period=period, labels="low").mask(data)
    assert low.dtype("BORN") == dtype
    assert low.column("BORN").dt.date().to_list() == firsts


def test_a_period_needs_dates_and_dates_are_told_of_it() -> None:
    data = sf.Microdata(pl.DataFrame({"AGE": [1, 2], "BORN": DAYS[:2]}))
    with pytest.raises(MaskError, match="`period` needs dates, but AGE holds Int64"):
        sf.Recode(column="AGE", period="year").mask(data)
    for mask in (sf.Recode(column="BORN", width=5), sf.Truncate(column="BORN", digits=1)):
        with pytest.raises(MaskError, match="`period`"):
            mask.mask(data)
    with pytest.raises(MaskError, match="`period`"):
        sf.TopBottomCode(columns=["BORN"], top_percent=5).mask(data)


def test_a_grc_file_given_as_a_hierarchy_and_paths_that_arent_text(tmp_path) -> None:
    path = tmp_path / "age.grc"
    path.write_text("1:-20\n2:21-\n")
    data = sf.Microdata(pl.DataFrame({"AGE": [17, 24]}))
    for way in ({"mapping": path}, {"hierarchy": path}, {"hierarchy": str(path), "level": 1}):
        assert [int(v) for v in sf.Recode(column="AGE", **way).mask(data).column("AGE")] == [1, 2]


@pytest.mark.parametrize(
    "step",
    [
        {"width": 10},
        {"width": 10, "labels": "low"},
        {"mapping": {"-40": 1, "41-": 2}},
        {"mapping": {"-40": 1000, "41-": 2}},
        {"mapping": {"-40": "young", "41-": "old"}},
        {"mapping": {"-40": 1}, "other": "rest"},
        {"mapping": {"-40": 1}, "keep_others": True},
    ],
)
def test_it_knows_its_type_in_every_way(step: dict[str, Any]) -> None:
    data = sf.Microdata(pl.DataFrame({"AGE": pl.Series([17, 24, 61, None], dtype=pl.Int8)}))
    mask = sf.Recode(column="AGE", **step)
    after = mask.mask(data, seed=1)
    assert mask.types_after({"AGE": pl.Int8()}, data.schema) == {"AGE": after.dtype("AGE")}


def test_check_refuses_what_run_refuses(tmp_path: Path) -> None:
    """Recode to classes, then noise on them: check said 0, run said 2."""
    pl.DataFrame({"AGE": [17, 24, 61] * 10}).write_parquet(tmp_path / "a.parquet")
    steps = [sf.Recode(column="AGE", width=10), sf.AdditiveNoise(columns=["AGE"], variance_ratio=0.1)]
    plan = sf.Plan(steps=steps, data_path="a.parquet", base=tmp_path)
    assert [p.message for p in plan.check() if p.severity == "error"] == [
        "`columns` needs numbers, but 'AGE' holds String"
    ]
