"""One loss for all masks: by hand, by an independent fit, and in the right direction within each family."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.data.recoding import Span, label_span


def people(n: int = 2_000, seed: int = 3) -> sf.Microdata:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    sex = rng.choice(["f", "m"], n)
    area = rng.choice(list("abcdefgh"), n, p=[0.3, 0.25, 0.2, 0.1, 0.06, 0.05, 0.03, 0.01])
    wage = np.exp(8 + 0.01 * age + 0.3 * (sex == "m") + rng.normal(0, 0.5, n))
    rent = 0.2 * wage * np.exp(rng.normal(0, 0.3, n))
    wage[rng.random(n) < 0.2] = 0.0
    frame = pl.DataFrame({"AGE": age, "SEX": sex, "AREA": area, "WAGE": wage.round(2), "RENT": rent.round(2)})
    return sf.Microdata(frame, sf.Schema(keys=["AGE", "SEX", "AREA"], sensitive=["WAGE", "RENT"]))


def test_tables_of_categories_are_dissimilarities_counted_by_hand() -> None:
    one = pl.DataFrame({"A": ["x", "x", "y", "y"], "B": ["p", "q", "p", "q"]})
    two = pl.DataFrame({"A": ["x", "x", "y", "y"], "B": ["p", "p", "q", "q"]})
    found = sf.AnalystLoss().measure(one, two)
    # Cells (xp, xq, yp, yq): 1/4 each before, 1/2, 0, 0, 1/2 after: half of 4 · 1/4.
    assert found.tables == pytest.approx(0.5)
    assert found.detail == 0.0
    assert found.value == pytest.approx(0.25)  # no number, no model


def test_a_class_stands_for_its_values_evenly() -> None:
    one = pl.DataFrame({"A": ["x", "x", "x", "y", "z", "z"], "B": ["p"] * 6})
    two = one.with_columns(pl.Series("A", ["x or y"] * 4 + ["z"] * 2))
    found = sf.AnalystLoss().measure(one, two)
    # x 3/6, y 1/6 before; the class of 4/6 spread over both: 1/3 each.
    assert found.tables == pytest.approx(0.5 * (abs(1 / 2 - 1 / 3) + abs(1 / 6 - 1 / 3)))
    h = lambda *p: -sum(x * np.log(x) for x in p)  # noqa: E731
    lost = 1 - h(4 / 6, 2 / 6) / h(3 / 6, 1 / 6, 2 / 6)
    assert found.detail == pytest.approx(lost / 2)  # of two columns
    assert found.worst == "A"


def test_a_blank_stands_for_the_margin_and_costs_detail() -> None:
    one = pl.DataFrame({"A": ["x", "x", "y", "y"], "B": ["p", "p", "q", "q"]})
    two = one.with_columns(pl.Series("A", ["x", None, "y", None]))
    found = sf.AnalystLoss().measure(one, two)
    # A blank with B = p is half x, half y: 1/8 of the table is in each wrong cell.
    assert found.tables == pytest.approx(0.25)
    assert found.detail == pytest.approx(0.5 / 2)


def test_models_are_those_of_least_squares() -> None:
    data = people(1_500)
    masked = sf.AdditiveNoise(columns=["WAGE", "RENT"], variance_ratio=0.05).mask(data, seed=1)
    names = ["WAGE", "RENT"]
    found = sf.AnalystLoss(columns=names).measure(data, masked)
    scaled = {}
    log = lambda v: np.sign(v) * np.log1p(np.abs(v))  # noqa: E731
    for name in names:
        x, z = (log(d.numbers(name)) for d in (data, masked))
        scaled[name] = [(v - x.mean()) / x.std() for v in (x, z)]
    overlaps = []
    for response, term in itertools.permutations(names, 2):
        ends = []
        for file in (0, 1):
            A = np.column_stack([np.ones(1_500), scaled[term][file]])
            y = scaled[response][file]
            beta, *_ = np.linalg.lstsq(A, y, rcond=None)
            s2 = ((y - A @ beta) ** 2).mean()
            se = np.sqrt(s2 * np.linalg.inv(A.T @ A)[1, 1])
            ends.append((beta[1] - 2 * se, beta[1] + 2 * se))
        (a, b), (c, d) = ends
        shared = min(b, d) - max(a, c)
        overlaps.append(min(1.0, max(0.0, 0.5 * (shared / (b - a) + shared / (d - c)))))
    assert found.models == pytest.approx(1 - np.mean(overlaps), abs=1e-9)
    assert 0 < found.models < 1


def test_a_dropped_column_is_all_lost() -> None:
    data = people(500)
    found = sf.AnalystLoss().measure(data, data.with_frame(data.frame.drop("AREA")))
    row = found.breakdown.filter(pl.col("column") == "AREA").row(0, named=True)
    assert row["detail"] == pytest.approx(1.0)
    assert found.worst == "AREA"


FAMILIES = {
    "width": [lambda w=w: sf.Recode(column="AGE", width=w) for w in (2, 5, 10, 30)],
    "rank swap": [lambda p=p: sf.RankSwap(columns=["WAGE", "RENT"], window_percent=p) for p in (2, 10, 50)],
    "noise": [
        lambda d=d: sf.AdditiveNoise(columns=["WAGE", "RENT"], variance_ratio=d) for d in (0.01, 0.1, 1)
    ],
    "microaggregation": [lambda k=k: sf.Microaggregate(columns=["WAGE", "RENT"], k=k) for k in (3, 20, 100)],
    "suppression": [
        lambda k=k: sf.LocalSuppress(keys=["AGE", "SEX", "AREA"], tolerance=k) for k in (2, 4, 8)
    ],
}


@pytest.mark.parametrize("family", FAMILIES)
def test_more_of_one_mask_is_never_less_loss(family: str) -> None:
    data = people()
    losses = [sf.AnalystLoss().measure(data, make().mask(data, seed=5)).value for make in FAMILIES[family]]
    assert losses == sorted(losses)
    assert losses[0] > 0


def test_a_kept_analysis_enters_the_loss_and_survives_a_recode_of_its_number() -> None:
    data = people()
    formula = "WAGE ~ AGE + SEX"
    fine = sf.AnalystLoss(keep=[formula]).measure(data, sf.Recode(column="AGE", width=5).mask(data))
    assert fine.kept < 0.05  # age in classes of five is nearly age
    coarse = sf.AnalystLoss(keep=[formula]).measure(data, sf.Recode(column="AGE", width=60).mask(data))
    assert coarse.kept > fine.kept
    shuffled = data.with_columns({"WAGE": data.column("WAGE").reverse()})
    gone = sf.AnalystLoss(keep=[formula]).measure(data, shuffled)
    plain = sf.AnalystLoss().measure(data, shuffled)
    assert gone.kept > 0.5
    assert gone.value > plain.value


@pytest.mark.parametrize(
    ("label", "span"),
    [
        ("20-29", Span(20, 29)),
        ("<20", Span(None, np.nextafter(20, -np.inf))),
        ("90+", Span(90, None)),
        ("[2.5, 5)", Span(2.5, np.nextafter(5, -np.inf))),
        ("-5 to 4", Span(-5, 4)),
        ("7", Span(7, 7)),
        ("north", None),
        ("30-20", None),
    ],
)
def test_what_a_label_stands_for(label: str, span: Span | None) -> None:
    assert label_span(label) == span
