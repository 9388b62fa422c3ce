"""Experiments: seeds by address, resuming, processes, the frontier, the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cli.command import call
from sfumato.cli.compare import parse_vary
from sfumato.errors import MeasureError, ParameterError
from sfumato.experiment.outcome import non_dominated


@pytest.fixture
def data() -> sf.Microdata:
    rng = np.random.default_rng(0)
    x = rng.lognormal(3, 0.6, (120, 3))
    return sf.Microdata(pl.DataFrame(x, schema=["A", "B", "C"]), {"roles": {"sensitive": ["A", "B", "C"]}})


@pytest.fixture
def plan() -> sf.Plan:
    return sf.Plan(
        steps=[sf.RandomSwap(id="mix", columns=["A", "B", "C"], rate_percent=10)],
        measures=[sf.InformationLoss(), sf.DistanceLinkage(known=["A", "B", "C"])],
    )


def test_the_frame_is_tidy_and_seeds_are_addressed(data: sf.Microdata, plan: sf.Plan) -> None:
    small = sf.Experiment(plan, {"mix.rate_percent": [10, 50]}, replicates=2).run(data, seed=3, processes=1)
    large = sf.Experiment(plan, {"rate_percent": [5, 10, 50]}, replicates=3).run(data, seed=3, processes=1)
    key = ["point", "replicate", "measure", "figure"]
    assert small.frame.select(key).is_duplicated().sum() == 0
    assert set(small.frame["replicate"]) == {0, 1}
    a = small.frame.with_columns(pl.col("point").str.replace("mix.", "", literal=True)).select(*key, "value")
    both = a.join(large.frame.select(*key, "value"), on=key, how="inner", suffix="_large", nulls_equal=True)
    assert both.height == a.height
    # The address holds the name as written, so compare within one spelling too.
    again = sf.Experiment(plan, {"mix.rate_percent": [50, 90, 10]}, replicates=2).run(
        data, seed=3, processes=1
    )
    same = small.frame.select(*key, "value").join(again.frame.select(*key, "value"), on=key, suffix="_again")
    assert same.height == small.frame.height
    assert (same["value"] - same["value_again"]).abs().max() == 0
    other = sf.Experiment(plan, {"mix.rate_percent": [10]}).run(data, seed=4, processes=1)
    first = small.frame.filter((pl.col("point") == "mix.rate_percent = 10") & (pl.col("replicate") == 0))
    assert first["value"].to_list() != other.frame["value"].to_list()


def test_processes_give_the_same_and_a_stopped_run_goes_on(
    data: sf.Microdata, plan: sf.Plan, tmp_path: Path
) -> None:
    experiment = sf.Experiment(plan, {"mix.rate_percent": [10, 50]}, replicates=2)
    alone = experiment.run(data, seed=1, processes=1)
    first = experiment.run(data, seed=1, folder=tmp_path, processes=2)
    assert first.ran == 4
    assert first.frame.drop("seconds").equals(alone.frame.drop("seconds"))
    next(tmp_path.glob("run-*.parquet")).unlink()  # as if it had been killed before this run was kept
    (tmp_path / "run-x.part").write_bytes(b"half")
    again = experiment.run(data, seed=1, folder=tmp_path, processes=1)
    assert again.ran == 1
    assert again.frame.drop("seconds").equals(alone.frame.drop("seconds"))
    assert pl.read_parquet(tmp_path / "experiment.parquet").height == alone.frame.height
    # Other data, another seed or other measures find nothing to reuse.
    fewer = sf.Microdata(data.frame[:100], data.schema)
    assert experiment.run(fewer, seed=1, folder=tmp_path, processes=1).ran == 4
    assert experiment.run(data, seed=2, folder=tmp_path, processes=1).ran == 4


def test_frontier_and_best(data: sf.Microdata, plan: sf.Plan) -> None:
    found = sf.Experiment(plan, {"mix.rate_percent": [0, 20, 100]}, replicates=3).run(data, processes=1)
    table = found.frontier()
    assert table["frontier"].to_list()[0]  # the untouched file loses nothing
    assert table.filter(pl.col("point") == "mix.rate_percent = 0")["loss"].item() == 0
    best = found.best(max_loss=0.0)
    assert best["point"] == "mix.rate_percent = 0"
    assert found.best(max_risk=1.0)["loss"] == 0
    with pytest.raises(MeasureError, match="no point has a risk"):
        found.best(max_risk=-1.0)
    with pytest.raises(MeasureError, match="one of them"):
        found.best()
    with pytest.raises(MeasureError, match=r"no figure 'information_loss\.il9'"):
        found.frontier(loss="information_loss.il9")
    assert found.points()["risk"] == "distance_linkage.value"


def test_the_best_has_the_most_of_what_should_be_high(data: sf.Microdata, plan: sf.Plan) -> None:
    measures = [sf.IntervalOverlap(formula="A ~ B + C"), sf.DistanceLinkage(known=["A", "B", "C"])]
    higher = sf.Plan(steps=plan.steps, measures=measures)
    found = sf.Experiment(higher, {"mix.rate_percent": [0, 20, 100]}, replicates=2).run(data, processes=1)
    overlaps = found.frontier()["loss"]
    best = found.best(max_risk=1.0)
    assert best["loss"] == overlaps.max() == 1.0
    assert best["point"] == "mix.rate_percent = 0"
    # A limit on it is the least allowed.
    assert found.best(max_loss=1.0)["point"] == "mix.rate_percent = 0"
    with pytest.raises(MeasureError, match=r"no point has a loss of at least 1\.5; the most is 1"):
        found.best(max_loss=1.5)
    assert found.points()["loss_better"] == "higher"
    assert found.points()["risk_better"] == "lower"


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
def test_the_frontier_is_what_nobody_dominates(points: list[tuple[int, int]]) -> None:
    on, doubtful = non_dominated(points)
    for i, a in enumerate(points):
        beaten = any(b[0] <= a[0] and b[1] <= a[1] and b != a for b in points)
        assert on[i] == (not beaten)
        assert not doubtful[i]  # without error nothing is in doubt
    assert on.any()


def test_error_makes_places_doubtful() -> None:
    on, doubtful = non_dominated([[1.0, 1.0], [1.05, 1.05], [5.0, 5.0]], [[0.1, 0.1]] * 3)
    assert on.tolist() == [True, False, False]
    assert doubtful.tolist() == [True, True, False]


def test_a_refused_run_is_a_row(data: sf.Microdata, plan: sf.Plan) -> None:
    bad = sf.Plan(
        steps=[sf.RandomSwap(id="mix", columns=["A"], rate_percent=10)],
        measures=[sf.PercentageBias(of="A", classes=["Z"])],
    )
    found = sf.Experiment(bad).run(data, processes=1)
    assert found.problems().height == 1
    assert "'Z'" in found.problems()["problem"][0]


def test_bad_grids_are_refused(plan: sf.Plan) -> None:
    for vary, message in (
        ({"mix.rate": [1]}, "no step has"),
        ({"mixx.rate_percent": [1]}, "the plan doesn't have"),
        ({"mix.rate_percent": []}, "no value"),
        ({"mix.rate_percent": [101]}, "at most 100"),
    ):
        with pytest.raises(ParameterError, match=message):
            sf.Experiment(plan, vary)
    with pytest.raises(ParameterError, match="replicates"):
        sf.Experiment(plan, replicates=0)
    with pytest.raises(ParameterError, match="needs measures"):
        sf.Experiment(sf.Plan(steps=plan.steps))
    twice = sf.Plan(
        steps=[*plan.steps, sf.RandomSwap(id="b", columns=["A"], rate_percent=1)], measures=plan.measures
    )
    with pytest.raises(ParameterError, match="several steps"):
        sf.Experiment(twice, {"rate_percent": [1]})


def test_the_command(
    data: sf.Microdata, plan: sf.Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data.frame.write_csv(tmp_path / "people.csv")
    text = plan.to_toml() + '\n[roles]\nsensitive = ["A", "B", "C"]\n'
    (tmp_path / "plan.toml").write_text(text.replace("format = 1", 'format = 1\ndata = "people.csv"', 1))
    words = [str(tmp_path / "plan.toml"), "--vary", "mix.rate_percent=0:100:50", "--replicates", "2"]
    assert call("compare", [*words, "--processes", "1", "--out", str(tmp_path / "map"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(printed["points"]) == 3
    page = (tmp_path / "map" / "map.html").read_text()
    assert "Risk-utility map" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert call("compare", [*words[:2], "rate_percent"]) == 2
    assert call("compare", [*words, "--processes", "1", "--max-loss", "0"]) == 0
    assert "best: mix.rate_percent = 0" in capsys.readouterr().out


@pytest.mark.parametrize("bad", ["x", "=1", "a=", "a=1:2:0", "a=1:b:1", "a=0:1:1e-9"])
def test_bad_words_of_vary(bad: str) -> None:
    with pytest.raises(ParameterError):
        parse_vary(bad)
