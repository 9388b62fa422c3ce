"""The 2000 confidentiality edit: the paper's examples, the housing deck's figures, and bad input."""

from __future__ import annotations

import dataclasses
from itertools import permutations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.mask import Notes
from sfumato.errors import MaskError, ParameterError
from sfumato.stats.acceptable_bias import acceptable_range, share_to_keep
from sfumato.utility.bias import bias_of_means

KEYS = ["REGION", "BEDROOMS", "BATHS", "YR_BLT"]


def run(mask: sf.masks.base.Mask, data: sf.Microdata, seed: int = 1) -> tuple[pl.DataFrame, Notes]:
    masked, notes, checks = mask.carry_out(data, sf.Seed.from_int(seed).draws("edit"))
    assert all(c.ok for c in checks)
    return masked.frame, notes


@pytest.fixture(scope="module")
def deck() -> sf.Microdata:
    return sf.decks.housing()


EXAMPLE_4 = {
    "State": ["NJ", "NJ"], "Whites": [9, 10], "Blacks": [10, 0], "Place": ["Trent", "Prince"],
    "Income": [100, 250], "Home": [150, 400],
}  # fmt: skip
BY_METHOD = {
    "geography": {"Place": ["Prince", "Trent"]},
    "sensitive": {"Income": [250, 100], "Home": [400, 150]},
    "first_key": {"Whites": [10, 9]},
}


@pytest.mark.parametrize("method", ["geography", "sensitive", "first_key"])
def test_example_4_swaps_what_the_paper_swaps(method: str):
    schema = sf.Schema(keys=["Whites", "Blacks"], sensitive=["Income", "Home"], geography=["State", "Place"])
    data = sf.Microdata(pl.DataFrame(EXAMPLE_4), schema)
    edit = sf.ConfidentialityEdit2000(swap=method, tolerance=2, order=["Whites", "Blacks"])
    out, notes = run(edit, data)
    assert out.to_dict(as_series=False) == {**EXAMPLE_4, **BY_METHOD[method]}
    assert notes.figures["records_changed"] == 2
    assert any("protects least" in w for w in notes.warnings) == (method == "first_key")


def test_the_range_of_section_xi():
    low, high = acceptable_range(11_369, 16_572, n_s=582, n=64_998, p=10, f=0.01)
    assert low == pytest.approx(0.1, abs=0.011)
    assert high == pytest.approx(20.67, abs=0.005)  # printed as 20


def records_changed(share, changed, helpers):
    """T(x) = x(2 − x)(T − 2N) + 2xN, the relation behind Theorem A.3: T records change at share 1, N of them
    from classes above tolerance."""
    return share * (2 - share) * (changed - 2 * helpers) + 2 * share * helpers


def test_theorem_a3_and_the_records_it_expects():
    share = share_to_keep(2 / 3, 582, 109)
    assert share == pytest.approx(0.3105, abs=5e-5)
    assert np.sqrt(share) == pytest.approx(0.56, abs=0.005)  # the printed p'
    assert records_changed(share, 582, 109) == pytest.approx(582 * 4 / 9)
    assert records_changed(1.0, 582, 109) == 582
    assert records_changed(4 / 9, 582, 109) == pytest.approx(348.5, abs=0.05)
    # All pairs mixed (T = 2N): then the theorems agree.
    assert share_to_keep(0.5, 200, 100) == pytest.approx(0.25)


def test_the_deck_has_the_papers_order_and_every_unique_is_swapped(deck: sf.Microdata):
    out, notes = run(sf.ConfidentialityEdit2000(tolerance=2, order_by="INCOME"), deck)
    assert notes.figures["order"] == ["BATHS", "BEDROOMS", "YR_BLT", "REGION"]
    assert notes.figures["classes_below_tolerance"] == 473
    assert notes.figures["records_changed"] == 582
    assert notes.figures["records_from_larger_classes"] == 109
    assert notes.figures["tolerance_failures_left"] == 0
    sizes = deck.frame.select(pl.len().over(KEYS))["len"]
    moved = out["REGION"] != deck.frame["REGION"]
    assert moved.filter(sizes == 1).all()
    assert moved.sum() == 582
    assert notes.log.height == 582


