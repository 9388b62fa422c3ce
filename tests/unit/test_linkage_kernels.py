"""The linkage kernels against their slow twins, SciPy, and proofs of optimality."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from sfumato.data.microdata import Microdata
from sfumato.draws import Seed
from sfumato.kernels import linkage as kernels
from sfumato.kernels import linkage_sparse
from sfumato.linkage import assign, blocks, sparse
from sfumato.linkage import fields as compare

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import linkage_twins as twins


def data(array, **extra):
    import polars as pl

    frame = {f"x{j}": array[:, j] for j in range(array.shape[1])} | extra
    return Microdata(pl.DataFrame(frame))


def columns(array):
    return [f"x{j}" for j in range(array.shape[1])]


def draws(seed=0):
    return Seed.from_int(seed).draws("test")


def dense(fields):
    """Every pair's weight, by the kernel."""
    out = np.empty((fields.left_records, fields.right_records))
    for i in range(fields.left_records):
        kernels.score_row(i, 0, fields.right_records, fields.arrays(), out[i])
    return out


@pytest.mark.parametrize("metric", ["l", "d"])
def test_weights_equal_the_printed_formula(metric):
    rng = np.random.default_rng(1)
    X = np.exp(rng.normal(3, 3, (12, 4))) * rng.choice([-1, 1, 1], (12, 4))
    X[rng.random(X.shape) < 0.2] = 0.0
    Z = X * np.exp(rng.normal(0, 0.4, X.shape)) + rng.choice([0, 0, 5], X.shape)
    X[3, 1] = Z[5, 2] = np.nan
    agree, disagree = np.array([2.0, 1.0, 3.5, 0.4]), np.array([-1.0, -3.0, 0.0, -0.2])
    fields = compare.agreement_fields(data(X), data(Z), columns(X), metric=metric, tolerance=0.3)
    ours = dense(fields.weighted(agree, disagree))
    np.testing.assert_allclose(ours, twins.weight_matrix(X, Z, metric, 0.3, agree, disagree), atol=1e-8)


def test_points_count_missing_values_as_two_where_one_side_lacks_them():
    left = np.array([[1.0, np.nan], [0.0, 2.0]])
    right = np.array([[1.5, np.nan], [0.0, 1.0], [np.nan, 2.0]])
    expected = -np.array([[0.25 + 0, 1 + 2, 2 + 2], [2.25 + 2, 0 + 1, 2 + 0]])
    np.testing.assert_allclose(dense(compare.point_fields("ab", left, right)), expected)


def test_modes_are_the_nearest_mode_of_the_mixture():
    left, right = np.array([[0.0]]), np.array([[0.9], [-1.1], [0.0]])
    got = dense(compare.point_fields("a", left, right, centre=1.0, width=0.5))
    np.testing.assert_allclose(got, [[-0.01 / 0.5, -0.01 / 0.5, -1 / 0.5]])


def test_tables_hold_their_last_entry_beyond_the_end():
    left, right = np.array([[0.0]]), np.array([[0.4], [-1.2], [99.0], [np.nan]])
    got = dense(compare.table_fields("a", left, right, np.array([1.0]), np.array([[3.0, 2.0, -7.0]])))
    np.testing.assert_allclose(got, [[3.0, 2.0, -7.0, 0.0]])


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10_000))
def test_dense_assignment_is_optimal(n, m, seed):
    rng = np.random.default_rng(seed)
    X, Z = rng.integers(1, 5, (n, 3)).astype(float), rng.integers(1, 5, (m, 3)).astype(float)
    fields = compare.agreement_fields(data(X), data(Z), columns(X), metric="d", tolerance=0.9)
    truth = np.full(n, -1)
    links = assign.link(fields, blocks.make_blocks(data(X), data(Z), [], draws(seed)), truth)
    linked = links.match >= 0
    assert linked.sum() == min(n, m)
    assert len(set(links.match[linked])) == linked.sum()
    assert links.weight[linked].sum() == pytest.approx(twins.best_assignment(dense(fields)), abs=1e-9)


def test_dense_assignment_equals_scipy_on_larger_blocks():
    rng = np.random.default_rng(5)
    X = rng.lognormal(8, 1, (160, 5))
    Z = np.concatenate([X * rng.lognormal(0, 0.3, X.shape), rng.lognormal(8, 1, (40, 5))])
    fields = compare.agreement_fields(data(X), data(Z), columns(X))
    W = twins.weight_matrix(X, Z)
    rows, cols = linear_sum_assignment(W, maximize=True)
    links = assign.link(fields, blocks.make_blocks(data(X), data(Z), [], draws()), np.arange(160))
    assert links.weight.sum() == pytest.approx(W[rows, cols].sum(), abs=1e-8)


