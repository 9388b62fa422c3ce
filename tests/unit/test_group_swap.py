"""Group swapping: what it keeps, what it refuses, what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.contract.mask import Notes
from sfumato.data.microdata import Microdata
from sfumato.draws import Seed
from sfumato.errors import MaskError, ParameterError
from sfumato.utility.overlap_table import overlap_table

ROOT = Path(__file__).resolve().parents[2]


def people(n: int = 300, strata: int = 4, seed: int = 1) -> Microdata:
    rng = np.random.default_rng(seed)
    area = rng.integers(0, strata, n)
    x = rng.normal(0.3 * area, 1, n)
    return Microdata(
        pl.DataFrame(
            {
                "AREA": [f"a{v}" for v in area],
                "SEX": rng.choice(["f", "m"], n),
                "X": x,
                "Y": 2 * x + rng.normal(0, 1, n),
                "WORKS": rng.integers(0, 2, n),
            }
        )
    )


def noted(mask: sf.GroupSwap, data: Microdata, seed: int = 1) -> tuple[Microdata, Notes]:
    masked, notes, _ = mask.carry_out(data, Seed.from_int(seed).draws("group_swap"))
    return masked, notes


def moved(before: Microdata, after: Microdata, columns: list[str]) -> int:
    rows = [before.frame[c].ne_missing(after.frame[c]) for c in columns]
    return int(pl.DataFrame(dict(enumerate_names(rows))).select(pl.any_horizontal(pl.all())).sum().item())


def enumerate_names(rows: list[pl.Series]) -> list[tuple[str, pl.Series]]:
    return [(str(i), r) for i, r in enumerate(rows)]


@given(
    st.integers(0, 500),
    st.integers(2, 5),
    st.integers(1, 6),
    st.sampled_from(["conditional", "uniform"]),
    st.sampled_from(["successive", "balanced"]),
    st.sampled_from(["equal", "capacity"]),
    st.sampled_from(["greedy", "matching"]),
)
@settings(max_examples=40)
def test_sizes_stay_and_the_number_asked_for_moves(
    seed: int, strata: int, k: int, probabilities: Any, draw: Any, allocation: Any, pairing: Any
) -> None:
    data = people(120, strata, seed)
    mask = sf.GroupSwap(
        strata=["AREA"],
        n_swap=k,
        covariates=["X", "Y"],
        probabilities=probabilities,
        draw=draw,
        allocation=allocation,
        pairing=pairing,
        small_strata="fewer",
        move_again=False,
    )
    masked, notes = noted(mask, data, seed)
    counts = [f.frame["AREA"].value_counts().sort("AREA") for f in (data, masked)]
    assert counts[0].equals(counts[1])
    rest = [c for c in data.columns if c != "AREA"]
    assert masked.frame.select(rest).equals(data.frame.select(rest))
    pairs = (strata + 1) // 2
    assert notes.figures["moves"] == notes.figures["records_moved"] == moved(data, masked, ["AREA"])
    assert notes.figures["moves"] == 2 * pairs * k
    assert sum(notes.figures["swapped_each_way"].values()) == pairs * k
    assert notes.log is not None
    assert notes.log.height == 2 * pairs * k


def test_the_log_says_who_went_where() -> None:
    data = people()
    masked, notes = noted(sf.GroupSwap(strata=["AREA"], n_swap=10), data)
    assert notes.log is not None
    for record, start, end in notes.log.iter_rows():
        assert data.frame["AREA"][record] == start != end == masked.frame["AREA"][record]


def test_whole_labels_move_and_nothing_crosses_within() -> None:
    data = people(400, 2)
    both = sf.GroupSwap(strata=["AREA", "SEX"], rate_percent=20, covariates=["X", "Y"])
    masked, _ = noted(both, data)
    table = [f.frame.group_by("AREA", "SEX").len().sort("AREA", "SEX") for f in (data, masked)]
    assert table[0].equals(table[1])
    inside = sf.GroupSwap(strata=["AREA"], within=["SEX"], rate_percent=20, covariates=["X", "Y"])
    masked, notes = noted(inside, data)
    assert masked.frame["SEX"].equals(data.frame["SEX"])
    table = [f.frame.group_by("AREA", "SEX").len().sort("AREA", "SEX") for f in (data, masked)]
    assert table[0].equals(table[1])
    assert moved(data, masked, ["AREA"]) == notes.figures["records_moved"] > 0


def test_an_odd_stratum_goes_with_its_nearest() -> None:
    data = people(300, 3)
    again = sf.GroupSwap(strata=["AREA"], n_swap=60, covariates=["X", "Y"], small_strata="fewer")
    _, notes = noted(again, data)
    assert len(notes.figures["u_p"]) == 2
    assert notes.figures["records_moved"] < notes.figures["moves"]
    assert any("moved twice" in w for w in notes.warnings)
    once = replace(again, move_again=False)
    masked, notes = noted(once, data)
    assert notes.figures["records_moved"] == notes.figures["moves"] == moved(data, masked, ["AREA"])


def test_records_without_a_stratum_stay() -> None:
    data = people()
    gone = data.frame.with_columns(
        AREA=pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise(pl.col("AREA"))
    )
    masked = sf.GroupSwap(strata=["AREA"], rate_percent=40, covariates=["X"]).mask(gone, seed=1)
    assert masked.frame["AREA"].is_null().equals(gone["AREA"].is_null())
    assert masked.frame["AREA"].null_count() > 0


def test_missing_covariates_are_filled_flagged_and_told() -> None:
    frame = people().frame.with_columns(
        X=pl.when(pl.int_range(pl.len()) % 5 == 0).then(None).otherwise(pl.col("X"))
    )
    by_names = sf.GroupSwap(strata=["AREA"], n_swap=5, covariates=["X", "Y"])
    by_formula = sf.GroupSwap(strata=["AREA"], n_swap=5, formula="X + Y")
    for mask in (by_names, by_formula):
        _, notes = noted(mask, Microdata(frame))
        assert "X missing" in notes.figures["terms"]
        assert any("X is missing in 60 records" in w for w in notes.warnings)


def test_more_than_the_capacity_is_warned_of() -> None:
    data = people()
    few = noted(sf.GroupSwap(strata=["AREA"], n_swap=2, covariates=["X", "Y"]), data)[1]
    many = noted(sf.GroupSwap(strata=["AREA"], n_swap=50, covariates=["X", "Y"]), data)[1]
    assert not any("capacity" in w for w in few.warnings)
    assert any("capacity" in w for w in many.warnings)


def test_realisations_differ_and_repeat() -> None:
    data = people()
    mask = sf.GroupSwap(strata=["AREA"], n_swap=10)
    one, two, three = (m.frame["AREA"].to_list() for m in mask.realisations(data, 3, seed=4))
    assert one != two != three
    assert one == next(iter(mask.realisations(data, 1, seed=4))).frame["AREA"].to_list()


def test_the_overlap_table_is_the_measures_average() -> None:
    """Against IntervalOverlap, one realisation after another."""
    data = people()
    mask = sf.GroupSwap(strata=["AREA"], n_swap=20)
    analyses = {
        "linear": sf.IntervalOverlap(formula="Y ~ X", within=["AREA"]),
        "logistic": sf.IntervalOverlap(formula="WORKS ~ X + AREA", family="logistic"),
        "product": sf.IntervalOverlap(formula="Y ~ X * SEX"),
    }
    masked = list(mask.realisations(data, 3, seed=2))
    table = overlap_table(data, masked, analyses)
    for name, one in analyses.items():
        j = np.concatenate([one.measure(data, m).breakdown["j"].to_numpy() for m in masked])
        row = table.row(by_predicate=pl.col("analysis") == name, named=True)
        assert row["average"] == pytest.approx(j.mean(), abs=1e-6)
        assert row["low"] == pytest.approx(np.quantile(j, 0.05), abs=1e-6)
        assert row["non_overlaps"] == (j < 0).sum()
        assert row["intervals"] == len(j)


def test_the_overlap_table_with_missing_values() -> None:
    frame = people().frame.with_columns(
        X=pl.when(pl.int_range(pl.len()) % 9 == 0).then(None).otherwise(pl.col("X"))
    )
    mask = sf.GroupSwap(strata=["AREA"], n_swap=10)
    one = sf.IntervalOverlap(formula="Y ~ X", within=["AREA"])
    masked = list(mask.realisations(frame, 2, seed=2))
    want = np.mean([one.measure(frame, m).value for m in masked])
    assert overlap_table(frame, masked, {"a": one})["average"][0] == pytest.approx(want)


# -- bad input ------------------------------------------------------------------------------------


def test_a_stratum_smaller_than_n_swap() -> None:
    frame = people().frame
    frame = pl.concat([frame, frame[:4].with_columns(AREA=pl.lit("tiny"))])
    mask = sf.GroupSwap(strata=["AREA"], n_swap=10, covariates=["X", "Y"])
    with pytest.raises(MaskError, match=r"tiny \(4\)"):
        mask.mask(frame, seed=1)
    _, notes = noted(replace(mask, small_strata="fewer"), Microdata(frame))
    assert notes.figures["moved_percent"]["tiny"] == 50
    masked, notes = noted(replace(mask, small_strata="leave"), Microdata(frame))
    assert notes.figures["moved_percent"]["tiny"] == 0
    assert (masked.frame["AREA"][-4:] == "tiny").all()
    assert any("left out" in w for w in notes.warnings)


def test_a_stratum_of_one_record() -> None:
    frame = people().frame
    frame = pl.concat([frame, frame[:1].with_columns(AREA=pl.lit("one"))])
    with pytest.raises(MaskError, match=r"one \(1\)"):
        sf.GroupSwap(strata=["AREA"], n_swap=5, covariates=["X", "Y"]).mask(frame, seed=1)
    _, notes = noted(sf.GroupSwap(strata=["AREA"], rate_percent=10, covariates=["X"]), Microdata(frame))
    assert any("no record is swapped" in w and "one" in w for w in notes.warnings)


def test_a_stratum_too_small_to_swap_takes_nobodys_partner() -> None:
    """With it left out, the others are paired as without it."""
    data = people(300, 4)
    frame = pl.concat([data.frame, data.frame[:1].with_columns(AREA=pl.lit("one"))])
    for more in (
        {"rate_percent": 10},
        {"n_swap": 5, "small_strata": "fewer"},
        {"n_swap": 5, "draw": "balanced"},
    ):
        mask = sf.GroupSwap(strata=["AREA"], covariates=["X", "Y"], **more)
        _, alone = noted(mask, data)
        _, with_one = noted(mask, Microdata(frame))
        assert set(with_one.figures["u_p"]) == set(alone.figures["u_p"])
        assert with_one.figures["swapped_each_way"] == alone.figures["swapped_each_way"]
        assert any("no record is swapped in one (1)" in w for w in with_one.warnings)


def test_distances_of_all_pairs() -> None:
    """Against scikit-learn's unpenalised fit, in both centres."""
    from sklearn.linear_model import LogisticRegression

    data = people(300, 4)
    mask = sf.GroupSwap(strata=["AREA"], n_swap=5, formula="X + Y", pairing="greedy")
    table = mask.distances(data)
    assert table.height == 6
    assert table["distance"].is_sorted()
    assert table["chosen"].sum() == 2
    assert table["chosen"][0]  # greedy takes the nearest pair
    for row in table.to_dicts():
        part = data.frame.filter(pl.col("AREA").is_in([row["first"], row["second"]]))
        y = (part["AREA"] == row["second"]).to_numpy()
        X = part.select("X", "Y").to_numpy()
        p = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, y).predict_proba(X)[:, 1]
        assert row["u_p"] == pytest.approx(np.mean((p - y.mean()) ** 2), abs=1e-6)
        assert row["capacity"] == pytest.approx((p * (1 - p)).sum(), abs=1e-3)
    half = {(r["first"], r["second"]): r for r in replace(mask, centre="half").distances(data).to_dicts()}
    for row in table.to_dicts():
        other = half[row["first"], row["second"]]
        assert other["distance"] == pytest.approx(row["u_p"] + (row["share"] - 0.5) ** 2)


