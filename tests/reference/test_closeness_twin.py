"""The distances of t-closeness and their kin against the obvious: dense sums, and optimal transport."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import sfumato as sf
from sfumato.cells import closeness
from sfumato.cells.diversity import ValueCounts
from sfumato.data.hierarchy import Hierarchy

PEOPLE = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=40)
TREE = [
    ("0", "low", "*"),
    ("1", "low", "*"),
    ("2", "middle", "*"),
    ("3", "high", "*"),
    ("4", "high", "*"),
    ("5", "high", "*"),
]


def counted(people: list[tuple[int, int]]) -> tuple[ValueCounts, list[list[float]], list[float]]:
    """The product's counts, and p of each cell and q as plain lists over the values that occur."""
    data = sf.Microdata(pl.DataFrame({"key": [k for k, _ in people], "value": [v for _, v in people]}))
    counts = ValueCounts.of(data.cells(["key"]), data, "value")
    values = sorted({v for _, v in people})
    whole = Counter(v for _, v in people)
    shares = []
    for key in sorted({k for k, _ in people}):
        own = Counter(v for k, v in people if k == key)
        shares.append([own[v] / sum(own.values()) for v in values])
    return counts, shares, [whole[v] / len(people) for v in values]


def transport(p: list[float], q: list[float], cost: np.ndarray) -> float:
    """The least cost of turning p into q, by linear programming."""
    m = len(p)
    rows = [np.kron(np.eye(m)[i], np.ones(m)) for i in range(m)] + [
        np.kron(np.ones(m), np.eye(m)[j]) for j in range(m)
    ]
    found = linprog(cost.ravel(), A_eq=np.array(rows), b_eq=[*p, *q], method="highs")
    return float(found.fun)


@given(PEOPLE)
@settings(max_examples=60, deadline=None)
def test_the_equal_distance_is_half_the_differences(people):
    counts, shares, q = counted(people)
    want = [sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2 for p in shares]
    assert closeness.equal_distance(counts).tolist() == pytest.approx(want, abs=1e-12)


@given(PEOPLE)
@settings(max_examples=60, deadline=None)
def test_the_ordered_distance_is_the_sum_of_cumulated_differences(people):
    counts, shares, q = counted(people)
    m = len(q)
    want = [
        sum(abs(sum(p[: i + 1]) - sum(q[: i + 1])) for i in range(m)) / (m - 1) if m > 1 else 0.0
        for p in shares
    ]
    assert closeness.ordered_distance(counts).tolist() == pytest.approx(want, abs=1e-12)


@given(PEOPLE)
@settings(max_examples=25, deadline=None)
def test_ordered_and_hierarchical_distances_are_optimal_transports(people):
    counts, shares, q = counted(people)
    m = len(q)
    values = [int(v) for v in counts.levels.to_list()]
    if m > 1:
        line = np.abs(np.subtract.outer(np.arange(m), np.arange(m))) / (m - 1)
        want = [transport(p, q, line) for p in shares]
        assert closeness.ordered_distance(counts).tolist() == pytest.approx(want, abs=1e-8)
    tree = Hierarchy.of(TREE)
    above = closeness.ancestors(counts.levels, tree)
    top = len(above) - 1
    cost = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            if i != j:
                classes = [[TREE[values[z]][h] for h in range(3)] for z in (i, j)]
                level = next(h for h in range(3) if classes[0][h] == classes[1][h])
                cost[i, j] = min(level, top) / top
    want = [transport(p, q, cost) for p in shares] if top else [0.0] * len(shares)
    assert closeness.hierarchical_distance(counts, tree).tolist() == pytest.approx(want, abs=1e-8)


