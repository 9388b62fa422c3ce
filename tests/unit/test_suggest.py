"""What `sfumato init` suggests: on made data whose truth is known, and on real files."""

from __future__ import annotations

import tomllib

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.data.rules import broken_sums
from sfumato.plan.check import data_problems
from sfumato.plan.suggest.codes import codes_of
from sfumato.plan.suggest.roles import plan_text, suggest
from sfumato.plan.suggest.sums import find_sums


def people(n: int = 2000, seed: int = 1) -> pl.DataFrame:
    """Persons in households in counties in states, with incomes that add up."""
    rng = np.random.default_rng(seed)
    county = rng.integers(0, 12, n)
    wages = np.where(rng.random(n) < 0.3, 0, rng.lognormal(10, 1, n).astype(int))
    other = np.where(rng.random(n) < 0.6, 0, rng.lognormal(8, 1, n).astype(int))
    age = np.minimum(rng.integers(0, 110, n), 90)
    return pl.DataFrame(
        {
            "PERSONID": rng.permutation(n) + 10_000,
            "HHID": np.arange(n) // 3,
            "STATE": county // 4,
            "COUNTY": county,
            "SEX": rng.integers(1, 3, n),
            "AGE": age,
            "WEIGHT": np.round(rng.uniform(1, 200, n), 2),
            "WAGES": wages,
            "OTHERINC": other,
            "TOTINC": wages + other,
            "RENT": np.where(rng.random(n) < 0.05, 9999, rng.integers(1, 300, n) * 10),
            "COMMUTE": np.where(rng.random(n) < 0.05, -9, rng.integers(0, 120, n)),
        }
    )


def test_roles_of_made_people():
    found = suggest(people()).schema
    assert found.id == "PERSONID"
    assert found.household == "HHID"
    assert found.weight == "WEIGHT"
    assert found.geography == ("STATE", "COUNTY")
    assert {"COUNTY", "SEX", "AGE"} == set(found.keys), "of areas that nest, the finest is the key"
    assert {"WAGES", "OTHERINC", "TOTINC", "RENT"} <= set(found.sensitive)


def test_codes_and_sums_of_made_people():
    found = suggest(people())
    assert found.schema["RENT"].missing == (9999,)
    assert found.schema["COMMUTE"].missing == (-9,)
    assert found.schema["AGE"].top == 90
    assert found.schema.sums == {"TOTINC": ("WAGES", "OTHERINC")}
    assert found.schema["RENT"].unit == 10
    assert found.drop == ("PERSONID",)
    for column in found.schema.named_columns():
        assert found.reasons.get(column), f"{column} has no reason"


@pytest.mark.parametrize(
    ("values", "missing", "top"),
    [
        ([1, 2, 3, 4, 9] * 10, [9], None),
        ([1, 2, 3, 4, 5, 6, 7, 9] * 10, [], None),
        (list(range(60)) + [99, 99, 98, 98], [98, 99], None),
        (list(range(100)), [], None),
        (list(range(-1, 90)) * 2, [], None),
        (list(range(0, 90)) * 2 + [-9, -9, -8, -8], [-9, -8], None),
        (list(range(50)) + [50] * 40, [], 50),
        ([0] * 500 + list(range(1, 60)), [], None),
    ],
)
def test_codes(values, missing, top):
    codes = codes_of(pl.Series("v", values), {})
    assert sorted(c for c, _ in codes.missing) == missing
    assert (codes.top[0] if codes.top else None) == top
    assert codes.bottom is None


def test_labels_tell_missing_codes():
    codes = codes_of(pl.Series([1, 2, 7, 8] * 5), {1: "yes", 2: "no", 7: "Refused", 8: "Don't know"})
    assert sorted(c for c, _ in codes.missing) == [7, 8]


# -- never a nesting or a sum that isn't there -----------------------------------------------------


def test_one_broken_record_breaks_a_sum():
    frame = people(5000)
    wrong = frame.with_columns(TOTINC=pl.col("TOTINC") + (pl.int_range(pl.len()) == 4321))
    assert not suggest(frame).schema["TOTINC"].residual
    found = suggest(wrong)
    assert found.schema["TOTINC"].residual, "one record has a part that no column holds"
    assert "in 100.0% of the records" not in found.reasons["TOTINC"][-1]
    assert not [p for p in data_problems(sf.Microdata(wrong, found.schema)) if p.severity == "error"]


def test_one_moved_record_breaks_a_nesting():
    frame = people(5000)
    wrong = frame.with_columns(
        STATE=pl.when(pl.int_range(pl.len()) == 4321).then(7).otherwise(pl.col("STATE"))
    )
    assert suggest(frame).schema.geography == ("STATE", "COUNTY")
    assert len(suggest(wrong).schema.geography) == 1


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    parts=st.integers(2, 9),
    others=st.integers(0, 4),
    cents=st.booleans(),
    nulls=st.booleans(),
)
def test_sums_of_any_length_are_found_and_hold(seed, parts, others, cents, nulls):
    rng = np.random.default_rng(seed)
    n = 300
    unit = 100 if cents else 1
    columns = {f"p{i}": np.where(rng.random(n) < 0.4, 0, rng.integers(0, 10**6, n)) for i in range(parts)}
    total = sum(columns.values())
    columns |= {f"o{i}": rng.integers(0, 10**6, n) for i in range(others)}
    frame = pl.DataFrame({**columns, "total": total}) / unit
    if nulls:
        frame = frame.with_columns(p0=pl.when(pl.int_range(pl.len()) % 7 > 0).then("p0"))
    data = sf.Microdata(frame)
    found = find_sums(data, frame.columns)
    assert set(found) == {"total"}
    assert set(found["total"]) == {f"p{i}" for i in range(parts)}
    assert not broken_sums(data, "total", found["total"]).any()


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), columns=st.integers(3, 12), values=st.sampled_from([2, 5, 10**6]))
def test_no_sums_among_independent_columns(seed, columns, values):
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame({f"c{i}": rng.integers(0, values, 200) for i in range(columns)})
    assert find_sums(sf.Microdata(frame), frame.columns) == {}


