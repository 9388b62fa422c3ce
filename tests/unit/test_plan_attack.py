"""Who knows the whole plan and not the seed: steps' laws together, groups made again, kinds apart."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

import sfumato as sf
from sfumato.contract.disclosure import Exchanged, NoiseAdded
from sfumato.linkage.laws import laws_of
from sfumato.run.battery import run_battery


def people(n: int, seed: int = 1) -> sf.Microdata:
    rng = np.random.default_rng(seed)
    base = rng.normal(size=n)
    frame = pl.DataFrame(
        {
            "PAY": np.round(np.exp(9 + 0.8 * base + 0.6 * rng.normal(size=n)), 2),
            "RENT": np.where(rng.random(n) < 0.5, 0.0, np.round(np.exp(7 + 0.5 * rng.normal(size=n)), 2)),
            "AREA": rng.integers(0, 5, n).astype(str),
            "KIND": rng.integers(0, 4, n).astype(str),
        }
    )
    return sf.Microdata(frame, sf.Schema(keys=["AREA", "KIND"], sensitive=["PAY", "RENT"]))


def linked(weight: np.ndarray) -> float:
    rng = np.random.default_rng(5)
    rows, order = rng.permutation(len(weight)), rng.permutation(len(weight))
    at, to = linear_sum_assignment(-weight[np.ix_(rows, order)])
    return float((rows[at] == order[to]).mean())


def stayed(one: pl.Series, two: pl.Series, keep: float) -> np.ndarray:
    """ln P(b | a)/P(b) of a value that stays with a known probability."""
    a, b = one.to_numpy(), two.to_numpy()
    share = np.array([(b == value).mean() for value in a])
    return np.where(a[:, None] == b[None, :], np.log(keep / share + 1 - keep)[:, None], np.log(1 - keep))


def test_a_swap_and_changed_keys_together_are_read_together():
    data = people(400)
    steps = [
        sf.RankSwap(columns=["PAY", "RENT"], window_percent=8),
        sf.Pram(columns=["AREA", "KIND"], keep_probability=0.8),
    ]
    masked = steps[1].mask(steps[0].mask(data, seed=3), seed=3)
    one, two = data.frame, masked.frame
    weight = sum(stayed(one[c], two[c], 0.8) for c in ("AREA", "KIND"))
    for column in ("PAY", "RENT"):
        sides = [f[column].to_numpy() for f in (one, two)]
        low, high = ([rankdata(s, how) for s in sides] for how in ("min", "max"))
        apart = np.maximum(low[0][:, None] - high[1][None, :], low[1][None, :] - high[0][:, None])
        weight = weight - np.where(apart <= 0.08 * 400 + 1, 0.0, 12.0)
    plain = linked(weight)
    found = run_battery(data, masked, steps, finds="records").strongest.result
    assert found is not None
    assert found.value >= plain - 0.01


def test_noise_and_changed_keys_together_are_read_together():
    data = people(400)
    steps = [
        sf.AdditiveNoise(columns=["PAY", "RENT"], variance_ratio=0.05),
        sf.Pram(columns=["AREA", "KIND"], keep_probability=0.8),
    ]
    masked = steps[1].mask(steps[0].mask(data, seed=3), seed=3)
    one, two = data.frame, masked.frame
    weight = sum(stayed(one[c], two[c], 0.8) for c in ("AREA", "KIND"))
    x, z = (f.select("PAY", "RENT").to_numpy() for f in (one, two))
    root = np.linalg.inv(np.linalg.cholesky(0.05 * np.cov(x, rowvar=False)))
    apart = (x[:, None, :] - z[None, :, :]) @ root.T
    plain = linked(weight - 0.5 * (apart**2).sum(axis=2))
    found = run_battery(data, masked, steps, finds="records").strongest.result
    assert found is not None
    assert found.value >= plain - 0.01


def test_groups_made_without_a_seed_are_made_again():
    data = people(120)
    step = sf.Microaggregate(columns=["PAY", "RENT"], k=4)
    attack = sf.PlanAttack(known=["PAY", "RENT"])
    masked = step.mask(data)
    groups = masked.frame.select("PAY", "RENT").n_unique()
    found = attack.measure(data, masked, steps=[step])
    assert found.nearest_rate == pytest.approx(groups / 120)  # everybody's group, and nobody in it
    battery = run_battery(data, masked, [step], known=["PAY", "RENT"], block_on=[], finds="records")
    assert battery.strongest.result.value >= groups / 120 - 1e-9


def test_blanks_tell_who_was_rare():
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({c: rng.zipf(1.7, 300).clip(1, 12).astype(str) for c in "AB"})
    data = sf.Microdata(frame, sf.Schema(keys=["A", "B"]))
    step = sf.LocalSuppress(keys=["A", "B"], tolerance=3)
    masked = step.mask(data)
    found = sf.PlanAttack(known=["A", "B"]).measure(data, masked, steps=[step])
    # The same blanks on his own list: a row is shared by those who have it, as in any exact copy.
    assert found.nearest_rate == pytest.approx(masked.frame.n_unique() / 300, abs=1e-6)


def test_a_release_that_holds_nothing_tells_nothing():
    data, other = people(300), people(300, seed=9)
    steps = [
        sf.RankSwap(columns=["PAY", "RENT"], window_percent=10),
        sf.Pram(columns=["AREA", "KIND"], keep_probability=0.8),
    ]
    found = sf.PlanAttack(known=["PAY", "RENT", "AREA", "KIND"]).measure(data, other, steps=steps)
    assert max(found.rate, found.nearest_rate) < 0.02  # 1/300, and the best of three forms


def test_what_kind_a_value_is_counts_by_itself():
    """Amounts dealt out anew among those who have one: who has none is as he was."""
    rng = np.random.default_rng(4)
    n = 500
    names = [f"X{j}" for j in range(6)]
    before, after = {}, {}
    for name in names:
        values = np.where(rng.random(n) < 0.5, 0.0, rng.lognormal(8, 1, n))
        there = np.flatnonzero(values)
        dealt = values.copy()
        dealt[there] = values[rng.permutation(there)]
        before[name], after[name] = values, dealt
    one, two = pl.DataFrame(before), pl.DataFrame(after)
    patterns = len(np.unique(one.to_numpy() > 0, axis=0))
    found = sf.AgreementAttack(known=names).measure(one, two)
    assert max(found.rate, found.nearest_rate) > 0.9 * patterns / n  # zeros alone tell so much


def test_the_law_of_a_window_is_a_density():
    data = people(1_000)
    fact = Exchanged(columns=("PAY",), window_percent={"PAY": 10.0})
    fields = laws_of(data, data, ["PAY"], [fact]).fields
    assert fields is not None
    cells = fields.scale[0, 0]
    assert 2 * np.exp(fields.tables[0]).sum() / cells == pytest.approx(1.0, abs=0.03)
    geometric = Exchanged(columns=("PAY",), window_percent={"PAY": 10.0}, law="geometric")
    fields = laws_of(data, data, ["PAY"], [geometric]).fields
    assert fields is not None
    # Both sides of zero; the first cell stands at its lower edge.
    assert 2 * np.exp(fields.tables[0]).sum() / fields.scale[0, 0] == pytest.approx(1.0, abs=0.06)


def test_a_column_of_two_steps_has_no_law_of_one():
    data = people(50)
    facts = [
        Exchanged(columns=("PAY",), window_percent={"PAY": 10.0}),
        NoiseAdded(columns=("PAY",), variance_ratio=0.1),
    ]
    assert laws_of(data, data, ["PAY"], facts).fields is None
