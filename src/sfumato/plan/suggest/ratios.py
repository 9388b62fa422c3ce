"""Which columns are ratios of two others: shares, rates, amounts a head.

Where r = k·a/b, log r + log b − log a is the same in every record. For each column that may be a ratio,
all pairs are tried on a sample, k must be a number that people multiply by, and what is found is checked
on all records, to the rounding that the column shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import Microdata
from sfumato.data.rules import RatioOf
from sfumato.plan.suggest import words

Matrix = npt.NDArray[np.float64]

_SAMPLE: Final = 300
_MOST_COLUMNS: Final = 80
_FEWEST: Final = 30
_LEAST_SHARE: Final = 0.9
_FIRST: Final = 40
"""How many records decide whether a pair is worth a look at all of them."""
_TIMES: Final = (
    1.0,
    100.0,
    1000.0,
    10_000.0,
    100_000.0,
    1_000_000.0,
    12.0,
    52.0,
    1 / 12,
    1 / 52,
    0.1,
    0.01,
    0.001,
)
_VALUES: Final = 15
_MOST_DECIMALS: Final = 8


@dataclass(frozen=True)
class FoundRatio:
    """A ratio, and the share of the records with all three values in which it holds."""

    ratio: RatioOf
    share: float


def rounding_of(values: Matrix) -> float:
    """The step that values are rounded to: 1, 0.1, 0.01 …; 0 where they aren't rounded.

    >>> rounding_of(np.array([0.25, 1.5])), rounding_of(np.array([1 / 3]))
    (0.01, 0.0)
    """
    known = values[np.isfinite(values)][:5000]
    for places in range(_MOST_DECIMALS):
        scaled = known * 10.0**places
        if np.all(np.abs(scaled - np.rint(scaled)) <= 1e-6 * np.maximum(1.0, np.abs(scaled) * 1e-3)):
            return float(10.0**-places)
    return 0.0


def find_ratios(data: Microdata, columns: Sequence[str], others: Sequence[str]) -> dict[str, FoundRatio]:
    """Each of these columns that is a ratio of two of the others.

    >>> import polars as pl
    >>> rent, income = [300 + 7 * i % 401 for i in range(200)], [900 + 13 * i % 977 for i in range(200)]
    >>> share = [round(100 * r / i, 1) for r, i in zip(rent, income)]
    >>> frame = pl.DataFrame({"rent": rent, "income": income, "share": share})
    >>> found = find_ratios(Microdata(frame), ["share"], ["rent", "income"])
    >>> print(found["share"].ratio, found["share"].share)
    share = 100 · rent / income 1.0
    """
    if len(data) < _FEWEST:
        return {}
    step = max(1, len(data) // _SAMPLE)
    numbers = {c: data.numbers(c) for c in dict.fromkeys([*columns, *others])}
    usable = [c for c in others if _varies(numbers[c])][:_MOST_COLUMNS]
    tried = [c for c in columns if _may_be_ratio(c, numbers[c])][:_MOST_COLUMNS]
    if len(usable) < 2 or not tried:
        return {}
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = {c: np.log(np.where(numbers[c][::step] > 0, numbers[c][::step], np.nan)) for c in numbers}
    table = np.column_stack([logs[c] for c in usable])
    found: dict[str, FoundRatio] = {}
    for c in tried:
        best = _best(c, logs[c], table, usable, numbers)
        if best is not None:
            found[c] = best
    return _one_reading(found, numbers)


def _varies(values: Matrix) -> bool:
    known = values[np.isfinite(values)]
    return len(known) >= _FEWEST and bool((known > 0).mean() > 0.05) and known.min() < known.max()


def _may_be_ratio(name: str, values: Matrix) -> bool:
    known = values[np.isfinite(values)]
    if len(known) < _FEWEST or len(np.unique(known[:5000])) < _VALUES:
        return False
    return bool(np.any(known != np.floor(known))) or words.has(name, words.MEASURE)


def _best(
    name: str, log: Matrix, table: Matrix, usable: Sequence[str], numbers: dict[str, Matrix]
) -> FoundRatio | None:
    best: FoundRatio | None = None
    unit = rounding_of(numbers[name])
    slack = np.log1p(min(0.5, unit / max(float(np.nanmedian(np.exp(log))), 1e-12))) + 1e-6
    there = np.flatnonzero(np.isfinite(log))[:_FIRST]
    log, table = log[there], table[there]
    for j, below in enumerate(usable):
        if below == name:
            continue
        gap = np.sort((log + table[:, j])[:, None] - table, axis=0)  # what is missing goes to the end
        many = np.isfinite(gap).sum(axis=0)
        middle = np.take_along_axis(gap, np.maximum(many - 1, 0)[None, :] // 2, axis=0)[0]
        with np.errstate(invalid="ignore"):
            near = (np.abs(gap - middle) <= 2 * slack).sum(axis=0)
        for i in np.flatnonzero((many >= _FIRST // 4) & (near >= 0.7 * many)):
            above = usable[int(i)]
            if above in (name, below):
                continue
            times = _usual(float(np.exp(middle[i])), slack)
            if times is None:
                continue
            ratio = RatioOf(name, (above, below), unit or None, times=times)
            values = {c: numbers[c] for c in ratio.members}
            there = np.logical_and.reduce([np.isfinite(v) for v in values.values()]) & (values[below] != 0)
            share = float(ratio.holds(values)[there].mean()) if there.any() else 0.0
            if share >= _LEAST_SHARE and (best is None or share > best.share):
                best = FoundRatio(ratio, share)
    return best


def _usual(times: float, slack: float) -> float | None:
    for usual in _TIMES:
        if abs(np.log(times / usual)) <= 2 * slack + 1e-6:
            return usual
    return None


def _one_reading(found: dict[str, FoundRatio], numbers: dict[str, Matrix]) -> dict[str, FoundRatio]:
    """r = a/b is also b = a/r: of columns that explain each other one is the ratio, named so or the finer."""
    order = sorted(
        found, key=lambda c: (not words.has(c, words.MEASURE), rounding_of(numbers[c]), words.is_money(c))
    )
    out: dict[str, FoundRatio] = {}
    for c in order:
        parts = set(found[c].ratio.parts)
        if not any(c in f.ratio.parts for f in out.values()) and not parts & set(out):
            out[c] = found[c]
    return {c: out[c] for c in found if c in out}
