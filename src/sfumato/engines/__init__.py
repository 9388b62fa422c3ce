"""Engines: where a plan's steps are carried out. Masks don't know them."""

from __future__ import annotations

from sfumato.engines.base import Engine
from sfumato.engines.local import LocalEngine
from sfumato.errors import ParameterError, did_you_mean

__all__ = ["Engine", "LocalEngine", "engine"]


def engine(name: str = "local") -> Engine:
    """The engine of this name."""
    if name == "local":
        return LocalEngine()
    raise ParameterError(f"there is no engine {name!r}", hint=did_you_mean(name, ["local"]))
