"""Subdomain correction: the algebra, its standard errors, masked domains, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MeasureError, ParameterError
from sfumato.utility.subdomain import corrected_moments, domain_of


def people(n: int = 4000, seed: int = 0) -> sf.Microdata:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 8, n)
    spread = np.where(kind == 0, 1.0, 5.0)
    a = rng.normal(10 * (kind == 0), spread)
    return sf.Microdata(pl.DataFrame({"KIND": kind, "A": a, "B": 0.5 * a + rng.normal(0, spread)}))


def test_both_forms_of_where_agree_and_nulls_are_outside() -> None:
    data = sf.Microdata(pl.DataFrame({"S": ["a", "b", None, "c"], "X": [1, 2, 3, None]}))
    assert domain_of(data, "S IN ('a', 'c')").tolist() == [True, False, False, True]
    assert domain_of(data, {"S": ["a", "c"]}).tolist() == [True, False, False, True]
    assert domain_of(data, "X >= 2").tolist() == [False, True, True, False]


def test_the_formula_by_hand() -> None:
    """V = Cov_D(Y) − d/(1+d)·Cov(Y), M = mean_D(Y) (FORMULAS, section 6)."""
    data = people()
    y = data.frame.select("A", "B").to_numpy()
    inside = data.frame["KIND"].to_numpy() == 0
    found = corrected_moments(data, "KIND = 0", ["A", "B"], variance_ratio=0.02)
    want = np.cov(y[inside].T) - 0.02 / 1.02 * np.cov(y.T)
    np.testing.assert_allclose(found.covariance, want, rtol=1e-12)
    np.testing.assert_allclose(found.mean, y[inside].mean(axis=0))
    sigma, v, n = 0.02 / 1.02 * np.cov(y.T), want, inside.sum()  # sigma is d·Σ
    np.testing.assert_allclose(
        np.diag(found.covariance_standard_error) ** 2,
        (4 * np.diag(sigma) * np.diag(v) + 2 * np.diag(sigma) ** 2) / n,
    )
    np.testing.assert_allclose(found.mean_standard_error**2, np.diag(sigma) / n)


@pytest.mark.parametrize("within", [(), ("S",)])
def test_scaled_and_unscaled_releases_give_the_same_numbers(within: tuple[str, ...]) -> None:
    data = people()
    data = data.with_columns({"S": pl.Series(np.arange(len(data)) % 3)})
    d = 0.3
    plain, scaled = (
        sf.AdditiveNoise(columns=["A", "B"], variance_ratio=d, rescale=rescale, within=within).mask(
            data, seed=1, common_random_numbers=True
        )
        for rescale in (False, True)
    )
    one = corrected_moments(plain, "KIND = 0", ["A", "B"], variance_ratio=d, within=within)
    two = corrected_moments(scaled, "KIND = 0", ["A", "B"], variance_ratio=d, rescaled=True, within=within)
    np.testing.assert_allclose(two.covariance, one.covariance, rtol=1e-10)
    np.testing.assert_allclose(two.mean, one.mean, rtol=1e-10)


@pytest.mark.parametrize("rescale", [False, True])
def test_the_measure_finds_d_and_corrects(rescale: bool) -> None:
    data = people(20_000)
    masked = sf.AdditiveNoise(columns=["A", "B"], variance_ratio=0.2, rescale=rescale).mask(data, seed=3)
    right, plain = sf.measure(
        data,
        masked,
        sf.Subdomain(where={"KIND": 0}, columns=["A", "B"]),
        sf.Subdomain(where={"KIND": 0}, columns=["A", "B"], correct=False),
    )
    assert right.variance_ratio == pytest.approx(0.2, rel=0.03)
    assert right.rescaled is rescale
    assert plain.value > 5 * right.value
    assert right.corrected
    assert not plain.corrected
    assert right.mean.shape == (2,)
    assert right.covariance.shape == (2, 2)
    assert right.breakdown is not None
    assert (right.breakdown["variance_error"] < 5 * right.breakdown["variance_standard_error"]).all()
    assert abs(right.breakdown["mean_change_in_deviations"]).max() < 0.15


def test_given_d_is_used() -> None:
    data = people()
    masked = sf.AdditiveNoise(columns=["A", "B"], variance_ratio=0.2).mask(data, seed=3)
    result = sf.Subdomain(where="KIND = 0", columns=["A", "B"], variance_ratio=0.2, rescaled=False).measure(
        data, masked
    )
    want = corrected_moments(masked, "KIND = 0", ["A", "B"], variance_ratio=0.2)
    np.testing.assert_array_equal(result.covariance, want.covariance)
    assert result.notes == want.notes


def test_a_matrix_that_is_no_covariance_is_projected() -> None:
    rng = np.random.default_rng(0)
    kind = np.arange(3000) % 100
    x = np.where((kind == 0)[:, None], 0.01 * rng.normal(size=(3000, 2)), rng.normal(0, 10, (3000, 2)))
    data = sf.Microdata(pl.DataFrame({"KIND": kind, "A": x[:, 0], "B": x[:, 1]}))
    projected = 0
    for seed in range(8):
        masked = sf.AdditiveNoise(columns=["A", "B"], variance_ratio=0.2).mask(data, seed=seed)
        found = corrected_moments(masked, "KIND = 0", ["A", "B"], variance_ratio=0.2)
        assert np.linalg.eigvalsh(found.covariance)[0] > -1e-9
        projected += found.projected
        if found.projected:
            assert any("wasn't a covariance" in n for n in found.notes)
        assert any("larger than the variation" in n for n in found.notes)
    assert projected > 0


def test_a_domain_formed_by_a_masked_column_is_not_corrected() -> None:
    data = people()
    masked = sf.AdditiveNoise(columns=["A", "B"], variance_ratio=0.2).mask(data, seed=3)
    result = sf.Subdomain(where="A <= 0", columns=["A", "B"], variance_ratio=0.2).measure(data, masked)
    before, after = data.frame["A"].to_numpy() <= 0, masked.frame["A"].to_numpy() <= 0
    assert not result.corrected
    assert "no correction holds" in result.notes[0]
    assert result.n == before.sum()
    assert result.n_masked == after.sum()
    assert result.stayed_in == (before & after).sum()
    assert result.left == (before & ~after).sum()
    assert result.came_in == (after & ~before).sum()
    np.testing.assert_allclose(result.mean, masked.frame.select("A", "B").to_numpy()[after].mean(axis=0))


def test_identical_files_have_no_error() -> None:
    data = people()
    result = sf.Subdomain(where="KIND = 1", columns=["A", "B"]).measure(data, data)
    assert result.value == 0


def test_all_numbers_are_compared_where_no_role_says_which() -> None:
    data = people()
    by_default = sf.Subdomain(where="KIND = 1").measure(data, data)
    assert {"A", "B"} <= set(by_default.variances)
    inside = data.frame.filter(pl.col("KIND") == 1)
    found = sf.Subdomain(where="KIND = 1", columns=["A", "B"]).measure(data, data)
    assert found.variances["A"] == pytest.approx(inside["A"].var())
    expected = np.corrcoef(inside["A"], inside["B"])[0, 1]
    assert found.correlation[0, 1] == pytest.approx(expected)
    assert found.original_correlation[0, 1] == pytest.approx(expected)


def test_a_swap_has_no_noise_to_take_out() -> None:
    data = people()
    swapped = sf.RankSwap(columns=["A", "B"], window_percent=10).mask(data, seed=1)
    found = sf.Subdomain(where="KIND = 0", columns=["A", "B"]).measure(data, swapped)
    assert not found.corrected
    assert any("a swap" in note for note in found.notes)
    inside = swapped.frame.filter(pl.col("KIND") == 0).select("A", "B").to_numpy()
    np.testing.assert_allclose(found.covariance, np.cov(inside, rowvar=False))


@pytest.mark.parametrize("where", ["", "KIND = = 2", {}])
def test_a_where_that_cannot_be_read(where: Any) -> None:
    with pytest.raises(ParameterError, match="where"):
        sf.Subdomain(where=where, columns=["A"])


def test_bad_requests() -> None:
    data = people(50)
    with pytest.raises(MeasureError, match="'KINDS', which the data don't have"):
        sf.Subdomain(where="KINDS = 2", columns=["A"]).measure(data, data)
    with pytest.raises(MeasureError, match="0 complete records"):
        sf.Subdomain(where="KIND = 99", columns=["A"]).measure(data, data)
    with pytest.raises(MeasureError, match="0 complete records"):
        corrected_moments(data, "KIND = 99", ["A"], variance_ratio=0.1)
    with pytest.raises(MeasureError, match="above 0"):
        corrected_moments(data, "KIND = 1", ["A"], variance_ratio=0)
    with pytest.raises(MeasureError, match="needs columns"):
        sf.Subdomain(where="A > 1").measure(data.frame.select("A"), data.frame.select("A"))
