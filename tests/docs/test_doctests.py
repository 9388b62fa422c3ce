"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import sfumato


def modules() -> list[str]:
    return sorted(
        info.name
        for info in pkgutil.walk_packages(sfumato.__path__, "sfumato.")
        if not info.name.endswith("__main__")
    )


@pytest.mark.parametrize("name", modules())
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.failed == 0


def test_there_are_examples() -> None:
    from sfumato import registry

    for cls in (*registry.masks().values(), *registry.measures().values()):
        assert ">>>" in (cls.__doc__ or ""), f"{cls.__name__} has no example in its docstring"