def sparse_case(rng, n, m, density, levels):
    """A random sparse problem: CSR edges, weights on few levels (many ties), outside options."""
    mask = rng.random((n, m)) < density
    weights = rng.integers(-levels, levels + 1, (n, m)).astype(float)
    starts = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(np.int64)
    cols = np.nonzero(mask)[1].astype(np.int64)
    return mask, weights, starts, cols, weights[mask], rng.integers(-levels, 1, n).astype(float)


@given(st.integers(1, 25), st.integers(1, 25), st.floats(0.02, 1), st.integers(1, 6), st.integers(0, 10_000))
def test_sparse_assignment_is_optimal_and_its_prices_prove_it(n, m, density, levels, seed):
    rng = np.random.default_rng(seed)
    mask, weights, starts, cols, w, outside = sparse_case(rng, n, m, density, levels)
    edge, u, v = linkage_sparse.assign_sparse(starts, cols, w, outside, m)
    has = edge >= 0
    total = w[edge[has]].sum() + outside[~has].sum()
    assert len(set(cols[edge[has]])) == has.sum()
    # Weak duality: prices that cover every edge bound every assignment; ours meets the bound.
    rows = np.repeat(np.arange(n), np.diff(starts))
    assert (u[rows] + v[cols] >= w - 1e-9).all()
    assert (u >= outside - 1e-9).all()
    assert (v >= -1e-9).all()
    assert total == pytest.approx(u.sum() + v.sum(), abs=1e-7)
    # The same problem as a dense one, with a column of its own for every row's outside option.
    big = np.full((n, m + n), -1e6)
    big[:, :m][mask] = weights[mask]
    big[np.arange(n), m + np.arange(n)] = outside
    r, c = linear_sum_assignment(big, maximize=True)
    assert total == pytest.approx(big[r, c].sum(), abs=1e-6)


def test_candidates_are_the_best_ones():
    rng = np.random.default_rng(2)
    X, Z = rng.lognormal(8, 1, (30, 4)), rng.lognormal(8, 1, (50, 4))
    fields = compare.agreement_fields(data(X), data(Z), columns(X), tolerance=0.9)
    places, weights = np.empty((30, 7), np.int64), np.empty((30, 7))
    rows, low, high, sizes = np.arange(30), np.zeros(30, int), np.full(30, 50), np.zeros(30, int)
    kernels.top_candidates(
        0, 30, rows, low, high, fields.arrays(), np.full(30, -1), places, weights, sizes, np.empty(30)
    )
    W = twins.weight_matrix(X, Z, "l", 0.9)
    for i in range(30):
        np.testing.assert_allclose(np.sort(weights[i]), np.sort(W[i])[-7:], atol=1e-9)
        np.testing.assert_allclose(W[i, places[i]], weights[i], atol=1e-9)
        assert len(set(places[i])) == 7


