"""A plan that would release names, numbers or contacts of people is refused unless it says so."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.errors import ReleaseError
from sfumato.plan.identifying import would_identify


def people(n: int = 60) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    first, last = ["Anna", "Piotr", "Maria", "Jan", "Ewa"], ["Nowak", "Lis", "Kowal", "Wójcik", "Zając"]
    return pl.DataFrame(
        {
            "PLEC": rng.integers(1, 3, n),
            "KTO": [f"{rng.choice(first)} {rng.choice(last)}" for _ in range(n)],
            "DOCHOD": rng.lognormal(8, 1, n).astype(int),
        }
    )


STEP = sf.RandomSwap(columns=["DOCHOD"], rate_percent=20)


def test_a_name_is_refused_dropped_or_said(tmp_path):
    run = sf.Plan(steps=[STEP]).run(people(), seed=1)
    with pytest.raises(ReleaseError, match="KTO would be released, and holds names of people"):
        run.release(tmp_path / "one")
    assert not (tmp_path / "one").exists()
    for release in ({"drop": ["KTO"]}, {"identifiers": ["KTO"]}):
        plan = sf.Plan(steps=[STEP], release=release)
        plan.run(people(), seed=1).release(tmp_path / next(iter(release)))
    assert "KTO" not in sf.read(tmp_path / "drop/public/data.parquet").columns
    assert "KTO" in sf.read(tmp_path / "identifiers/public/data.parquet").columns


def test_swapped_names_are_names(tmp_path):
    swapped = sf.Plan(steps=[sf.RandomSwap(columns=["KTO"], rate_percent=90)])
    with pytest.raises(ReleaseError, match="KTO"):
        swapped.run(people(), seed=1).release(tmp_path / "out")


def test_check_says_it_before_anything_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    people().write_csv("people.csv")
    (tmp_path / "plan.toml").write_text('data = "people.csv"\n')
    assert main(["check", "plan.toml"]) == 2
    assert "KTO would be released" in capsys.readouterr().out
    (tmp_path / "plan.toml").write_text('data = "people.csv"\n[release]\nidentifiers = ["KTO"]\n')
    assert main(["check", "plan.toml"]) == 0
    (tmp_path / "plan.toml").write_text('data = "people.csv"\n[release]\nidentifiers = ["WHO", "KTO"]\n')
    assert main(["check", "plan.toml"]) == 2


@pytest.mark.parametrize(
    "values",
    [
        pl.Series("x", [f"+48 600 {n:03d} 111" for n in range(60)]),
        pl.Series("x", [f"user{n}@example.org" for n in range(60)]),
        pl.Series("pesel", [44051401300 + 7 * n for n in range(60)]),
        pl.Series("phone", [600_000_000.0 + 977 * n for n in range(60)]),
        pl.Series("notes", ["", "called Mrs Smith", "moved", "ask Anna Nowak"] * 15),
    ],
)
def test_many_forms(values):
    found = would_identify(sf.Microdata(pl.DataFrame({"SEX": [1, 2] * 30}).with_columns(values)),
                           sf.Plan().release)  # fmt: skip
    assert [values.name in p.message for p in found] == [True]


@pytest.mark.parametrize(
    "values",
    [
        pl.Series("wages", [1000 + 37 * n for n in range(60)]),
        pl.Series("state", ["New York", "North Carolina", "South Dakota"] * 20),
        pl.Series("occupation", ["Prof Specialty", "Exec Managerial", "Craft Repair"] * 20),
        pl.Series("x", [0.5 + n / 7 for n in range(60)]),
        pl.Series("year", [1950 + n for n in range(60)]),
    ],
)
def test_what_names_nobody_is_released(values):
    data = sf.Microdata(pl.DataFrame({"SEX": [1, 2] * 30}).with_columns(values))
    assert would_identify(data, sf.Plan().release) == []
