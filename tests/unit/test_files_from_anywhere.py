"""Every file that a plan names is found from the plan's folder, by every command, wherever one stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sfumato import registry
from sfumato.cli import main

PLAN = """format = 1
data = "files/people.csv"
[roles]
keys = ["AREA", "SEX"]
sensitive = ["PAY"]
[[step]]
mask = "recode"
column = "AREA"
hierarchy = "files/area.csv"
level = 1
[[step]]
mask = "random_swap"
columns = ["PAY"]
rate_percent = 50
[[measure]]
measure = "k_map"
k = 3
population = "files/others.csv"
[[measure]]
measure = "attribute_attack"
known = ["SEX"]
sensitive = ["PAY"]
holdout = "files/others.csv"
[[measure]]
measure = "closest_record"
holdout = "files/others.csv"
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(3)
    (tmp_path / "plans" / "files").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for name in ("people", "others"):
        pl.DataFrame(
            {
                "AREA": rng.choice(["n1", "n2", "s1"], 60),
                "SEX": rng.choice(["f", "m"], 60),
                "PAY": rng.integers(100, 999, 60),
            }
        ).write_csv(tmp_path / "plans" / "files" / f"{name}.csv")
    (tmp_path / "plans" / "files" / "area.csv").write_text("n1;n\nn2;n\ns1;s\n")
    (tmp_path / "plans" / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path / "elsewhere")
    return Path("..") / "plans" / "plan.toml"


@pytest.mark.parametrize("words", [["check"], ["risk"], ["run", "--out", "out"], ["attack"]])
def test_from_another_folder(plan: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([words[0], str(plan), *words[1:]]) == 0, capsys.readouterr().err


def test_a_file_that_isnt_there_is_found_by_check(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(PLAN.replace("files/others.csv", "others.csv"))
    assert main(["check", str(plan)]) == 2
    said = capsys.readouterr().out
    for number, line in enumerate(PLAN.split("\n"), start=1):
        if "others.csv" in line:
            name = line.partition(" ")[0]
            assert f"plan.toml:{number}: error: `{name}` names others.csv, and there is no such file" in said


def test_every_parameter_that_names_a_file_says_so() -> None:
    """A parameter whose words speak of a file or folder is checked, or reads it by its own rules (recode)."""
    for cls in (*registry.masks().values(), *registry.measures().values()):
        for name, field in cls.parameters().items():
            words = field.metadata["doc"].lower()
            if words.startswith(("a file of", "the file of", "folders")):
                assert field.metadata["file"], f"{cls.name}.{name}"


def test_half_a_map_is_refused_before_the_runs(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(plan), "--vary", "random_swap.rate_percent=10,20", "--out", "maps"]) == 2
    assert "the plan has no measure of utility" in capsys.readouterr().err
    assert not Path("maps").exists()
