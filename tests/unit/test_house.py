"""The house: no module imports itself by a detour, not even lazily or for its types alone."""

from __future__ import annotations

import grimp
import pytest

DOORS = {
    ("sfumato.data.microdata", "sfumato.cells"),
    ("sfumato.plan.plan", "sfumato.run.run"),
    ("sfumato.run.run", "sfumato.report.summary"),
    ("sfumato.run.run", "sfumato.release.write"),
}
"""Microdata.cells, Plan.run, Run.summary, Run.release: the only imports that go upwards."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("sfumato", cache_dir=None)


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach each other: what is left when ends are taken off again and again."""
    left = {m: set(to) for m, to in edges.items()}
    while True:
        ends = {m for m, to in left.items() if not to & left.keys()}
        starts = left.keys() - {t for to in left.values() for t in to}
        gone = ends | starts
        if not gone:
            return [sorted(left)] if left else []
        left = {m: to - gone for m, to in left.items() if m not in gone}


def test_no_module_imports_itself_by_a_detour(graph: grimp.ImportGraph) -> None:
    edges = {
        m: {t for t in graph.find_modules_directly_imported_by(m) if (m, t) not in DOORS}
        for m in graph.modules
        if m != "sfumato"
    }
    assert cycles(edges) == []


def test_a_cycle_would_be_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert cycles({"a": {"b"}, "b": set()}) == []


@pytest.mark.parametrize("door", sorted(DOORS))
def test_every_door_is_used(graph: grimp.ImportGraph, door: tuple[str, str]) -> None:
    assert door[1] in graph.find_modules_directly_imported_by(door[0])


def test_no_module_holds_two_ideas() -> None:
    """One that outgrows 450 lines does (CONTRIBUTING, the house)."""
    from pathlib import Path

    import sfumato

    root = Path(sfumato.__file__).parent
    long = {
        str(path.relative_to(root)): lines
        for path in root.rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 450
    }
    assert long == {}
