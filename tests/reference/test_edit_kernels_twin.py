"""The edits' kernels against slow, obvious twins."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.kernels import edits
from sfumato.masks.edits import classes as _classes
from sfumato.masks.edits.key_order import key_classes, max_within_sd, near_optimal
from sfumato.masks.edits.partners import find_partners
from sfumato.utility.bias import bias_of_means


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 5), max_size=300))
def test_distinct_numbers_equal_values_alike(values: list[int]):
    ids, found = edits.distinct(np.array(values, dtype=np.int64))
    assert found[ids].tolist() == values
    assert len(set(found.tolist())) == len(found)
    assert found.tolist() == list(dict.fromkeys(values))


def test_distinct_survives_many_values():
    order = np.random.default_rng(3).permutation(100_000).astype(np.int64)
    # Multiples of a power of two too: what the codes of many keys look like.
    for values in (order * 7_919, order << 40, -order << 31):
        ids, found = edits.distinct(values)
        assert len(found) == 100_000
        assert (found[ids] == values).all()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60))
def test_by_class_lists_the_members_of_each_class(ids: list[int]):
    starts, members = edits.by_class(np.array(ids, dtype=np.int64), 7)
    for c in range(7):
        assert members[starts[c] : starts[c + 1]].tolist() == [i for i, v in enumerate(ids) if v == c]


VALUES: dict[str, list[Any]] = {
    "int": [3, 1, None, 2, 1],
    "text": ["b", None, "a", "b", "c"],
    "float": [1.5, float("nan"), None, -1.0, 1.5],
    "flag": [True, None, False, True, True],
    "wide": [10**12, 1, -(10**12), None, 1],
    "low": [-(2**63), 1 - 2**63, None, -(2**63), 2 - 2**63],
}


@pytest.mark.parametrize(
    "columns", [["int"], ["text"], ["float"], ["flag"], ["wide"], list(VALUES), ["wide", "text"]]
)
def test_classes_are_those_of_microdata(columns: list[str]):
    data = sf.Microdata(pl.DataFrame({k: v * 7 for k, v in VALUES.items()}))
    code, k = _classes.classes(data, columns)
    twin, n = data.codes(columns)
    assert k == n
    assert code.tolist() == twin.tolist()


def twin_pairs(
    sequence: list[int], ids: list[int], counts: list[int], members: list[list[int]], offset: list[int],
    kept: list[bool], area: list[int], likeness: np.ndarray[Any, Any], window: int, reach: int,
) -> dict[int, int]:  # fmt: skip
    """Section VIII in plain words: the untouched class below tolerance swaps with what follows."""
    touched: set[int] = set()
    out: dict[int, int] = {}

    def candidates(place: int, step: int, c: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for q in range(1, reach + 1):
            at = place + step * q
            if not 0 <= at < len(sequence) or len(found) >= window:
                break
            d = sequence[at]
            if d in touched:
                continue
            listed = members[d][offset[d] :] + members[d][: offset[d]]
            mine = members[c][offset[c] :] + members[c][: offset[c]]
            for b in listed[: window + reach]:
                a = next((a for a in mine if area[a] != area[b] and min(area[a], area[b]) >= 0), None)
                if a is not None and len(found) < window:
                    found.append((a, b))
        return found

    for place, c in enumerate(sequence):
        if not kept[c] or c in touched:
            continue
        found = candidates(place, 1, c) or candidates(place, -1, c)
        if not found:
            continue
        gap = [0.0 if window == 1 else float(np.mean((likeness[a] - likeness[b]) ** 2)) for a, b in found]
        a, b = found[int(np.argmin(gap))]
        out[a], out[b] = b, a
        touched |= {c, ids[b]}
    return out


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 2), st.integers(0, 9)), min_size=1, max_size=40),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([1, 3, 64]),
    st.integers(0, 3),
)
def test_neighbour_pairs_follow_section_viii(
    records: list[tuple[int, int, int]], window: int, reach: int, turn: int
):
    key = np.array([r[0] for r in records])
    area = np.array([r[1] for r in records], dtype=np.int64)
    likeness = np.array([[float(r[2])] for r in records])
    ids, k = _classes.dense(key.astype(np.int64))
    starts, members = edits.by_class(ids, k)
    counts = np.diff(starts)
    offset = np.full(k, turn) % counts
    kept = counts < 3
    sequence = np.arange(k)
    partner, via = np.full(len(key), -1), np.full(len(key), -1)
    zeros = np.zeros(k, np.int64)
    left = edits.neighbour_pairs(
        sequence, ids, zeros, counts, starts, members, offset, kept, edits.GEOGRAPHY, area, np.zeros((0, 0)),
        np.zeros((k, 1), np.int64), zeros - 1, likeness, window, reach, partner, via,
    )  # fmt: skip
    by = [members[starts[c] : starts[c + 1]].tolist() for c in range(k)]
    twin = twin_pairs(
        sequence.tolist(), ids.tolist(), counts.tolist(), by, offset.tolist(), kept.tolist(), area.tolist(),
        likeness, window, reach,
    )  # fmt: skip
    assert {i: int(p) for i, p in enumerate(partner) if p >= 0} == twin
    touched = {int(ids[i]) for i in twin}
    assert set(left.tolist()) >= {c for c in range(k) if kept[c]} - touched


def scan(keys: list[int], tolerance: int) -> list[tuple[int, int]]:
    """Section VIII, step 3, word for word: a counter over the sorted records; the places that swap."""
    out, count = [], 0
    for i, key in enumerate(keys):
        if i == 0 or key == keys[i - 1]:
            count += 1
        elif count >= tolerance:
            count = 1
        else:
            out.append((i - 1, i))
            count = tolerance
    return out


@given(st.lists(st.integers(0, 30), min_size=2, max_size=60), st.integers(2, 4))
def test_classes_that_swap_are_those_of_the_printed_scan(keys: list[int], tolerance: int):
    """With an area of its own for every record, any neighbour may be the partner."""
    data = sf.Microdata(
        pl.DataFrame({"K": keys, "R": list(range(len(keys)))}), sf.Schema(keys=["K"], geography=["R"])
    )
    edit = sf.ConfidentialityEdit2000(tolerance=tolerance, order=["K"])
    _, notes, _ = edit.carry_out(data, sf.Seed.from_int(2).draws("x"))
    ours = {
        frozenset((keys[a], keys[int(b)]))
        for a, b, what in notes.log.select("record", "partner", "what").iter_rows()
        if what == "swapped"
    }
    ordered = sorted(keys)
    printed = {frozenset((ordered[i], ordered[j])) for i, j in scan(ordered, tolerance)}
    # The scan never looks at what comes after the last class: ours lets it turn back.
    assert printed <= ours
    assert all(max(pair) == max(keys) for pair in ours - printed)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=50
    ),
    st.sampled_from([0, 24]),
)
def test_partners_are_valid_and_nobody_who_could_be_matched_is_left(
    records: list[tuple[int, int, bool, bool]], tries: int
):
    bucket, area = (np.array([r[j] for r in records], dtype=np.int64) for j in (0, 1))
    seeks, free = (np.array([r[j] for r in records], dtype=np.bool_) for j in (2, 3))
    partner = np.full(len(records), -1, dtype=np.int64)
    seekers = np.flatnonzero(seeks)
    left = find_partners(seekers, bucket, 4, area, free, partner, np.random.default_rng(1), tries=tries)
    paired = np.flatnonzero(partner >= 0)
    assert (partner[partner[paired]] == paired).all()
    assert (bucket[paired] == bucket[partner[paired]]).all()
    assert (area[paired] != area[partner[paired]]).all()
    assert all(seeks[i] or seeks[partner[i]] for i in paired)
    assert all(free[partner[i]] or free[i] for i in paired)
    assert set(left.tolist()) == {int(i) for i in seekers if partner[i] < 0}
    for i in left:
        others = free & (partner < 0) & (bucket == bucket[i]) & (area != area[i])
        assert not others.any()


@given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(-50, 50)), min_size=4, max_size=40))
def test_squared_bias_is_that_of_the_measure(records: list[tuple[int, int | None]]):
    ids = np.array([r[0] for r in records], dtype=np.int64)
    x = np.array([np.nan if r[1] is None else r[1] for r in records], dtype=np.float64)
    order = np.random.default_rng(5).permutation(len(x))
    first, second = order[: len(x) // 4], order[len(x) // 4 : 2 * (len(x) // 4)]
    y = x.copy()
    y[first], y[second] = x[second], x[first]
    there = np.isfinite(x)
    if not there.any():
        return
    sums = np.bincount(ids[there], weights=x[there], minlength=5).astype(np.float64)
    sizes = np.bincount(ids[there], minlength=5).astype(np.float64)
    squares = edits.squared_bias(ids, 5, sums, sizes, first, second, x)
    after = np.bincount(ids[np.isfinite(y)], minlength=5)
    if not ((sizes > 0) & (after > 0)).any():
        assert squares == 0
        return
    bias, _, _ = bias_of_means(x, y, ids)
    assert np.sqrt(squares / there.sum()) == pytest.approx(bias, abs=1e-9)


def test_near_optimal_takes_the_smallest_largest_standard_deviation():
    rng = np.random.default_rng(8)
    frame = pl.DataFrame({k: rng.integers(0, 4, 400) for k in "ABC"}).with_columns(
        X=pl.Series(rng.lognormal(0, 1, 400))
    )
    data = sf.Microdata(frame)
    classes = key_classes(data, ["A", "B", "C"], [])
    x = data.numbers("X")
    order, steps = near_optimal(classes, x)

    def largest(keys: list[str]) -> float:
        return float(frame.group_by(keys).agg(pl.col("X").std())["X"].max())  # type: ignore[arg-type]

    assert {k: pytest.approx(largest([k])) for k in "ABC"} == steps[0]
    last = min("ABC", key=lambda k: largest([k]))
    assert order[-1] == last
    rest = [k for k in "ABC" if k != last]
    assert order[-2] == min(rest, key=lambda k: largest([last, k]))
    ones = np.bincount(classes.ids).astype(float)
    assert max_within_sd(classes, ["A"], (ones, ones * 0, ones * 0)) == 0


def test_draw_sample_takes_the_share_of_each_group():
    group = np.repeat([0, 1, 2], [10, 100, 3])
    starts, members = edits.by_class(group, 3)
    total = np.zeros(3)
    rng = np.random.default_rng(4)
    for _ in range(400):
        chosen = np.zeros(len(group), np.bool_)
        edits.draw_sample(starts, members.copy(), np.array([0.5, 0.015, 0.5]), rng, chosen)
        counts = np.bincount(group[chosen], minlength=3)
        assert counts[0] == 5
        assert counts[1] in (1, 2)
        assert counts[2] in (1, 2)
        total += counts
    # A half is rounded up or down at random: mean 1.5, standard error 0.025 (4 of them allowed).
    assert np.abs(total[1:] / 400 - 1.5).max() < 0.1


def test_permute_selected_is_uniform_over_the_permutations():
    starts, members = edits.by_class(np.zeros(4, np.int64), 1)
    chosen = np.array([True, False, True, True])
    rng = np.random.default_rng(6)
    seen: Counter[tuple[int, ...]] = Counter()
    n = 6_000
    for _ in range(n):
        source = np.arange(4)
        edits.permute_selected(starts, members, chosen, rng, source)
        assert source[1] == 1
        seen[tuple(source.tolist())] += 1
    assert len(seen) == 6
    # χ² with 5 degrees of freedom: 25.7 has probability 1e-4.
    assert sum((c - n / 6) ** 2 / (n / 6) for c in seen.values()) < 25.7
