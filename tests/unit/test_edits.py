"""Declared edits: read, judged, and held by a deal."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.data.edit_check import broken
from sfumato.data.edits import parsed
from sfumato.data.microdata import Microdata
from sfumato.errors import SchemaError


def persons(n: int = 600, seed: int = 0) -> Microdata:
    rng = np.random.default_rng(seed)
    age = rng.integers(5, 80, n)
    status = np.where(age < 16, "child", rng.choice(["works", "retired"], n))
    income = np.where(status == "child", 0, np.rint(rng.lognormal(9, 0.8, n))).astype(int)
    tax = np.minimum(income, np.rint(income * rng.uniform(0, 1.2, n))).astype(int)
    frame = pl.DataFrame({"AGE": age, "STATUS": status, "INCOME": income, "TAX": tax})
    variables = {
        "TAX": {"edits": ["TAX <= INCOME"]},
        "INCOME": {"edits": ["INCOME == 0 if STATUS == 'child'"]},
        "AGE": {"edits": ["AGE < 16 if STATUS == 'child'"]},
    }
    return Microdata(frame, sf.Schema(variables=variables))


@pytest.mark.parametrize("keep", ["moments", "none"])
def test_edits_hold_after_a_shuffle(keep: str) -> None:
    data = persons()
    mask = sf.ClusterShuffle(columns=data.columns, smallest=15, keep=keep, blur=0)  # type: ignore[arg-type]
    masked, _, checks = mask.carry_out(data, sf.Seed.from_int(1).draws("x"))
    assert (masked.frame["TAX"] <= masked.frame["INCOME"]).all()
    child = masked.frame.filter(pl.col("STATUS") == "child")
    assert child.height > 50
    assert (child["INCOME"] == 0).all()
    assert (child["AGE"] < 16).all()
    assert sum("is broken in no more records" in c.guarantee for c in checks) == 3
    # Without the edits they are broken, or this says nothing.
    plain = Microdata(data.frame)
    free = mask.mask(plain, seed=1).frame
    assert (free["TAX"] > free["INCOME"]).any()
    assert not masked.frame["TAX"].equals(data.frame["TAX"])


def test_members_are_held_to_declared_edits() -> None:
    rng = np.random.default_rng(3)
    n = 200
    head = rng.integers(30, 60, n)
    frame = pl.DataFrame(
        {
            "H": np.repeat(np.arange(n), 2),
            "RELATION": np.tile([1, 3], n),
            "AGE": np.column_stack([head, head - rng.integers(18, 30, n)]).ravel(),
            "JOB": np.where(rng.random(2 * n) < 0.5, "a", "b"),
        }
    )
    edits = {"AGE": {"edits": ["AGE[RELATION == 3] <= AGE[RELATION == 1] - 18"]}}
    data = Microdata(frame, sf.Schema(household="H", variables=edits))
    mask = sf.ClusterShuffle(columns=["RELATION", "AGE", "JOB"], unit="H", smallest=10, rare_shapes="accept")
    masked = mask.mask(data, seed=2)
    ages = masked.frame["AGE"].to_numpy().reshape(-1, 2)
    relation = masked.frame["RELATION"].to_numpy().reshape(-1, 2)
    older = np.where(relation[:, 0] == 1, ages[:, 0] - ages[:, 1], ages[:, 1] - ages[:, 0])
    assert (older >= 18).all()


def test_other_masks_tell_what_they_break() -> None:
    data = persons()
    _, notes, _ = sf.RandomSwap(columns=["TAX"], rate_percent=100).carry_out(
        data, sf.Seed.from_int(1).draws("x")
    )
    assert any(w.startswith("the edit TAX <= INCOME is broken in ") for w in notes.warnings)


def test_edits_are_judged_by_hand() -> None:
    frame = pl.DataFrame({"A": [1, 5, None, 3], "B": [2, 4, 9, 3], "C": ["x", "x", "y", "y"]})
    data = Microdata(frame)
    assert broken(parsed("A <= B"), data).tolist() == [False, True, False, False]
    assert broken(parsed("A < B if C == 'y'"), data).tolist() == [False, False, False, True]
    assert broken(parsed("4 > A + 1"), data).tolist() == [False, True, False, True]
    assert broken(parsed("A = 5 or B = 2"), data).tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A +", "no comparison"),
        ("A < B < C", "no comparison of two sides"),
        ("1 < 2", "compares no column"),
        ("A == B", "two columns are equal"),
        ("A * 2 < B", "a side is a column"),
        ("A[B == C] < 3", "a selector compares"),
        ("__import__('os') == 1", "a side is a column"),
    ],
)
def test_what_cant_be_read_is_said(text: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        sf.Schema(household="H", variables={"A": {"edits": [text]}})


def test_edits_between_members_need_a_household() -> None:
    with pytest.raises(SchemaError, match="names none"):
        sf.Schema(variables={"A": {"edits": ["A[R == 1] > A[R == 2]"]}})


def test_edits_go_where_the_schema_goes() -> None:
    schema = persons().schema
    assert sf.Schema.from_dict(schema.to_dict()) == schema
    assert not schema.restricted_to(["TAX", "AGE"])["TAX"].edits
    assert schema.named_columns()["STATUS"] == "variables.INCOME.edits"
