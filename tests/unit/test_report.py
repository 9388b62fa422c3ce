"""Reports: what the public one leaves out, self-contained HTML, escaping, charts, the command."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato import drawing as charts
from sfumato import report
from sfumato.cli.command import call
from sfumato.report.pictures import round_edges

SEED = 918273645546372819
PATTERN = r"-?\d[\d,]*\.?\d*(?:e-?\d+)?"

# The noise of these plans may leave the range of a column, and says so.
pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")


def a_run(*, secret: bool, **names: str) -> sf.Run:
    rng = np.random.default_rng(5)
    n = 400
    # Values no figure of a report could equal by accident.
    pay = np.round(rng.lognormal(9, 0.7, n), 5) + 0.000_017
    frame = pl.DataFrame(
        {
            "ID": np.arange(700_000, 700_000 + n),
            "REGION": rng.integers(1, 5, n),
            "KIND": rng.integers(0, 3, n),
            "PAY": pay,
            "TAX": np.round(pay * 0.2137 + rng.normal(0, 99, n), 6),
        }
    )
    plan = sf.Plan(
        title=names.get("title"),
        schema={
            "roles": {"id": "ID", "keys": ["REGION"], "sensitive": ["PAY", "TAX"], "geography": ["REGION"]}
        },
        steps=[
            sf.RankSwap(id="ranks_7341", columns=["PAY", "TAX"], window_percent=7.341),
            sf.AdditiveNoise(id="noise", columns=["PAY", "TAX"], variance_ratio=0.08317),
        ],
        measures=[
            sf.InformationLoss(),
            sf.Distributions(),
            sf.Dissimilarity(table=["KIND"]),
            sf.DistanceLinkage(known=["PAY", "TAX"]),
            sf.KAnonymity(keys=["REGION"]),
        ],
        limits={"information_loss.s0": {"at_most": 0.9173}},
        release={"drop": ["ID"], "publish_parameters": not secret},
    )
    return plan.run(frame, seed=SEED)


@pytest.fixture(scope="module")
def open_run() -> sf.Run:
    return a_run(secret=False)


@pytest.fixture(scope="module")
def secret_run() -> sf.Run:
    return a_run(secret=True)


def everything(run: sf.Run, *, public: bool) -> str:
    content = run.summary(public=public)
    return report.html(content) + report.text(content) + json.dumps(content, allow_nan=False)


@pytest.mark.parametrize("which", ["open_run", "secret_run"])
def test_no_report_has_the_seed(which: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(which)
    for public in (True, False):
        shown = everything(run, public=public)
        assert str(SEED) not in shown
        assert run.seed._secret.hex() not in shown


@pytest.mark.parametrize("which", ["open_run", "secret_run"])
def test_the_public_report_has_no_original_value(which: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(which)
    shown = set(re.findall(PATTERN, everything(run, public=True)))
    shown |= {s.replace(",", "") for s in shown}
    for column in ("ID", "PAY", "TAX"):
        values = run.original.column(column).to_list()
        spelt = {
            f(v)
            for v in values
            for f in (str, repr, lambda v: f"{v:.6g}", lambda v: f"{v:.2f}", lambda v: f"{v:.5f}")
        }
        assert not spelt & shown
        # The pattern would find such a value on a page.
        assert str(values[0]) in re.findall(PATTERN, f"<td>{values[0]}</td>")


def test_secret_parameters_stay_secret(open_run: sf.Run, secret_run: sf.Run) -> None:
    clues = ("7.341", "7341", "0.08317", "08317", "0.9173", "variance_ratio", "window_percent")
    public = everything(secret_run, public=True)
    assert [clue for clue in clues if clue in public] == []
    assert secret_run.plan.hash() not in public
    # A variance's relative change is the variance ratio itself, and s0 about half of it.
    for figure in ("il1", "il3", "il4", "s0"):
        value = getattr(secret_run.results["information_loss"], figure)
        spelt = [re.escape(f"{value:.{digits}g}") for digits in (2, 3, 4)]
        spelt = [s for s in spelt if not re.fullmatch(r"0\\\.0*[125]", s)]  # as a bound would be spelt
        assert not re.search(rf"(?<![\d.])({'|'.join(spelt)})(?![\d.])", public), figure
    # The same clues are there where nothing is secret, so the test can fail.
    assert "7.341" in everything(open_run, public=True)
    assert "7.341" in everything(secret_run, public=False)


def test_the_public_summary_has_no_internal_part(open_run: sf.Run) -> None:
    content = open_run.summary(public=True)
    assert not {"reproduce", "warnings", "seconds"} & set(content)
    assert set(content["plan"]) == {"hash"}
    for step in content["steps"]:
        assert not {"touched", "figures", "warnings", "seconds"} & set(step)
    for result in content["risk"] + content["utility"]:
        assert not {"notes", "breakdown", "before", "parameters"} & set(result)
    for column in content["pictures"]["columns"]:
        assert not {"before", "displacement"} & set(column)
    assert set(content["pictures"]["correlations"]) == {"columns", "after"}
    assert "ID" not in [c["name"] for c in content["file"]["columns"]]


def test_the_internal_report_is_complete(open_run: sf.Run) -> None:
    content = open_run.summary(public=False)
    page = report.html(content)
    for part in (
        "What was released",
        "What was done",
        "Risk:",
        "What analysts lose",
        "Distributions before and after",
        "Correlations",
        "Risk-utility map",
        "D by area",
        "Do it again",
    ):
        assert part in page, part
    assert "sfumato run plan.toml --seed-file" in page
    assert open_run.plan.hash() in page
    alone = [r for r in content["risk"] if r["name"] != "battery"]  # many attacks, no one of them before
    assert all(r["before"] is not None and r["before_is"] for r in alone)
    assert "information_loss.s0 at most 0.9173" in report.text(content)


def test_pages_load_nothing_and_run_nothing(open_run: sf.Run) -> None:
    for public in (True, False):
        page = report.html(open_run.summary(public=public))
        assert "<script" not in page
        assert not re.search(r"""(src|href)\s*=\s*["'](?!#)""", page)
        assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
        assert "default-src 'none'" in page
        for svg in re.findall(r"<svg.*?</svg>", page, flags=re.S):
            root = ET.fromstring(svg)
            assert root.get("role") == "img"
            assert root.get("aria-label")


