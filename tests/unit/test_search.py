"""The search for the frontier: its surface, what it runs, what it saves, the command."""

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
from sfumato.errors import MeasureError, ParameterError
from sfumato.experiment.prediction import _Data, _given, _matern, distances, fit_surface, spread_out
from sfumato.experiment.search import search

# -- the surface ----------------------------------------------------------------------------------


def test_numbers_are_placed_by_rank_and_words_apart() -> None:
    apart = distances([[1, 10, 100], ["a", "b", "a"], [True, False, True]])
    assert apart[0].tolist() == [[0, 0.5, 1], [0.5, 0, 0.5], [1, 0.5, 0]]
    assert apart[1].tolist() == apart[2].tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert distances([]).shape == (0, 1, 1)


@given(st.integers(2, 9), st.integers(1, 9))
def test_points_are_spread_out(width: int, count: int) -> None:
    grid = [(a, b) for a in range(width) for b in range(width)]
    chosen = spread_out(distances([[a for a, _ in grid], [b for _, b in grid]]), count)
    assert len(chosen) == len(set(chosen)) == min(count, len(grid))
    if count >= 4:  # the corners are the farthest from each other
        ends = {0, width - 1}
        assert {grid[k] for k in chosen[:4]} == {(a, b) for a in ends for b in ends}


def test_the_surface_solves_the_kriging_equations() -> None:
    rng = np.random.default_rng(0)
    grid = [(a, b) for a in range(4) for b in "xyz"]
    apart = distances([[a for a, _ in grid], [b for _, b in grid]])
    where, counts = np.array([0, 3, 4, 8, 11]), np.array([1, 2, 1, 3, 1])
    means, lengths, noise = rng.normal(size=5), (0.6, 1.2), 0.1
    relative = rng.uniform(0.5, 2, len(grid))
    data = _Data(apart, where, means, counts, np.array([0.0, 0.3, 0.0, 0.1, 0.0]), relative)
    found = _given(data, (lengths, noise))
    K = _matern(apart, lengths)
    # With a Lagrange multiplier for weights that sum to 1.
    system = np.ones((6, 6))
    system[:5, :5] = K[np.ix_(where, where)] + np.diag(noise * relative[where] / counts)
    system[5, 5] = 0.0
    for k in range(len(grid)):
        right = np.r_[K[where, k], 1.0]
        solved = np.linalg.solve(system, right)
        assert found.mean[k] == pytest.approx(solved[:5] @ means)
        variance = found.noise[k] ** 2 / noise / relative[k]
        assert found.covariance[k, k] == pytest.approx(variance * (1.0 - solved @ right))


