"""Touched keys are compared by their own probability, rare values weigh more, strings are looked for."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy.optimize import linear_sum_assignment

import sfumato as sf
from sfumato.draws import Seed
from sfumato.kernels.linkage_learn import expected_agreement
from sfumato.linkage.blocks import make_blocks
from sfumato.linkage.fields import TABLE
from sfumato.linkage.learn import falling, learn


def coded(n: int, levels: tuple[int, ...], seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame({f"k{j}": rng.integers(0, size, n) for j, size in enumerate(levels)})


def redrawn(frame: pl.DataFrame, keep: list[float], seed: int = 2) -> pl.DataFrame:
    """Each value stays with its column's probability and is else another record's, at random."""
    rng = np.random.default_rng(seed)
    new = {}
    for column, stays in zip(frame.columns, keep, strict=True):
        values = frame[column].to_numpy()
        new[column] = np.where(rng.random(len(values)) < stays, values, rng.permutation(values))
    return pl.DataFrame(new)


def most_agreements(one: pl.DataFrame, two: pl.DataFrame) -> float:
    """The plain attack: the released record that agrees on most columns, ties shared."""
    same = sum((one[c].to_numpy()[:, None] == two[c].to_numpy()[None, :]).astype(int) for c in one.columns)
    tied = same == same.max(axis=1, keepdims=True)
    return float((np.diag(tied) / tied.sum(axis=1)).mean())


def test_the_expected_agreements_are_those_of_the_slow_twin():
    people = (
        coded(30, (4, 6)).cast(pl.String).with_columns(x=pl.Series(np.random.default_rng(3).normal(size=30)))
    )
    masked = people.with_columns(x=pl.col("x") + 0.2, k0=pl.col("k0").shuffle(seed=1))
    one, two = sf.Microdata(people), sf.Microdata(masked)
    draws = Seed.from_int(1).draws("t")
    blocks = make_blocks(one, two, [], draws)
    found = learn(one, two, ["k0", "k1", "x"], blocks, draws, {})
    fields = found.fields.take(blocks.left, blocks.right)
    n, m = 30, len(fields)
    agreed, seen, moved = np.zeros(m), np.zeros(m), np.zeros(fields.tables.shape)
    assert fields.names == ("k0", "k1", "x", "x moved")
    equal_of = np.array([-1, -1, -1, 2])
    low, high = np.zeros(n, np.int64), np.full(n, n)
    score = expected_agreement(np.arange(n), low, high, fields.arrays(), equal_of, agreed, seen, moved)

    twin_agreed, twin_moved, twin_score = np.zeros(m), np.zeros(fields.tables.shape), 0.0
    for i in range(n):
        weights = []
        for k in range(n):
            total = 0.0
            for j in range(m):
                a, b = fields.left[j, i], fields.right[j, k]
                if fields.kinds[j] == TABLE:
                    total += fields.tables[j, min(199, int(abs(a - b) * 200))]
                else:
                    total += fields.agree[j, i] if a == b else fields.disagree[j]
            weights.append(total)
        mass = [math.exp(w) for w in weights]
        twin_score += math.log(sum(mass) / n) / n
        for k in range(n):
            p = mass[k] / sum(mass)
            for j in range(m):
                a, b = fields.left[j, i], fields.right[j, k]
                if fields.kinds[j] != TABLE:
                    m_j, share = 1 - math.exp(fields.disagree[j]), np.mean(fields.right[j] == a)
                    twin_agreed[j] += p * (a == b) * m_j / (m_j + (1 - m_j) * share)
                elif fields.left[2, i] != fields.right[2, k]:
                    twin_moved[j, min(199, int(abs(a - b) * 200))] += p
    assert score == pytest.approx(twin_score, abs=1e-6)
    assert agreed == pytest.approx(twin_agreed, abs=1e-4)
    assert moved == pytest.approx(twin_moved, abs=1e-4)


def test_it_learns_how_often_each_key_was_left_alone():
    """The keep probability of each of eight keys is recovered within three standard errors and .045: what
    is learnt from links, a few of which are wrong, errs towards the middle."""
    keep = [0.95, 0.9, 0.8, 0.7, 0.6, 0.9, 0.5, 0.3]
    people = coded(1_500, (12,) * 8)
    found = sf.AgreementAttack(known=people.columns).measure(people, redrawn(people, keep))
    for j, stays in enumerate(keep):
        room = 0.045 + 3 * math.sqrt(stays * (1 - stays) / 600)
        assert found.keep[f"k{j}"] == pytest.approx(stays, abs=room), j


@pytest.mark.parametrize("stays", [0.9, 0.6])
def test_no_touched_key_is_dropped(stays):
    """The battery had .108 where the plain attack had .565 (PRAM): touched keys were left out."""
    people = coded(700, (12, 10, 8, 6, 5, 5))
    masked = redrawn(people, [stays] * 6)
    plain = most_agreements(people, masked)
    data = sf.Microdata(people, sf.Schema(keys=people.columns))
    battery = sf.run_battery(data, sf.Microdata(masked, data.schema))
    assert battery.block_on == ()
    assert set(battery.known) == set(people.columns)
    assert battery.strongest.result.value > plain - 0.01


def test_a_rare_value_weighs_more():
    """Two columns, one of two values, one of many: agreeing on the second must decide."""
    rng = np.random.default_rng(4)
    people = pl.DataFrame(
        {"a": rng.integers(0, 2, 600), "b": rng.integers(0, 2, 600), "c": rng.integers(0, 300, 600)}
    )
    masked = redrawn(people, [0.5, 0.5, 0.5])
    found = sf.AgreementAttack(known=["a", "b", "c"]).measure(people, masked)
    same = {c: people[c].to_numpy()[:, None] == masked[c].to_numpy()[None, :] for c in "abc"}
    rare = sum(
        same[c] * -np.log(np.bincount(masked[c], minlength=300)[people[c].to_numpy()] / 600 + 1e-9)[:, None]
        for c in "abc"
    )
    tied = rare >= rare.max(axis=1, keepdims=True) - 1e-9
    assert found.nearest_rate > float((np.diag(tied) / tied.sum(axis=1)).mean()) - 0.02


def test_data_that_hold_no_information_are_linked_by_chance():
    rng = np.random.default_rng(5)
    people = coded(800, (9, 7, 5)).with_columns(x=pl.Series(rng.normal(size=800)))
    masked = coded(800, (9, 7, 5), seed=9).with_columns(x=pl.Series(rng.normal(size=800)))
    found = sf.AgreementAttack(known=people.columns).measure(people, masked)
    assert found.rate <= 5 / 800  # Poisson with mean 1: P(more than 5) < .001


def test_the_best_of_three_forms_is_still_chance_without_information():
    """Each form finds about one of n by chance, the best of three about 1.9 (of Poisson counts), 19 over ten
    files: 40 would be six standard errors more."""
    found = 0.0
    for seed in range(10):
        people, masked = coded(300, (6, 4, 3), seed=2 * seed), coded(300, (6, 4, 3), seed=2 * seed + 1)
        result = sf.AgreementAttack(known=people.columns).measure(people, masked, seed=seed)
        found += 300 * result.value
    assert found < 40


@pytest.mark.parametrize("seed", [5, 6])
def test_correlated_keys_that_were_swapped_are_found_as_often_as_by_the_stated_rate(seed):
    """Age nearly tells status and size, so EM can't tell which of them stayed (age .97, true .70): who
    simply takes the rate that the method states for all of them must find no more."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 80, 600)
    status = np.where(rng.random(600) < 0.9, np.digitize(age, [18, 25, 60, 65]), rng.integers(0, 6, 600))
    usual = 1 + np.digitize(age, [15, 30, 50, 62]) * 3 % 5
    size = np.where(rng.random(600) < 0.7, usual, rng.integers(1, 8, 600))
    people = pl.DataFrame({"age": age, "status": status, "sex": rng.integers(0, 2, 600), "size": size})
    masked = redrawn(people, [0.7] * 4, seed=seed)
    weight = np.zeros((600, 600))
    for column in people.columns:
        one, two = people[column].to_numpy(), masked[column].to_numpy()
        share = np.maximum(np.bincount(two, minlength=100)[one] / 600, 0.5 / 600)
        agree = np.log(0.7 / share + 0.3)[:, None]
        weight += np.where(one[:, None] == two[None, :], agree, math.log(0.3))
    rates = []
    for _ in range(5):  # ties mustn't fall on the truth
        rows, cols = rng.permutation(600), rng.permutation(600)
        _, best = linear_sum_assignment(-weight[np.ix_(rows, cols)])
        rates.append((cols[best] == rows).mean())
    found = sf.AgreementAttack(known=people.columns).measure(people, masked)
    assert found.value > np.mean(rates) - 0.01
    tied = weight >= weight.max(axis=1, keepdims=True) - 1e-9
    assert found.nearest_rate > (np.diag(tied) / tied.sum(axis=1)).mean() - 0.005
    assert found.form in ("displacements", "agreement", "one rate")


