"""Tolerance, k-anonymity, l-diversity and individual risk: published figures, hand counts, bad input."""

from __future__ import annotations

import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells import diversity
from sfumato.cells.risks import exact_risk

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import argus_demo
import key_combinations as twin

FRANCDAT = ["Key1", "Key2", "Key3", "Key4"]
TESTDATA = ["urbrur", "roof", "walls", "water", "sex"]
RSA = [["Region"], ["Region", "Sex"], ["Region", "Age"], ["Region", "Sex", "Age"]]


@pytest.fixture(scope="module")
def demo(reference_data):
    return argus_demo.demodata(reference_data)


def unsafe(assessment) -> list[int]:
    return assessment.unsafe_combinations.tolist()


# -- published figures ------------------------------------------------------------------------------


def test_demodata_unsafe_cells_before_and_after_the_recode(demo):
    # mu-ARGUS's threshold 3 is inclusive, so it is our tolerance 4.
    measure = sf.Tolerance(tolerance=4, key_sets=RSA)
    before = measure.assess(demo)
    assert unsafe(before) == [9, 50, 2588, 3164]
    recoded = before.table.recode("Age", argus_demo.age_classes(before.table.levels["Age"].to_list()))
    assert unsafe(measure.assess_cells(recoded)) == [9, 50, 463, 1183]
    assert len(recoded.levels["Age"]) == 6
    entropy = [before.table.entropy(k) for k in ("Region", "Sex", "Age")] + [recoded.entropy("Age")]
    assert entropy == pytest.approx([6.83, 1.00, 5.83, 2.52], abs=0.005)
    result = sf.measure(demo, measure)[0]
    assert result.unsafe_combinations == 9 + 50 + 2588 + 3164
    assert result.breakdown["unsafe_combinations"].to_list() == [3164, 2588, 50, 9]
    assert result.value == result.breakdown["unsafe_records"][0]
    assert len(result.combinations) == result.unsafe_combinations
    matrix = result.by_key
    assert matrix["key"].to_list() == ["Region", "Sex", "Age"]
    assert matrix["dimension_1"].to_list() == [9, 0, 0]
    assert matrix["dimension_2"].to_list() == [2638, 50, 2588]
    assert matrix["dimension_3"].to_list() == [3164, 3164, 3164]


def test_the_unsafe_combinations_are_listed_the_rarest_first():
    frame = pl.DataFrame({"a": ["x", "x", "x", "y", "y", None], "b": [1, 1, 1, 2, 2, 3]})
    listed = sf.measure(sf.Microdata(frame), sf.Tolerance(keys=["a", "b"], max_dimension=2))[0].combinations
    # y has 2 records and the missing one, so a alone is safe; the last agrees with nobody on b = 3.
    assert set(map(str, listed.rows())) == {
        str(("b", ["3"], 1)),
        str(("a × b", [None, "3"], 1)),
        str(("b", ["2"], 2)),
        str(("a × b", ["y", "2"], 2)),
    }
    assert listed["records"].to_list() == [1, 1, 2, 2]


def test_a_tolerance_of_three_is_below_three(demo):
    counts = Counter(demo.frame["Region"].to_list())
    want = sum(c < 3 for c in counts.values())
    assert unsafe(sf.Tolerance(tolerance=3, keys=["Region"]).assess(demo)) == [want]


@pytest.mark.parametrize(
    ("variant", "recoded", "rate_percent", "at_risk"),
    [
        ("argus", False, 1.956, 3968),
        ("argus", True, 0.125, 393),
        ("benedetti_franconi", True, 0.125, 397),
    ],
)
def test_demodata_individual_risk(demo, variant, recoded, rate_percent, at_risk):
    data = demo
    if recoded:
        age = argus_demo.age_classes(demo.frame["Age"].to_list())
        region = argus_demo.region_classes(demo.frame["Region"].to_list())
        data = demo.with_columns({"Age": pl.Series(age), "Region": pl.Series(region)})
    found = sf.measure(data, sf.IndividualRisk(variant=variant, threshold=0.00125))[0]
    assert found.maximum == pytest.approx(0.04230, abs=5e-6)
    assert found.global_risk_percent == pytest.approx(rate_percent, abs=5e-4)
    assert found.records_at_risk == at_risk
    assert found.value == pytest.approx(found.risk.mean())


