"""What a mask has to say reaches the person who calls it from Python, too."""

from __future__ import annotations

import logging

import polars as pl
import pytest

import sfumato as sf

ONE_BLOCK = sf.Microdata(pl.DataFrame({"STATE": [1] * 40, "BLOCK": [1] * 40, "KEY": [1, 2] * 20}))


def test_cautions_of_a_mask_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    edit = sf.ConfidentialityEdit1990(match_on=["KEY"], swap=["BLOCK"], within=["STATE"], rate_percent=20)
    with caplog.at_level(logging.WARNING, logger="sfumato"):
        edit.mask(ONE_BLOCK, seed=1)
    assert [r.levelname for r in caplog.records] == ["WARNING"] * len(caplog.records)
    said = [r.getMessage() for r in caplog.records]
    assert any("1 strata have a single area" in text for text in said)
    assert all(text.startswith("confidentiality_edit_1990: ") for text in said)
    kept = sf.Plan(steps=[edit]).run(ONE_BLOCK, seed=1).warnings  # the same, and the run's own
    assert {f"step {text}" for text in said} <= set(kept)


def test_what_is_unwise_from_the_start_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    data = sf.Microdata(
        pl.DataFrame({"A": [float(k % 17) for k in range(60)], "B": [k * 1.0 for k in range(60)]})
    )
    with caplog.at_level(logging.WARNING, logger="sfumato"):
        sf.MixtureNoise(columns=["A", "B"], variance_ratio=0.1).mask(data, seed=1)
    assert sum("component" in r.getMessage() for r in caplog.records) == 1


def test_a_mask_without_cautions_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    data = sf.Microdata(pl.DataFrame({"A": range(60)}))
    with caplog.at_level(logging.WARNING, logger="sfumato"):
        sf.RandomSwap(columns=["A"], rate_percent=50).mask(data, seed=1)
    assert not caplog.records
