"""Threads: how many, and a map over them in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from sfumato.waiting import Meter

T = TypeVar("T")
R = TypeVar("R")


def threads() -> int:
    """How many threads to use: ``SFUMATO_THREADS``, else all cores."""
    return max(1, int(os.environ.get("SFUMATO_THREADS", os.cpu_count() or 1)))


def in_threads(function: Callable[[T], R], items: Iterable[T], *, what: str = "") -> list[R]:
    """``[function(i) for i in items]`` on several threads, in order; kernels release the GIL.

    ``what`` the items are parts of: where they take long, it is told how far they are.
    """
    items = list(items)
    if what:
        function = _metered(function, Meter(what, len(items)))
    workers = min(threads(), len(items))
    if workers <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        try:
            return list(pool.map(function, items))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _metered(function: Callable[[T], R], meter: Meter) -> Callable[[T], R]:
    def run(item: T) -> R:
        out = function(item)
        meter.advance()
        return out

    return run


def in_turn(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """``function(i)`` for each item, in order, with no more of them under way or waiting than threads.

    >>> list(in_turn(lambda i: i * i, range(5)))
    [0, 1, 4, 9, 16]
    """
    if threads() <= 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(threads())
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > threads():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
