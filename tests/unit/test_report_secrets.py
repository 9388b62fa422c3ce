"""The public report against one who wants the original out of it."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato import report
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import parameter
from sfumato.draws import Draws
from sfumato.report.public import bound, names_a_number, public_parameters


def shown(run: sf.Run) -> str:
    content = report.summary(run, public=True)
    return report.html(content) + report.text(content) + report.brief(content) + json.dumps(content)


@pytest.fixture(scope="module")
def run() -> sf.Run:
    rng = np.random.default_rng(3)
    n = 300
    frame = pl.DataFrame(
        {
            "ID": [f"person-{k:05d}" for k in range(n)],
            "TOWN": rng.choice(["Nether Wallop", "Upper Slaughter", "Great Snoring", "Matching Tye"], n),
            "CODE": rng.permutation(n) + 5_000_000,
            "CHILDREN": rng.integers(0, 4, n),
            "PAY": np.round(rng.lognormal(9, 1.3, n), 4) + 0.000_03,
            "TAX": rng.normal(0, 1, n) + 0.000_000_7,
        }
    )
    plan = sf.Plan(
        schema={"roles": {"id": "ID", "keys": ["TOWN", "CHILDREN"], "sensitive": ["PAY", "TAX"]}},
        steps=[
            sf.Recode(
                column="TOWN",
                mapping={
                    "Nether Wallop": "south",
                    "Upper Slaughter": "south",
                    "Great Snoring": "east",
                    "Matching Tye": "east",
                },
            ),
            sf.ControlledDistortion(records=[17, 203], shift={"PAY": 4321.987}, columns=["PAY", "TAX"]),
            sf.RandomSwap(columns=["CHILDREN", "CODE"], rate_percent=60),
            sf.AdditiveNoise(columns=["PAY", "TAX"], variance_ratio=0.1),
        ],
        measures=[sf.InformationLoss(), sf.DistanceLinkage()],
        release={"drop": ["CODE"], "new_ids": False},
    )
    return plan.run(frame, seed=1)


# The noise of these plans may leave the range of a column, and says so.
pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")


def test_apart_from_measured_values_the_public_report_is_made_of_the_masked_file(run: sf.Run) -> None:
    rng = np.random.default_rng(8)
    frame = run.original.frame
    other = frame.with_columns(
        pl.Series("PAY", rng.normal(size=frame.height)), pl.Series("CHILDREN", frame["CHILDREN"] + 40)
    )
    another = dataclasses.replace(run, original=run.original.with_frame(other))
    assert report.summary(another, public=True) == report.summary(run, public=True)
    # The internal one tells them apart, so the test can fail.
    inside = report.summary(run, public=False)["pictures"]
    assert report.summary(another, public=False)["pictures"] != inside


def test_no_record_and_no_replaced_code_is_named(run: sf.Run) -> None:
    public = shown(run)
    internal = report.html(report.summary(run, public=False))
    for clue in ("4321.987", "4,322", "Nether Wallop", "Upper Slaughter", "person-0"):
        assert clue not in public, clue
    assert not re.search(r"(?<![\d.#])203(?![\d.])", public)  # a record; not the digits of a coordinate
    for clue in ("4,322", "203", "Nether Wallop"):  # the clues are there where they may be
        assert clue in internal, clue
    assert "not published" in public


def test_no_original_value_is_an_edge_or_a_figure(run: sf.Run) -> None:
    content = report.summary(run, public=True)
    numbers: list[float] = []

    def walk(part: object) -> None:
        if isinstance(part, dict):
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)
        elif isinstance(part, float):
            numbers.append(part)

    walk(content)
    values = np.concatenate([run.original.numbers(c) for c in ("PAY", "TAX")])
    near = [x for x in numbers if np.isclose(values, x, rtol=1e-7, atol=0).any()]
    assert near == []
    assert len(numbers) >= 60


def test_dropped_ids_and_columns_are_not_listed_as_released(run: sf.Run) -> None:
    content = report.summary(run, public=True)
    assert [c["name"] for c in content["file"]["columns"]] == ["TOWN", "CHILDREN", "PAY", "TAX"]
    assert content["file"]["dropped"] == []
    assert report.summary(run, public=False)["file"]["dropped"] == ["ID", "CODE"]
    drawn = [c["name"] for k in ("columns", "categories") for c in content["pictures"][k]]
    assert "CODE" not in drawn


def test_a_path_is_no_parameter_for_the_public() -> None:
    mask = sf.Recode(column="A", hierarchy="/home/steward/secret/towns.csv", level=1)
    said = public_parameters(mask, mask.to_dict(), ["A"])
    assert said == {"column": "A", "hierarchy": "not published", "level": 1}
    # A record swap's hierarchy is a list of columns, as public as the release's own header.
    swap = sf.RecordSwap(hierarchy=["STATE", "TOWN"], keys=["AGE"], tolerance=2, rate_percent=5)
    assert public_parameters(swap, {"hierarchy": ["STATE", "TOWN"]}, ["STATE", "TOWN"]) == {
        "hierarchy": ["STATE", "TOWN"]
    }
    assert public_parameters(swap, {"hierarchy": ["STATE", "TOWN"]}, ["STATE"]) == {"hierarchy": ["STATE"]}


def test_what_a_class_does_not_declare_public_is_withheld() -> None:
    """A new mask's list of record numbers came out in public: a parameter must be declared to."""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Blank(Mask):
        """Blank some records."""

        name = "blank_for_a_test"
        columns: tuple[str, ...] = parameter(doc="The columns.", columns=True, public=True)
        rows: tuple[int, ...] = parameter(doc="The records to blank.")
        strength: float = parameter(1.0, doc="How much.")

        def changes(self, data: sf.Microdata) -> tuple[str, ...]:
            return self.columns

        def _apply(self, data: sf.Microdata, draws: Draws, notes: Notes) -> sf.Microdata:
            return data

    mask = Blank(columns=["A"], rows=[17, 4711], strength=2.5)
    assert public_parameters(mask, mask.to_dict(), ["A"]) == {
        "columns": ["A"],
        "rows": "not published",
        "strength": "not published",
    }