def test_names_are_escaped() -> None:
    evil = "<img src=x onerror=alert(1)>"
    frame = pl.DataFrame({evil: np.arange(50.0), "B": np.arange(50.0)[::-1]})
    plan = sf.Plan(
        title=evil,
        steps=[sf.RandomSwap(columns=[evil, "B"], rate_percent=50)],
        measures=[sf.InformationLoss(columns=[evil, "B"])],
    )
    page = report.html(plan.run(frame, seed=1).summary(public=False))
    assert "<img" not in page
    assert "&lt;img" in page


def test_small_counts_of_the_original_are_not_drawn() -> None:
    frame = pl.DataFrame({"A": [0.0] * 60 + [50.0] * 3 + [100.0] * 60})
    run = sf.Plan(steps=[sf.RandomSwap(columns=["A"], rate_percent=100)]).run(frame, seed=1)
    drawn = run.summary(public=False)["pictures"]["columns"][0]
    assert 3 / 123 not in [pytest.approx(v) for v in drawn["before"]]
    assert sum(drawn["after"]) == pytest.approx(1)


def test_a_plan_without_steps_and_undefined_figures_still_report() -> None:
    frame = pl.DataFrame({"A": [5.0, 5.0, 5.0]})
    run = sf.Plan(measures=[sf.InformationLoss()]).run(frame, seed=1)
    for public in (True, False):
        json.dumps(run.summary(public=public), allow_nan=False)
        assert "No step" in report.html(run.summary(public=public))


def test_round_edges_cover_and_are_round() -> None:
    for low, high in ((0.013, 97_531.0), (-3.2, -1.1), (5.0, 5.0), (1e-7, 3e-7)):
        edges = round_edges(low, high)
        assert edges[0] <= low
        assert edges[-1] >= high
        assert (np.diff(edges) > 0).all()
        assert len(edges) < 80


def test_charts_are_well_formed() -> None:
    points = [
        {
            "label": f"p<{k}>",
            "x": k / 10,
            "y": 1 / (k + 1),
            "x_error": 0.01,
            "y_error": None,
            "frontier": k % 2 == 0,
        }
        for k in range(5)
    ]
    for svg in (
        charts.scatter(points, "loss & more", "risk", title="<map>"),
        charts.heatmap(["a", "b"], [[1.0, None], [-0.5, 1.0]], "t"),
        charts.dots(
            [{"name": "x", "value": 0.2, "low": 0.1, "high": 0.3, "baseline": 0.01, "before": 1.0}],
            "share",
            title="r",
        ),
        charts.areas(
            {"level": "L", "edges": [0, 0.1], "counts": [3], "areas": 3, "median": 0.0, "maximum": 0.1}
        ),
    ):
        assert ET.fromstring(svg).tag.endswith("svg")


def test_the_command_writes_the_report_again(
    open_run: sf.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "release" / "internal"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(open_run.summary(public=False)))
    assert call("report", [str(tmp_path / "release")]) == 0
    assert "Do it again" in (folder / "report.html").read_text()
    assert call("report", [str(tmp_path / "release"), "--text"]) == 0
    assert "every guarantee and limit holds" in capsys.readouterr().out
    assert call("report", [str(tmp_path / "nothing")]) == 2
    (folder / "run.json").write_text("[]")
    assert call("report", [str(tmp_path / "release")]) == 2