def test_subtotals_are_used():
    rng = np.random.default_rng(5)
    a, b, c = (rng.integers(0, 1000, 200) for _ in range(3))
    frame = pl.DataFrame({"a": a, "b": b, "sub": a + b, "c": c, "all": a + b + c})
    assert find_sums(sf.Microdata(frame), frame.columns) == {"sub": ("a", "b"), "all": ("sub", "c")}


# -- real files -----------------------------------------------------------------------------------


def test_real_sums(reference_data):
    casc = suggest(sf.read(reference_data / "CASCrefmicrodata.csv")).schema
    assert {t: set(p) for t, p in casc.sums.items()} == {"PTOTVAL": {"PEARNVAL", "POTHVAL"}}
    assert casc.weight == "AFNLWGT"
    assert casc.id is None, "amounts that happen to be unique aren't ids"
    cps = suggest(sf.read(reference_data / "income/cps_taxunits_2013.csv")).schema
    assert set(cps.sums["wages"]) == {"wages_head", "wages_spouse"}
    assert len(cps.sums["total_income"]) == 10
    assert (cps.id, cps.household, cps.weight) == ("recid", "h_seq", "weight_x100")


def test_real_top_codes_and_geography(reference_data):
    ahs = suggest(sf.read(reference_data / "ahs/ahs_national_1989.csv")).schema
    assert ahs["MARKETVAL"].top == 350_000
    assert ahs.id == "CONTROL"
    acs = suggest(sf.read(reference_data / "census/acs2011_households.csv")).schema
    assert acs.geography == ("REGION", "DIVISION", "ST")
    assert acs.weight == "WGTP"
    deck = sf.decks.housing()
    found = suggest(deck.with_schema(sf.Schema())).schema
    assert found.id == deck.schema.id
    assert found.keys == deck.schema.keys
    assert found.sensitive == deck.schema.sensitive
    for column in deck.schema.sensitive:
        assert found[column].top == deck.schema[column].top


def test_what_the_file_says_is_kept(reference_data):
    data = sf.read(reference_data / "formats_argus/hhdata/Samhh.asc")
    found = suggest(data).schema
    assert (found.household, found.weight, found.keys) == ("hhnum", "weight", data.schema.keys)
    assert found["age"].missing == (99,)


# -- the plan's text ------------------------------------------------------------------------------

NAME = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=10)


@settings(max_examples=30)
@given(names=st.lists(NAME, min_size=4, max_size=4, unique=True), path=NAME)
def test_any_name_can_stand_in_a_plan(names, path):
    """Dots, spaces, quotes, line ends, other alphabets: the plan is TOML and means these columns."""
    frame = people(400).select("AGE", "SEX", "WAGES", "RENT")
    frame.columns = names
    found = suggest(frame)
    content = tomllib.loads(plan_text(path + ".csv", found))
    schema = sf.Schema.from_dict(content)
    assert schema.keys == found.schema.keys
    assert schema.sensitive == found.schema.sensitive
    for name, variable in schema.variables.items():
        for detail in ("kind", "missing", "top", "unit", "sum_of"):
            assert getattr(variable, detail) == getattr(found.schema[name], detail)
    for step in content.get("step", []):
        named = step.get("columns") or [step["column"]]
        assert set(named) <= set(names)


def test_a_plan_is_right_and_says_why():
    found = suggest(people())
    text = plan_text("people.csv", found)
    plan = sf.Plan.loads(text)
    assert plan.schema is not None
    assert plan.schema.sums == {"TOTINC": ("WAGES", "OTHERINC")}
    assert plan.release.drop == ("PERSONID",)
    assert plan.release.shuffle
    assert plan.release.format == "csv"
    assert not [p for p in plan.check(sf.Microdata(people())) if p.severity == "error"]
    for reason in (
        "an id: its values run",
        "the exact sum of WAGES, OTHERINC",
        "looks missing: 9999",
    ):
        assert reason in text


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"a": [1]}),
        pl.DataFrame({"a": ["x"]}),
        pl.DataFrame({"a": [None, None]}),
        pl.DataFrame({"a": [1.5, 2.5], "b": [True, False]}),
        pl.DataFrame({"id": [1, 2, 3]}),
        pl.DataFrame({"a": [7] * 100}),
    ],
)
def test_odd_files_get_a_plan_too(frame):
    plan = sf.Plan.loads(plan_text("x.parquet", suggest(frame)))
    assert not [p for p in plan.check(sf.Microdata(frame)) if p.severity == "error"]
    plan.run(frame, seed=1)
