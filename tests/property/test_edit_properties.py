"""What the edits and record swapping promise, on any file."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf

ROW = st.tuples(
    st.integers(0, 1), st.integers(0, 3), st.integers(0, 2), st.none() | st.sampled_from("abcd"),
    st.none() | st.integers(-5, 5),
)  # fmt: skip
FILES = st.lists(ROW, min_size=1, max_size=60)


def file(rows: list[tuple[Any, ...]]) -> sf.Microdata:
    frame = pl.DataFrame(
        rows,
        schema={"STATE": pl.Int8, "K1": pl.Int32, "K2": pl.Int64, "PLACE": pl.String, "X": pl.Int64},
        orient="row",
    )
    schema = sf.Schema(keys=["K1", "K2"], geography=["STATE", "PLACE"], sensitive=["X"])
    return sf.Microdata(frame, schema)


def counts(frame: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return frame.group_by(by).len().sort(by, nulls_last=True)


@given(
    FILES, st.sampled_from([0, 10, 50, 100]), st.sampled_from(["sample", "independent"]), st.integers(0, 3)
)
def test_the_1990_edit_keeps_every_count_of_the_keys_in_every_area(
    rows: list[tuple[Any, ...]], rate: float, selection: str, seed: int
):
    data = file(rows)
    edit = sf.ConfidentialityEdit1990(rate_percent=rate, selection=selection)
    out = edit.mask(data, seed=seed).frame
    by = ["STATE", "PLACE", "K1", "K2"]
    assert counts(data.frame, by).equals(counts(out, by))
    assert out.drop("PLACE").equals(data.frame.drop("PLACE"))
    assert out["PLACE"].is_null().equals(data.frame["PLACE"].is_null())
    assert out.equals(edit.mask(data, seed=seed).frame)
    if rate == 0:
        assert out.equals(data.frame)


@given(
    FILES,
    st.sampled_from(["geography", "sensitive", "first_key"]),
    st.integers(1, 4),
    st.sampled_from([1, 4]),
)
def test_the_2000_edit_touches_what_it_can_and_only_what_it_swaps(
    rows: list[tuple[Any, ...]], swap: str, tolerance: int, window: int
):
    data = file(rows)
    edit = sf.ConfidentialityEdit2000(swap=swap, tolerance=tolerance, window=window, order=["K1", "K2"])
    masked, notes, _ = edit.carry_out(data, sf.Seed.from_int(3).draws("e"))
    out, before = masked.frame, data.frame
    changed = {"geography": ["PLACE"], "sensitive": ["X"], "first_key": ["K1", "K2"]}[swap]
    assert out.drop(changed).equals(before.drop(changed))
    for column in changed:
        assert out[column].is_null().equals(before[column].is_null())
        assert counts(out, ["STATE", column]).equals(counts(before, ["STATE", column]))
    touched = pl.any_horizontal(pl.col(c).ne_missing(out[c]) for c in changed)
    frame = before.with_columns(touched=touched, size=pl.len().over("STATE", "K1", "K2"))
    left = frame.filter(pl.col("size") < tolerance).group_by("STATE", "K1", "K2").agg(pl.col("touched").any())
    assert notes.figures["tolerance_failures_left"] == (~left["touched"]).sum()
    assert notes.figures["records_changed"] == frame["touched"].sum()
    if swap == "geography":
        # A class stays only if nobody of its state who is free has another place.
        alone = notes.log.filter(pl.col("what") == "unmatched")["record"].to_list()
        for record in alone:
            free = frame.filter((pl.col("STATE") == before["STATE"][record]) & ~pl.col("touched"))
            mine = free.filter(
                (pl.col("K1") == before["K1"][record]) & (pl.col("K2") == before["K2"][record])
            )
            assert free["PLACE"].drop_nulls().n_unique() <= 1 or mine["PLACE"].drop_nulls().is_empty()


@given(FILES, st.sampled_from([0, 20, 100]), st.integers(0, 3), st.sampled_from(["tolerance", "rate"]))
def test_record_swapping_keeps_areas_profiles_and_the_rate(
    rows: list[tuple[Any, ...]], rate: float, tolerance: int, on_conflict: str
):
    data = file(rows)
    swap = sf.RecordSwap(
        rate_percent=rate,
        tolerance=tolerance,
        similar=[["K1", "K2"], ["K1"]],
        keys=["X"],
        on_conflict=on_conflict,
    )
    masked, notes, _ = swap.carry_out(data, sf.Seed.from_int(3).draws("e"))
    out, before = masked.frame, data.frame
    assert out.drop("STATE", "PLACE").equals(before.drop("STATE", "PLACE"))
    by = ["STATE", "PLACE", "K1"]
    assert counts(before, by).equals(counts(out, by))
    assert out["PLACE"].is_null().equals(before["PLACE"].is_null())
    moved = (out["PLACE"].ne_missing(before["PLACE"]) | (out["STATE"] != before["STATE"])).sum()
    assert moved == notes.figures["households_swapped"]
    if on_conflict == "rate" or tolerance == 0:
        assert moved <= round(rate * len(before) / 100)
