"""Synthesis of the CASC file against a plain CART synthesis with leaves of 5, whose figures are known:
s0 .075, loss of interval overlap .345, error of subgroup means .063, at a link rate of .001."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

import sfumato as sf

SEEDS = 5
TOTAL, PARTS = "PTOTVAL", ("PEARNVAL", "POTHVAL")


@pytest.fixture(scope="module")
def casc(reference_data: Path) -> sf.Microdata:
    frame = pl.read_csv(reference_data / "CASCrefmicrodata.csv").select(pl.all().cast(pl.Float64))
    assert frame.shape == (1080, 13)
    return sf.Microdata(frame, sf.Schema(variables={TOTAL: {"sum_of": PARTS}}))


@pytest.fixture(scope="module")
def releases(casc: sf.Microdata) -> list[np.ndarray]:
    mask = sf.Synthesise(columns=casc.columns)
    return [mask.mask(casc, seed=s).frame.to_numpy() for s in range(SEEDS)]


def overlap_loss(x: np.ndarray, z: np.ndarray, total: int) -> float:
    """1 − the mean overlap of the 95% intervals of twelve regressions on four columns each, half of them
    of logarithms (columns drawn at random once and for all)."""
    rng = np.random.default_rng(5)
    allowed = [c for c in range(x.shape[1]) if c != total]
    shares: list[float] = []
    for i in range(12):
        y, *others = rng.permutation(allowed)[:5]
        of = (lambda v: np.sign(v) * np.log1p(np.abs(v))) if i % 2 else (lambda v: v)
        (low, high), (low2, high2) = (interval(of(d[:, y]), of(d[:, others])) for d in (x, z))
        both = np.minimum(high, high2) - np.maximum(low, low2)
        shares += list((0.5 * (both / (high - low) + both / (high2 - low2)))[1:])
    return 1 - float(np.clip(shares, 0, 1).mean())


def interval(y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    design = np.column_stack([np.ones(len(x)), x])
    inverse = np.linalg.pinv(design.T @ design)
    b = inverse @ design.T @ y
    left = y - design @ b
    error = np.sqrt(np.maximum(np.diag(inverse), 0) * (left @ left) / (len(y) - design.shape[1]))
    return b - 1.96 * error, b + 1.96 * error


def subgroup_error(x: np.ndarray, z: np.ndarray) -> float:
    """The mean error, in standard deviations, of means in 3 × 3 groups of thirds of two columns."""
    rng = np.random.default_rng(3)
    errors = []
    for _ in range(15):
        a, b = rng.permutation(x.shape[1])[:2]
        cuts = [np.quantile(x[:, c], [1 / 3, 2 / 3]) for c in (a, b)]
        group, other = (
            np.searchsorted(cuts[0], d[:, a]) * 3 + np.searchsorted(cuts[1], d[:, b]) for d in (x, z)
        )
        rest = [c for c in range(x.shape[1]) if c not in (a, b)]
        for g in range(9):
            if (group == g).sum() >= 20 and (other == g).sum() >= 5:
                gap = np.abs(x[group == g].mean(0) - z[other == g].mean(0)) / x.std(0)
                errors.append(gap[rest].mean())
    return float(np.mean(errors))


@pytest.mark.statistical
def test_it_loses_less_than_a_plain_cart_synthesis(casc: sf.Microdata, releases: list[np.ndarray]) -> None:
    x = casc.frame.to_numpy()
    total = casc.columns.index(TOTAL)
    loss = sf.InformationLoss(columns=casc.columns)
    s0 = [loss.measure(casc, sf.Microdata(pl.DataFrame(z, casc.columns))).s0 for z in releases]
    assert np.mean(s0) < 0.075
    overlap = [overlap_loss(x, z, total) for z in releases]
    assert np.mean(overlap) < 0.345 + 2 * np.std(overlap) / np.sqrt(SEEDS)
    assert np.mean([subgroup_error(x, z) for z in releases]) < 0.063


@pytest.mark.statistical
def test_nobody_is_linked_but_by_chance(casc: sf.Microdata, releases: list[np.ndarray]) -> None:
    """One to one by distance of ranks, all thirteen columns known: as many as a blind guess, 1/1,080."""
    x = casc.frame.to_numpy()
    right = 0
    for z in releases:
        one, two = (np.apply_along_axis(rankdata, 0, d) for d in (x, z))
        cost = (one**2).sum(1)[:, None] + (two**2).sum(1)[None] - 2 * one @ two.T
        order = np.random.default_rng(0).permutation(len(x))
        right += int((order[linear_sum_assignment(cost[:, order])[1]] == np.arange(len(x))).sum())
    # One of a release on average, with a variance of one.
    assert right <= SEEDS + 4 * np.sqrt(SEEDS)
