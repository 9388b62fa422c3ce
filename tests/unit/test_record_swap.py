"""Targeted record swapping: risk by level, profiles, rate and tolerance, households whole."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.mask import Notes
from sfumato.errors import MaskError, ParameterError


def run(mask: sf.masks.base.Mask, data: sf.Microdata, seed: int = 1) -> tuple[pl.DataFrame, Notes]:
    masked, notes, checks = mask.carry_out(data, sf.Seed.from_int(seed).draws("swap"))
    assert all(c.ok for c in checks)
    return masked.frame, notes


def people(n_homes: int = 2_000, seed: int = 7) -> sf.Microdata:
    """Persons in households of one to four, in 3 × 4 × 5 nested areas."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 5, n_homes)
    home = np.repeat(np.arange(n_homes), size)
    ward = rng.integers(0, 60, n_homes)
    n = len(home)
    frame = pl.DataFrame(
        {
            "HH": home, "COUNTY": (ward // 20)[home], "TOWN": (ward // 5)[home], "WARD": ward[home],
            "TYPE": rng.integers(0, 4, n_homes)[home], "OWNER": rng.integers(0, 2, n_homes)[home],
            "GRID": (ward * 10 + rng.integers(0, 3, n_homes))[home],
            "AGE": rng.integers(0, 9, n), "SEX": rng.integers(0, 2, n),
            "ORIGIN": np.minimum(rng.geometric(0.7, n), 6),
        }
    ).sample(fraction=1, shuffle=True, seed=seed)  # fmt: skip
    schema = sf.Schema(household="HH", geography=["COUNTY", "TOWN", "WARD"], keys=["AGE", "SEX", "ORIGIN"])
    return sf.Microdata(frame, schema)


def swapped_homes(before: pl.DataFrame, after: pl.DataFrame) -> set[int]:
    return set(before.filter(before["WARD"] != after["WARD"])["HH"])


def test_the_rate_is_reached_and_households_move_whole():
    data = people()
    out, notes = run(sf.RecordSwap(similar=["TYPE"], rate_percent=10, tolerance=0), data)
    homes = swapped_homes(data.frame, out)
    assert len(homes) == notes.figures["households_swapped"] == 200
    assert out.group_by("HH").agg(pl.col("WARD").n_unique())["WARD"].max() == 1
    assert out.drop("COUNTY", "TOWN", "WARD").equals(data.frame.drop("COUNTY", "TOWN", "WARD"))


def test_every_high_risk_household_is_swapped_across_the_coarsest_level_at_which_it_is_risky():
    data = people()
    out, notes = run(sf.RecordSwap(tolerance=3, rate_percent=100, on_conflict="tolerance"), data)
    frame = data.frame
    keys = list(data.schema.keys)
    moved = {level: frame[level] != out[level] for level in data.schema.geography}
    seen = pl.Series([False] * len(frame))
    n = 0
    alone = set(notes.log.filter(pl.col("what") == "unmatched")["record"])
    assert not alone
    for level in data.schema.geography:
        rare = frame.with_columns(rare=pl.len().over([level, *keys]) < 3)
        risky = rare.select(pl.col("rare").any().over("HH")).to_series() & ~seen
        seen = seen | risky
        assert moved[level].filter(risky).all()
        assert frame.filter(risky)["HH"].n_unique() == notes.figures["high_risk"][level]
        n += notes.figures["high_risk"][level]
    assert n == notes.figures["high_risk_households"] == notes.figures["high_risk_swapped"] > 0


def test_the_persons_and_the_common_profile_of_every_area_are_kept():
    data = people()
    edit = sf.RecordSwap(similar=[["TYPE", "OWNER"], ["TYPE"]], rate_percent=60, tolerance=0)
    out, _ = run(edit, data)
    by = ["COUNTY", "TOWN", "WARD", "TYPE"]
    assert data.frame.group_by(by).len().sort(by).equals(out.group_by(by).len().sort(by))


def test_strict_profiles_come_first():
    # One strict partner exists for household 0; the loose one must be left alone.
    frame = pl.DataFrame({"W": [1, 2, 2], "A": [1, 1, 1], "B": [1, 1, 2], "K": [1, 2, 2]})
    edit = sf.RecordSwap(
        hierarchy=["W"], keys=["K"], similar=[["A", "B"], ["A"]], tolerance=2, rate_percent=67
    )
    out, notes = run(edit, sf.Microdata(frame))
    assert out["W"].to_list() == [2, 1, 2]
    assert notes.figures["households_by_profile"] == {"1": 2, "2": 0}
    edit = sf.RecordSwap(hierarchy=["W"], keys=["K"], similar=[["B", "A"]], tolerance=2, rate_percent=67)
    loose = frame.with_columns(B=pl.Series([7, 1, 2]))
    _, notes = run(edit, sf.Microdata(loose))
    assert notes.figures["high_risk_left"] == 1
    assert any("found no partner on any profile" in w for w in notes.warnings)
    both = sf.RecordSwap(hierarchy=["W"], keys=["K"], similar=[["B"], ["A"]], tolerance=2, rate_percent=67)
    _, notes = run(both, sf.Microdata(loose))
    assert notes.figures["households_by_profile"] == {"1": 0, "2": 2}


def test_a_partner_nearby_is_preferred():
    # Household 0 is risky in its ward only; wards 2 (same town) and 3 (another town) both have partners.
    frame = pl.DataFrame(
        {"T": [1, 1, 1, 2, 2, 1], "W": [1, 2, 2, 3, 3, 1], "K": [1, 1, 1, 1, 1, 2], "L": [0, 0, 0, 0, 0, 9]}
    )
    for seed in range(8):
        edit = sf.RecordSwap(
            hierarchy=["T", "W"], keys=["K"], similar=["L"], tolerance=2, rate_percent=34, on_conflict="rate"
        )
        out, _ = run(edit, sf.Microdata(frame), seed)
        assert out["T"].to_list() == frame["T"].to_list()
        assert out["W"][0] == 2


def test_a_rate_and_a_tolerance_that_contradict_each_other_are_refused_with_the_rate_that_would_do():
    data = people()
    with pytest.raises(
        MaskError, match=r"needs .* households .* swapped, but the rate of 2% allows 40"
    ) as caught:
        sf.RecordSwap(tolerance=3, rate_percent=2).mask(data, seed=1)
    hint = caught.value.hint or ""
    rate = float(hint.split("rate_percent to ")[1].split(" ")[0])
    _, notes = run(sf.RecordSwap(tolerance=3, rate_percent=rate), data, 1)
    assert notes.figures["high_risk_left"] == 0
    assert notes.figures["swapped_percent"] <= rate


def test_on_conflict_decides_for_one_of_them_and_says_so():
    data = people()
    _, notes = run(sf.RecordSwap(tolerance=3, rate_percent=2, on_conflict="rate"), data)
    assert notes.figures["households_swapped"] == 40
    assert any("only the riskiest" in w for w in notes.warnings)
    out, notes = run(sf.RecordSwap(tolerance=3, rate_percent=2, on_conflict="tolerance"), data)
    assert notes.figures["high_risk_left"] == 0
    assert len(swapped_homes(data.frame, out)) == notes.figures["households_swapped"] > 40
    assert any("all high-risk households are swapped" in w for w in notes.warnings)


def test_under_the_rate_the_riskiest_level_goes_first():
    data = people()
    _, notes = run(sf.RecordSwap(tolerance=3, rate_percent=2, on_conflict="rate"), data)
    frame, keys = data.frame, list(data.schema.keys)
    rare = frame.filter(pl.len().over(["COUNTY", *keys]) < 3)
    risky = rare["HH"].unique().cast(pl.String)
    swapped = notes.log.filter(pl.col("what") == "swapped")
    assert len(risky) >= 40
    # Each pair has at least one household that is risky at the coarsest level.
    ok = swapped["household"].is_in(risky.implode()) | swapped["partner"].is_in(risky.implode())
    assert ok.all()


def test_carried_columns_travel_with_the_place():
    data = people()
    edit = sf.RecordSwap(rate_percent=20, tolerance=0, carry_along=["GRID"])
    out, _ = run(edit, data)
    by = ["COUNTY", "TOWN", "WARD", "GRID"]
    assert data.frame.group_by(by).len().sort(by).equals(out.group_by(by).len().sort(by))
    assert (out["GRID"] // 10 == out["WARD"]).all()


def test_text_dates_and_missing_values_and_the_order_of_rows():
    frame = people(400).frame.with_columns(
        pl.col("WARD").cast(pl.String).cast(pl.Categorical),
        TYPE=pl.when(pl.col("HH") % 7 == 0).then(None).otherwise(pl.col("TYPE")),
        SINCE=pl.date(2001, 1, 1) + pl.duration(days=pl.col("HH") % 3),
        NAME=pl.lit("x") + pl.col("HH").cast(pl.String),
    )
    frame = frame.with_columns(WARD=pl.when(pl.col("HH") % 11 == 0).then(None).otherwise(pl.col("WARD")))
    data = sf.Microdata(frame, people(1).schema)
    out, _ = run(sf.RecordSwap(similar=[["TYPE", "SINCE"], ["SINCE"]], rate_percent=40, tolerance=0), data)
    assert out.schema == frame.schema
    assert out["NAME"].equals(frame["NAME"])
    assert out["WARD"].is_null().equals(frame["WARD"].is_null())


@pytest.mark.parametrize("rate", [0, 100])
def test_a_rate_of_0_and_of_100(rate: float):
    data = people(600)
    out, notes = run(sf.RecordSwap(rate_percent=rate, tolerance=0), data)
    assert notes.figures["households_swapped"] >= 6 * rate * 0.98
    assert (rate == 0) == out.equals(data.frame)


def test_one_area_alone_and_no_partner_anywhere_are_said():
    frame = pl.DataFrame({"W": [1] * 5, "K": [1, 2, 3, 4, 5]})
    out, notes = run(
        sf.RecordSwap(hierarchy=["W"], keys=["K"], tolerance=2, rate_percent=50), sf.Microdata(frame)
    )
    assert out.equals(frame)
    assert notes.figures["high_risk_left"] == 5
    assert notes.log.filter(pl.col("what") == "unmatched").height == 5
    assert any("instead of 50%" in w for w in notes.warnings)


def test_members_who_disagree_are_named():
    frame = pl.DataFrame({"HH": ["a", "a", "b", "b"], "W": [1, 2, 3, 3], "K": [1, 1, 1, 1]})
    with pytest.raises(MaskError, match=r"disagree on W \(records 1 and 2; 1 household in all\)"):
        sf.RecordSwap(household="HH", hierarchy=["W"], keys=["K"]).mask(frame, seed=1)
    fine = frame.with_columns(W=pl.Series([1, 1, 3, 3]), K=pl.Series([1, 2, 1, 1]))
    swap = sf.RecordSwap(household="HH", hierarchy=["W"], similar=["K"], tolerance=0)
    with pytest.raises(MaskError, match="disagree on K"):
        swap.mask(fine, seed=1)


def test_geography_given_fine_to_coarse_or_with_repeated_codes_is_said():
    data = people(300).with_schema(sf.Schema(household="HH"))
    _, notes = run(sf.RecordSwap(hierarchy=["WARD", "COUNTY"], tolerance=0), data)
    assert any("every WARD lies in one COUNTY" in w for w in notes.warnings)
    local = sf.Microdata(data.frame.with_columns(WARD=pl.col("WARD") % 5), sf.Schema(household="HH"))
    _, notes = run(sf.RecordSwap(hierarchy=["TOWN", "WARD"], tolerance=0, rate_percent=10), local)
    assert any("occur in more than one TOWN" in w for w in notes.warnings)


def test_a_level_left_behind_or_out_of_order_is_refused():
    data = people(50)
    with pytest.raises(MaskError, match="WARD stays while COUNTY"):
        sf.RecordSwap(hierarchy=["COUNTY", "TOWN"]).mask(data, seed=1)
    with pytest.raises(MaskError, match="order of the geography"):
        sf.RecordSwap(hierarchy=["TOWN", "COUNTY", "WARD"]).mask(data, seed=1)
    with pytest.raises(MaskError, match="no geography"):
        sf.RecordSwap().mask(pl.DataFrame({"A": [1]}), seed=1)


def test_within_keeps_a_stratum_closed():
    data = people().with_roles(geography=["TOWN", "WARD"])
    out, _ = run(sf.RecordSwap(within=["COUNTY"], rate_percent=30, tolerance=0), data)
    assert (
        data.frame.group_by("WARD", "COUNTY")
        .len()
        .sort("WARD")
        .equals(out.group_by("WARD", "COUNTY").len().sort("WARD"))
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate_percent": 101},
        {"tolerance": -1},
        {"hierarchy": ["W"], "within": ["W"]},
        {"hierarchy": ["W"], "carry_along": ["W"]},
        {"hierarchy": ["W"], "similar": ["W"]},
        {"on_conflict": "silently"},
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, object]):
    with pytest.raises(ParameterError):
        sf.RecordSwap(**wrong)


def test_without_keys_only_the_rate_decides_and_the_check_says_so():
    problems = sf.RecordSwap(hierarchy=["W"]).check(sf.Schema(), {"W": pl.Int64()})
    assert [p.severity for p in problems] == ["warning"]
