"""What a release may replace: another release, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import ReleaseError


def run() -> sf.Run:
    frame = pl.DataFrame({"A": ["n", "s"] * 10, "X": range(20)})
    return sf.Plan(steps=[sf.RandomSwap(columns=["X"], rate_percent=40)]).run(frame)


def test_overwriting_replaces_a_release_and_nothing_else(tmp_path: Path) -> None:
    mine = tmp_path / "papers"
    (mine / "deep").mkdir(parents=True)
    (mine / "deep" / "thesis.txt").write_text("mine")
    with pytest.raises(ReleaseError, match=r"deep/thesis\.txt"):
        run().release(mine, overwrite=True)
    assert (mine / "deep" / "thesis.txt").read_text() == "mine"
    # A file that somebody put into a release isn't lost either.
    release = run().release(tmp_path / "r")
    (release.internal / "people.seed").write_text("00")
    with pytest.raises(ReleaseError, match=r"internal/people\.seed"):
        run().release(tmp_path / "r", overwrite=True)
    (release.internal / "people.seed").unlink()
    run().release(tmp_path / "r", overwrite=True)
    # Nor is a release whose internal part is in the safe an obstacle.
    shutil.move(tmp_path / "r" / "internal", tmp_path / "safe")
    run().release(tmp_path / "r", overwrite=True)
    (tmp_path / "empty").mkdir()
    run().release(tmp_path / "empty", overwrite=True)