@pytest.mark.parametrize("candidates", [1, 3, 60])
@pytest.mark.parametrize(("n", "m"), [(60, 60), (45, 60), (60, 45)])
@pytest.mark.parametrize("spread", [0.05, 0.6])
def test_few_candidates_grow_until_the_assignment_is_the_best_of_all(candidates, n, m, spread):
    rng = np.random.default_rng(3)
    X, Z = rng.lognormal(8, 1, (60, 4)), rng.lognormal(0, spread, (60, 4))
    X, Z = X[:n], (X * Z)[:m]
    fields = compare.agreement_fields(data(X), data(Z), columns(X))
    made = blocks.make_blocks(data(X), data(Z), [], draws())
    truth = np.where(np.arange(n) < m, np.arange(n), -1)
    one = assign.link(fields, made, truth)
    two = assign.link(fields, made, truth, dense_pairs=0, candidates=candidates)
    W = twins.weight_matrix(X, Z)
    best = W[linear_sum_assignment(W, maximize=True)].sum()
    linked = two.match >= 0
    assert linked.sum() == min(n, m)
    assert len(set(two.match[linked])) == linked.sum()
    assert two.gap == 0.0
    assert np.nansum(two.weight) == pytest.approx(best, abs=1e-8)
    assert np.nansum(one.weight) == pytest.approx(best, abs=1e-8)
    np.testing.assert_allclose(one.nearest, two.nearest)
    assert two.sparse_blocks == 1


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 4), st.integers(0, 10_000))
def test_several_blockings_are_assigned_exactly_with_as_many_links_as_possible(n, m, candidates, seed):
    rng = np.random.default_rng(seed)
    X, Z = rng.integers(1, 6, (n, 2)).astype(float), rng.integers(1, 6, (m, 2)).astype(float)
    keys = [(rng.integers(0, 3, n), rng.integers(0, 3, m)) for _ in range(2)]
    one = data(X, a=keys[0][0], b=keys[1][0])
    two = data(Z, a=keys[0][1], b=keys[1][1])
    fields = compare.agreement_fields(one, two, ["x0", "x1"], metric="d", tolerance=0.9)
    made = [blocks.make_blocks(one, two, [k], draws(seed)) for k in "ab"]
    links = assign.link(fields, made, np.full(n, -1), candidates=candidates)
    admissible = np.any([left[:, None] == right[None, :] for left, right in keys], axis=0)
    W = np.where(admissible, twins.weight_matrix(X, Z, "d", 0.9), -1e4)
    chosen = W[linear_sum_assignment(W, maximize=True)]
    linked = np.flatnonzero(links.match >= 0)
    assert links.gap == 0.0
    assert admissible[linked, links.match[linked]].all()
    assert len(set(links.match[linked])) == len(linked) == (chosen > -1e3).sum()
    assert np.nansum(links.weight) == pytest.approx(chosen[chosen > -1e3].sum(), abs=1e-8)


def test_an_assignment_that_is_not_proved_says_how_far_it_may_be_off():
    rng = np.random.default_rng(3)
    X, Z = rng.lognormal(8, 1, (80, 4)), rng.lognormal(8, 1, (80, 4))
    fields = compare.agreement_fields(data(X), data(Z), columns(X))
    made = blocks.make_blocks(data(X), data(Z), [], draws())
    solved = sparse.assign_large([sparse.Scan(fields, made, np.arange(80))], 2, rounds=2)
    W = twins.weight_matrix(X, Z)
    best = W[linear_sum_assignment(W, maximize=True)].sum()
    assert not solved.proved
    assert (solved.match >= 0).all()
    assert np.nansum(solved.weight) <= best <= np.nansum(solved.weight) + solved.gap + 1e-9


def test_a_hard_assignment_is_left_unproved_and_stays_one_to_one():
    rng = np.random.default_rng(3)
    X, Z = rng.lognormal(8, 1, (80, 4)), rng.lognormal(8, 1, (80, 4))
    fields = compare.agreement_fields(data(X), data(Z), columns(X))
    made = blocks.make_blocks(data(X), data(Z), [], draws())
    solved = sparse.assign_large([sparse.Scan(fields, made, np.arange(80))], 2, hard=5)
    assert solved.gap == np.inf
    linked = np.flatnonzero(solved.match >= 0)
    assert 0 < len(linked) < 75  # more than five are left without
    assert len(set(solved.match[linked])) == len(linked)
    np.testing.assert_allclose(
        solved.weight[linked], twins.weight_matrix(X, Z)[linked, solved.match[linked]], atol=1e-9
    )


def test_nearest_ties_are_shared():
    X = np.array([[1.0], [1.0], [1.0], [9.0]])
    fields = compare.point_fields("x", X, X)
    links = assign.link(fields, blocks.make_blocks(data(X), data(X), [], draws()), np.arange(4))
    np.testing.assert_allclose(links.nearest, [1 / 3, 1 / 3, 1 / 3, 1])


def test_ties_do_not_follow_file_order():
    """With all values equal, a shuffled assignment finds about one truth, not all of them."""
    X = np.ones((200, 2))
    hits = []
    for seed in range(20):
        fields = compare.agreement_fields(data(X), data(X), columns(X))
        made = blocks.make_blocks(data(X), data(X), [], draws(seed))
        hits.append((assign.link(fields, made, np.arange(200)).match == np.arange(200)).sum())
    # Fixed points of a random permutation: mean 1, variance 1; 5 standard errors of 20 draws.
    assert np.mean(hits) < 1 + 5 / np.sqrt(20)


