"""SUDA: minimal sample uniques exactly, published scores, DIS-SUDA by its formula."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells.uniques import minimal_uniques
from sfumato.risk.suda import Suda

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import key_combinations as twin

FIVE = ["urbrur", "roof", "walls", "water", "sex"]
SEVEN = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]


def found_by_record(data, keys, max_size, missing="matches_anything"):
    table = sf.CellTable.of(data, keys, missing=missing)
    of_cell = [set() for _ in range(len(table))]
    for mask, cells in minimal_uniques(table, max_size):
        for cell in cells.tolist():
            of_cell[cell].add(tuple(j for j in range(len(keys)) if mask >> j & 1))
    return [of_cell[cell] for cell in table.record_cell]


@given(st.data())
def test_minimal_uniques_equal_brute_force(draw):
    keys, n = draw.draw(st.integers(1, 5)), draw.draw(st.integers(1, 16))
    rows = draw.draw(st.lists(st.tuples(*[st.integers(0, 3)] * keys), min_size=n, max_size=n))
    names = [f"k{j}" for j in range(keys)]
    data = sf.Microdata(pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row"))
    size = draw.draw(st.integers(1, keys))
    want = [set(r) for r in twin.minimal_sample_uniques(rows, size)]
    assert found_by_record(data, names, size) == want


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(0, 2))] * 3), min_size=1, max_size=12))
def test_missing_values_follow_the_convention(rows):
    names = ["a", "b", "c"]
    data = sf.Microdata(pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row"))
    for missing in ("matches_anything", "category"):
        want = []
        for row in rows:
            here: list[tuple[int, ...]] = []
            for size in (1, 2, 3):
                for chosen in itertools.combinations(range(3), size):
                    if any(set(f) <= set(chosen) for f in here):
                        continue
                    if missing == "matches_anything" and any(row[j] is None for j in chosen):
                        continue
                    if sum(twin.agree(row, other, chosen, missing) for other in rows) == 1:
                        here.append(chosen)
            want.append(set(here))
        assert found_by_record(data, names, 3, missing) == want


def test_published_scores_of_testdata2(reference_data):
    data = sf.Microdata(pl.read_csv(reference_data / "testdata2.csv", null_values="NA"))
    assert sf.measure(data, Suda(keys=FIVE))[0].scores[0] == 2
    seven = sf.measure(data, Suda(keys=SEVEN))[0]
    assert seven.scores[0] == 180
    rows = data.frame.select(SEVEN).rows()
    uniques = twin.minimal_sample_uniques(rows, 7)
    assert seven.scores.tolist() == [sum(math.factorial(7 - len(u)) for u in r) for r in uniques]
    assert seven.msus == sum(map(len, uniques))
    assert seven.value == sum(map(bool, uniques))
    totals = [sum(math.factorial(7 - len(u)) for r in uniques for u in r if j in u) for j in range(7)]
    share = dict(seven.contribution.iter_rows())
    for key, points in zip(SEVEN, totals, strict=True):
        assert share[key] == pytest.approx(100 * points / seven.scores.sum())


def test_scores_by_hand():
    # Record 3: unique on A alone (2 of 3 keys left: 2! = 2) and on B alone.
    frame = pl.DataFrame({"A": [1, 1, 1, 2], "B": [1, 1, 2, 3], "C": [1, 1, 1, 1]})
    data = sf.Microdata(frame)
    found = sf.measure(data, Suda(keys=["A", "B", "C"]))[0]
    assert found.scores.tolist() == [0, 0, 2, 4]
    ihsn = sf.measure(data, Suda(keys=["A", "B", "C"], scoring="ihsn"))[0]
    one = (2**2 - 1) * math.factorial(1) * math.factorial(2) / math.factorial(3)
    assert ihsn.scores.tolist() == pytest.approx([0, 0, one, 2 * one])
    assert found.scores_ihsn.tolist() == ihsn.scores.tolist()
    assert found.dis_scores_ihsn.tolist() == ihsn.dis_scores.tolist()
    assert ihsn.dis_scores_sdcmicro.tolist() == found.dis_scores.tolist()
    assert found.scorings.rows() == [
        ("sdcmicro", found.maximum, found.dis_maximum),
        ("ihsn", ihsn.maximum, ihsn.dis_maximum),
    ]
    # With M = 1 of m = 3 keys an MSU of one key scores m − 1.
    assert sf.measure(data, Suda(keys=["A", "B", "C"], max_size=1))[0].scores.tolist() == [0, 0, 2, 4]
    assert sf.measure(data, Suda(keys=["A", "B", "C"], max_size=2))[0].scores.tolist() == [0, 0, 2, 4]
    # DIS: two uniques, one pair, a fraction of 1%.
    dis = 2 * 0.01 / (2 * 0.01 + 2 * 0.99)
    q = 1 + (8 - 3) / 20
    adjust = 2**-q + 4**-q
    want = [1 / (1 + (2 / dis - 2) / (c**q * adjust)) for c in (2, 4)]
    assert found.dis == pytest.approx(dis)
    assert found.dis_scores.tolist() == pytest.approx([0, 0, *want])
    assert found.contributions[3].tolist() == [0.5, 0.5, 0.0]


def test_more_keys_than_can_be_searched_are_refused():
    frame = pl.DataFrame({f"k{j}": [1, 2] for j in range(30)})
    with pytest.raises(sf.SfumatoError, match="combinations to search"):
        sf.measure(sf.Microdata(frame), Suda(keys=frame.columns))
    assert sf.measure(sf.Microdata(frame), Suda(keys=frame.columns, max_size=2))[0].value == 2


def test_a_file_without_uniques_has_no_score():
    data = sf.Microdata(pl.DataFrame({"a": [1, 1], "b": [2, 2]}))
    found = sf.measure(data, Suda(keys=["a", "b"]))[0]
    assert (found.value, found.maximum, found.dis) == (0, 0.0, 0.0)
    assert not np.any(found.dis_scores)


def test_a_long_search_says_how_far_it_is(monkeypatch):
    from sfumato import waiting
    from sfumato.cells import uniques

    monkeypatch.setattr(waiting, "LONG", 0.0)
    monkeypatch.setattr(waiting, "_SURE", 0.0)
    heard = []
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({f"k{j}": rng.integers(0, 4, 300) for j in range(6)})
    with waiting.listening(heard.append):
        sf.measure(sf.Microdata(frame), sf.Suda(keys=frame.columns))
    assert any(line.startswith("looking for special uniques: about") for line in heard)
    # Every set of twelve keys over a million combinations is allowed: what it takes is said, not refused.
    assert uniques.MAX_BITS >= (2**12 - 1) * 1_000_000