def test_only_the_columns_that_differ_change() -> None:
    data = people(400, 2)
    frame = data.frame.with_columns(X=pl.col("X") + 6 * (pl.col("SEX") == "m"))  # areas are alike, sexes not
    masked, notes = noted(sf.GroupSwap(strata=["AREA", "SEX"], n_swap=9, covariates=["X"]), Microdata(frame))
    assert list(notes.figures["columns_changed"].values()) == [["AREA"], ["AREA"]]
    assert masked.frame["SEX"].equals(frame["SEX"])
    assert moved(Microdata(frame), masked, ["AREA"]) == 36


def test_a_formula_over_a_text_with_many_levels() -> None:
    frame = people().frame.with_columns(NAME=pl.format("n{}", pl.int_range(pl.len()) % 150))
    _, notes = noted(sf.GroupSwap(strata=["AREA"], n_swap=5, formula="X + NAME"), Microdata(frame))
    assert len(notes.figures["terms"]) == 21
    assert any("NAME has 130 more categories" in w for w in notes.warnings)


@pytest.mark.parametrize(
    ("step", "code", "said"),
    [
        ("n_swap = 90", 2, "fewer than n_swap = 90 records"),
        ("n_swap = 5\ncovariates = ['GONE']", 2, "no covariate with a known, varying value"),
        ("n_swap = 5\ncovariates = ['SAME']", 2, "no covariate with a known, varying value"),
        ("n_swap = 5\ncovariates = ['X', 'NAME']", 0, "more categories than the model has room for"),
        ("n_swap = 5\ncovariates = ['APART']", 0, "apart (almost) completely"),
        ("n_swap = 60\ncovariates = ['X', 'Y']", 0, "capacity of the pair"),
        ("rate_percent = 10\ndraw = 'balanced'\nformula = 'X + Y'", 0, ""),
        ("n_swap = 5\nrate_percent = 10", 2, "one of `n_swap` and `rate_percent`"),
        ("n_swap = 5\npairing = 'nearest'", 2, "pairing"),
    ],
)
def test_a_plan_file_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], step: str, code: int, said: str
) -> None:
    from sfumato.cli.command import call

    frame = people(300, 4).frame.with_columns(
        GONE=pl.lit(None, dtype=pl.Float64),
        SAME=pl.lit(3.0),
        NAME=pl.format("n{}", pl.int_range(pl.len()) % 150),
        APART=pl.col("AREA").str.slice(1).cast(pl.Float64) * 10,
    )
    frame.write_parquet(tmp_path / "people.parquet")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f"format = 1\ndata = 'people.parquet'\n[[step]]\nmask = 'group_swap'\nstrata = ['AREA']\n{step}\n"
        "[release]\nidentifiers = ['NAME']\n"
    )
    assert call("run", [str(plan), "--out", str(tmp_path / "out")]) == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
    if code == 0:
        after = pl.read_parquet(next((tmp_path / "out" / "public").glob("*.parquet")))
        counts = [f["AREA"].value_counts().sort("AREA") for f in (frame, after)]
        assert counts[0].equals(counts[1])
    else:
        assert not (tmp_path / "out").exists()


