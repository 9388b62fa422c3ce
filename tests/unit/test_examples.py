"""Every example plan runs, keeps its promises and gives nothing back by a rule."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
@pytest.mark.parametrize("path", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_it_runs_on_the_deck_that_it_names(path: Path) -> None:
    run = sf.Plan.load(path).run(sf.decks.incomes(600), seed=1, measure=False)
    assert run.ok
    total = sum(run.masked.numbers(c) for c in run.masked.schema["TOTAL_INC"].sum_of)
    assert abs(run.masked.numbers("TOTAL_INC") - total).max() < 1
