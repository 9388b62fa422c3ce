"""The quick reproduction of the papers: few seeds, wide tolerances, and every verdict as expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from papers import PAPERS, module_of, moore_swapping, pages, rerun, rerun_all, yancey_incomes
from papers.framework import (
    ABSENT,
    CONSISTENT,
    FITTED,
    MISPRINT,
    NOT,
    REPRODUCED,
    SHOWN,
    Cell,
    Context,
    Mean,
    Paper,
    Table,
    half_unit,
    load,
    save,
)
from papers.oganian_readings import TITANIC, Pairings, every_pairing, moments, read, swap
from sfumato.cli import main


def test_a_verdict_follows_from_the_figures() -> None:
    def cell(ours: float, **more: object) -> str:
        return Cell("r", "c", "0.955", ours, **{"tolerance": 0.001, **more}).verdict  # type: ignore[arg-type]

    assert cell(0.9555) == REPRODUCED
    assert cell(0.9570) == NOT
    assert cell(float("nan")) == NOT
    assert cell(0.9461, corrected="0.946") == MISPRINT
    assert cell(0.955, corrected="0.946") == NOT  # ours agrees with the misprint, not with the right figure
    assert cell(0.5, standing=ABSENT) == ABSENT
    # A tolerance of more than half of the figure would have taken nearly anything: printed 25, ours 79, ± 77.
    assert Cell("r", "c", "25", 79.0, tolerance=77.0).verdict == CONSISTENT
    assert Cell("r", "c", "25", 30.0, tolerance=12.0).verdict == REPRODUCED
    assert Cell("r", "c", "25", 79.0, tolerance=20.0).verdict == NOT
    assert Cell("r", "c", "0", 0.0, tolerance=0.5).verdict == REPRODUCED  # the rounding alone
    assert Cell("r", "c", "0", 2.0, tolerance=3.0).verdict == CONSISTENT


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
    table = Table("Table 1. Things", "About.", improved="better", tolerance="0.01: the fit")
    table.add("row | one", "x", "1.5", 1.52, improved="1.50")
    table.add("row two", "x", "1.5", 1.9, reason="an outlier")
    table.add("row three", "x", "2.5", 2.5, basis=FITTED)
    table.formula("row four", "x", "3.5", 3.5, "the sum")
    table.claim("x falls", False, "it rose", reason="chance")
    table.absent([("row five", "x", "7")], "Get it from its maker.")
    time = Table("Table 2. Times", "CPU.", timing=True)
    time.add("a", "CPU", "5:15", 0.123, standing=SHOWN)
    time.claim("it is quick", False, "it was slow", ours=True)
    paper = Paper("p", "Title", "Reference.", "About.", [table, time], 3, True, 12.0)
    save([paper], tmp_path)
    again = load(tmp_path)[0]
    assert pages.page(again) == pages.page(paper)
    assert pages.times([again]) == pages.times([paper])
    text = pages.index([again])
    assert "6 published cells" in text
    assert "The digits of 4 can be judged: 3 are reproduced" in text
    assert "1 are rerun, 1 follow by the paper's own formulas" in text
    assert "and 1 are figures that the synthetic deck was fitted to" in text
    assert all(word in text for word in ("an outlier", "x falls", "chance", "0.01: the fit"))
    page = pages.page(paper)
    assert all(
        word in page
        for word in (
            "row\N{NO-BREAK SPACE}\\|\N{NO-BREAK SPACE}one",
            "Get it from its maker.",
            "fitted",
            "by arithmetic",
        )
    )
    assert "0.123" in pages.times([paper])
    # Times are kept apart: neither the figures nor a page that must not change from run to run has one.
    figures = (tmp_path / "figures.json").read_text()
    assert not any(word in page + text + figures for word in ("0.123", "5:15", "it was slow"))
    assert "seconds" not in figures


def test_an_unknown_paper_or_too_few_seeds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
    assert main(["reproduce", "--seeds", "1"]) == 2
    assert "at least 2" in capsys.readouterr().err
    assert main(["reproduce", "--data", "no/such/folder"]) == 2
    assert main(["reproduce", "--jobs", "0"]) == 2


# Published cells, and how many may be outside the quick tolerance: those with a reason that no seed mends.
# Quick runs take 2 or 3 seeds (8 realisations, 500 to 6,000 records of a deck); k of the tolerance is then 5.
QUICK = {
    "moore-swapping": (291, 10),
    "moore-edit": (195, 4),
    "yancey": (748, 15),
    "oganian": (160, 30),
    "kim-winkler": (90, 0),
}


@pytest.fixture(scope="module", params=list(QUICK))
def quick(request: pytest.FixtureRequest, reference_data: Path) -> Paper:
    """One quick run of each paper, which several tests look at."""
    return rerun(request.param, Context(seeds=3, quick=True, data=reference_data, tell=lambda what: None))


@pytest.mark.statistical
def test_quick_reproduction(quick: Paper, tmp_path: Path) -> None:
    cells = [c for _, c in quick.cells()]
    count, most_failures = QUICK[quick.key]
    assert len(cells) == count, "no published cell may go missing"
    failures = [(t.title, c) for t, c in quick.cells() if c.verdict == NOT]
    assert len(failures) <= most_failures, failures
    assert all(c.reason for _, c in failures), "a cell that isn't reproduced must say why"
    judged = [c.verdict for c in cells if c.verdict in (REPRODUCED, CONSISTENT, MISPRINT, NOT)]
    assert not judged or judged.count(REPRODUCED) + judged.count(CONSISTENT) > 0.75 * len(judged)
    failed = [c for _, c in quick.claims() if c.holds is False]
    assert all(c.reason for c in failed), [c.sentence for c in failed if not c.reason]
    pages.write([quick], tmp_path)
    assert (tmp_path / f"{quick.key}.md").read_text().startswith(f"# {quick.title}")


@pytest.mark.statistical
def test_every_tolerance_says_where_it_comes_from(quick: Paper) -> None:
    """A tolerance beyond rounding and chance needs the table's word on it."""
    for table, cell in quick.cells():
        measured = cell.verdict in (REPRODUCED, CONSISTENT, MISPRINT, NOT) and not cell.error
        if measured and cell.tolerance > 1.01 * half_unit(cell.corrected or cell.published):
            assert table.tolerance, (table.title, cell.row, cell.column)


