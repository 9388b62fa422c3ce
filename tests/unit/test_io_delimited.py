"""Delimited text: what is read, what is refused, and what the message says."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import InputError, SfumatoWarning
from sfumato.io.delimited import sniff


def put(folder: Path, content: bytes | str, name: str = "data.csv") -> Path:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def read(folder: Path, content: bytes | str, name: str = "data.csv", **options: object) -> pl.DataFrame:
    return sf.read(put(folder, content, name), **options).frame


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2\n", ";"),
        ("a\tb\n1\t2\n", "\t"),
        ("a|b\n1|2\n", "|"),
        ('"a,b";c\n1;2\n', ";"),
        ("a\n1\n", ","),
    ],
)
def test_delimiter_is_found(text, delimiter):
    assert sniff(text) == delimiter


def test_types_come_from_the_whole_file(tmp_path):
    late = "".join(f"{i},x,2020-01-0{i % 9 + 1},true\n" for i in range(5000))
    frame = read(tmp_path, "i,t,d,b\n" + late + "1.5,y,2021-12-31,FALSE\n")
    assert frame.dtypes == [pl.Float64, pl.String, pl.Date, pl.Boolean]
    assert frame["i"][-1] == 1.5
    assert frame["d"][-1] == datetime.date(2021, 12, 31)
    assert frame["b"][-1] is False


def test_codes_with_leading_zeros_and_long_numbers_stay_text(tmp_path):
    frame = read(tmp_path, "fips,card,n\n01,12345678901234567890,0\n36,2,0.5\n")
    assert frame["fips"].to_list() == ["01", "36"]
    assert frame["card"].to_list() == ["12345678901234567890", "2"]
    assert frame["n"].to_list() == [0.0, 0.5]


def test_nulls_nan_and_empty_text_are_told_apart(tmp_path):
    frame = read(tmp_path, 'x,s\n1.5,""\n,\nNaN,z\n')
    assert frame["x"][1] is None
    assert frame["x"].is_nan().to_list() == [False, None, True]
    assert frame["s"].to_list() == ["", None, "z"]


def test_words_for_nothing_count_among_numbers_only(tmp_path):
    frame = read(tmp_path, "x,s\n1,NA\nNA,US\n.,DE\n")
    assert frame["x"].to_list() == [1, None, None]
    assert frame["s"].to_list() == ["NA", "US", "DE"]
    assert read(tmp_path, "x,s\n1,NA\n", null_values=["NA"])["s"].to_list() == [None]


def test_decimal_comma(tmp_path):
    assert read(tmp_path, "a;b\n1,5;2\n-2,25;3\n")["a"].to_list() == [1.5, -2.25]
    assert read(tmp_path, "a;b\n1.5;2\n", decimal=",")["a"].to_list() == ["1.5"]
    with pytest.warns(SfumatoWarning, match="decimal"):
        read(tmp_path, "a;b\n1,5;2.5\n")


def test_types_can_be_set(tmp_path):
    frame = read(tmp_path, "a,b\n1,2\n3,4\n", types={"a": "text", "b": pl.Int8})
    assert frame.dtypes == [pl.String, pl.Int8]
    with pytest.raises(InputError, match=r"a should be integer, but isn't in row 2"):
        read(tmp_path, "a\n1\nx\n", types={"a": "integer"})
    with pytest.raises(InputError, match="no column 'c'"):
        read(tmp_path, "a,b\n1,2\n", types={"c": "text"})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_encodings_are_found(tmp_path, encoding):
    text = "name,größe\nÅse,1\nŁukasz,2\n"
    frame = read(tmp_path, text.encode(encoding))
    assert frame.columns == ["name", "größe"]
    assert frame["name"].to_list() == ["Åse", "Łukasz"]


def test_an_old_encoding_is_read_and_said(tmp_path):
    raw = "name,x\nAnn,1\nÅse,2\n".encode("cp1252")
    with pytest.warns(SfumatoWarning, match=r"isn't UTF-8 \(first in line 3\).*Windows-1252"):
        assert read(tmp_path, raw)["name"].to_list() == ["Ann", "Åse"]
    assert read(tmp_path, raw, encoding="latin-1")["name"].to_list() == ["Ann", "Åse"]
    with pytest.raises(InputError, match="line 3 holds bytes that utf-8"):
        read(tmp_path, raw, encoding="utf-8")
    with pytest.raises(InputError, match="no encoding 'klingon'"):
        read(tmp_path, raw, encoding="klingon")


def test_quoted_newlines_and_delimiters(tmp_path):
    frame = read(tmp_path, 'a,b\n1,"x\ny, z"\n2,"say ""so"""\n')
    assert frame["b"].to_list() == ["x\ny, z", 'say "so"']


def test_stray_quotes_are_read(tmp_path):
    assert read(tmp_path, 'a,b\n1,5" pipe\n2,plain\n')["b"].to_list() == ['5" pipe', "plain"]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_line_ends(tmp_path, ends):
    frame = read(tmp_path, ends.join(["a,b", "1,x", "2,y", ""]))
    assert frame.to_dict(as_series=False) == {"a": [1, 2], "b": ["x", "y"]}


def test_thousands_of_columns(tmp_path):
    names = [f"v{i}" for i in range(5000)]
    frame = read(tmp_path, ",".join(names) + "\n" + ",".join(map(str, range(5000))) + "\n")
    assert frame.shape == (1, 5000)
    assert frame["v4999"][0] == 4999


def test_compressed_and_tabs(tmp_path):
    assert read(tmp_path, gzip.compress(b"a\tb\n1\t2\n"), "x.tsv.gz").to_dicts() == [{"a": 1, "b": 2}]
    with pytest.raises(InputError, match="can't be unpacked"):
        read(tmp_path, gzip.compress(b"a,b\n1,2\n" * 100)[:-20], "cut.csv.gz")


