"""One line on a terminal that says what is being done, how far it is and how long it may still take."""

from __future__ import annotations

import shutil
import threading
import time
from typing import Self, TextIO

_WIDTH = 24
_EVERY = 0.25  # seconds between two drawings: a long part shows that it is alive
_CLEAR = "\r\x1b[2K"


class Bar:
    """A progress bar that leaves nothing behind; nothing is drawn in the first second."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._started = time.monotonic()
        self._what, self._done, self._parts = "starting", 0.0, 0
        self._since, self._first = self._started, 0.0  # when the phase began, and at which part
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
            if (
                parts != self._parts or done < self._done
            ):  # other work, which tells nothing of this one's time
                self._since, self._first = time.monotonic(), done
            self._what, self._done, self._parts = what, done, parts

    def _keep_drawing(self) -> None:
        wait = 1.0
        while not self._ended.wait(wait):
            wait = _EVERY
            with self._lock:
                at = time.monotonic()
                behind = self._done - self._first
                pace = (at - self._since) / (behind if behind > 0 else 1)
                now = line(self._what, self._done, self._parts, at - self._started, pace)
            columns = shutil.get_terminal_size().columns
            self._out.write(_CLEAR + now[: max(columns - 1, 10)])
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