@pytest.mark.parametrize("order", [list(o) for o in permutations(KEYS)][::5])
def test_every_class_below_tolerance_is_touched_in_any_order(deck: sf.Microdata, order: list[str]):
    out, notes = run(sf.ConfidentialityEdit2000(tolerance=3, order=order), deck)
    frame = deck.frame.with_columns(moved=out["REGION"] != deck.frame["REGION"], size=pl.len().over(KEYS))
    touched = frame.filter(pl.col("size") < 3).group_by(KEYS).agg(pl.col("moved").any())
    assert touched.height == 622
    assert touched["moved"].all()
    assert notes.figures["tolerance_failures_left"] == 0


def test_the_search_is_no_worse_than_the_greedy_order(deck: sf.Microdata):
    """Checked with an accounting of its own: pairs from the log, class means by bincount."""
    levels = [["REGION", *more] for more in ([], ["BATHS"], ["BEDROOMS"], ["YR_BLT"])]
    levels += [["REGION", "BATHS", "BEDROOMS"], ["REGION", "YR_BLT", "BEDROOMS"], KEYS]
    x = deck.numbers("INCOME")
    found = {}
    for order in ("near_optimal", "search"):
        edit = sf.ConfidentialityEdit2000(tolerance=2, order=order, levels=levels)
        _, notes = run(edit, deck)
        partner = np.arange(len(deck))
        place = dict(zip(deck.frame["IDNUM"], range(len(deck)), strict=True))
        for record, other in notes.log.select("record", "partner").iter_rows():
            partner[record] = place[other]
        found[order] = np.mean([bias_of_means(x, x[partner], deck.codes(level)[0])[0] for level in levels])
        if order == "search":
            assert notes.figures["orders_tried"] == 24
            mean = np.nanmean(x)
            assert notes.figures["average_bias_found"] == pytest.approx(100 * found["search"] / mean)
            assert notes.figures["average_bias_near_optimal"] == pytest.approx(
                100 * found["near_optimal"] / mean
            )
    assert found["search"] <= found["near_optimal"] * (1 + 1e-12)


def test_many_keys_are_searched_locally_and_never_worse():
    data = sf.decks.households(3_000)
    edit = sf.ConfidentialityEdit2000(
        order="search", order_by="INCOME", search_orders=30, keys=[*data.schema.keys[1:], "TRACT"],
        geography=["COUNTY", "TRACT", "BLOCK"], within=["STATE"],
    )  # fmt: skip
    _, notes = run(edit, data.with_roles(household=None))
    assert notes.figures["orders_tried"] <= 31
    assert notes.figures["average_bias_found"] <= notes.figures["average_bias_near_optimal"]
    assert sorted(notes.figures["order"]) == sorted([*data.schema.keys[1:], "TRACT"])


def test_a_window_of_similar_partners_lowers_the_bias(deck: sf.Microdata):
    gain = []
    for seed in range(4):
        _, notes = run(sf.ConfidentialityEdit2000(tolerance=2, window=16), deck, seed)
        gain.append(notes.figures["percentage_bias"] / notes.figures["percentage_bias_of_next_record"])
        assert notes.figures["tolerance_failures_left"] == 0
    assert max(gain) < 0.8  # 0.5 on average


def test_the_edit_tunes_itself_below_a_limit(deck: sf.Microdata):
    edit = sf.ConfidentialityEdit2000(tolerance=2, f=0.004)
    _, notes = run(edit, deck)
    figures = notes.figures
    assert figures["bias_before_tuning_percent"] > figures["bias_limit_percent"]
    assert figures["percentage_bias"] < figures["bias_limit_percent"]
    # The bisection ends near the limit, not far below it.
    assert figures["percentage_bias"] > 0.8 * figures["bias_limit_percent"]
    assert 0 < figures["share_by_theorem_a3"] < figures["share_by_theorem_a2"] < 1
    assert any("only" in w and "are swapped" in w for w in notes.warnings)


