"""The noise kernels beside slow, obvious twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri as scipy_ndtri

from sfumato.draws import Seed
from sfumato.kernels import noise as kernel


def test_quantile_agrees_with_scipy() -> None:
    p = np.concatenate(
        [10.0 ** -np.arange(1, 17), np.linspace(1e-4, 1 - 1e-4, 4001), 1 - 10.0 ** -np.arange(1, 15)]
    )
    ours = np.array([kernel.ndtri(v) for v in p])
    np.testing.assert_allclose(ours, scipy_ndtri(p), rtol=2e-13, atol=1e-15)


def test_normals_are_the_streams_normals() -> None:
    stream = Seed.from_int(3).draws("s").stream("A")
    out = np.empty(5000)
    kernel.normals(stream.bits(7, 5000), out)
    np.testing.assert_allclose(out, stream.normal(7, 5000), rtol=1e-12, atol=1e-14)


def test_mixture_takes_component_then_normal() -> None:
    draws = Seed.from_int(3).draws("s")
    one, two = draws.stream("A", purpose="noise"), draws.stream("A", purpose="component")
    weights, means = np.array([0.2, 0.5, 0.3]), np.array([-1.0, 0.25, 2.0])
    out = np.empty(4000)
    kernel.mixtures(one.bits(0, 4000), two.bits(0, 4000), np.cumsum(weights), means, 0.3, out)
    which = np.searchsorted(np.cumsum(weights), two.uniform(0, 4000))
    np.testing.assert_allclose(out, means[which] + 0.3 * one.normal(0, 4000), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("n", [1, 5, 2048, 5000])
def test_colour_is_a_matrix_product(n: int) -> None:
    rng = np.random.default_rng(n)
    x, white, root, shift = (
        rng.normal(size=(3, n)),
        rng.normal(size=(4, n)),
        rng.normal(size=(3, 4)),
        rng.normal(size=3),
    )
    out = np.empty_like(x)
    kernel.colour(x, white, root, 0.7, shift, out)
    np.testing.assert_allclose(out, 0.7 * x + shift[:, None] + root @ white, rtol=1e-12, atol=1e-12)


def test_colour_groups_has_a_law_for_each_group() -> None:
    rng = np.random.default_rng(5)
    m, k, n, g = 3, 3, 200, 4
    x, white, group = rng.normal(size=(m, n)), rng.normal(size=(k, n)), rng.integers(0, g, n)
    root, project = rng.normal(size=(g, m, k)), rng.normal(size=(g, m, m))
    shrink, shift, centre = rng.normal(size=g), rng.normal(size=(g, m)), rng.normal(size=(g, m))
    projected = np.array([True, False, True, False])
    out = np.empty_like(x)
    kernel.colour_groups(x, white, group, root, shrink, shift, project, centre, projected, out)
    for i in range(n):
        a = group[i]
        want = shrink[a] * x[:, i] + shift[a] + root[a] @ white[:, i]
        if projected[a]:
            want = want + project[a] @ (x[:, i] - centre[a])
        np.testing.assert_allclose(out[:, i], want, rtol=1e-10, atol=1e-10)


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30),
    st.sampled_from([1.0, 0.5, 0.25, 5.0]),
    st.integers(0, 99),
)
def test_rounding_goes_to_a_neighbouring_multiple(values: list[float], unit: float, seed: int) -> None:
    before = np.array(values)
    after = before.copy()
    kernel.round_unbiased(after, Seed.from_int(seed).draws("s").stream("A").bits(0, len(after)), unit)
    assert np.all(after == np.rint(after / unit) * unit)
    assert np.all(np.abs(after - before) <= unit)


def test_rounding_has_no_bias() -> None:
    n = 200_000
    after = np.full(n, 2.3)
    kernel.round_unbiased(after, Seed.from_int(1).draws("s").stream("A").bits(0, n), 1.0)
    assert set(np.unique(after)) == {2.0, 3.0}
    assert abs(after.mean() - 2.3) < 4 * np.sqrt(0.3 * 0.7 / n)


def test_cross_products_are_pairwise() -> None:
    rng = np.random.default_rng(2)
    x, eligible, group = rng.normal(size=(3, 300)), rng.random((3, 300)) < 0.8, rng.integers(0, 2, 300)
    total, count = np.zeros((2, 3)), np.zeros((2, 3), dtype=np.int64)
    kernel.group_sums(x, eligible, group, total, count)
    mean = total / count
    sums, pairs = np.zeros((2, 3, 3)), np.zeros((2, 3, 3), dtype=np.int64)
    kernel.cross_products(x, eligible, group, mean, sums, pairs)
    for g in range(2):
        for j in range(3):
            rows = (group == g) & eligible[j]
            assert mean[g, j] == pytest.approx(x[j, rows].mean())
            for c in range(j + 1):
                both = rows & eligible[c]
                want = ((x[j, both] - mean[g, j]) * (x[c, both] - mean[g, c])).sum()
                assert sums[g, j, c] == pytest.approx(want)
                assert pairs[g, j, c] == both.sum()
