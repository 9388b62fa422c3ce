"""Codes among a column's numbers: those that look like missing, top and bottom codes, and the unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.data.schema import Code
from sfumato.plan.suggest import lexicon

_LONGEST_NINES: Final = 10
_LOW_CODES: Final = frozenset(
    {*range(-9, 0), -66, -77, -88, *range(-99, -95), *range(-999, -995), -9999, -99999}
)
_MANY_VALUES: Final = 20
_SHORT_LIST: Final = 30
_TAIL: Final = 15
"""How many values next to an end are compared with it."""
_UNITS: Final = (1000.0, 500.0, 100.0, 50.0, 10.0, 5.0)
_FRACTIONS: Final = (0.5, 0.1, 0.05, 0.01, 0.001, 0.0001)


@dataclass(frozen=True)
class Codes:
    """What was found in one column, each with its reason."""

    missing: tuple[tuple[Code, str], ...] = ()
    top: tuple[float, str] | None = None
    bottom: tuple[float, str] | None = None


class Values:
    """The distinct values of a column in order, with how often each occurs (in the sample)."""

    def __init__(self, series: pl.Series) -> None:
        known = series.drop_nulls()
        if known.dtype.is_float():
            known = known.filter(known.is_finite())
        counted = known.value_counts(name="\0n").sort(known.name)
        self.values: npt.NDArray[np.float64] = counted[known.name].cast(pl.Float64).to_numpy()
        self.counts: npt.NDArray[np.int64] = counted["\0n"].cast(pl.Int64).to_numpy()

    def __len__(self) -> int:
        return len(self.values)

    def without(self, codes: set[float]) -> Values:
        out = Values.__new__(Values)
        keep = ~np.isin(self.values, list(codes))
        out.values, out.counts = self.values[keep], self.counts[keep]
        return out


def codes_of(sample: pl.Series, labels: dict[Any, str], *, age: bool = False) -> Codes:
    """The codes of a numeric column; ``age`` says that its values are ages."""
    values = Values(sample.rename("value"))
    if len(values) < 3:
        return Codes()
    missing = _missing(values, labels, whole=sample.dtype.is_integer())
    rest = values.without({float(c) for c, _ in missing if not isinstance(c, str)})
    top = _heap(rest, above=True) or (age_top(rest) if age else None)
    bottom = _heap(rest, above=False)
    if top is not None and bottom is not None and bottom[0] >= top[0]:
        bottom = None
    return Codes(tuple(missing), top, bottom)


def _missing(values: Values, labels: dict[Any, str], *, whole: bool) -> list[tuple[Code, str]]:
    out: list[tuple[Code, str]] = []
    for code, label in labels.items():
        if isinstance(code, (int, float)) and lexicon.says_missing(label):
            out.append((code, f"{code:g} is labelled {label!r}"))
    taken = {float(c) for c, _ in out if not isinstance(c, str)}
    rest = values.without(taken)
    # Sevens, eights and nines together: refused, not known, no answer.
    same = _repeated(rest)
    if same:
        out += [(_plain(v, whole), f"{v:g} stands apart above all other values, with its like") for v in same]
        rest = rest.without(set(same))
    # Codes at the upper end: 9, 99, 999 … and the 98, 998 before them, which stand apart together.
    for size in (3, 2, 1):
        last = rest.values[-size:]
        if len(rest) < size + 2 or not all(_is_high_code(float(v)) for v in last):
            continue
        if _stands_apart(rest.without({float(v) for v in last[1:]}), above=True):
            out += [(_plain(float(v), whole), f"{v:g} stands apart above all other values") for v in last]
            rest = rest.without({float(v) for v in last})
            break
    # Codes at the lower end: only below columns that are never negative otherwise, and not next to
    # their smallest value (an age of −1 is an age).
    negative = rest.values[rest.values < 0]
    others = rest.values[rest.values >= 0]
    if len(negative) and len(others) >= 2 and all(v in _LOW_CODES for v in negative):
        apart = others[0] - negative[-1] >= 2 or negative[-1] <= -7
        if apart:
            why = "is among the only values below 0"
            out += [(_plain(float(v), whole), f"{v:g} {why}") for v in negative[:6]]
    return out


def _repeated(values: Values) -> list[float]:
    """The last values where they are 7, 8, 9 (77, 88, 99 …), two of them at least, above a gap.

    >>> one, two = pl.Series("x", [1, 2, 3, 4, 5, 7, 9]), pl.Series("x", [1, 2, 3, 4, 5, 6, 7, 9])
    >>> _repeated(Values(one)), _repeated(Values(two))
    ([7.0, 9.0], [])
    """
    if not 4 <= len(values) <= _SHORT_LIST:
        return []
    size = len(f"{values.values[-1]:.0f}")
    codes = [float(str(d) * size) for d in (7, 8, 9)]
    last = [float(v) for v in values.values[-3:] if float(v) in codes]
    rest = values.without(set(last)).values
    if len(last) < 2 or len(rest) < 2 or last[0] - rest[-1] < 2:
        return []
    near = np.diff(rest).max() <= 1
    return last if size > 1 or (near and last[0] == codes[0]) else []


def _plain(value: float, whole: bool) -> Code:
    return int(value) if whole else value


def _is_high_code(value: float) -> bool:
    """9, 99, 999 … or one of the two codes before them, from 97 on."""
    for digits in range(1, _LONGEST_NINES + 1):
        nines = 10**digits - 1
        if value == nines or (digits >= 2 and value in (nines - 1, nines - 2)):
            return True
    return False


def _stands_apart(values: Values, *, above: bool) -> bool:
    """Whether the end value is far from the next, measured by the steps before it, and not alone.

    Long-tailed columns have wide steps at their end, so that their largest value doesn't qualify.
    """
    order = values.values if above else -values.values[::-1]
    counts = values.counts if above else values.counts[::-1]
    near = order[-_TAIL - 1 : -1]
    gap = order[-1] - order[-2]
    step = float(np.max(np.diff(near))) if len(near) > 2 else 1.0
    if counts[-1] < 2 or gap < 2:
        return False
    if len(order) <= 12:  # a short list of codes, such as 1 2 3 4 9
        return bool(gap >= 3 * step)
    return bool(gap >= 3 * step or (gap >= step and counts[-1] >= 20 * np.median(counts[-_TAIL - 1 : -1])))


def age_top(values: Values) -> tuple[float, str] | None:
    """The top code of ages: they grow rarer towards the end, so that a last one far commoner than those
    before it stands for all beyond."""
    if len(values) < _MANY_VALUES:
        return None
    end, before = int(values.counts[-1]), float(np.mean(values.counts[-6:-1]))
    if end < 5 or end < 1.8 * before or end - before < 4 * np.sqrt(before):
        return None
    return float(
        values.values[-1]
    ), f"more people have the highest age, {values.values[-1]:g}, than those before it"


def _heap(values: Values, *, above: bool) -> tuple[float, str] | None:
    """The end value, where many more records stand at it than at the values next to it."""
    if len(values) < _MANY_VALUES:
        return None
    ends = values.counts if above else values.counts[::-1]
    end = float(values.values[-1] if above else values.values[0])
    if not above and end >= 0:
        return None  # many zeros (no income) or ones (a count) are values, not a bottom code
    near = ends[-_TAIL - 1 : -1]
    total = int(values.counts.sum())
    if ends[-1] < max(5, 0.001 * total) or ends[-1] < 5 * max(float(np.median(near)), 1.0):
        return None
    if ends[-1] <= near[-3:].max():
        return None
    word = "largest" if above else "smallest"
    share = 100 * ends[-1] / total
    return end, f"{share:.2g}% of the values are the {word} one, {end:g}: a heap at the end"


def unit_of(data: Microdata, column: str) -> float | None:
    """The largest usual step that all values are whole multiples of (None: 1, or no such step)."""
    dtype = data.dtype(column)
    if not dtype.is_numeric():
        return None
    values = data.numbers(column)
    known = values[np.isfinite(values)]
    if len(known) < 20 or not known.any() or np.abs(known).max() >= 2**52:
        return None
    steps = _UNITS if dtype.is_integer() else (*_UNITS, 1.0, *_FRACTIONS)
    for step in steps:
        # A look at the first few saves most passes over the whole column.
        if _multiples(known[:200], step) and _multiples(known, step):
            return step
    return None


def _multiples(values: npt.NDArray[np.float64], step: float) -> bool:
    scaled = values / step
    close = np.abs(scaled - np.rint(scaled)) <= 1e-6 * np.maximum(1.0, np.abs(scaled) * 1e-6)
    return bool(np.all(close))
