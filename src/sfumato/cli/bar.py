"""One line on a terminal that says what is being done, how far it is and how long it may still take."""

from __future__ import annotations

import shutil
import threading
import time
from typing import Self, TextIO

_WIDTH = 24
_EVERY = 0.25  # seconds between two drawings: a long part shows that it is alive
_CLEAR = "\r\x1b[2K"


class Pace:
    """How far work is, and how many seconds a part of it took so far."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.what, self.done, self.parts = "starting", 0.0, 0
        self._since, self._first = self.started, 0.0  # when this work began, and at which part

    def tell(self, what: str, done: float, parts: int) -> None:
        """What is being done, and how many of its parts are behind us."""
        if parts != self.parts or done < self.done:  # other work, which tells nothing of this one's time
            self._since, self._first = time.monotonic(), done
        self.what, self.done, self.parts = what, done, parts

    def seconds_a_part(self) -> float:
        behind = self.done - self._first
        return (time.monotonic() - self._since) / (behind if behind > 0 else 1)

    def seconds_left(self) -> float | None:
        """At the pace so far; None while nothing is behind us."""
        if not 0 < self.done < self.parts:
            return None
        return self.seconds_a_part() * (self.parts - self.done)


class Bar:
    """A progress bar that leaves nothing behind; nothing is drawn in the first second."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._pace = Pace()
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._drawing = threading.Thread(target=self._keep_drawing, daemon=True)

    def __enter__(self) -> Self:
        self._drawing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._drawing.join()
        self._out.write(_CLEAR)
        self._out.flush()

    def tell(self, what: str, done: float, parts: int) -> None:
        """What is being done, and how many of its parts are behind us."""
        with self._lock:
            self._pace.tell(what, done, parts)

    def _keep_drawing(self) -> None:
        wait = 1.0
        while not self._ended.wait(wait):
            wait = _EVERY
            with self._lock:
                now, so_far = self._pace, time.monotonic() - self._pace.started
                drawn = line(now.what, now.done, now.parts, so_far, now.seconds_a_part())
            columns = shutil.get_terminal_size().columns
            self._out.write(_CLEAR + drawn[: max(columns - 1, 10)])
            self._out.flush()


def line(what: str, done: float, parts: int, seconds: float, pace: float) -> str:
    """The line itself; ``pace`` is how many seconds a part took so far.

    >>> line("rank_swap", 1, 4, seconds=30, pace=30)
    'rank_swap  ██████░░░░░░░░░░░░░░░░░░  1/4  0:30, about 1:30 left'
    >>> line("reading", 0, 0, seconds=2, pace=2)
    'reading  0:02'
    >>> line("step noise", 1.5, 4, seconds=30, pace=20)
    'step noise  █████████░░░░░░░░░░░░░░░  1/4  0:30, about 0:50 left'
    """
    words = [" ".join(what.split())]
    if parts > 0:
        full = round(_WIDTH * min(done, parts) / parts)
        words += ["█" * full + "░" * (_WIDTH - full), f"{int(done)}/{parts}"]
    clock = _clock(seconds)
    if 0 < done < parts:
        clock += f", about {_clock(pace * (parts - done))} left"
    return "  ".join([*words, clock])


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
