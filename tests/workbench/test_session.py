"""A session: every change undone and done again, saved after each, restored whatever ended it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import PlanError
from sfumato.workbench.history import History
from sfumato.workbench.session import BehindError, Session


def text(k: int) -> str:
    return f'format = 1\ntitle = "plan {k}"\n'


def begun(tmp_path: Path) -> Session:
    session = Session(tmp_path / "people.toml")
    session.begin(text(0), "opened")
    return session


def test_the_plan_on_disk_is_the_plan_that_stands(tmp_path: Path) -> None:
    session = begun(tmp_path)
    for k in range(1, 5):
        session.change(text(k), f"change {k}")
        assert session.path.read_text() == text(k)
    session.step(lambda h: h.undo())
    assert session.path.read_text() == text(3)


def test_a_plan_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    session = begun(tmp_path)
    with pytest.raises(PlanError):
        session.change("steps = 3", "nonsense")
    assert session.path.read_text() == text(0)
    assert len(session.history.entries) == 1


def test_a_session_goes_on_where_it_ended(tmp_path: Path) -> None:
    session = begun(tmp_path)
    session.change(text(1), "one")
    session.change(text(2), "two")
    session.step(lambda h: h.undo())
    session.put("file:hash", "run", {"value": 0.25, "odd": float("inf")})
    session.keep("points", [1, 2])
    again = Session.restored(session.path)
    assert again is not None
    assert again.text == text(1)
    assert [e.name for e in again.history.entries] == ["opened", "one", "two"]
    assert again.history.redo_name == "two"
    assert again.found("file:hash", "run") == {"value": 0.25, "odd": float("inf")}
    assert again.kept["points"] == [1, 2]


def test_a_torn_journal_loses_its_last_line_alone(tmp_path: Path) -> None:
    session = begun(tmp_path)
    session.change(text(1), "one")
    whole = session.journal.read_bytes()
    for cut in range(1, 60, 7):
        session.journal.write_bytes(whole[:-cut])
        session.path.write_text(text(0))
        again = Session.restored(session.path)
        assert again is not None
        assert again.text == text(0)


def test_a_plan_edited_outside_is_one_more_change(tmp_path: Path) -> None:
    session = begun(tmp_path)
    session.path.write_text(text(9))
    again = Session.restored(session.path)
    assert again is not None
    assert again.text == text(9)
    assert again.history.undo_name == "edited outside the workbench"


def test_the_journal_is_for_nobody_else(tmp_path: Path) -> None:
    session = begun(tmp_path)
    assert stat.S_IMODE(session.journal.stat().st_mode) == 0o600
    for line in session.journal.read_text().splitlines():
        json.loads(line)


def test_a_tab_that_is_behind_cannot_write(tmp_path: Path) -> None:
    session = begun(tmp_path)
    seen = session.epoch
    session.change(text(1), "by another tab", tab="B", seen=seen)
    with pytest.raises(BehindError):
        session.change(text(2), "by the older tab", tab="A", seen=seen)
    assert session.text == text(1)
    with pytest.raises(BehindError):
        session.step(lambda h: h.undo(), tab="A", seen=seen)
    # The same tab may go on before its own answer is back.
    session.change(text(3), "by the same tab", tab="B", seen=seen)
    # A page without a script has no tab: it must have seen the last change.
    with pytest.raises(BehindError):
        session.change(text(4), "without script", tab="", seen=seen)
    session.change(text(4), "without script", tab="", seen=session.epoch)


def test_results_that_come_in_do_not_make_a_tab_behind(tmp_path: Path) -> None:
    session = begun(tmp_path)
    seen = session.epoch
    session.put("file:hash", "run", {})
    session.change(text(1), "one", tab="A", seen=seen)
    assert session.text == text(1)


def test_changes_of_one_control_are_one_entry() -> None:
    history = History()
    history.change(text(0), "opened", when=0.0)
    for k in range(1, 9):
        history.change(text(k), f"tolerance {k}", control="tolerance", when=10 + k / 10)
    assert [e.name for e in history.entries] == ["opened", "tolerance 8"]
    history.undo()
    assert history.now.text == text(0)
    history.change(
        text(1), "tolerance 1", control="tolerance", when=11
    )  # after undo it is a change of its own
    assert len(history.entries) == 3


@given(st.lists(st.sampled_from(["change", "undo", "redo"]), max_size=60))
def test_undo_and_redo_are_those_of_a_stack(moves: list[str]) -> None:
    history = History()
    history.change(text(0), "0")
    done, undone, k = [text(0)], [], 0
    for move in moves:
        if move == "change":
            k += 1
            history.change(text(k), str(k))
            done, undone = [*done, text(k)], []
        elif move == "undo" and len(done) > 1:
            assert history.undo()
            undone.append(done.pop())
        elif move == "redo" and undone:
            assert history.redo()
            done.append(undone.pop())
        assert history.now.text == done[-1]
        assert (history.undo_name is None) == (len(done) == 1)
        assert (history.redo_name is None) == (not undone)
    # Nothing is ever lost: a branch that was left can be taken up again.
    assert len(history.entries) == k + 1
    for at in range(len(history.entries)):
        history.go(at)
        assert history.now.text == text(at)
