"""Count-preserving swaps: the paper's example, rates, missing keys, bad input."""

from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.guarantees import SameTable
from sfumato.draws import Seed

# Moore (1996), section VI: race swapped within occupation, then occupation within race.
RACE = [list("WWBBBBWW"), list("BWBWBWWB"), list("BWBWBWWB")]
OCCUPATION = [["Clerk"] * 4 + ["Exec"] * 4, ["Clerk"] * 4 + ["Exec"] * 4]
OCCUPATION.append(["Clerk", "Exec", "Exec", "Clerk", "Clerk", "Clerk", "Exec", "Exec"])
SALARY = [10000, 12000, 11000, 11000, 70000, 75000, 65000, 80000]
STAGES = [
    sf.Microdata(pl.DataFrame({"RACE": race, "OCCUPATION": occupation, "SALARY": SALARY}))
    for race, occupation in zip(RACE, OCCUPATION, strict=True)
]
KEYS = ("RACE", "OCCUPATION")
PUBLISHED_SEED = 2095  # one in 6⁴ = 1,296 gives the published file


def test_the_papers_own_swap_keeps_its_table_at_each_stage():
    for stage in STAGES[1:]:
        assert SameTable(KEYS).check(STAGES[0], stage).ok
    # Statistics with other variables are altered: clerks earned 11,000 on average.
    pay = [
        s.frame.group_by("OCCUPATION").agg(pl.col("SALARY").mean()).sort("OCCUPATION")["SALARY"]
        for s in STAGES
    ]
    assert pay[0].to_list() == [11_000, 72_500]
    assert pay[2].to_list() == [41_500, 42_000]


def test_some_seed_makes_the_papers_swap():
    # Half of each class of four changes hands: one pair of six in each of the four classes.
    mask = sf.TOrderSwap(keys=KEYS, rate_percent=50)
    masked = mask.mask(STAGES[0], seed=PUBLISHED_SEED)
    assert masked.frame.equals(STAGES[2].frame)


def test_half_of_each_class_moves():
    data = STAGES[0]
    _, notes, checks = sf.TOrderSwap(keys=KEYS, rate_percent=50).carry_out(data, Seed.from_int(3).draws("t"))
    assert all(c.ok for c in checks)
    assert notes.figures["records_moved"] == {"RACE": 4, "OCCUPATION": 4}
    assert notes.figures["classes"] == {"RACE": 2, "OCCUPATION": 2}


def test_at_least_two_of_a_class_move_at_any_rate_above_zero():
    data = pl.DataFrame({"A": [1, 2, 3, 4], "B": [1, 1, 1, 1]})
    masked = sf.TOrderSwap(keys=["A"], rate_percent=0.1).mask(data, seed=1).frame
    assert (masked["A"] != data["A"]).sum() == 2


def test_records_with_a_missing_key_stay():
    data = sf.Microdata(
        pl.DataFrame({"A": [1, 2, None, 4, -9], "B": ["x"] * 5}),
        sf.Schema(variables={"A": {"missing": [-9]}}),
    )
    for seed in range(5):
        masked, notes, _ = sf.TOrderSwap(keys=["A", "B"]).carry_out(data, Seed.from_int(seed).draws("t"))
        assert masked.frame["A"][2] is None
        assert masked.frame["A"][4] == -9
        assert notes.figures["records_with_missing_key"] == 2
        assert sorted(masked.frame["A"].gather([0, 1, 3])) == [1, 2, 4]


def test_keys_so_fine_that_nothing_can_move_are_said():
    data = sf.Microdata(pl.DataFrame({"A": [1, 2, 3], "B": [4, 5, 6]}))
    masked, notes, _ = sf.TOrderSwap(keys=["A", "B"]).carry_out(data, Seed.from_int(1).draws("t"))
    assert masked.frame.equals(data.frame)
    assert "no key changed" in notes.warnings[0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"keys": []}, "at least one column"),
        ({"keys": ["A", "A"]}, "names A twice"),
        ({"keys": ["A"], "within": ["A"]}, "within itself"),
        ({"keys": ["A"], "rate_percent": 101}, "at most 100"),
        ({"keys": ["A"], "rate_percent": -1}, "at least 0"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    with pytest.raises(sf.errors.ParameterError, match=message):
        sf.TOrderSwap(**parameters)


def test_an_unknown_key_is_named():
    with pytest.raises(sf.errors.MaskError, match="'AGE'"):
        sf.TOrderSwap(keys=["AGE"]).mask(pl.DataFrame({"AGES": [1, 2]}), seed=1)
