"""Re-identification rates on the CASC file, from FORMULAS section 7, over a few seeds.

The masks are made here, independently of sfumato's own. A tolerance is the stated one of the mean over
many seeds plus four standard errors of the mean over ours.
"""

from __future__ import annotations

import math
import sys
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import linkage_twins as twins

pytestmark = pytest.mark.statistical
SEEDS = 3
MASKS = {"rank": twins.rank_swap, "normal": twins.normal_noise, "mixture": twins.mixture_noise}


@cache
def casc(path):
    return pl.read_csv(path / "CASCrefmicrodata.csv").cast(pl.Float64)


@cache
def masked(path, kind, strength, seed):
    data = casc(path)
    rng = np.random.default_rng((seed, int(1000 * strength)))
    return pl.DataFrame(MASKS[kind](data.to_numpy(), strength, rng), schema=data.columns)


def rates(path, kind, strength, attack, figure="rate", seeds=SEEDS):
    return [
        getattr(attack.measure(casc(path), masked(path, kind, strength, s), seed=s), figure)
        for s in range(seeds)
    ]


def near(found, target, tolerance, sd):
    error = abs(float(np.mean(found)) - target)
    assert error <= tolerance + 4 * sd / math.sqrt(len(found)), (found, target)


# (mask, strength, target by d, its sd over seeds, target by l, its sd): FORMULAS 7 and the sds of its notes.
PAPERS = [
    ("rank", 0.05, 0.869, 0.0107, 0.955, 0.0086),
    ("rank", 0.10, 0.268, 0.0162, 0.681, 0.0185),
    ("rank", 0.15, 0.047, 0.0073, 0.318, 0.0195),
    ("normal", 0.01, 0.81, 0.0131, 0.748, 0.0122),
    ("normal", 0.10, 0.20, 0.0118, 0.296, 0.0130),
    ("mixture", 0.01, 0.757, 0.0108, 0.715, 0.0147),
    ("mixture", 0.05, 0.148, 0.0077, 0.35, 0.0143),
    ("mixture", 0.10, 0.039, 0.0053, 0.19, 0.0105),
    ("mixture", 0.20, 0.008, 0.0031, 0.085, 0.0088),
]


@pytest.mark.parametrize(("kind", "strength", "d", "d_sd", "log", "log_sd"), PAPERS)
def test_the_papers_linkage(reference_data, kind, strength, d, d_sd, log, log_sd):
    columns = casc(reference_data).columns
    near(rates(reference_data, kind, strength, sf.Linkage(known=columns, metric="d")), d, 0.02, d_sd)
    near(rates(reference_data, kind, strength, sf.Linkage(known=columns, metric="l")), log, 0.02, log_sd)


@pytest.mark.parametrize(
    ("strength", "certain", "tolerance", "propagated", "likelihood"),
    [(0.05, 0.9998, 0.001, 1.0, 1.0), (0.10, 0.975, 0.01, 0.998, 1.0), (0.15, 0.824, 0.02, 0.980, 0.993)],
)
def test_the_rank_attack(reference_data, strength, certain, tolerance, propagated, likelihood):
    attack = sf.RankAttack()
    results = [
        attack.measure(casc(reference_data), masked(reference_data, "rank", strength, s))
        for s in range(SEEDS)
    ]
    for r in results:
        # Exactly: the window recovered, the truth always a candidate, no false certainty.
        assert r.false_certain == r.false_propagated == 0
        assert r.truth_among_candidates == 1
        window = math.ceil(strength * 1080) - 1
        assert next(iter(r.window_percent.values())) == pytest.approx(100 * window / 1080, abs=1e-4)
    near([r.certain_rate for r in results], certain, tolerance, 0.01)
    near([r.propagated_rate for r in results], propagated, 0.005, 0.005)
    # Ours may be better than the prototype's, whose law of displacements was a histogram.
    assert np.mean([r.rate for r in results]) >= likelihood - 0.005
    assert all(r.certain_rate <= r.propagated_rate <= r.rate + 0.002 for r in results)


@pytest.mark.parametrize(
    ("strength", "target", "tolerance"),
    [(0.01, 1.0, 0.003), (0.05, 0.983, 0.01), (0.1, 0.897, 0.015), (0.2, 0.688, 0.03)],
)
def test_mahalanobis_and_self_training_against_normal_noise(reference_data, strength, target, tolerance):
    aware = rates(reference_data, "normal", strength, sf.NoiseAttack(form="normal"), seeds=2)
    near(aware, target, tolerance, 0.012)
    blind = rates(reference_data, "normal", strength, sf.DistanceLinkage(metric="mahalanobis"), seeds=2)
    near(blind, target, tolerance, 0.012)
    alone = rates(reference_data, "normal", strength, sf.SelfTrainedLinkage(space="values"), seeds=2)
    assert np.mean(alone) >= np.mean(aware) - 0.02


@pytest.mark.parametrize("strength", [0.01, 0.05, 0.10, 0.20])
def test_mixture_noise_is_undone_at_any_strength(reference_data, strength):
    """Even by an intruder who is told neither the form, nor the root, nor the variance."""
    found = rates(reference_data, "mixture", strength, sf.NoiseAttack(), seeds=2)
    assert min(found) >= 0.997  # the mean is ≥ .999; a single file may lose a few of 1,080
    assert np.mean(found) >= 0.999 - 1 / 1080


def test_the_order_of_the_attacks(reference_data):
    """Rank swap 15%: papers' d < l < distance < self-trained < rank attack (.05 .32 .46 … .99)."""
    columns = casc(reference_data).columns
    attacks = [
        sf.Linkage(known=columns, metric="d"),
        sf.Linkage(known=columns),
        sf.DistanceLinkage(known=columns),
        sf.SelfTrainedLinkage(known=columns),
        sf.RankAttack(columns=columns),
    ]
    means = [np.mean(rates(reference_data, "rank", 0.15, a, seeds=2)) for a in attacks]
    assert means == sorted(means)
    assert means[2] == pytest.approx(0.457, abs=0.05)
    # Nothing known of the mask, and nine in ten are found: far above the published .34.
    assert means[3] > 0.8


def test_few_known_variables(reference_data):
    """FORMULAS 7, rank swap 15%, means over subsets: 3 known .05, 7 known .67 (method-aware)."""
    from sfumato.run.curve import known_curve

    curve = known_curve(
        sf.RankAttack(partner="uniform"),
        casc(reference_data),
        masked(reference_data, "rank", 0.15, 0),
        sizes=[3, 7],
        subsets=8,
    )
    low, high = curve["mean"]
    # Subsets differ by .02 and .17 or so: four standard errors over 8 of ours and 6 of theirs.
    assert low == pytest.approx(0.053, abs=4 * 0.03 * math.sqrt(1 / 8 + 1 / 6))
    assert high == pytest.approx(0.668, abs=4 * 0.15 * math.sqrt(1 / 8 + 1 / 6))
