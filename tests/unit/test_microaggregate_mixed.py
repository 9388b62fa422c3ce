"""Microaggregation by principal components and by Gower's distance."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MaskError, ParameterError
from sfumato.kernels.gower import mdav_gower


def slow_mdav(numbers, codes, k):
    """The obvious: lists, sorted by (distance, place in the file)."""
    left = list(range(len(numbers)))
    group = [-1] * len(numbers)
    number = 0

    def distance(i, point, code):
        total = sum(abs(a - b) for a, b in zip(numbers[i], point, strict=True))
        for a, b in zip(codes[i], code, strict=True):
            total += float(a != b)
        return total

    def farthest(point, code):
        return min(left, key=lambda i: (-distance(i, point, code), i))

    def take(point, code):
        nonlocal number
        for i in sorted(left, key=lambda i: (distance(i, point, code), i))[:k]:
            group[i] = number
            left.remove(i)
        number += 1

    while len(left) >= 2 * k:
        p, q = len(numbers[0]), len(codes[0])
        mean = [sum(numbers[i][j] for i in left) / len(left) for j in range(p)]
        mode = [
            min({codes[i][j] for i in left}, key=lambda v: (-sum(codes[i][j] == v for i in left), v))
            for j in range(q)
        ]
        far = farthest(mean, mode)
        one = (numbers[far], codes[far])
        both = len(left) >= 3 * k
        other = farthest(*one)
        two = (numbers[other], codes[other])
        take(*one)
        if both:
            take(*two)
    for i in left:
        group[i] = number
    return group


ROW = st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 2), st.integers(0, 1))


@given(st.lists(ROW, min_size=2, max_size=30), st.integers(2, 4))
def test_the_kernel_is_its_slow_twin(rows, k):
    # Eighths add up exactly in binary, so that means and equal distances are equal in both.
    numbers = [(a / 8, b / 8) for a, b, _, _ in rows]
    codes = [(c, d) for _, _, c, d in rows]
    got = mdav_gower(np.array(numbers), np.array(codes, np.int64), k)
    sizes = np.bincount(got)
    if len(rows) >= k:
        assert sizes.min() >= k
        assert sizes.max() <= 2 * k - 1
    assert got.tolist() == slow_mdav(numbers, codes, k)


def test_groups_share_numbers_and_categories():
    rng = np.random.default_rng(4)
    n = 300
    frame = pl.DataFrame(
        {
            "JOB": rng.choice(list("abcdef"), n, p=[0.4, 0.3, 0.15, 0.1, 0.03, 0.02]),
            "AREA": rng.choice(["n", "s"], n),
            "PAY": rng.lognormal(8, 1, n),
            "AGE": rng.integers(18, 80, n),
        }
    )
    data = sf.Microdata(frame)
    masked = sf.MicroaggregateMixed(columns=["JOB", "PAY", "AGE"], k=4, within=["AREA"]).mask(data)
    shared = masked.frame.group_by(["AREA", "JOB", "PAY", "AGE"]).len()
    assert shared["len"].min() >= 4
    assert masked.frame["PAY"].mean() == pytest.approx(frame["PAY"].mean())
    assert masked.frame["AREA"].equals(frame["AREA"])
    assert set(masked.frame["JOB"]) <= set(frame["JOB"])


def test_a_category_becomes_the_most_frequent_one_of_its_group():
    frame = pl.DataFrame({"JOB": ["a", "b", "b", "c", "c", "c"], "PAY": [1.0, 1.0, 1.0, 9.0, 9.0, 9.0]})
    masked = sf.MicroaggregateMixed(columns=["JOB", "PAY"], k=3).mask(sf.Microdata(frame))
    assert masked.frame["JOB"].to_list() == ["b", "b", "b", "c", "c", "c"]


def test_too_few_records_are_refused():
    data = sf.Microdata(pl.DataFrame({"JOB": ["a", "b"], "PAY": [1.0, 2.0]}))
    with pytest.raises(MaskError, match="fewer than k"):
        sf.MicroaggregateMixed(columns=["JOB", "PAY"], k=3).mask(data)


def test_principal_components_group_along_the_first(reference_data):
    """CASC: groups of k to 2k − 1, worse than MDAV (which keeps 100·SSE/SST at 5.69 for k = 3), not by
    everything; along one component alone it is the optimal grouping of one column."""
    frame = pl.read_csv(reference_data / "CASCrefmicrodata.csv").cast(pl.Float64)
    data = sf.Microdata(frame)
    masked = sf.Microaggregate(columns=frame.columns, k=3, method="pca").mask(data)
    shared = masked.frame.group_by(frame.columns).len()["len"]
    assert shared.min() >= 3
    x, z = frame.to_numpy(), masked.frame.to_numpy()
    loss = 100 * (((x - z) / x.std(axis=0)) ** 2).sum() / x.size
    assert 5.69 < loss < 100
    line = pl.DataFrame({"A": [1.0, 2.0, 9.0, 11.0, 30.0, 31.0], "B": [2.0, 4.0, 18.0, 22.0, 60.0, 62.0]})
    one = sf.Microaggregate(columns=["A", "B"], k=2, method="pca").mask(sf.Microdata(line)).frame
    assert one["A"].to_list() == [1.5, 1.5, 10.0, 10.0, 30.5, 30.5]
    with pytest.raises(ParameterError, match="together"):
        sf.Microaggregate(columns=["A"], method="pca", together=False)
