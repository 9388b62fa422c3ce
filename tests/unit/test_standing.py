"""Where a release may stand and what it may replace, tried by somebody careless or hostile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import polars as pl
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.errors import ReleaseError

PLAN = """
format = 1
data = "people.csv"
[[step]]
mask = "random_swap"
columns = ["X"]
rate_percent = 40
"""


def run() -> sf.Run:
    frame = pl.DataFrame({"A": ["n", "s"] * 10, "X": range(20)})
    return sf.Plan(steps=[sf.RandomSwap(columns=["X"], rate_percent=40)]).run(frame)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    pl.DataFrame({"A": ["n", "s"] * 10, "X": range(20)}).write_csv(tmp_path / "people.csv")
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# -- the folder underfoot -------------------------------------------------------------------------


def test_the_folder_that_the_command_runs_in_isnt_replaced(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run().release(tmp_path / "r")
    before = everything(tmp_path / "r")
    for place in (tmp_path / "r", tmp_path / "r" / "public"):
        monkeypatch.chdir(place)
        words = ["run", str(plan), "--out", os.path.relpath(tmp_path / "r"), "--overwrite"]
        assert main(words) == 2
        assert "nothing was written" in capsys.readouterr().err
        assert os.getcwd() == str(place)
        assert everything(tmp_path / "r") == before
    assert not list(tmp_path.glob(".r.*"))


# -- what somebody would lose ---------------------------------------------------------------------


def test_a_report_edited_by_hand_isnt_replaced(tmp_path: Path) -> None:
    release = run().release(tmp_path / "r")
    text = release.report.read_text()
    release.report.write_text(text.replace("</body>", "<p>signed: the steward</p></body>"))
    with pytest.raises(ReleaseError, match=r"changed after their release \(public/report\.html\)"):
        run().release(tmp_path / "r", overwrite=True)
    assert "signed" in release.report.read_text()


def test_an_edit_that_keeps_the_size_isnt_replaced_either(tmp_path: Path) -> None:
    release = run().release(tmp_path / "r")
    path = release.public / "dictionary.json"
    path.write_text(path.read_text().replace("Int64", "int64"))
    with pytest.raises(ReleaseError, match=r"public/dictionary\.json"):
        run().release(tmp_path / "r", overwrite=True)


def test_a_file_that_appears_during_the_write_isnt_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.release import write as module

    run().release(tmp_path / "r")
    before = everything(tmp_path / "r")
    check = module.check_release

    def meanwhile(*arguments: object) -> None:
        (tmp_path / "r" / "notes.txt").write_text("mine")
        check(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "check_release", meanwhile)
    with pytest.raises(ReleaseError, match=r"notes\.txt"):
        run().release(tmp_path / "r", overwrite=True)
    assert everything(tmp_path / "r") == {**before, "notes.txt": b"mine"}
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_a_file_that_appears_at_the_last_moment_isnt_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.io import atomic

    run().release(tmp_path / "r")
    before = everything(tmp_path / "r")
    exchange = atomic._exchange
    calls: list[Path] = []

    def late(one: Path, two: Path) -> bool:
        if not calls:
            (tmp_path / "r" / "notes.txt").write_text("mine")
        calls.append(one)
        return exchange(one, two)

    monkeypatch.setattr(atomic, "_exchange", late)
    with pytest.raises(ReleaseError, match=r"notes\.txt"):
        run().release(tmp_path / "r", overwrite=True)
    assert everything(tmp_path / "r") == {**before, "notes.txt": b"mine"}


def test_the_plans_own_input_inside_the_old_release_isnt_replaced(plan: Path, tmp_path: Path) -> None:
    sf.Plan.load(plan).run().release(tmp_path / "r")
    again = sf.Plan.loads(PLAN.replace("people.csv", "r/public/data.parquet"), base=tmp_path)
    before = everything(tmp_path / "r")
    with pytest.raises(ReleaseError, match="own input"):
        again.run().release(tmp_path / "r", overwrite=True)
    assert everything(tmp_path / "r") == before


# -- a release within a release -------------------------------------------------------------------


@pytest.mark.parametrize("inside", ["sub", "public/sub", "public/a/b", "internal/sub"])
def test_no_release_stands_in_another(tmp_path: Path, inside: str) -> None:
    run().release(tmp_path / "r")
    before = everything(tmp_path / "r")
    with pytest.raises(ReleaseError, match="inside the release"):
        run().release(tmp_path / "r" / inside)
    assert everything(tmp_path / "r") == before


def test_nor_in_a_public_part_that_was_moved_away(tmp_path: Path) -> None:
    release = run().release(tmp_path / "r")
    shutil.copytree(release.public, tmp_path / "web")
    with pytest.raises(ReleaseError, match="inside the release"):
        run().release(tmp_path / "web" / "next")


def test_nor_through_a_link(tmp_path: Path) -> None:
    release = run().release(tmp_path / "r")
    (tmp_path / "link").symlink_to(release.public, target_is_directory=True)
    (tmp_path / "deep").symlink_to(release.public / "a", target_is_directory=True)
    (release.public / "a").mkdir()
    for link in ("link", "deep"):
        with pytest.raises(ReleaseError, match="inside the release"):
            run().release(tmp_path / link / "next")
    assert not list((release.public / "a").iterdir())


def test_nor_in_the_public_folder_of_the_data(tmp_path: Path) -> None:
    public = tmp_path / "public"
    public.mkdir()
    pl.DataFrame({"X": range(20)}).write_csv(public / "people.csv")
    with pytest.raises(ReleaseError, match="public"):
        sf.Plan.loads(PLAN, base=public).run().release(public / "out")
    assert [p.name for p in public.iterdir()] == ["people.csv"]


def test_a_manifest_of_something_else_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "MANIFEST.json").write_text('{"manifest_version": 3}')
    run().release(tmp_path / "r")


# -- links ----------------------------------------------------------------------------------------


def test_a_link_to_a_release_is_followed(tmp_path: Path) -> None:
    run().release(tmp_path / "r-1")
    link = tmp_path / "latest"
    link.symlink_to("r-1", target_is_directory=True)
    run().release(link, overwrite=True)
    assert link.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["latest", "r-1"]
    assert (tmp_path / "r-1" / "public" / "data.parquet").exists()


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "latest"
    link.symlink_to("gone")
    for overwrite in (False, True):
        with pytest.raises(ReleaseError, match="nothing was written"):
            run().release(link, overwrite=overwrite)
    assert [p.name for p in tmp_path.iterdir()] == ["latest"]


# -- a live run elsewhere -------------------------------------------------------------------------


def test_the_work_folder_of_a_run_elsewhere_is_left_alone(tmp_path: Path) -> None:
    """Numbers of processes mean nothing to another host or container on the same disk."""
    other = tmp_path / ".r.partial-0123abcd-999999999-00c0ffee"
    old = tmp_path / ".r.partial-999999999-00c0ffee"
    for folder in (other, old):
        folder.mkdir()
        (folder / "half.parquet").write_text("x")
    run().release(tmp_path / "r")
    assert (other / "half.parquet").exists()
    assert (old / "half.parquet").exists()


def test_a_locked_work_folder_is_left_alone(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    from sfumato.io import atomic

    mine = tmp_path / f".r.partial-{atomic._tag()}-999999999-00c0ffee"
    dead = tmp_path / f".r.partial-{atomic._tag()}-999999999-0decade0"
    mine.mkdir()
    dead.mkdir()
    handle = os.open(mine, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        run().release(tmp_path / "r")
        assert mine.exists()
        assert not dead.exists()
    finally:
        os.close(handle)
