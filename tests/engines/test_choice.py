"""Which engine is taken, and what the command line says."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from sfumato.cli import main
from sfumato.engines import choice

PLAN = """
format = 1
data = "people.parquet"
[roles]
sensitive = ["PAY"]
[[step]]
mask = "additive_noise"
columns = ["PAY"]
variance_ratio = 0.1
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    frame = pl.DataFrame({"AREA": ["n", "s"] * 500, "PAY": [float(k * 37 % 1009) for k in range(1000)]})
    frame.write_parquet(tmp_path / "people.parquet")
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def run(plan: Path, *words: str) -> int:
    out = str(plan.parent / "out")
    return main(["run", str(plan), "--out", out, "--quiet", *words])


def test_a_file_larger_than_its_share_of_memory_is_streamed(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = plan.parent / "people.parquet"
    needed = 1000 * (8 + 16)
    monkeypatch.setattr(choice, "_memory", lambda: 4 * needed)
    assert choice.too_large(file) is None
    monkeypatch.setattr(choice, "_memory", lambda: 4 * needed - 1)
    assert "people.parquet would take" in (choice.too_large(file) or "")
    assert main(["run", str(plan)]) == 0
    assert "from disk to disk" in capsys.readouterr().out


def test_only_parquet_is_streamed(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = plan.read_text().replace("people.parquet", "people.csv")
    plan.write_text(text)
    pl.read_parquet(plan.parent / "people.parquet").write_csv(plan.parent / "people.csv")
    assert run(plan, "--engine", "stream") == 2
    assert "reads Parquet" in capsys.readouterr().err
    assert choice.too_large(plan.parent / "people.csv") is None


def test_a_request_to_end_leaves_nothing(plan: Path) -> None:
    """SIGTERM in the middle of a run from disk: no release, no scratch."""
    slow = "import time, sfumato.engines.steps as s; f = s._by_rows\n"
    slow += "def wait(*a):\n    print('at work', flush=True); time.sleep(60); return f(*a)\n"
    slow += "s._by_rows = wait\nfrom sfumato.cli import main\nimport sys; sys.exit(main(sys.argv[1:]))"
    words = ["run", str(plan), "--out", str(plan.parent / "out"), "--engine", "stream", "--quiet"]
    process = subprocess.Popen([sys.executable, "-c", slow, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert any(line.strip() == "at work" for line in process.stdout)
    assert list(plan.parent.glob(".sfumato-scratch*"))
    process.terminate()
    assert process.wait(timeout=60) == 130
    deadline = time.monotonic() + 5
    while list(plan.parent.glob(".*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert sorted(p.name for p in plan.parent.iterdir()) == ["people.parquet", "plan.toml"]


WHERE = """
format = 1
data = "people.parquet"
[roles]
id = "ID"
household = "HOME"
keys = ["AREA", "AGE"]
sensitive = ["PAY", "RENT"]
[[step]]
mask = "additive_noise"
columns = ["PAY"]
variance_ratio = 0.1
[[step]]
mask = "rank_swap"
columns = ["PAY", "RENT"]
window_percent = 5
within = ["AGE"]
[[step]]
id = "few"
mask = "local_suppress"
keys = ["AREA", "AGE"]
tolerance = 3
[[measure]]
measure = "k_anonymity"
"""


def test_check_says_where_each_part_is_carried_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes by hand: the number of records times the widths of the columns that a step reads."""
    n = 1000
    frame = {
        "ID": pl.Series(range(n), dtype=pl.Int64),
        "HOME": pl.Series([k // 3 for k in range(n)], dtype=pl.Int32),
        "AREA": ["n", "s"] * (n // 2),
        "AGE": pl.Series([k % 90 for k in range(n)], dtype=pl.Int16),
        "PAY": [float(k * 37 % 1009) for k in range(n)],
        "RENT": pl.Series([k * 31 % 507 for k in range(n)], dtype=pl.Float32),
    }
    pl.DataFrame(frame).write_parquet(tmp_path / "people.parquet")
    plan = tmp_path / "plan.toml"
    plan.write_text(WHERE)
    for engine, way, place in (
        ("spark", "distributed", "to one executor"),
        ("stream", "streamed", "in memory"),
    ):
        assert main(["check", str(plan), "--no-rehearse", "--engine", engine]) == 0
        said = capsys.readouterr().out
        assert f"step additive_noise: {way}, by blocks of " in said
        assert f"step rank_swap: gathers {n * (8 + 2) / 1000} kB {place} (a column at a time: " in said
        # A text is a view of 16 bytes; ids and households are read where records are put together.
        assert f"step few: gathers {n * (8 + 4 + 16 + 2) / 1000} kB {place} (keys, no amounts: " in said
        assert f"gathers {n * 4 / 1000} kB {place} (HOME)" in said
    assert "measure k_anonymity: in memory, on all 1,000 records" in said
    assert main(["check", str(plan), "--no-rehearse", "--engine", "spark", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["where"]
    assert [w["gathers"] for w in found] == [0, 10 * n, 30 * n, 0, 4 * n]


def test_check_says_what_cannot_be_and_why(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(PLAN + '[release]\nformat = "csv"\n')
    assert main(["check", str(plan), "--engine", "spark"]) == 2
    assert "release: can't: a cluster releases Parquet" in capsys.readouterr().out
    pl.read_parquet(plan.parent / "people.parquet").write_csv(plan.parent / "people.csv")
    plan.write_text(PLAN.replace(".parquet", ".csv"))
    assert main(["check", str(plan), "--engine", "spark"]) == 2
    assert "data: can't: --engine spark reads Parquet" in capsys.readouterr().out
