"""What every rank swap and every t-order swap keeps, on files of any kind."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf

numbers = st.one_of(st.none(), st.integers(-5, 5), st.just(99))


@st.composite
def files(draw):
    n = draw(st.integers(1, 40))
    many = dict(min_size=n, max_size=n)
    frame = pl.DataFrame(
        {
            "A": pl.Series(draw(st.lists(numbers, **many)), dtype=pl.Int32),
            "B": pl.Series(draw(st.lists(st.floats(-1e6, 1e6), **many)), dtype=pl.Float64),
            "FLAG": pl.Series(draw(st.lists(st.booleans(), **many)), dtype=pl.Boolean),
            "S": pl.Series(draw(st.lists(st.sampled_from("xyz"), **many)), dtype=pl.String),
        }
    )
    details = {"A": {"top": 5, "bottom": -5, "missing": [99]}, "B": {"imputed": "FLAG"}}
    return sf.Microdata(frame, sf.Schema(variables=details))


settings_of_masks = st.fixed_dictionaries(
    {},
    optional={
        "within": st.just(["S"]),
        "keep_zeros": st.booleans(),
        "leftover": st.sampled_from(["stay", "cycle"]),
        "together": st.booleans(),
        "rank_by": st.sampled_from(["first", "principal"]),
    },
)


def ranks_apart(values: list[float], old: float, new: float) -> int:
    """The least number of ranks between two values, whatever the order of ties."""
    places = {v: [r for r, w in enumerate(values) if w == v] for v in (old, new)}
    return min(abs(a - b) for a, b in itertools.product(places[old], places[new]))


@given(files(), st.floats(0, 100), settings_of_masks, st.integers(0, 3))
@settings(max_examples=80)
def test_values_stay_in_their_strata_and_near_their_rank(data, percent, options, seed):
    mask = sf.RankSwap(columns=["A", "B"], window_percent=percent, **options)
    masked = mask.mask(data, seed=seed)
    strata = data.frame["S"].to_list() if "within" in options else [""] * len(data)
    together = options.get("together", False)
    for name in ("A", "B"):
        old, new = data.frame[name], masked.frame[name]
        assert new.dtype == old.dtype
        may = data.eligible("A") & data.eligible("B") if together else data.eligible(name)
        if options.get("keep_zeros"):
            zeros = [data.numbers(c) != 0 for c in (("A", "B") if together else (name,))]
            may = may & np.logical_and.reduce(zeros)
        for i, ok in enumerate(may):
            assert ok or old[i] == new[i] or (old[i] is None and new[i] is None)
        for stratum in set(strata):
            inside = [i for i in range(len(data)) if strata[i] == stratum]
            assert Counter(new.gather(inside).to_list()) == Counter(old.gather(inside).to_list())
            moving = [i for i in inside if may[i]]
            values = sorted(old.gather(moving).to_list()) if moving else []
            window = max(1, int(percent * len(moving) / 100 + 1e-9)) if percent else 0
            if not together:
                for i in moving:
                    assert ranks_apart(values, old[i], new[i]) <= window
    if together:
        pairs = [list(zip(f["A"], f["B"], f["S"], strict=True)) for f in (data.frame, masked.frame)]
        assert Counter(pairs[0]) == Counter(pairs[1]) or "within" not in options
        assert Counter(p[:2] for p in pairs[0]) == Counter(p[:2] for p in pairs[1])


@given(st.integers(2, 60), st.floats(0.1, 100), st.sampled_from(["uniform", "geometric"]), st.integers(0, 5))
def test_a_swap_is_an_involution_and_leaves_at_most_one(n, percent, partner, seed):
    data = sf.Microdata(pl.DataFrame({"X": np.arange(n) * 10}))
    masked = sf.RankSwap(columns=["X"], window_percent=percent, partner=partner).mask(data, seed=seed)
    source = masked.frame["X"].to_numpy() // 10
    assert (source[source] == np.arange(n)).all()
    assert (source == np.arange(n)).sum() == n % 2


@given(st.integers(2, 40), st.integers(0, 3), st.floats(0.02, 0.98))
def test_calibrated_swaps_keep_the_multiset_whatever_the_target(n, seed, target):
    values = np.random.default_rng(n).lognormal(0, 1.5, n).round(2)
    data = sf.Microdata(pl.DataFrame({"X": values}))
    for asked in ({"correlation": target}, {"mean_change": target}):
        masked = sf.RankSwap(columns=["X"], far_values="group", **asked).mask(data, seed=seed)
        assert sorted(masked.frame["X"]) == sorted(values)


TYPES = [
    pl.Int8,
    pl.UInt8,
    pl.Int16,
    pl.Int64,
    pl.UInt64,
    pl.Float32,
    pl.Float64,
    pl.Date,
    pl.Datetime,
    pl.Decimal(10, 2),
]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_is_kept(dtype):
    if dtype == pl.Date:
        values = [date(1990, 1, 1) + timedelta(days=37 * i) for i in range(50)]
        series = pl.Series("X", [*values, None])
    elif dtype == pl.Datetime:
        series = pl.Series("X", [date(1990, 1, 1) + timedelta(days=i) for i in range(50)] + [None]).cast(
            dtype
        )
    else:
        series = pl.Series("X", [*range(50), None]).cast(dtype)
    masked = (
        sf.RankSwap(columns=["X"], window_percent=10).mask(pl.DataFrame({"X": series}), seed=3).frame["X"]
    )
    assert masked.dtype == series.dtype
    assert masked[50] is None
    assert masked.sort().equals(series.sort(), null_equal=True)
    assert (masked != series).sum() == 50


def test_huge_integers_are_moved_to_the_last_digit():
    values = [2**62 + i for i in range(9)] + [-(2**62) - 1]
    masked = sf.RankSwap(columns=["X"], window_percent=20).mask(pl.DataFrame({"X": values}), seed=1)
    assert sorted(masked.frame["X"]) == sorted(values)


# -- t-order swaps --------------------------------------------------------------------------------


@st.composite
def keyed(draw):
    t, n = draw(st.integers(1, 5)), draw(st.integers(1, 80))
    cards = draw(st.lists(st.integers(1, 4), min_size=t, max_size=t))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    columns = {f"K{i}": rng.integers(0, c, n) for i, c in enumerate(cards)}
    return pl.DataFrame({**columns, "AREA": rng.integers(0, 3, n), "PAY": rng.integers(0, 1000, n)})


@given(keyed(), st.sampled_from([0, 1, 10, 50, 100]), st.booleans(), st.integers(0, 3))
@settings(max_examples=120)
def test_every_count_of_the_keys_stays(frame, rate, strata, seed):
    keys = [c for c in frame.columns if c.startswith("K")]
    within = ["AREA"] if strata else []
    mask = sf.TOrderSwap(keys=keys, rate_percent=rate, within=within)
    masked = mask.mask(frame, seed=seed).frame
    for order in range(1, len(keys) + 1):
        for some in itertools.combinations(keys, order):
            wanted = Counter(frame.select(*some, *within).rows())
            assert Counter(masked.select(*some, *within).rows()) == wanted
    assert masked.select("AREA", "PAY").equals(frame.select("AREA", "PAY"))
    if rate == 0:
        assert masked.equals(frame)
