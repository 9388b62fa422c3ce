"""Long work says how long it takes, before it has taken long, and how far it is."""

from __future__ import annotations

import io
import time
from itertools import pairwise

import pytest

from sfumato import parallel, waiting


class Clock:
    """A clock that only moves when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(waiting.time, "perf_counter", lambda: self.now)


def told(monkeypatch: pytest.MonkeyPatch, parts: int, seconds_each: float) -> list[tuple[float, str]]:
    clock, heard = Clock(monkeypatch), []
    with waiting.listening(lambda text: heard.append((clock.now - 100.0, text))):
        meter = waiting.Meter("linking", parts)
        for _ in range(parts):
            clock.now += seconds_each
            meter.advance()
    return heard


def test_short_work_says_nothing(monkeypatch):
    assert told(monkeypatch, 20, 0.4) == []  # 8 seconds in all


def test_long_work_says_how_long_it_takes_at_its_beginning(monkeypatch):
    heard = told(monkeypatch, 100, 0.4)  # 40 seconds in all
    assert heard[0][0] == pytest.approx(0.4)
    assert heard[0][1].startswith("linking: about 40 s; Ctrl-C stops it")
    assert heard[1][1] == "linking: 14%, about 30 s left"  # 5 s later: 5.6 s done, 34.4 s left
    gaps = [b[0] - a[0] for a, b in pairwise(heard)]
    assert min(gaps) >= 5.0 - 1e-9


def test_nobody_need_listen_and_listeners_leave(monkeypatch):
    waiting.tell("nobody hears")
    heard = []
    with waiting.listening(heard.append):
        waiting.tell("one")
    waiting.tell("two")
    assert heard == ["one"]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_parts_in_threads_keep_their_order_and_are_metered(monkeypatch, threads):
    monkeypatch.setenv("SFUMATO_THREADS", threads)
    monkeypatch.setattr(waiting, "LONG", 0.0)
    monkeypatch.setattr(waiting, "_SURE", 0.0)
    heard = []
    with waiting.listening(heard.append):
        assert parallel.in_threads(lambda x: x * x, range(50), what="squares") == [x * x for x in range(50)]
    assert heard
    assert heard[0].startswith("squares: about")


def test_a_part_that_is_stopped_stops_the_rest(monkeypatch):
    monkeypatch.setenv("SFUMATO_THREADS", "2")
    done = []

    def part(x: int) -> None:
        if x == 3:
            raise KeyboardInterrupt
        time.sleep(0.001)  # longer than it takes to hear of the stop, 10,000 times
        done.append(x)

    with pytest.raises(KeyboardInterrupt):
        parallel.in_threads(part, range(10_000))
    assert len(done) < 9_999


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_is_told_and_a_pipe_is_not(monkeypatch, terminal):
    from sfumato.cli import command

    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(command.sys, "stderr", stream)
    with waiting.listening(command._show_waiting):
        waiting.tell("compiling \x1b[31mkernels")
    text = stream.getvalue()
    assert ("… compiling" in text) is terminal
    assert "\x1b[31m" not in text
