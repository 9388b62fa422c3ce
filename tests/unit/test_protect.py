"""Protect: what is found meets the limits by an attack written here, and nothing unsafe is written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.experiment.recodes import KeyLadders, ladder

N = 1_200


def people(n: int = N, seed: int = 4) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    wage = np.exp(7 + 0.02 * age + rng.normal(0, 0.4, n)).round(2)
    return pl.DataFrame(
        {
            "ID": np.arange(n) + 10_000,
            "AGE": age,
            "SEX": rng.choice(["f", "m"], n),
            "AREA": rng.choice(list("abcdefg"), n, p=[0.4, 0.3, 0.15, 0.1, 0.04, 0.005, 0.005]),
            "WAGE": wage,
            "RENT": (0.3 * wage * np.exp(rng.normal(0, 0.2, n))).round(2),
        }
    )


SCHEMA = sf.Schema(id="ID", keys=["AGE", "SEX", "AREA"], sensitive=["WAGE", "RENT"])


@pytest.fixture(scope="module")
def run() -> sf.Run:
    return sf.protect(sf.Microdata(people(), SCHEMA), "public", keep=["WAGE ~ AGE"], seed=1)


def test_the_plan_that_is_found_is_safe_and_useful(run: sf.Run) -> None:
    assert run.verdict.safe, run.verdict.text
    assert {x.limit.figure for x in run.limits} == {"rate", "gain", "group"}
    assert run.results["analyst_loss"].value < 0.2
    assert "kept" in run.results["analyst_loss"].figures
    assert run.plan.release.drop == ("ID",)


def test_a_plain_attack_finds_no_more_than_the_limit(run: sf.Run) -> None:
    """The nearest row by standardised logarithms and ages, with a price for other keys."""
    x, z = run.original.frame, run.masked.frame

    def points(frame: pl.DataFrame) -> np.ndarray:
        numbers = [np.log1p(frame[c].cast(pl.Float64).to_numpy()) for c in ("WAGE", "RENT")]
        if frame["AGE"].dtype.is_numeric():
            numbers.append(frame["AGE"].cast(pl.Float64).to_numpy() / 20)
        return np.column_stack(numbers)

    a, b = points(x), points(z)
    D = (((a[:, None] - b[None]) / b.std(axis=0)) ** 2).sum(axis=2)
    for key in ("SEX", "AREA"):
        D += 2 * (x[key].to_numpy()[:, None] != z[key].to_numpy()[None])
    right = (D.argmin(axis=1) == np.arange(N)).mean()
    assert right <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / N)
    before = ((a[:, None] - a[None]) ** 2).sum(axis=2) + 1e-9 * np.arange(N)[None]
    assert (before.argmin(axis=1) == np.arange(N)).mean() > 0.99


@pytest.mark.filterwarnings("ignore:.*which isn't declared")
def test_the_plans_text_tells_what_was_tried_and_gives_the_same_release_again(run: sf.Run) -> None:
    text = run.plan.to_toml()
    assert text.startswith("# Found by `sfumato protect`")
    assert "dealt among 20 alike or more" in text
    again = sf.Plan.loads(text)
    assert again == run.plan
    masked = again.run(run.original, seed=1, measure=False).masked
    assert masked.frame.equals(run.masked.frame)


def test_no_original_record_is_in_the_release(run: sf.Run) -> None:
    """Rows that equal a person's are there by chance alone: far fewer than one in twenty."""
    columns = ["AGE", "SEX", "AREA", "WAGE", "RENT"]
    if run.masked.dtype("AGE") != run.original.dtype("AGE"):
        columns.remove("AGE")
    same = run.original.frame.select(columns).join(run.masked.frame.select(columns), on=columns, how="semi")
    assert same.height <= 0.05 * N


def test_limits_out_of_reach_release_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people(60).write_csv(tmp_path / "people.csv")
    out = tmp_path / "release"
    assert main(["protect", str(tmp_path / "people.csv"), "--out", str(out), "--quiet"]) == 2
    assert not out.exists()
    assert "too few for groups as large as the limits ask" in capsys.readouterr().err
    plan = tmp_path / "people.toml"
    plan.write_text(
        'format = 1\ndata = "people.csv"\n[roles]\nid = "ID"\nkeys = ["AGE"]\nsensitive = ["WAGE"]\n'
    )
    code = main(["protect", str(plan), "--out", str(out), "--max-risk", "0.0001", "--quiet"])
    assert (code, out.exists()) == (2, False)


