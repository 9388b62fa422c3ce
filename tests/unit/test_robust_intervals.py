"""Robust intervals: against a plain reading of sdcMicro's code, planted outliers, exact sums, bad input."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.covariance import MinCovDet

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.stats.robust import robust_distances


def test_robust_distances_of_normal_data_are_the_true_ones():
    rng = np.random.default_rng(2)
    true = np.array([[2.0, 1.2, 0.3], [1.2, 1.5, 0.0], [0.3, 0.0, 1.0]])
    x = rng.multivariate_normal([5, -3, 0], true, 4000)
    want = np.sqrt(np.einsum("ij,jk,ik->i", x - [5, -3, 0], np.linalg.inv(true), x - [5, -3, 0]))
    got = robust_distances(x)
    assert np.corrcoef(got, want)[0, 1] > 0.999
    assert np.median(got / want) == pytest.approx(1, abs=0.03)


def test_far_records_don_t_hide_themselves():
    """A fifth of the file far out in one direction: ordinary distances miss it."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(500, 4))
    x[:100] += [8, 8, 0, 0]
    got = robust_distances(x)
    other = np.sqrt(MinCovDet(random_state=0).fit(x).mahalanobis(x))
    assert got[:100].min() > 6 > np.quantile(got[100:], 0.99)
    assert np.corrcoef(got, other)[0, 1] > 0.98


def test_an_exact_sum_among_the_columns_changes_nothing(reference_data):
    """CASC has PTOTVAL = PEARNVAL + POTHVAL: sdcMicro's measure fails on the singular covariance."""
    frame = pl.read_csv(reference_data / "CASCrefmicrodata.csv")
    whole = robust_distances(frame.to_numpy().astype(float))
    part = robust_distances(frame.drop("PTOTVAL").to_numpy().astype(float))
    assert np.isfinite(whole).all()
    assert np.corrcoef(np.log1p(whole), np.log1p(part))[0, 1] > 0.95
    found = sf.RobustIntervals(columns=frame.columns).measure(frame, frame)
    assert (found.value, found.sdid) == (1, 1)


def test_shares_are_those_of_the_definitions():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 3)) * [1, 10, 100] + [0, 50, 0]
    z = x + rng.normal(size=x.shape) * [0.0005, 0.005, 0.05]
    names = ["a", "b", "c"]
    found = sf.RobustIntervals(columns=names, k=0.02).measure(
        *(pl.DataFrame(dict(zip(names, v.T, strict=True))) for v in (x, z))
    )
    rmd = robust_distances(x)
    s, t = ((v - x.mean(axis=0)) / x.std(axis=0, ddof=1) for v in (x, z))
    near = np.array([[abs(t[i, j] - s[i, j]) <= 0.02 * 0.05 * rmd[i] for j in range(3)] for i in range(300)])
    assert 0.05 < near.any(axis=1).mean() < 0.999
    assert found.rmdid1 == pytest.approx(near.any(axis=1).mean())
    assert found.rmdid1_all == pytest.approx(near.all(axis=1).mean())
    assert found.rmdid1_weighted == pytest.approx((0.05 * rmd * near.any(axis=1)).mean())
    apart = np.linalg.norm(t[:, None] - t[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert found.rmdid2 == pytest.approx((near.any(axis=1) & (apart.min(axis=1) > 0.05)).mean())
    half = 0.05 * z.std(axis=0, ddof=1)
    assert found.sdid == pytest.approx(((np.abs(x - z) > half).sum(axis=1) <= 1).mean())


def test_strong_noise_leaves_few_in_their_intervals():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(2000, 2))
    files = [pl.DataFrame({"a": v[:, 0], "b": v[:, 1]}) for v in (x, x + rng.normal(size=x.shape))]
    assert sf.RobustIntervals(columns=["a", "b"]).measure(*files).value < 0.01


def test_missing_values_and_bad_input():
    one = pl.DataFrame({"a": [1.0, None, 3.0, 9.0, 4.0], "b": ["x"] * 5})
    found = sf.RobustIntervals(columns=["a"]).measure(one, one)
    assert found.confidential["flags"].tolist() == [True, False, True, True, True]
    with pytest.raises(MeasureError, match="numbers"):
        sf.RobustIntervals(columns=["b"]).measure(one, one)
    endless = pl.DataFrame({"a": [1.0, float("inf")]})
    with pytest.raises(MeasureError, match="infinite"):
        sf.RobustIntervals(columns=["a"]).measure(endless, endless)
