"""Writing: round trips, whole or not at all, and nothing in the file that isn't in the data."""

from __future__ import annotations

import datetime
import os
import threading
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import InputError
from sfumato.io import write_chunks

FRAME = pl.DataFrame(
    {
        "i": [1, None, -3],
        "x": [1.5, float("nan"), None],
        "s": ["", 'a "b",\nc', None],
        "b": [True, None, False],
        "d": [datetime.date(2020, 2, 29), None, datetime.date(1900, 1, 1)],
        "t": [datetime.datetime(2020, 2, 29, 12, 30, 1), None, datetime.datetime(1999, 1, 1)],
    }
)
PLAIN = ("csv", "tsv", "csv.gz", "parquet", "arrow", "feather")


@pytest.mark.parametrize("suffix", PLAIN)
def test_round_trip(tmp_path, suffix):
    file = tmp_path / f"x.{suffix}"
    sf.write(FRAME, file)
    assert sf.read(file).frame.equals(FRAME, null_equal=True)
    assert os.listdir(tmp_path) == [file.name]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_lazy_round_trip(tmp_path, suffix):
    file = tmp_path / f"x.{suffix}"
    sf.write(FRAME, file)
    lazy = sf.read(file, lazy=True)
    assert lazy.is_lazy
    assert lazy.select(["s", "i"]).equals(FRAME.select("s", "i"))
    assert lazy.is_lazy


@pytest.mark.parametrize("suffix", PLAIN)
def test_chunks_make_the_same_file_as_one_frame(tmp_path, suffix):
    big = pl.concat([FRAME] * 100)
    rows = write_chunks(tmp_path / f"x.{suffix}", (big.slice(i, 70) for i in range(0, 300, 70)))
    assert rows == 300
    assert sf.read(tmp_path / f"x.{suffix}").frame.equals(big)


def test_decimal_comma_is_written(tmp_path):
    sf.write(pl.DataFrame({"a": [1.5], "b": ["x"]}), tmp_path / "x.csv", delimiter=";", decimal=",")
    assert (tmp_path / "x.csv").read_text() == "a;b\n1,5;x\n"
    with pytest.raises(InputError, match="comma can't separate both"):
        sf.write(FRAME, tmp_path / "y.csv", decimal=",")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "sav", "dta", "asc"])
def test_nothing_is_overwritten_unless_told(tmp_path, suffix):
    file, frame = tmp_path / f"x.{suffix}", pl.DataFrame({"a": [1, 2]})
    sf.write(frame, file)
    before = file.read_bytes()
    with pytest.raises(InputError, match="is there already"):
        sf.write(pl.DataFrame({"a": [3]}), file)
    assert file.read_bytes() == before
    sf.write(pl.DataFrame({"a": [3]}), file, overwrite=True)
    assert sf.read(file).column("a").to_list() == [3]


