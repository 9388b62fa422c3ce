"""Round trips of any frame, and fuzz: whatever bytes a reader gets, only a SfumatoError comes out."""

from __future__ import annotations

import datetime
import math
import warnings
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import SfumatoError, SfumatoWarning
from sfumato.io import write_chunks

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
NUMBER = st.floats(allow_infinity=False, allow_nan=True, width=64)
WHOLE = st.integers(-(2**63), 2**63 - 1)
DATES = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))


def column(values: st.SearchStrategy, dtype: pl.DataType | type[pl.DataType], n: int) -> st.SearchStrategy:
    cells = st.lists(st.none() | values, min_size=n, max_size=n)
    return cells.map(lambda v: pl.Series(v, dtype=dtype))


@st.composite
def frames(draw: st.DrawFn, *, text: bool = True) -> pl.DataFrame:
    n = draw(st.integers(1, 6))
    kinds = [(NUMBER, pl.Float64), (WHOLE, pl.Int64), (st.booleans(), pl.Boolean), (DATES, pl.Date)]
    if text:
        kinds.append((TEXT, pl.String))
    names = draw(st.lists(TEXT.filter(str.strip), min_size=1, max_size=4, unique=True))
    return pl.DataFrame({name: draw(column(*draw(st.sampled_from(kinds)), n)) for name in names})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("io")


@FUZZ
@given(frame=frames(), chunk=st.integers(1, 7), suffix=st.sampled_from(["parquet", "arrow"]))
def test_typed_formats_keep_every_frame(folder, frame, chunk, suffix):
    file = folder / f"typed.{suffix}"
    sf.write(frame, file, overwrite=True)
    assert sf.read(file).frame.equals(frame, null_equal=True)
    write_chunks(file, (frame.slice(i, chunk) for i in range(0, frame.height, chunk)), overwrite=True)
    assert sf.read(file).frame.equals(frame, null_equal=True)


@FUZZ
@given(frame=frames(), suffix=st.sampled_from(["csv", "tsv", "csv.gz"]))
def test_delimited_text_keeps_every_frame_whose_types_are_said(folder, frame, suffix):
    """Text can look like numbers, so types are set; then values, nulls, NaN and "" all come back."""
    file = folder / f"said.{suffix}"
    sf.write(frame, file, overwrite=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)  # names that look like numbers
        back = sf.read(file, types=dict(frame.schema)).frame
    assert back.equals(frame, null_equal=True)


@FUZZ
@given(first=NUMBER, rest=st.lists(st.none() | NUMBER, max_size=8))
def test_numbers_are_found_in_text_exactly(folder, first, rest):
    values = [first, *rest]
    frame = pl.DataFrame({"k": ["a"] * len(values), "x": pl.Series(values, dtype=pl.Float64)})
    sf.write(frame, folder / "numbers.csv", overwrite=True)
    back = sf.read(folder / "numbers.csv").column("x").cast(pl.Float64).to_list()
    for before, after in zip(values, back, strict=True):
        assert before is after is None or before == after or (math.isnan(before) and math.isnan(after))


LABELS = st.dictionaries(st.integers(-99, 99), TEXT.map(str.strip).filter(bool), max_size=4)


@settings(FUZZ, max_examples=25)
@given(
    values=st.lists(st.none() | st.integers(-99, 99), min_size=1, max_size=8),
    labels=LABELS,
    codes=st.lists(st.integers(-99, 99), max_size=3, unique=True),
    suffix=st.sampled_from(["sav", "dta"]),
)
def test_labels_and_missing_codes_survive(folder, values, labels, codes, suffix):
    schema = sf.Schema(variables={"V": {"labels": labels, "missing": codes}})
    data = sf.Microdata(pl.DataFrame({"V": pl.Series(values, dtype=pl.Int64)}), schema)
    file = folder / f"labels.{suffix}"
    sf.write(data, file, overwrite=True)
    back = sf.read(file, guard=False)
    known = [v is not None for v in values]
    if any(known):
        assert back.column("V").cast(pl.Float64).to_list() == data.column("V").cast(pl.Float64).to_list()
    assert back.missing("V").tolist() == data.missing("V").tolist()
    assert sorted(back.schema["V"].missing) == sorted(codes)


