"""The table of the paper for the analyses of any plan: shared work and runs on their own agree."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.cli.command import call
from sfumato.draws import Seed
from sfumato.errors import MeasureError
from sfumato.experiment.cache import Shared
from sfumato.experiment.grid import _once, _seed_of
from sfumato.masks.group_swap.group_swap import GroupSwap
from sfumato.stats.overlaps import Analysis
from sfumato.utility.overlap_table import overlap_table


def passengers(n: int = 260) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    sex = rng.choice(["f", "m"], n, p=[0.4, 0.6])
    grade = rng.integers(1, 4, n)
    fare = np.exp(4 - 0.6 * grade + rng.normal(0, 0.5, n))
    age = rng.normal(42 - 4 * grade, 12, n).clip(1)
    lived = rng.random(n) < 1 / (1 + np.exp(-(1.2 - 0.5 * grade + 1.0 * (sex == "f") - 0.01 * age)))
    return pl.DataFrame(
        {
            "CLASS": grade,
            "SEX": sex,
            "AGE": age,
            "FARE": fare,
            "LIVED": lived.astype(np.int64),
            "PORT": rng.choice(["c", "q", "s"], n, p=[0.3, 0.02, 0.68]),
        }
    )


def data() -> sf.Microdata:
    return sf.Microdata(passengers(), {"variables": {"CLASS": {"kind": "categorical"}}})


SWAP = GroupSwap(strata=["CLASS", "SEX"], rate_percent=20, formula="LIVED * (AGE + FARE)", centre="half")
ANALYSES = (
    sf.IntervalOverlap(id="all", formula="LIVED ~ CLASS + SEX + AGE", family="logistic"),
    sf.IntervalOverlap(id="within", formula="LIVED ~ AGE + FARE", family="logistic", within=["CLASS", "SEX"]),
    sf.IntervalOverlap(id="port", formula="FARE ~ AGE + PORT", within=["CLASS", "SEX"]),
    sf.IntervalOverlap(id="scaled", formula="FARE ~ scale(AGE)", within=["SEX"], level_percent=90),
)


@pytest.mark.parametrize(
    "steps",
    [
        (SWAP,),
        (SWAP, sf.AdditiveNoise(columns=["AGE", "FARE"], variance_ratio=0.15, within=["CLASS", "SEX"])),
        (sf.Pram(columns=["LIVED", "PORT"], keep_probability=0.9),),
        (sf.Recode(column="SEX", mapping={"f": "w", "m": "m"}),),
        (sf.LocalSuppress(keys=["SEX", "PORT", "CLASS"], tolerance=6),),
    ],
    ids=["swap", "swap and noise", "pram", "recode", "suppress"],
)
def test_shared_work_changes_no_figure(steps: tuple[sf.Mask, ...]) -> None:
    """Figure for figure: what runs share against runs that share nothing, with the measure itself."""
    one = data()
    plan = sf.Plan(steps=steps, measures=ANALYSES)
    (point,) = sf.Experiment(plan).points
    shared, alone = Shared(one), Shared(None)
    for r in range(2):
        seed = _seed_of(Seed.from_int(3), point, r)
        fast, general = (_once(point, r, one, seed, how).drop("seconds") for how in (shared, alone))
        key = ["measure", "figure"]
        assert fast.select(key, "problem").equals(general.select(key, "problem"))
        assert fast["problem"].null_count() == fast.height
        np.testing.assert_allclose(
            fast["value"].fill_null(0).to_numpy(), general["value"].fill_null(0).to_numpy(), rtol=0, atol=2e-6
        )


def test_strata_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = GroupSwap.prepare
    monkeypatch.setattr(GroupSwap, "prepare", lambda self, d: asked.append(self.n_swap) or real(self, d))
    plan = sf.Plan(steps=[sf.GroupSwap(strata=["SEX"], n_swap=5, covariates=["AGE"])], measures=ANALYSES[:1])
    sf.Experiment(plan, {"n_swap": [5, 9]}, replicates=3).run(data(), processes=1)
    assert asked == [5, 9]


def test_the_table_is_that_of_the_masked_files() -> None:
    """Against overlap_table of files masked one by one with the experiment's seeds, and by hand."""
    one = data()
    plan = sf.Plan(steps=[SWAP], measures=ANALYSES)
    experiment = sf.Experiment(plan, {"rate_percent": [10, 30]}, replicates=3)
    table = experiment.run(one, seed=7, processes=1).overlaps()
    assert table.height == 8
    for point in experiment.points:
        masked = [point.plan.run(one, seed=_seed_of(Seed.from_int(7), point, r)).masked for r in range(3)]
        want = overlap_table(one, masked, {m.id or "": m for m in ANALYSES})
        got = table.filter(pl.col("point") == point.label)
        assert got["analysis"].to_list() == want["analysis"].to_list()
        for column in want.columns[1:]:
            np.testing.assert_allclose(got[column].to_numpy(), want[column].to_numpy(), atol=1e-9)
        for analysis in ANALYSES:
            results = [analysis.measure(one, m) for m in masked]
            j = np.concatenate([r.breakdown["j"].to_numpy() for r in results if r.breakdown is not None])
            row = got.row(by_predicate=pl.col("analysis") == analysis.id, named=True)
            assert row["average"] == pytest.approx(j.mean(), abs=1e-6)
            assert [row["low"], row["high"]] == pytest.approx(np.quantile(j, [0.05, 0.95]).tolist(), abs=1e-6)
            assert row["non_overlaps"] == (j < 0).sum()
            assert row["non_overlaps_per_run"] == pytest.approx((j < 0).sum() / 3)
            assert row["intervals"] == len(j)
            assert row["not_estimable"] == sum(r.not_estimated for r in results)


