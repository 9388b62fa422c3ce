"""LocalSuppress: never an unsafe combination left, no more suppressions than needed, importance kept."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells import sharing, suppression
from sfumato.draws import Seed
from sfumato.kernels.suppress import hit_all
from sfumato.masks.suppress import LocalSuppress, NoUnsafeCombination, OnlySuppressed

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import argus_demo
import key_combinations as twin

NAMES = ["a", "b", "c", "d"]
RSA = [["Region"], ["Region", "Sex"], ["Region", "Age"], ["Region", "Sex", "Age"]]
SEVEN = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]


def carry_out(mask, data):
    masked, notes, _ = mask.carry_out(data, Seed.from_int(1).draws("step"))
    return masked, notes


@st.composite
def tables(draw):
    keys, n = draw(st.integers(1, 4)), draw(st.integers(4, 14))
    value = st.one_of(st.none(), st.integers(0, 2)) if draw(st.booleans()) else st.integers(0, 3)
    return draw(st.lists(st.tuples(*[value] * keys), min_size=n, max_size=n))


def microdata(rows):
    names = NAMES[: len(rows[0])]
    return sf.Microdata(pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row"))


def suppressed(before, after):
    """(record, key position) of every value that became missing; every other value must be the same."""
    out = []
    for i, (one, two) in enumerate(zip(before.frame.rows(), after.frame.rows(), strict=True)):
        for j, (x, y) in enumerate(zip(one, two, strict=True)):
            if x != y:
                assert y is None
                out.append((i, j))
    return out


# -- the kernel -------------------------------------------------------------------------------------


def test_branch_and_bound_equals_brute_force():
    rng = np.random.default_rng(4)
    for _ in range(200):
        keys, many = int(rng.integers(1, 7)), int(rng.integers(1, 10))
        masks = rng.integers(1, 2**keys, many).astype(np.int64)
        weights = rng.random(keys) + 0.2
        heads, links = np.array([many - 1]), np.arange(-1, many - 1)

        def cost(c, w=weights, k=keys):
            return sum(w[j] for j in range(k) if c >> j & 1)

        hitting = [c for c in range(2**keys) if all(c & m for m in masks.tolist())]
        got = int(hit_all(np.array([0]), heads, links, masks, weights, True)[0])
        assert got in hitting
        assert cost(got) == pytest.approx(min(cost(c) for c in hitting))
        assert int(hit_all(np.array([0]), heads, links, masks, weights, False)[0]) in hitting


# -- safe, and least ----------------------------------------------------------------------------------


@given(
    tables(),
    st.integers(2, 4),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from(["optimal", "greedy"]),
    st.sampled_from(["matches_anything", "category"]),
)
def test_nothing_unsafe_is_left_by_a_pairwise_count(rows, tolerance, dimension, method, missing):
    data = microdata(rows)
    mask = LocalSuppress(
        keys=data.columns, tolerance=tolerance, max_dimension=dimension, method=method, missing=missing
    )
    masked, notes = carry_out(mask, data)
    k = len(data.columns)
    sizes = range(1, min(dimension, k) + 1) if dimension else [k]
    sets = [c for d in sizes for c in itertools.combinations(range(k), d)]
    after = masked.frame.rows()
    assert twin.unsafe(after, sets, tolerance, missing) == [[]] * len(rows)
    gone = suppressed(data, masked)
    assert notes.figures["total_suppressions"] == len(gone)
    if missing == "matches_anything":
        unsafe = [bool(b) for b in twin.unsafe(rows, sets, tolerance, missing)]
        touched = {i for i, _ in gone}
        assert touched == {i for i, bad in enumerate(unsafe) if bad}  # every unsafe record, no safe one


@given(tables(), st.integers(2, 3), st.sampled_from([None, 2, 3]), st.booleans())
def test_the_optimum_of_each_record_equals_brute_force(rows, tolerance, dimension, weighted):
    data = microdata(rows)
    k = len(data.columns)
    weights = [3.0, 1.0, 2.0, 1.5][:k] if weighted else [1.0] * k
    mask = LocalSuppress(
        keys=data.columns,
        tolerance=tolerance,
        max_dimension=dimension,
        importance=dict(zip(data.columns, weights, strict=True)) if weighted else (),
        share=None if dimension else False,
    )
    masked, notes = carry_out(mask, data)
    top = min(dimension or k, k)
    least = top if dimension is None else 1
    sets = [c for d in range(least, top + 1) for c in itertools.combinations(range(k), d)]
    want = twin.fewest_per_record(rows, sets, tolerance, weights)
    assert sum(weights[j] for _, j in suppressed(data, masked)) == pytest.approx(want)
    assert notes.figures["proven_optimal"]


@given(tables(), st.integers(2, 4))
def test_sharing_never_costs_more_than_each_record_by_itself(rows, tolerance):
    data = microdata(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "TINY_RECORDS", 0)  # the way of larger files
        quick, _ = carry_out(LocalSuppress(keys=data.columns, tolerance=tolerance), data)
    shared, _ = carry_out(LocalSuppress(keys=data.columns, tolerance=tolerance), data)
    alone, _ = carry_out(LocalSuppress(keys=data.columns, tolerance=tolerance, share=False), data)
    counts = [len(suppressed(data, one)) for one in (shared, quick, alone)]
    assert counts == sorted(counts)


@given(st.data(), st.integers(2, 3), st.booleans())
def test_sharing_equals_brute_force_on_small_tables(draw, tolerance, weighted):
    value = st.one_of(st.none(), st.integers(0, 1)) if draw.draw(st.booleans()) else st.integers(0, 2)
    rows = draw.draw(st.lists(st.tuples(value, value, value), min_size=3, max_size=5))
    weights = [2.0, 1.0, 1.7] if weighted else [1.0, 1.0, 1.0]
    data = microdata(rows)
    importance = dict(zip("abc", weights, strict=True)) if weighted else ()
    masked, notes = carry_out(
        LocalSuppress(keys=["a", "b", "c"], tolerance=tolerance, importance=importance), data
    )
    cost = sum(weights[j] for _, j in suppressed(data, masked))
    assert cost == pytest.approx(twin.fewest_together(rows, tolerance, weights))
    assert notes.figures["proven_optimal"]


# -- published figures ------------------------------------------------------------------------------


def test_no_more_than_mu_argus_needs_on_demodata(reference_data):
    data = argus_demo.demodata(reference_data)
    recoded = data.with_columns({"Age": pl.Series(argus_demo.age_classes(data.frame["Age"].to_list()))})
    for file, published in ((data, 103 + 405 + 3262), (recoded, 18 + 1146 + 883)):
        _, notes = carry_out(LocalSuppress(key_sets=RSA, tolerance=4), file)
        assert notes.figures["total_suppressions"] <= published
        # One value each is the least that any method can do.
        assert notes.figures["total_suppressions"] == notes.figures["unsafe_records_before"]


def test_no_more_than_sdcmicro_needs(reference_data):
    francdat = sf.Microdata(pl.read_csv(reference_data / "francdat.csv"))
    mask = LocalSuppress(keys=["Key1", "Key2", "Key3", "Key4"], tolerance=2)
    masked, notes = carry_out(mask, francdat)
    assert notes.figures["total_suppressions"] <= 4
    anonymity = sf.measure(masked, sf.KAnonymity(k=2, keys=mask.keys))[0]
    assert (anonymity.value, anonymity.achieved) == (0, 2)
    testdata2 = sf.Microdata(pl.read_csv(reference_data / "testdata2.csv", null_values="NA"))
    _, notes = carry_out(LocalSuppress(keys=SEVEN, tolerance=2), testdata2)
    assert notes.figures["total_suppressions"] <= 97


def test_a_wide_key_set_is_safe_too(reference_data, monkeypatch):
    data = sf.Microdata(pl.read_csv(reference_data / "testdata2.csv", null_values="NA"))
    _, narrow = carry_out(LocalSuppress(keys=SEVEN, tolerance=2, share=False), data)
    _, three = carry_out(LocalSuppress(keys=SEVEN, tolerance=3, share=False), data)
    monkeypatch.setattr(suppression, "WIDE", 1)
    _, wide = carry_out(LocalSuppress(keys=SEVEN, tolerance=2, share=False), data)
    assert wide.figures["total_suppressions"] == narrow.figures["total_suppressions"]
    _, more = carry_out(LocalSuppress(keys=SEVEN, tolerance=3, share=False), data)
    assert more.figures["total_suppressions"] >= three.figures["total_suppressions"]
    monkeypatch.setattr(suppression, "MAX_COMPARISONS", 10)
    with pytest.raises(sf.SfumatoError, match="too large to suppress as one"):
        LocalSuppress(keys=SEVEN, tolerance=2, share=False).mask(data)


# -- importance, households, notes ------------------------------------------------------------------


@pytest.mark.parametrize("last", ["a", "b", "c"])
def test_the_least_important_key_goes(last):
    # Record 4 is unique in a × b × c and in no pair: any one key will do.
    rows = [(0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 0)] + [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    data = microdata(rows)
    order = [k for k in ("a", "b", "c") if k != last] + [last]
    masked, _ = carry_out(LocalSuppress(keys=["a", "b", "c"], tolerance=2, importance=order), data)
    assert suppressed(data, masked) == [(3, "abc".index(last))]
    weights = {k: 1.0 if k == last else 5.0 for k in "abc"}
    masked, _ = carry_out(LocalSuppress(keys=["a", "b", "c"], tolerance=2, importance=weights), data)
    assert suppressed(data, masked) == [(3, "abc".index(last))]


def test_weights_may_prefer_two_cheap_keys_to_a_dear_one():
    rows = [(0, 0, 0)] * 3 + [(0, 1, 1)] + [(2, 1, 1)] * 2
    data = microdata(rows)
    few, _ = carry_out(LocalSuppress(keys=["a", "b", "c"], tolerance=2), data)
    assert suppressed(data, few) == [(3, 0)]
    weights = {"a": 10.0, "b": 1.0, "c": 1.0}
    cheap, _ = carry_out(LocalSuppress(keys=["a", "b", "c"], tolerance=2, importance=weights), data)
    assert suppressed(data, cheap) == [(3, 1), (3, 2)]


@pytest.mark.parametrize("missing", ["matches_anything", "category"])
def test_what_one_member_loses_the_household_loses(missing):
    rng = np.random.default_rng(2)
    frame = pl.DataFrame(
        {
            "a": rng.integers(0, 3, 60),
            "b": rng.geometric(0.4, 60),
            "h": np.repeat(np.arange(20), 3),
        }
    )
    mask = LocalSuppress(keys=["a", "b"], tolerance=3, household="h", missing=missing)
    masked, notes = carry_out(mask, sf.Microdata(frame))
    assert notes.figures["total_suppressions"] > 0
    gone = (
        masked.frame.with_columns(pl.col("a", "b").is_null()).group_by("h").agg(pl.col("a", "b").n_unique())
    )
    assert set(gone["a"]) == set(gone["b"]) == {1}
    assert masked.frame["h"].equals(frame["h"])


def test_types_codes_and_log():
    frame = pl.DataFrame(
        {
            "text": ["x", "x", "x", "y"],
            "day": pl.Series([1, 1, 1, 1]).cast(pl.Date),
            "size": pl.Series([5, 5, 5, 9], dtype=pl.UInt8),
            "other": [1, 2, 3, 4],
        }
    )
    data = sf.Microdata(frame, {"variables": {"size": {"missing": [9]}}})
    masked, notes = carry_out(LocalSuppress(keys=["text", "day", "size"], tolerance=2), data)
    assert masked.frame.schema == frame.schema
    assert masked.frame["size"].to_list() == [5, 5, 5, 9]  # missing already: left alone
    assert masked.frame["text"].to_list() == ["x", "x", "x", None]
    assert notes.log.rows() == [(3, "text")]
    assert notes.figures["suppressions"] == {"text": 1, "day": 0, "size": 0}
    assert any("25% of the records" in w for w in notes.warnings)


def test_guarantees_see_what_is_wrong():
    before = sf.Microdata(pl.DataFrame({"a": [1, 1, 2, 2, 3]}))
    promise = NoUnsafeCombination(("a",), (("a",),), 2, "matches_anything")
    assert promise.failure(before, before) == "1 records are still unsafe"
    after = before.with_columns({"a": pl.Series([1, 1, 2, 2, None])})
    assert promise.failure(before, after) is None
    assert NoUnsafeCombination(("a",), (("a",),), 2, "category").failure(before, after) is not None
    assert OnlySuppressed(("a",)).failure(before, after) is None
    moved = before.with_columns({"a": pl.Series([1, 1, 2, 2, 2])})
    assert OnlySuppressed(("a",)).failure(before, moved) == "a has another value in 1 record"


# -- bad input --------------------------------------------------------------------------------------


def test_bad_parameters_are_told():
    data = sf.Microdata(
        pl.DataFrame({"a": [1, 2, 3], "b": [1, 1, 1], "i": [1, 2, 3]}), sf.Schema(keys=["a", "b"])
    )
    for tolerance in (0, 1):
        with pytest.raises(sf.SfumatoError, match="must be at least 2"):
            LocalSuppress(keys=["a"], tolerance=tolerance)
    with pytest.raises(sf.SfumatoError, match="fewer than the tolerance of 4"):
        LocalSuppress(tolerance=4).mask(data)
    with pytest.raises(sf.SfumatoError, match="fewer than the tolerance of 4"):
        LocalSuppress(tolerance=4, missing="category").mask(data)
    with pytest.raises(sf.SfumatoError, match="names 'i', which isn't a key"):
        LocalSuppress(key_sets=[["a", "i"]]).mask(data)
    with pytest.raises(sf.SfumatoError, match="names 'i', which isn't one of the keys"):
        LocalSuppress(importance=["i", "a"]).mask(data)
    with pytest.raises(sf.SfumatoError, match="names a twice"):
        LocalSuppress(importance=["a", "a"])
    with pytest.raises(sf.SfumatoError, match="must be above 0"):
        LocalSuppress(importance={"a": -1.0})
    with pytest.raises(sf.SfumatoError, match="needs one key set"):
        LocalSuppress(share=True, max_dimension=2)
    with pytest.raises(sf.SfumatoError, match="goes with method"):
        LocalSuppress(share=True, method="greedy")


def test_all_records_unsafe_are_suppressed_and_said():
    data = sf.Microdata(pl.DataFrame({"a": [1, 2, 3, 4], "one": [7, 7, 7, 7]}))
    masked, notes = carry_out(LocalSuppress(keys=["a", "one"], tolerance=3), data)
    assert masked.frame["a"].null_count() == 4
    assert masked.frame["one"].null_count() == 0
    assert any("100% of the records" in w for w in notes.warnings)


def test_records_without_a_household_lose_nothing_for_each_other():
    frame = pl.DataFrame({"h": [None] * 6 + [1, 1], "a": [1, 1, 1, 1, 1, 2, 1, 1], "b": [1] * 8})
    masked = LocalSuppress(keys=["a", "b"], tolerance=2, household="h").mask(frame).frame
    assert masked["a"].to_list() == [1, 1, 1, 1, 1, None, 1, 1]
