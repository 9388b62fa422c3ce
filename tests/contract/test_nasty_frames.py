"""Every mask and every measure on files that nobody expects: a result without NaN, or an error of ours.

Each class meets every kind of column, in one of the places where ``nasty.py`` can put it; the other
places are tried by ``benchmarks/hostile.py``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import nasty
import numpy as np
import polars as pl
import pytest
from cases import deck_for, example

import sfumato as sf
from sfumato import registry
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import parameter
from sfumato.draws import Draws
from sfumato.errors import GuaranteeError, MaskError, MeasureError, SchemaError, SfumatoError

CLASSES = {**registry.masks(), **registry.measures()}
PLACES = ("in one", "in the last", "in all")


@pytest.fixture(autouse=True)
def quiet() -> Any:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def few(cls: Any) -> Any:
    """A case in three: every kind once, in a place that differs from class to class; few on a wide file."""
    turn = list(CLASSES).index(cls.name)
    for at, (name, one, data) in enumerate(nasty.cases_of(cls)):
        kind = name.rpartition(" in ")[0]
        place = PLACES[(list(nasty.KINDS).index(kind) + turn) % 3] if kind in nasty.KINDS else ""
        wide = name == "2,000 columns" and cls.name not in ("random_swap", "additive_noise", "linkage")
        if (at < len(nasty.FRAMES) or (place and name.endswith(place))) and not wide:
            yield name, one, data


@pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
def test_no_traceback_and_no_nan(cls: Any) -> None:
    bad = {name: word for name, one, data in few(cls) if (word := nasty.tried(one, data)) is not None}
    assert not bad


@pytest.mark.parametrize("cls", registry.masks().values(), ids=registry.masks())
@pytest.mark.parametrize("kind", ["lists", "arrays", "structs", "binary", "objects", "null type"])
def test_columns_of_no_plain_type_are_refused_by_name(cls: type[Mask], kind: str) -> None:
    data = deck_for(cls, 320)
    mask = example(cls, data)
    column = next(c for c in mask.changes(data) if c in data.columns)
    odd = data.with_columns({column: nasty.KINDS[kind](data.column(column))})
    with pytest.raises(SfumatoError, match=column):
        mask.mask(odd, seed=1)


# -- the guarantee of every run -------------------------------------------------------------------


def test_noise_on_values_near_1e155_is_refused_by_name() -> None:
    values = 1e155 * np.random.default_rng(1).normal(5, 1, 100)
    frame = pl.DataFrame({"X": values, "Y": np.arange(100.0)})
    for mask in (
        sf.AdditiveNoise(columns=["X", "Y"], variance_ratio=0.1),
        sf.Microaggregate(columns=["X"], k=3),
    ):
        with pytest.raises((SchemaError, MaskError), match="X"):
            mask.mask(frame, seed=1)
    # What doesn't compute with them may swap them.
    swapped = sf.RandomSwap(columns=["X"], rate_percent=50).mask(frame, seed=1)
    assert sorted(swapped.frame["X"]) == sorted(values)


@dataclass(frozen=True, kw_only=True)
class Careless(Mask):
    """Lose a value."""

    name: ClassVar[str] = "careless"
    value: str | None = parameter(None, doc="What the first value becomes.")

    def changes(self, data: sf.Microdata) -> tuple[str, ...]:
        return ("X",)

    def _apply(self, data: sf.Microdata, draws: Draws, notes: Notes) -> sf.Microdata:
        first = None if self.value is None else float(self.value)
        return data.with_columns({"X": pl.Series([first, 2.0, 3.0], dtype=pl.Float64)})


def test_a_mask_that_loses_a_value_is_refused() -> None:
    """A mask of somebody else's that makes NaN, infinities or nulls without saying so."""
    data = sf.Microdata(pl.DataFrame({"X": [1.0, 2.0, 3.0]}))
    for value in (None, "nan", "inf"):
        with pytest.raises(GuaranteeError, match=r"1 value of X \(Float64\)"):
            Careless(value=value).mask(data)
    assert Careless(value="9").mask(data).frame["X"].to_list() == [9.0, 2.0, 3.0]


def test_a_failure_of_arithmetic_names_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    data = sf.Microdata(pl.DataFrame({"X": [1.0, 1e40, 3.0], "Y": [1.0, 2.0, 3.0]}))
    monkeypatch.setattr(sf.RandomSwap, "_apply", fail)
    with pytest.raises(MaskError, match=r"the values of X \(Float64\) \(LinAlgError\)"):
        sf.RandomSwap(columns=["X", "Y"], rate_percent=50).mask(data)
    monkeypatch.setattr(sf.InformationLoss, "_measure", fail)
    with pytest.raises(MeasureError, match="LinAlgError"):
        sf.measure(data, data, sf.InformationLoss(columns=["X", "Y"]))
