"""Conditions that a board counts in the release: each is counted here anew, with group_by alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.measure import RiskMeasure
from sfumato.errors import ParameterError, SfumatoError
from sfumato.experiment.conditions import levels_for
from sfumato.experiment.protect import protect
from sfumato.experiment.recodes import KeyLadders
from sfumato.plan.audience import audience
from sfumato.run.scenario import known_columns, population_known, smallest_area

KEYS = ["AGE", "SEX", "AREA"]


def people(n: int = 900, seed: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "AGE": rng.integers(18, 80, n),
            "SEX": rng.choice(["f", "m"], n),
            "AREA": rng.choice(list("abcdefg"), n, p=[0.4, 0.3, 0.15, 0.1, 0.04, 0.005, 0.005]),
            "ILL": rng.choice(["none", "flu", "cold", "cancer"], n, p=[0.7, 0.15, 0.1, 0.05]),
            "WAGE": np.exp(rng.normal(7, 0.5, n)).round(2),
            "W": rng.uniform(1.0, 6.0, n).round(2),
        }
    )


DATA = sf.Microdata(people(), sf.Schema(keys=KEYS, sensitive=["ILL"], weight="W"))


def recoded(measure: RiskMeasure) -> tuple[pl.DataFrame, list[str]]:
    """The frame after the recodes that were found, and the keys that are left."""
    ladders = KeyLadders.of(DATA, KEYS)
    steps, dropped = ladders.steps(levels_for(ladders, [measure], DATA))
    masked = DATA
    for step in steps:
        masked = step.mask(masked)
    left = [k for k in KEYS if k not in dropped]
    assert left, "something is left to look at"
    return masked.frame, left


def test_k_by_count() -> None:
    frame, left = recoded(sf.KAnonymity(k=7))
    assert frame.group_by(left).len()["len"].min() >= 7


def test_l_distinct_values() -> None:
    frame, left = recoded(sf.LDiversity(l=3, sensitive=["ILL"]))
    assert frame.group_by(left).agg(pl.col("ILL").n_unique())["ILL"].min() >= 3


def test_shares_near_those_of_the_file() -> None:
    frame, left = recoded(sf.TCloseness(t=0.25, sensitive=["ILL"]))
    whole = frame.group_by("ILL").len().with_columns(q=pl.col("len") / frame.height).select("ILL", "q")
    groups = frame.group_by(left).len(name="size")
    cells = groups.join(whole, how="cross").join(
        frame.group_by([*left, "ILL"]).len(name="here"), on=[*left, "ILL"], how="left"
    )
    far = cells.with_columns(p=pl.col("here").fill_null(0) / pl.col("size"))
    distance = far.group_by(left).agg(d=(pl.col("p") - pl.col("q")).abs().sum() / 2)
    assert distance["d"].max() <= 0.25 + 1e-12


def test_people_of_the_population_by_weights() -> None:
    frame, left = recoded(sf.KMap(k=30))
    assert frame.group_by(left).agg(pl.col("W").sum())["W"].min() >= 30


@pytest.mark.parametrize("measure", ["k_map", "delta_presence"])
def test_people_of_a_population_file(tmp_path: Path, measure: str) -> None:
    everybody = pl.concat([people(900, 3), people(2_700, 4)]).select(KEYS)
    everybody.write_csv(tmp_path / "everybody.csv")
    path = str(tmp_path / "everybody.csv")
    one = (
        sf.KMap(k=12, population=path)
        if measure == "k_map"
        else sf.DeltaPresence(highest=0.4, population=path)
    )
    ladders = KeyLadders.of(DATA, KEYS)
    steps, dropped = ladders.steps(levels_for(ladders, [one], DATA))
    left = [k for k in KEYS if k not in dropped]
    assert left
    mine, theirs = DATA, sf.Microdata(everybody, sf.Schema(keys=KEYS))
    for step in steps:
        mine, theirs = step.mask(mine), step.mask(theirs)
    here = mine.frame.group_by(left).len(name="here")
    both = here.join(theirs.frame.group_by(left).len(name="there"), on=left, how="left").fill_null(0)
    if measure == "k_map":
        assert both["there"].min() >= 12
    else:
        assert (both["here"] / both["there"]).max() <= 0.4 + 1e-12


def test_combinations_of_up_to_two_keys() -> None:
    frame, left = recoded(sf.Tolerance(tolerance=6, max_dimension=2))
    for one in left:
        for two in left:
            assert frame.group_by([one, two] if one != two else [one]).len()["len"].min() >= 6


def test_a_plan_asks_for_a_condition_and_gets_it(tmp_path: Path) -> None:
    """A measure that a limit holds at 0 is met by the plan that is found, which says how."""
    people().write_csv(tmp_path / "people.csv")
    (tmp_path / "people.toml").write_text(
        'format = 1\ndata = "people.csv"\n[roles]\nkeys = ["AGE", "SEX", "AREA"]\nsensitive = ["ILL"]\n'
        'weight = "W"\n[[measure]]\nmeasure = "l_diversity"\nl = 3\n'
        "[limits]\nl_diversity.value = { at_most = 0 }\n"
    )
    plan = sf.Plan.load(tmp_path / "people.toml")
    run = protect(plan.data(), "public", template=plan, seed=1)
    assert run.results["l_diversity"].value == 0
    assert {x.limit.measure for x in run.limits} == {"battery", "l_diversity"}
    left = [k for k in KEYS if k not in run.plan.release.drop]
    assert run.masked.frame.group_by(left).agg(pl.col("ILL").n_unique())["ILL"].min() >= 3
    assert sf.Plan.loads(run.plan.to_toml()) == run.plan


def test_what_is_no_condition_is_refused() -> None:
    with pytest.raises(ParameterError, match="isn't a condition"):
        protect(DATA, "public", conditions=[sf.Suda()])


# -- what the intruder of a scenario knows, and areas -------------------------------------------------


def test_a_researcher_knows_the_keys_and_three_numbers() -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"SEX": rng.choice(["f", "m"], 200), "W": np.full(200, 3.0)}).with_columns(
        **{f"N{k}": pl.Series(rng.integers(0, 10**k, 200).astype(float)) for k in range(1, 6)}
    )
    data = sf.Microdata(frame, sf.Schema(keys=["SEX"], sensitive=[f"N{k}" for k in range(1, 6)], weight="W"))
    assert known_columns(data, frame.columns, 3) == ("SEX", "N3", "N4", "N5")
    limits = {"battery.rate": {"at_most": 1.0}, "battery.gain": {"at_most": 1.0}}
    run = sf.Plan(limits=limits, audience="research").run(data, seed=1)
    said = " ".join(run.results["battery"].notes)
    assert "the intruder knows SEX, N3, N4, N5" in said
    assert "the 3 numbers that tell the most" in run.board["scenario"]
    assert "the intruder knows" not in " ".join(
        sf.Plan(limits=limits).run(data, seed=1).results["battery"].notes
    )


def test_whom_a_plan_is_for_is_read_written_and_checked() -> None:
    plan = sf.Plan.loads('format = 1\nfor = "research"\n')
    assert plan.audience == "research"
    assert sf.Plan.loads(sf.Plan(audience="research").to_toml()) == plan
    with pytest.raises(SfumatoError, match="there are no limits for 'publik'"):
        sf.Plan.loads('format = 1\nfor = "publik"\n')


def test_small_areas_are_joined_until_they_hold_enough_people() -> None:
    frame = people(2_000, 8).with_columns(W=pl.lit(1_000.0))
    schema = sf.Schema(keys=["AGE", "SEX"], geography=["AREA"], sensitive=["WAGE"], weight="W")
    data = sf.Microdata(frame, schema)
    assert population_known(data)
    assert smallest_area(data, data)[0] == 1_000.0 * frame["AREA"].value_counts()["count"].min()
    run = protect(data, "public", seed=1)
    area = next(x for x in run.limits if x.limit.figure == "area")
    assert (area.limit.at_least, area.ok) == (audience("public").area, True)
    # The areas are dealt among alike records of the same weight: their people are as many as before.
    counted = run.masked.frame.group_by("AREA").agg(pl.col("W").sum())["W"].min()
    assert counted >= 200_000


@pytest.mark.parametrize("weight", [1.0, 250_000.0])
def test_weights_that_are_no_numbers_of_people_judge_no_area(weight: float) -> None:
    """Relative weights, and weights times a hundred: nobody knows how many live there."""
    data = sf.Microdata(people().with_columns(W=pl.lit(weight)), sf.Schema(geography=["AREA"], weight="W"))
    assert not population_known(data)
    least, said = smallest_area(data, data)
    assert np.isnan(least)
    assert "isn't known" in said
