"""Who is asked for the battery: every registered attack, and a stranger's too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato import registry
from sfumato.contract.disclosure import Exchanged, Fact, Kept, NoiseAdded, Travelled, of_kind
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.run.battery import fitting_attacks, run_battery


def amounts(n: int = 200, m: int = 3) -> sf.Microdata:
    X = np.random.default_rng(7).lognormal(3, 1, (n, m))
    names = [f"x{j}" for j in range(m)]
    return sf.Microdata(pl.DataFrame(X, schema=names), sf.Schema(sensitive=names))


# A package of somebody else: a mask that turns the sign, and the attack on it.


@dataclass(frozen=True, kw_only=True)
class Turned(Fact):
    """The values' signs were turned."""


@dataclass(frozen=True, kw_only=True)
class TurnSign(Mask):
    """Turn the sign of each value."""

    name: ClassVar[str] = "turn_sign"
    columns: tuple[str, ...] = parameter(doc="The columns.", columns="sensitive")

    def changes(self, data: Microdata) -> Sequence[str]:
        return self.columns

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        return [Turned(columns=self.columns)]

    def _apply(self, data, draws, notes):
        return data.with_columns({c: -data.column(c) for c in self.columns})


@dataclass(frozen=True, kw_only=True)
class TurnBack(Attack):
    """Turn the sign back and look."""

    name: ClassVar[str] = "turn_back"
    columns: tuple[str, ...] = parameter(doc="The columns.", columns="sensitive")

    @classmethod
    def against(cls, step: Mask, data: Microdata, intruder: Intruder) -> Sequence[Attack]:
        return [cls(columns=fact.columns) for fact in of_kind(Turned, step.discloses(data))]

    def _measure(self, original, masked, draws):
        back = masked.with_columns({c: -masked.column(c) for c in self.columns})
        found = sf.DistanceLinkage(known=self.columns).measure(original, back)
        return Result(found.value, interval=found.interval, figures=dict(found.figures))


def test_a_mask_from_elsewhere_brings_its_own_attack(monkeypatch):
    known = {**registry.measures(), "turn_back": TurnBack}
    monkeypatch.setattr(registry, "measures", lambda: known)
    data = amounts()
    step = TurnSign(columns=data.columns)
    masked = step.mask(data, seed=1)
    assert run_battery(data, masked).strongest.result.value < 0.5
    best = run_battery(data, masked, [step]).strongest
    assert best.attack == TurnBack(columns=tuple(data.columns))
    assert best.result.value == 1.0


def test_what_the_masks_disclose():
    data = amounts()
    two = ("x0", "x1")
    swap = sf.RankSwap(columns=two, window_percent={"x0": 4, "x1": 8}).discloses(data)
    assert swap == [Exchanged(columns=two, window_percent={"x0": 4, "x1": 8})]
    string = sf.RankSwap(columns=two, window_percent=4, together=True).discloses(data)
    assert of_kind(Travelled, string) == [Travelled(columns=two)]
    random = sf.RandomSwap(columns=two, rate_percent=30).discloses(data)
    assert random == [Kept(columns=two, keep={"x0": 0.7, "x1": 0.7})]
    (noise,) = sf.MixtureNoise(columns=two, variance_ratio=0.1, rescale=True).discloses(data)
    assert noise == NoiseAdded(
        columns=two, variance_ratio=0.1, form="mixture", rescaled=True, root="principal"
    )
    assert sf.Recode(column="x0", width=10).discloses(data) == ()


def test_a_step_that_no_longer_fits_the_original_is_passed_over():
    """The windows of a column that was recoded before can't be worked out from the original."""
    data = amounts()
    steps = [
        sf.Recode(column="x0", width=5),
        sf.RankSwap(columns=["x1", "x2"], window_percent=5),
        sf.AdditiveNoise(columns=["x0"], variance_ratio=0.1),
    ]
    masked = steps[1].mask(steps[0].mask(data, seed=1), seed=1)
    attacks, _ = fitting_attacks(data, masked, steps)
    assert "rank_attack" in {a.name for a in attacks}


def test_what_it_costs_to_publish_parameters_is_told_by_measured_rates(tmp_path):
    """Both rates by running the attacks by hand: with the window, and the best of those without it."""
    rng = np.random.default_rng(5)
    names = ["A", "B", "C"]
    frame = pl.DataFrame(np.exp(rng.normal(size=(300, 3))), schema=names)
    data = sf.Microdata(frame, sf.Schema(sensitive=names))
    steps = [sf.RankSwap(columns=names, window_percent=20)]
    run = sf.Plan(steps=steps, release={"publish_parameters": True}).run(data, seed=1)
    found = run.results["battery"]
    told = sf.RankAttack(columns=names, window_percent=20, partner="uniform").measure(data, run.masked)
    assert found.rate_with_parameters == pytest.approx(told.rate)
    alone = sf.run_battery(data, run.masked, finds="records").strongest.result
    assert found.rate_without_parameters == pytest.approx(alone.value)
    words = [w for w in run.warnings if w.startswith("the parameters are published")]
    assert f"{100 * told.rate:.1f}% (rank_attack)" in words[0]
    assert f"{100 * alone.value:.1f}%" in words[0]
    release = run.release(tmp_path / "release", despite_limits=True)
    for report in (release.report, release.internal / "report.html"):
        text = report.read_text(encoding="utf-8")
        assert f"{100 * told.rate:.1f}%" in text
    kept = sf.Plan(steps=steps).run(data, seed=1)
    assert "battery" not in kept.results


@pytest.mark.parametrize("plan", ["known", "unknown"])
def test_a_few_coarse_keys_that_were_swapped_are_matched_as_well_as_by_rarity(plan):
    """Written from scratch: Σ −ln f over the keys that agree, a draw among the best. 1-1 lost .03 to it."""
    rng = np.random.default_rng(11)
    n = 600
    age = rng.integers(16, 90, n)
    work = np.where(age > 64, 5, rng.integers(1, 6, n))
    frame = pl.DataFrame(
        {"AGE": age, "SEX": rng.choice(["f", "m"], n), "WORK": work, "SIZE": rng.poisson(2, n)}
    )
    keys = frame.columns
    data = sf.Microdata(frame, sf.Schema(keys=keys))
    steps = [sf.RandomSwap(columns=keys, rate_percent=30)]
    ours, plain = [], []
    for seed in range(3):
        masked = steps[0].mask(data, seed=seed)
        told = steps if plan == "known" else ()
        ours.append(run_battery(data, masked, told, finds="records").strongest.result.value)
        weight = np.zeros((n, n))
        for key in keys:
            one, two = (d.frame[key].to_numpy() for d in (data, masked))
            share = np.array([(two == v).mean() for v in one])
            weight += (one[:, None] == two[None, :]) * -np.log(np.maximum(share, 0.5 / n))[:, None]
        tied = weight >= weight.max(axis=1, keepdims=True) - 1e-9
        plain.append(float((np.diag(tied) / tied.sum(axis=1)).mean()))
    assert np.mean(ours) >= np.mean(plain) - 0.01