@pytest.mark.parametrize("words", [["--max-risk", "1.5"], ["--k", "1"], ["--keep", "WAGE ~ NOWHERE"]])
def test_bad_requests_are_refused_with_a_sentence(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people(100).write_csv(tmp_path / "people.csv")
    assert main(["protect", str(tmp_path / "people.csv"), "--quiet", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("sfumato protect: ")
    assert "Traceback" not in said


def test_the_command_writes_a_release_that_is_for_handing_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people().write_csv(tmp_path / "people.csv")
    out = tmp_path / "release"
    code = main(["protect", str(tmp_path / "people.csv"), "--out", str(out), "--for", "research", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["ok"], told["verdict"]["safe"]) == (0, True, True)
    released = sf.read(next((out / "public").glob("data.*")))
    assert "ID" not in released.columns or not set(released.column("ID")) & set(people()["ID"])
    assert len(released) == N


# -- ladders ----------------------------------------------------------------------------------------


def test_rungs_nest_and_end_in_open_classes() -> None:
    data = sf.Microdata(people(3_000), SCHEMA)
    ladders = KeyLadders.of(data, SCHEMA.keys)
    for key, chain in ladders.chains.items():
        for one, two in zip(chain.maps, chain.maps[1:], strict=False):
            assert len(set(zip(one.tolist(), two.tolist(), strict=True))) == len(set(one.tolist())), key
    assert [m.to_dict().get("width") for m in ladder(data, "AGE")][-3:] == [5, 10, 20]
    steps, dropped = ladders.steps({"AGE": len(ladders.chains["AGE"]) - 1, "SEX": 0, "AREA": 1})
    assert dropped == ["AGE"]
    assert [s.to_dict()["column"] for s in steps] == ["AREA"]
    masked = steps[0].mask(data)
    assert set(masked.column("AREA")) == {"a", "b", "c", "d", "e", "other"}


def test_common_levels_leave_nobody_alone_with_one_key() -> None:
    data = sf.Microdata(people(3_000), SCHEMA)
    ladders = KeyLadders.of(data, SCHEMA.keys)
    steps, dropped = ladders.steps(ladders.common(20))
    assert not dropped
    masked = sf.Plan(steps=steps).run(data, seed=1).masked
    for key in SCHEMA.keys:
        assert masked.column(key).value_counts()["count"].min() >= 20


def test_the_best_levels_are_counted_by_polars() -> None:
    data = sf.Microdata(people(3_000), SCHEMA)
    ladders = KeyLadders.of(data, SCHEMA.keys)
    found = ladders.best(10, suppress_at_most=0.02)
    steps, dropped = ladders.steps(found.levels)
    masked = sf.Plan(steps=steps).run(data, seed=1).masked.frame.drop(dropped)
    keys = [k for k in SCHEMA.keys if k not in dropped]
    sizes = masked.group_by(keys).len()["len"]
    assert sizes.filter(sizes < 10).sum() == found.unsafe
    assert found.unsafe <= 0.02 * len(data)
    assert found.proved


def test_init_writes_a_plan_that_meets_its_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people(700).write_csv(tmp_path / "people.csv")
    plan = tmp_path / "people.toml"
    assert main(["init", str(tmp_path / "people.csv"), "--out", str(plan), "--for", "research"]) == 0
    assert "safe by the limits you set" in capsys.readouterr().out
    text = plan.read_text(encoding="utf-8")
    assert "# tried on the sample (found by the quick intruder / gain / loss; what it misses):" in text
    read = sf.Plan.load(plan)
    assert [str(x) for x in read.limits] == [
        "battery.rate at most 0.1",
        "battery.gain at most 0.25",
        "battery.group at least 3",
    ]
    assert [s.name for s in read.steps][-1] == "cluster_shuffle"
    assert not [p for p in read.check() if p.severity == "error"]