def test_patterns_are_counted_as_the_twin_counts_them():
    rng = np.random.default_rng(4)
    X, Z = rng.lognormal(3, 1, (15, 3)), rng.lognormal(3, 1, (9, 3))
    X[2, 0] = Z[4, 1] = np.nan
    fields = compare.agreement_fields(data(X), data(Z), columns(X), metric="d", tolerance=0.5)
    counts = np.zeros(27, np.int64)
    rows = np.arange(15)
    kernels.pattern_counts(rows, np.zeros(15, int), np.full(15, 9), fields.arrays(), 3, counts)
    expected = np.zeros(27, int)
    for i in range(15):
        for k in range(9):
            code = 0
            for j in range(3):
                gone = np.isnan(X[i, j]) or np.isnan(Z[k, j])
                state = 2 if gone else int(abs(X[i, j] - Z[k, j]) <= 0.5 * max(abs(X[i, j]), 0.1))
                code += state * 3**j
            expected[code] += 1
    np.testing.assert_array_equal(counts, expected)


# -- the auction ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "m", "rounded"), [(60, 60, False), (50, 70, False), (60, 60, True), (40, 44, True)]
)
@pytest.mark.parametrize("top", [2, 8, 64])
def test_an_auction_is_as_near_to_the_best_as_it_says(n, m, rounded, top):
    """Against SciPy's exact assignment: never above it, and below it by at most the gap."""
    rng = np.random.default_rng(n + m + top)
    X = rng.normal(size=(n, 3))
    Z = np.vstack([X, rng.normal(size=(max(m - n, 0), 3))]) + 0.8 * rng.normal(size=(m, 3))
    if rounded:
        X, Z = np.round(X), np.round(Z)
    fields = compare.point_fields("abc", X, Z)
    made = blocks.make_blocks(data(X), data(Z), [], draws())
    scan = sparse.Scan(fields, made, np.arange(n))
    scan.best(top)
    solved = scan.auctioned(1e12)
    W = -((X[:, None] - Z[None]) ** 2).sum(axis=2)
    best = W[linear_sum_assignment(W, maximize=True)].sum()
    assert len(set(solved.match.tolist())) == n
    total = W[np.arange(n), solved.match].sum()
    assert total == pytest.approx(np.nansum(solved.weight))
    assert best - solved.gap - 1e-9 <= total <= best + 1e-9
    assert solved.gap < 0.05 * abs(best)


@pytest.mark.parametrize("budget", [0, 100, 2_000])
def test_an_auction_that_may_not_look_again_links_all_and_says_what_that_may_cost(budget):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 2))
    Z = X + rng.normal(size=X.shape)
    fields = compare.point_fields("ab", X, Z)
    scan = sparse.Scan(fields, blocks.make_blocks(data(X), data(X), [], draws()), np.arange(200))
    scan.best(3)
    solved = scan.auctioned(budget)
    assert len(set(solved.match.tolist())) == 200
    assert solved.match.min() >= 0
    W = -((X[:, None] - Z[None]) ** 2).sum(axis=2)
    best = W[linear_sum_assignment(W, maximize=True)].sum()
    total = W[np.arange(200), solved.match].sum()
    assert total == pytest.approx(solved.weight.sum())
    assert best - solved.gap - 1e-9 <= total <= best + 1e-9


@pytest.mark.parametrize("way", ["dense", "sparse", "auction", "nearest"])
def test_every_path_finds_by_chance_what_holds_no_information(way):
    """Categories alone, 100 cells of records all alike: one in a cell is found by chance, whatever the path.

    The candidates' path gave .52 where chance is .025: edges were in file order, and ties fell on the truth.
    """
    rng = np.random.default_rng(6)
    cells = np.repeat(np.arange(40), 20)
    rates = []
    for seed in range(6):
        codes = rng.permutation(cells)[:, None]
        fields = compare.flag_fields("c", codes, codes, np.ones(1))
        truth = np.arange(len(codes))
        frame = data(codes.astype(float))
        made = blocks.make_blocks(frame, frame, [], draws(seed))
        if way == "auction":
            scan = sparse.Scan(fields, made, truth)
            scan.best(8)
            match = scan.auctioned(1e12).match
        else:
            dense = {"dense": 10**9, "sparse": 0, "nearest": 0}[way]
            match = assign.link(
                fields, made, truth, one_to_one=way != "nearest", candidates=8, dense_pairs=dense
            ).match
        rates.append((match == truth).mean())
    # 800 records in cells of 20: 40 expected of 800, Poisson; six draws, five standard errors.
    assert abs(np.mean(rates) - 0.05) < 5 * np.sqrt(40 / 6) / 800
