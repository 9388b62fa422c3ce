"""SPSS, Stata and SAS files: labels, user-missing values and ranges, in and out."""

from __future__ import annotations

import datetime

import polars as pl
import pytest

import sfumato as sf
from sfumato.data.schema import Range
from sfumato.errors import InputError, SfumatoWarning

# The guard starts a process for each file; one test of it is enough.
FAST = {"guard": False}

PEOPLE = sf.Microdata(
    pl.DataFrame(
        {
            "SEX": [1, 2, -9, None],
            "INCOME": [10.5, -99.0, -95.0, None],
            "AREA": ["n", "s", "x", "n"],
            "BORN": [datetime.date(1960, 1, 2), None, datetime.date(2001, 12, 31), datetime.date(1980, 5, 5)],
        }
    ),
    sf.Schema(
        variables={
            "SEX": {"kind": "categorical", "label": "Sex", "labels": {1: "male", 2: "female", -9: "refused"},
                    "missing": [-9]},
            "INCOME": {"kind": "continuous", "label": "Income", "missing": [{"from": -99, "to": -90}]},
            "AREA": {"kind": "categorical", "labels": {"n": "North", "s": "South"}, "missing": ["x"]},
        }
    ),
)  # fmt: skip


@pytest.mark.parametrize("suffix", ["sav", "zsav"])
def test_spss_round_trip(tmp_path, suffix):
    sf.write(PEOPLE, tmp_path / f"x.{suffix}")
    back = sf.read(tmp_path / f"x.{suffix}", **FAST)
    assert back.frame.equals(PEOPLE.frame)
    for column in ("SEX", "INCOME", "AREA"):
        assert back.schema[column] == PEOPLE.schema[column]
    assert back.missing("INCOME").tolist() == [False, True, True, True]


def test_stata_round_trip(tmp_path):
    """Missing codes become lettered missing values in Stata, and come back as the codes they were."""
    sf.write(PEOPLE, tmp_path / "x.dta")
    back = sf.read(tmp_path / "x.dta", **FAST)
    assert back.frame.equals(PEOPLE.frame)
    assert back.schema["SEX"].missing == (-9,)
    assert dict(back.schema["SEX"].labels) == {1: "male", 2: "female", -9: "refused"}
    assert sorted(back.schema["INCOME"].missing) == [-99.0, -95.0], "of a range, the codes that occur"
    assert back.missing("INCOME").tolist() == [False, True, True, True]
    assert back.schema["INCOME"].label == "Income"


def test_in_stata_they_are_missing(tmp_path):
    import pyreadstat

    sf.write(PEOPLE, tmp_path / "x.dta")
    frame, _ = pyreadstat.read_dta(str(tmp_path / "x.dta"), output_format="polars")
    assert frame["SEX"].to_list() == [1, 2, None, None]
    assert frame["INCOME"].to_list() == [10.5, None, None, None]


@pytest.mark.parametrize("suffix", ["sav", "dta"])
def test_null_and_nan_become_system_missing(tmp_path, suffix):
    frame = pl.DataFrame({"a": [1.5, float("nan"), None], "b": [True, None, False]})
    sf.write(frame, tmp_path / f"x.{suffix}")
    back = sf.read(tmp_path / f"x.{suffix}", **FAST).frame
    assert back["a"].to_list() == [1.5, None, None]
    assert back["b"].to_list() == [1, None, 0]


def test_lettered_missing_values_of_a_foreign_file(tmp_path):
    import pandas as pd
    import pyreadstat

    frame = pd.DataFrame({"x": pd.Series([1, "a", 3, None, "c"], dtype=object)})
    pyreadstat.write_dta(
        frame, str(tmp_path / "x.dta"), missing_user_values={"x": ["a", "c"]},
        variable_value_labels={"x": {1: "one", "a": "refused"}},
    )  # fmt: skip
    data = sf.read(tmp_path / "x.dta", **FAST)
    assert data.missing("x").tolist() == [False, True, False, True, True]
    values = data.column("x").to_list()
    assert values[3] is None
    assert values[1] != values[4]
    assert data.schema["x"].labels[values[1]] == ".a refused"
    assert data.schema["x"].labels[values[4]] == ".c"
    sf.write(data, tmp_path / "y.dta")
    again = sf.read(tmp_path / "y.dta", **FAST)
    assert again.frame.equals(data.frame)
    assert again.schema == data.schema
    original, back = (
        pyreadstat.read_dta(str(tmp_path / n), user_missing=True)[0] for n in ("x.dta", "y.dta")
    )
    assert original["x"].tolist()[1:5:3] == back["x"].tolist()[1:5:3] == ["a", "c"]