def test_francdat(reference_data):
    data = sf.Microdata(pl.read_csv(reference_data / "francdat.csv")).with_roles(keys=FRANCDAT, weight="w")
    anonymity = sf.measure(data, sf.KAnonymity(k=2))[0]
    assert anonymity.frequencies.tolist() == [2, 2, 2, 1, 1, 1, 1, 2]
    assert (anonymity.value, anonymity.violations_2, anonymity.violations_3) == (4, 4, 8)
    assert anonymity.achieved == 1
    first, last = [0.01714426, 0.02204233, 0.02204233, 0.17707583], [0.01165448, 0.29706308, 0.40235948]
    published = [*first, *last, 0.01714426]
    for variant in ("sdcmicro", "argus", "benedetti_franconi"):  # they agree where f ≤ 2
        found = sf.measure(data, sf.IndividualRisk(variant=variant))[0]
        assert found.risk.tolist() == pytest.approx(published, abs=5e-9)


def test_testdata(reference_data):
    data = sf.Microdata(pl.read_csv(reference_data / "testdata.csv", null_values="NA"))
    plain = sf.measure(data, sf.IndividualRisk(keys=TESTDATA))[0]
    assert plain.expected_reidentifications == pytest.approx(93)
    weighted = sf.measure(
        data,
        sf.IndividualRisk(keys=TESTDATA, weight="sampling_weight", household="ori_hid", variant="sdcmicro"),
    )[0]
    assert weighted.expected_reidentifications == pytest.approx(1.53, abs=0.005)
    assert weighted.household_expected_reidentifications == pytest.approx(7.18, abs=0.005)
    diversity = sf.measure(data, sf.LDiversity(keys=TESTDATA, sensitive=["electcon"]))[0]
    assert diversity.mean_distinct == pytest.approx(2.374, abs=5e-4)


def test_free1_counts_are_those_of_a_plain_group_by(reference_data):
    frame = pl.read_csv(reference_data / "free1.csv", null_values="NA", infer_schema_length=None)
    keys = ["REGION", "SEX", "AGE", "MARSTAT"]
    found = sf.Tolerance(tolerance=3, keys=keys, max_dimension=3).assess(sf.Microdata(frame))
    assert len(found.key_sets) == 14
    for names, count in zip(found.key_sets, unsafe(found), strict=True):
        assert count == (frame.group_by(names).len()["len"] < 3).sum()


# -- against the obvious ----------------------------------------------------------------------------


def series_by_definition(f: int, p: float) -> float:
    """E(1/F) = Σ 1/F · C(F−1, f−1) p^f q^(F−f), summed until nothing is left."""
    total, probability, size = 0.0, p**f, f
    mass = 0.0
    while mass < 1 - 1e-13 and size < 10**6:
        total += probability / size
        mass += probability
        probability *= (1 - p) * size / (size - f + 1)
        size += 1
    return total


@pytest.mark.parametrize("f", [1, 2, 3, 4, 7, 30, 49, 50, 80])
@pytest.mark.parametrize("p", [0.01, 0.2, 0.4999, 0.5, 0.9, 1.0])
def test_exact_risk_is_the_expected_inverse_of_a_negative_binomial(f, p):
    got = float(exact_risk(np.array([f]), np.array([p]))[0])
    assert got == pytest.approx(series_by_definition(f, p), rel=1e-9)


