"""Finds masks and measures by name: ours by looking into their rooms, others' by entry points.

A new file in ``masks/``, ``risk/`` or ``utility/`` is found by itself. A package of somebody else
adds its own with the entry-point groups ``sfumato.masks`` and ``sfumato.measures``.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from sfumato.contract.mask import Mask
from sfumato.contract.measure import Measure, find_measures_by
from sfumato.errors import ParameterError, did_you_mean


@cache
def masks() -> dict[str, type[Mask]]:
    """Every mask there is, by its name in a plan."""
    return _collect(("sfumato.masks",), "sfumato.masks", Mask)


@cache
def measures() -> dict[str, type[Measure]]:
    """Every measure there is, by its name in a plan."""
    return _collect(("sfumato.risk", "sfumato.utility"), "sfumato.measures", Measure)


def mask(name: str) -> type[Mask]:
    """The mask of this name."""
    found: type[Mask] = _find(name, masks(), "mask")
    return found


def measure(name: str) -> type[Measure]:
    """The measure of this name."""
    found: type[Measure] = _find(name, measures(), "measure")
    return found


def by_class_name(name: str) -> Any:
    """The mask or measure whose class has this name (``sf.RankSwap``), or None."""
    for cls in (*masks().values(), *measures().values()):
        if cls.__name__ == name:
            return cls
    return None


def _find(name: str, there: dict[str, Any], word: str) -> Any:
    if name not in there:
        raise ParameterError(f"there is no {word} {name!r}", hint=did_you_mean(name, there, show=40))
    return there[name]


def _collect(rooms: tuple[str, ...], group: str, base: type[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for room in rooms:
        for module in _modules(room):
            for cls in vars(importlib.import_module(module)).values():
                if _is_one(cls, base) and cls.__module__ == module:
                    found[cls.name] = cls
    for entry in entry_points(group=group):
        cls = entry.load()
        if _is_one(cls, base):
            found.setdefault(cls.name, cls)
    return dict(sorted(found.items()))


def _is_one(cls: Any, base: type[Any]) -> bool:
    return isinstance(cls, type) and issubclass(cls, base) and bool(cls.__dict__.get("name"))


def _modules(room: str) -> list[str]:
    package = importlib.import_module(room)
    out = []
    for info in pkgutil.iter_modules(package.__path__, f"{room}."):
        out.append(info.name)
        if info.ispkg:
            out += _modules(info.name)
    return sorted(out)


find_measures_by(measure)
