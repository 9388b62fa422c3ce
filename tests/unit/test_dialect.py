"""A release is written as its input was: delimiter and decimal sign; and says what it changed."""

from __future__ import annotations

import json

import polars as pl
import pytest

import sfumato as sf
from sfumato.io.dialect import Spoken, spoken

PLAN = """data = "p.csv"
[[step]]
mask = "random_swap"
columns = ["pay"]
rate_percent = 50
[release]
format = "csv"
"""


def records(delimiter: str, decimal: str) -> str:
    rows = [("état", "pay", "n")]
    rows += [
        (("nörd", "süd")[i % 2], f"{i * 37 % 91},{i % 9}5".replace(",", decimal), str(i % 7))
        for i in range(60)
    ]
    return "".join(delimiter.join(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("delimiter", "decimal"), [(";", ","), (";", "."), ("\t", ","), (",", "."), ("|", ",")]
)
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
def test_the_dialect_is_kept(tmp_path, delimiter, decimal, encoding):
    (tmp_path / "p.csv").write_bytes(records(delimiter, decimal).encode(encoding))
    (tmp_path / "plan.toml").write_text(PLAN)
    release = sf.Plan.load(tmp_path / "plan.toml").run(seed=1).release(tmp_path / "out")
    text = release.data.read_text(encoding="utf-8")
    head, first = text.split("\n")[:2]
    assert head == delimiter.join(["état", "pay", "n"])
    assert first.split(delimiter)[1].count(decimal) == 1
    assert sorted(sf.read(release.data).frame["pay"]) == pytest.approx(
        sorted(sf.read(tmp_path / "p.csv").frame["pay"])
    )
    told = json.loads((release.public / "dictionary.json").read_text())["dialect"]
    assert (told["delimiter"], told["decimal"], told["encoding"]) == (delimiter, decimal, "UTF-8")
    assert ("changed" in told) == (encoding == "cp1252")


def test_what_a_person_says_comes_first(tmp_path):
    (tmp_path / "p.csv").write_text("a;b\n1;2\n")
    assert spoken(tmp_path / "p.csv", {"delimiter": ","}) == Spoken(",", ".", "UTF-8")
    assert spoken(tmp_path / "p.csv", {"decimal": ","}) == Spoken(";", ",", "UTF-8")
    assert spoken(tmp_path / "none.csv") is None
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "p.parquet")
    assert spoken(tmp_path / "p.parquet") is None