def test_without_a_header(tmp_path):
    frame = read(tmp_path, "1,2\n3,4\n", header=False)
    assert frame.to_dict(as_series=False) == {"column_1": [1, 3], "column_2": [2, 4]}
    with pytest.raises(InputError, match="holds numbers where names are expected"):
        read(tmp_path, "1,2\n3,4\n")
    with pytest.raises(InputError, match="looks like a record"):
        read(tmp_path, "AL,12,3.5\nTX,13,2\nAL,9,1\n")
    assert read(tmp_path, "1990,1991\n3,4\n").columns == ["1990", "1991"], "years may be names"
    assert read(tmp_path, "state,1991\nAL,4\n").columns == ["state", "1991"]


def test_some_columns_and_lazily(tmp_path):
    file = put(tmp_path, "a,b,c\n1,x,2.5\n3,y,4\n")
    assert sf.read(file, columns=["c", "a"]).columns == ["c", "a"]
    lazy = sf.read(file, lazy=True)
    assert lazy.is_lazy
    assert lazy.column("c").to_list() == [2.5, 4.0]
    assert lazy.is_lazy, "one column was read, not the file"
    assert lazy.frame.equals(sf.read(file).frame)


def test_blank_lines_are_no_records(tmp_path):
    assert read(tmp_path, "a,b\n1,2\n\n3,4\n\n")["a"].to_list() == [1, 3]


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("  \n \n", "is empty"),
        ("a,b\n", "no records"),
        ("a,b", "no records"),
        ("a,b,a\n1,2,3\n", r"two columns named 'a' \(columns 1, 3\)"),
        ("a,b\n1,2\n3\n5,6\n", r"line 3 has 1 field, where the first line has 2"),
        ("a,b\n1,2\n3,4,5\n", r"line 3 has 3 fields"),
        ('a,b\n1,"x\ny"\n3\n', r"line 4 has 1 field"),
        ("a,b\n1,2\ninf,3\n-inf,4\n", r"a holds infinite values, in rows 2 and 3"),
        (b"\x00\x01\x02\x00binary\x00", "isn't a text file"),
    ],
)
def test_bad_files(tmp_path, content, message):
    with pytest.raises(InputError, match=message) as problem:
        read(tmp_path, content)
    assert "data.csv" in problem.value.message


def test_text_in_a_number_column_says_which_rows(tmp_path):
    file = put(tmp_path, "id,INCOME\n1,10\n2,ten\n3,30\n4,x\n5,\n")
    schema = sf.Schema(variables={"INCOME": {"kind": "continuous"}})
    with pytest.raises(InputError, match=r"INCOME should hold numbers, but has text in rows 2 and 4"):
        sf.read(file, schema)
    assert sf.read(file).dtype("INCOME") == pl.String
    fine = sf.read(file, schema, null_values=["ten", "x"])
    assert fine.column("INCOME").to_list() == [10, None, 30, None, None]


def test_paths_that_are_no_files(tmp_path):
    put(tmp_path, "a\n1\n", "people.csv")
    with pytest.raises(InputError, match="there is no such file") as problem:
        sf.read(tmp_path / "poeple.csv")
    assert "people.csv" in (problem.value.hint or "")
    with pytest.raises(InputError, match="is a folder"):
        sf.read(tmp_path)
    with pytest.raises(InputError, match=r"has the suffix '\.xyz'"):
        sf.read(put(tmp_path, "a", "x.xyz"))
    with pytest.raises(InputError, match="has no suffix"):
        sf.read(put(tmp_path, "a", "x"))
    with pytest.raises(InputError, match="can't be opened"):
        sf.read("x\0y.csv")


def test_options_are_checked(tmp_path):
    file = put(tmp_path, "a,b\n1,2\n")
    with pytest.raises(InputError, match="no option 'delimeter'") as problem:
        sf.read(file, delimeter=";")
    assert "delimiter" in (problem.value.hint or "")
    for options in ({"delimiter": ",,"}, {"decimal": "x"}, {"delimiter": ",", "decimal": ","}):
        with pytest.raises(InputError):
            sf.read(file, **options)
    with pytest.raises(InputError, match="no column 'z'"):
        sf.read(file, columns=["z"])
    with pytest.raises(InputError, match="there is no format"):
        sf.read(file, format="excel")


def test_a_schema_is_laid_over_and_checked(tmp_path):
    file = put(tmp_path, "a,b\n1,2\n")
    assert sf.read(file, {"roles": {"keys": ["a"]}}).schema.keys == ("a",)
    with pytest.raises(sf.SfumatoError, match="'c', which the data don't have"):
        sf.read(file, sf.Schema(keys=["c"]))


def test_real_files(reference_data):
    shapes = {
        "CASCrefmicrodata.csv": (1080, 13),
        "formats_arx/adult.csv": (30162, 9),
        "census/acs2011_households.csv": (2982, 80),
        "census/MDarea_popA.csv.gz": (343398, 13),
        "titanic_889.csv": (889, 9),
    }
    for name, shape in shapes.items():
        assert sf.read(reference_data / name).frame.shape == shape
    titanic = sf.read(reference_data / "titanic_889.csv")
    assert titanic.column("Age").null_count() == 177


def test_several_columns_of_true_and_false_with_their_types_said(tmp_path: Path) -> None:
    path = tmp_path / "flags.csv"
    path.write_text("a,b\ntrue,\n,FALSE\n")
    back = sf.read(path, types={"a": pl.Boolean, "b": pl.Boolean}).frame
    assert back.to_dict(as_series=False) == {"a": [True, None], "b": [None, False]}
