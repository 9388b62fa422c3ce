"""Nested tables and lists where a plan takes plain ones: an error with its line, never a traceback."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import polars as pl
import pytest

import sfumato as sf
from sfumato.data.schema import Variable
from sfumato.errors import SfumatoError

HEAD = 'format = 1\ndata = "people.csv"\n'
ODD = [
    "{ a = { b = 1 } }",
    "[[1, 2]]",
    "[{ a = 1 }]",
    "{ a = [1] }",
    "[1]",
    "5",
    "true",
    "1979-05-27",
    '[["A"]]',
]


pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pl.DataFrame({"A": range(30), "B": range(30)}).write_csv(tmp_path / "people.csv")
    return tmp_path


FIELDS = [f.name for f in dataclasses.fields(Variable)]


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("name", FIELDS)
def test_details_of_a_variable(folder: Path, name: str, value: str) -> None:
    try:
        plan = sf.Plan.loads(f"{HEAD}[variables.A]\n{name} = {value}\n", base=folder)
        plan.check()
        plan.run(seed=1)
    except SfumatoError:
        pass  # anything else is a traceback


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize(
    "key",
    ["format", "title", "data", "for", "roles", "variables", "limits", "release", "measure", "step", "edits"],
)
def test_every_key_at_the_top(folder: Path, key: str, value: str) -> None:
    plain = {"format": "1", "data": '"people.csv"'}
    text = "".join(f"{k} = {v}\n" for k, v in {**plain, key: value}.items())
    with contextlib.suppress(SfumatoError):  # anything else is a traceback
        sf.Plan.loads(text, base=folder).check()


@pytest.mark.parametrize("value", ODD)
def test_parameters_of_every_mask(folder: Path, value: str) -> None:
    from sfumato import registry

    for name, cls in registry.masks().items():
        for parameter in cls.parameters():
            text = f'{HEAD}[[step]]\nmask = "{name}"\n{parameter} = {value}\n'
            try:
                sf.Plan.loads(text, base=folder).check()
            except SfumatoError:
                continue


@pytest.mark.parametrize("value", [*ODD, "{ A = { b = 1 } }", "{ A = [1] }", '{ A = "x" }', "{ C = 1 }"])
def test_the_shift_of_a_distortion(folder: Path, value: str) -> None:
    text = (
        f'{HEAD}[[step]]\nmask = "controlled_distortion"\nrecords = [3]\ncolumns = ["A"]\nshift = {value}\n'
    )
    try:
        plan = sf.Plan.loads(text, base=folder)
        plan.check()
        plan.run(seed=1)
    except SfumatoError:
        pass


def test_a_nested_table_is_named() -> None:
    for name, value in (("labels", "{ a = { b = 1 } }"), ("sum_of", '[["B"]]'), ("labels", "[1]")):
        with pytest.raises(SfumatoError, match=name.removesuffix("s")):
            sf.Plan.loads(f"format = 1\n[variables.A]\n{name} = {value}\n")
