"""Types and texts that a release can't or shouldn't carry: refused or told with the reason."""

from __future__ import annotations

import decimal
from pathlib import Path

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError

SWAP = sf.RandomSwap(columns=["Y"], rate_percent=50)


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
@pytest.mark.parametrize("replace", ["code", "mean", "median"])
@pytest.mark.parametrize("scale", [0, 2, 6])
def test_decimals_coded_by_percent_are_released(tmp_path: Path, replace: str, scale: int) -> None:
    values = [decimal.Decimal(k) / 4 for k in range(60)]
    frame = pl.DataFrame({"X": pl.Series(values, dtype=pl.Decimal(20, scale))})
    step = sf.TopBottomCode(columns=["X"], top_percent=10, bottom_percent=5, replace=replace)
    release = sf.Plan(steps=[step]).run(frame, seed=1).release(tmp_path / "r")
    back = pl.read_parquet(release.data)
    assert back.schema == frame.schema
    assert back["X"].max() == back["X"].sort()[-6]


@pytest.mark.parametrize(
    ("values", "word"),
    [([[1], [2]] * 10, "lists"), ([{"a": 1}] * 20, "structs"), ([b"x"] * 20, "bytes")],
)
@pytest.mark.parametrize("format", ["parquet", "csv", "sav"])
def test_nested_and_binary_columns_are_refused_with_the_reason(values: list, word: str, format: str) -> None:
    frame = pl.DataFrame({"Y": range(20), "Z": pl.Series(values)})
    with pytest.raises(SfumatoError, match=f"Z holds .*{word}") as problem:
        sf.Plan(steps=[SWAP], release={"format": format}).run(frame, seed=1)
    assert "drop" in str(problem.value)
    assert sf.Plan(steps=[SWAP], release={"format": format, "drop": ["Z"]}).run(frame, seed=1)


FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|x", "-2+3", "\tx", "=HYPERLINK(1)"]
PLAIN = ["-5", "+3.5", "-1,5", "-10%", "3-5", "a=b", "-", "", "5+"]


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_text_that_a_spreadsheet_runs_is_told(format: str) -> None:
    frame = pl.DataFrame({"Y": range(15), "NOTE": FORMULAS + PLAIN, "FINE": (PLAIN * 2)[:15]})
    said = sf.Plan(steps=[SWAP], release={"format": format}).run(frame, seed=1).warnings
    assert [w for w in said if "formula" in w] == [
        f"NOTE has text in {len(FORMULAS)} records that a spreadsheet takes for a formula: "
        "release parquet, or recode it"
    ]
    dropped = sf.Plan(steps=[SWAP], release={"format": format, "drop": ["NOTE"]}).run(frame, seed=1)
    assert not [w for w in dropped.warnings if "formula" in w]
    assert not [w for w in sf.Plan(steps=[SWAP]).run(frame, seed=1).warnings if "formula" in w]


def test_a_name_that_a_spreadsheet_runs_is_told() -> None:
    frame = pl.DataFrame({"Y": range(20), "=1+1": range(20)})
    said = sf.Plan(steps=[SWAP], release={"format": "csv"}).run(frame, seed=1).warnings
    assert any("column name '=1+1'" in w for w in said)


def test_an_overflow_of_a_narrow_type_names_it() -> None:
    from sfumato.contract.refusals import blame

    data = sf.Microdata(pl.DataFrame({"A": [1, 2], "B": [1, 2]}, schema={"A": pl.Int8, "B": pl.Int64}))
    assert "A is Int8" in blame(data, ["A", "B"])
    assert "defect" in blame(data, ["B"])
