"""The housing deck against every figure that Moore (1996) prints of the file it stands for."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.data.microdata import Microdata
from sfumato.decks.housing import KEYS, MONEY, TOP

# RR96/04, Table 1: eligible values, mean, standard deviation.
TABLE_1 = {
    "INCOME": (35_717, 11_369, 13_986),
    "HOME_VAL": (31_394, 97_698, 67_184),
    "MORTGAGE": (15_908, 607, 359),
    "MAINTAIN": (18_374, 571, 821),
    "TAXES": (30_671, 19.83, 12.83),
}
# RR96/04, Table 2: records where both are eligible, correlation before the swap.
TABLE_2 = {
    ("INCOME", "HOME_VAL"): (23_318, 0.150),
    ("INCOME", "MORTGAGE"): (11_225, 0.034),
    ("INCOME", "MAINTAIN"): (14_058, 0.050),
    ("INCOME", "TAXES"): (22_791, 0.095),
    ("HOME_VAL", "MORTGAGE"): (15_514, 0.607),
    ("HOME_VAL", "MAINTAIN"): (17_735, 0.202),
    ("HOME_VAL", "TAXES"): (29_871, 0.576),
    ("MORTGAGE", "MAINTAIN"): (10_872, 0.166),
    ("MORTGAGE", "TAXES"): (15_326, 0.511),
    ("MAINTAIN", "TAXES"): (17_487, 0.167),
}


@pytest.fixture(scope="module")
def deck() -> Microdata:
    return sf.decks.housing()


def test_its_shape_and_roles(deck: Microdata) -> None:
    assert len(deck) == 64_998
    assert deck.columns == ["IDNUM", *KEYS, *MONEY]
    assert deck.schema.id == "IDNUM"
    assert deck.schema.keys == KEYS
    assert deck.schema.sensitive == MONEY
    assert deck.schema.geography == ("REGION",)
    assert deck.column("IDNUM").n_unique() == 64_998
    assert {c: deck.schema[c].top for c in MONEY} == TOP
    assert {deck.schema[c].bottom for c in MONEY} == {0}
    assert [deck.schema[c].top for c in MONEY] == [100_000, 350_000, 1_800, 9_000, 62]


@pytest.mark.parametrize("column", MONEY)
def test_table_1(deck: Microdata, column: str) -> None:
    count, mean, sd = TABLE_1[column]
    values = deck.numbers(column)[deck.eligible(column)]
    assert len(values) == count
    # "means within 0.004%, standard deviations within 0.012%", beside the rounding of the table.
    rounding = 0.005 if column == "TAXES" else 0.5
    assert abs(values.mean() - mean) <= max(4e-5 * mean, rounding)
    assert abs(values.std(ddof=1) - sd) <= max(1.2e-4 * sd, rounding)
    assert values.min() > 0
    assert values.max() < TOP[column]
    everything = deck.column(column).drop_nulls()
    assert everything.min() == 0
    assert everything.max() == TOP[column]


@pytest.mark.parametrize("pair", list(itertools.combinations(MONEY, 2)))
def test_table_2(deck: Microdata, pair: tuple[str, str]) -> None:
    count, correlation = TABLE_2[pair]
    both = deck.eligible(pair[0]) & deck.eligible(pair[1])
    assert int(both.sum()) == count
    a, b = (deck.numbers(c)[both] for c in pair)
    assert abs(np.corrcoef(a, b)[0, 1] - correlation) <= 0.0005 + 0.0004


def test_key_classes(deck: Microdata) -> None:
    sizes = deck.frame.group_by(KEYS).len("n")["n"]
    assert int((sizes == 1).sum()) == 473
    assert int((sizes == 2).sum()) == 149
    assert int(sizes.filter(sizes <= 2).sum()) == 771
    assert int(sizes.filter(sizes < 100).sum()) == 18_557


def test_collapsed_blocks_of_the_intruder(deck: Microdata) -> None:
    """The restricted universe (classes under 100) blocked without REGION: at most 213 records."""
    small = deck.frame.filter(pl.len().over(KEYS) < 100)
    assert small.height == 18_557
    assert small.group_by("BATHS", "BEDROOMS", "YR_BLT").len("n")["n"].max() == 213


def test_records_of_the_edit(deck: Microdata) -> None:
    """RR96/06, Table 8: sorted by BATHS, BEDROOMS, YR_BLT, REGION with Q = 2, the edit changes
    T = 582 records, N = 109 of them from classes above tolerance.

    A unique that hasn't been used trades with a record of the next class, whatever its size; the
    last class, if it is one, looks back.
    """
    order = ["BATHS", "BEDROOMS", "YR_BLT", "REGION"]
    sizes = deck.frame.group_by(order).len("n").sort(order)["n"].to_list()
    changed = above = 0
    free = True
    for size, following in itertools.pairwise(sizes):
        if size == 1 and free:
            changed += 2
            above += following > 1
            free = False
        else:
            free = True
    if sizes[-1] == 1 and free:
        changed += 2
        above += sizes[-2] > 1
    assert (changed, above) == (582, 109)


def test_values_of_the_keys(deck: Microdata) -> None:
    assert sorted(deck.column("REGION").unique()) == [1, 2, 3, 4]
    assert set(deck.column("YR_BLT").unique()) == set(range(80, 93))
    for column in ("BEDROOMS", "BATHS"):
        assert set(deck.column(column).unique()) == set(range(11))