def test_a_blank_that_a_mask_made_says_nothing():
    people = coded(500, (20, 20, 20, 20))
    gone = np.random.default_rng(6).random(500) < 0.5
    masked = people.with_columns(pl.when(pl.Series(gone)).then(None).otherwise(pl.col("k0")).alias("k0"))
    found = sf.AgreementAttack(known=people.columns).measure(people, masked)
    alone = sf.AgreementAttack(known=["k1", "k2", "k3"]).measure(people, masked)
    assert found.rate >= alone.rate > 0.9


def test_the_law_of_displacements_falls():
    assert falling(np.array([3.0, 5.0, 1.0, 2.0]), np.array([1.0, 3.0, 1.0, 1.0])).tolist() == [
        4.5, 4.5, 1.5, 1.5,
    ]  # fmt: skip


# -- strings --------------------------------------------------------------------------------------


def amounts(n: int = 300) -> sf.Microdata:
    rng = np.random.default_rng(8)
    frame = pl.DataFrame(rng.lognormal(3, 1, (n, 6)), schema=[f"x{j}" for j in range(6)])
    frame = frame.with_columns(sex=pl.Series(rng.integers(0, 2, n)))
    return sf.Microdata(frame, sf.Schema(keys=["sex"], sensitive=[f"x{j}" for j in range(6)]))