def test_a_limit_that_is_kept_anyway_changes_nothing(deck: sf.Microdata):
    one, notes = run(sf.ConfidentialityEdit2000(tolerance=2, f=1.0), deck)
    assert notes.figures["share_of_classes_percent"] == 100
    assert one.equals(run(sf.ConfidentialityEdit2000(tolerance=2), deck)[0])


def test_a_sample_of_zero_changes_nothing(deck: sf.Microdata):
    out, notes = run(sf.ConfidentialityEdit2000(sample_percent=0), deck)
    assert out.equals(deck.frame)
    assert notes.figures["tolerance_failures_left"] == 622


def test_method_2_leaves_missing_values_alone_and_keeps_each_column(deck: sf.Microdata):
    out, notes = run(sf.ConfidentialityEdit2000(swap="sensitive"), deck)
    for column in deck.schema.sensitive:
        assert out[column].is_null().equals(deck.frame[column].is_null())
        assert out[column].sort().equals(deck.frame[column].sort())
    assert out.select(KEYS).equals(deck.frame.select(KEYS))
    # Only classes that report nothing at all can be without a partner.
    alone = notes.log.filter(pl.col("what") == "unmatched")["record"].to_list()
    nothing = deck.frame.select(pl.all_horizontal(pl.col(list(deck.schema.sensitive)).is_null())).to_series()
    assert nothing.gather(alone).all()
    assert notes.figures["classes_without_partner"] == len(alone)


def test_nothing_crosses_the_state_and_sub_state_codes_move_as_one():
    data = sf.decks.households(6_000).with_roles(household=None)
    out, notes = run(
        sf.ConfidentialityEdit2000(order_by="INCOME", keys=["N_WHITE", "N_OVER18", "N_FAMILIES"]), data
    )
    before = data.frame
    assert out["STATE"].equals(before["STATE"])
    codes = ["STATE", "COUNTY", "TRACT", "BLOCK"]
    assert before.group_by(codes).len().sort(codes).equals(out.group_by(codes).len().sort(codes))
    assert notes.figures["records_changed"] > 0


def test_keys_that_are_unique_for_every_record_are_said():
    n = 300
    frame = pl.DataFrame({"K": np.arange(n), "R": np.arange(n) % 3, "X": np.arange(n) * 1.0})
    data = sf.Microdata(frame, sf.Schema(keys=["K"], geography=["R"], sensitive=["X"]))
    out, notes = run(sf.ConfidentialityEdit2000(tolerance=2), data)
    assert any("100% of the records are below tolerance" in w for w in notes.warnings)
    assert (out["R"] != frame["R"]).sum() == n


def test_where_everybody_has_the_same_geography_nothing_can_be_swapped():
    frame = pl.DataFrame({"K": [1, 1, 2, 3], "R": [5] * 4, "X": [1.0, 2, 3, 4]})
    data = sf.Microdata(frame, sf.Schema(keys=["K"], geography=["R"], sensitive=["X"]))
    out, notes = run(sf.ConfidentialityEdit2000(tolerance=2), data)
    assert out.equals(frame)
    assert notes.figures["classes_without_partner"] == 2
    assert notes.log.filter(pl.col("what") == "unmatched")["record"].to_list() == [2, 3]


def test_a_far_partner_is_found_where_all_neighbours_share_the_geography():
    n = 1_000
    frame = pl.DataFrame({"K": np.arange(n), "R": np.r_[np.zeros(n - 5), np.ones(5)].astype(int)})
    data = sf.Microdata(frame, sf.Schema(keys=["K"], geography=["R"]))
    out, notes = run(sf.ConfidentialityEdit2000(tolerance=2, order=["K"]), data)
    assert notes.figures["classes_without_partner"] == n - 10
    assert (out["R"] != frame["R"]).sum() == 10


def test_missing_keys_are_a_class_but_never_move():
    frame = pl.DataFrame({"A": [1, None, 2, 2, None, 3], "B": [1, 1, 1, 1, 2, 2], "X": [1.0] * 6})
    data = sf.Microdata(frame, sf.Schema(keys=["A", "B"], sensitive=["X"]))
    out, notes = run(sf.ConfidentialityEdit2000(swap="first_key", tolerance=2, order=["A", "B"]), data)
    assert out["A"].is_null().equals(frame["A"].is_null())
    assert notes.figures["classes_below_tolerance"] == 4


