"""The search over masks: of plans in the order of their loss the first that holds, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.experiment.least_loss import compositions, least_loss
from sfumato.experiment.prediction import distances, fit_surface
from sfumato.plan.audience import audience

N = 700


def people() -> pl.DataFrame:
    rng = np.random.default_rng(6)
    age = rng.integers(18, 80, N)
    wage = np.exp(7 + 0.02 * age + rng.normal(0, 0.4, N)).round(2)
    return pl.DataFrame(
        {
            "AGE": age,
            "SEX": rng.choice(["f", "m"], N),
            "WAGE": wage,
            "RENT": (0.3 * wage * np.exp(rng.normal(0, 0.2, N))).round(2),
        }
    )


DATA = sf.Microdata(people(), sf.Schema(keys=["AGE", "SEX"], sensitive=["WAGE", "RENT"]))


@pytest.fixture(scope="module")
def plans() -> dict[str, sf.Plan]:
    return compositions(sf.Plan(schema=DATA.schema), DATA)


def test_compositions_are_of_several_masks(plans: dict[str, sf.Plan]) -> None:
    chains = {tuple(m.name for m in p.steps) for p in plans.values()}
    assert ("recode", "local_suppress", "rank_swap") in chains
    assert ("recode", "local_suppress", "additive_noise") in chains
    assert ("cluster_shuffle",) in chains
    assert () in chains, "the file as it is, for the map"


def test_the_first_that_holds_in_the_order_of_loss_is_taken(plans: dict[str, sf.Plan]) -> None:
    limits = audience("public").limits()
    wanted = ["keys as they are; numbers as they are", "keys as they are; rank_swap window_percent 15",
              "all columns dealt among 20", "all columns dealt among 50"]  # fmt: skip
    some = {k: plans[k] for k in wanted}
    found = least_loss(some, DATA, limits, seed=1)
    losses = {p.label: p.loss for p in found.placed}
    assert losses["keys as they are; numbers as they are"] == 0
    assert [t.loss for t in found.tried] == sorted(t.loss for t in found.tried)
    assert found.best is not None
    assert found.run is not None
    assert all(x.ok for x in found.run.limits)
    assert all(t.misses or t.problem for t in found.tried[:-1])
    # The file as it is isn't even tried: the quick intruder already finds nearly everybody.
    assert "keys as they are; numbers as they are" not in [t.label for t in found.tried]
    less = [p for p in found.placed if p.loss < losses[found.best]]
    assert {p.label for p in less if p.risk <= 0.05} <= {t.label for t in found.tried}


def test_where_none_holds_it_is_said(plans: dict[str, sf.Plan]) -> None:
    some = {k: plans[k] for k in ("keys as they are; numbers as they are",)}
    found = least_loss(some, DATA, audience("public").limits(), seed=1)
    assert (found.best, found.run, found.settled) == (None, None, True)


def test_the_command_finds_and_writes_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people().write_csv(tmp_path / "people.csv")
    head = 'format = 1\ndata = "people.csv"\n[roles]\nkeys = ["AGE", "SEX"]\nsensitive = ["WAGE", "RENT"]\n'
    swap = '[[step]]\nmask = "rank_swap"\ncolumns = ["WAGE", "RENT"]\nwindow_percent = 5\n'
    deal = '[[step]]\nmask = "cluster_shuffle"\ncolumns = ["AGE", "SEX", "WAGE", "RENT"]\n'
    (tmp_path / "swap.toml").write_text(head + swap)
    (tmp_path / "deal.toml").write_text(head + deal)
    both = [str(tmp_path / "swap.toml"), str(tmp_path / "deal.toml")]
    best = tmp_path / "best.toml"
    words = ["compare", *both, "--vary", "smallest=20,50", "--search", "--for", "public"]
    assert main([*words, "--json", "--save-plan", str(best)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["best"].startswith("deal: ")
    assert {p["label"].split(":")[0] for p in told["points"]} == {"swap", "deal"}
    assert sf.Plan.load(best).steps[0].name == "cluster_shuffle"
    assert main(["compare", both[0], "--for", "public"]) == 1
    assert "none of the plans meets the limits" in capsys.readouterr().out


def test_a_surface_is_held_to_runs_that_all_agree() -> None:
    """A plan that changes nothing loses nothing: a smooth surface must not say otherwise there."""
    rates = [0, 1, 2, 3, 4, 5]
    apart = distances([rates])
    places = [0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 5]
    values = [0.0, 0.0, 0.0, 0.30, 0.34, 0.33, 0.31, 0.35, 0.34, 0.36, 0.33]
    surface = fit_surface(apart, places, values).held_to(places, values)
    assert surface.mean[0] == 0.0
    assert surface.error[0] == 0.0
    for k in (1, 2, 5):
        own = np.mean([v for p, v in zip(places, values, strict=True) if p == k])
        many = places.count(k)
        assert abs(surface.mean[k] - own) <= 2 * surface.noise[k] / np.sqrt(many) + 1e-12
