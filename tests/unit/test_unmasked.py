"""What nobody thought of: columns that leave as they came, steps that change nothing."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

import sfumato as sf

N = 60


def data(**roles: object) -> sf.Microdata:
    born = [dt.date(1950, 1, 1) + dt.timedelta(days=k) for k in range(N)]
    frame = pl.DataFrame(
        {
            "ID": range(N),
            "AREA": ["n", "s"] * (N // 2),
            "BORN": born,
            "NAME": [f"person {k}" for k in range(N)],
            "W": [k + 0.5 for k in range(N)],
            "PAY": [float(37 * k % 101) for k in range(N)],
            "TAX": [float(k % 7) for k in range(N)],
        }
    )
    return sf.Microdata(frame, sf.Schema(id="ID", keys=["AREA"], weight="W", **roles))


def test_columns_that_leave_as_they_came() -> None:
    swap = sf.RandomSwap(columns=["PAY"], rate_percent=50)
    said = sf.Plan(steps=[swap]).run(data(sensitive=["PAY", "TAX"]), seed=1).warnings
    assert [w.split()[0] for w in said] == ["BORN", "NAME", "TAX"]
    assert "nearly every record has its own value" in said[0]
    assert said[2] == "TAX is sensitive, and is released as it is"
    # Dropped columns don't leave, and a caution is no part of the public summary.
    plan = sf.Plan(steps=[swap], release={"drop": ["BORN", "NAME", "TAX"]})
    run = plan.run(data(sensitive=["PAY", "TAX"]), seed=1)
    assert run.warnings == []
    assert "warnings" not in run.summary(public=True)


def test_steps_that_change_nothing() -> None:
    frame = pl.DataFrame({"X": [5] * 30, "Y": [1, 2, 3] * 10})
    idle = sf.RandomSwap(id="idle", columns=["X"], rate_percent=50)
    assert sf.Plan(steps=[idle]).run(frame, seed=1).warnings[0].startswith("no step changed any value")
    busy = sf.RandomSwap(id="busy", columns=["Y"], rate_percent=50)
    assert sf.Plan(steps=[idle, busy]).run(frame, seed=1).warnings == ["step idle changed nothing"]


@pytest.mark.filterwarnings("ignore:.*masks persons one by one")
def test_a_households_value_that_was_masked_record_by_record() -> None:
    frame = data().frame.with_columns(HOME=pl.int_range(N) // 3, RENT=(pl.int_range(N) // 3).cast(pl.Float64))
    homes = sf.Microdata(frame, sf.Schema(household="HOME"))
    drop = ["BORN", "NAME", "W", "ID"]

    def said(column: str) -> list[str]:
        plan = sf.Plan(steps=[sf.RandomSwap(columns=[column], rate_percent=50)], release={"drop": drop})
        return [w for w in plan.run(homes, seed=1).warnings if "members of one household" in w]

    assert len(said("RENT")) == 1
    assert said("RENT")[0].startswith("RENT: ")
    assert said("PAY") == []  # persons' own amounts
    drop.append("RENT")
    assert said("RENT") == []
