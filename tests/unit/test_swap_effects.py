"""The table of a swap's effects, against figures worked out by hand or in another way."""

from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.utility.swap_effects import effects


def test_example_2_shows_as_d_of_the_block():
    """Moore's Example 2: a block of 20 whose age groups change by D = 0.15."""
    before = [3, 4, 4, 5, 4]
    after = [2, 5, 3, 7, 3]
    ages = [g for g, n in enumerate(before) for _ in range(n)]
    # The block's partners live elsewhere: records 20 to 22 come in, three of the block go out.
    frame = pl.DataFrame({"BLOCK": [1] * 20 + [2] * 3, "AGE": [*ages, 1, 3, 3]})
    out = frame.with_columns(BLOCK=pl.Series([2] + [1] * 6 + [2] + [1] * 8 + [2] + [1] * 3 + [1] * 3))
    inside = out.filter(pl.col("BLOCK") == 1)["AGE"].value_counts().sort("AGE")["count"].to_list()
    assert inside == after
    table = effects(frame, out, keys=["AGE"], geography=["BLOCK"], table=["AGE"], tolerance=2)
    found = sf.SwapEffects(keys=["AGE"], geography=["BLOCK"], table=["AGE"]).measure(frame, out)
    assert found.d_by_area.filter(pl.col("area") == "1")["d"].item() == pytest.approx(0.15)
    assert table.filter(pl.col("effect") == "records changed")["after"].item() == 6


def test_the_deck_before_and_after():
    deck = sf.decks.housing()
    masked = sf.ConfidentialityEdit2000(tolerance=2, sample_percent=50).mask(deck, seed=3)
    found = sf.SwapEffects(tolerance=2).measure(deck, masked)
    keys = list(deck.schema.keys)
    frame = deck.frame.with_columns(
        size=pl.len().over(keys), moved=deck.frame["REGION"] != masked.frame["REGION"]
    )
    uniques = frame.filter(pl.col("size") == 1)
    assert found.tolerance_failures_before == uniques.height == 473
    assert found.tolerance_failures_left == (~uniques["moved"]).sum() > 0
    assert (
        found.tolerance_failures_after == masked.frame.group_by(keys).len().filter(pl.col("len") == 1).height
    )
    levels = found.breakdown.filter(pl.col("effect") == "PERCENTAGE BIAS of INCOME")["level"]
    assert len(levels) == 7  # the levels of Table 7
    assert found.value == pytest.approx(
        max(
            sf.PercentageBias(of=c, classes=keys).measure(deck, masked).percentage_bias
            for c in deck.schema.sensitive
        )
    )


def test_a_file_against_itself_has_no_effect():
    deck = sf.decks.housing()
    found = sf.SwapEffects(of=["INCOME"], tolerance=3).measure(deck, deck)
    assert found.value == 0 == found.records_changed
    assert found.tolerance_failures_left == found.tolerance_failures_before == 622


def test_without_keys_it_says_so():
    with pytest.raises(MeasureError, match="no keys"):
        sf.SwapEffects().measure(pl.DataFrame({"A": [1]}), pl.DataFrame({"A": [1]}))
