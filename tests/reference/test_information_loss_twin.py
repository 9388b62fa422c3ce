"""Information loss and paired moments against obvious twins."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sfumato as sf
from sfumato.stats import pairing as _paired
from sfumato.stats.pairing import paired_moments


def twin(x: np.ndarray, z: np.ndarray) -> dict[str, float]:
    """IL1 … IL5 written out, for complete data without zero denominators."""
    n, m = x.shape
    cx, cz = np.cov(x, rowvar=False).reshape(m, m), np.cov(z, rowvar=False).reshape(m, m)
    il1 = il1s = 0.0
    for j in range(m):
        sd = math.sqrt(sum((v - x[:, j].mean()) ** 2 for v in x[:, j]) / (n - 1))
        for i in range(n):
            d = abs(x[i, j] - z[i, j])
            il1 += d / (0.5 * (abs(x[i, j]) + abs(z[i, j]))) if d else 0.0
            il1s += d / (math.sqrt(2) * sd)
    il2 = np.mean([abs(x[:, j].mean() - z[:, j].mean()) / abs(x[:, j].mean()) for j in range(m)])
    il3 = np.mean([abs(cx[j, k] - cz[j, k]) / abs(cx[j, k]) for j in range(m) for k in range(j + 1)])
    il4 = np.mean([abs(cx[j, j] - cz[j, j]) / cx[j, j] for j in range(m)])
    rx, rz = np.corrcoef(x, rowvar=False), np.corrcoef(z, rowvar=False)
    il5 = np.mean([abs(rx[j, k] - rz[j, k]) for j in range(m) for k in range(j)])
    out = {"il1": il1 / (n * m), "il1s": il1s / (n * m), "il2": il2, "il3": il3, "il4": il4, "il5": il5}
    out["s0"] = (il2 + il3 + il4 + il5) / 4
    out["s1"] = (out["il1"] + il2 + il3 + il4 + il5) / 5
    out["s2"] = (out["il1s"] + il2 + il4 + il5) / 4
    return out


def frame(x: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({f"V{j}": x[:, j] for j in range(x.shape[1])})


@pytest.mark.parametrize("block", [1 << 15, 7])
def test_losses_equal_the_twin(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_paired, "BLOCK_RECORDS", block)
    rng = np.random.default_rng(3)
    x = rng.lognormal(8, 1, (60, 4)) @ np.array(
        [[1, 0.4, 0, 0.1], [0, 1, 0.3, 0], [0, 0, 1, 0.5], [0, 0, 0, 1]]
    )
    z = x + rng.normal(0, 500, x.shape)
    found = sf.InformationLoss().measure(frame(x), frame(z))
    for name, expected in twin(x, z).items():
        assert getattr(found, name) == pytest.approx(expected, rel=1e-10), name
    assert found.value == found.s0


def test_strata_equal_the_twin_of_each_stratum() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(50, 10, (90, 3))
    x[:, 1] += x[:, 0]
    z = x + rng.normal(0, 3, x.shape)
    group = np.repeat(["a", "b", "c"], [30, 58, 2])[rng.permutation(90)]
    one, two = (frame(v).with_columns(G=pl.Series(group)) for v in (x, z))
    found = sf.InformationLoss(columns=["V0", "V1", "V2"], within=["G"]).measure(one, two)
    assert found.by_stratum["G"].to_list() == ["a", "b"]
    assert found.strata_left_out == 1
    assert any("1 strata of fewer than 3" in note for note in found.notes)
    for row in found.by_stratum.to_dicts():
        rows = group == row["G"]
        assert row["records"] == rows.sum()
        for name, expected in twin(x[rows], z[rows]).items():
            assert row[name] == pytest.approx(expected, rel=1e-9), name


cells = hnp.arrays(
    np.float64, st.tuples(st.integers(2, 40), st.integers(1, 4)), elements=st.floats(-1e6, 1e6, width=32)
)


@given(cells, st.data())
def test_moments_with_gaps_equal_pairwise_complete_ones(x: np.ndarray, data: st.DataObject) -> None:
    n, m = x.shape
    gaps = data.draw(hnp.arrays(np.bool_, (2, n, m)))
    z = np.roll(x, 1, axis=0)
    x, z = np.where(gaps[0], np.nan, x), np.where(gaps[1], np.nan, z)
    found = paired_moments(sf.Microdata(frame(x)), sf.Microdata(frame(z)), [f"V{j}" for j in range(m)])
    for j in range(m):
        for k in range(m):
            both = np.isfinite(x[:, [j, k]]).all(axis=1) & np.isfinite(z[:, [j, k]]).all(axis=1)
            assert found.n[j, k] == both.sum()
            for values, covariance in ((x, found.cov_x), (z, found.cov_z)):
                if both.sum() > 1:
                    a, b = values[both, j], values[both, k]
                    expected = ((a - a.mean()) * (b - b.mean())).sum() / (both.sum() - 1)
                    assert covariance[j, k] == pytest.approx(expected, rel=1e-6, abs=1e-3 * 1e6**2 * 1e-9)
                else:
                    assert np.isnan(covariance[j, k])


@given(cells)
def test_an_untouched_file_loses_exactly_nothing(x: np.ndarray) -> None:
    found = sf.InformationLoss().measure(frame(x), frame(x.copy()))
    for name in ("il1", "il1s", "il2", "il3", "il4", "il5", "s0", "s1", "s2"):
        assert getattr(found, name) == 0.0, name


@given(cells, st.integers(0, 99))
def test_bounds_hold(x: np.ndarray, seed: int) -> None:
    z = x[np.random.default_rng(seed).permutation(len(x))]
    found = sf.InformationLoss().measure(frame(x), frame(z))
    assert 0 <= found.il1 <= 2 + 1e-12
    for name in ("il1s", "il2", "il3", "il4", "il5", "s0"):
        value = getattr(found, name)
        assert np.isnan(value) or 0 <= value < np.inf, name
