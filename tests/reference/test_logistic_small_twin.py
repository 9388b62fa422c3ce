"""The small logistic fit against statsmodels and against separation."""

from __future__ import annotations

import numpy as np
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.kernels.logistic_small import small_logistic


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=20)
def test_it_gives_the_estimates_of_statsmodels(seed: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(50, 20, (120, p)) * 10.0 ** rng.integers(-3, 4, p)
    y = (rng.random(120) < 1 / (1 + np.exp(-(X[:, 0] - X[:, 0].mean()) / X[:, 0].std()))).astype(float)
    estimate, error, ok = small_logistic(np.asfortranarray(X), y)
    want = sm.Logit(y, sm.add_constant(X)).fit(disp=0, tol=1e-12, maxiter=100, method="newton")
    assert ok
    np.testing.assert_allclose(estimate, want.params, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(error, want.bse, rtol=1e-5)


def test_separated_classes_have_no_estimate() -> None:
    x = np.linspace(0, 1, 40)[:, None]
    assert not small_logistic(np.asfortranarray(x), (x[:, 0] > 0.5).astype(float))[2]