def test_a_household_torn_apart_is_refused():
    frame = pl.DataFrame({"H": [1, 1, 2], "K": [1, 2, 3], "R": [1, 1, 2], "X": [1, 2, 3]})
    schema = sf.Schema(keys=["K"], geography=["R"], sensitive=["X"], household="H")
    with pytest.raises(MaskError, match="torn apart"):
        sf.ConfidentialityEdit2000().mask(sf.Microdata(frame, schema), seed=1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"order": "optimal"}, "can't be 'optimal'"),
        ({"order": ["A", "A"]}, "twice"),
        ({"tolerance": 0}, "at least 1"),
        ({"sample_percent": 101}, "at most 100"),
        ({"swap": "region"}, "must be one of"),
        ({"window": 0}, "at least 1"),
        ({"f": 0}, "above 0"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, object], message: str):
    with pytest.raises(ParameterError, match=message):
        sf.ConfidentialityEdit2000(**wrong)


@pytest.mark.parametrize(
    ("schema", "parameters", "message"),
    [
        ({"geography": ["R"], "sensitive": ["X"]}, {}, "no keys"),
        ({"keys": ["K"], "geography": ["R"]}, {}, "needs a continuous variable"),
        ({"keys": ["K"], "geography": ["R"]}, {"order": ["K"], "f": 0.1}, "needs a continuous variable"),
        ({"keys": ["K"], "sensitive": ["X"]}, {}, "nothing to swap"),
        (
            {"keys": ["K", "R"], "geography": ["R"], "sensitive": ["X"]},
            {"order": ["K"]},
            "must list the keys",
        ),
        ({"keys": ["K"], "geography": ["R"], "sensitive": ["T"]}, {}, "needs numbers"),
        ({"keys": ["K"], "geography": ["R"], "sensitive": ["X"]}, {"levels": [["Z"]]}, "Z"),
        (
            {"keys": ["K"], "geography": ["R", "S"], "sensitive": ["X"]},
            {"geography": ["R"]},
            "must move along",
        ),
    ],
)
def test_what_the_schema_cant_carry_is_said_before_anything_runs(
    schema: dict[str, list[str]], parameters: dict[str, object], message: str
):
    frame = pl.DataFrame(
        {"K": [1, 2], "R": [1, 2], "S": [1, 2], "X": [1.0, 2.0], "T": ["a", "b"], "Z": [1, 2]}
    )
    with pytest.raises(MaskError, match=message):
        sf.ConfidentialityEdit2000(**parameters).mask(sf.Microdata(frame, sf.Schema(**schema)), seed=1)


def test_an_unwise_choice_is_a_warning_not_an_error():
    schema = sf.Schema(keys=["K"], sensitive=["X"])
    types = {"K": pl.Int64(), "X": pl.Float64()}
    for edit in (
        sf.ConfidentialityEdit2000(swap="first_key"),
        sf.ConfidentialityEdit2000(swap="sensitive", window=8),
    ):
        assert [p.severity for p in edit.check(schema, types)] == ["warning"]


def test_a_limit_on_the_bias_of_a_constant_or_missing_variable() -> None:
    rng = np.random.default_rng(0)
    keys = {"G": rng.integers(0, 5, 200), "A": rng.integers(0, 30, 200)}
    edit = sf.ConfidentialityEdit2000(keys=["A"], geography=["G"], order_by="X", tolerance=9, f=0.01)
    constant = pl.DataFrame({**keys, "X": [5.0] * 200})
    # Swapping can't bias a constant, so the limit takes nothing away.
    freely = dataclasses.replace(edit, f=None).mask(constant, seed=1, common_random_numbers=True).frame
    assert not freely["G"].equals(constant["G"])
    assert edit.mask(constant, seed=1, common_random_numbers=True).frame.equals(freely)
    gone = constant.with_columns(X=pl.lit(None, dtype=pl.Float64))
    with pytest.raises(MaskError, match="zero or missing"):
        edit.mask(gone, seed=1)
