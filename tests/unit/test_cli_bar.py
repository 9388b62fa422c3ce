"""The progress line: none in a pipe, none in the first second, gone at the end, honest about the rest."""

from __future__ import annotations

import io
import re

from sfumato.cli import bar, command


def test_no_bar_in_a_pipe(capsys) -> None:  # type: ignore[no-untyped-def]
    with command.progress() as tell:  # pytest's stderr is no terminal
        tell("quick", 0, 2)
    with command.progress(quiet=True) as tell:
        tell("quick", 0, 2)
    assert capsys.readouterr().err == ""


def test_quiet_draws_no_bar_on_a_terminal(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(command.sys.stderr, "isatty", lambda: True, raising=False)
    with command.progress(quiet=True) as tell:
        assert tell is None


def test_short_work_draws_nothing_and_long_work_leaves_nothing(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    out = io.StringIO()
    with bar.Bar(out) as one:
        one.tell("quick", 1, 2)
    assert out.getvalue() == "\r\x1b[2K"

    waits = iter([False, False, True])  # twice drawn, then ended
    out = io.StringIO()
    two = bar.Bar(out)
    two.tell("a\nstep", 1, 4)
    monkeypatch.setattr(two._ended, "wait", lambda _: next(waits))
    two._keep_drawing()
    drawn = [part for part in out.getvalue().split("\r\x1b[2K") if part]
    assert len(drawn) == 2
    assert drawn[0].startswith("a step")
    assert "1/4" in drawn[0]


def test_the_estimate_counts_this_work_alone(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """100 seconds of other work, then 2 parts of 10 in 20 seconds: 80 seconds are left."""
    now = [0.0]
    monkeypatch.setattr(bar.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    one = bar.Bar(out)
    one.tell("first", 3, 4)
    now[0] = 100.0
    one.tell("second", 0, 10)
    now[0] = 120.0
    one.tell("second", 2, 10)
    waits = iter([False, True])
    monkeypatch.setattr(one._ended, "wait", lambda _: next(waits))
    one._keep_drawing()
    assert re.search(r"2/10  2:00, about 1:20 left", out.getvalue())