@pytest.mark.parametrize(
    "step",
    [
        sf.RandomSwap(columns=[f"x{j}" for j in range(6)], rate_percent=100, together=True),
        sf.RankSwap(columns=[f"x{j}" for j in range(6)], window_percent=20, together=True),
        sf.ConfidentialityEdit2000(keys=["sex"], swap="sensitive", tolerance=400),
        sf.LinkageSwap(
            attack=sf.DistanceLinkage(known=["x0", "x1"]), columns=[f"x{j}" for j in range(6)], cells=["sex"]
        ),
    ],
    ids=lambda s: s.name,
)
def test_a_mask_that_moves_whole_strings_releases_them(step):
    """Every vector is unique and still there: the rate is 1, whatever happened to the slots."""
    data = amounts()
    masked = step.mask(data, seed=1)
    battery = sf.run_battery(data, masked, [step])
    found = next(t.result for t in battery.tried if t.attack.name == "string_attack")
    assert found.value == found.strings_unique == found.certain_rate == 1.0
    assert battery.strongest.result.value == 1.0


def test_strings_are_found_by_a_part_of_their_values_and_shared_ones_by_chance():
    """By hand: A=1 has two strings, one of them twice; A=2 one; A=3's string isn't in the release."""
    people = pl.DataFrame({"A": [1, 1, 1, 2, 3], "B": [5, 5, 6, 7, 8]})
    masked = pl.DataFrame({"A": [2, 1, 1, 1, 3], "B": [7, 5, 6, 5, 9]})
    whole = sf.StringAttack(columns=["A", "B"]).measure(people, masked)
    assert whole.value == pytest.approx((1 / 2 + 1 / 2 + 1 + 1 + 0) / 5)
    part = sf.StringAttack(columns=["A", "B"], known=["A"]).measure(people, masked)
    assert part.value == pytest.approx((1 / 3 + 1 / 3 + 1 / 3 + 1 + 0) / 5)
    assert whole.strings_whole == pytest.approx(4 / 5)
    assert whole.baseline == pytest.approx(4 / 25)


def test_columns_swapped_one_by_one_leave_few_strings():
    data = amounts()
    step = sf.RandomSwap(columns=data.schema.sensitive, rate_percent=50)
    assert "string_attack" not in {t.attack.name for t in sf.run_battery(data, data, [step]).tried}
    found = sf.StringAttack(columns=data.schema.sensitive).measure(data, step.mask(data, seed=1))
    assert found.value < 0.1  # (1/2)^6 on average
