"""Group swapping on the paper's two data sets, against FORMULAS section 9 and the published tables."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.data.microdata import Microdata
from sfumato.masks.group_swap.pairs import Distances, fit_pair
from sfumato.utility.overlap_table import overlap_table

NUMBERS = "EXPTOTAL + BEDS + SEENCNT + EOYCNT"
# Strata in the order of their codes: Titanic class 1 female, 1 male, 2 female, …; FORMULAS numbers
# males first, so its stratum 1 (first class male) is ours 1, its 2 ours 0, and so on.
OURS = {1: 1, 2: 0, 3: 3, 4: 2, 5: 5, 6: 4}

TITANIC_U = {
    (1, 2): 0.1023, (1, 3): 0.1628, (1, 4): 0.2091, (1, 5): 0.1404, (1, 6): 0.2261,
    (2, 3): 0.2384, (2, 4): 0.2164, (2, 5): 0.1492, (2, 6): 0.2379, (3, 4): 0.1469,
    (3, 5): 0.0405, (3, 6): 0.1326, (4, 5): 0.0782, (4, 6): 0.1430, (5, 6): 0.0526,
}  # fmt: skip
SMHO_U = {
    (1, 2): 0.1160, (1, 3): 0.1271, (1, 4): 0.2302, (1, 5): 0.1726, (2, 3): 0.0819,
    (2, 4): 0.1584, (2, 5): 0.1129, (3, 4): 0.1399, (3, 5): 0.1553, (4, 5): 0.1283,
}  # fmt: skip
SEPARATED = {(2, 6), (4, 6)}


@cache
def titanic(folder: Path) -> Microdata:
    frame = pl.read_csv(folder / "titanic_889.csv")
    return Microdata(frame.with_columns(pl.col("Age").fill_null(pl.col("Age").mean())).drop("PassengerId"))


@cache
def smho(folder: Path) -> Microdata:
    return Microdata(pl.read_csv(folder / "smho_n874.csv").drop("id"))


def titanic_swap(**changes: object) -> sf.GroupSwap:
    return sf.GroupSwap(
        **{
            "strata": ["Pclass", "Sex"],
            "n_swap": 20,
            "formula": "Survived * (Age + Fare + SibSp + Parch)",
            "centre": "half",
            **changes,
        }
    )


def smho_swap(**changes: object) -> sf.GroupSwap:
    return sf.GroupSwap(
        **{
            "strata": ["hosp_type"],
            "n_swap": 20,
            "formula": f"FINDIRCT * ({NUMBERS})",
            "distance_formula": f"FINDIRCT + {NUMBERS}",
            "centre": "half",
            **changes,
        }
    )


def chosen(mask: sf.GroupSwap, data: Microdata) -> list[tuple[int, int]]:
    return [p.pair for p in mask.prepare(data).pairs]


def test_distances_of_titanic_strata(reference_data: Path) -> None:
    plan = titanic_swap().prepare(titanic(reference_data))
    assert np.diff(plan.starts)[[OURS[s] for s in range(1, 7)]].tolist() == [122, 92, 108, 76, 347, 144]
    strata = [plan.terms[:, plan.starts[s] : plan.starts[s + 1]] for s in range(6)]
    distances = Distances(strata)
    for (a, b), want in TITANIC_U.items():
        pair = (min(OURS[a], OURS[b]), max(OURS[a], OURS[b]))
        tolerance = 0.002 if (a, b) in SEPARATED else 0.0005
        assert distances[pair] == pytest.approx(want, abs=tolerance), (a, b)


def test_distances_of_hospital_types(reference_data: Path) -> None:
    plan = smho_swap(formula=f"FINDIRCT + {NUMBERS}").prepare(smho(reference_data))
    strata = [plan.terms[:, plan.starts[s] : plan.starts[s + 1]] for s in range(5)]
    distances = Distances(strata)
    for (a, b), want in SMHO_U.items():
        assert distances[a - 1, b - 1] == pytest.approx(want, abs=0.0005), (a, b)


@pytest.mark.parametrize("search", ["exact", "fast"])
@pytest.mark.parametrize("pairing", ["greedy", "matching"])
def test_pairs_of_both_centres(reference_data: Path, pairing: str, search: str) -> None:
    def named(pairs: list[tuple[int, int]]) -> set[frozenset[int]]:
        return {frozenset(OURS[s] for s in pair) for pair in pairs}

    for centre, want in {"share": [(3, 5), (1, 2), (4, 6)], "half": [(5, 6), (1, 2), (3, 4)]}.items():
        found = chosen(titanic_swap(centre=centre, pairing=pairing, search=search), titanic(reference_data))
        assert {frozenset(p) for p in found} == named(want)
    for centre, want in {"share": [(2, 3), (4, 5), (1, 2)], "half": [(2, 5), (1, 3), (4, 5)]}.items():
        found = chosen(smho_swap(centre=centre, pairing=pairing, search=search), smho(reference_data))
        assert {frozenset(p) for p in found} == {frozenset(s - 1 for s in pair) for pair in want}


def test_capacities(reference_data: Path) -> None:
    found = sorted(p.capacity for p in titanic_swap().prepare(titanic(reference_data)).pairs)
    assert found == pytest.approx([17.6, 30.6, 75.9], abs=0.1)


def test_the_same_totals_are_expected_both_ways(reference_data: Path) -> None:
    """Σ_A e x = Σ_B (1 − e) x for every term (the score equations), and Σ e(1 − e) = N[c(1 − c) − U]."""
    plan = titanic_swap().prepare(titanic(reference_data))
    for a in range(0, 6, 2):
        one, two = (plan.terms[:, plan.starts[s] : plan.starts[s + 1]] for s in (a, a + 1))
        fit = fit_pair(one, two)
        e = fit.scores
        out, back = one @ e[: one.shape[1]], two @ (1 - e[one.shape[1] :])
        assert np.abs(out - back).max() < 1e-4
        n, c = len(e), fit.share
        assert fit.capacity == pytest.approx(n * (c * (1 - c) - fit.u), abs=1e-4)
        assert fit.u <= c * (1 - c)


def test_the_automatic_model_is_the_papers(reference_data: Path) -> None:
    mask = sf.GroupSwap(
        strata=["Pclass", "Sex"], n_swap=20, covariates=["Survived", "Age", "Fare", "SibSp", "Parch"]
    )
    names = set(mask.prepare(titanic(reference_data)).term_names)
    assert names == {
        "Survived", "Age", "Fare", "SibSp", "Parch",
        "Survived:Age", "Survived:Fare", "Survived:SibSp", "Survived:Parch",
    }  # fmt: skip


# -- interval overlap over realisations -------------------------------------------------------------

REST = "BEDS + SEENCNT + EOYCNT"
REALISATIONS = 30
# FORMULAS section 9: J average at n_swap 20 and 40.
CONDITIONAL = {
    "Reg1": (0.899, 0.684), "Reg2": (0.845, 0.801), "Reg3": (0.912, 0.849),
    "Reg4": (0.948, 0.942), "Reg5": (0.848, 0.803), "Reg6": (0.825, 0.738),
}  # fmt: skip
UNIFORM = {
    "Reg1": (0.519, 0.151), "Reg2": (0.775, 0.701), "Reg3": (0.781, 0.638),
    "Reg4": (0.868, 0.770), "Reg5": (0.772, 0.676), "Reg6": (0.765, 0.674),
}  # fmt: skip
# FORMULAS' balanced figures are of a prototype in which a record that has moved can't be drawn again
# (move_again=False); only SMHO, with its odd stratum, has such records.
BALANCED = {"Reg1": (0.985, 0.986), "Reg2": (0.915, 0.868), "Reg3": (0.964, 0.914), "Reg5": (0.895, 0.839)}


def regressions() -> tuple[dict[str, sf.IntervalOverlap], dict[str, sf.IntervalOverlap]]:
    def logistic(formula: str, within: list[str]) -> sf.IntervalOverlap:
        return sf.IntervalOverlap(formula=formula, family="logistic", within=within)

    kind = ["hosp_type"]
    return {
        "Reg1": logistic("Survived ~ Pclass + Sex + Age", []),
        "Reg2": logistic("Survived ~ Age + Fare", ["Pclass", "Sex"]),
    }, {
        "Reg3": logistic(f"FINDIRCT ~ EXPTOTAL + {REST} + hosp_type", []),
        "Reg4": sf.IntervalOverlap(formula=f"EXPTOTAL ~ {REST} + FINDIRCT + hosp_type"),
        "Reg5": logistic(f"FINDIRCT ~ EXPTOTAL + {REST}", kind),
        "Reg6": sf.IntervalOverlap(formula=f"EXPTOTAL ~ {REST} + FINDIRCT", within=kind),
    }


@cache
def overlaps(folder: Path, n_swap: int, **more: object) -> dict[str, dict[str, float]]:
    """Analysis → its row of the table."""
    one = titanic(folder).with_variable("Pclass", kind="categorical")
    two = smho(folder).with_variable("hosp_type", kind="categorical")
    masks = (titanic_swap(n_swap=n_swap, **more), smho_swap(n_swap=n_swap, **more))
    out = {}
    for data, mask, analyses in zip((one, two), masks, regressions(), strict=True):
        table = overlap_table(data, mask.realisations(data, REALISATIONS, seed=1), analyses)
        out |= {row["analysis"]: row for row in table.to_dicts()}
    return out


@pytest.mark.parametrize("at", [0, 1], ids=["20", "40"])
@pytest.mark.parametrize(
    ("more", "figures"),
    [
        ({}, CONDITIONAL),
        ({"probabilities": "uniform"}, UNIFORM),
        ({"draw": "balanced", "move_again": False}, BALANCED),
    ],
    ids=["conditional", "uniform", "balanced"],
)
def test_overlap_of_intervals(
    reference_data: Path, more: dict[str, object], figures: dict[str, tuple[float, float]], at: int
) -> None:
    """Within four standard errors of ours and 0.01 for those of the figures themselves.

    The last terms are given up first when the balanced draw lands, and the prototype had FINDIRCT after
    the numbers: its own Reg3 is 0.008 higher with the order here, hence the same 0.01.
    """
    found = overlaps(reference_data, (20, 40)[at], **more)
    for name, want in figures.items():
        row = found[name]
        tolerance = 4 * row["standard_error"] + 0.01
        assert row["average"] == pytest.approx(want[at], abs=tolerance), name


def test_moving_twice_costs_no_overlap_at_the_balanced_draw(reference_data: Path) -> None:
    """The published rule (only arrivals of the same swap are excluded) keeps Reg3 and Reg5 better at 40.

    The prototype without its exclusion gives 0.969 and 0.868 (60 realisations, errors 0.001 and 0.003).
    """
    found = overlaps(reference_data, 40, draw="balanced")
    for name, want in {"Reg3": 0.969, "Reg5": 0.868}.items():
        row = found[name]
        assert row["average"] == pytest.approx(want, abs=4 * row["standard_error"] + 0.01), name


@pytest.mark.parametrize("n_swap", [20, 40])
def test_conditional_beats_uniform_everywhere(reference_data: Path, n_swap: int) -> None:
    conditional = overlaps(reference_data, n_swap)
    uniform = overlaps(reference_data, n_swap, probabilities="uniform")
    for name in CONDITIONAL:
        assert conditional[name]["average"] > uniform[name]["average"], name


def test_sex_and_survival_survive_the_balanced_draw(reference_data: Path) -> None:
    """Uniform swaps tear them apart in every realisation, published draws at 40 in many, balanced in none."""
    apart = {
        label: overlaps(reference_data, 40, **more)["Reg1"]["non_overlaps"] / REALISATIONS
        for label, more in {
            "uniform": {"probabilities": "uniform"}, "published": {}, "balanced": {"draw": "balanced"},
        }.items()
    }  # fmt: skip
    assert apart["uniform"] == pytest.approx(1.05, abs=0.15)  # 105 of 500 in 100 realisations
    # 35 ± 12 in 100 realisations; in fewer the error grows with the root.
    assert apart["published"] == pytest.approx(0.35, abs=0.12 * math.sqrt(100 / REALISATIONS))
    assert apart["balanced"] == 0


def test_mean_ratios(reference_data: Path) -> None:
    """The central 90% of original/masked stratum means at 40: narrower when conditional (table 2)."""
    data = titanic(reference_data)
    measure = sf.MomentRatios(columns=["Age", "Fare", "SibSp", "Parch"], within=["Pclass", "Sex"])
    width = {}
    for probabilities in ("conditional", "uniform"):
        mask = titanic_swap(n_swap=40, probabilities=probabilities)
        ratios = np.concatenate(
            [
                table.filter(pl.col("kind") == "mean")["ratio"].to_numpy()
                for masked in mask.realisations(data, 20, seed=3)
                if (table := measure.measure(data, masked).breakdown) is not None
            ]
        )
        low, high = np.quantile(ratios, [0.05, 0.95])
        width[probabilities] = high - low
        want = {"conditional": (0.86, 1.15), "uniform": (0.71, 1.41)}[probabilities]
        assert low == pytest.approx(want[0], abs=0.05)
        assert high == pytest.approx(want[1], abs=0.09)
    assert width["conditional"] < 0.7 * width["uniform"]
