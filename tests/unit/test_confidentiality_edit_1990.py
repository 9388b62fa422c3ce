"""The 1990 confidentiality edit: the paper's example, its promises, and input it must not choke on."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.mask import Notes
from sfumato.errors import MaskError, ParameterError

KEYS = [
    "WHITES",
    "BLACKS",
    "INDIANS",
    "ASIANS",
    "OTHERS",
    "HISPANICS",
    "NONHISPANICS",
    "OVER18",
    "UNITS",
    "TRAILER",
]


def run(mask: sf.masks.base.Mask, data: sf.Microdata, seed: int = 1) -> tuple[pl.DataFrame, Notes]:
    masked, notes, checks = mask.carry_out(data, sf.Seed.from_int(seed).draws("edit"))
    assert all(c.ok for c in checks)
    return masked.frame, notes


def example_1() -> pl.DataFrame:
    """Moore's Example 1: two households that agree on the eleven keys, and one that doesn't."""
    same = {"WHITES": 9, "BLACKS": 0, "INDIANS": 0, "ASIANS": 0, "OTHERS": 0, "HISPANICS": 0}
    same |= {"NONHISPANICS": 9, "OVER18": 4, "UNITS": 2, "TRAILER": "NO", "STATE": "NJ"}
    return pl.DataFrame(
        [
            {
                "ID": "001",
                **same,
                "PLACE": "Princeton",
                "OCCUPATION": "Lawyer",
                "INCOME": 95_000,
                "VALUE": 250_000,
            },
            {
                "ID": "118",
                **same,
                "PLACE": "Trenton",
                "OCCUPATION": "Clerk",
                "INCOME": 25_000,
                "VALUE": 125_000,
            },
            {
                **{"ID": "200", **same},
                "WHITES": 8,
                "PLACE": "Newark",
                "OCCUPATION": "Cook",
                "INCOME": 1,
                "VALUE": 1,
            },
        ]
    )


def test_example_1_princeton_and_trenton_trade_places_and_nothing_else_moves():
    frame = example_1()
    edit = sf.ConfidentialityEdit1990(match_on=KEYS, swap=["PLACE"], within=["STATE"], rate_percent=100)
    out, notes = run(edit, sf.Microdata(frame))
    assert out["PLACE"].to_list() == ["Trenton", "Princeton", "Newark"]
    assert out.drop("PLACE").equals(frame.drop("PLACE"))
    assert notes.figures["unmatched"] == 1
    assert notes.log is not None
    assert notes.log.filter(pl.col("what") == "unmatched")["record"].to_list() == [2]


def test_a_sampled_household_takes_a_partner_outside_the_sample_if_the_sample_has_none():
    # One of two is drawn (50%), so the partner can only be the one outside.
    edit = sf.ConfidentialityEdit1990(match_on=KEYS, swap=["PLACE"], within=["STATE"], rate_percent=50)
    out, notes = run(edit, sf.Microdata(example_1()[:2]))
    assert out["PLACE"].to_list() == ["Trenton", "Princeton"]
    assert (
        notes.figures["sampled"],
        notes.figures["matched_in_sample"],
        notes.figures["matched_outside"],
    ) == (1, 0, 1)
    assert notes.figures["matched_percent"] == 100


def test_everyone_sampled_is_matched_inside_the_sample_first():
    data = sf.decks.households(4_000)
    _, notes = run(sf.ConfidentialityEdit1990(rate_percent=100), data)
    assert notes.figures["matched_outside"] == 0
    assert notes.figures["sampled"] == 4_000


def test_the_schema_fills_in_the_eleven_keys_the_state_and_the_geography_below_it():
    data = sf.decks.households(6_000)
    before = data.frame
    edit = sf.ConfidentialityEdit1990(rate_percent=5)
    out, notes = run(edit, data)
    assert list(edit.changes(data)) == ["COUNTY", "TRACT", "BLOCK"]
    keys = list(data.schema.keys)
    moved = before["BLOCK"] != out["BLOCK"]
    assert moved.sum() == notes.figures["households_swapped"] > 0
    # Every count of the eleven keys in every area, at every level.
    for level in ("COUNTY", "TRACT", "BLOCK"):
        one = before.group_by([*keys, level]).len().sort([*keys, level])
        assert one.equals(out.group_by([*keys, level]).len().sort([*keys, level]))
    # Codes stay nested: a block keeps its tract and county.
    assert (
        out.select("COUNTY", "TRACT", "BLOCK").unique().height
        <= before.select("COUNTY", "TRACT", "BLOCK").unique().height
    )
    # The sum is over all households within one state.
    assert before["STATE"].equals(out["STATE"])
    assert notes.figures["sampled"] == pytest.approx(300, abs=len(before["STATE"].unique()))


def test_partners_agree_on_the_keys_differ_in_area_and_nobody_is_used_twice():
    data = sf.decks.households(5_000)
    _, notes = run(sf.ConfidentialityEdit1990(rate_percent=10), data)
    log = notes.log.filter(pl.col("what") == "swapped")
    pairs = dict(zip(log["household"], log["partner"], strict=True))
    assert all(pairs[b] == a for a, b in pairs.items())
    assert len(pairs) == log.height
    frame = data.frame.with_columns(pl.col("HHID").cast(pl.String))
    left = log.select("household").join(
        frame, left_on="household", right_on="HHID", how="left", maintain_order="left"
    )
    right = log.select("partner").join(
        frame, left_on="partner", right_on="HHID", how="left", maintain_order="left"
    )
    keys = list(data.schema.keys)
    assert left.select(keys).equals(right.select(keys))
    assert (left["BLOCK"] != right["BLOCK"]).all()


def test_elsewhere_asks_for_another_area_of_a_coarser_level():
    data = sf.decks.households(8_000)
    _, notes = run(sf.ConfidentialityEdit1990(rate_percent=2, elsewhere="TRACT"), data)
    log = notes.log.filter(pl.col("what") == "swapped")
    tract = dict(zip(data.frame["HHID"].cast(pl.String), data.frame["TRACT"], strict=True))
    assert log.height > 100
    assert all(tract[a] != tract[b] for a, b in log.select("household", "partner").iter_rows())


def test_small_areas_are_drawn_at_their_own_rate():
    data = sf.decks.households(8_000)
    edit = sf.ConfidentialityEdit1990(
        rate_percent=0, small_area="BLOCK", small_area_size=4, small_area_rate_percent=100
    )
    _, notes = run(edit, data)
    sizes = data.frame.group_by("BLOCK").len()
    small = sizes.filter(pl.col("len") < 4)
    assert notes.figures["sampled"] == small["len"].sum() > 0


def test_persons_of_a_household_move_together():
    homes = sf.decks.households(2_000).frame
    size = homes["SIZE"].to_numpy()
    rows = np.repeat(np.arange(len(homes)), size)
    people = homes[rows].with_columns(PERSON=pl.Series(np.arange(len(rows))))
    # Shuffled, so that members don't stand side by side.
    people = people.sample(fraction=1, shuffle=True, seed=4)
    data = sf.Microdata(people, sf.decks.households(1).schema.with_roles(id=None))
    out, notes = run(sf.ConfidentialityEdit1990(rate_percent=10), data)
    assert notes.figures["households"] == 2_000
    assert out.group_by("HHID").agg(pl.col("BLOCK").n_unique())["BLOCK"].max() == 1
    assert (out["BLOCK"] != people["BLOCK"]).sum() > 100
    by = ["BLOCK", *data.schema.keys]
    assert people.group_by(by).len().sort(by).equals(out.group_by(by).len().sort(by))


def test_households_whose_members_disagree_are_named():
    people = pl.DataFrame({"HH": ["a", "a", "b"], "K": [1, 2, 1], "S": [1, 1, 1], "P": [1, 1, 2]})
    edit = sf.ConfidentialityEdit1990(match_on=["K"], swap=["P"], within=["S"], household="HH")
    with pytest.raises(MaskError, match=r"disagree on K \(records 1 and 2"):
        edit.mask(people, seed=1)


@pytest.mark.parametrize("rate", [0, 100])
def test_a_rate_of_0_changes_nothing_and_100_samples_all(rate: float):
    data = sf.decks.households(1_000)
    out, notes = run(sf.ConfidentialityEdit1990(rate_percent=rate), data)
    assert notes.figures["sampled"] == rate * 10
    assert (rate == 0) == out.equals(data.frame)


def test_a_state_with_one_block_has_nowhere_to_go_and_says_so():
    frame = pl.DataFrame({"S": [1] * 4 + [2] * 4, "P": [7] * 4 + [1, 2, 1, 2], "K": [0] * 8})
    edit = sf.ConfidentialityEdit1990(match_on=["K"], swap=["P"], within=["S"], rate_percent=100)
    out, notes = run(edit, sf.Microdata(frame))
    assert out["P"].to_list() == [7] * 4 + [2, 1, 2, 1]
    assert notes.figures["unmatched"] == 4
    assert any("1 strata have a single area" in w for w in notes.warnings)
    assert notes.log.filter(pl.col("what") == "unmatched")["record"].to_list() == [0, 1, 2, 3]


def test_no_partner_anywhere_and_unique_keys_are_said():
    frame = pl.DataFrame({"K": list(range(10)), "P": [1, 2] * 5})
    edit = sf.ConfidentialityEdit1990(match_on=["K"], swap=["P"], within=[], rate_percent=100)
    out, notes = run(edit, sf.Microdata(frame))
    assert out.equals(frame)
    assert any("no two households share their keys" in w for w in notes.warnings)
    frame = pl.DataFrame({"K": [1] * 3 + [2] * 3, "P": [1] * 3 + [2] * 3})
    _, notes = run(edit, sf.Microdata(frame))
    assert any("nobody has a partner elsewhere" in w for w in notes.warnings)


def test_missing_geography_stays_where_it_is():
    frame = pl.DataFrame({"K": [1] * 6, "P": ["a", None, "b", "a", None, "b"]})
    edit = sf.ConfidentialityEdit1990(match_on=["K"], swap=["P"], within=[], rate_percent=100)
    out, notes = run(edit, sf.Microdata(frame))
    assert out["P"].is_null().to_list() == frame["P"].is_null().to_list()
    assert notes.figures["households_without_geography"] == 2
    assert notes.figures["sampled"] == 4


def test_codes_that_dont_nest_are_said():
    frame = pl.DataFrame({"K": [1] * 4, "COUNTY": [1, 1, 2, 2], "TRACT": [10, 11, 10, 12]})
    edit = sf.ConfidentialityEdit1990(match_on=["K"], swap=["COUNTY", "TRACT"], within=[], rate_percent=100)
    _, notes = run(edit, sf.Microdata(frame))
    assert any("1 codes of TRACT occur in more than one COUNTY" in w for w in notes.warnings)


def test_a_level_that_would_stay_behind_is_refused():
    schema = sf.Schema(geography=["S", "COUNTY", "TRACT"], keys=["K"])
    frame = pl.DataFrame({"S": [1, 1], "COUNTY": [1, 2], "TRACT": [3, 4], "K": [0, 0]})
    with pytest.raises(MaskError, match="TRACT lies below COUNTY"):
        sf.ConfidentialityEdit1990(swap=["COUNTY"]).mask(sf.Microdata(frame, schema), seed=1)
    with pytest.raises(MaskError, match="COUNTY stays while TRACT"):
        sf.ConfidentialityEdit1990(swap=["TRACT"], within=["S"]).mask(sf.Microdata(frame, schema), seed=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate_percent": 101},
        {"rate_percent": -1},
        {"small_area_size": 3},
        {"small_area": "P"},
        {"swap": ["P"], "match_on": ["P"]},
        {"selection": "independent", "elsewhere": "P"},
        {"selection": "poisson"},
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, object]):
    with pytest.raises(ParameterError):
        sf.ConfidentialityEdit1990(**wrong)


def test_nothing_to_swap_is_said_with_a_hint():
    with pytest.raises(MaskError, match="no geography to swap"):
        sf.ConfidentialityEdit1990(match_on=["K"]).mask(pl.DataFrame({"K": [1, 1]}), seed=1)


def test_the_permutation_variant_reports_epsilon_and_its_invariants():
    data = sf.decks.households(5_000)
    out, notes = run(sf.ConfidentialityEdit1990(selection="independent", rate_percent=60), data)
    by = ["STATE", *data.schema.keys[1:]]
    largest = data.frame.group_by(by).len()["len"].max()
    z = 0.4 / 0.6
    assert notes.figures["largest_stratum"] == largest
    assert notes.figures["epsilon"] == pytest.approx(
        np.log(1 + 2 * largest * z + largest * (largest - 1) * z * z)
    )
    assert notes.figures["epsilon"] <= 2 * notes.figures["epsilon_per_record"]
    text = " ".join(notes.figures["invariants"])
    assert "BLOCK" in text
    assert "is exact" in text
    assert f"{largest:,}" in notes.figures["epsilon_in_words"]
    table = ["BLOCK", *by]
    assert data.frame.group_by(table).len().sort(table).equals(out.group_by(table).len().sort(table))
    assert notes.figures["households_with_another_area"] == (out["BLOCK"] != data.frame["BLOCK"]).sum()


def test_epsilon_is_the_worst_over_small_and_other_areas():
    frame = pl.DataFrame({"K": [1] * 12, "P": [1] * 10 + [2, 3]})
    edit = sf.ConfidentialityEdit1990(
        match_on=["K"], swap=["P"], within=[], selection="independent",
        rate_percent=30, small_area_size=5, small_area_rate_percent=90,
    )  # fmt: skip
    _, notes = run(edit, sf.Microdata(frame))
    assert notes.figures["epsilon"] == pytest.approx(sf_epsilon(12, 0.3))


def sf_epsilon(size: int, rate: float) -> float:
    z = (1 - rate) / rate
    return float(np.log(1 + 2 * size * z + size * (size - 1) * z * z))


def test_a_plan_check_warns_of_a_weak_promise():
    edit = sf.ConfidentialityEdit1990(match_on=["K"], swap=["P"], selection="independent", rate_percent=1)
    problems = edit.check(sf.Schema(), {"K": pl.Int64(), "P": pl.Int64()})
    assert [p.severity for p in problems] == ["warning"]
    assert "weak formal promise" in problems[0].message