def test_real_missing_ranges(reference_data):
    data = sf.read(reference_data / "formats_stat/mval_bug.sav", **FAST)
    missing = {c: data.schema[c].missing for c in data.columns}
    assert missing["Q1_MISSING_NONE"] == ()
    assert missing["Q1_MISSING_3"] == (-1, -2, -3)
    assert missing["Q1_MISSING_RANGE"] == (Range(-3, -1),)
    assert missing["Q1_MISSING_LOW"] == (Range(None, -1),)
    assert missing["Q1_MISSING_HIGH_1"] == (Range(97, None), -1)
    assert data.schema["Q1_MISSING_1"].kind == "categorical"
    assert data.schema["Q1_MISSING_1"].labels[-1] == "(-1) Refused"


@pytest.mark.parametrize(
    "name", ["electric.sav", "mval_bug.sav", "testdata.sav", "auto8.dta", "iris.sas7bdat"]
)
def test_real_files_go_through_spss_unchanged(reference_data, tmp_path, name):
    data = sf.read(reference_data / "formats_stat" / name, **FAST)
    sf.write(data, tmp_path / "x.sav")
    back = sf.read(tmp_path / "x.sav", **FAST)
    assert back.frame.equals(data.frame)
    for column in data.columns:
        assert back.schema[column] == data.schema[column]


def test_every_real_file_is_read(reference_data):
    shapes = {
        "electric.sav": (240, 13),
        "NES1948.POR": (662, 67),
        "auto8.dta": (74, 13),
        "iris.sas7bdat": (150, 5),
        "test.xpt": (12, 2),
        "testdata.sav": (5, 16),
    }
    for name, shape in shapes.items():
        assert sf.read(reference_data / "formats_stat" / name, **FAST).frame.shape == shape
    nes = sf.read(reference_data / "formats_stat/NES1948.POR", columns=["V480003"], **FAST)
    assert nes.schema["V480003"].label == "POP CLASSIFICATION"
    assert nes.schema["V480003"].labels[1] == "METROPOLITAN AREA"
    electric = sf.read(reference_data / "formats_stat/electric.sav", **FAST)
    assert electric.dtype("AGE") == pl.Int64
    assert electric.dtype("HT58") == pl.Float64
    with pytest.raises(InputError, match="no column 'AGEE'"):
        sf.read(reference_data / "formats_stat/electric.sav", columns=["AGEE"], **FAST)


def test_what_the_packages_cannot_hold(tmp_path):
    def refuse(match: str, frame: pl.DataFrame, schema: sf.Schema | None = None, suffix: str = "sav") -> None:
        with pytest.raises(InputError, match=match):
            sf.write(sf.Microdata(frame, schema), tmp_path / f"x.{suffix}")
        assert not list(tmp_path.iterdir())

    refuse("no variable names like 'a b'", pl.DataFrame({"a b": [1]}))
    refuse("no variable names like 'é'", pl.DataFrame({"é": [1]}), suffix="dta")
    refuse("differs only in case", pl.DataFrame({"a": [1], "A": [2]}))
    refuse("can't hold exactly", pl.DataFrame({"a": [2**60]}))
    refuse("can't hold exactly", pl.DataFrame({"a": [-(2**63)]}), suffix="dta")
    many = sf.Schema(variables={"a": {"missing": [1, 3, 5, 7]}})
    refuse("more missing codes than SPSS", pl.DataFrame({"a": [1, 2, 3, 4, 5, 6, 7]}), many)
    text = sf.Schema(variables={"a": {"missing": ["nine bytes"]}})
    refuse("missing codes of at most 8 bytes", pl.DataFrame({"a": ["x"]}), text)
    stata = sf.Schema(variables={"a": {"missing": list(range(30))}})
    refuse("more missing codes than the 26", pl.DataFrame({"a": list(range(40))}), stata, "dta")


def test_neighbouring_codes_become_a_range_where_spss_needs_one(tmp_path):
    schema = sf.Schema(variables={"a": {"missing": [-1, -2, -3, 99]}})
    data = sf.Microdata(pl.DataFrame({"a": [1, 2, -1, -3, 99, None]}), schema)
    sf.write(data, tmp_path / "x.sav")
    back = sf.read(tmp_path / "x.sav", **FAST)
    assert back.missing("a").tolist() == data.missing("a").tolist()
    assert back.schema["a"].missing == (Range(-3, -1), 99)


def test_long_labels_are_cut_for_stata_with_a_warning(tmp_path):
    schema = sf.Schema(variables={"a": {"label": "x" * 100}})
    with pytest.warns(SfumatoWarning, match="at most 80 characters"):
        sf.write(sf.Microdata(pl.DataFrame({"a": [1]}), schema), tmp_path / "x.dta")
    assert sf.read(tmp_path / "x.dta", **FAST).schema["a"].label == "x" * 80


