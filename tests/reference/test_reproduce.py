"""The quick reproduction of the papers: few seeds, wide tolerances, and every verdict as expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.cli import main
from sfumato.reproduce import PAPERS, module_of, moore_swapping, pages, rerun, yancey_incomes
from sfumato.reproduce.framework import (
    ABSENT,
    MISPRINT,
    NOT,
    REPRODUCED,
    Cell,
    Context,
    Mean,
    Paper,
    Table,
    half_unit,
    load,
    save,
)


def test_a_verdict_follows_from_the_figures() -> None:
    def cell(ours: float, **more: object) -> str:
        return Cell("r", "c", "0.955", ours, **{"tolerance": 0.001, **more}).verdict  # type: ignore[arg-type]

    assert cell(0.9555) == REPRODUCED
    assert cell(0.9570) == NOT
    assert cell(float("nan")) == NOT
    assert cell(0.9461, corrected="0.946") == MISPRINT
    assert cell(0.955, corrected="0.946") == NOT  # ours agrees with the misprint, not with the right figure
    assert cell(0.5, standing=ABSENT) == ABSENT


def test_the_tolerance_is_rounding_allowance_and_chance() -> None:
    ours = Mean((1.0, 2.0, 3.0))  # standard deviation 1
    assert ours.error == pytest.approx(1 / 3**0.5)
    assert ours.factor == 5  # Student's quantile would be 19
    assert Mean(tuple(range(20))).factor == pytest.approx(3.45, abs=0.01)
    assert ours.tolerance("2.0", {}) == pytest.approx(0.05 + 5 * (1 + 1 / 3) ** 0.5)
    assert ours.tolerance("2.0", {"runs": 100, "allowance": 0.5}) == pytest.approx(
        0.55 + 5 * (1 / 100 + 1 / 3) ** 0.5
    )
    assert half_unit("15.90") == 0.005


def test_a_formula_that_is_off_is_a_misprint() -> None:
    table = Table("t", "")
    table.formula("a", "b", "0.541", 0.5463, "the product")
    table.formula("a", "c", "0.546", 0.5463, "the product")
    assert [c.verdict for c in table.cells] == [MISPRINT, REPRODUCED]
    assert table.cells[0].corrected == "0.546"


def test_pages_and_figures_come_back(tmp_path: Path) -> None:
    table = Table("Table 1", "About.", improved="better")
    table.add("row | one", "x", "1.5", 1.52, improved="1.50")
    table.add("row two", "x", "1.5", 1.9, reason="an outlier")
    table.claim("x falls", False, "it rose", reason="chance")
    table.absent([("row three", "x", "7")], "Get it from its maker.")
    paper = Paper("p", "Title", "Reference.", "About.", [table], 3, True)
    save([paper], tmp_path / "figures.json")
    again = load(tmp_path / "figures.json")[0]
    assert pages.page(again) == pages.page(paper)
    text = pages.index([again])
    assert "Of 2 cells whose digits can be judged, 1 are reproduced" in text
    assert all(word in text for word in ("an outlier", "x falls", "chance"))
    assert all(word in pages.page(paper) for word in ("row \\| one", "Get it from its maker."))


def test_an_unknown_paper_or_too_few_seeds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
    assert main(["reproduce", "--seeds", "1"]) == 2
    assert "at least 2" in capsys.readouterr().err
    assert main(["reproduce", "--data", "no/such/folder"]) == 2


# How many cells may be outside the quick tolerance: those with a stated reason that no seed mends.
QUICK = {
    "moore-swapping": (280, 6),
    "moore-edit": (180, 4),
    "yancey": (700, 15),
    "oganian": (150, 30),
    "kim-winkler": (80, 0),
}


@pytest.mark.statistical
@pytest.mark.parametrize("key", list(QUICK))
def test_quick_reproduction(key: str, reference_data: Path, tmp_path: Path) -> None:
    context = Context(seeds=3, quick=True, data=reference_data, tell=lambda what: None)
    paper = rerun(key, context)
    cells = [c for _, c in paper.cells()]
    least, most_failures = QUICK[key]
    assert len(cells) >= least
    failures = [(t.title, c) for t, c in paper.cells() if c.verdict == NOT]
    assert len(failures) <= most_failures, failures
    assert all(c.reason for _, c in failures), "a cell that isn't reproduced must say why"
    judged = [c.verdict for c in cells if c.verdict in (REPRODUCED, MISPRINT, NOT)]
    assert not judged or judged.count(REPRODUCED) > 0.75 * len(judged)
    failed = [c for _, c in paper.claims() if c.holds is False]
    assert all(c.reason for c in failed), [c.sentence for c in failed if not c.reason]
    pages.write([paper], tmp_path)
    assert (tmp_path / f"{key}.md").read_text().startswith(f"# {paper.title}")


def test_without_its_data_a_paper_says_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, out = tmp_path / "empty", tmp_path / "out"
    empty.mkdir()
    assert main(["reproduce", "oganian", "--quick", "--data", str(empty), "--out", str(out)]) == 0
    text = (out / "oganian.md").read_text()
    assert "data not at hand" in text
    assert "PracTools" in text
    assert all(c.verdict == ABSENT for p in load(out / "figures.json") for _, c in p.cells())
    assert "wrote" in capsys.readouterr().out


def test_a_second_paper_joins_the_index(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    save([Paper("yancey", "Yancey", "", "", [], 3, True)], tmp_path / "figures.json")
    assert main(["reproduce", "oganian", "--quick", "--data", str(empty), "--out", str(tmp_path)]) == 0
    index = (tmp_path / "index.md").read_text()
    assert "yancey.md" in index
    assert "oganian.md" in index


def test_the_misprints_of_table_7_follow_from_its_own_parts() -> None:
    """FORMULAS section 8: the rank-swap rows aren't divided by 2 (98.35 should be 49.2)."""
    cells = yancey_incomes._table_7().cells
    swaps = [c for c in cells if c.row.startswith("rnkswp")]
    assert [c.verdict for c in swaps] == [MISPRINT] * 18
    assert swaps[0].corrected == "49.16"
    assert sum(c.verdict == REPRODUCED for c in cells) > 40


def test_theorem_windows_show_the_misprints_of_table_4() -> None:
    """FORMULAS section 1: HOME VALUE's intervals should be 4.29, 6.07, 8.58."""
    found = [moore_swapping.theorem("HOME_VAL", s)[0] for s in list(moore_swapping.SETTINGS)[:3]]
    assert found == pytest.approx([4.29, 6.07, 8.58], abs=0.005)
    assert moore_swapping.theorem("INCOME", "K0 = 0.10")[0] == pytest.approx(1.86, abs=0.005)


def test_every_paper_has_its_module() -> None:
    for key in PAPERS:
        module = module_of(key)
        assert all((module.TITLE, module.REFERENCE, module.ABOUT, module.TABLES))
        assert all(make.__doc__ for make in module.TABLES)
