"""Who lives together: an attack by households, and a release that doesn't tell households it drops."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.release.order import release_order


def homes(n: int = 250, seed: int = 1) -> sf.Microdata:
    """Households of one to five members of twelve ages and two sexes, in ten areas."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 6, n)
    home = np.repeat(np.arange(n), size)
    people = len(home)
    frame = pl.DataFrame(
        {
            "HOME": home,
            "AREA": np.repeat(rng.integers(0, 10, n), size).astype(str),
            "AGE": rng.choice([f"{a}-" for a in range(0, 60, 5)], people),
            "SEX": rng.choice(["f", "m"], people),
        }
    )
    return sf.Microdata(frame, sf.Schema(household="HOME", keys=["AGE", "SEX"], geography=["AREA"]))


def by_members(original: sf.Microdata, masked: sf.Microdata) -> float:
    """By hand: a draw among the released persons of the same age and sex whose household's members are the
    same."""
    sides = []
    for data in (original, masked):
        person = data.frame.select(pl.col("AGE") + pl.col("SEX")).to_series().to_list()
        members: dict[int, list[str]] = {}
        for home, one in zip(data.frame["HOME"], person, strict=True):
            members.setdefault(home, []).append(one)
        own = zip(person, data.frame["HOME"], strict=True)
        sides.append([(one, tuple(sorted(members[home]))) for one, home in own])
    counts = pl.Series([str(s) for s in sides[1]]).value_counts().rows()
    number = dict(counts)
    return float(
        np.mean([(a == b) / number[str(a)] if str(a) in number else 0 for a, b in zip(*sides, strict=True)])
    )


def test_areas_that_were_swapped_do_not_hide_a_household() -> None:
    data = homes()
    step = sf.RecordSwap(hierarchy=["AREA"], keys=["AGE", "SEX"], rate_percent=60, on_conflict="rate")
    masked = step.mask(data, seed=1)
    alone = sf.AgreementAttack(known=["AGE", "SEX", "AREA"]).measure(data, masked)
    found = sf.HouseholdAttack(known=["AGE", "SEX", "AREA"]).measure(data, masked)
    assert found.rate >= by_members(data, masked) - 0.01
    assert found.rate > 2 * alone.rate
    assert found.keep["AGE"] > 0.95


def test_the_battery_tries_it_where_households_are_released_and_only_there() -> None:
    data = homes(80)
    masked = sf.Pram(columns=["AGE"], keep_probability=0.8).mask(data, seed=1)
    assert "household_attack" in {t.attack.name for t in sf.run_battery(data, masked).tried}
    without = masked.with_frame(masked.frame.drop("HOME"))
    assert "household_attack" not in {t.attack.name for t in sf.run_battery(data, without).tried}
    limits = {"battery.rate": {"at_most": 1.0}}
    kept, dropped = (
        sf.Plan(limits=limits, release={"drop": drop}).run(data, seed=1).results["battery"].rate
        for drop in ([], ["HOME"])
    )
    assert kept > dropped + 0.2


def test_without_households_it_says_so() -> None:
    data = homes(20)
    bare = data.with_frame(data.frame.drop("HOME"))
    with pytest.raises(sf.SfumatoError, match="who lives together"):
        sf.HouseholdAttack(known=["AGE"]).measure(bare, bare)


def test_a_household_that_is_not_released_is_not_told_by_neighbours() -> None:
    """Members stood beside each other in the file though their household's number was left out."""
    data = homes()
    together = []
    for drop in ([], ["HOME"]):
        order = release_order(sf.Plan(release={"drop": drop}).run(data, seed=1))
        home = data.frame["HOME"].to_numpy()[order]
        together.append(float((home[1:] == home[:-1]).mean()))
    size = np.bincount(data.frame["HOME"].to_numpy())
    by_chance = float((size * (size - 1)).sum()) / len(data) / (len(data) - 1)
    assert together[0] > 0.5
    assert together[1] < by_chance + 4 * np.sqrt(by_chance / len(data))


def test_keys_alone_that_nothing_touched_are_compared() -> None:
    """No number and no changed key: the battery found nothing to run, and the run ended in an error."""
    data = homes(80).with_frame(homes(80).frame.drop("HOME"))
    found = sf.Plan(limits={"battery.rate": {"at_most": 0.05}}).run(data, seed=1).results["battery"]
    classes = data.frame.n_unique()
    # 1-1 among those who are alike: one of each class on average.
    n = len(data)
    assert found.rate == pytest.approx(classes / n, abs=4 * np.sqrt(classes / n / n))


def test_every_attack_says_which_households_it_finds() -> None:
    """Two homes of two; the masked values of the second home's members were exchanged: no member is found."""
    schema = sf.Schema(household="HOME", sensitive=["PAY"])
    original = sf.Microdata(pl.DataFrame({"HOME": [1, 1, 2, 2], "PAY": [0.0, 10.0, 20.0, 30.0]}), schema)
    masked = sf.Microdata(pl.DataFrame({"HOME": [1, 1, 2, 2], "PAY": [0.0, 10.0, 30.0, 20.0]}), schema)
    found = sf.DistanceLinkage(known=["PAY"]).measure(original, masked)
    assert found.rate == 0.5
    assert (found.figures["households"], found.figures["households_at_risk"]) == (2, 1.0)
    assert found.figures["household_rate"] == 0.5
    one_each = pl.DataFrame({"HOME": [1, 1, 2, 2], "PAY": [0.0, 20.0, 10.0, 30.0]})  # one of each is found
    found = sf.DistanceLinkage(known=["PAY"]).measure(original, sf.Microdata(one_each, schema))
    assert (found.rate, found.figures["household_rate"]) == (0.5, 1.0)