def test_a_covariate_that_is_constant_within_a_pair() -> None:
    frame = people(200, 2).frame.with_columns(Z=pl.lit(3.0), W=pl.lit("same"))
    _, notes = noted(sf.GroupSwap(strata=["AREA"], n_swap=5, covariates=["X", "Z", "W"]), Microdata(frame))
    assert notes.figures["terms"] == ["X"]
    four = people(300, 4).frame.with_columns(Z=(pl.col("AREA") > "a1").cast(pl.Float64))
    _, notes = noted(sf.GroupSwap(strata=["AREA"], n_swap=5, covariates=["X", "Z"]), Microdata(four))
    assert notes.figures["records_moved"] == 20
    assert max(notes.figures["u_p"].values()) < 0.2


def test_perfect_separation() -> None:
    data = people(200, 2)
    frame = data.frame.with_columns(Z=pl.col("AREA").str.slice(1).cast(pl.Float64) * 10 + pl.col("X") / 100)
    masked, notes = noted(sf.GroupSwap(strata=["AREA"], n_swap=5, covariates=["Z"]), Microdata(frame))
    assert moved(data, masked, ["AREA"]) == 10
    assert any("apart (almost) completely" in w for w in notes.warnings)
    (u,) = notes.figures["u_p"].values()
    share = (frame["AREA"] == "a1").mean()
    assert isinstance(share, float)
    assert u <= share * (1 - share)