def test_the_surface_finds_a_smooth_mean_and_knows_its_error() -> None:
    x = np.linspace(0, 1, 9)
    grid = [(a, b) for a in range(9) for b in range(9)]
    apart = distances([[a for a, _ in grid], [b for _, b in grid]])
    truth = np.array([np.sin(2 * x[a]) + x[a] * x[b] for a, b in grid])
    inside, errors, noise = [], [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        places = [*spread_out(apart, 40), *spread_out(apart, 10)]
        found = fit_surface(apart, places, (truth[places] + rng.normal(0, 0.1, 50)).tolist())
        errors.append(np.abs(found.mean - truth).mean())
        inside.append(np.mean(np.abs(found.mean - truth) <= 2 * found.error))
        noise.append(found.noise.mean())
    # A standard deviation from 50 runs has an error of 0.1/√(2·50) at least, the mean of twelve a twelfth of
    # its variance; the surface takes a few degrees of freedom of its own.
    assert np.mean(noise) == pytest.approx(0.1, abs=4 * np.std(noise, ddof=1) / np.sqrt(12))
    assert np.std(noise, ddof=1) < 0.02
    assert np.mean(errors) < 0.06  # below the error of one run at the points run, and of none elsewhere
    assert np.mean(inside) > 0.85
    flat = fit_surface(apart, [0, 5], [0.25, 0.25])
    assert flat.mean.tolist() == [0.25] * 81
    assert not flat.covariance.any()


def test_an_error_that_grows_with_the_mean_is_seen() -> None:
    apart = distances([list(range(15))])
    truth = np.linspace(0, 1, 15) ** 2
    places = list(range(15)) * 2
    growth = []
    for seed in range(12):
        runs = truth[places] * (1 + np.random.default_rng(seed).normal(0, 0.3, 30))
        found = fit_surface(apart, places, runs.tolist())
        assert abs(found.mean[0]) < 0.005  # nothing is changed there, and no run errs
        growth.append(float(np.log(found.noise[14] / found.noise[7])))
    # It grows four times; an error taken for even would grow once. The fit pools neighbours, so it sees less
    # than the whole, in no run less than 1.5 times, and more only by chance.
    assert min(growth) > np.log(1.5)
    assert np.mean(growth) < np.log(4) + 4 * np.std(growth, ddof=1) / np.sqrt(12)
    assert np.mean(growth) > np.log(2.5)


# -- the search -----------------------------------------------------------------------------------


@pytest.fixture
def data() -> sf.Microdata:
    rng = np.random.default_rng(0)
    x = rng.lognormal(3, 0.6, (120, 3))
    return sf.Microdata(pl.DataFrame(x, schema=["A", "B", "C"]), {"roles": {"sensitive": ["A", "B", "C"]}})


@pytest.fixture
def grid() -> sf.Experiment:
    # A second swap of one column only loses: the frontier is where it is 0.
    plan = sf.Plan(
        steps=[
            sf.RandomSwap(id="mix", columns=["A", "B", "C"], rate_percent=10),
            sf.RandomSwap(id="again", columns=["A"], rate_percent=0, together=True),
        ],
        measures=[sf.InformationLoss(), sf.IntervalOverlap(formula="C ~ A + B")],
    )
    vary = {"mix.rate_percent": [0, 10, 20, 40, 70, 100], "again.rate_percent": [0, 30, 60, 100]}
    return sf.Experiment(plan, vary, replicates=6)


AXES = {"risk": "interval_overlap", "loss": "information_loss"}


def test_the_search_finds_the_frontier_with_a_fraction_of_the_runs(
    data: sf.Microdata, grid: sf.Experiment, tmp_path: Path
) -> None:
    found = search(grid, data, **AXES, seed=1, folder=tmp_path, processes=1)
    assert found.grid_runs == 144
    assert found.runs <= 0.35 * 144
    assert found.saved == pytest.approx(1 - found.runs / 144)
    assert found.outcome.ran == found.runs == len(list(tmp_path.glob("run-*.parquet")))
    table = found.outcome.frontier(**AXES)
    assert table.height == 24
    # Both measures are of loss here, so the untouched file is best in both and alone on the frontier.
    best = "mix.rate_percent = 0, again.rate_percent = 0"
    assert table.filter("frontier")["point"].to_list() == [best]
    assert found.settled
    assert found.outcome.best(max_risk=0.5, **AXES)["point"] == best
    assert table["runs"].min() == 0
    # Its runs are the grid's: the whole grid goes on from them.
    whole = grid.run(data, seed=1, folder=tmp_path, processes=1)
    assert whole.ran == 144 - found.runs
    key = ["point", "replicate", "measure", "figure"]
    both = found.outcome.frame.join(whole.frame, on=key, how="left", maintain_order="left")
    assert both["value"].equals(both["value_right"])


def test_a_search_that_has_too_little_says_so(data: sf.Microdata, grid: sf.Experiment) -> None:
    found = search(grid, data, seed=1, processes=1, budget_percent=5, **AXES)
    assert found.runs == 7
    few = sf.Experiment(grid.plan, {"mix.rate_percent": [0, 100]}, replicates=4)
    assert search(few, data, processes=1, **AXES).runs <= 4
    assert search(sf.Experiment(grid.plan), data, processes=1, **AXES).runs == 1
    for bad in (0, -5, 101):
        with pytest.raises(ParameterError, match="budget_percent"):
            search(grid, data, budget_percent=bad)


def test_points_that_are_refused_have_no_place(data: sf.Microdata, grid: sf.Experiment) -> None:
    plan = sf.Plan(
        steps=[sf.RankSwap(id="ranks", columns=["A"], window_percent=10)],
        measures=[sf.InformationLoss(), sf.DistanceLinkage(known=["A"])],
    )
    vary = {"ranks.columns": [["A"], ["B"], ["Z"]]}
    found = search(sf.Experiment(plan, vary, replicates=3), data, processes=1, budget_percent=100)
    assert found.outcome.problems()["point"].unique().to_list() == ["ranks.columns = Z"]
    assert "ranks.columns = Z" not in found.outcome.frontier()["point"].to_list()
    with pytest.raises(MeasureError, match="no figure"):
        search(grid, data, processes=1, risk="interval_overlap", loss="information_loss.il9")


def test_the_command_searches(tmp_path: Path, capsys: pytest.CaptureFixture[str], data: sf.Microdata) -> None:
    data.frame.write_csv(tmp_path / "people.csv")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'format = 1\ndata = "people.csv"\n[roles]\nsensitive = ["A", "B", "C"]\n'
        '[[step]]\nid = "mix"\nmask = "random_swap"\ncolumns = ["A", "B", "C"]\nrate_percent = 10\n'
        '[[measure]]\nmeasure = "information_loss"\n'
        '[[measure]]\nmeasure = "distance_linkage"\nknown = ["A", "B", "C"]\n'
    )
    words = [str(plan), "--vary", "mix.rate_percent=0:90:5", "--replicates", "4", "--search"]
    words += ["--processes", "1", "--seed", "1", "--out", str(tmp_path / "map")]
    assert call("compare", [*words, "--max-loss", "0.02"]) == 0
    said = capsys.readouterr().out
    runs = len(list((tmp_path / "map").glob("run-*.parquet")))
    assert runs <= 0.35 * 76
    assert f"the search made {runs} of the grid's 76 runs ({100 * (1 - runs / 76):.0f}% saved)" in said
    assert "best: mix.rate_percent = 0 (risk" in said
    assert f"{runs} runs made now" in said
    assert "Risk-utility map" in (tmp_path / "map" / "map.html").read_text()
    # Once more, as a program: nothing is run again.
    assert call("compare", [*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["runs"] == 0
    assert printed["runs_needed"] == runs
    assert printed["grid_runs"] == 76
    assert printed["saved"] == pytest.approx(1 - runs / 76)
    assert len(printed["points"]) == 19
    assert call("compare", [*words, "--budget-percent", "0"]) == 2