def test_targets_that_cannot_be(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        sf.write(FRAME, tmp_path, format="csv")
    with pytest.raises(InputError, match="there is no folder"):
        sf.write(FRAME, tmp_path / "no" / "x.csv")
    with pytest.raises(InputError, match="can't write por"):
        sf.write(FRAME, tmp_path / "x.por")
    with pytest.raises(InputError, match="no option"):
        sf.write(FRAME, tmp_path / "x.csv", compression="zstd")
    with pytest.raises(InputError, match="no column to write"):
        sf.write(pl.DataFrame(), tmp_path / "x.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_a_failure_leaves_nothing_and_the_old_file_alone(tmp_path, suffix):
    file = tmp_path / f"x.{suffix}"
    sf.write(FRAME, file)
    before = file.read_bytes()

    def breaking():
        yield FRAME
        raise ZeroDivisionError("in the caller's own frames")

    with pytest.raises(ZeroDivisionError):
        write_chunks(file, breaking(), overwrite=True)
    with pytest.raises(InputError, match="same columns and types"):
        write_chunks(file, [FRAME, FRAME.drop("i")], overwrite=True)
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == [file.name]


def test_chunks_of_nothing(tmp_path):
    with pytest.raises(InputError, match="nothing to write"):
        write_chunks(tmp_path / "x.parquet", [])
    assert write_chunks(tmp_path / "x.parquet", [], schema={"a": pl.Int64}) == 0
    assert pl.read_parquet(tmp_path / "x.parquet").schema == {"a": pl.Int64}


def test_a_reader_never_sees_half_a_file(tmp_path):
    """While a file is replaced again and again, whoever opens it finds one whole version."""
    file, stop = tmp_path / "x.csv", threading.Event()
    first, second = (pl.DataFrame({"a": [v] * 5000}) for v in (1, 2))
    sf.write(first, file)
    whole = {first.write_csv().encode(), second.write_csv().encode()}
    seen: set[bytes] = set()

    def look():
        while not stop.is_set():
            seen.add(file.read_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    for k in range(40):
        sf.write((first, second)[k % 2], file, overwrite=True)
    stop.set()
    thread.join()
    assert seen <= whole


# -- nothing that could leak ----------------------------------------------------------------------


def test_parquet_and_arrow_carry_no_metadata_of_the_source(tmp_path):
    pandas = FRAME.to_pandas().set_index("i")
    table = pa.Table.from_pandas(pandas).replace_schema_metadata({"source": "/secret/path", "pandas": "{}"})
    pq.write_table(table, tmp_path / "in.parquet")
    data = sf.read(tmp_path / "in.parquet")
    sf.write(data, tmp_path / "out.parquet")
    sf.write(data, tmp_path / "out.arrow")
    keys = pq.read_metadata(tmp_path / "out.parquet").metadata or {}
    assert set(keys) <= {b"ARROW:schema"}
    assert pa.ipc.open_file(tmp_path / "out.arrow").schema.metadata is None
    for name in ("out.parquet", "out.arrow"):
        raw = (tmp_path / name).read_bytes()
        assert b"secret" not in raw
        assert b"pandas" not in raw


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("how", ["null", "slice", "category"])
def test_removed_values_are_not_in_the_file(tmp_path, suffix, how):
    """A value that was made null, sliced away or recoded must not stand in a buffer or dictionary."""
    secret = "the-only-duke-in-town-of-Nowhere"
    texts = pl.Series("s", ["a", secret, "b"] * 10)
    if how == "null":
        array = texts.to_arrow(compat_level=pl.CompatLevel.oldest())
        valid = pa.array([v != secret for v in texts])
        hidden = pa.Array.from_buffers(array.type, 30, [valid.buffers()[1], *array.buffers()[1:]])
        frame = pl.DataFrame({"s": pl.from_arrow(hidden), "n": range(30)})
        assert frame["s"].null_count() == 10
    elif how == "slice":
        frame = pl.DataFrame({"s": texts}).slice(2, 1)
    else:
        kind = pl.Enum(["a", "b", secret])
        frame = pl.DataFrame({"s": texts.replace(secret, "a").cast(kind)})
    options = {"compression": "uncompressed"}
    sf.write(frame, tmp_path / f"x.{suffix}", **options)
    write_chunks(tmp_path / f"y.{suffix}", [frame], **options)
    for name in ("x", "y"):
        assert secret.encode() not in (tmp_path / f"{name}.{suffix}").read_bytes()


def test_numbers_beneath_nulls_are_not_in_an_arrow_file(tmp_path):
    import numpy as np

    value = 1234567890123
    valid = pa.array([False, True])
    numbers = pa.py_buffer(np.array([value, 5], dtype=np.int64))
    frame = pl.DataFrame(
        {"a": pl.from_arrow(pa.Array.from_buffers(pa.int64(), 2, [valid.buffers()[1], numbers]))}
    )
    assert frame["a"].to_list() == [None, 5]
    sf.write(frame, tmp_path / "x.arrow", compression="uncompressed")
    assert np.int64(value).tobytes() not in (tmp_path / "x.arrow").read_bytes()
    assert sf.read(tmp_path / "x.arrow").frame.equals(frame)


def test_a_compressed_csv_has_no_name_and_no_time(tmp_path):
    sf.write(FRAME, tmp_path / "confidential.csv.gz")
    raw = (tmp_path / "confidential.csv.gz").read_bytes()
    assert raw[3] & 0b1000 == 0, "no file name in the header"
    assert raw[4:8] == b"\0\0\0\0", "no time in the header"


# -- broken binary files --------------------------------------------------------------------------


def test_broken_binary_files(tmp_path):
    for suffix in ("parquet", "arrow"):
        whole = tmp_path / f"x.{suffix}"
        sf.write(pl.concat([FRAME] * 50), whole)
        cut = tmp_path / f"cut.{suffix}"
        cut.write_bytes(whole.read_bytes()[:-60])
        for lazy in (False, True):
            with pytest.raises(InputError, match=f"cut.{suffix}"):
                sf.read(cut, lazy=lazy)
    (tmp_path / "text.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="can't be read as Parquet"):
        sf.read(tmp_path / "text.parquet")


def test_frames_that_are_no_microdata(tmp_path):
    pl.DataFrame({"a": [1.0, float("inf")], "b": [1, 2]}).write_parquet(tmp_path / "inf.parquet")
    with pytest.raises(InputError, match="a holds infinite values, in row 2"):
        sf.read(tmp_path / "inf.parquet")
    assert len(sf.read(tmp_path / "inf.parquet", allow_infinite=True)) == 2
    assert len(sf.read(tmp_path / "inf.parquet", columns=["b"])) == 2
    pl.DataFrame({"a": [[1, 2]]}).write_parquet(tmp_path / "nested.parquet")
    with pytest.raises(InputError, match="a holds values of type List"):
        sf.read(tmp_path / "nested.parquet")
    pl.DataFrame({"a": pl.Series([], dtype=pl.Int64)}).write_parquet(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="no records"):
        sf.read(tmp_path / "none.parquet")


def test_an_unwritable_folder(tmp_path: Path, monkeypatch):
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("sfumato.io.files.os.open", refuse)
    with pytest.raises(InputError, match="can't be written: Permission denied"):
        sf.write(FRAME, tmp_path / "x.csv")


def test_a_full_disk(tmp_path: Path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sfumato.io.files.os.fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        sf.write(FRAME, tmp_path / "x.csv")
    assert not list(tmp_path.iterdir())


def test_a_name_that_holds_a_delimiter_comes_back(tmp_path):
    frame = pl.DataFrame({"income; in |1,000|": [1.5, 2.5]})
    sf.write(frame, tmp_path / "a.csv")
    assert sf.read(tmp_path / "a.csv").frame.equals(frame)
