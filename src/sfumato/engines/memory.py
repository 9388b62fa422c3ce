"""The file in memory: the engine for files that fit, and the one that the others must agree with."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Self

from sfumato.data.microdata import Microdata


class Memory:
    """Everything in memory, on all cores."""

    name: ClassVar[str] = "memory"

    def hold(self, data: Microdata) -> Microdata:
        return data

    def doing(self, tell: Callable[[float], None]) -> None:
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None
