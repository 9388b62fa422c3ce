"""What objects show in a notebook and on a terminal: the verdict first, secrets hidden, all escaped."""

from __future__ import annotations

import html.parser
import pickle
import re
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MeasureError, ParameterError

EVIL = "<script>alert(1)</script>"
N = 120


@pytest.fixture(scope="module")
def people() -> sf.Microdata:
    """A column, values, labels and an id that would all do harm if they weren't escaped."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "ID": [f"{EVIL}{i}" for i in range(N)],
            EVIL: rng.choice(["<b>", "&amp;", '"x"'], N),
            "AGE": rng.integers(20, 30, N),
            "PAY": rng.lognormal(9, 1, N).round(0) + 0.25,
            "RENT": rng.lognormal(6, 1, N).round(0),
        }
    )
    schema = sf.Schema(
        id="ID",
        keys=[EVIL, "AGE"],
        sensitive=["PAY"],
        variables={"RENT": {"label": EVIL, "labels": {1: EVIL}}},
    )
    return sf.Microdata(frame, schema)


@pytest.fixture(scope="module")
def plan() -> sf.Plan:
    return sf.Plan(
        title=EVIL,
        steps=[sf.RankSwap(id=EVIL, columns=["PAY", "RENT"], window_percent=20)],
        measures=[sf.DistanceLinkage(known=["PAY", "RENT"]), sf.InformationLoss(columns=["PAY", "RENT"])],
        limits={"distance_linkage.rate": {"at_most": 0.0001}},
    )


@pytest.fixture(scope="module")
def run(people: sf.Microdata, plan: sf.Plan) -> sf.Run:
    return plan.run(people, seed=1)


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        if tag not in {"line", "rect", "circle", "path"}:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert not (name in ("href", "src") and value), value

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"line", "rect", "circle", "path"}:
            assert self.open.pop() == tag


def shown(thing: Any) -> str:
    """Its HTML, well-formed, without a script, a request or anything from outside."""
    text: str = thing._repr_html_()
    tags = _Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    assert "script" not in tags.seen
    assert EVIL not in text
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    return text


def text_of(markup: str) -> str:
    return re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", markup, flags=re.S))


def test_a_file_hides_its_ids_and_sensitive_values(people: sf.Microdata) -> None:
    text = shown(people)
    assert "120 records × 5 columns" in text
    for value in people.frame["PAY"].head(5):
        assert f"{value}" not in text
        assert f"{value:,.0f}" not in text_of(text)
    assert "•••" in text
    assert str(people.frame["AGE"][0]) in text
    bare = shown(people.show(3, hidden=False))
    assert "•••" not in bare
    without = shown(sf.Microdata(people.frame.select("AGE")))
    assert "No roles are set" in without


def test_a_file_on_disk_is_not_read_to_be_shown(people: sf.Microdata, tmp_path: Any) -> None:
    people.frame.write_parquet(tmp_path / "people.parquet")
    lazy = sf.read(tmp_path / "people.parquet", lazy=True)
    shown(lazy)
    assert lazy.is_lazy


def test_a_run_leads_with_its_verdict(run: sf.Run) -> None:
    text = text_of(shown(run))
    assert text.split("✗")[1].strip().startswith("not safe")
    assert text.index("not safe") < text.index("distance_linkage")
    assert repr(run).startswith("not safe")
    assert "Seed" not in repr(run)
    assert len(repr(run).splitlines()) < 20


def test_a_plan_and_its_parts(plan: sf.Plan, run: sf.Run) -> None:
    assert "window_percent = 20" in text_of(shown(plan))
    assert len(repr(plan)) < 300
    assert "steps=[" in repr(plan)
    result = run.results["distance_linkage"]
    assert "by chance" in text_of(shown(result))
    assert f"{result.value:.4g}" in repr(result)
    assert "by chance" in repr(result)


def test_results_show_before_chance_and_interval(people: sf.Microdata, run: sf.Run) -> None:
    text = text_of(shown(run.results))
    result = run.results["distance_linkage"]
    before = people.frame.select("PAY", "RENT").n_unique() / N  # different combinations ÷ records
    assert run.results.before["distance_linkage"][0] == pytest.approx(before)
    for word in ("before", "by chance", "95% interval"):
        assert word in text
    assert f"{result.interval[0]:.3f}"[:4] in text  # type: ignore[index]
    alone = sf.measure(people, run.masked, sf.DistanceLinkage(known=["PAY", "RENT"]))
    assert alone.before["distance_linkage"][0] == pytest.approx(before)
    assert pickle.loads(pickle.dumps(alone)).before == alone.before
    assert len(alone[:1]) == 1


def test_pictures_show_themselves_and_can_be_saved(run: sf.Run, tmp_path: Any) -> None:
    for what, least in (("columns", 2), ("correlations", 3), ("risk", 1), ("map", 1), ("groups", 1)):
        picture = run.plot(what)
        assert shown(picture).count("<svg") >= least
    picture = run.results.plot()
    picture.save(tmp_path / "risk.svg")
    assert (tmp_path / "risk.svg").read_text().startswith("<svg")
    run.plot("columns").save(tmp_path / "columns.html")
    assert "<svg" in (tmp_path / "columns.html").read_text()
    with pytest.raises(ParameterError, match="correlations"):
        run.plot("correlation")
    with pytest.raises(ParameterError, match="nothing to draw"):
        run.plot("areas")
    with pytest.raises(MeasureError, match="no rate to draw"):
        run.results[1:].plot()


def test_battery_outcome_tables(people: sf.Microdata, run: sf.Run, plan: sf.Plan) -> None:
    battery = sf.run_battery(run.original, run.masked, known=["PAY", "RENT"], finds="records")
    text = text_of(shown(battery))
    for tried in battery.tried:
        assert tried.label in text
    assert shown(battery.plot()).count("<svg") == 1
    assert repr(battery).startswith("Battery of")
    outcome = sf.Experiment(plan, {"window_percent": [5, 40]}, replicates=2).run(people, seed=2)
    assert "on the frontier" in text_of(shown(outcome))
    assert shown(outcome.plot()).count("<svg") == 1
    cells = people.cells(["AGE"])
    counts = people.frame.group_by("AGE").len()["len"]
    assert f"{int((counts >= 10).sum())}" in text_of(shown(cells))
    safe = sf.safe_table(people, 3, keys=[EVIL, "AGE"])
    shown(safe)
    changed = int((safe.counts != safe.original).sum())
    assert f"{changed} cells changed" in text_of(shown(safe))


def test_an_evaluation_leads_with_its_verdict(people: sf.Microdata) -> None:
    found = sf.evaluate(people, people.frame.sample(fraction=1.0, shuffle=True, seed=3), id="ID")
    text = text_of(shown(found))
    assert text.split("✗")[1].strip().startswith("not safe")
    assert "says whose record is whose" in text
    assert shown(found.plot("risk")).count("<svg") == 1
