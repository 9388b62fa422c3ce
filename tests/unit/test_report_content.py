"""Reports: risk before masking, categories, text against HTML, valid pages, plurals, numbers."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato import drawing as charts
from sfumato import report
from sfumato.drawing import number, percent, plural, span, tick_words, ticks
from sfumato.report.pictures import long_tailed, tail_edges

EVIL = ("<script>alert(1)</script>", "quote\"d & 'x'\nnew\x1bline", "]]> --> </svg></style>")


def the_run(a: str = "AGE", b: str = "PAY", c: str = "KIND") -> sf.Run:
    rng = np.random.default_rng(2)
    n = 200
    frame = pl.DataFrame(
        {
            a: rng.integers(0, 30, n).astype(float),
            b: rng.lognormal(8, 1.5, n),
            c: rng.choice(["x", "y", "<b>z</b>"], n, p=[0.5, 0.4, 0.1]),
            "AREA": rng.integers(1, 5, n),
        }
    )
    plan = sf.Plan(
        title="A <title> & more",
        schema={"roles": {"keys": [c], "sensitive": [a, b], "geography": ["AREA"]}},
        steps=[
            sf.RankSwap(id="ranks", columns=[a, b], window_percent=20),
            sf.RandomSwap(id="kinds", columns=[c, "AREA"], rate_percent=40),
        ],
        measures=[
            sf.InformationLoss(),
            sf.Dissimilarity(table=[c]),
            sf.DistanceLinkage(known=[a], block_on=[c]),
            sf.IntervalDisclosure(columns=[b]),
            sf.KAnonymity(k=3, keys=[c, "AREA"]),
        ],
        limits={"k_anonymity.value": {"at_most": 200}},
    )
    return plan.run(frame, seed=4)


@pytest.fixture(scope="module")
def run() -> sf.Run:
    return the_run()


def test_risk_before_is_the_chance_to_find_an_exact_copy(run: sf.Run) -> None:
    found = {r["name"]: r for r in report.summary(run, public=False)["risk"]}
    frame = run.original.frame
    # By hand: a record is found with probability 1 / (records that share its values).
    sizes = frame.select(pl.len().over("AGE", "KIND")).to_series()
    assert found["distance_linkage"]["before"] == pytest.approx(float((1 / sizes).mean()))
    again = sf.measure(run.original, run.original, sf.IntervalDisclosure(columns=["PAY"]))[0].value
    assert found["interval_disclosure"]["before"] == again == 1.0
    assert found["k_anonymity"]["before"] == sf.measure(run.original, run.plan.measures[-1])[0].value
    assert found["k_anonymity"]["share"] == found["k_anonymity"]["value"] / 200


def test_before_agrees_with_the_attack_on_a_copy() -> None:
    rng = np.random.default_rng(6)
    data = pl.DataFrame({"A": rng.integers(0, 40, 400).astype(float), "B": rng.normal(size=400).round(1)})
    run = sf.Plan(measures=[sf.DistanceLinkage(known=["A", "B"], one_to_one=False)]).run(data, seed=1)
    content = report.summary(run, public=False)["risk"][0]
    assert content["before"] == pytest.approx(content["value"])  # no step: before is after


def test_categories_are_drawn_with_what_left_them(run: sf.Run) -> None:
    drawn = {c["name"]: c for c in report.summary(run, public=False)["pictures"]["categories"]}
    assert set(drawn) == {"KIND", "AREA"}
    x, z = run.original.frame["KIND"], run.masked.frame["KIND"]
    for row in drawn["KIND"]["rows"]:
        here = x == row["name"]
        assert row["before"] == pytest.approx(here.mean())
        assert row["after"] == pytest.approx((z == row["name"]).mean())
        assert row["left"] == pytest.approx((z != x).filter(here).mean())
    assert drawn["KIND"]["changed"] == pytest.approx((x != z).mean())
    public = report.summary(run, public=True)["pictures"]["categories"]
    assert all(set(r) == {"name", "after"} for c in public for r in c["rows"])


def test_rare_categories_of_the_original_have_no_share() -> None:
    frame = pl.DataFrame({"K": ["a"] * 60 + ["b"] * 40 + ["c"] * 3})
    run = sf.Plan(steps=[sf.RandomSwap(columns=["K"], rate_percent=50)]).run(frame, seed=1)
    rows = {r["name"]: r for r in report.summary(run, public=False)["pictures"]["categories"][0]["rows"]}
    assert rows["c"]["before"] is None
    assert rows["c"]["left"] is None
    assert "fewer than 5" in report.text(report.summary(run, public=False))
    report.html(report.summary(run, public=False))


@pytest.mark.parametrize("public", [True, False])
def test_text_says_what_the_page_says(run: sf.Run, public: bool) -> None:
    content = report.summary(run, public=public)
    text = " ".join(report.text(content).split())
    page = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", report.html(content))).split())
    said = [content["title"], *content["glance"], *content.get("warnings", [])]
    said += [c["name"] for c in content["file"]["columns"]]
    for step in content["steps"]:
        said += [step["id"], step["about"], *(g["text"] for g in step["guarantees"])]
        said += [*(step.get("parameters") or {}), *step.get("warnings", [])]
    for r in content["risk"] + content["utility"]:
        said += [r["name"], r["about"], r["unit"], number(r["value"], 4), *r.get("notes", [])]
        said += [span(*r["interval"])] if r["interval"] else []
        said += [number(r["before"], 4)] if "before" in r else []
    said += [x["text"] for x in content["limits"]]
    said += [number(c["mean_after"], 4) for c in content["pictures"]["columns"]]
    if not public:
        said += [content["reproduce"], " ".join(content["plan"]["text"].split())]
        said += [number(a["mean"]) for a in content["pictures"]["by_area"]]
    for words in said:
        assert " ".join(words.split()) in text, words
        assert " ".join(words.split()) in page, words
    assert len(said) > 40


class Reader(HTMLParser):
    """Checks that every element is closed where it should be and collects ids and attributes."""

    void = frozenset({"meta", "br", "link", "img", "input", "hr"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [k for k, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice"
        assert not [k for k in names if k.startswith("on")]
        self.tags.add(tag)
        self.ids += [v or "" for k, v in attrs if k == "id"]
        self.links += [v or "" for k, v in attrs if k in ("href", "src")]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag], f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


@pytest.mark.parametrize("names", [("AGE", "PAY", "KIND"), EVIL])
@pytest.mark.parametrize("public", [True, False])
def test_pages_are_well_formed_whatever_the_names(names: tuple[str, str, str], public: bool) -> None:
    page = report.html(report.summary(the_run(*names), public=public))
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert all(link.startswith("#") and link[1:] in reader.ids for link in reader.links)
    assert not {"script", "img", "iframe", "object", "form", "b2"} & reader.tags
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f]", page)


def test_glance_says_what_counts() -> None:
    frame = pl.DataFrame({"A": np.arange(60.0), "B": np.arange(60.0) ** 2})
    plan = sf.Plan(
        steps=[sf.RandomSwap(columns=["A"], rate_percent=50)],
        measures=[sf.DistanceLinkage(known=["A"])],
        limits={"distance_linkage.rate": {"at_most": 0.0001}},
    )
    content = report.summary(plan.run(frame, seed=1), public=False)
    said = " ".join(content["glance"])
    assert "1 step, " in said
    assert "The plan sets 1 limit on risk and loss: it fails." in said
    assert "100% before masking" in said
    assert "1.7% by chance" in said
    assert "No loss was measured" in said
    bare = report.summary(sf.Plan().run(frame, seed=1), public=False)
    assert any("No risk was measured" in line for line in bare["glance"])


def test_order_and_ids_are_claimed_only_where_true() -> None:
    frame = pl.DataFrame({"ID": np.arange(60), "A": np.arange(60.0)})
    steps = [sf.RandomSwap(columns=["A"], rate_percent=50)]
    for shuffle in (True, False):
        plan = sf.Plan(steps=steps, schema={"roles": {"id": "ID"}}, release={"shuffle": shuffle})
        run = plan.run(frame, seed=1)
        assert ("random order" in report.html(report.summary(run, public=True))) is shuffle
        assert report.summary(run, public=True)["file"]["columns"][0]["state"] == "numbered anew"


def test_limits_never_round_across_themselves() -> None:
    frame = pl.DataFrame({"A": np.arange(1000.0)})
    plan = sf.Plan(
        measures=[sf.DistanceLinkage(known=["A"])], limits={"distance_linkage.rate": {"at_most": 0.9999999}}
    )
    said = report.summary(plan.run(frame, seed=1), public=False)["limits"][0]
    assert not said["ok"]
    assert said["text"].endswith("fails, measured 1")


def test_long_tails_have_bars_by_powers_of_ten() -> None:
    pay = np.random.default_rng(1).lognormal(8, 2, 2000)
    assert long_tailed(pay)
    assert not long_tailed(np.random.default_rng(1).normal(100, 10, 2000))
    assert not long_tailed(-pay)
    edges = tail_edges(pay)
    assert edges[0] == 0
    assert all(f"{e:.0e}"[0] in "125" for e in edges[1:])
    assert (np.diff(edges) > 0).all()
    assert edges[-1] >= np.quantile(pay, 0.995)


def test_numbers_for_people() -> None:
    assert [plural(n, "record") for n in (0, 1, 2, 1000)] == [
        "0 records",
        "1 record",
        "2 records",
        "1,000 records",
    ]
    assert [percent(v) for v in (0.0, 0.0001, 0.274, 0.5, 0.9999, 1.0, None)] == [
        "0%",
        "below 0.1%",
        "27.4%",
        "50%",
        "above 99.9%",
        "100%",
        "–",
    ]
    assert span(0.1, 0.25) == "0.100 to 0.250"
    assert tick_words(ticks(-0.5, 0.5, 4)) == ["−0.50", "−0.25", "0", "0.25", "0.50"]
    assert tick_words([0.0, 2e6, 4e6]) == ["0", "2 m", "4 m"]
    assert number(2.9e-34) == "0"


def test_ticks_and_names_stay_on_the_chart() -> None:
    """No two tick labels overlap, and no text starts left of the picture."""
    names = ["a" * 40, "EMCONTRB", "B"]
    for svg in (
        charts.heatmap(names, [[1.0] * 3] * 3, "t"),
        charts.dots([{"name": n, "value": 0.1} for n in names], "share", title="Risk"),
        charts.distribution({"name": names[0], "edges": [0.0, 2e9, 4e9, 6e9], "after": [0.2, 0.3, 0.5]}),
    ):
        for x, anchor, words in re.findall(r'<text x="([-\d.]+)" [^>]*text-anchor="(\w+)"[^>]*>([^<]*)', svg):
            width = 6.0 * len(words)
            start = float(x) - {"start": 0, "middle": width / 2, "end": width}[anchor]
            assert start >= -2, (words, x, anchor)
