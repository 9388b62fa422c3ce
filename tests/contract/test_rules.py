"""No mask is undone by a rule of the schema: the obvious attack, on every mask there is.

The intruder reads the dictionary, finds ``SUM = X + OTHER``, and computes X = SUM − OTHER.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from cases import deck_for, example

import sfumato as sf
from sfumato import registry
from sfumato.contract.mask import Mask
from sfumato.data.microdata import Microdata
from sfumato.errors import GuaranteeError, SfumatoError

MASKS = registry.masks()
every_mask = pytest.mark.parametrize("cls", MASKS.values(), ids=MASKS)
pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")


def numeric(mask: Mask, data: Microdata) -> list[str]:
    """The columns of numbers that the mask changes."""
    return [c for c in mask.changes(data) if c in data.columns and data.is_numeric(c)][:3]


def tied(data: Microdata, column: str, **details: object) -> Microdata:
    """The deck with ``SUM`` = column + ``OTHER``, declared."""
    other = np.random.default_rng(7).integers(1, 500, len(data)).astype(float)
    frame = data.frame.with_columns(OTHER=pl.Series(other))
    frame = frame.with_columns(SUM=pl.col(column).cast(pl.Float64) + pl.col("OTHER"))
    details = {"sum_of": [column, "OTHER"], **details}
    return Microdata(frame, data.schema.with_variable("SUM", **details))


def recovered(data: Microdata, masked: Microdata, column: str) -> tuple[int, int]:
    """How many changed values of the column SUM − OTHER gives back, and how many changed."""
    before = data.column(column).cast(pl.Float64)
    after = masked.column(column).cast(pl.Float64, strict=False)
    changed = before.ne_missing(after) & pl.Series(~data.missing(column))
    guess = masked.column("SUM").cast(pl.Float64, strict=False) - masked.column("OTHER")
    hit = ((guess - before).abs() < 1e-6 * (1 + before.abs())).fill_null(False)
    return int((changed & hit).sum()), int(changed.sum())


@every_mask
def test_a_sum_doesnt_give_a_masked_part_back(cls: type[Mask]) -> None:
    data = deck_for(cls, complete=True)
    mask = example(cls, data)
    total = 0
    for column in numeric(mask, data):
        one = tied(data, column)
        run = sf.Plan(steps=[mask]).run(one, seed=3, measure=False)
        back, changed = recovered(one, run.masked, column)
        # What a step can't keep (a part that became text), the run refuses to release.
        assert back == 0 or not run.ok
        assert (back == 0) == (not run.derivations)
        if getattr(mask, "keeps_types", True):
            assert back == 0
            total += changed
            off = run.masked.frame.select(
                (pl.col("SUM") - pl.col(column).cast(pl.Float64) - pl.col("OTHER")).abs().max()
            ).item()
            assert off < 1e-6 * one.frame["SUM"].max()
    assert total or not numeric(mask, data) or not getattr(mask, "keeps_types", True)


@every_mask
def test_parts_dont_give_a_masked_total_back(cls: type[Mask], tmp_path) -> None:
    """The masked column is the total of two that nobody masks: refused, or nothing comes back."""
    data = deck_for(cls, complete=True)
    mask = example(cls, data)
    for column in numeric(mask, data):
        half = pl.Series(np.random.default_rng(8).integers(1, 50, len(data)).astype(float))
        frame = data.frame.with_columns(P=half, Q=data.column(column).cast(pl.Float64) - half)
        one = Microdata(frame, data.schema.with_variable(column, sum_of=["P", "Q"]))
        try:
            run = sf.Plan(steps=[mask]).run(one, seed=3, measure=False)
        except SfumatoError as problem:
            told = column in str(problem)
            assert told, str(problem)  # noqa: PT017
            continue
        before = one.column(column).cast(pl.Float64)
        hidden = before.ne_missing(run.masked.column(column).cast(pl.Float64, strict=False))
        guess = run.masked.column("P") + run.masked.column("Q")
        back = int((hidden & ((guess - before).abs() < 1e-6).fill_null(False)).sum())
        assert (back == 0) == run.ok
        if back:
            with pytest.raises(GuaranteeError, match=column):
                run.release(tmp_path / column)


@every_mask
def test_a_total_with_a_rest_of_its_own_doesnt_either(cls: type[Mask]) -> None:
    """With ``residual`` the rule holds in most records only; there it is as good as any other."""
    data = deck_for(cls, complete=True)
    mask = example(cls, data)
    for column in numeric(mask, data)[:1]:
        one = tied(data, column, residual=True)
        rest = np.where(np.arange(len(data)) % 4 == 0, 1000.0, 0.0)
        one = one.with_columns({"SUM": one.column("SUM") + pl.Series(rest)})
        run = sf.Plan(steps=[mask]).run(one, seed=3, measure=False)
        back, _ = recovered(one, run.masked, column)
        assert back == 0 or not run.ok
