"""Threshold rules, violations per record, El Emam's measures, key strength, partial matches."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError, ParameterError

ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1), st.floats(1, 50)),
    min_size=1,
    max_size=25,
)
KEYS = ["a", "b", "c"]


@given(ROWS, st.sampled_from(["or", "and"]), st.integers(1, 3))
def test_violations_are_those_of_counting_every_set(rows, condition, dimension):
    frame = pl.DataFrame(rows, schema=[*KEYS, "w"], orient="row")
    rule = sf.ThresholdViolations(
        keys=KEYS, tolerance=3, weight_tolerance=60, condition=condition, max_dimension=dimension, weight="w"
    )
    found = sf.measure(sf.Microdata(frame), rule)[0]
    want = []
    for row in rows:
        times = 0
        for d in range(1, dimension + 1):
            for chosen in itertools.combinations(range(3), d):
                peers = [r for r in rows if all(r[j] == row[j] for j in chosen)]
                few, light = len(peers) < 3, sum(r[3] for r in peers) < 60 - 1e-9
                times += (few or light) if condition == "or" else (few and light)
        want.append(times)
    assert found.confidential["violations"].tolist() == want
    assert found.value == sum(t > 0 for t in want)
    assert found.mean_violations == pytest.approx(np.mean(want))
    for key, level, records, failing, rate in found.breakdown.iter_rows():
        here = [t for r, t in zip(rows, want, strict=True) if str(r[KEYS.index(key)]) == level]
        assert (len(here), sum(t > 0 for t in here)) == (records, failing)
        assert rate == pytest.approx(failing / records)


def test_el_emam_s_six_measures():
    """As SDCNway computes them: cells of 1, 2 and 6 records; weights of 10 each."""
    frame = pl.DataFrame({"k": [1, 2, 2, 3, 3, 3, 3, 3, 3], "w": [10.0] * 9})
    found = sf.measure(sf.Microdata(frame), sf.ThresholdViolations(keys=["k"], weight="w"))[0]
    assert found.pRa == pytest.approx(3 / 9)  # f < 1/0.2 = 5
    assert found.pRb == 1
    assert found.pRc == pytest.approx(3 / 9)  # combinations over records
    argus = sf.measure(sf.Microdata(frame), sf.IndividualRisk(keys=["k"], weight="w", variant="argus"))[0]
    assert found.jRb == pytest.approx(argus.maximum)
    assert found.jRc == pytest.approx(argus.value)
    assert found.jRa == pytest.approx((argus.confidential["risk"] > 0.2).mean())
    alone = sf.measure(sf.Microdata(frame), sf.ThresholdViolations(keys=["k"]))[0]
    assert "jRa" not in alone.figures
    edge = sf.measure(sf.Microdata(frame), sf.ThresholdViolations(keys=["k"], share=0.5))[0]
    assert edge.pRa == pytest.approx(1 / 9)  # a risk of exactly ½ isn't above ½


def test_rules_that_can_t_be():
    with pytest.raises(ParameterError, match="needs `tolerance`"):
        sf.ThresholdViolations(tolerance=None)
    data = sf.Microdata(pl.DataFrame({"k": [1, 2]}))
    with pytest.raises(MeasureError, match="needs a weight"):
        sf.measure(data, sf.ThresholdViolations(keys=["k"], weight_tolerance=5))


def test_key_strength_of_the_example_that_arx_tests():
    """Five people, by hand in ARX's own test."""
    frame = pl.DataFrame(
        {"age": [20, 30, 40, 20, 40], "sex": list("fffmm"), "state": ["CA", "CA", "TX", "NY", "CA"]}
    )
    found = sf.measure(sf.Microdata(frame), sf.KeyStrength(keys=["age", "sex", "state"], max_dimension=3))[0]
    want = {
        "sex": (0.4, 0.6),
        "state": (0.6, 0.7),
        "age": (0.6, 0.8),
        "sex × state": (0.8, 0.9),
        "age × state": (1, 1),
        "age × sex": (1, 1),
        "age × sex × state": (1, 1),
    }
    got = {name: (d, s) for name, _, d, s in found.breakdown.iter_rows()}
    assert got == {name: pytest.approx(pair) for name, pair in want.items()}
    assert (found.value, found.distinction) == (1, 1)
    two = sf.measure(sf.Microdata(frame), sf.KeyStrength(keys=["age", "sex", "state"]))[0]
    assert len(two.breakdown) == 7  # the whole set is listed too
    assert sf.measure(sf.Microdata(frame[:1]), sf.KeyStrength(keys=["age"]))[0].value == 0


# -- partial matches --------------------------------------------------------------------------------

VALUE = st.one_of(st.none(), st.integers(0, 2))
BLANKS = st.lists(st.tuples(VALUE, VALUE, VALUE), min_size=1, max_size=14)


@given(BLANKS, st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_partial_matches_as_sdcmicro_counts_them(rows, alpha):
    """Records that agree count 1; those that agree by a blank of their own count alpha, unless they are
    the same combination. A record of blanks alone agrees with all."""
    data = sf.Microdata(pl.DataFrame(rows, schema=dict.fromkeys(KEYS, pl.Int64), orient="row"))
    found = sf.measure(data, sf.KAnonymity(k=2, keys=KEYS, partial=alpha))[0]
    want = []
    for row in rows:
        total = 0.0
        for other in rows:
            if any(a != b and None not in (a, b) for a, b in zip(row, other, strict=True)):
                continue
            total += alpha if None in other and other != row else 1.0
        want.append(float(len(rows)) if row == (None, None, None) else total)
    assert found.confidential["frequencies"].tolist() == pytest.approx(want)
    assert found.value == sum(f < 2 - 1e-9 for f in want)


def test_partial_matches_of_francdat_with_blanks(reference_data):
    """The example of sdcMicro's freqCalc: blanks in records 3, 4, 5 and 6; hand-counted."""
    frame = pl.read_csv(reference_data / "francdat.csv")
    keys = ["Key1", "Key2", "Key3", "Key4"]
    columns = [frame.columns[j] for j in (1, 3, 4, 5)]
    assert columns == keys
    blanks = {(2, "Key3"), (3, "Key1"), (3, "Key2"), (4, "Key4"), (5, "Key1")}
    rows = [
        {k: None if (i, k) in blanks else v for k, v in row.items()} for i, row in enumerate(frame.to_dicts())
    ]
    data = sf.Microdata(pl.DataFrame(rows)).with_roles(keys=keys, weight="w")
    for alpha in (1.0, 0.5, 0.1):
        counts, weights = [], []
        for row in rows:
            f = w = 0.0
            for other in rows:
                pairs = [(row[k], other[k]) for k in keys]
                if any(a != b and None not in (a, b) for a, b in pairs):
                    continue
                part = alpha if other is not row and any(other[k] is None for k in keys) else 1.0
                f, w = f + part, w + part * other["w"]
            counts.append(f)
            weights.append(w)
        table = data.cells()
        assert table.at_records(table.partial_frequencies(alpha)).tolist() == pytest.approx(counts)
        weighted = sf.CellTable.of(data, keys, weight="w")
        got = weighted.at_records(weighted.partial_frequencies(alpha, weighted=True))
        assert got.tolist() == pytest.approx(weights)
        risk = sf.measure(data, sf.IndividualRisk(partial=alpha))[0].confidential["risk"]
        assert (risk >= sf.measure(data, sf.IndividualRisk())[0].confidential["risk"] - 1e-12).all()