def test_without_its_data_a_paper_says_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, out = tmp_path / "empty", tmp_path / "out"
    empty.mkdir()
    assert main(["reproduce", "oganian", "--quick", "--data", str(empty), "--out", str(out)]) == 0
    text = (out / "oganian.md").read_text()
    assert "data not at hand" in text
    assert "PracTools" in text
    assert all(c.verdict == ABSENT for p in load(out) for _, c in p.cells())
    told = capsys.readouterr().out
    assert "wrote" in told
    assert "Data not at hand: smho_n874.csv" in told


def test_a_second_paper_joins_the_index(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    save([Paper("yancey", "Yancey", "", "", [], 3, True)], tmp_path)
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


def test_every_pairing_of_five_strata_is_another() -> None:
    """Fifteen ways to leave one of five out and pair the rest; the odd one with any of four: 60."""
    found = every_pairing(5)
    assert len({frozenset(frozenset(p) for p in pairs) | {pairs[2]} for pairs in found}) == 60
    assert all({s for pair in pairs for s in pair} == set(range(5)) for pairs in found)


def test_the_search_over_pairings_says_what_it_found() -> None:
    def figures(average: float) -> dict[str, float]:
        return {"average": average, "low": average - 0.5, "high": 1.0, "non_overlaps": 0.0}

    search = Pairings(
        {("Reg3", 20): (figures(0.8), figures(0.7)), ("Reg5", 20): (figures(0.7), figures(0.8))}
    )
    targets = {("Reg3", 20): (0.8, 0.02), ("Reg5", 20): (0.8, 0.02)}
    none = search.reason(("Reg5", 20, "average"), 0.5, 0.02, targets)
    assert "no pairing" in none
    assert "between 0.70 and 0.80" in none
    some = search.reason(("Reg5", 20, "average"), 0.8, 0.02, targets)
    assert "1 of all 2 pairings" in some
    assert "averages of Reg3 at 20" in some


def test_ratios_of_moments_by_hand(reference_data: Path) -> None:
    """The ratio of a stratum's mean, and sign changes, against NumPy on the frame itself."""
    context = Context(quick=True, data=reference_data, tell=lambda what: None)
    data = read(context, TITANIC)
    release = next(swap(TITANIC, 20).realisations(data, 1, seed=3))
    found = moments(data, [release], TITANIC)
    for s, name in enumerate(found.strata):
        where = [data.frame[c].cast(str) for c in ("Pclass", "Sex")]
        mine = (where[0] + " " + where[1]) == name
        after = [release.frame[c].cast(str) for c in ("Pclass", "Sex")]
        now = (after[0] + " " + after[1]) == name
        x, z = (data.frame.filter(m)["Fare"].to_numpy() for m in (mine, now))
        assert found.means[0, s, 1] == pytest.approx(x.mean() / z.mean())
        assert found.covariances[0, s, 1, 1] == pytest.approx(x.var(ddof=1) / z.var(ddof=1))
    assert found.strata[0] == "1 female"


def test_two_jobs_give_the_bytes_of_one(tmp_path: Path) -> None:
    """One paper that needs no data, and one that says its data aren't at hand."""
    empty = tmp_path / "empty"
    empty.mkdir()
    texts = []
    for jobs in (1, 2):
        found = rerun_all(["kim-winkler", "oganian"], seeds=2, quick=True, data=empty, tell=quiet, jobs=jobs)
        out = tmp_path / str(jobs)
        pages.write(found, out)
        save(found, out)
        texts.append({f.name: f.read_bytes() for f in out.iterdir() if not f.name.startswith("times")})
    assert texts[0] == texts[1]
    assert len(texts[0]) == 4


def quiet(what: str) -> None:
    """A function of a module, so that another process can be given it."""


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
