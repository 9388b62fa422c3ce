"""The nearest rows against an obvious twin, and the attribute gain at its two ends."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.draws import as_seed
from sfumato.kernels.nearest_rows import nearest_rows
from sfumato.linkage.nearest import Intruder, coded, unchanged
from sfumato.run.gain import attribute_gain


@given(
    st.integers(1, 12), st.integers(1, 25), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2**32 - 1)
)
def test_the_rows_are_those_of_a_sort(n: int, m: int, width: int, keys: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, B = (rng.integers(0, 3, (s, width)).astype(np.float32) for s in (n, m))
    a, b = (rng.integers(0, 2, (s, keys)).astype(np.int32) for s in (n, m))
    price = rng.integers(1, 4, keys).astype(np.float32)
    order = rng.permutation(m)
    most = min(3, m)
    found, far = nearest_rows(A, B, a, b, price, order, most)
    for i in range(n):
        D = ((A[i] - B) ** 2).sum(axis=1) + ((a[i] != b) * price).sum(axis=1)
        expected = sorted(order.tolist(), key=lambda j: D[j])[:most]  # a stable sort: ties as in `order`
        assert found[i].tolist() == expected
        assert far[i].tolist() == pytest.approx(D[expected].tolist())


def people(n: int, seed: int = 0) -> sf.Microdata:
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (n, 3)) @ np.array([[1, 0.6, 0.3], [0, 0.8, 0.4], [0, 0, 0.9]])
    names = {"A": x[:, 0], "B": x[:, 1], "C": x[:, 2]}
    frame = pl.DataFrame(names | {"SEX": rng.choice(["f", "m"], n)})
    return sf.Microdata(frame, sf.Schema(keys=["SEX"], sensitive=["A", "B", "C"]))


def test_an_open_file_is_found_and_told_whole() -> None:
    data = people(600)
    own, released = coded((data, data), ["A", "B", "C"], ["SEX"])
    intruder = Intruder(released, unchanged(own, released), as_seed(1).draws("test"))
    assert intruder.rate(own, np.arange(600)) == 1.0
    gain = attribute_gain(data, lambda part, _: part, people=200, splits=2)
    assert gain.value == pytest.approx(1.0, abs=0.02)
    assert all(c.inside > c.outside for c in gain.columns)


def test_a_release_of_other_people_tells_nothing_of_these() -> None:
    """The gain of a file drawn anew from the same law is zero within three standard errors."""
    data = people(3_000)
    values = [
        attribute_gain(
            data, lambda part, _, s=s: people(len(part), 100 + s), people=500, splits=1, seed=s
        ).pooled
        for s in range(8)
    ]
    assert abs(np.mean(values)) < 3 * np.std(values, ddof=1) / np.sqrt(8) + 1e-9


def test_ties_are_shared_by_chance() -> None:
    """Where all rows are alike, nobody is found more often than by chance."""
    n = 400
    data = sf.Microdata(pl.DataFrame({"A": [1.0] * n, "SEX": ["f"] * n}))
    own, released = coded((data, data), ["A"], ["SEX"])
    rates = []
    for seed in range(10):
        intruder = Intruder(released, unchanged(own, released), as_seed(seed).draws("test"))
        rates.append(intruder.rate(own, np.arange(n)))
    assert np.mean(rates) == pytest.approx(1 / n, abs=1e-12)  # one row is taken for all: one of n is right
