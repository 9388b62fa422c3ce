"""Attacks on a cluster shuffle that make its clusters again: by another release, or by trying values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.data.microdata import Microdata
from sfumato.run.battery import fitting_attacks

CASC = Path(__file__).parents[3] / "shared" / "data" / "CASCrefmicrodata.csv"


def test_two_releases_by_hand() -> None:
    """One column, clusters of 5 neighbours in rank; without some records the borders move, and a person
    hides among those who are on one side of all borders."""
    data = Microdata(pl.DataFrame({"A": np.arange(100)}))
    attack = sf.DifferencingAttack(columns=["A"], smallest=5, blur=0, left_out_percent=20)
    found = attack.measure(data, data, seed=3)
    by = found.by_releases
    assert by["rate"][0] == found.baseline == pytest.approx(0.2)
    assert by["people"][1] == found.attacked
    # at least the borders of one release, at most those of both
    people = by["people"][1]
    assert found.baseline <= found.rate <= (20 + people // 5) / people
    assert by["rate"][1] == found.rate


@pytest.mark.skipif(not CASC.exists(), reason="the reference data aren't here")
def test_releases_of_casc_without_a_tenth_each_time() -> None:
    """The prototype's notes have a mean of .29 after two releases with k = 20, and .67 after five (of other
    clusters; not all of its people are in all five)."""
    data = sf.read(CASC)
    attack = sf.DifferencingAttack(columns=data.columns, smallest=20, releases=5)
    rate = attack.measure(data, data).by_releases["rate"].to_list()
    assert rate[0] == pytest.approx(0.05, abs=0.001)
    assert rate[1] == pytest.approx(0.29, abs=0.08)
    assert 0.6 < rate[4] < 0.9
    assert rate == sorted(rate)


def test_a_battery_compares_releases_only_where_there_are_several() -> None:
    rng = np.random.default_rng(0)
    data = Microdata(pl.DataFrame({c: rng.normal(size=120).round(1) for c in "AB"}))
    named = []
    for again in (False, True):
        step = sf.ClusterShuffle(columns=["A", "B"], again=again)
        found, _ = fitting_attacks(data, step.mask(data, seed=1), [step])
        named.append({a.name for a in found})
    assert "differencing_attack" not in named[0]
    assert "differencing_attack" in named[1]
    assert "minimality_attack" in named[0]


def test_only_one_arrangement_gives_the_clusters_of_the_adversarys_toy() -> None:
    """Of its 36 arrangements one gives these clusters: every other value can be ruled out."""
    frame = pl.DataFrame({"A": [19, 25, 19, 29, 17, 9], "B": [17, 20, 16, 8, 11, 9]})
    attack = sf.MinimalityAttack(columns=["A", "B"], smallest=3, blur=0, persons=6)
    seen = attack.measure(frame, frame)
    blind = sf.MinimalityAttack(columns=["A", "B"], smallest=3, blur=0, persons=6, blind=["B"])
    hidden = blind.measure(frame, frame)
    assert seen.posterior > 0.6
    assert seen.prior == pytest.approx((2 / 3 * 2 / 6 + 1 / 3 * 4 / 6 + 1 / 3) / 2, abs=0.12)
    # what the clusters don't look at isn't looked for, and a column that they see alone tells nothing
    assert hidden.by_column["column"].to_list() == ["A"]
    assert hidden.value == 0.0


def test_trying_values_tells_more_of_small_clusters() -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({c: rng.normal(size=100).round(1) for c in "ABC"})
    values = [
        sf.MinimalityAttack(columns=list("ABC"), smallest=k, blur=0, persons=20).measure(frame, frame).value
        for k in (4, 25)
    ]
    assert values[0] > values[1] > 0


@pytest.mark.skipif(not CASC.exists(), reason="the reference data aren't here")
def test_who_is_in_the_file_is_seen_by_values_and_less_where_rare_ones_are_averaged() -> None:
    """The prototype's notes have an AUC of 1.00 by values, and of .585 with the blur, for somebody without a
    list of others. Ours has everybody's, three quarters of them in the file, and averages it likewise."""
    data = sf.read(CASC)
    areas = []
    for blur in (0, 3):
        step = sf.ClusterShuffle(columns=data.columns, blur=blur)
        attack = sf.MembershipAttack(known=data.columns)
        areas.append(attack.measure(data, step.mask(data, seed=1), steps=[step]).auc)
    assert areas[0] > 0.99
    assert 0.5 < areas[1] < 0.95
