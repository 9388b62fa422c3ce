"""Cube moves: what they keep, and that they find what a search of all tables finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sfumato.draws import Seed
from sfumato.kernels.safe import anneal


def search(table: np.ndarray, tolerance: int, steps: int, seed: int) -> np.ndarray | None:
    heat = 2.0 * tolerance
    rng = Seed.from_int(seed).draws("test").stream().generator()
    flat = table.ravel().astype(np.int64)
    best, found = anneal(
        flat,
        flat == 0,
        np.array(table.shape),
        tolerance,
        np.ones(flat.size),
        steps,
        heat,
        0.05 * heat,
        heat,
        rng,
    )
    return best.reshape(table.shape) if found else None


def brute_force(table: np.ndarray, tolerance: int) -> int | None:
    """Tables of 2 × 2 × 2 with the same two-way margins differ by one number; try them all."""
    parity = np.array([(-1) ** sum(c) for c in itertools.product((0, 1), repeat=3)]).reshape(2, 2, 2)
    best = None
    for step in range(-int(table.max()), int(table.max()) + 1):
        other = table + step * parity
        if (
            (other >= 0).all()
            and ((other == 0) | (other >= tolerance)).all()
            and (other[table == 0] == 0).all()
        ):
            distance = int(np.abs(other - table).sum())
            best = distance if best is None else min(best, distance)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_small_cubes_equal_brute_force(seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, 9, (2, 2, 2))
    wanted = brute_force(table, 3)
    found = search(table, 3, 20_000, seed)
    if wanted is None:
        assert found is None
    else:
        assert found is not None
        assert int(np.abs(found - table).sum()) == wanted


@pytest.mark.parametrize("shape", [(5, 5), (4, 4, 4), (3, 3, 3, 3)])
def test_every_line_keeps_its_total(shape: tuple[int, ...]) -> None:
    table = np.random.default_rng(1).poisson(8, shape)
    found = search(table, 3, 400_000, 1)
    assert found is not None
    assert ((found == 0) | (found >= 3)).all()
    assert (found[table == 0] == 0).all()
    for axis in range(len(shape)):
        assert np.array_equal(found.sum(axis=axis), table.sum(axis=axis))


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 5])
def test_cubes_of_three_levels_reach_the_proved_optimum(seed: int) -> None:
    """All two-way margins of 3 × 3 × 3 cells: an integer program proves the least distance."""
    from sfumato.tables.program import Problem, solve

    rng = np.random.default_rng(seed)
    table = rng.poisson(rng.gamma(0.8, 9 / 0.8, (3, 3, 3)))
    flat = table.ravel().astype(np.int64)
    places = np.indices(table.shape).reshape(3, -1)
    margins = [np.ravel_multi_index(tuple(places[list(a)]), [table.shape[i] for i in a]) for a in PAIRS]
    totals = tuple(np.bincount(m, flat).astype(np.int64) for m in margins)
    problem = Problem(flat, 3, np.ones(flat.size), tuple(margins), totals, "l1")
    proved = solve(problem, seconds=60)
    stream = Seed.from_int(seed).draws("test").stream().generator()
    found, there = anneal(
        flat, np.zeros(flat.size, bool), np.array(table.shape), 3, np.ones(flat.size), 300_000, 3.0, 0.24,
        6.0, stream,
    )  # fmt: skip
    if proved.table is None:
        assert proved.status == "infeasible"
        assert not there
    else:
        assert proved.status == "optimal"
        assert there
        assert problem.valid(found)
        assert problem.cost(found) == problem.cost(proved.table)


PAIRS = ((0, 1), (0, 2), (1, 2))
