"""What only the data tell is found by ``sfumato check``: its 0 means that the steps can be carried out."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sfumato.cli import main

HEAD = """format = 1
data = "people.csv"
[roles]
sensitive = ["PAY"]
household = "HOME"
[variables.ALL]
sum_of = ["PAY", "RENT"]
[[step]]
mask = "recode"
column = "AGE"
width = 10
"""
REFUSED = {
    "members of one household disagree": 'mask = "random_swap"\ncolumns = ["PAY"]\nrate_percent = 50\n'
    'household = "HOME"\n',
    "strata have fewer than k = 9 records": 'mask = "microaggregate"\ncolumns = ["PAY"]\nk = 9\n'
    'within = ["SEX", "HOME"]\n',
    "codes of SEX have no more than 2 characters": 'mask = "truncate"\ncolumn = "SEX"\ndigits = 2\n',
    "1 of the named records aren't in the file": 'mask = "controlled_distortion"\nrecords = [99]\n'
    'columns = ["PAY", "RENT"]\nshift = { PAY = 3 }\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    n = 40
    pay, rent = [100 + 7 * (i * i % 31) for i in range(n)], [50 + i % 9 for i in range(n)]
    frame = pl.DataFrame(
        {
            "HOME": [i // 2 for i in range(n)],
            "SEX": ["fm"[i % 2] for i in range(n)],
            "AGE": [20 + i for i in range(n)],
            "PAY": pay,
            "RENT": rent,
            "ALL": [a + b for a, b in zip(pay, rent, strict=True)],
        }
    )
    frame.write_csv(tmp_path / "people.csv")
    return tmp_path


@pytest.mark.parametrize("message", REFUSED)
def test_what_a_run_refuses_is_found_at_its_line(
    folder: Path, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = folder / "plan.toml"
    plan.write_text(f"{HEAD}[[step]]\n{REFUSED[message]}")
    assert main(["check", str(plan), "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    (error,) = [p for p in found["problems"] if p["severity"] == "error"]
    assert message in error["message"]
    assert error["line"] == HEAD.count("\n") + 1
    assert found["rehearsed"] is True
    assert main(["run", str(plan), "--out", str(folder / "out")]) == 2
    assert message in capsys.readouterr().err
    assert main(["check", str(plan), "--no-rehearse"]) == 0
    assert "left open; `--rehearse` tries them" in capsys.readouterr().out


def test_a_large_file_is_rehearsed_where_it_is_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sfumato.run import rehearsal

    monkeypatch.setattr(rehearsal, "REHEARSED", 39)
    plan = folder / "plan.toml"
    plan.write_text(f"{HEAD}[[step]]\n{REFUSED['members of one household disagree']}")
    assert main(["check", str(plan)]) == 0
    assert "what the steps meet in its 40 records is left open" in capsys.readouterr().out
    assert main(["check", str(plan), "--rehearse"]) == 2


def test_the_original_order_and_a_cluster_shuffle_dont_go_together(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = folder / "plan.toml"
    step = '[[step]]\nmask = "cluster_shuffle"\ncolumns = ["PAY", "RENT"]\nsmallest = 3\n'
    plan.write_text(f"{HEAD}{step}[release]\nshuffle = false\n")
    assert main(["check", str(plan), "--no-rehearse"]) == 2
    said = capsys.readouterr().out
    assert f"plan.toml:{(HEAD + step).count(chr(10)) + 2}: error: step cluster_shuffle leaves rows" in said