@given(PEOPLE)
@settings(max_examples=60, deadline=None)
def test_gains_are_those_of_their_definitions(people):
    counts, shares, q = counted(people)
    top, likeness, enhanced, disclosure, occurring = closeness.gains(counts)
    for i, p in enumerate(shares):
        assert top[i] == pytest.approx(max(p))
        assert likeness[i] == pytest.approx(max(0.0, *((a - b) / b for a, b in zip(p, q, strict=True))))
        ratios = [(a - b) / b / -math.log(b) for a, b in zip(p, q, strict=True) if a > b and b < 1]
        assert enhanced[i] == pytest.approx(max(ratios, default=0.0))
        logs = [abs(math.log(a / b)) if a else math.inf for a, b in zip(p, q, strict=True)]
        assert disclosure[i] == pytest.approx(max(logs), abs=1e-12)
        assert occurring[i] == pytest.approx(max(x for x in logs if math.isfinite(x)), abs=1e-12)


@given(PEOPLE, st.lists(st.integers(0, 1), min_size=4, max_size=4))
@settings(max_examples=40, deadline=None)
def test_merged_cells_are_the_cells_of_the_recoded_key(people, classes):
    counts, _, _ = counted(people)
    keys = sorted({k for k, _ in people})
    group = [classes[k] for k in keys]
    names = sorted(set(group))
    merged = counts.merged(np.array([names.index(g) for g in group], np.int32), len(names))
    want, _, _ = counted([(classes[k], v) for k, v in people])
    assert merged.of_cell.tolist() == want.of_cell.tolist()
    assert merged.value.tolist() == want.value.tolist()
    assert merged.count.tolist() == want.count.tolist()
    assert merged.entropy.tolist() == pytest.approx(want.entropy.tolist())
    for c, size in ((1.0, 2), (2.0, 3)):
        assert merged.recursive(size, c).tolist() == want.recursive(size, c).tolist()


def test_the_paper_s_salaries():
    """Li, Li, Venkatasubramanian (2007): of nine salaries {3k, 4k, 5k} is 0.375 away, {6k, 8k, 11k} 0.167."""
    groups = {"a": [3, 4, 5], "b": [6, 8, 11], "c": [7, 9, 10]}
    rows = [(g, v) for g, values in groups.items() for v in values]
    data = sf.Microdata(pl.DataFrame({"key": [g for g, _ in rows], "pay": [v for _, v in rows]}))
    found = closeness.ordered_distance(ValueCounts.of(data.cells(["key"]), data, "pay"))
    assert found[:2].tolist() == pytest.approx([0.375, 1 / 6])


def test_an_order_of_one_s_own_and_values_that_are_missing():
    data = sf.Microdata(pl.DataFrame({"key": [1, 1, 2, 2, 3], "level": ["low", "high", "mid", "mid", None]}))
    counts = ValueCounts.of(data.cells(["key"]), data, "level")
    # low, mid, high have ¼, ½, ¼: (½, 0, ½) is ¼ + ¼ off, (0, 1, 0) too; over m − 1 = 2.
    found = closeness.ordered_distance(counts, ("low", "mid", "high"))
    assert found.tolist() == pytest.approx([0.25, 0.25, 0.0])
    with pytest.raises(sf.errors.SchemaError, match="order"):
        closeness.ordered_distance(counts, ("low", "high"))
    with pytest.raises(sf.errors.SchemaError, match="hierarchy"):
        closeness.hierarchical_distance(counts, Hierarchy.of([("low", "*"), ("mid", "*")]))


def test_peers_of_a_missing_key_are_all_that_agree():
    data = sf.Microdata(pl.DataFrame({"key": ["x", "x", "y", None], "ill": ["a", "b", "c", "d"]}))
    counts = ValueCounts.of(data.cells(["key"]), data, "ill")
    by_cell = {
        key: {counts.levels[int(v)] for v, c in zip(counts.value, counts.of_cell, strict=True) if c == cell}
        for cell, key in enumerate(["x", "y", None])
    }
    assert by_cell == {"x": {"a", "b", "d"}, "y": {"c", "d"}, None: {"a", "b", "c", "d"}}
