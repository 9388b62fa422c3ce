"""Experiments whose processes are killed, fail or are stopped: what is left, what is said."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest

import sfumato as sf
from sfumato.experiment.pool import ProcessError, _ended

KILLED = """
import multiprocessing, os, signal, sys
import polars as pl
import sfumato as sf

def kill(what, done, parts):
    if done >= 5:
        print(*(child.pid for child in multiprocessing.active_children()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    plan = sf.Plan.load(sys.argv[1])
    experiment = sf.Experiment(plan, {"mix.rate_percent": [10, 50, 90]}, replicates=8)
    experiment.run(seed=5, folder=sys.argv[2], processes=2, progress=kill)
"""

BROKEN = """
from sfumato.utility.information_loss import InformationLoss

def broken(*_):
    raise RuntimeError("value 12345 of A")

InformationLoss._measure = broken
"""


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    pl.DataFrame(rng.lognormal(3, 0.6, (80, 3)), schema=["A", "B", "C"]).write_csv(tmp_path / "people.csv")
    path = tmp_path / "plan.toml"
    path.write_text(
        'format = 1\ndata = "people.csv"\n[roles]\nsensitive = ["A", "B", "C"]\n'
        '[[step]]\nid = "mix"\nmask = "random_swap"\ncolumns = ["A", "B", "C"]\nrate_percent = 10\n'
        '[[measure]]\nmeasure = "information_loss"\n'
        '[[measure]]\nmeasure = "distance_linkage"\nknown = ["A", "B", "C"]\n'
    )
    return path


def gone(pid: int) -> bool:
    """Ended, or waiting for somebody to read its exit code."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_killed_experiment_goes_on_and_ends_as_if_unbroken(plan_file: Path, tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    folder = tmp_path / "runs"
    ended = subprocess.run(
        [sys.executable, str(script), str(plan_file), str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    finished = len(list(folder.glob("run-*.parquet")))
    assert 5 <= finished < 24
    # Processes that it had started don't work on for nobody.
    children = [int(word) for word in ended.stdout.split()]
    assert children
    for _ in range(600):
        if all(gone(child) for child in children):
            break
        time.sleep(0.05)
    assert all(gone(child) for child in children)

    experiment = sf.Experiment(sf.Plan.load(plan_file), {"mix.rate_percent": [10, 50, 90]}, replicates=8)
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("run-*.parquet")}
    again = experiment.run(seed=5, folder=folder, processes=1)
    assert again.ran == 24 - len(kept) > 0
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    unbroken = experiment.run(seed=5, processes=1)
    assert again.frame.drop("seconds").equals(unbroken.frame.drop("seconds"))
    assert pl.read_parquet(folder / "experiment.parquet").drop("seconds").equals(again.frame.drop("seconds"))


def test_a_defect_is_told_once_without_data_whichever_process_had_it(plan_file: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BROKEN)
    words = ["compare", str(plan_file), "--vary", "mix.rate_percent=10,50,90", "--processes", "3"]
    ended = subprocess.run(
        [sys.executable, "-m", "sfumato", *words],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)},
    )
    assert ended.returncode == 2
    assert ended.stderr.count("a defect (RuntimeError in ") == 1
    assert "Traceback" not in ended.stderr
    assert "12345" not in ended.stderr + ended.stdout
    assert len(ended.stderr.strip().splitlines()) == 2  # the sentence and its hint
    assert not list(tmp_path.glob("sfumato-*"))  # no copy of the data is left


def test_the_hint_for_missing_measures_is_of_use_where_it_is_read(
    plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sfumato.cli.command import call

    bare = tmp_path / "bare.toml"
    bare.write_text(plan_file.read_text().split("[[measure]]")[0])
    assert call("compare", [str(bare)]) == 2
    said = capsys.readouterr().err
    assert "an experiment needs measures\n  hint: add [[measure]] to the plan\n" in said
    with pytest.raises(sf.errors.ParameterError) as problem:
        sf.Experiment(sf.Plan(steps=[sf.RandomSwap(columns=["A"], rate_percent=10)]))
    assert problem.value.hint == "pass measures=[…]"


def test_a_process_killed_from_outside_ends_the_experiment_and_what_is_done_stays(
    plan_file: Path, tmp_path: Path
) -> None:
    experiment = sf.Experiment(sf.Plan.load(plan_file), {"mix.rate_percent": [10, 50]}, replicates=200)

    def kill(what: str, done: int, parts: int) -> None:
        for child in multiprocessing.active_children():
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(ProcessError, match="ended from outside"):
        experiment.run(seed=1, folder=tmp_path / "runs", processes=2, progress=kill)
    assert 1 <= len(list((tmp_path / "runs").glob("run-*.parquet"))) < 400
    assert not multiprocessing.active_children()


def test_why_a_process_ended_is_told() -> None:
    assert "SIGKILL" in _ended(-9, True).message
    assert "fewer" in (_ended(-9, False).hint or "")
    assert "__main__" in (_ended(1, False).hint or "")
    assert "exit code 3" in _ended(3, True).message
