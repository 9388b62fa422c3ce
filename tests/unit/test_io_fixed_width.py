"""Fixed-width text with mu-ARGUS metadata."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import InputError
from sfumato.io import argus


def test_demodata(reference_data):
    data = sf.read(reference_data / "formats_argus/data/Demodata.asc")
    assert data.frame.shape == (4000, 33)
    assert data.frame.row(0, named=True) | {"REGION": 36, "SEX": 1, "AGE": 43, "WEIGHT": 118.3} == (
        data.frame.row(0, named=True)
    )
    assert data.schema.weight == "WEIGHT"
    assert data.schema.keys[:3] == ("REGION", "SEX", "AGE")
    assert data.schema["REGION"].missing == (9999, 9998)
    assert data.schema["REGION"].labels[1] == "Aalburg"
    assert dict(data.schema["SEX"].labels) == {1: "male", 2: "female"}
    assert data.schema["WEIGHT"].unit == 0.01
    assert data.column("OCCUCODE")[0] == "0300", "leading zeros are kept"


def test_free_format_has_the_same_records(reference_data):
    folder = reference_data / "formats_argus/data"
    fixed, free = sf.read(folder / "Demodata.asc"), sf.read(folder / "Demofree.asc")
    shared = [c for c in fixed.columns if c in free.columns]
    assert len(shared) == 33
    assert free.frame.select(shared).equals(fixed.frame.select(shared))
    assert free.schema["REGION"].labels == fixed.schema["REGION"].labels, "regio.cdl is Regio.cdl"


def test_households(reference_data):
    data = sf.read(reference_data / "formats_argus/hhdata/Samhh.asc")
    assert data.frame.shape == (1000, 10), "the last line has no end"
    assert (data.schema.household, data.schema.weight) == ("hhnum", "weight")
    assert "province" not in data.schema.keys, "identification level 0"
    assert data.schema["town"].labels[1] == "Wheaton"
    safe = sf.read(reference_data / "formats_argus/hhdata/SamhhSafe.saf")
    assert safe.columns == data.columns


@pytest.mark.parametrize("separator", [None, ";"])
@pytest.mark.parametrize("name", ["data/Demodata.asc", "hhdata/Samhh.asc"])
def test_real_round_trip(reference_data, tmp_path, name, separator):
    data = sf.read(reference_data / "formats_argus" / name)
    sf.write(data, tmp_path / "x.asc", separator=separator)
    back = sf.read(tmp_path / "x.asc")
    assert back.frame.equals(data.frame)
    assert back.schema == data.schema


def test_round_trip_of_nulls_codes_and_text(tmp_path):
    frame = pl.DataFrame(
        {
            "K": ["a", "Łódź", None, "d e"],
            "X": [1.25, None, float("nan"), -99.0],
            "N": [None, -1, 20, 3],
        }
    )
    schema = sf.Schema(
        keys=["K"],
        variables={
            "K": {"kind": "categorical"},
            "X": {"kind": "continuous", "unit": 0.01, "missing": [-99.0]},
            "N": {"kind": "continuous"},
        },
    )
    sf.write(sf.Microdata(frame, schema), tmp_path / "x.asc")
    back = sf.read(tmp_path / "x.asc")
    assert back.frame.equals(frame)
    assert back.schema == schema
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.asc", "x.rda"]


def rda(folder: Path, metadata: str, lines: str) -> Path:
    (folder / "x.rda").write_text(metadata)
    (folder / "x.asc").write_text(lines)
    return folder / "x.asc"


@pytest.mark.parametrize(
    ("metadata", "lines", "message"),
    [
        ("A 1 2\nB 3 4\n", "12abcd\n34ab\n", "x.asc: line 2 is too short: it has 4 characters"),
        ("A 1 2\n  <NUMERIC>\n", "12\nxy\n", "A should hold numbers, but has text in row 2"),
        ("A 1 2\nA 3 1\n", "123\n", "x.rda has two columns named 'A'"),
        ("A one 2\n", "12\n", "x.rda: line 1 isn't understood"),
        ("A 1 0\n", "12\n", "x.rda: line 1 isn't understood"),
        ("A 1 2\n <DECIMALS> x\n", "12\n", "x.rda: line 2 isn't understood"),
        (" <NUMERIC>\n", "12\n", "comes before any variable"),
        ("\n", "12\n", "describes no variable"),
        ('<SEPARATOR> ","\nA 1\nB 1\n', "1,2\n3\n", "x.asc: line 2 has 1 fields"),
        ("A 1 2\n", "\n\n", "x.asc is empty"),
    ],
)
def test_bad_input(tmp_path, metadata, lines, message):
    with pytest.raises(InputError, match=message):
        sf.read(rda(tmp_path, metadata, lines))


def test_without_metadata(tmp_path):
    (tmp_path / "x.asc").write_text("12\n")
    with pytest.raises(InputError, match=r"metadata x\.rda aren't beside it"):
        sf.read(tmp_path / "x.asc")
    with pytest.raises(InputError, match="no such metadata file"):
        sf.read(tmp_path / "x.asc", metadata=tmp_path / "y.rda")
    (tmp_path / "y.rda").write_text("A 1 2\n")
    assert sf.read(tmp_path / "x.asc", metadata=tmp_path / "y.rda").frame.to_dicts() == [{"A": 12}]


def test_what_fixed_width_cannot_hold(tmp_path):
    for frame, message in (
        (pl.DataFrame({"a b": [1]}), "no variable names like 'a b'"),
        (pl.DataFrame({"a": ["x\ny"]}), "line breaks"),
    ):
        with pytest.raises(InputError, match=message):
            sf.write(frame, tmp_path / "x.asc")
    with pytest.warns(sf.SfumatoWarning, match="padding"):
        sf.write(pl.DataFrame({"a": ["x ", ""]}), tmp_path / "x.asc")


def test_a_code_list_never_leads_out_of_its_folder(tmp_path):
    (tmp_path / "secret.cdl").write_text("1,secret\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    file = rda(inner, 'A 1 1\n <CODELIST> "../secret.cdl"\n', "1\n")
    assert not sf.read(file).schema["A"].labels


def test_code_lists(tmp_path):
    (tmp_path / "a.cdl").write_text('  1,Ter Aar\n2,"a, b"\n1,again\n\nbroken\n')
    assert argus.read_codelist(tmp_path / "a.cdl") == {"1": "Ter Aar", "2": "a, b"}
