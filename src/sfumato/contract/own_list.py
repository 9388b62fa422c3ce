"""The intruder's own list, made comparable with the release.

Whoever reads that the release has ages in classes of ten puts his own list into classes of ten before
he compares. So does every attack: by the plan's steps where they are known (``Mask.own_list``), else
by matching the release's classes. A recode must not pass a limit by confusing an attack.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.contract.mask import Mask

_SURE = 0.95  # so many of the records must bear a column's classes out
_LEVELS = 0.5  # a recode leaves at most so many classes for one value


def own_list(original: Microdata, masked: Microdata, steps: Sequence[Mask] = ()) -> Microdata:
    """The original file as somebody who holds it would compare it with the release."""
    return as_classes(by_steps(original, steps), masked)


def by_steps(data: Microdata, steps: Sequence[Mask]) -> Microdata:
    """A list as the steps recode it, whatever the release shows."""
    for step in steps:
        try:
            data = step.own_list(data)
        except SfumatoError:
            continue  # a value that the step left to another: it stays apart from the release's codes
    return data


def as_classes(original: Microdata, masked: Microdata) -> Microdata:
    """The original in the release's classes, wherever a column's values show to which class each went.

    A value's class is that of most records that have it (of the nearest other values, where it is a
    number). The classes are taken only where records predict one another so in at least 95%, of the
    records and of the values, and there are fewer classes than values: the codebook of a release says
    as much. Columns that no
    record's neighbours predict (noise, swaps) stay as they are, and so does a value of one record
    alone, whose neighbours must tell.
    """
    new: dict[str, pl.Series] = {}
    for flag in (c for c in masked.columns if c.endswith("_zero") and c not in original.columns):
        column = flag.removesuffix("_zero")
        if column in original.columns and original.dtype(column).is_numeric():
            new[flag] = (original.column(column) == 0).cast(masked.dtype(flag)).alias(flag)
    if len(original) == len(masked):
        for column in original.columns:
            if column in masked.columns and column not in _apart(original):
                classes = _classes(original, masked, column)
                if classes is not None:
                    new[column] = classes
    if not new:
        return original
    out = original.with_columns(new)
    meant = {c: masked.schema[c] for c in new if c in masked.schema.variables}
    return out.with_schema(replace(out.schema, variables={**out.schema.variables, **meant}))


def _apart(data: Microdata) -> set[str | None]:
    return {data.schema.id, data.schema.household, data.schema.weight}


def _classes(original: Microdata, masked: Microdata, column: str) -> pl.Series | None:
    before, after = original.column(column), masked.column(column)
    if before.dtype == after.dtype and before.equals(after, null_equal=True):
        return None
    rows = np.flatnonzero(~original.missing(column) & ~masked.missing(column))
    one, two = before.gather(rows), after.gather(rows)
    values, levels = one.n_unique(), two.n_unique()
    ordered = before.dtype.is_numeric() or before.dtype.is_temporal()
    if before.dtype.is_numeric() and after.dtype in (pl.String, pl.Categorical, pl.Enum):
        named = _by_label(before, two)
        if named is not None:
            return named.cast(after.dtype).alias(column)
    if len(rows) < 4 or levels > _LEVELS * values:
        return None
    place = one.to_physical().rank("dense").to_numpy().astype(np.int64) - 1
    codes = two.cast(pl.String).rank("dense").to_numpy().astype(np.int64) - 1
    guess, sure = _predicted(place, codes, values, levels, ordered)
    if sure < _SURE:
        return None
    names = two.gather(np.unique(codes, return_index=True)[1])
    kept = before if before.dtype == after.dtype else before.cast(pl.String).cast(after.dtype, strict=False)
    return kept.clone().scatter(rows, names.gather(guess)).alias(column)


_NUMBER = r"([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"


def _above(value: float) -> float:
    """The least number above: the lower end of a class that leaves its limit to the one below."""
    return float(np.nextafter(value, math.inf))


# Lower end, upper end, whether the upper end belongs to the class. R's cut writes (20,30], ARX [20, 30[.
_RANGES: Final[tuple[tuple[str, Callable[..., tuple[float, float, bool]]], ...]] = (
    (rf"{_NUMBER}\s*(?:-|–|to)\s*{_NUMBER}", lambda a, b: (a, b, True)),
    (rf"\[{_NUMBER},\s*{_NUMBER}[)\[]", lambda a, b: (a, b, False)),
    (rf"\[{_NUMBER},\s*{_NUMBER}\]", lambda a, b: (a, b, True)),
    (rf"[(\]]{_NUMBER},\s*{_NUMBER}\]", lambda a, b: (_above(a), b, True)),
    (rf"[(\]]{_NUMBER},\s*{_NUMBER}[)\[]", lambda a, b: (_above(a), b, False)),
    (rf"{_NUMBER}\s*\+", lambda a: (a, math.inf, True)),
    (rf"(?:>=|≥)\s*{_NUMBER}", lambda a: (a, math.inf, True)),
    (rf">\s*{_NUMBER}", lambda a: (_above(a), math.inf, True)),
    (rf"<\s*{_NUMBER}", lambda a: (-math.inf, a, False)),
    (rf"(?:<=|≤)\s*{_NUMBER}", lambda a: (-math.inf, a, True)),
    (_NUMBER, lambda a: (a, a, True)),
)


def class_range(label: str) -> tuple[float, float, bool] | None:
    """Lower end, upper end and whether that belongs to the class, if a label says so.

    >>> class_range("20-29"), class_range("90+"), class_range("<20"), class_range("[0, 10)")
    ((20.0, 29.0, True), (90.0, inf, True), (-inf, 20.0, False), (0.0, 10.0, False))
    >>> class_range("[20, 30["), class_range("(1e+04,2e+04]")[1:], class_range("south")
    ((20.0, 30.0, False), (20000.0, True), None)
    """
    for pattern, ends in _RANGES:
        found = re.fullmatch(pattern, label.strip())
        if found:
            return ends(*(float(number) for number in found.groups()))
    return None


def _by_label(values: pl.Series, released: pl.Series) -> pl.Series | None:
    """The classes whose names are ranges of numbers, if they hold nearly all values."""
    labels = released.cast(pl.String).drop_nulls().unique().to_list()
    ranges = {label: class_range(label) for label in labels}
    if not any(r is not None and r[0] != r[1] for r in ranges.values()):
        return None
    x = values.cast(pl.Float64).to_numpy()
    out = values.cast(pl.String)
    held = np.zeros(len(x), dtype=np.bool_)
    for label, ends in ranges.items():
        if ends is None:
            continue
        low, high, closed = ends
        inside = (x >= low) & ((x <= high) if closed else (x < high)) & ~held
        held |= inside
        out = out.zip_with(~pl.Series(inside), pl.Series([label]).new_from_index(0, len(out)))
    there = ~np.isnan(x)
    return out if held[there].mean() >= _SURE else None


def _predicted(
    place: np.ndarray[Any, Any], codes: np.ndarray[Any, Any], values: int, levels: int, ordered: bool
) -> tuple[np.ndarray[Any, Any], float]:
    """Each record's class as the other records tell it, and the share for which that is true."""
    pairs, counts = np.unique(place * levels + codes, return_counts=True)
    of, to = pairs // levels, pairs % levels
    # The most frequent class of every value, and how many other records have that value and class.
    best = np.lexsort((counts, of))
    last = np.append(np.flatnonzero(np.diff(of[best])), len(best) - 1)
    mode, most = np.full(values, -1, dtype=np.int64), np.zeros(values, dtype=np.int64)
    mode[of[best[last]]], most[of[best[last]]] = to[best[last]], counts[best[last]]
    size = np.bincount(place, minlength=values)
    guess = mode[place]
    shared = size[place] > 1
    right = (guess == codes) & (most[place] > 1)
    if not ordered:
        return guess, _share(right, shared, place)
    # A value of its own lies between two others; where both are of one class, so is it.
    before, after = np.roll(mode, 1), np.roll(mode, -1)
    before[0], after[-1] = mode[min(1, values - 1)], mode[max(values - 2, 0)]
    between = np.where(before == after, before, mode)
    told = before == after
    alone = ~shared
    guess = np.where(alone, between[place], guess)
    right |= alone & told[place] & (between[place] == codes)
    return guess, _share(right, shared | told[place], place)


def _share(right: np.ndarray[Any, Any], judged: np.ndarray[Any, Any], place: np.ndarray[Any, Any]) -> float:
    """The share of right predictions by records or by values, whichever is less: where nearly everybody has
    a zero, a swap leaves nearly all of them as they were and yet is no recode."""
    if judged.mean() <= 0.5:
        return 0.0
    seen = np.bincount(place[judged])
    hits = np.bincount(place[judged], right[judged])
    by_value = hits[seen > 0] / seen[seen > 0]
    return float(min(right[judged].mean(), by_value.mean()))
