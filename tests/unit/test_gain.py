"""The gain of a release is that of its worst column, with the luck of looking at several taken off."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.run.gain import attribute_gain
from sfumato.stats.worst import together, worst_of

NAMES = list("ABCDEF")


def people(n: int, seed: int = 0) -> sf.Microdata:
    """A key that four share, and six columns that don't depend on it."""
    rng = np.random.default_rng(seed)
    key = rng.integers(0, n // 4, n).astype(str)
    frame = pl.DataFrame({"KEY": key, **{c: rng.lognormal(8, 1, n) for c in NAMES}})
    return sf.Microdata(frame, sf.Schema(keys=["KEY"], sensitive=NAMES))


def all_but_one(part: sf.Microdata, seed: sf.Seed) -> sf.Microdata:
    """F goes out beside the key as it was; the other columns are dealt to anybody."""
    draws = seed.draws("deal")
    new = {c: part.column(c).gather(draws.stream(c).permutation(len(part))) for c in NAMES if c != "F"}
    return part.with_columns(new)


def test_one_column_that_is_told_is_not_hidden_by_five_that_are_not() -> None:
    """One of those is drawn who share a person's key: his own with probability E 1/(1 + N), N others."""
    found = attribute_gain(people(2_000), all_but_one, people=400)
    assert found.worst == "F"
    # N is Poisson, four a key of whom two thirds are in: (1 − e^−8/3) / (8/3).
    expected = (1 - np.exp(-8 / 3)) / (8 / 3)
    assert found.by_column["F"] == pytest.approx(expected, abs=0.06)
    assert found.pooled < 0.10
    assert found.value == pytest.approx(found.by_column["F"], abs=0.02)
    assert found.low < found.by_column["F"] < found.high
    assert max(abs(found.by_column[c]) for c in "ABCDE") < 0.06


def test_where_nothing_is_told_the_worst_of_six_is_no_more_than_the_pool_and_luck() -> None:
    raw, judged = [], []
    for seed in range(12):
        data = people(600, seed)
        found = attribute_gain(
            data, lambda part, _, s=seed: people(len(part), 900 + s), people=150, splits=2, seed=seed
        )
        raw.append(max(found.by_column.values()))
        judged.append(found.value)
        assert found.low <= 0.0
    # Six standard errors of about .025 have a largest of 1.27 of them on average; half of it at least goes.
    assert np.mean(judged) < np.mean(raw) - 0.01
    assert np.mean(judged) < 0.03


def test_a_rare_value_that_is_told_has_gain_one() -> None:
    """Two in a hundred are ill: to guess "well" is right for 98, and the release still tells all of it."""
    rng = np.random.default_rng(1)
    n = 3_000
    frame = pl.DataFrame(
        {"KEY": rng.permutation(n) * 1.0, "ILL": np.where(rng.random(n) < 0.02, "ill", "well")}
    )
    data = sf.Microdata(frame, sf.Schema(keys=["KEY"], sensitive=["ILL"]))
    found = attribute_gain(data, lambda part, _: part)
    assert found.by_column["ILL"] == pytest.approx(1.0, abs=1e-9)


def test_a_sensitive_text_that_nearly_everybody_has_alone_is_judged_too() -> None:
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"KEY": rng.permutation(400) * 1.0, "NOTE": [f"note {i}" for i in range(400)]})
    data = sf.Microdata(frame, sf.Schema(keys=["KEY"], sensitive=["NOTE"]))
    assert attribute_gain(data, lambda part, _: part).by_column["NOTE"] == pytest.approx(1.0)


def test_the_error_is_that_of_persons() -> None:
    """Over files drawn anew, the gain scatters by its own standard error."""
    found = [attribute_gain(people(400, s), all_but_one, people=200, splits=2, seed=s) for s in range(40)]
    room = 3 / np.sqrt(78)  # a standard deviation from 40 draws is right within 1/√78 of itself
    for column in ("A", "F"):
        cells = [next(c for c in one.columns if c.column == column) for one in found]
        scatter = np.std([c.gain for c in cells], ddof=1)
        said = np.mean([c.error for c in cells])
        # A is dealt to everybody, which scatters less than draws; the error may not be less than the truth.
        assert said > scatter * (1 - room)
        assert said < scatter * (1 + room) * (1.5 if column == "A" else 1.0)


def test_intervals_hold_for_all_columns_at_once() -> None:
    rng = np.random.default_rng(3)
    errors = np.full(12, 0.02)
    wrong = [worst_of(0.05 + rng.normal(0, errors), errors).low > 0.05 for _ in range(4_000)]
    assert np.mean(wrong) <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / 4_000)


def test_the_figures_are_drawn_together_as_dersimonian_and_laird_have_it() -> None:
    """By hand: y = 0, 0, .6 with s = .1: mean .2, Q = .24/.01 = 24, τ² = 22/(300 − 100) = .11."""
    drawn = together([0.0, 0.0, 0.6], [0.1, 0.1, 0.1])
    share = 0.11 / 0.12
    assert drawn.tolist() == pytest.approx([0.2 - share * 0.2, 0.2 - share * 0.2, 0.2 + share * 0.4])
    assert together([0.3], [0.5]).tolist() == [0.3]


def test_the_verdict_names_the_column_and_judges_by_it() -> None:
    """Five columns that tell nothing don't make up for one that goes out as it was."""
    data = people(1_200)
    steps = [sf.RandomSwap(columns=[c], rate_percent=100) for c in "ABCDE"]
    plan = sf.Plan(steps=steps, limits={"battery.gain": {"at_most": 0.10}})
    run = plan.run(data, seed=1)
    found = run.results["battery"]
    assert found.gain_column == "F"
    assert found.gain_pooled < 0.10 < found.gain
    assert not run.limits[0].ok
    assert "most of F" in run.verdict.text
