"""Several plans on one map: one loss, one intruder, the same records."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.experiment.side_by_side import points, side_by_side

HEAD = 'format = 1\ndata = "people.csv"\n[roles]\nkeys = ["SEX"]\nsensitive = ["WAGE", "RENT"]\n'
SWAP = '[[step]]\nid = "swap"\nmask = "rank_swap"\ncolumns = ["WAGE", "RENT"]\nwindow_percent = 10\n'
MEANS = '[[step]]\nmask = "microaggregate"\ncolumns = ["WAGE", "RENT"]\nk = 100\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    wage = np.exp(rng.normal(8, 1, 300)).round(2)
    frame = pl.DataFrame({"SEX": rng.choice(["f", "m"], 300), "WAGE": wage, "RENT": wage[::-1]})
    frame.write_csv(tmp_path / "people.csv")
    for name, steps in (("bare", ""), ("swap", SWAP), ("means", MEANS)):
        (tmp_path / f"{name}.toml").write_text(HEAD + steps, encoding="utf-8")
    return tmp_path


def test_the_original_is_found_whole_and_loses_nothing(folder: Path) -> None:
    plans = {n: sf.Plan.load(folder / f"{n}.toml") for n in ("bare", "swap", "means")}
    placed = side_by_side(plans, plans["bare"].data())
    bare, swap, means = placed
    assert (bare.risk, bare.loss) == (1.0, 0.0)
    assert bare.risk >= swap.risk > means.risk
    assert 0 < swap.loss < means.loss
    assert [p["frontier"] for p in points(placed)["points"]] == [True, True, True]


def test_a_plan_that_is_refused_is_told_and_left_out(folder: Path) -> None:
    data = sf.Plan.load(folder / "bare.toml").data()
    torn = sf.Plan(steps=[sf.Recode(column="SEX", mapping={"f": "x"})])
    placed = side_by_side({"torn": torn, "bare": sf.Plan()}, data)
    assert "in no class" in placed[0].problem
    assert [p["label"] for p in points(placed)["points"]] == ["bare"]


def test_the_command_draws_them_and_varies_what_a_plan_has(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(folder / f"{n}.toml") for n in ("bare", "swap")]
    words = ["--vary", "swap.window_percent=5,20", "--replicates", "1", "--out", str(folder / "map")]
    assert main(["compare", *names, *words, "--json"]) == 0
    labels = [p["label"] for p in json.loads(capsys.readouterr().out)["points"]]
    assert labels == ["bare", "swap: swap.window_percent = 5", "swap: swap.window_percent = 20"]
    assert "<svg" in (folder / "map" / "map.html").read_text(encoding="utf-8")
    assert main(["compare", *names, "--vary", "nowhere=1"]) == 2
    assert "none of the plans has such a step" in capsys.readouterr().err
