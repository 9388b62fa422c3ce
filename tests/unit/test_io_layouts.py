"""Fixed width by the layouts of SPSS, SAS, Stata and DDI: the same file, read the same by each."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.errors import InputError

#        YEAR AGE SEX NAME  WEIGHT (two implied decimals)
LINES = "2019 34 1 Ann   012345\n2019 99 2 Bo    000100\n2020  7 1 Cleo  099900\n"

SPSS = """* comes with the data .
DATA LIST FILE='people.dat' FIXED RECORDS=1 /
  YEAR 1-4
  AGE 6-7
  SEX 9
  NAME 11-15 (A)
  WEIGHT 17-22 (2)
.
VARIABLE LABELS
  AGE "Age in years"
  SEX 'Sex'.
VALUE LABELS
  SEX 1 "male" 2 "female"
  /AGE 99 "not stated".
MISSING VALUES AGE (99).
"""
SAS = """/* people */
data people; infile 'people.dat';
input
  @1 YEAR 4.
  @6 AGE 2.
  @9 SEX 1.
  @11 NAME $5.
  @17 WEIGHT 6.2
;
label AGE = "Age in years"
      SEX = 'Sex';
run;
"""
SAS_COLUMNS = "data p; input YEAR 1-4 AGE 6-7 SEX 9-9 NAME $ 11-15 WEIGHT 17-22 .2; label AGE='Age in years';"
STATA = """clear
quietly infix ///
  int    year   1-4   ///
  byte   age    6-7   ///
  byte   sex    9     ///
  str    name   11-15 ///
  double weight 17-22 ///
  using people.dat
replace weight = weight / 100
label var age `"Age in years"'
label define sex_lbl 1 `"male"'
label define sex_lbl 2 `"female"', add
label values sex sex_lbl
"""
DICTIONARY = """infile dictionary using people.dat {
  _column(1)  int year %4f "Year"
  _column(6)  byte age %2f "Age in years"
  _column(9)  byte sex %1f "Sex"
  _column(11) str5 name %5s "Name"
  _column(17) double weight %6f "Weight"
}
"""
DDI = """<?xml version="1.0"?>
<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
<var name="YEAR" dcml="0"><location StartPos="1" EndPos="4" width="4"/></var>
<var name="AGE"><location StartPos="6" width="2"/><labl>Age in years</labl>
  <catgry missing="Y"><catValu>99</catValu><labl>not stated</labl></catgry></var>
<var name="SEX"><location StartPos="9" EndPos="9"/>
  <catgry><catValu>1</catValu><labl>male</labl></catgry>
  <catgry><catValu>2</catValu><labl>female</labl></catgry></var>
<var name="NAME"><location StartPos="11" EndPos="15"/><varFormat type="character"/></var>
<var name="WEIGHT" dcml="2"><location StartPos="17" EndPos="22"/></var>
</dataDscr></codeBook>
"""


@pytest.mark.parametrize(
    ("suffix", "layout", "divisor"),
    [
        (".sps", SPSS, 1), (".sas", SAS, 1), (".sas", SAS_COLUMNS, 1), (".do", STATA, 1),
        (".dct", DICTIONARY, 100), (".xml", DDI, 1),
    ],
)  # fmt: skip
def test_one_file_six_layouts(tmp_path, suffix, layout, divisor):
    (tmp_path / "people.dat").write_text(LINES)
    (tmp_path / f"people{suffix}").write_text(layout)
    data = sf.read(tmp_path / "people.dat")
    frame = data.frame
    assert [c.upper() for c in frame.columns] == ["YEAR", "AGE", "SEX", "NAME", "WEIGHT"]
    frame.columns = ["YEAR", "AGE", "SEX", "NAME", "WEIGHT"]
    assert frame["YEAR"].to_list() == [2019, 2019, 2020]
    assert frame["AGE"].to_list() == [34, 99, 7]
    assert frame["NAME"].to_list() == ["Ann", "Bo", "Cleo"]
    weights = [float(w) / divisor for w in frame["WEIGHT"].to_list()]
    assert weights == pytest.approx([123.45, 1.0, 999.0])
    assert data.schema[data.columns[1]].label == "Age in years"


def test_labels_and_missing_codes_go_into_the_schema(tmp_path):
    (tmp_path / "people.dat").write_text(LINES)
    for suffix, layout in ((".sps", SPSS), (".xml", DDI)):
        (tmp_path / f"lay{suffix}").write_text(layout)
        schema = sf.read(tmp_path / "people.dat", metadata=tmp_path / f"lay{suffix}").schema
        assert schema["AGE"].missing == (99,)
        assert dict(schema["SEX"].labels) == {1: "male", 2: "female"}


def test_a_range_of_names_is_cut_evenly(tmp_path):
    (tmp_path / "x.txt").write_text("123456\n654321\n")
    (tmp_path / "x.sps").write_text("DATA LIST FILE='x' / Q1 TO Q3 1-6.\n")
    frame = sf.read(tmp_path / "x.txt", metadata=tmp_path / "x.sps").frame
    assert frame.to_dict(as_series=False) == {"Q1": [12, 65], "Q2": [34, 43], "Q3": [56, 21]}


@pytest.mark.parametrize("name", ["people.txt", "people.csv", "people.dat", "people.fwf"])
def test_without_a_layout_it_is_refused_clearly(tmp_path, name, capsys):
    """The first record is never taken for names."""
    rows = "".join(f"{2000 + i}{i % 90:02d}{i % 2 + 1}{i * 977 % 9999:06d}\n" for i in range(40))
    (tmp_path / name).write_text(rows)
    with pytest.raises(InputError, match=r"fixed.width"):
        sf.read(tmp_path / name)
    assert main(["init", str(tmp_path / name), "--out", str(tmp_path / "p.toml")]) == 2
    assert ".sps" in capsys.readouterr().err
    assert not (tmp_path / "p.toml").exists()


def test_a_delimited_dat_file_is_read(tmp_path):
    (tmp_path / "x.dat").write_text("a;b\n1;2\n3;4\n")
    assert sf.read(tmp_path / "x.dat").frame.to_dict(as_series=False) == {"a": [1, 3], "b": [2, 4]}
    (tmp_path / "y.csv").write_text("number\n12345678\n23456789\n34567890\n")
    assert sf.read(tmp_path / "y.csv").columns == ["number"], "one column with a name is no fixed width"


@pytest.mark.parametrize(
    ("suffix", "layout", "said"),
    [
        (".sps", "FREQUENCIES AGE.", "says of no variable"),
        (".sas", "data x; set y; run;", "says of no variable"),
        (".xml", "<not xml", "isn't XML"),
        (".sps", "DATA LIST FILE='x' RECORDS=2 / A 1-2 /2 B 1-2.", "several lines"),
        (".do", "infix int a 900-1 using x.dat\n", "can't be right"),
    ],
)
def test_bad_layouts(tmp_path, suffix, layout, said):
    (tmp_path / "x.dat").write_text("12\n34\n")
    (tmp_path / f"x{suffix}").write_text(layout)
    with pytest.raises(InputError, match=said):
        sf.read(tmp_path / "x.dat")