@pytest.mark.parametrize("suffix", ["sav", "por", "dta", "sas7bdat", "xpt"])
def test_damaged_files(tmp_path, reference_data, suffix):
    name = {"sav": "electric.sav", "por": "NES1948.POR", "dta": "auto8.dta", "sas7bdat": "iris.sas7bdat",
            "xpt": "test.xpt"}[suffix]  # fmt: skip
    whole = (reference_data / "formats_stat" / name).read_bytes()
    file = tmp_path / f"x.{suffix}"
    for raw in (b"not such a file", whole[:200], b"\0" * 3000):
        file.write_bytes(raw)
        with pytest.raises(InputError, match=f"x.{suffix}"):
            sf.read(file, **FAST)


def test_a_file_that_promises_too_many_records(tmp_path, reference_data):
    raw = bytearray((reference_data / "formats_stat/auto8.dta").read_bytes())
    raw[9] = 5  # the highest byte of the number of records
    (tmp_path / "x.dta").write_bytes(raw)
    with pytest.raises(InputError, match="promises 83,886,154 records"):
        sf.read(tmp_path / "x.dta", **FAST)


def test_a_file_that_crashes_its_library_is_refused(tmp_path, monkeypatch):
    """The trial runs in a process of its own; here that process kills itself, as a crash would."""
    file = tmp_path / "x.sav"
    sf.write(pl.DataFrame({"a": [1]}), file)
    assert len(sf.read(file)) == 1
    monkeypatch.setattr("sfumato.io.crash._TRIAL", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(InputError, match="crashes the library"):
        sf.read(file)


def test_whole_numbers_come_back_whole_from_stata(tmp_path) -> None:
    frame = pl.DataFrame({"a": [1, 2, 3], "b": [1, None, 3], "c": [2**31 - 27, 0, -(2**31)], "d": [None] * 3})
    frame = frame.with_columns(pl.col("d").cast(pl.Int64))
    sf.write(sf.Microdata(frame), tmp_path / "x.dta")
    back = sf.read(tmp_path / "x.dta", **FAST).frame
    assert back.cast(pl.Float64).equals(frame.cast(pl.Float64))
    assert [back.schema[c] for c in "ab"] == [pl.Int64, pl.Int64]


@pytest.mark.parametrize("version", [15, 12])
def test_a_file_of_short_text_is_sound(tmp_path, version) -> None:
    """The width of a text counts a byte more than the file has for it."""
    frame = pl.DataFrame({f"S{j}": ["a", "b", "c"] * 1000 for j in range(10)} | {"E": [""] * 3000})
    sf.write(sf.Microdata(frame), tmp_path / "text.dta", version=version)
    back = sf.read(tmp_path / "text.dta").frame
    assert back.drop("E").equals(frame.drop("E"))
    whole = (tmp_path / "text.dta").read_bytes()
    (tmp_path / "cut.dta").write_bytes(whole[: len(whole) // 3])
    with pytest.raises(InputError):
        sf.read(tmp_path / "cut.dta")


def test_a_release_of_short_text_is_read_back(tmp_path) -> None:
    frame = pl.DataFrame({f"S{j}": ["a", "b", "c"] * 1000 for j in range(10)})
    plan = sf.Plan(steps=[sf.RandomSwap(columns=["S0"], rate_percent=50)], release={"format": "dta"})
    assert sf.read(plan.run(frame, seed=1).release(tmp_path / "r").data).frame.height == 3000


@pytest.mark.parametrize(
    ("name", "options", "place", "never"),
    [
        ("x.sav", {}, lambda b: 92, b"01 Jan 7000:00:00"),
        ("x.zsav", {}, lambda b: 92, b"01 Jan 7000:00:00"),
        ("x.dta", {}, lambda b: b.index(b"<timestamp>\x11") + 12, b"01 Jan 1970 00:00"),
        ("x.dta", {"version": 12}, lambda b: 91, b"01 Jan 1970 00:00"),
    ],
)
def test_no_file_carries_the_time_of_its_writing(tmp_path, name, options, place, never) -> None:
    """By the formats' descriptions: SPSS bytes 92-108, Stata <timestamp>, or bytes 91-107 before 13."""
    data = sf.Microdata(pl.DataFrame({"A": [1, 2, 3], "T": ["x", "y", "z"]}))
    sf.write(data, tmp_path / name, **options)
    raw = (tmp_path / name).read_bytes()
    assert raw[place(raw) :].startswith(never)
    year = str(datetime.datetime.now().year)
    stamp = datetime.datetime.now().strftime("%d %b ")
    assert f"{stamp}{year}".encode() not in raw
    assert f"{stamp}{year[2:]}".encode() not in raw
    assert sf.read(tmp_path / name).frame["A"].to_list() == [1, 2, 3]