def test_text_covariates_with_many_levels() -> None:
    frame = people().frame.with_columns(NAME=pl.format("n{}", pl.int_range(pl.len()) % 150))
    mask = sf.GroupSwap(strata=["AREA"], n_swap=5, covariates=["X", "NAME"])
    _, notes = noted(mask, Microdata(frame))
    assert len(notes.figures["terms"]) < 25
    assert any("NAME has" in w and "more categories" in w for w in notes.warnings)


def test_all_covariates_missing() -> None:
    frame = people().frame.with_columns(X=pl.lit(None, dtype=pl.Float64), Y=pl.lit(None, dtype=pl.Float64))
    for model in ({"covariates": ["X", "Y"]}, {"formula": "X + Y"}):
        with pytest.raises(MaskError, match=r"covariate|missing"):
            sf.GroupSwap(strata=["AREA"], n_swap=5, **model).mask(frame, seed=1)
    _, notes = noted(sf.GroupSwap(strata=["AREA"], n_swap=5), Microdata(frame))
    assert any("every value of X, Y is missing" in w for w in notes.warnings)


def test_infinite_covariates_and_a_single_stratum() -> None:
    frame = people().frame
    infinite = frame.with_columns(X=pl.when(pl.col("X") > 2).then(float("inf")).otherwise(pl.col("X")))
    with pytest.raises(MaskError, match="infinite"):
        sf.GroupSwap(strata=["AREA"], n_swap=5, covariates=["X"]).mask(infinite, seed=1)
    with pytest.raises(MaskError, match="no two strata"):
        sf.GroupSwap(strata=["AREA"], n_swap=5, covariates=["X"]).mask(
            frame.with_columns(AREA=pl.lit("a")), seed=1
        )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_swap": None}, "one of `n_swap` and `rate_percent`"),
        ({"rate_percent": 5}, "one of `n_swap` and `rate_percent`"),
        ({"covariates": ["AREA"]}, "AREA is a stratum column"),
        ({"within": ["AREA"]}, "AREA is a stratum column"),
        ({"formula": "X + AREA"}, "AREA is a stratum column"),
        ({"formula": "X", "covariates": ["X"]}, "not both"),
        ({"formula": "__import__('os')"}, "can't"),
        ({"draw": "cube"}, "draw"),
        ({"n_swap": -1}, "at least 0"),
    ],
)
def test_parameters_that_make_no_sense(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        sf.GroupSwap(**{"strata": ["AREA"], "n_swap": 5, **parameters})


def test_check_finds_columns_and_warns_of_geography() -> None:
    data = people()
    types = dict(data.frame.schema)
    unknown = sf.GroupSwap(strata=["AREA"], n_swap=5, formula="X + WHY").check(data.schema, types)
    assert "WHY" in unknown[0].message
    schema = sf.Schema(geography=["AREA", "SEX"], household="WORKS")
    found = sf.GroupSwap(strata=["AREA"], n_swap=5).check(schema, types)
    assert [p.severity for p in found] == ["warning", "warning"]
    assert "SEX stays" in found[0].message


def test_strata_of_sensitive_columns_arent_named() -> None:
    data = people().with_roles(sensitive=["AREA"])
    with pytest.raises(MaskError) as problem:
        sf.GroupSwap(strata=["AREA"], n_swap=200, covariates=["X"]).mask(data, seed=1)
    assert "a1" not in str(problem.value)


def test_strata_of_very_unequal_size_are_told() -> None:
    data = people(400, 2)
    frame = data.frame.filter((pl.col("AREA") == "a0") | (pl.int_range(pl.len()) % 25 == 0))
    mask = sf.GroupSwap(strata=["AREA"], n_swap=2, covariates=["X"])
    assert any("unequal size" in w for w in noted(mask, Microdata(frame))[1].warnings)
    assert not any(
        "unequal size" in w for w in noted(replace(mask, centre="half"), Microdata(frame))[1].warnings
    )


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
def test_the_example_plan_swaps_and_adds_noise() -> None:
    plan = sf.Plan.load(ROOT / "examples" / "group_swap_noise.toml")
    run = plan.run(sf.decks.incomes(400), seed=1)
    assert run.ok
    assert run.steps[0].notes.figures["records_moved"] > 20
    assert run.steps[1].touched["WAGE"] > 200
    one, every, aware = (run.results[m].value for m in ("one amount", "all amounts", "noise_attack"))
    assert 0 < one < every / 2  # one amount and the stratum find far fewer than all amounts
    assert aware > 0.02


def test_many_strata_are_searched_without_fitting_every_pair() -> None:
    data = people(3000, 46)
    mask = sf.GroupSwap(strata=["AREA"], n_swap=5, covariates=["X", "Y"])
    masked, notes = noted(mask, data)
    assert notes.figures["pairs_fitted"] < 46 * 45 / 4
    assert notes.figures["records_moved"] == 46 * 5
    counts = [f.frame["AREA"].value_counts().sort("AREA") for f in (data, masked)]
    assert counts[0].equals(counts[1])
    every = noted(replace(mask, search="exact"), data)[1].figures
    assert every["pairs_fitted"] == 46 * 45 / 2
    assert sum(notes.figures["u_p"].values()) <= 1.05 * sum(every["u_p"].values())
