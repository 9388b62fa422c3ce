"""``sfumato init``: the plan it writes is one that check accepts and run carries out."""

from __future__ import annotations

import json

import polars as pl
import pytest

import sfumato as sf
from sfumato.cli import main

SIDE_FILES = (".md", ".grc", ".cdl", ".rda", ".rds", ".html", ".ahs")


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pl.DataFrame({"id": range(60), "SEX": [1, 2] * 30, "INCOME": [i * 10 for i in range(60)]})
    frame.write_csv(tmp_path / "people.csv")
    return tmp_path


def test_it_writes_a_plan_and_says_what_it_found(people, capsys):
    assert main(["init", "people.csv", "--no-search"]) == 0
    out = capsys.readouterr().out
    assert "60 records, 3 columns" in out
    assert "INCOME" in out
    assert "wrote people.toml" in out
    assert main(["check", "people.toml"]) == 0
    assert sf.Plan.load("people.toml").data_path == "people.csv"


def test_an_existing_plan_is_left_alone(people, capsys):
    (people / "people.toml").write_text("mine")
    assert main(["init", "people.csv", "--no-search"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (people / "people.toml").read_text() == "mine"
    assert main(["init", "people.csv", "--force", "--no-search"]) == 0
    assert (people / "people.toml").read_text() != "mine"


def test_the_data_are_found_from_the_plans_folder(people):
    (people / "plans").mkdir()
    assert main(["init", "people.csv", "--out", "plans/first.toml", "--no-search"]) == 0
    assert sf.Plan.load("plans/first.toml").data_path == "../people.csv"
    assert main(["check", "plans/first.toml"]) == 0


def test_json(people, capsys):
    assert main(["init", "people.csv", "--json", "--no-search"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["plan"] == "people.toml"
    assert content["roles"]["id"] == "id"
    assert content["reasons"]["INCOME"]


def test_bad_files(people, capsys):
    (people / "empty.csv").write_text("")
    for name, said in (
        ("empty.csv", "is empty"),
        ("none.csv", "no such file"),
        ("people.xyz", "no such file"),
    ):
        assert main(["init", name, "--no-search"]) == 2
        assert said in capsys.readouterr().err
    assert not list(people.glob("*.toml"))


def test_compressed_data_lose_both_suffixes(people):
    sf.write(sf.read("people.csv"), people / "more.csv.gz")
    assert main(["init", "more.csv.gz", "--no-search"]) == 0
    assert (people / "more.toml").exists()


def test_every_reference_file_gets_a_plan_that_check_accepts(reference_data, tmp_path):
    """The runs of all these plans take too long for a test; four small files are run here."""
    files = [
        f for f in sorted(reference_data.rglob("*"))
        if f.is_file() and f.suffix not in SIDE_FILES and "hierarchy" not in f.name
    ]  # fmt: skip
    assert len(files) >= 25
    for number, file in enumerate(files):
        if file.stat().st_size > 1_500_000:
            continue
        plan = tmp_path / f"plan{number}.toml"
        assert main(["init", str(file), "--out", str(plan), "--no-search"]) == 0
        assert main(["check", str(plan)]) == 0


@pytest.mark.parametrize(
    "name",
    [
        "titanic_889.csv",
        "CASCrefmicrodata.csv",
        "formats_argus/hhdata/Samhh.asc",
        "formats_stat/mval_bug.sav",
    ],
)
@pytest.mark.filterwarnings("ignore:.*masks persons one by one")
def test_the_plan_is_carried_out(reference_data, tmp_path, name):
    plan = tmp_path / "plan.toml"
    assert main(["init", str(reference_data / name), "--out", str(plan), "--no-search"]) == 0
    run = sf.Plan.load(plan).run(seed=1)
    assert len(run.masked) == len(sf.read(reference_data / name))
