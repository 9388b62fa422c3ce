"""Rates, thinning and partners over many seeds, with tolerances from their standard errors."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest

import sfumato as sf

pytestmark = pytest.mark.statistical


def test_thinning_changes_as_many_records_as_theorem_a3_says():
    """On the deck share 4/9 changes 327 of 582 records (sd 16), share 0.3105 changes 244 (sd 15)."""
    deck = sf.decks.housing()
    for share, expected, sd in ((4 / 9, 326.8, 16), (0.3105, 244.0, 15)):
        edit = sf.ConfidentialityEdit2000(
            tolerance=2, sample_percent=100 * share, order=["BATHS", "BEDROOMS", "YR_BLT", "REGION"]
        )
        seen = [
            edit.carry_out(deck, sf.Seed.from_int(s).draws("e"))[1].figures["records_changed"]
            for s in range(20)
        ]
        # Ours draws a fixed number of classes, so its spread is below that of independent draws.
        assert abs(np.mean(seen) - expected) < 4 * sd / np.sqrt(20)
        assert np.std(seen) < 1.5 * sd


def test_the_similar_partner_halves_the_bias_on_the_deck():
    """Two trials per seed in one run: the next record, and the most similar of 16."""
    deck = sf.decks.housing()
    ratio = []
    for seed in range(10):
        edit = sf.ConfidentialityEdit2000(tolerance=2, window=16)
        figures = edit.carry_out(deck, sf.Seed.from_int(seed).draws("e"))[1].figures
        ratio.append(figures["percentage_bias"] / figures["percentage_bias_of_next_record"])
    error = np.std(ratio, ddof=1) / np.sqrt(len(ratio))
    assert np.mean(ratio) + 4 * error < 0.75


def test_each_possible_partner_is_equally_likely():
    # One seeker (area 1) and five possible partners (areas 2 to 6): a fifth each.
    frame = pl.DataFrame({"K": [1] * 6, "P": [1, 2, 3, 4, 5, 6]})
    edit = sf.ConfidentialityEdit1990(match_on=["K"], swap=["P"], within=[], rate_percent=100 / 6)
    seen: Counter[int] = Counter()
    drawn: Counter[int] = Counter()
    n = 450
    for seed in range(n):
        out = edit.mask(frame, seed=seed).frame["P"]
        moved = [i for i in range(6) if out[i] != i + 1]
        assert len(moved) == 2
        for i in moved:
            drawn[i] += 1
        seen[moved[0] * 10 + moved[1]] += 1
    # All 15 pairs are equally likely: χ² with 14 degrees of freedom, 44.7 has probability 5e-5.
    assert len(seen) == 15
    assert sum((c - n / 15) ** 2 / (n / 15) for c in seen.values()) < 44.7


def test_independent_selection_has_its_rate_and_gives_areas_back_as_often_as_it_should():
    """A selected household of b selected ones keeps its area with probability 1/b (all areas differ)."""
    b, rate, n = 8, 0.75, 300
    frame = pl.DataFrame({"K": [1] * b, "P": list(range(b))})
    edit = sf.ConfidentialityEdit1990(
        match_on=["K"], swap=["P"], within=[], selection="independent", rate_percent=100 * rate
    )
    moved, selected = [], []
    for seed in range(n):
        masked, notes, _ = edit.carry_out(sf.Microdata(frame), sf.Seed.from_int(seed).draws("e"))
        selected.append(notes.figures["selected"])
        moved.append((masked.frame["P"] != frame["P"]).sum())
    assert abs(np.mean(selected) - b * rate) < 4 * np.sqrt(b * rate * (1 - rate) / n)
    # E[moved] = E[S − 1{S ≥ 1}] = b·rate − 1 + (1 − rate)^b
    expected = b * rate - 1 + (1 - rate) ** b
    assert abs(np.mean(moved) - expected) < 4 * np.std(moved) / np.sqrt(n)


def test_riskier_households_fill_the_rate_more_often():
    # 200 households share their key with 199 others, 40 with one other: weights 1/200 and 1/2.
    key = np.r_[np.zeros(200), 1 + np.repeat(np.arange(20), 2)].astype(int)
    frame = pl.DataFrame({"W": np.arange(240) % 2, "K": key})
    # Both of a rare pair live in one ward, so that their count there is 2.
    frame = frame.with_columns(W=pl.when(pl.col("K") > 0).then(pl.col("K") % 2).otherwise(pl.col("W")))
    swap = sf.RecordSwap(hierarchy=["W"], keys=["K"], tolerance=0, rate_percent=5)
    shares = []
    for seed in range(120):
        log = swap.carry_out(sf.Microdata(frame), sf.Seed.from_int(seed).draws("e"))[1].log
        shares.append(float((log["record"] >= 200).mean()))

    def by_hand(rng):
        """Six swaps: one household by its weight, one of the other ward by chance, neither used before."""
        ward, weight = frame["W"].to_numpy(), np.r_[np.full(200, 1 / 200), np.full(40, 1 / 2)]
        free = np.ones(240, dtype=bool)
        for _ in range(6):
            one = rng.choice(240, p=np.where(free, weight, 0) / weight[free].sum())
            other = rng.choice(np.flatnonzero(free & (ward != ward[one])))
            free[[one, other]] = False
        return float((~free[200:]).sum() / 12)

    rng = np.random.default_rng(3)
    expected = [by_hand(rng) for _ in range(600)]
    error = np.sqrt(np.var(shares) / len(shares) + np.var(expected) / len(expected))
    assert abs(np.mean(shares) - np.mean(expected)) < 4 * error
    assert error < 0.01
