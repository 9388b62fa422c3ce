"""Records brought to a safe table: they tabulate to it, and as few keys change as can be."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import InputError
from sfumato.tables import tabulate


def records(table: np.ndarray, **extra) -> sf.Microdata:
    places = np.unravel_index(np.repeat(np.arange(table.size), table.ravel()), table.shape)
    order = np.random.default_rng(0).permutation(len(places[0]))
    names = [f"K{a + 1}" for a in range(table.ndim)]
    frame = pl.DataFrame({name: np.asarray(p)[order] for name, p in zip(names, places, strict=True)})
    x = np.random.default_rng(1).normal(size=len(order))
    return sf.Microdata(frame.with_columns(X=x), sf.Schema(keys=names, **extra))


def keys_changed(before: sf.Microdata, after: sf.Microdata, keys) -> np.ndarray:
    return np.sum([(before.column(k) != after.column(k)).to_numpy() for k in keys], axis=0)


@given(
    st.integers(0, 10_000),
    st.sampled_from([(4, 4), (3, 3, 3), (3, 4, 2)]),
    st.sampled_from(["one_way", "two_way"]),
)
@settings(max_examples=25)
def test_the_records_tabulate_to_the_safe_table(seed: int, shape, margins: str) -> None:
    table = np.random.default_rng(seed).poisson(5, shape)
    if len(shape) == 2:
        margins = "one_way"
    data = records(table)
    try:
        safe = sf.safe_table(data, 3, margins=margins, time_limit=10)
    except InputError:
        reject()  # no such table; too many of these would fail the test
    out = sf.realise(data, safe, seed=1)
    recount = tabulate(out, safe.keys)
    full = np.zeros(safe.counts.shape, dtype=int)
    for row in recount.to_frame().iter_rows():
        full[tuple(level.index(v) for level, v in zip(safe.table.levels, row[:-1], strict=True))] = row[-1]
    assert np.array_equal(full, safe.counts)
    moved = keys_changed(data, out, safe.keys)
    # No plan moves fewer records than half the distance; where lines balance, one key each.
    assert (moved > 0).sum() == safe.distance / 2
    if len(shape) == 2 or margins == "two_way":
        assert moved.max(initial=0) <= 1
    assert out.column("X").equals(data.column("X"))


def test_one_way_margins_of_three_keys_need_the_least_changes() -> None:
    """Against every assignment of losing to gaining units, tried one by one."""
    from itertools import permutations

    found = 0
    for seed in range(40):
        table = np.random.default_rng(seed).poisson(4, (3, 2, 2))
        data = records(table)
        try:
            safe = sf.safe_table(data, 3)
        except InputError:
            continue
        change = safe.counts - safe.original
        lost = [c for c in np.argwhere(change < 0) for _ in range(-change[tuple(c)])]
        gained = [c for c in np.argwhere(change > 0) for _ in range(change[tuple(c)])]
        if not 1 <= len(lost) <= 6:
            continue
        least = min(
            sum(int((a != b).sum()) for a, b in zip(lost, order, strict=True))
            for order in permutations(gained)
        )
        out = sf.realise(data, safe, seed=1)
        assert keys_changed(data, out, safe.keys).sum() == least
        found += 1
    assert found >= 5


def test_the_least_important_key_is_changed() -> None:
    table = np.random.default_rng(2).poisson(6, (5, 5))
    data = records(table)
    safe = sf.safe_table(data, 4)
    assert safe.distance > 0
    for least, other in (("K1", "K2"), ("K2", "K1")):
        out = sf.realise(data, safe, importance=[least, other], seed=1)
        assert out.column(other).equals(data.column(other))
        assert not out.column(least).equals(data.column(least))


def test_similar_records_move() -> None:
    """Over several tables, a record is nearer to the cell it joins than with random choice."""
    near, random = [], []
    for seed in range(6):
        data = records(np.random.default_rng(seed).poisson(20, (4, 4))).with_roles(sensitive=["X"])
        safe = sf.safe_table(data, 18)
        before = data.frame.group_by("K1", "K2").agg(pl.col("X").mean().alias("mean"))

        def distances(out: sf.Microdata, data=data, safe=safe, before=before) -> list[float]:
            moved = out.frame.filter(pl.Series(keys_changed(data, out, safe.keys) > 0))
            return (
                moved.join(before, on=["K1", "K2"])
                .select((pl.col("X") - pl.col("mean")).abs())["X"]
                .to_list()
            )

        near += distances(sf.realise(data, safe, seed=1))
        random += [d for s in range(3) for d in distances(sf.realise(data, safe, similar_on=[], seed=s))]
    assert len(near) > 30
    assert np.mean(near) < 0.7 * np.mean(random)


def test_households_move_whole() -> None:
    table = np.random.default_rng(5).poisson(5, (4, 4))
    heads = records(table)
    persons = sf.Microdata(
        heads.frame.with_row_index("HH").select(pl.all().repeat_by(3).explode()),
        sf.Schema(keys=["K1", "K2"], household="HH"),
    )
    safe = sf.safe_table(heads, 3)
    out = sf.realise(persons, safe, household=True, seed=1)
    assert out.frame.group_by("HH").agg(pl.col("K1").n_unique(), pl.col("K2").n_unique()).select(
        "K1", "K2"
    ).max().row(0) == (1, 1)
    one_each = sf.Microdata(out.frame.unique("HH", keep="first"))
    assert np.array_equal(tabulate(one_each, ["K1", "K2"]).counts.sum(axis=0), safe.counts.sum(axis=0))
    mixed = persons.with_columns({"K1": pl.Series([0, 1, 2] * (len(persons) // 3))})
    with pytest.raises(InputError, match="households differ"):
        sf.realise(mixed, safe, household=True)


def test_text_and_missing_keys() -> None:
    cells = [("x", 1, 6), ("x", 2, 1), ("y", 1, 6), ("y", 2, 6), (None, 1, 6), (None, 2, 6)]
    rows = [(a, b) for a, b, n in cells for _ in range(n)]
    frame = pl.DataFrame(rows, schema={"A": pl.String, "B": pl.Int64}, orient="row")
    data = sf.Microdata(frame, sf.Schema(keys=["A", "B"]))
    safe = sf.safe_table(data, 5)
    assert safe.distance > 0
    out = sf.realise(data, safe, seed=1)
    assert out.dtype("A") == pl.String
    assert sorted(out.column("A").value_counts()["count"]) == sorted(frame["A"].value_counts()["count"])


def test_other_records_are_refused() -> None:
    data = records(np.full((3, 3), 2))
    safe = sf.safe_table(data, 3)
    with pytest.raises(InputError, match="don't tabulate"):
        sf.realise(data.slice(0, 5), safe)


def test_the_seed_decides_among_equals() -> None:
    data = records(np.random.default_rng(2).poisson(6, (5, 5)))
    safe = sf.safe_table(data, 4)
    one, again, other = (sf.realise(data, safe, seed=s).frame for s in (1, 1, 2))
    assert one.equals(again)
    assert not one.equals(other)


def test_a_column_without_values_makes_nobody_similar() -> None:
    rng = np.random.default_rng(0)
    keys = {"A": rng.integers(0, 3, 200), "B": rng.integers(0, 4, 200)}
    frame = pl.DataFrame({**keys, "S": pl.Series([None] * 200, dtype=pl.Float64)})
    people = sf.Microdata(frame, sf.Schema(keys=["A", "B"], sensitive=["S"]))
    safe = sf.safe_table(people, tolerance=15)
    assert safe.distance > 0
    out = sf.realise(people, safe, seed=1)
    assert out.frame.equals(sf.realise(people, safe, similar_on=[], seed=1).frame)


@pytest.mark.parametrize(
    ("shape", "margins"),
    [
        ((2,), "one_way"),
        ((2, 3), "one_way"),
        ((2, 3, 2), "one_way"),
        ((2, 3, 2), "two_way"),
        ((2, 2, 2, 3), "one_way"),
        ((2, 2, 2, 3), "two_way"),
    ],
)
def test_a_table_that_is_safe_already_stays(shape: tuple[int, ...], margins: str) -> None:
    cells = np.array(np.unravel_index(np.arange(np.prod(shape)), shape)).T
    frame = pl.DataFrame(
        {f"K{j}": np.repeat(cells[:, j], np.arange(len(cells)) % 4 + 5) for j in range(len(shape))}
    )
    data = sf.Microdata(frame)
    safe = sf.safe_table(data, tolerance=5, keys=frame.columns, margins=margins)
    assert sf.realise(data, safe, seed=1).frame.equals(frame)
