"""Scores of households and links of their members against an obvious twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.linkage_homes import home_scores, link_members
from sfumato.linkage.fields import point_fields


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.integers(0, 2**32 - 1),
)
def test_scores_and_members(sizes: list[int], others: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, two = rng.normal(size=(sum(sizes), 2)), rng.normal(size=(sum(others), 2))
    starts, right = (np.concatenate([[0], np.cumsum(s)]).astype(np.int64) for s in (sizes, others))
    arrays = point_fields(["a", "b"], one, two).arrays()
    weight = -((one[:, None] - two[None]) ** 2).sum(axis=2)
    out = np.empty((len(sizes), len(others)))
    home_scores(0, len(sizes), starts, right, arrays, out)
    for h in range(len(sizes)):
        for g in range(len(others)):
            part = weight[starts[h] : starts[h + 1], right[g] : right[g + 1]]
            assert out[h, g] == pytest.approx(part.max(axis=1).sum() / 2 + part.max(axis=0).sum() / 2)
    pairs = rng.integers(-1, len(others), len(sizes))
    match, got = np.full(len(one), -1), np.full(len(one), np.nan)
    link_members(pairs, starts, right, arrays, match, got)
    for h, g in enumerate(pairs):
        members = range(starts[h], starts[h + 1])
        if g < 0:
            assert all(match[i] == -1 for i in members)
            continue
        expected: dict[int, int] = {}
        every = sorted(
            ((i, k) for i in members for k in range(right[g], right[g + 1])), key=lambda p: -weight[p]
        )
        for i, k in every:
            if i not in expected and k not in expected.values():
                expected[i] = k
        assert {i: int(match[i]) for i in members if match[i] >= 0} == expected
        assert all(got[i] == pytest.approx(weight[i, k]) for i, k in expected.items())
