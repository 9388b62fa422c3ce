"""The logistic kernel against statsmodels and against its own optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from sfumato.kernels.logistic import fit_logistic


def sample(n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * rng.uniform(0.1, 1000, p) + rng.uniform(-1e4, 1e4, p)
    eta = ((X - X.mean(axis=0)) / X.std(axis=0)) @ rng.normal(size=p) * 0.7
    return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)


@pytest.mark.parametrize(("n", "p", "order"), [(200, 3, "C"), (9000, 6, "F"), (70_000, 2, "F")])
def test_equals_statsmodels(n: int, p: int, order: str) -> None:
    X, y = sample(n, p, seed=n)
    ours = fit_logistic(np.asarray(X, order=order), y, ridge=0.0)
    theirs = sm.GLM(y, sm.add_constant(X), family=sm.families.Binomial()).fit(
        tol=1e-12, tol_criterion="params"
    )
    assert ours.converged
    scale = X.std(axis=0)
    assert ours.coefficients * scale == pytest.approx(theirs.params[1:] * scale, rel=1e-6, abs=1e-8)
    assert ours.probabilities == pytest.approx(theirs.fittedvalues, rel=1e-6)
    assert np.sqrt(np.diag(ours.covariance)) == pytest.approx(theirs.bse, rel=1e-5)
    assert ours.deviance == pytest.approx(theirs.deviance, rel=1e-9)


def test_weights_are_repetitions() -> None:
    X, y = sample(120, 3, seed=9)
    times = np.random.default_rng(0).integers(0, 4, 120)
    weighted = fit_logistic(X, y, times.astype(float))
    repeated = fit_logistic(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.coefficients == pytest.approx(repeated.coefficients, rel=1e-6)
    assert weighted.distance(y, times.astype(float)) == pytest.approx(repeated.distance(np.repeat(y, times)))


def test_score_equations_hold() -> None:
    X, y = sample(500, 4, seed=2)
    fit = fit_logistic(X, y, ridge=0.0)
    residual = y - fit.probabilities
    assert residual.sum() == pytest.approx(0, abs=1e-4)
    assert ((X - X.mean(axis=0)) / X.std(axis=0)).T @ residual == pytest.approx(np.zeros(4), abs=1e-4)
    c = y.mean()
    assert 0 <= fit.distance(y) <= c * (1 - c)


def test_separated_groups_stay_finite() -> None:
    X = np.r_[np.linspace(0, 1, 40), np.linspace(2, 3, 60)][:, None]
    y = np.r_[np.zeros(40), np.ones(60)]
    fit = fit_logistic(X, y)
    assert fit.converged
    assert np.isfinite(fit.coefficients).all()
    assert fit.distance(y) == pytest.approx(0.24, abs=1e-3)  # c(1−c): told apart completely


def test_sums_and_constants_among_the_columns() -> None:
    X, y = sample(300, 2, seed=5)
    wide = np.c_[X, X.sum(axis=1), np.full(300, 7.0)]
    narrow = fit_logistic(X, y)
    fit = fit_logistic(wide, y)
    assert fit.coefficients[3] == 0
    assert np.isnan(fit.covariance[4, 4])
    assert fit.probabilities == pytest.approx(narrow.probabilities, abs=1e-5)


def test_one_sided_labels_give_no_distance() -> None:
    fit = fit_logistic(np.arange(10.0)[:, None], np.ones(10))
    assert fit.distance(np.ones(10)) == pytest.approx(0, abs=1e-9)
