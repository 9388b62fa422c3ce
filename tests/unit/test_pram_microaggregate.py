"""PRAM and microaggregation: exact invariants, published losses, twins, bad input."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.draws import Seed
from sfumato.kernels.mdav import group_sorted, mdav
from sfumato.masks.microaggregate import Microaggregate, SharedValues
from sfumato.masks.pram import KnownValues, Pram, invariant, proportional, two_stage


def carry_out(mask, data, seed=1):
    masked, notes, _ = mask.carry_out(data, Seed.from_int(seed).draws("step"))
    return masked, notes


# -- PRAM -------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.2, 0.5, 0.8, 0.99, 1.0]),
)
def test_the_invariant_matrix_keeps_the_counts_and_the_diagonal(counts, keep):
    matrix = invariant(np.array(counts), keep).matrix()
    share = np.array(counts) / sum(counts)
    assert (matrix >= -1e-12).all()
    assert matrix.sum(axis=1) == pytest.approx(np.ones(len(counts)))
    assert share @ matrix == pytest.approx(share)
    for k, count in enumerate(counts):
        if 2 * count <= sum(counts):
            assert matrix[k, k] == pytest.approx(keep, abs=1e-9)
        else:  # more than half can't all leave: as many as there are others who leave
            leaving = (1 - keep) * (1 - share[k])
            assert matrix[k, k] == pytest.approx(1 - leaving / share[k], abs=1e-9)


def test_matrices_by_hand():
    assert proportional(np.array([1, 1, 2]), 0.4).matrix() == pytest.approx(
        np.array([[0.4, 0.2, 0.4], [0.2, 0.4, 0.4], [0.3, 0.3, 0.4]])
    )
    plain = np.array([[0.9, 0.1], [0.3, 0.7]])
    counts = np.array([30, 10])
    # Arrived: 30 and 10; back by Bayes' rule 27/30, 3/30 and 3/10, 7/10.
    back = np.array([[27 / 30, 3 / 30], [3 / 10, 7 / 10]])
    assert two_stage(plain, counts) == pytest.approx(plain @ back)
    assert counts @ two_stage(plain, counts) == pytest.approx(counts)


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.2, 0.8, 0.99, 1.0]),
    st.sampled_from([invariant, proportional]),
    st.integers(0, 99),
)
def test_flows_draw_as_their_matrix_does(counts, keep, make, seed):
    # The same inverse distribution function, row by row, without the matrix.
    flows, rng = make(np.array(counts), keep), np.random.default_rng(seed)
    start, uniform = rng.integers(0, len(counts), 300), rng.random(300)
    edges = np.cumsum(flows.matrix(), axis=1)
    clear = np.abs(edges[start] - uniform[:, None]).min(axis=1) > 1e-9  # no draw on an edge
    twin = [int(np.searchsorted(edges[s], u, side="right")) for s, u in zip(start, uniform, strict=True)]
    assert (flows.drawn(start, uniform) == np.minimum(twin, len(counts) - 1))[clear].all()
    assert flows.stay == pytest.approx(np.diag(flows.matrix()), abs=1e-9)


@pytest.mark.parametrize("kept", [None, False])
def test_ten_thousand_categories_need_no_matrix(kept):
    rng = np.random.default_rng(1)
    data = sf.Microdata(pl.DataFrame({"CODE": rng.permutation(np.repeat(np.arange(10_000), 2))}))
    mask = Pram(columns=["CODE"], keep_probability=0.7, invariant=kept)
    carry_out(mask, data)
    tracemalloc.start()
    _, notes = carry_out(mask, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000  # a matrix of doubles would take 800 MB
    assert notes.figures["kept_share"]["CODE"] == pytest.approx(0.7, abs=4 * math.sqrt(0.21 / 20_000))
    table = {"1": {"2": 0.5, "1": 0.5}}
    with pytest.raises(sf.errors.MaskError, match="10,000 rows and columns"):
        Pram(columns=["CODE"], matrix=table).mask(data, seed=1)


@given(st.integers(0, 50), st.sampled_from([None, True, False]), st.sampled_from([0.0, 0.5, 0.9]))
def test_no_value_leaves_its_stratum(seed, kept, keep):
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "s": rng.integers(0, 4, 60),
            "x": rng.choice(["a", "b", "c", None], 60).tolist(),
            "y": rng.integers(0, 5, 60),
        }
    )
    frame = frame.with_columns(x=pl.when(pl.col("s") == 0).then(pl.lit("only")).otherwise(pl.col("x")))
    data = sf.Microdata(frame, {"variables": {"y": {"missing": [4]}}})
    mask = Pram(columns=["x", "y"], keep_probability=keep, within=["s"], invariant=kept)
    masked = carry_out(mask, data, seed)[0]
    for column in ("x", "y"):
        for (stratum,), part in masked.frame.group_by("s"):
            before = frame.filter(pl.col("s") == stratum)[column]
            assert set(part[column]) <= set(before)
        assert masked.missing(column).tolist() == data.missing(column).tolist()
    assert masked.frame.schema == frame.schema


def test_keeping_everything_is_identity_and_a_seed_is_a_seed():
    frame = pl.DataFrame(
        {"x": pl.Series(["a", "b", "c"] * 30, dtype=pl.Categorical), "b": [True, False, True] * 30}
    )
    data = sf.Microdata(frame)
    mask = Pram(columns=["x", "b"], keep_probability=1.0)
    assert carry_out(mask, data)[0].frame.equals(frame)
    mask = Pram(columns=["x", "b"], keep_probability=0.3)
    first, again, other = (carry_out(mask, data, s)[0].frame for s in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)
    assert first.schema == frame.schema


@pytest.mark.statistical
def test_counts_are_kept_on_average_and_as_many_stay_as_promised():
    counts = {"a": 500, "b": 300, "c": 150, "d": 50}
    data = sf.Microdata(pl.DataFrame({"x": [v for v, n in counts.items() for _ in range(n)]}))
    mask = Pram(columns=["x"], keep_probability=0.7)
    runs = 60
    seen = {v: 0.0 for v in counts}
    kept = 0.0
    for seed in range(runs):
        masked = carry_out(mask, data, seed)[0].frame["x"]
        kept += float((masked == data.frame["x"]).mean()) / runs
        for value, n in masked.value_counts().iter_rows():
            seen[value] += n / runs
    # A count is a sum of independent records: its variance is at most 2 · 0.3 · n_k.
    for value, n in counts.items():
        assert abs(seen[value] - n) < 4.5 * np.sqrt(0.6 * n / runs)
    assert abs(kept - 0.7) < 4.5 * np.sqrt(0.21 / 1000 / runs)


@pytest.mark.statistical
def test_a_given_matrix_is_used_as_it_is():
    data = sf.Microdata(pl.DataFrame({"x": [1] * 4000 + [2] * 4000}))
    mask = Pram(columns=["x"], matrix={"1": {"1": 0.9, "2": 0.1}, "2": {"1": 0.25, "2": 0.75}})
    masked, notes = carry_out(mask, data)
    one = float((masked.frame["x"][:4000] == 2).mean())
    two = float((masked.frame["x"][4000:] == 1).mean())
    assert abs(one - 0.10) < 4.5 * np.sqrt(0.09 / 4000)
    assert abs(two - 0.25) < 4.5 * np.sqrt(0.1875 / 4000)
    assert notes.figures["transition"]["x"] == [[0.9, 0.1], [0.25, 0.75]]
    assert notes.figures["kept_share_expected"]["x"] == pytest.approx(0.825)
    both = Pram(columns=["x"], matrix={"x": {"1": {"2": 1.0}, "2": {"1": 1.0}}})
    assert carry_out(both, data)[0].frame["x"].to_list() == [2] * 4000 + [1] * 4000
    absent = Pram(columns=["x"], matrix={"1": {"1": 0.5, "7": 0.5}})
    assert carry_out(absent, data)[0].frame["x"].equals(data.frame["x"])


def test_pram_guarantee_and_bad_parameters():
    before = sf.Microdata(pl.DataFrame({"s": [1, 1, 2], "x": ["a", "b", "c"]}))
    after = before.with_columns({"x": pl.Series(["a", "c", "c"])})
    assert "1 records" in str(KnownValues(("x",), ("s",)).failure(before, after))
    assert KnownValues(("x",), ()).failure(before, after) is None
    blank = before.with_columns({"x": pl.Series(["a", None, "c"])})
    assert KnownValues(("x",), ()).failure(before, blank) == "missing values of x moved"
    for bad, message in (
        ({}, "one of `keep_probability` and `matrix`"),
        ({"keep_probability": 0.5, "matrix": {"a": {"a": 1}}}, "one of"),
        ({"keep_probability": 1.5}, "at most 1"),
        ({"matrix": {"a": {"a": 0.5}}}, "sums to 0.5, not to 1"),
        ({"matrix": {"a": {"a": 1.5, "b": -0.5}}}, "outside 0 to 1"),
        ({"matrix": {"a": 3}}, "must map each category"),
        ({"matrix": {}}, "no table for x"),
        ({"keep_probability": 0.5, "within": ["x"]}, "within itself"),
    ):
        with pytest.raises(sf.SfumatoError, match=message):
            Pram(columns=["x"], **bad)
    with pytest.raises(sf.SfumatoError, match="names no value of x"):
        Pram(columns=["x"], matrix={"z": {"z": 1.0}}).mask(before)


# -- microaggregation -------------------------------------------------------------------------------


def slow_mdav(x, k):
    """MDAV as it is written down, on a list of record numbers."""
    left, groups = list(range(len(x))), []

    def near(point, pool):
        return sorted(pool, key=lambda i: (((x[i] - point) ** 2).sum(), i))[:k]

    def far(point, pool):
        return max(pool, key=lambda i: (((x[i] - point) ** 2).sum(), -i))

    while len(left) >= 2 * k:
        r = far(x[left].mean(axis=0), left)
        s = far(x[r], left)
        for centre in (r, s) if len(left) >= 3 * k else (r,):
            groups.append(near(x[centre], left))
            left = [i for i in left if i not in groups[-1]]
    return [*groups, left] if left else groups


@given(st.integers(1, 40), st.integers(1, 3), st.integers(2, 5), st.integers(0, 30))
def test_mdav_equals_the_slow_one(n, columns, k, seed):
    # Powers of two and few values: sums are exact, so that ties are real ties in both.
    x = np.random.default_rng(seed).integers(0, 50, (n, columns)) / 8
    got = mdav(x, k)
    want = slow_mdav(x, k)
    parts = {frozenset(np.flatnonzero(got == g).tolist()) for g in set(got.tolist())}
    assert parts == {frozenset(g) for g in want}
    sizes = np.bincount(got)
    assert sizes.sum() == n
    if n >= k:
        assert k <= sizes.min()
        assert sizes.max() < 2 * k


@pytest.mark.parametrize(("levels", "columns"), [(4, 2), (60, 2), (9, 3), (10**6, 2)])
def test_mdav_by_its_tree_equals_the_slow_one_where_the_tree_is_deep(levels, columns):
    """Hundreds of records, many of them alike: boxes are passed over only where no tie is lost by it."""
    x = np.random.default_rng(levels).integers(0, levels, (400, columns)) / 8
    got = mdav(x, 3)
    parts = {frozenset(np.flatnonzero(got == g).tolist()) for g in set(got.tolist())}
    assert parts == {frozenset(g) for g in slow_mdav(x, 3)}


@given(st.integers(2, 12), st.integers(2, 4), st.integers(0, 50))
def test_one_column_is_grouped_optimally(n, k, seed):
    if n < k:
        return
    x = np.sort(np.random.default_rng(seed).exponential(size=n))

    def cost(parts):
        return sum(((p - p.mean()) ** 2).sum() for p in parts)

    options = [
        cost(np.split(x, cuts))
        for many in range(n // k)
        for cuts in itertools.combinations(range(k, n - k + 1), many)
        if all(len(p) >= k for p in np.split(x, cuts))
    ]
    group = group_sorted(x, k)
    assert cost([x[group == g] for g in set(group.tolist())]) == pytest.approx(min(options))


@pytest.mark.parametrize(("k", "loss"), [(3, 5.6922), (4, 7.4947), (5, 9.0884), (10, 14.1559)])
def test_published_losses_on_casc(reference_data, k, loss):
    frame = pl.read_csv(reference_data / "CASCrefmicrodata.csv").cast(pl.Float64)
    data = sf.Microdata(frame)
    masked, notes = carry_out(Microaggregate(columns=frame.columns, k=k), data)
    name = "+".join(frame.columns)
    assert notes.figures["information_loss_percent"][name] == pytest.approx(loss, abs=5e-5)
    x, z = frame.to_numpy(), masked.frame.to_numpy()
    spread = ((x - x.mean(axis=0)) ** 2).sum(axis=0)
    assert 100 * (((x - z) ** 2).sum(axis=0) / spread).mean() == pytest.approx(loss, abs=5e-5)
    assert masked.frame.unique().height == notes.figures["groups"][name] == 1080 // k


def test_strata_missing_codes_and_types():
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "s": ["a", "b"] * 20,
            "x": rng.integers(0, 100, 40),
            "y": rng.random(40),
            "d": pl.Series(rng.integers(0, 9000, 40)).cast(pl.Int32).cast(pl.Date),
        }
    ).with_columns(x=pl.when(pl.int_range(40) < 2).then(None).otherwise(pl.col("x")))
    data = sf.Microdata(frame, {"variables": {"y": {"top": 0.95}}})
    mask = Microaggregate(columns=["x", "y", "d"], k=3, within=["s"])
    masked, notes = carry_out(mask, data)
    free = frame["x"].is_not_null() & (frame["y"] < 0.95)
    assert masked.frame.schema == frame.schema
    assert masked.frame.filter(~free).equals(frame.filter(~free))
    sizes = masked.frame.filter(free).group_by("s", "x", "y", "d").len()["len"]
    assert sizes.min() >= 3
    assert notes.figures["records_aggregated"]["x+y+d"] == free.sum()
    for stratum in ("a", "b"):
        here = free & (frame["s"] == stratum)
        assert masked.frame.filter(here)["y"].mean() == pytest.approx(frame.filter(here)["y"].mean())


def test_each_column_by_itself_loses_less():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=200), "y": rng.normal(size=200)})
    data = sf.Microdata(frame)
    _, together = carry_out(Microaggregate(columns=["x", "y"]), data)
    masked, alone = carry_out(Microaggregate(columns=["x", "y"], together=False), data)
    assert (
        max(alone.figures["information_loss_percent"].values())
        < together.figures["information_loss_percent"]["x+y"]
    )
    assert masked.frame["x"].unique_counts().min() >= 3


def test_sums_aggregated_together_hold():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"a": rng.normal(size=50), "b": rng.normal(size=50)}).with_columns(
        t=pl.col("a") + pl.col("b")
    )
    data = sf.Microdata(frame, {"variables": {"t": {"sum_of": ["a", "b"]}}})
    masked, _ = carry_out(Microaggregate(columns=["a", "b", "t"]), data)
    assert (masked.frame["a"] + masked.frame["b"] - masked.frame["t"]).abs().max() < 1e-12
    # A part alone: the total follows. Whole numbers, whose means are rounded: the total follows too.
    alone = Microaggregate(columns=["a"]).mask(data).frame
    assert (alone["a"] + alone["b"] - alone["t"]).abs().max() < 1e-12
    assert (alone["t"] != data.frame["t"]).all()
    whole = sf.Microdata((100 * frame).cast(pl.Int64).with_columns(t=pl.col("a") + pl.col("b")), data.schema)
    masked = Microaggregate(columns=["a", "b", "t"]).mask(whole).frame
    assert (masked["a"] + masked["b"] == masked["t"]).all()


def test_microaggregation_edges_and_bad_input():
    data = sf.Microdata(pl.DataFrame({"s": [1, 1, 1, 2], "x": [1.0, 2.0, 6.0, 9.0], "c": [5.0] * 4}))
    with pytest.raises(sf.SfumatoError, match="1 strata have fewer than k = 3"):
        Microaggregate(columns=["x"], within=["s"]).mask(data)
    with pytest.raises(sf.SfumatoError, match="at least 2"):
        Microaggregate(columns=["x"], k=1)
    with pytest.raises(sf.SfumatoError, match="within itself"):
        Microaggregate(columns=["x"], within=["x"])
    endless = data.with_columns({"x": pl.Series([1.0, 2.0, float("inf"), 3.0])})
    with pytest.raises(sf.SfumatoError, match="x has infinite values"):
        Microaggregate(columns=["x", "c"]).mask(endless)
    constant, notes = carry_out(Microaggregate(columns=["c", "x"], k=4), data)
    assert constant.frame["x"].to_list() == [4.5] * 4
    assert constant.frame["c"].to_list() == [5.0] * 4
    assert notes.figures["information_loss_percent"]["c+x"] == pytest.approx(100)
    gone = sf.Microdata(pl.DataFrame({"x": [None, None]}, schema={"x": pl.Float64}))
    assert carry_out(Microaggregate(columns=["x"]), gone)[0].frame["x"].null_count() == 2
    other = data.with_columns({"x": pl.Series([1.0, 1.0, 6.0, 6.0])})
    assert SharedValues(("x",), 3, (), True).failure(data, other) is not None


def test_columns_apart_may_miss_values_in_different_records() -> None:
    rng = np.random.default_rng(1)
    a = rng.lognormal(size=60)
    frame = pl.DataFrame({"A": a, "B": pl.Series(a + 1).set(pl.Series(a < 0.9), None)})
    masked = sf.Microaggregate(columns=["A", "B"], k=3, together=False).mask(frame).frame
    for column in ("A", "B"):
        assert masked[column].mean() == pytest.approx(frame[column].mean(), rel=1e-12)
    assert masked["B"].null_count() == frame["B"].null_count() > 0


def test_halving_keeps_groups_large_enough_and_loses_little_more_than_mdav() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    data = sf.Microdata(pl.DataFrame({c: x[:, j] for j, c in enumerate("ABCD")}))
    loss = {}
    for method in ("mdav", "halving"):
        mask = sf.Microaggregate(columns=list("ABCD"), k=5, method=method)
        masked = mask.mask(data, seed=1).frame
        counts = masked.group_by(masked.columns).len()["len"]
        assert counts.min() >= 5
        assert counts.max() <= 9
        loss[method] = float(((masked.to_numpy() - x) ** 2).sum())
    assert loss["halving"] < 1.1 * loss["mdav"]
    order = rng.permutation(3000)
    again = sf.Microaggregate(columns=list("ABCD"), k=5, method="halving").mask(data.frame[order], seed=1)
    np.testing.assert_allclose(again.frame.to_numpy(), masked.to_numpy()[order])
