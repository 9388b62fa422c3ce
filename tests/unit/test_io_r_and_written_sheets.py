"""Files of R are read, spreadsheets are written: what comes back is what went in."""

from __future__ import annotations

import datetime as dt
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import InputError
from sfumato.plan.check import data_problems

rdata = pytest.importorskip("rdata")

PEOPLE = pd.DataFrame(
    {
        "age": np.array([30.0, 41.0, np.nan]),
        "pay": np.array([10.5, 20.25, 7.0]),
        "sex": pd.Categorical(["f", "m", "f"], categories=pd.Index(["f", "m"], dtype=object)),
        "town": pd.Series(["a", "b", "a"], dtype=object),
        "n": np.array([1, 2, 3], np.int32),
    }
)


def test_a_data_frame_of_r(tmp_path: Path) -> None:
    rdata.write_rds(tmp_path / "people.rds", PEOPLE)
    frame = sf.read(tmp_path / "people.rds").frame
    assert frame["age"].to_list() == [30, 41, None]
    assert frame["age"].dtype == pl.Int64
    assert frame["pay"].to_list() == [10.5, 20.25, 7.0]
    assert frame["sex"].to_list() == ["f", "m", "f"]
    assert (frame["town"].to_list(), frame["n"].to_list()) == (["a", "b", "a"], [1, 2, 3])
    assert sf.read(tmp_path / "people.rds", columns=["n"]).columns == ["n"]


def test_one_of_several_data_frames(tmp_path: Path) -> None:
    rdata.write_rda(tmp_path / "all.RData", {"people": PEOPLE, "x": np.arange(3), "others": PEOPLE[["n"]]})
    with pytest.raises(InputError, match="holds 2 data frames: people, others"):
        sf.read(tmp_path / "all.RData")
    assert sf.read(tmp_path / "all.RData", object="others").columns == ["n"]
    with pytest.raises(InputError, match="no data frame 'folk'"):
        sf.read(tmp_path / "all.RData", object="folk")
    rdata.write_rda(tmp_path / "none.rda", {"x": np.arange(3)})
    with pytest.raises(InputError, match="holds no data frame"):
        sf.read(tmp_path / "none.rda")


def test_what_is_no_r_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "layout.rda").write_text("AGE 1 2\n  <RECODEABLE>\n")
    with pytest.raises(InputError, match="isn't an R file"):
        sf.read(tmp_path / "layout.rda")
    (tmp_path / "cut.rds").write_bytes(b"\x1f\x8b\x08\x00broken")
    with pytest.raises(InputError, match="an R file"):
        sf.read(tmp_path / "cut.rds")
    monkeypatch.setitem(sys.modules, "rdata", None)
    with pytest.raises(InputError, match="rdata, which isn't installed"):
        sf.read(tmp_path / "cut.rds")


FRAME = pl.DataFrame(
    {
        "name": ["=1+1", "plain", None],
        "n": [1, None, 3],
        "x": [0.5, -2.0, None],
        "day": [dt.date(2020, 2, 29), None, dt.date(1999, 12, 31)],
        "yes": [True, False, True],
    }
)


def test_a_sheet_comes_back_as_it_was_written(tmp_path: Path) -> None:
    sf.write(FRAME, tmp_path / "a.xlsx")
    back = sf.read(tmp_path / "a.xlsx").frame
    assert back["name"].to_list() == FRAME["name"].to_list()
    assert back["n"].to_list() == FRAME["n"].to_list()
    assert back["x"].to_list() == FRAME["x"].to_list()
    assert [None if d is None else str(d)[:10] for d in back["day"]] == ["2020-02-29", None, "1999-12-31"]
    assert back["yes"].to_list() == FRAME["yes"].to_list()


def test_nothing_in_a_sheet_can_be_run_and_its_bytes_repeat(tmp_path: Path) -> None:
    for name in ("a.xlsx", "b.xlsx"):
        sf.write(FRAME, tmp_path / name)
    assert (tmp_path / "a.xlsx").read_bytes() == (tmp_path / "b.xlsx").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.xlsx") as book:
        assert not any(b"<f>" in book.read(n) for n in book.namelist())


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pl.DataFrame({"n": [2**60]}), "more digits"),
        (pl.DataFrame({"t": ["x" * 40_000]}), "longer than a cell"),
        (pl.DataFrame({"d": [dt.date(1850, 1, 1)]}), "before 1900"),
    ],
)
def test_what_a_sheet_cannot_hold_is_refused(tmp_path: Path, frame: pl.DataFrame, words: str) -> None:
    with pytest.raises(InputError, match=words):
        sf.write(frame, tmp_path / "a.xlsx")
    assert not list(tmp_path.iterdir())


def test_a_release_is_a_sheet_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    people = pl.DataFrame(
        {"id": np.arange(60), "sex": rng.choice(["f", "m"], 60), "pay": rng.normal(9, 1, 60)}
    )
    sf.write(people, tmp_path / "people.xlsx")
    from sfumato.cli import main

    assert (
        main(["init", str(tmp_path / "people.xlsx"), "--no-search", "--out", str(tmp_path / "p.toml")]) == 0
    )
    plan = sf.Plan.load(tmp_path / "p.toml")
    assert plan.release.format == "xlsx"
    release = plan.run(seed=1).release(tmp_path / "out")
    back = sf.read(release.data)
    assert release.data.suffix == ".xlsx"
    assert (len(back), "id" in back.columns) == (60, False)


def test_a_panels_id_is_no_mistake() -> None:
    frame = pl.DataFrame(
        {"pid": np.repeat(np.arange(40), 3), "wave": np.tile([1, 2, 3], 40), "pay": range(120)}
    )
    panel = sf.Microdata(frame, sf.Schema(id="pid", sensitive=["pay"]))
    assert not [p for p in data_problems(panel) if "isn't unique" in p.message]
    doubled = panel.with_frame(frame.with_columns(wave=pl.lit(1)))
    assert [p for p in data_problems(doubled) if "isn't unique" in p.message]