# -- fuzz -----------------------------------------------------------------------------------------


def read_whatever(file: Path, **options: object) -> None:
    """Read a file; nothing but a SfumatoError may escape (a panic is a BaseException)."""
    said = file.stem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        try:
            data = sf.read(file, **options)
            assert len(data.frame) == len(data)
        except SfumatoError as problem:
            said = problem.message
    assert file.stem.partition(".")[0] in said, "the message names the file"


@FUZZ
@given(raw=st.binary(max_size=400), suffix=st.sampled_from(["csv", "tsv", "parquet", "arrow", "csv.gz"]))
@example(raw=b'a,b\n"', suffix="csv")
@example(raw=b"\xff\xfea", suffix="csv")
@example(raw=b"PAR1\xff\xff\xff\xffPAR1", suffix="parquet")
@example(raw=b"ARROW1\0\0" + b"\xff" * 60 + b"ARROW1", suffix="arrow")
def test_random_bytes(folder, raw, suffix):
    file = folder / f"random.{suffix}"
    file.write_bytes(raw)
    read_whatever(file)


@settings(FUZZ, max_examples=150)
@given(text=st.text(st.sampled_from('ab,;\t"\n\r 01.-e|é'), max_size=60), lazy=st.booleans())
def test_text_made_of_what_readers_stumble_over(folder, text, lazy):
    file = folder / "stumble.csv"
    file.write_text(text, encoding="utf-8", newline="")
    read_whatever(file, lazy=lazy)


@FUZZ
@given(metadata=st.binary(max_size=120), lines=st.binary(max_size=120))
@example(metadata=b"A 1 2\n  <NUMERIC>\n", lines=b"12\r\n\xe934")
@example(metadata=b'<SEPARATOR> ","\nA 1\n', lines=b'"')
def test_random_metadata(folder, metadata, lines):
    (folder / "meta.rda").write_bytes(metadata)
    (folder / "meta.asc").write_bytes(lines)
    read_whatever(folder / "meta.asc")


@settings(FUZZ, max_examples=60)
@given(text=st.text(st.sampled_from('AB 123<>"\nNUMERICSEPATO,x'), max_size=80))
def test_metadata_that_nearly_fit(folder, text):
    (folder / "near.rda").write_text("A 1 2\n" + text)
    (folder / "near.asc").write_text("12 x 3 4\nab,c\n")
    read_whatever(folder / "near.asc")


REAL = ("electric.sav", "testdata.sav", "NES1948.POR", "auto8.dta", "iris.sas7bdat", "test.xpt")


@settings(FUZZ, max_examples=60)
@given(
    name=st.sampled_from(REAL),
    cut=st.floats(0, 1),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=8),
)
def test_mutated_files_of_statistical_packages(folder, reference_data, name, cut, changes):
    raw = bytearray((reference_data / "formats_stat" / name).read_bytes())
    for place, byte in changes:
        raw[int(place * len(raw))] = byte
    if cut < 0.5:
        raw = raw[: int(2 * cut * len(raw))]
    file = folder / f"mutated{Path(name).suffix.lower()}"
    file.write_bytes(raw)
    read_whatever(file, guard=False)


@settings(FUZZ, max_examples=60)
@given(
    suffix=st.sampled_from(["parquet", "arrow"]),
    cut=st.floats(0, 1),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=8),
)
def test_mutated_binary_files(folder, suffix, cut, changes):
    whole = folder / f"whole.{suffix}"
    if not whole.exists():
        numbers = pl.DataFrame({"a": range(50), "x": [i / 7 for i in range(50)]})
        sf.write(numbers.with_columns(s=pl.col("a").cast(pl.String)), whole)
    raw = bytearray(whole.read_bytes())
    for place, byte in changes:
        raw[int(place * len(raw))] = byte
    if cut < 0.5:
        raw = raw[: int(2 * cut * len(raw))]
    file = folder / f"mutated.{suffix}"
    file.write_bytes(raw)
    read_whatever(file, allow_infinite=True)
