"""Unsafe combinations of all key sets from the cells, against counting the records of each set."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells import CellTable, combinations_up_to
from sfumato.cells import marginals as module
from sfumato.cells.marginals import marginals
from sfumato.kernels.marginals import counted, judged, least_of, packed_codes, sliced, summed_over, widened


def slow(rows: list[tuple[object, ...]], names: list[str], key_sets: list[tuple[str, ...]], tolerance: int):
    """By hand: (combinations, unsafe, unsafe records, least) of each set; the records unsafe somewhere."""
    out, bad = [], set()
    for one in key_sets:
        at = [names.index(k) for k in one]
        parts = [tuple(row[j] for j in at) for row in rows]
        counts = Counter(parts)
        few = {c for c, n in counts.items() if n < tolerance}
        out.append((len(counts), len(few), sum(counts[c] for c in few), min(counts.values())))
        bad |= {i for i, c in enumerate(parts) if c in few}
    return out, len(bad)


@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 4), min_size=1, max_size=60),
    st.integers(2, 6),
    st.integers(1, 4),
    st.booleans(),
)
def test_every_key_set_as_counted_by_hand(rows, tolerance, dimension, recoded) -> None:
    names = ["A", "B", "C", "D"]
    data = sf.Microdata(pl.DataFrame(rows, schema=names, orient="row"))
    table = CellTable.of(data, names)
    classes = {"B": pl.Series([str(v // 2) for v in table.levels["B"].to_list()])} if recoded else {}
    seen = [(a, b // 2 if recoded else b, c, d) for a, b, c, d in rows]
    key_sets = combinations_up_to(names, dimension)
    wanted, unsafe = slow(seen, names, key_sets, tolerance)
    found = marginals(table, classes, tolerance, key_sets, (2, 3, 9))
    got = list(
        zip(
            found.combinations.tolist(),
            found.unsafe_combinations.tolist(),
            found.unsafe_records.tolist(),
            found.smallest.tolist(),
            strict=True,
        )
    )
    assert got == wanted
    assert found.records_unsafe == unsafe
    assert found.unsafe_at == {t: slow(seen, names, key_sets, t)[1] for t in (2, 3, 9, tolerance)}
    assert found.levels["B"] == len({row[1] for row in seen})
    shares = np.array(list(Counter(row[1] for row in seen).values())) / len(seen)
    assert found.entropy["B"] == pytest.approx(float(-(shares * np.log2(shares)).sum()), abs=1e-12)


def test_tables_too_large_to_be_held_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    r = np.random.default_rng(3)
    rows = [tuple(row) for row in r.integers(0, 6, (300, 4)).tolist()]
    names = ["A", "B", "C", "D"]
    table = CellTable.of(sf.Microdata(pl.DataFrame(rows, schema=names, orient="row")), names)
    key_sets = combinations_up_to(names, 4)
    wanted, unsafe = slow(rows, names, key_sets, 3)
    monkeypatch.setattr(module, "DENSE", 40)
    found = marginals(table, {}, 3, key_sets)
    assert found.unsafe_records.tolist() == [w[2] for w in wanted]
    assert found.records_unsafe == unsafe


def slow_wild(
    rows: list[tuple[object, ...]], names: list[str], key_sets: list[tuple[str, ...]], tolerance: int
):
    """As :func:`slow`, where a missing value agrees with every other: pair by pair."""
    out, bad = [], set()
    for one in key_sets:
        at = [names.index(k) for k in one]
        parts = [tuple(row[j] for j in at) for row in rows]

        def agree(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
            return all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))

        with_it = [sum(agree(a, b) for b in parts) for a in parts]
        few = [i for i, n in enumerate(with_it) if n < tolerance]
        out.append((len(set(parts)), len({parts[i] for i in few}), len(few), min(with_it)))
        bad |= set(few)
    return out, len(bad)


@pytest.mark.parametrize("dense", [None, 6])
@given(
    st.lists(st.tuples(*[st.none() | st.integers(0, 3)] * 3, st.integers(0, 2)), min_size=1, max_size=40),
    st.integers(2, 6),
    st.integers(1, 4),
    st.sampled_from(["as it is", "joined", "blanked"]),
)
def test_a_missing_value_matches_anything(dense, rows, tolerance, dimension, recoded) -> None:
    """Also where a recode makes values missing, and where tables are too large to be held whole."""
    names = ["A", "B", "C", "D"]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
    table = CellTable.of(sf.Microdata(frame), names)
    to = {"as it is": lambda v: v, "joined": lambda v: v // 2, "blanked": lambda v: None if v == 1 else v}
    classes = {}
    if recoded != "as it is":
        found = [to[recoded](v) for v in table.levels["D"].to_list()]
        classes = {"D": pl.Series([None if v is None else str(v) for v in found], dtype=pl.String)}
    seen = [(a, b, c, to[recoded](d)) for a, b, c, d in rows]
    key_sets = combinations_up_to(names, dimension)
    wanted, unsafe = slow_wild(seen, names, key_sets, tolerance)
    with pytest.MonkeyPatch.context() as patch:
        if dense is not None:
            patch.setattr(module, "DENSE", dense)
        found = marginals(table, classes, tolerance, key_sets, (2, 9))
    figures = (found.combinations, found.unsafe_combinations, found.unsafe_records, found.smallest)
    assert list(zip(*(f.tolist() for f in figures), strict=True)) == wanted
    assert found.records_unsafe == unsafe
    assert found.unsafe_at == {t: slow_wild(seen, names, key_sets, t)[1] for t in (2, 9, tolerance)}
    assert found.levels["D"] == len({row[3] for row in seen} - {None})


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(0, 40))
def test_the_kernels_and_their_twins(high: int, size: int, low: int, records: int) -> None:
    r = np.random.default_rng(high * 100 + size * 10 + low)
    codes = np.stack([r.integers(0, n, max(records, 1)) for n in (high, size, low)]).astype(np.uint16)
    counts = r.integers(1, 5, codes.shape[1])
    remaps = np.tile(np.arange(5, dtype=np.int32), (3, 1))
    packed = packed_codes(codes, np.arange(3), np.array([size * low, low, 1]), remaps)
    assert packed.tolist() == [(a * size + b) * low + c for a, b, c in codes.T.astype(int).tolist()]
    table = counted(packed, counts, high * size * low)
    cube = np.zeros((high, size, low), int)
    np.add.at(cube, tuple(codes.astype(int)), counts)
    assert table.tolist() == cube.ravel().tolist()
    assert summed_over(table, high, size, low).tolist() == cube.sum(axis=1).ravel().tolist()
    held = [n for n in cube.ravel().tolist() if n]
    few = [n for n in held if n < 4]
    assert judged(table, table, 4) == (len(held), len(few), sum(few), min(held))
    least = np.full(len(packed), 7, np.int32)
    least_of(packed, table, least)
    assert least.tolist() == [min(cube.ravel()[p], 7) for p in packed.tolist()]
    for gone in range(size):
        assert sliced(table, high, size, low, gone).tolist() == cube[:, gone].ravel().tolist()
        wide = cube + cube[:, [gone]]
        wide[:, gone] = cube.sum(axis=1)
        assert widened(table, high, size, low, gone).tolist() == wide.ravel().tolist()


def test_a_set_in_a_larger_set_is_never_more_unsafe() -> None:
    r = np.random.default_rng(5)
    data = sf.Microdata(pl.DataFrame({k: r.integers(0, 7, 500) for k in "ABCD"}))
    key_sets = combinations_up_to(list("ABCD"), 4)
    found = marginals(CellTable.of(data, list("ABCD")), {}, 3, key_sets)
    at = {frozenset(s): k for k, s in enumerate(key_sets)}
    for one, two in itertools.permutations(at, 2):
        if one < two:
            assert found.unsafe_records[at[one]] <= found.unsafe_records[at[two]]