def test_the_variants_differ_as_they_say():
    frame = pl.DataFrame({"A": [1] * 5 + [2] * 3, "W": [10.0] * 8})
    data = sf.Microdata(frame)
    risk = {
        v: sf.measure(data, sf.IndividualRisk(keys=["A"], weight="W", variant=v))[0].risk
        for v in ("benedetti_franconi", "argus", "sdcmicro")
    }
    p, q = 0.1, 0.9
    assert risk["sdcmicro"][0] == pytest.approx(p / (5 - 1 + p))
    assert risk["sdcmicro"][5] == pytest.approx(p / (3 - 1 + p))
    terms = [math.factorial(n) * q**n / math.prod(range(6, 6 + n)) for n in range(8)]
    assert risk["argus"][0] == pytest.approx(p / 5 * sum(terms))
    assert risk["argus"][0] < risk["benedetti_franconi"][0] < risk["sdcmicro"][0]
    assert risk["argus"][5] == pytest.approx(risk["benedetti_franconi"][5])


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.integers(0, 1), st.sampled_from("abc")),
        min_size=1,
        max_size=15,
    ),
    st.sampled_from(["matches_anything", "category"]),
)
def test_diversity_equals_the_obvious(rows, missing):
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "b": pl.Int64, "s": pl.String}, orient="row")
    data = sf.Microdata(frame)
    distinct, entropy, recursive = [], [], []
    for r in rows:
        counts = Counter(s[2] for s in rows if twin.agree(r, s, [0, 1], missing))
        shares = sorted((c / counts.total() for c in counts.values()), reverse=True)
        distinct.append(len(counts))
        entropy.append(math.exp(-sum(q * math.log(q) for q in shares)))
        recursive.append(not shares[0] < 1.5 * sum(shares[1:]))
    options = {"keys": ["a", "b"], "sensitive": ["s"], "c": 1.5, "missing": missing}
    found = sf.measure(data, sf.LDiversity(**options))[0]
    assert found.value == sum(d < 2 for d in distinct)
    assert found.mean_distinct == pytest.approx(np.mean(distinct))
    assert found.min_distinct == min(distinct)
    assert found.mean_entropy == pytest.approx(np.mean(entropy))
    assert found.recursive_violations == sum(recursive)
    two = sf.measure(data, sf.LDiversity(**options, variant="entropy", l=1.7))[0]
    assert two.value == sum(e < 1.7 - 1e-12 for e in entropy)
    assert sf.measure(data, sf.LDiversity(**options, variant="recursive"))[0].value == sum(recursive)


def test_too_many_open_combinations_are_refused(monkeypatch):
    frame = pl.DataFrame({"a": [None, 1, 2], "s": [1, 2, 3]})
    monkeypatch.setattr(diversity, "MAX_COMPARISONS", 1)
    with pytest.raises(sf.SfumatoError, match="too many to compare"):
        sf.measure(sf.Microdata(frame), sf.LDiversity(keys=["a"], sensitive=["s"]))


def test_household_risk_by_hand():
    frame = pl.DataFrame({"A": [1, 2, 2, 3], "H": ["x", "x", "y", "y"]})
    found = sf.measure(sf.Microdata(frame), sf.IndividualRisk(keys=["A"], household="H"))[0]
    assert found.risk.tolist() == [1.0, 0.5, 0.5, 1.0]
    assert found.household_risk.tolist() == [1.0, 1.0, 1.0, 1.0]
    frame = pl.DataFrame({"A": [1, 1, 1, 1], "H": ["x", "x", "y", "z"]})
    found = sf.measure(sf.Microdata(frame), sf.IndividualRisk(keys=["A"], household="H"))[0]
    assert found.household_risk.tolist() == pytest.approx([1 - 0.75**2] * 2 + [0.25] * 2)


# -- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [0, 1, -3])
def test_a_tolerance_below_two_is_refused(tolerance):
    with pytest.raises(sf.SfumatoError, match="must be at least 2"):
        sf.Tolerance(tolerance=tolerance, keys=["a"])
    with pytest.raises(sf.SfumatoError, match="must be at least 2"):
        sf.KAnonymity(k=tolerance, keys=["a"])