def test_an_empty_stratum_counts_with_all_its_coefficients() -> None:
    frame = passengers(120)
    masked = frame.with_columns(SEX=pl.lit("m"))
    one = sf.IntervalOverlap(formula="FARE ~ AGE + LIVED", within=["SEX"])
    assert one.measure(frame, masked).not_estimated == 3
    assert Analysis(sf.Microdata(frame), one).overlaps(sf.Microdata(masked))[1] == 3


def test_a_response_with_three_categories_is_refused() -> None:
    frame = passengers(120)
    one = sf.IntervalOverlap(formula="PORT ~ AGE", family="logistic")
    with pytest.raises(MeasureError, match="3 categories"):
        overlap_table(frame, [frame], {"a": one})


PLAN = """format = 1
data = "passengers.csv"
[variables.CLASS]
kind = "categorical"
[[step]]
id = "swap"
mask = "group_swap"
strata = ["CLASS", "SEX"]
n_swap = 5
formula = "LIVED * (AGE + FARE)"
[[measure]]
id = "all"
measure = "interval_overlap"
formula = "LIVED ~ CLASS + SEX + AGE"
family = "logistic"
[[measure]]
measure = "interval_overlap"
formula = "FARE ~ AGE"
within = ["CLASS", "SEX"]
"""


def test_the_command_prints_and_writes_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    passengers().write_csv(tmp_path / "passengers.csv")
    (tmp_path / "plan.toml").write_text(PLAN)
    words = [str(tmp_path / "plan.toml"), "--vary", "n_swap=2,8", "--replicates", "3", "--processes", "1"]
    out = tmp_path / "out"
    assert call("compare", [*words, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "all: overlap J of intervals, logistic: LIVED ~ CLASS + SEX + AGE" in text
    assert "interval_overlap: overlap J of intervals, linear: FARE ~ AGE, in each CLASS × SEX" in text
    written = pl.read_csv(out / "overlaps.csv")
    assert written.height == 4
    assert written["intervals"].to_list() == [15, 15, 36, 36]
    for row in written.to_dicts():
        assert f"{row['average']:.3f} ± {row['standard_error']:.3f}" in text
        assert f"[{row['low']:.3f}, {row['high']:.3f}]" in text
    assert not (out / "map.html").exists()  # there is no measure of risk to map
    assert call("compare", [*words, "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["runs"] == 0
    assert [r["average"] for r in said["overlaps"]] == pytest.approx(written["average"].to_list())
    # Asked for a risk there isn't, it says so; and so where no run could be made.
    assert call("compare", [*words, "--max-risk", "0.1"]) == 2
    assert call("compare", [*words[:2], "n_swap=2000", "--replicates", "1", "--processes", "1"]) == 2
    assert "every run was refused" in capsys.readouterr().err


def test_the_command_prints_the_map_and_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    passengers().write_csv(tmp_path / "passengers.csv")
    risk = '[[measure]]\nmeasure = "distance_linkage"\nknown = ["AGE", "FARE"]\n'
    (tmp_path / "plan.toml").write_text(PLAN + risk)
    words = [str(tmp_path / "plan.toml"), "--replicates", "2", "--processes", "1"]
    assert call("compare", [*words, "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "distance_linkage.value" in text
    assert "central 90%" in text
    assert (tmp_path / "out" / "map.html").exists()