def test_a_column_called_7_hides_no_window_of_7() -> None:
    assert names_a_number("no value of 7 moves further than 7 percent", ["7"])
    assert names_a_number("at most 12", ["INCOME"])
    assert not names_a_number("every column but A, B and 7 more is untouched", ["A", "B"])
    assert not names_a_number("the values of INCOME_2019 are the same set", ["INCOME_2019"])


@pytest.mark.parametrize(
    ("value", "higher", "bounds", "expected"),
    [
        (0.0431, False, (0.0, float("inf")), (0.05, "at most")),
        (0.05, False, (0.0, float("inf")), (0.05, "at most")),
        (0.61, False, (0.0, 1.0), (0.75, "at most")),
        (0.99, False, (0.0, 1.0), (1.0, "at most")),
        (0.0, False, (0.0, 1.0), (0.0, None)),
        (137, False, (0.0, float("inf")), (200.0, "at most")),
        (0.97, True, (float("-inf"), 1.0), (0.95, "at least")),
        (1.0, True, (float("-inf"), 1.0), (1.0, "at least")),
        (None, False, (0.0, 1.0), (None, None)),
    ],
)
def test_bounds(
    value: float | None, higher: bool, bounds: tuple[float, float], expected: tuple[float | None, str | None]
) -> None:
    assert bound(value, higher_is_better=higher, bounds=bounds) == expected


def test_bounds_hold_and_tell_no_two_digits() -> None:
    said = set()
    for value in np.random.default_rng(1).uniform(1e-4, 1, 500):
        top, _ = bound(float(value), higher_is_better=False, bounds=(0.0, 1.0))
        assert value <= top <= max(2.5 * value, 1e-4) * (1 + 1e-9)
        said.add(top)
    assert len(said) < 20
