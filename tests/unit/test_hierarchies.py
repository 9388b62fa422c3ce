"""Codes that lie in coarser codes: one hierarchy in schema, shuffle, ladders and check."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.data.following import following
from sfumato.errors import SchemaError
from sfumato.experiment.recodes import ladder
from sfumato.run.derivable import derivable


def firms(records: int = 600, seed: int = 3) -> sf.Microdata:
    """Branches of firms in two depths, towns in three: every finer code lies in one coarser."""
    rng = np.random.default_rng(seed)
    branch, town = rng.integers(0, 8, records), rng.integers(0, 24, records)
    frame = pl.DataFrame(
        {
            "LAND": [f"L{t // 12}" for t in town],
            "KREIS": [f"K{t // 3}" for t in town],
            "ORT": town + 100,
            "NACE2": [f"{10 + b}" for b in branch],
            "NACE4": [f"{10 + b}{rng.integers(10, 14)}" for b in branch],
            "TURNOVER": rng.lognormal(10, 1, records).round(),
        }
    )
    schema = sf.Schema(
        keys=["NACE4", "ORT"],
        geography=["LAND", "KREIS", "ORT"],
        sensitive=["TURNOVER"],
        variables={"NACE4": {"lies_in": ["NACE2"]}, "ORT": {"kind": "categorical"}},
    )
    return sf.Microdata(frame, schema)


def pairs(data: sf.Microdata, *columns: str) -> set[tuple[object, ...]]:
    return set(data.frame.select(columns).unique().rows())


def test_a_shuffle_moves_a_hierarchy_as_one() -> None:
    data = firms()
    masked = sf.ClusterShuffle(columns=data.columns, smallest=20).mask(data, seed=5)
    for columns in (("LAND", "KREIS", "ORT"), ("NACE2", "NACE4")):
        assert pairs(masked, *columns) == pairs(data, *columns)
        assert (masked.frame[columns[-1]] != data.frame[columns[-1]]).mean() > 0.2
    assert not derivable(data, masked, data.columns)


def test_the_finest_that_is_dealt_takes_the_others_along() -> None:
    schema = firms().schema
    told = following(schema, ["LAND", "NACE2", "KREIS", "ORT", "NACE4"])
    assert told.riders == {"ORT": ("KREIS", "LAND"), "NACE4": ("NACE2",)}
    assert set(told.dealt) == {"ORT", "NACE4"}
    assert following(schema, ["LAND", "KREIS"]).riders == {"KREIS": ("LAND",)}


def test_a_coarser_code_masked_alone_comes_back() -> None:
    data = firms()
    masked = data.with_columns({"NACE2": pl.Series(["??"] * len(data))})
    (found,) = derivable(data, masked, data.columns)
    assert (found.column, found.records, found.how) == ("NACE2", len(data), "NACE4 lies in it")


def test_rungs_are_the_coarser_codes_nearest_first() -> None:
    data = firms()
    (branch,) = ladder(data, "NACE4")
    assert branch.mask(data, seed=1).frame["NACE4"].equals(data.frame["NACE2"].rename("NACE4"))
    kreis, land = ladder(data, "ORT")
    assert kreis.mask(data, seed=1).frame["ORT"].equals(data.frame["KREIS"].rename("ORT"))
    assert land.mask(data, seed=1).frame["ORT"].equals(data.frame["LAND"].rename("ORT"))


def test_check_names_a_hierarchy_that_doesnt_nest() -> None:
    data = firms()
    broken = data.with_columns({"NACE2": pl.Series(["10", "11"] * (len(data) // 2))})
    from sfumato.plan.check import data_problems

    said = [p.message for p in data_problems(broken)]
    assert any("hierarchy doesn't nest" in s and "NACE4" in s for s in said)
    assert not [p for p in data_problems(data) if "nest" in p.message]


def test_nothing_lies_in_itself() -> None:
    with pytest.raises(SchemaError, match="can't lie in itself"):
        sf.Schema(variables={"A": {"lies_in": "B"}, "B": {"lies_in": ["A"]}})
    assert sf.Schema(variables={"A": {"lies_in": "B"}}).restricted_to(["A"])["A"].lies_in == ()


def test_init_writes_the_hierarchy_and_protect_keeps_it() -> None:
    from sfumato.plan.suggest.roles import suggest

    data = firms(900)
    found = suggest(data.with_schema(sf.Schema()))
    assert found.schema["NACE4"].lies_in == ("NACE2",)
    assert found.schema.geography == ("LAND", "KREIS", "ORT")
    run = sf.protect(found.data, "public", seed=4, attacked=300)
    assert run.verdict.safe, run.verdict.text
    for columns in (("LAND", "KREIS", "ORT"), ("NACE2", "NACE4")):
        there = [c for c in columns if c in run.masked.columns and c not in run.plan.release.drop]
        assert pairs(run.masked, *there) <= pairs(data, *there)


def test_a_recoded_key_takes_what_is_computed_from_it_out_of_the_release() -> None:
    rng = np.random.default_rng(6)
    size = rng.integers(1, 9, 800)
    money = rng.lognormal(9, 1, 800).round(2)
    data = sf.Microdata(
        pl.DataFrame({"SIZE": size, "SEX": rng.integers(1, 3, 800), "PAY": money, "HEAD": money / size}),
        sf.Schema(
            keys=["SIZE", "SEX"], sensitive=["PAY", "HEAD"], variables={"HEAD": {"ratio_of": ["PAY", "SIZE"]}}
        ),
    )
    from sfumato.experiment.candidates import Candidate, workshop

    shop = workshop(data, (), (), sf.Plan(schema=data.schema))
    assert "HEAD" in shop.plan(Candidate((("SIZE", 1),), "all", 20)).release.drop
    assert "HEAD" not in shop.plan(Candidate((("SIZE", 0),), "all", 20)).release.drop


def test_computed_values_are_written_as_the_others_are() -> None:
    rng = np.random.default_rng(8)
    pay, rent = (rng.lognormal(8, 1, 500).round(2) for _ in range(2))
    schema = sf.Schema(
        variables={
            "ALL": {"sum_of": ["PAY", "RENT"], "unit": 0.01},
            "SHARE": {"ratio_of": ["RENT", "PAY"], "unit": 0.001},
            **{c: {"unit": 0.01} for c in ("PAY", "RENT")},
        }
    )
    frame = pl.DataFrame(
        {"PAY": pay, "RENT": rent, "ALL": (pay + rent).round(2), "SHARE": (rent / pay).round(3)}
    )
    data = sf.Microdata(frame, schema)
    masked = sf.ClusterShuffle(columns=["PAY", "RENT"], smallest=10, blind=[]).mask(data, seed=1).frame
    for column, places in (("PAY", 2), ("RENT", 2), ("ALL", 2), ("SHARE", 3)):
        assert all(repr(v) == repr(round(v, places)) for v in masked[column].to_list()), column
    assert not masked["PAY"].equals(data.frame["PAY"])
