"""One draw a household, and the caution where persons are masked one by one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.mask import Mask
from sfumato.data.microdata import Microdata
from sfumato.errors import MaskError


def homes() -> Microdata:
    rng = np.random.default_rng(0)
    of = np.repeat(np.arange(120), rng.integers(1, 5, 120))
    frame = pl.DataFrame(
        {
            "HOME": of,
            "AREA": rng.integers(0, 4, 120)[of],
            "RENT": np.rint(rng.lognormal(6, 0.5, 120))[of],
            "VALUE": np.rint(rng.lognormal(11, 0.5, 120))[of],
            "AGE": rng.integers(0, 90, len(of)),
        }
    )
    variables = {"AREA": {"kind": "categorical"}}
    return Microdata(
        frame, sf.Schema(household="HOME", keys=["AREA"], sensitive=["RENT"], variables=variables)
    )


MASKS: list[Mask] = [
    sf.RandomSwap(columns=["RENT"], rate_percent=100, household="HOME"),
    sf.RankSwap(columns=["RENT", "VALUE"], window_percent=20, household="HOME"),
    sf.AdditiveNoise(columns=["RENT", "VALUE"], variance_ratio=0.1, household="HOME"),
    sf.MixtureNoise(columns=["RENT", "VALUE"], variance_ratio=0.1, household="HOME"),
    sf.Microaggregate(columns=["RENT", "VALUE"], k=5, household="HOME"),
    sf.Pram(columns=["AREA"], keep_probability=0.5, household="HOME"),
    sf.TOrderSwap(keys=["AREA"], rate_percent=50, household="HOME"),
]


@pytest.mark.parametrize("step", MASKS, ids=lambda m: m.name)
def test_members_get_one_value_which_is_that_of_a_file_of_households(step: Mask) -> None:
    data = homes()
    masked, _, checks = step.carry_out(data, sf.Seed.from_int(1).draws("x"))
    assert all(c.ok for c in checks)
    columns = list(step.changes(data))
    shared = masked.frame.group_by("HOME").agg(pl.col(columns).n_unique())
    assert all(shared[c].max() == 1 for c in columns)
    assert any(not masked.frame[c].equals(data.frame[c]) for c in columns)
    assert masked.frame["AGE"].equals(data.frame["AGE"])
    # The same draws on one record a household give the same values.
    from dataclasses import replace

    small = data.with_frame(data.frame.unique("HOME", keep="first", maintain_order=True))
    alone, _, _ = replace(step, household=None).carry_out(small, sf.Seed.from_int(1).draws("x"))  # type: ignore[call-arg]
    for column in columns:
        by_home = dict(zip(small.frame["HOME"], alone.frame[column], strict=True))
        assert masked.frame[column].to_list() == [by_home[h] for h in data.frame["HOME"]]


def test_what_members_dont_share_is_refused() -> None:
    with pytest.raises(MaskError, match="members of one household disagree on AGE"):
        sf.RandomSwap(columns=["AGE"], rate_percent=50, household="HOME").mask(homes(), seed=1)


def test_persons_masked_one_by_one_are_cautioned_of() -> None:
    schema = homes().schema
    said = sf.RankSwap(columns=["RENT"], window_percent=5).check_household(schema)
    assert [p.severity for p in said] == ["warning"]
    assert "masks persons one by one" in said[0].message
    assert not sf.RankSwap(columns=["RENT"], window_percent=5, household="HOME").check_household(schema)
    assert not sf.ClusterShuffle(columns=["RENT"], unit="HOME").check_household(schema)
    assert sf.ClusterShuffle(columns=["RENT"]).check_household(schema)
    assert not sf.Recode(column="RENT", width=100).check_household(schema)
    assert not sf.RankSwap(columns=["RENT"], window_percent=5).check_household(sf.Schema())


def test_a_plan_says_it_unless_the_household_is_dropped(tmp_path: object) -> None:
    data = homes()
    steps = [sf.RankSwap(columns=["RENT"], window_percent=5)]
    word = "masks persons one by one"
    plan = sf.Plan(steps=steps, schema=data.schema)
    assert any(word in p.message for p in plan._check_against(data, {}))
    from dataclasses import replace

    quiet = replace(plan, release=replace(plan.release, drop=("HOME",)))
    assert not any(word in p.message for p in quiet._check_against(data, {}))
