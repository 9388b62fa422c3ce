"""Which engine is taken, and what the command line says."""

from __future__ import annotations

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
