"""Every parameter of every mask and measure is met on a page that speaks of it: none is a secret knob."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sfumato import registry

PAGES = [p.read_text(encoding="utf-8") for p in sorted((Path(__file__).parents[2] / "docs").rglob("*.md"))]
DECLARED = {**registry.masks(), **registry.measures()}


@pytest.mark.parametrize("name", DECLARED)
def test_a_page_speaks_of_each_parameter(name: str) -> None:
    cls = DECLARED[name]
    spoken = re.compile(rf"\b({name}|{cls.__name__})\b")
    met = {word for page in PAGES if spoken.search(page) for word in re.findall(r"\w+", page)}
    assert met, f"no page speaks of {name}"
    assert sorted(set(cls.parameters()) - met - {"id"}) == []
