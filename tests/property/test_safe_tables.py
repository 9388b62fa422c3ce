"""SAFE tables: margins, tolerance and structural zeros hold always; the least distortion is proved."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import sfumato as sf
from sfumato.errors import InputError

EXAMPLE_3 = np.array([[19, 10, 10, 15], [4, 10, 10, 1], [11, 14, 8, 2], [15, 1, 2, 2]])
PUBLISHED_3 = np.array([[18, 11, 10, 15], [5, 10, 10, 0], [11, 14, 10, 0], [15, 0, 0, 5]])


def brute_force(table: np.ndarray, tolerance: int, cost, zeros_stay: bool = True) -> float | None:
    """The least cost over every table with the same one-way margins, by trying them all (2-D, small)."""
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    best: float | None = None

    def row_choices(i: int, left: tuple[int, ...]):
        if i == table.shape[0] - 1:  # what is left is the last row, if it may be
            fits = all(
                x == 0 or (x >= tolerance and not (zeros_stay and table[i, j] == 0))
                for j, x in enumerate(left)
            )
            return [left] if fits else []
        options = []
        for j in range(table.shape[1]):
            top = min(int(rows[i]), left[j])
            allowed = [0, *range(tolerance, top + 1)]
            options.append([0] if zeros_stay and table[i, j] == 0 else allowed)
        return (c for c in itertools.product(*options) if sum(c) == rows[i])

    def walk(i: int, left: tuple[int, ...], made: list[tuple[int, ...]]) -> None:
        nonlocal best
        if i == table.shape[0]:
            if not any(left):
                found = cost(np.array(made) - table)
                best = found if best is None else min(best, found)
            return
        for choice in row_choices(i, left):
            walk(i + 1, tuple(a - b for a, b in zip(left, choice, strict=True)), [*made, choice])

    walk(0, tuple(int(c) for c in columns), [])
    return best


def is_safe(safe: sf.SafeTable) -> None:
    x, n = safe.counts, safe.original
    assert x.dtype == np.int64
    assert ((x == 0) | (x >= safe.tolerance)).all()
    axes = {k: a for a, k in enumerate(safe.keys)}
    for names in safe.margins:
        others = tuple(a for k, a in axes.items() if k not in names)
        assert np.array_equal(x.sum(axis=others), n.sum(axis=others))


def test_example_3_is_optimal_and_valid() -> None:
    safe = sf.safe_table(EXAMPLE_3, 5)
    is_safe(safe)
    assert np.abs(PUBLISHED_3 - EXAMPLE_3).sum() == 14
    assert safe.distance == 14
    assert safe.optimal


COSTS = {
    "l1": lambda d: float(np.abs(d).sum()),
    "l2": lambda d: float((d**2).sum()),
    "max": lambda d: float(np.abs(d).max()),
}


@pytest.mark.parametrize("objective", list(COSTS))
@pytest.mark.parametrize("zeros_stay", [True, False])
@given(
    table=arrays(np.int64, st.tuples(st.integers(2, 3), st.integers(2, 3)), elements=st.integers(0, 6)),
    tolerance=st.integers(2, 4),
)
@settings(max_examples=10)
def test_small_tables_equal_brute_force(objective, zeros_stay, table, tolerance) -> None:
    wanted = brute_force(table, tolerance, COSTS[objective], zeros_stay)
    if wanted is None:
        with pytest.raises(InputError, match="no table with these margins"):
            sf.safe_table(table, tolerance, objective=objective, structural_zeros=zeros_stay)
        return
    safe = sf.safe_table(table, tolerance, objective=objective, structural_zeros=zeros_stay)
    is_safe(safe)
    assert safe.distance == pytest.approx(wanted)
    assert safe.optimal


@given(
    arrays(
        np.int64, array_shapes(min_dims=1, max_dims=4, min_side=2, max_side=4), elements=st.integers(0, 12)
    ),
    st.integers(1, 4),
    st.sampled_from(["one_way", "two_way"]),
)
@settings(max_examples=40)
def test_what_is_promised_holds_for_any_table(table, tolerance, margins) -> None:
    if margins == "two_way" and table.ndim < 3:
        margins = "one_way"
    try:
        safe = sf.safe_table(table, tolerance, margins=margins, time_limit=10)
    except InputError:
        return  # there is none; the brute-force test shows that this is said only then
    is_safe(safe)
    assert (safe.counts[table == 0] == 0).all()
    assert safe.bound <= safe.distance
    if ((table == 0) | (table >= tolerance)).all():
        assert np.array_equal(safe.counts, table)


def test_structural_zeros_by_cell() -> None:
    table = np.array([[1, 0, 6], [6, 6, 0], [0, 6, 6]])
    stays = np.zeros_like(table, dtype=bool)
    stays[0, 1] = True
    safe = sf.safe_table(table, 3, structural_zeros=stays)
    is_safe(safe)
    assert safe.counts[0, 1] == 0


def test_weights_move_the_change_elsewhere() -> None:
    heavy = np.ones_like(EXAMPLE_3, dtype=float)
    heavy[0] = 1000.0
    safe = sf.safe_table(EXAMPLE_3, 5, weights=heavy)
    is_safe(safe)
    assert np.abs(safe.counts - EXAMPLE_3)[0].sum() <= np.abs(PUBLISHED_3 - EXAMPLE_3)[0].sum()


def test_a_table_beyond_the_exact_size_is_near_its_bound() -> None:
    rng = np.random.default_rng(1)
    table = rng.poisson(rng.gamma(0.8, 4 / 0.8, (30, 30)))
    safe = sf.safe_table(table, 3)
    is_safe(safe)
    assert safe.gap <= 0.01
    # The bound is a bound: the trivial valid changes are no nearer.
    assert safe.distance >= safe.bound > 0


@pytest.mark.parametrize(
    ("table", "tolerance", "options", "words"),
    [
        ([[1, -1], [2, 3]], 3, {}, "negative"),
        ([[1.5, 1], [2, 3]], 3, {}, "whole numbers"),
        ([[1, float("nan")], [2, 3]], 3, {}, "whole numbers"),
        ([["a", "b"]], 3, {}, "counts"),
        ([[1, 2], [3]], 3, {}, "different lengths"),
        ([], 3, {}, "no cells"),
        ([[5, 5], [5, 5]], 0, {}, "at least 1"),
        ([[5, 5], [5, 5]], 2.5, {}, "whole number"),
        ([[5, 5], [5, 5]], 3, {"margins": [(0,)]}, "don't cover key2"),
        ([[5, 5], [5, 5]], 3, {"margins": [(0, 1)]}, "the table itself"),
        ([[5, 5], [5, 5]], 3, {"margins": "two_way"}, "no two-way margins"),
        ([[5, 5], [5, 5]], 3, {"margins": ["key3"]}, "key3"),
        ([[5, 5], [5, 5]], 3, {"margins": "three"}, "no margins"),
        ([[5, 5], [5, 5]], 3, {"objective": "l3"}, "l3"),
        ([[5, 5], [5, 5]], 3, {"weights": [[1, 0], [1, 1]]}, "above 0"),
        ([[5, 5], [5, 5]], 3, {"structural_zeros": [[True, False]]}, "shape"),
        ([[5, 5], [5, 5]], 3, {"structural_zeros": [[True, False], [False, False]]}, "structurally empty"),
        ([[5, 5], [5, 5]], 3, {"time_limit": 0}, "time_limit"),
        (np.broadcast_to(np.int64(1), (8,) * 10), 3, {}, "cells; 50,000,000 is the most"),
    ],
)
def test_bad_input_is_named(table, tolerance, options, words: str) -> None:
    with pytest.raises(sf.SfumatoError, match=words):
        sf.safe_table(table, tolerance, **options)


def test_a_tolerance_above_a_margin_says_which_margin_must_give() -> None:
    with pytest.raises(InputError) as caught:
        sf.safe_table([[2, 0], [10, 10]], 5)
    assert "no table" in str(caught.value)
    assert "key1 1 by" in str(caught.value)


def test_a_table_of_zeros_is_safe_already() -> None:
    assert not sf.safe_table(np.zeros((3, 3), dtype=int), 5).counts.any()


def test_ten_dimensions() -> None:
    rng = np.random.default_rng(3)
    table = rng.poisson(4, (2,) * 10)
    safe = sf.safe_table(table, 3, time_limit=20)
    is_safe(safe)
    assert safe.gap < 0.05
