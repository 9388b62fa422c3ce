"""The linkage measure: rates, zones, chance, truth, blocking, and bad input."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError, ParameterError
from sfumato.linkage.results import wilson, zone_threshold

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import linkage_twins as twins


def people(n=60, seed=0, columns=3):
    rng = np.random.default_rng(seed)
    return pl.DataFrame({f"x{j}": rng.lognormal(9, 1, n) for j in range(columns)})


def noisy(frame, sd=0.05, seed=1):
    rng = np.random.default_rng(seed)
    numbers = [c for c in frame.columns if c.startswith("x")]
    return frame.with_columns([frame[c] * rng.lognormal(0, sd, frame.height) for c in numbers])


def test_the_result_holds_what_every_attack_promises():
    frame = people()
    result = sf.Linkage(known=["x0", "x1", "x2"]).measure(frame, noisy(frame))
    assert result.value == result.rate == result.correct / 60
    assert result.attacked == 60
    assert result.baseline == pytest.approx(1 / 60)
    assert result.interval[0] <= result.rate <= result.interval[1]
    assert {"original", "masked", "weight"} <= set(result.links.columns)
    assert result.links["weight"].is_sorted(descending=True)
    assert result.links["correct"].sum() == result.correct
    assert result.links["running_share"][-1] == pytest.approx(result.precision)
    assert "original values" in result.notes[0]
    assert "links" not in result.to_dict()["figures"]


def test_wilson_against_the_published_example():
    # Newcombe (1998), Statistics in Medicine 17, table I: 81/263 and 0/20, score method.
    assert np.round(wilson(81, 263), 4).tolist() == [0.2553, 0.3662]
    assert np.round(wilson(0, 20), 4).tolist() == [0.0, 0.1611]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40))
def test_the_zone_is_the_last_crossing_with_ties_together(links):
    weight = np.array([w for w, _ in links], dtype=float)
    correct = np.array([c for _, c in links])
    threshold = zone_threshold(weight, correct, 0.2)
    assert correct[weight >= threshold].sum() == twins.zone(weight, correct)


def test_blocks_divide_and_chance_is_one_over_the_block():
    frame = people(90).with_columns(b=pl.Series([0] * 60 + [1] * 29 + [2]))
    result = sf.Linkage(known=["x0"], block_on=["b"]).measure(frame, noisy(frame))
    assert result.baseline == pytest.approx(3 / 90)
    assert result.pairs == 60**2 + 29**2 + 1
    links = result.links.with_columns(b=frame["b"].gather(result.links["original"]))
    assert (links["b"] == frame["b"].gather(links["masked"])).all()
    # The block of one is always right.
    assert links.filter(pl.col("b") == 2)["correct"].all()


def test_a_block_that_is_empty_on_one_side_links_nobody():
    frame = people(20).with_columns(b=pl.Series([0] * 10 + [1] * 10))
    masked = noisy(frame).with_columns(b=pl.Series([0] * 10 + [2] * 10))
    result = sf.Linkage(known=["x0", "x1"], block_on=["b"]).measure(frame, masked)
    assert result.linked == 10
    assert result.rate <= 0.5
    assert any("10 records" in note for note in result.notes)


def test_several_blockings_compare_what_either_would():
    frame = people(40).with_columns(
        a=pl.Series([i % 4 for i in range(40)]), b=pl.Series([i % 3 for i in range(40)])
    )
    masked = noisy(frame).with_columns(a=pl.Series([i // 10 for i in range(40)]))  # spoilt: 10 agree
    both = sf.Linkage(known=["x0", "x1", "x2"], block_on=[["a"], ["b"]]).measure(frame, masked)
    one = sf.Linkage(known=["x0", "x1", "x2"], block_on=["b"]).measure(frame, masked)
    only = sf.Linkage(known=["x0", "x1", "x2"], block_on=["a"]).measure(frame, masked)
    assert both.rate >= 0.95 * one.rate
    assert only.rate <= 0.25
    assert len(set(both.links["masked"])) == both.links.height


def test_different_row_counts_need_the_true_links():
    frame = people(30).with_columns(id=pl.Series(range(30)))
    part = noisy(frame).sample(20, seed=1, shuffle=True)
    with pytest.raises(MeasureError, match="truth"):
        sf.Linkage(known=["x0", "x1"]).measure(frame, part)
    for one, two in ((frame, part), (part, frame)):
        result = sf.Linkage(known=["x0", "x1", "x2"], truth="id").measure(one, two)
        assert result.attacked == 20
        assert result.linked == 20
        assert result.rate > 0.8
        found = result.links.filter("correct")
        assert (one["id"].gather(found["original"]) == two["id"].gather(found["masked"])).all()


def test_different_row_counts_are_linked_as_far_as_possible():
    frame = people(80).with_columns(b=pl.Series(range(80)) % 5)
    masked = noisy(frame)
    for one, two in ((frame, masked.head(60)), (frame.head(60), masked)):
        result = sf.Linkage(known=["x0", "x1", "x2"]).measure(one, two)
        assert result.attacked == result.linked == 60
        assert result.rate > 0.9
    assert any("20 records" in n for n in sf.Linkage(known=["x0"]).measure(frame, masked.head(60)).notes)
    # By the schema's id where there is one, in any order.
    marked = sf.Microdata(frame.with_columns(ID=pl.Series(range(80))), sf.Schema(id="ID"))
    part = sf.Microdata(noisy(marked.frame).sample(60, seed=1, shuffle=True), marked.schema)
    assert sf.Linkage(known=["x0", "x1", "x2"]).measure(marked, part).rate > 0.9


def test_an_id_that_is_not_unique_cannot_be_the_truth():
    frame = people(5).with_columns(id=pl.Series([1, 1, 2, 3, 4]))
    with pytest.raises(MeasureError, match="unique"):
        sf.Linkage(known=["x0"], truth="id").measure(frame, frame)


def test_an_outside_file_with_known_truth(reference_data):
    old, new = (
        pl.read_csv(reference_data / "ahs" / f"ahs_national_{year}.csv", infer_schema_length=None)
        .drop_nulls(["MARKETVAL", "HINCP", "TOTHCAMT"])
        .filter(pl.col("CONTROL") // 100 % 12 == 0)
        for year in (1989, 1991)
    )
    result = sf.Linkage(
        known=["MARKETVAL", "HINCP", "TOTHCAMT"], block_on=["TENURE"], truth="CONTROL"
    ).measure(old, new)
    shared = old.join(new, on="CONTROL").height
    assert result.attacked == shared
    # Amounts that changed over two years still tell people apart better than chance does.
    assert result.rate > 3 * result.baseline


def test_missing_values_carry_no_weight():
    frame = people(30)
    holes = frame.with_columns(x1=pl.when(pl.int_range(30) % 2 == 0).then(None).otherwise(pl.col("x1")))
    result = sf.Linkage(known=["x0", "x1"], weights={"x0": [1, -1], "x1": [1, -9]}).measure(holes, holes)
    halves = result.links.filter(pl.col("correct")).with_columns(even=pl.col("original") % 2 == 0)
    assert set(halves.filter("even")["weight"].round(9)) == {1.0}
    assert set(halves.filter(~pl.col("even"))["weight"].round(9)) == {2.0}


def test_missing_codes_are_missing():
    schema = sf.Schema(variables={"x0": {"missing": [-9]}})
    data = sf.Microdata(pl.DataFrame({"x0": [-9, -9, 5], "x1": [1, 2, 3]}), schema)
    result = sf.Linkage(known=["x0", "x1"]).measure(data, data)
    assert result.links.sort("original")["weight"].to_list() == [1.0, 1.0, 2.0]


def test_zeros_and_negatives_by_the_l_method_are_stated():
    frame = pl.DataFrame({"x": [0.0, -50.0, 50.0, 700.0]})
    masked = pl.DataFrame({"x": [0.0, -52.0, 49.0, -700.0]})
    result = sf.Linkage(known=["x"]).measure(frame, masked)
    assert any("zero or negative" in note for note in result.notes)
    weight = dict(result.links.filter("correct").select("original", "weight").iter_rows())
    assert weight[0] == 1.0
    assert 0.9 < weight[1] < 1.0
    assert weight[3] == 0.0


def test_categories_agree_or_not_and_rare_ones_weigh_more():
    frame = pl.DataFrame({"job": ["a"] * 17 + ["b", "b", "c"], "x": [1.0] * 20})
    plain = sf.Linkage(known=["job", "x"]).measure(frame, frame)
    assert set(plain.links["weight"].round(9)) == {2.0}
    rare = sf.Linkage(known=["job", "x"], frequency=True).measure(frame, frame)
    weight = dict(rare.links.select("original", "weight").iter_rows())
    # u = Σ f² = (17² + 2² + 1) / 400; the surplus is ln(u/f) in units of −ln u.
    u = (17**2 + 4 + 1) / 400
    assert weight[19] == pytest.approx(2 + np.log(u / 0.05) / -np.log(u))
    assert weight[19] > weight[17] > weight[0]


def test_without_one_to_one_ties_are_shared():
    frame = pl.DataFrame({"x": [5.0] * 4 + [9.0]})
    result = sf.Linkage(known=["x"], metric="d", one_to_one=False).measure(frame, frame)
    assert result.rate == pytest.approx((4 * 0.25 + 1) / 5)


def test_given_weights_must_fit():
    frame = people(5)
    with pytest.raises(ParameterError, match="x9"):
        sf.Linkage(known=["x0"], weights={"x0": 1, "x9": 1}).measure(frame, frame)
    with pytest.raises(ParameterError, match="leaves out x1"):
        sf.Linkage(known=["x0", "x1"], weights={"x0": 1}).measure(frame, frame)
    with pytest.raises(ParameterError, match="more where it agrees"):
        sf.Linkage(known=["x0"], weights={"x0": [1, 2]})
    with pytest.raises(ParameterError, match="weights"):
        sf.Linkage(known=["x0"], weights="best")


def test_a_variable_that_always_agrees_changes_nothing():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 12, (200, 6))
    Z = np.where(rng.random(X.shape) < 0.9, X, rng.integers(0, 12, X.shape))
    names = [f"c{j}" for j in range(6)]
    frame, masked = (pl.DataFrame(a.astype(str), schema=names).with_columns(same=pl.lit("z")) for a in (X, Z))
    with_it = sf.Linkage(known=frame.columns, weights="em").measure(frame, masked)
    without = sf.Linkage(known=names, weights="em").measure(frame, masked)
    assert with_it.em_used
    assert without.em_used
    assert any("same weighs nothing" in note for note in with_it.notes)
    assert with_it.links["weight"].to_numpy() == pytest.approx(without.links["weight"].to_numpy(), abs=1e-3)


def test_em_that_converges_gives_log_weights_and_decides():
    rng = np.random.default_rng(0)
    # Independent categories: the model holds, so EM must be trusted and find m and u.
    frame = pl.DataFrame({f"c{j}": rng.integers(0, 12, 400).astype(str) for j in range(7)})
    wrong = pl.DataFrame({c: rng.integers(0, 12, 400).astype(str) for c in frame.columns})
    keep = rng.random((400, 7)) < 0.9
    masked = pl.DataFrame(
        {c: [a if k else b for a, b, k in zip(frame[c], wrong[c], keep[:, j], strict=True)]
         for j, c in enumerate(frame.columns)}
    )  # fmt: skip
    result = sf.Linkage(known=frame.columns, weights="em").measure(frame, masked)
    assert result.em_used
    # A kept value agrees; a replaced one does by chance: m = 0.9 + 0.1 / 12.
    for m, u in zip(result.em_m.values(), result.em_u.values(), strict=True):
        assert m == pytest.approx(0.9083, abs=5 * np.sqrt(0.09 / 400))
        assert u == pytest.approx(1 / 12, abs=0.01)
    assert result.rate > 0.95
    assert result.links_declared_right >= 0.99 * result.links_declared
    assert result.upper_threshold >= result.lower_threshold


def test_em_that_drifts_is_said_and_equal_weights_are_used(reference_data):
    data = pl.read_csv(reference_data / "CASCrefmicrodata.csv").cast(pl.Float64)
    masked = pl.DataFrame(
        twins.rank_swap(data.to_numpy(), 0.15, np.random.default_rng(1)), schema=data.columns
    )
    free = sf.Linkage(known=data.columns, weights="em", em_share="free", em_random_pairs=False)
    result = free.measure(data, masked)
    equal = sf.Linkage(known=data.columns).measure(data, masked)
    assert not result.em_used
    assert result.em_drift > 100  # FORMULAS: 200-900 "matches" a record
    assert any("drifted" in note and "equal weights" in note for note in result.notes)
    assert result.rate == equal.rate


def test_em_that_does_not_converge_is_said_and_not_used():
    frame = people(60)
    masked = noisy(frame, 0.2)
    result = sf.Linkage(known=frame.columns, weights="em", em_iterations=1).measure(frame, masked)
    assert not result.em_used
    assert not result.em_converged
    assert any("didn't converge in 1 steps" in note for note in result.notes)
    assert result.rate == sf.Linkage(known=frame.columns).measure(frame, masked).rate


def test_em_on_blocks_of_one_has_nothing_to_tell_apart():
    frame = people(6).with_columns(b=pl.Series(range(6)))
    result = sf.Linkage(known=["x0"], block_on=["b"], weights="em").measure(frame, frame)
    assert result.rate == 1
    assert any("nothing to tell apart" in note for note in result.notes)


def test_constant_columns_leave_chance():
    frame = pl.DataFrame({"x": [3.0] * 50})
    rates = [sf.Linkage(known=["x"]).measure(frame, frame, seed=s).rate for s in range(30)]
    # Fixed points of a random permutation: mean 1/50 each; 5 standard errors over 30 draws.
    assert np.mean(rates) < (1 + 5 / np.sqrt(30)) / 50


def test_a_large_block_takes_the_sparse_way_in_little_memory():
    import tracemalloc

    rng = np.random.default_rng(3)
    n = 50_000
    # One strong key keeps the candidates apart; a dense matrix would take 1.6 GB (20 with all known).
    frame = pl.DataFrame({"x": rng.permutation(n) + 1.0, "y": rng.lognormal(9, 1, n), "id": range(n)})
    known = frame.sample(4_000, seed=1)
    tracemalloc.start()
    attack = sf.Linkage(known=["x", "y"], metric="d", agreement_tolerance=0.01, candidates=4, truth="id")
    result = attack.measure(known, frame)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.rate > 0.999
    assert result.largest_block == n
    assert any("large blocks" in note for note in result.notes)
    assert peak < 100e6


def test_nothing_known_is_an_error():
    frame = pl.DataFrame({"job": ["a", "b"]})
    with pytest.raises(MeasureError, match="known"):
        sf.Linkage().measure(frame, frame)
