"""The census deck: chunks, nesting, the eleven keys, and what its marginals should look like."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.decks.households import GEOGRAPHY, KEYS_1990, RACES, _Made, _state_table
from sfumato.draws import Seed
from sfumato.errors import ParameterError

N = 60_000


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return sf.decks.households(N).frame


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    return sf.decks.persons(N).frame


@pytest.mark.parametrize("chunk", [1, 1_999, 7_001])
def test_chunks_dont_change_the_data(chunk: int) -> None:
    n = 5 if chunk == 1 else 20_000
    whole = sf.decks.households(n, start=123).frame
    pieces = pl.concat([c.frame for c in sf.decks.household_chunks(n, start=123, chunk=chunk)])
    assert whole.equals(pieces)
    whole = sf.decks.persons(n, start=123).frame
    chunks = sf.decks.household_chunks(n, start=123, chunk=chunk, of_persons=True)
    assert whole.equals(pl.concat([c.frame for c in chunks]))


def test_the_seed_decides_everything() -> None:
    one = sf.decks.households(2_000, seed=1).frame
    assert one.equals(sf.decks.households(2_000, seed=1).frame)
    other = sf.decks.households(2_000, seed=2).frame
    assert not one["INCOME"].equals(other["INCOME"])
    assert not one["BLOCK"].equals(other["BLOCK"])


@pytest.mark.parametrize("n", [0, 1, 2])
def test_tiny_files(n: int) -> None:
    deck = sf.decks.households(n)
    assert len(deck) == n
    assert deck.columns == sf.decks.households(5).columns
    assert sf.decks.households(5).frame.schema == deck.frame.schema
    assert sf.decks.persons(n).frame.schema == sf.decks.persons(5).frame.schema


def test_bad_numbers() -> None:
    for call in (
        lambda: sf.decks.households(-1),
        lambda: sf.decks.households(5, start=-1),
        lambda: sf.decks.households(1.5),  # type: ignore[arg-type]
        lambda: next(sf.decks.household_chunks(5, chunk=0)),
    ):
        with pytest.raises(ParameterError):
            call()


def test_geography_nests(frame: pl.DataFrame) -> None:
    for coarse, fine in itertools.pairwise(GEOGRAPHY):
        assert frame.group_by(fine).agg(pl.col(coarse).n_unique())[coarse].max() == 1
    assert frame["STATE"].n_unique() > 20
    assert frame["TRACT"].n_unique() == N // 400
    assert sf.decks.households(10).schema.geography == GEOGRAPHY


def test_far_households_nest_too() -> None:
    """100 million households in: codes still tell state, county, tract and block apart."""
    far = sf.decks.households(3_000, start=99_998_000).frame
    assert (far["BLOCK"] // 1_000 == far["TRACT"]).all()
    assert (far["TRACT"] // 100 == far["COUNTY"].cast(pl.Int64)).all()
    assert (far["COUNTY"] // 10_000 == far["STATE"].cast(pl.Int32)).all()


def test_tracts_are_never_shared_by_two_runs() -> None:
    """Every tract has exactly its 400 households, over two whole cycles of the state table."""
    table, rank, count = _state_table()
    assert len(table) == 128
    assert set(table) == set(range(51))
    assert sorted(zip(table, rank, strict=True)) == [(s, k) for s in range(51) for k in range(count[s])]
    draws = Seed.from_int(1).draws("any")
    runs = [_Made(draws, 1, start).geography["TRACT"][0] for start in range(0, 2 * 128 * 2_000, 2_000)]
    assert len(set(runs)) == 256


def test_blocks_are_very_unequal(frame: pl.DataFrame) -> None:
    sizes = frame.group_by("BLOCK").len("n")["n"]
    assert 10 < sizes.mean() < 20  # type: ignore[operator]
    assert 0.05 < (sizes == 1).mean() < 0.25  # type: ignore[operator]
    assert sizes.max() > 100  # type: ignore[operator]


def test_the_eleven_keys_of_the_1990_edit(frame: pl.DataFrame) -> None:
    deck = sf.decks.households(10)
    assert len(KEYS_1990) == 11
    assert deck.schema.keys == KEYS_1990
    assert deck.schema.household == "HHID"
    races = sum((frame[f"N_{race}"] for race in RACES), start=pl.Series([0] * N))
    assert (races == frame["SIZE"]).all()
    assert (frame["N_HISPANIC"] + frame["N_NONHISPANIC"] == frame["SIZE"]).all()
    assert (frame["N_OVER18"] <= frame["SIZE"]).all()
    assert frame["N_FAMILIES"].min() == 1
    assert set(frame["TRAILER"].unique()) == {0, 1}


def test_households_are_their_persons(frame: pl.DataFrame, people: pl.DataFrame) -> None:
    counted = people.group_by("HHID", maintain_order=True).agg(
        pl.len().alias("SIZE"),
        *((pl.col("RACE") == k + 1).sum().alias(f"N_{race}") for k, race in enumerate(RACES)),
        pl.col("HISPANIC").sum().alias("N_HISPANIC"),
        (pl.col("AGE") > 18).sum().alias("N_OVER18"),
        pl.col("BLOCK").first(),
        pl.col("BLOCK").n_unique().alias("blocks"),
    )
    assert counted["blocks"].max() == 1
    for column in ("HHID", "SIZE", *(f"N_{r}" for r in RACES), "N_HISPANIC", "N_OVER18", "BLOCK"):
        assert counted[column].cast(pl.Int64).equals(frame[column].cast(pl.Int64)), column
    assert people["PID"].n_unique() == people.height


def test_persons_are_plausible(people: pl.DataFrame) -> None:
    first = people.filter(pl.col("RELATION") == 1)
    assert first.height == N
    assert first["AGE"].min() >= 18  # type: ignore[operator]
    assert people["AGE"].min() >= 0  # type: ignore[operator]
    ages = people.join(first.select("HHID", first_age="AGE"), on="HHID").filter(pl.col("RELATION") == 3)
    assert (ages["first_age"] - ages["AGE"]).min() >= 15  # type: ignore[operator]
    assert 0.2 < (people["AGE"] < 18).mean() < 0.32  # type: ignore[operator]
    assert people.filter(pl.col("AGE") < 15)["EARNINGS"].max() == 0


def test_shares_as_statistics(frame: pl.DataFrame) -> None:
    """Sizes are the model's shares within four standard errors; races differ between tracts."""
    shares = (0.25, 0.32, 0.17, 0.155, 0.065, 0.025, 0.015)
    for size, share in enumerate(shares, start=1):
        got = float((frame["SIZE"] == size).mean())  # type: ignore[arg-type]
        assert abs(got - share) < 4 * np.sqrt(share * (1 - share) / N)
    mix = frame.group_by("TRACT").agg((pl.col("N_WHITE").sum() / pl.col("SIZE").sum()).alias("w"))["w"]
    assert mix.std() > 0.1  # type: ignore[operator]
    assert frame["INCOME"].skew() > 2  # type: ignore[operator]
    assert (frame["HOME_VAL"].is_null() != frame["RENT"].is_null()).all()


def test_most_households_have_a_match(frame: pl.DataFrame) -> None:
    """The edit needs twins within the state: most households have one, some don't."""
    alone = frame.group_by(KEYS_1990).len("n").filter(pl.col("n") == 1).height / N
    assert 0.005 < alone < 0.15