def test_bad_keys_and_weights_are_told():
    frame = pl.DataFrame({"a": [1, 2], "b": [1, 1], "i": [5, 6], "w": [-1.0, 2.0], "z": [0.0, 1.0]})
    data = sf.Microdata(frame, sf.Schema(keys=["a", "b"], sensitive=["i"]))
    with pytest.raises(sf.SfumatoError, match="names 'i', which isn't a key"):
        sf.measure(data, sf.Tolerance(key_sets=[["a", "i"]]))
    with pytest.raises(sf.SfumatoError, match="'c', which the data don't have"):
        sf.measure(data, sf.Tolerance(key_sets=[["a", "c"]]))
    with pytest.raises(sf.SfumatoError, match="names a key twice"):
        sf.measure(data, sf.Tolerance(key_sets=[["a", "a"]]))
    with pytest.raises(sf.SfumatoError, match="exclude each other"):
        sf.Tolerance(key_sets=[["a"]], max_dimension=2)
    with pytest.raises(sf.SfumatoError, match="no key was named"):
        sf.measure(sf.Microdata(frame), sf.KAnonymity())
    with pytest.raises(sf.SfumatoError, match="negative in 1 record"):
        sf.measure(data, sf.IndividualRisk(weight="w"))
    with pytest.raises(sf.SfumatoError, match="1 combinations add up to 0"):
        sf.measure(data, sf.IndividualRisk(weight="z"))
    with pytest.raises(sf.SfumatoError, match="no sensitive column"):
        sf.measure(sf.Microdata(frame), sf.LDiversity(keys=["a"]))
    with pytest.raises(sf.SfumatoError, match="a key and a sensitive column"):
        sf.measure(data, sf.LDiversity(sensitive=["a"]))
    with pytest.raises(sf.SfumatoError, match="whole number"):
        sf.LDiversity(variant="recursive", l=2.5)


def test_too_many_combinations_are_refused_before_they_are_counted():
    frame = pl.DataFrame({f"k{j}": [1, 2] for j in range(40)})
    with pytest.raises(sf.SfumatoError, match="lower `max_dimension`"):
        sf.measure(sf.Microdata(frame), sf.Tolerance(keys=frame.columns, max_dimension=8))
    with pytest.raises(sf.SfumatoError, match="lower `max_dimension`"):
        sf.LocalSuppress(keys=frame.columns, max_dimension=8).mask(sf.Microdata(frame))


def test_a_constant_key_and_all_records_unsafe_are_told():
    frame = pl.DataFrame({"one": ["x"] * 4, "id": [1, 2, 3, 4]})
    found = sf.measure(sf.Microdata(frame), sf.Tolerance(keys=["one", "id"], tolerance=2))[0]
    assert found.value == 4
    assert found.rate == 1.0
    assert any("one is constant" in note for note in found.notes)


def test_weights_below_one_are_noted_not_hidden():
    frame = pl.DataFrame({"a": [1, 2, 2], "w": [0.5, 1.0, 3.0]})
    found = sf.measure(sf.Microdata(frame), sf.IndividualRisk(keys=["a"], weight="w"))[0]
    assert found.risk[0] == 1.0
    assert any("taken to be the sample" in note for note in found.notes)


def test_a_person_without_a_household_is_one_of_their_own():
    frame = pl.DataFrame({"K": range(6), "W": [100.0] * 6, "H": [None, None, -9, -9, 1, 1]})
    data = sf.Microdata(frame, {"variables": {"H": {"missing": [-9]}}})
    found = sf.measure(data, sf.IndividualRisk(keys=["K"], weight="W", household="H"))[0]
    assert found.household_risk[:4] == pytest.approx(found.risk[:4])
    assert found.household_risk[4:] == pytest.approx(1 - (1 - found.risk[4]) ** 2)
