"""Protect keeps households where their shapes hide them, and says why where they don't."""

from __future__ import annotations

import numpy as np
import polars as pl

import sfumato as sf
from sfumato.draws import as_seed
from sfumato.experiment.candidates import workshop
from sfumato.experiment.trials import Trials
from sfumato.plan.audience import audience


def couples(homes: int, *, large: int = 0) -> sf.Microdata:
    """Couples in ``homes`` homes; ``large`` more homes hold seven adults."""
    rng = np.random.default_rng(2)
    home = np.concatenate([np.repeat(np.arange(homes), 2), homes + np.repeat(np.arange(large), 7)])
    n = len(home)
    place = np.concatenate([np.tile([0, 1], homes), np.tile(np.arange(7), large)])
    age = np.clip(rng.normal(48, 13, homes + large)[home] + rng.normal(0, 3, n), 20, 90).astype(int)
    frame = pl.DataFrame(
        {
            "HH": home + 1,
            "RELATION": np.where(place == 0, "head", np.where(place == 1, "spouse", "other")),
            "AGE": age,
            "SEX": np.where(place == 0, "m", "f"),
            "PAY": np.exp(rng.normal(8, 0.5, n)).round(2),
        }
    )
    return sf.Microdata(frame, sf.Schema(household="HH", keys=["AGE", "SEX"], sensitive=["PAY"]))


def starts(data: sf.Microdata) -> Trials:
    limits = {x.figure: x for x in audience("public").limits()}
    shop = workshop(data, tuple(limits.values()), (), sf.Plan(schema=data.schema), audience("public"))
    trials = Trials(data, shop, limits, (), as_seed(1), None)
    trials.look(trials_first(trials))
    return trials


def trials_first(trials: Trials):  # type: ignore[no-untyped-def]
    from sfumato.experiment.candidates import Candidate

    return Candidate(tuple(trials.shop.floor), "all", trials.sizes[0], together=True)


def test_households_of_one_shape_are_dealt_whole_and_their_new_number_released() -> None:
    data = couples(400)
    trials = starts(data)
    (first,) = trials.made
    assert not first.problem, first.problem
    assert first.group >= 20
    plan = trials.shop.plan(first.candidate)
    assert "HH" not in plan.release.drop
    assert plan.steps[-1].members == "together"
    masked = plan.run(data, seed=1, measure=False).masked.frame
    kinds = masked.group_by("HH").agg(pl.len(), pl.col("SEX").sort())
    assert set(kinds["len"]) == {2}
    assert kinds["SEX"].to_list() == [["f", "m"]] * 400


def test_a_shape_of_two_households_is_refused_and_persons_are_dealt_apart() -> None:
    trials = starts(couples(400, large=2))
    (first,) = trials.made
    assert "shape" in first.problem
    from dataclasses import replace

    plan = trials.shop.plan(replace(first.candidate, together=False))
    assert "HH" in plan.release.drop
    assert plan.steps[-1].members == "apart"


def test_the_group_is_that_of_the_rarest_shape() -> None:
    """Four households of seven hide among four, whatever the clusters' size: no public file."""
    trials = starts(couples(400, large=4))
    (first,) = trials.made
    assert first.problem or first.group <= 4
    assert "group" in first.misses(trials.limits) or first.problem


def test_what_was_refused_is_never_the_nearest() -> None:
    """Where nothing holds, a plan that ran is taken, not one that couldn't."""
    from sfumato.experiment.trials import Trial

    data = couples(400, large=2)
    trials = starts(data)
    (refused,) = trials.made
    ran = Trial(trials_first(trials).sized(50), "ran", rate=0.9, gain=0.9, group=1)
    trials.made.append(ran)
    trials._starts = lambda: list(trials.made)  # type: ignore[method-assign]
    assert refused.problem
    assert trials.search() is ran
