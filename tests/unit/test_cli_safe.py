"""``sfumato safe``: tables and records in, safe tables, pages and records out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sfumato import cli

COUNTS = [[19, 10, 10, 15], [4, 10, 10, 1], [11, 14, 8, 2], [15, 1, 2, 2]]


def main(words: str) -> int:
    return cli.main(words.split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cells = [(r, e, n) for r, row in enumerate(COUNTS) for e, n in enumerate(row)]
    pl.DataFrame(cells, schema=["REGION", "EDU", "N"], orient="row").write_csv(tmp_path / "counts.csv")
    records = [(r, e) for r, e, n in cells for _ in range(n)]
    pl.DataFrame(records, schema=["REGION", "EDU"], orient="row").write_csv(tmp_path / "people.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_table_of_counts(folder: Path, capsys) -> None:
    assert main("safe counts.csv --count N --tolerance 5 --out safe.csv --report safe.html") == 0
    assert "distance (l1): 14 (proved to be the least)" in capsys.readouterr().out
    safe = pl.read_csv(folder / "safe.csv")
    assert safe["count"].min() >= 5
    for key, axis in (("REGION", 1), ("EDU", 0)):
        totals = safe.group_by(key).agg(pl.col("count").sum()).sort(key)["count"].to_list()
        assert totals == np.array(COUNTS).sum(axis=axis).tolist()
    page = (folder / "safe.html").read_text()
    assert "Internal" in page
    assert page.count("<caption>") == 2
    assert "http:" not in page
    assert "https:" not in page


def test_records_are_brought_to_the_table(folder: Path, capsys) -> None:
    words = "safe people.csv --keys REGION,EDU --tolerance 5 --realise masked.csv --json"
    assert main(words) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert (outcome["distance"], outcome["records_changed"], outcome["proved_least"]) == (14, 7, True)
    masked = pl.read_csv(folder / "masked.csv").group_by("REGION", "EDU").len()
    assert masked["len"].min() >= 5


def test_nothing_is_overwritten_and_mistakes_are_named(folder: Path, capsys) -> None:
    (folder / "safe.csv").write_text("mine")
    assert main("safe counts.csv --count N --tolerance 5 --out safe.csv") == 2
    assert (folder / "safe.csv").read_text() == "mine"
    assert main("safe people.csv --tolerance 5") == 2
    assert "--keys" in capsys.readouterr().err
    assert main("safe counts.csv --count N --tolerance 5 --realise x.csv") == 2
    assert main("safe counts.csv --count M --tolerance 5") == 2
    assert "there is: REGION, EDU, N" in capsys.readouterr().err


def test_where_there_is_no_table_the_option_that_helps_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Totals of 3 are made of no cell of 4; a lower tolerance helps. In the second, an empty cell would."""
    (tmp_path / "counts.csv").write_text("A,B,N\nx,u,3\ny,v,3\n")
    words = ["safe", str(tmp_path / "counts.csv"), "--count", "N", "--tolerance", "4"]
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert "--tolerance 3" in said
    assert "--fill-zeros" not in said  # totals of 3 can't be made of cells of 4 anyhow
    assert cli.main([*words[:-1], "3"]) == 0
    (tmp_path / "two.csv").write_text("A,B,N\nx,u,2\nx,v,3\ny,u,3\ny,w,5\nz,v,4\nz,w,4\n")
    assert cli.main(["safe", str(tmp_path / "two.csv"), "--count", "N", "--tolerance", "3"]) == 2
    hint = capsys.readouterr().err
    assert "--fill-zeros" in hint
    assert (
        cli.main(["safe", str(tmp_path / "two.csv"), "--count", "N", "--tolerance", "3", "--fill-zeros"]) == 0
    )
