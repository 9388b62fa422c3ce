"""What noise must never do, on files that hypothesis makes up."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MaskError


@st.composite
def files(draw: st.DrawFn) -> sf.Microdata:
    """Whole numbers A, B, their sum T (sometimes off by something), a stratum, some missing codes."""
    n = draw(st.integers(5, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([1, 50, 10**6, 10**9]))
    a, b = rng.integers(-scale, scale + 1, n), rng.integers(0, scale + 1, n)
    if draw(st.booleans()):
        b[:] = draw(st.integers(0, 9))  # a constant part
    t = a + b
    if draw(st.booleans()):
        t = t + rng.integers(0, 2, n) * rng.integers(0, 100, n)
    gone = rng.random((3, n)) < draw(st.sampled_from([0.0, 0.3]))
    columns = {
        name: pl.Series(values).zip_with(pl.Series(~gone[j]), pl.Series([None] * n, dtype=pl.Int64))
        for j, (name, values) in enumerate([("A", a), ("B", b), ("T", t)])
    }
    frame = pl.DataFrame({"S": rng.integers(0, 3, n), **columns})
    return sf.Microdata(frame, sf.Schema(variables={"T": {"sum_of": ["A", "B"]}}))


masks = st.builds(
    lambda cls, d, **more: cls(variance_ratio=d, **more),
    st.sampled_from([sf.AdditiveNoise, sf.MixtureNoise]),
    st.sampled_from([0.01, 0.5, 3.0]),
    columns=st.sampled_from([("A", "B"), ("B", "A", "T"), ("A",)]),
    rescale=st.booleans(),
    residual=st.sampled_from(["mask", "keep"]),
    keep_zero_residuals=st.booleans(),
    flag_zeros=st.booleans(),
    within=st.sampled_from([(), ("S",)]),
    smallest_stratum=st.sampled_from([None, 2, 5]),
)


@settings(max_examples=80)
@given(files(), masks, st.integers(0, 5))
def test_sums_types_and_missing_values_survive(data: sf.Microdata, mask: Any, seed: int) -> None:
    z = mask.mask(data, seed=seed).frame
    x = data.frame
    for c in ("A", "B", "T"):
        assert z[c].dtype == x[c].dtype
        assert z[c].is_null().equals(x[c].is_null())
    assert z["S"].equals(x["S"])
    before, after = (f["T"] - f["A"] - f["B"] for f in (x, z))
    holds = bool((before.drop_nulls() == 0).all())
    if mask.residual == "keep":
        assert before.equals(after, null_equal=True)
    elif holds or mask.keep_zero_residuals:
        assert after.filter((before == 0).fill_null(False)).eq(0).all()
    if "B" not in mask.columns:
        assert z["B"].equals(x["B"])
    if mask.flag_zeros:
        for c in mask.columns:
            assert z[f"{c}_zero"].equals(x[c] == 0, null_equal=True)


@settings(max_examples=120)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans(), st.sampled_from([0.1, 2.0]))
def test_exact_moments_are_exact(seed: int, m: int, rescale: bool, d: float) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2 * m + 3, 60))
    # A mean of up to 1e4 deviations: beyond, a double itself can't hold moments to 1e-9.
    x = (rng.normal(size=(n, m)) + 10.0 ** rng.integers(0, 5, m)) * 10.0 ** rng.integers(-3, 6, m)
    if m > 2:
        x[:, 2] = x[:, 0] + x[:, 1]  # a sum: rank m − 1
    data = sf.Microdata(pl.DataFrame(x, schema=[f"C{j}" for j in range(m)]))
    cls = (sf.AdditiveNoise, sf.MixtureNoise)[seed % 2]
    mask = cls(columns=data.columns, variance_ratio=d, exact=True, rescale=rescale)
    try:
        z = mask.mask(data, seed=1).frame.to_numpy()
    except MaskError as problem:
        assert "complete records" in problem.message  # noqa: PT017
        return
    scale = x.std(axis=0)
    factor = 1.0 if rescale else 1.0 + d
    np.testing.assert_allclose(z.mean(axis=0) / scale, x.mean(axis=0) / scale, atol=1e-9, rtol=1e-9)
    error = np.abs(np.atleast_2d(np.cov(z.T) - factor * np.cov(x.T))) / np.outer(scale, scale)
    assert error.max() < 1e-8
