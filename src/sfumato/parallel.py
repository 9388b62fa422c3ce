"""Threads: how many, and a map over them in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def threads() -> int:
    """How many threads to use: ``SFUMATO_THREADS``, else all cores."""
    return max(1, int(os.environ.get("SFUMATO_THREADS", os.cpu_count() or 1)))


def in_threads(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """``[function(i) for i in items]`` on several threads, in order; kernels release the GIL."""
    items = list(items)
    workers = min(threads(), len(items))
    if workers <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))
