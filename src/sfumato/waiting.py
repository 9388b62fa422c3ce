"""What is being waited for: long work says so to whoever listens, however deep it was called.

The command line listens on a terminal; a program may listen, too:

>>> heard = []
>>> with listening(heard.append):
...     tell("compiling kernels")
>>> heard
['compiling kernels']

Work that comes in parts is metered. Once the first parts show that the whole takes longer than a few
seconds, it is told how long, and from then on how far it is. Ctrl-C stops it between two parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

Listener = Callable[[str], None]

LONG = 10.0
"""Seconds beyond which work is announced with how long it will take."""
_OFTEN = 5.0  # seconds between two lines
_SURE = 0.3  # seconds of work after which the rest can be judged

_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Whatever long work tells within this block goes to this listener."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(text: str) -> None:
    """Say what is being waited for; nobody may be listening."""
    for listener in tuple(_listeners):
        listener(text)


def duration(seconds: float) -> str:
    """About how long, in words.

    >>> duration(8), duration(47), duration(200), duration(9000)
    ('10 s', '50 s', '3 min', '2.5 h')
    """
    if seconds < 95:
        return f"{max(10, round(seconds, -1)):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Meter:
    """How far work is that comes in parts of about equal cost, and how long the rest will take."""

    def __init__(self, what: str, parts: float) -> None:
        self.what, self.parts, self.done = what, max(parts, 1e-9), 0.0
        self._began = time.perf_counter()
        self._told: float | None = None
        self._lock = Lock()

    def advance(self, parts: float = 1.0) -> None:
        """So many parts more are done."""
        with self._lock:
            self.done += parts
            now = time.perf_counter()
            spent = now - self._began
            if not self.done or spent < _SURE or (self._told is not None and now - self._told < _OFTEN):
                return
            share = min(self.done / self.parts, 1.0)
            left = spent * (1.0 - share) / share
            if self._told is None and spent + left < LONG:
                return
            first, self._told = self._told is None, now
        if first:
            tell(
                f"{self.what}: about {duration(spent + left)}; Ctrl-C stops it, and nothing is left half-done"
            )
        elif left > 1.0:
            tell(f"{self.what}: {share:.0%}, about {duration(left)} left")
