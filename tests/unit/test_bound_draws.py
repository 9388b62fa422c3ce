"""One seed never gives the same noise, pairs or order twice: draws are bound to the file and the step."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.data.digest import records_digest

KEY = b"a key of some bytes"


def people(seed: int, n: int = 400) -> sf.Microdata:
    rng = np.random.default_rng(seed)
    return sf.Microdata(
        pl.DataFrame({"PAY": rng.normal(100, 15, n), "SEX": rng.choice(["f", "m"], n), "N": np.arange(n)})
    )


@given(st.permutations(range(12)), st.permutations(["PAY", "SEX", "N"]), st.integers(1, 11))
@settings(max_examples=30)
def test_order_and_pieces_of_a_file_do_not_change_its_digest(
    rows: list[int], columns: list[str], cut: int
) -> None:
    frame = people(1, 12).frame
    other = frame.select(columns)[rows]
    other = pl.concat([other[:cut], other[cut:]], rechunk=False)
    assert records_digest(sf.Microdata(other), KEY) == records_digest(sf.Microdata(frame), KEY)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.with_columns(pl.col("PAY") + pl.when(pl.col("N") == 7).then(1e-12).otherwise(0.0)),
        lambda f: f.with_columns(pl.when(pl.col("N") == 7).then(None).otherwise(pl.col("SEX")).alias("SEX")),
        lambda f: f.with_columns(pl.col("N").reverse()),
        lambda f: f[:-1],
        lambda f: pl.concat([f, f[-1:]]),
        lambda f: f.rename({"SEX": "sex"}),
    ],
)
def test_any_change_of_a_file_changes_its_digest(change: object) -> None:
    frame = people(1).frame
    assert records_digest(sf.Microdata(change(frame)), KEY) != records_digest(sf.Microdata(frame), KEY)  # type: ignore[operator]
    assert records_digest(sf.Microdata(frame), KEY) != records_digest(sf.Microdata(frame), b"another key")


def test_every_type_has_a_digest() -> None:
    from datetime import date

    frame = pl.DataFrame(
        {
            "i": pl.Series([1, None], dtype=pl.Int8),
            "u": pl.Series([2**64 - 1, 0], dtype=pl.UInt64),
            "f": [float("nan"), -0.0],
            "b": [True, None],
            "d": [date(2020, 1, 1), None],
            "c": pl.Series(["x", None], dtype=pl.Categorical),
            "m": pl.Series(["1.10", "2.20"]).cast(pl.Decimal(10, 2)),
            "n": pl.Series([None, None], dtype=pl.Null),
            "l": [[1, 2], [3]],
            "y": [b"a", None],
            "s": ["", "é"],
        }
    )
    assert len(records_digest(sf.Microdata(frame), KEY)) == 16
    zero = frame.with_columns(pl.Series("f", [float("nan"), 0.0]))
    assert records_digest(sf.Microdata(zero), KEY) == records_digest(sf.Microdata(frame), KEY)


def test_one_seed_on_two_files_gives_unrelated_noise() -> None:
    """With the same noise, one original and its masked file would undo the other file's mask."""
    noise = sf.AdditiveNoise(columns=["PAY"], variance_ratio=0.1)
    parts = []
    for seed in (1, 2):
        data = people(seed)
        parts.append(noise.mask(data, seed=5).numbers("PAY") - data.numbers("PAY"))
    r = float(np.corrcoef(*parts)[0, 1])
    assert abs(r) < 4 / np.sqrt(400)
    same = [noise.mask(people(1), seed=5).numbers("PAY") for _ in range(2)]
    assert (same[0] == same[1]).all()


def test_common_random_numbers_on_purpose() -> None:
    noise = sf.AdditiveNoise(columns=["PAY"], variance_ratio=0.1)
    parts = []
    for seed in (1, 2):
        data = people(seed)
        masked = noise.mask(data, seed=5, common_random_numbers=True)
        x = data.numbers("PAY")
        parts.append((masked.numbers("PAY") - x) / x.std())
    assert np.corrcoef(*parts)[0, 1] > 0.999


def test_masking_twice_with_one_seed_does_not_restore_the_original() -> None:
    data = people(3)
    swap = sf.RandomSwap(columns=["PAY"], rate_percent=100)
    again = swap.mask(swap.mask(data, seed=9), seed=9)
    kept = int((again.numbers("PAY") == data.numbers("PAY")).sum())
    assert kept < 20  # about one in 400 by chance


def test_two_strengths_on_one_file_have_unrelated_draws() -> None:
    """PRAM at two probabilities changed nested sets of records: the weaker release told the stronger one."""
    data = people(4, 4000)
    changed = [
        (
            sf.Pram(columns=["SEX"], keep_probability=p).mask(data, seed=6).column("SEX")
            != data.column("SEX")
        ).to_numpy()
        for p in (0.9, 0.8)
    ]
    rates = [c.mean() for c in changed]
    both = float((changed[0] & changed[1]).mean())
    error = np.sqrt(rates[0] * rates[1] * (1 - rates[0] * rates[1]) / 4000)
    assert abs(both - rates[0] * rates[1]) < 4 * error


def test_the_order_of_a_release_is_bound_to_the_file() -> None:
    from sfumato.release.order import release_order

    plan = sf.Plan(steps=[sf.RandomSwap(columns=["PAY"], rate_percent=10)])
    one, two = (release_order(plan.run(people(s), seed=3)) for s in (1, 2))
    assert sorted(one.tolist()) == list(range(400))
    assert int((one == two).sum()) < 15
    assert (one == release_order(plan.run(people(1), seed=3))).all()
