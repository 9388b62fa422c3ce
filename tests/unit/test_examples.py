"""Every example plan runs and keeps its promises; every notebook runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sfumato as sf

FOLDER = Path(__file__).parents[2] / "examples"
PLANS = sorted(FOLDER.glob("*.toml"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
DECK = re.compile(r"sf\.decks\.(\w+)\(")
SMALL = {"incomes": 600, "persons": 250}


def deck_of(path: Path) -> sf.Microdata:
    """A small part of the deck that the plan's first lines say how to make."""
    found = DECK.search(path.read_text(encoding="utf-8"))
    assert found is not None, "its first lines say how to make the data"
    name = found.group(1)
    if name == "housing":
        deck = sf.decks.housing()
        return sf.Microdata(deck.frame.head(600))
    made: sf.Microdata = getattr(sf.decks, name)(SMALL[name])
    return sf.Microdata(made.frame)


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
@pytest.mark.parametrize("path", PLANS, ids=[p.stem for p in PLANS])
def test_it_runs_on_the_deck_that_it_names(path: Path) -> None:
    plan = sf.Plan.load(path)
    run = plan.run(deck_of(path), seed=1, measure=False)
    assert run.ok
    assert any(n for s in run.steps for n in s.touched.values())
    for name in run.masked.columns:
        parts = run.masked.schema[name].sum_of
        if parts:
            total = sum(run.masked.numbers(c) for c in parts)
            assert abs(run.masked.numbers(name) - total).max() < 1


def test_there_is_a_plan_for_each_of_the_five_jobs() -> None:
    jobs = {p.stem for p in PLANS if "# Job: " in p.read_text(encoding="utf-8")}
    assert jobs == {
        "k_anonymise_survey",
        "households_geography",
        "business_sums",
        "map_of_masks",
        "review_board",
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[p.stem for p in NOTEBOOKS])
def test_the_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(Path(sf.__file__).parents[1]))
    notebook = nbformat.read(path, as_version=4)
    assert not any(c.get("outputs") for c in notebook.cells), "outputs aren't kept in the repository"
    nbclient.NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [o["data"]["text/html"] for c in notebook.cells for o in c.get("outputs", []) if "data" in o]
    assert len(shown) >= 3
    assert all("sf-face" in text or "dataframe" in text for text in shown)
    (tmp_path / "executed.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")


def test_there_are_two_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2
