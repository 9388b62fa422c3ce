"""Columns as trees see them: whole-number codes to split on, and a response to split for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.microdata import FloatArray, Microdata
from sfumato.errors import MaskError
from sfumato.stats.levels import blurred, levels_of

Codes = npt.NDArray[np.int32]

HEAP: Final = 0.05
"""A number that this share of the records has is a class of its own: zero, a top code, a round amount."""
MOST_CLASSES: Final = 256
"""Rarer categories are one class where splits are judged; they are drawn as they are."""


@dataclass(frozen=True)
class Part:
    """One column: its values coded in their order, and what a split for it is judged by."""

    name: str
    values: pl.Series
    """What is released of each record's value: the value, blurred where it is rare."""
    codes: Codes
    levels: int
    ordered: bool
    numbers: FloatArray
    """Records × 2 of an amount: its value and its normal score, standardised; × 0 of a category."""
    classes: Codes
    n_classes: int


def part(data: Microdata, column: str, blur: int = 0) -> Part:
    """A column of the file."""
    kind, gone = data.kind(column), data.missing(column)
    if kind == "categorical" or data.dtype(column) == pl.Boolean:
        return _category(column, data.column(column), *data.codes(column))
    is_number = data.dtype(column).is_numeric() or data.dtype(column).is_temporal()
    if is_number and np.isinf(data.numbers(column)[~gone]).any():
        raise MaskError(
            f"synthesise: {column} has infinite values",
            hint="declare them as missing or top-coded, or mend them",
        )
    series = blurred_column(data, column, blur)
    alone = Microdata(series.to_frame())
    if is_number:
        return amount(column, series, *alone.codes(column), alone.numbers(column), gone)
    order = {str(v): i for i, v in enumerate(data.schema[column].order)}
    text = series.cast(pl.String)
    place = text.replace_strict(order, default=len(order), return_dtype=pl.Int64).fill_null(-1)
    codes, levels = Microdata(pl.DataFrame({"place": place, "text": text})).codes(["place", "text"])
    return amount(column, series, codes, levels, codes.astype(np.float64), gone)


def blurred_column(data: Microdata, column: str, blur: int) -> pl.Series:
    """The column as it may be released: rare numbers are means of neighbours, all else is as it is."""
    series = data.column(column)
    if not blur or data.kind(column) == "categorical":
        return series
    levels = levels_of(data, column)
    made = blurred(levels, blur, step=data.schema[column].unit, ordinal=data.kind(column) == "ordinal")
    return made.values[column].gather(made.codes).rename(column)


def _category(column: str, series: pl.Series, codes: npt.NDArray[np.int64], levels: int) -> Part:
    classes, n_classes = codes, levels
    if levels > MOST_CLASSES:
        count = np.bincount(codes, minlength=levels)
        rank = np.empty(levels, np.int64)
        rank[np.lexsort((np.arange(levels), -count))] = np.arange(levels)
        classes, n_classes = np.minimum(rank, MOST_CLASSES - 1)[codes], MOST_CLASSES
    return Part(
        column, series, codes.astype(np.int32), levels, False, np.zeros((len(codes), 0)),
        classes.astype(np.int32), max(n_classes, 1),
    )  # fmt: skip


def amount(
    column: str, series: pl.Series, codes: npt.NDArray[np.int64], levels: int, values: FloatArray,
    gone: npt.NDArray[np.bool_],
) -> Part:  # fmt: skip
    """A column of ordered values: missing ones, and numbers that many records have, are classes too."""
    from scipy.special import ndtri

    n = len(codes)
    count = np.bincount(codes, minlength=levels)
    heap = count >= max(HEAP * n, 2)
    heap[codes[gone]] = True
    classes = np.where(heap, np.cumsum(heap), 0)[codes] if levels > 1 else np.zeros(n, np.int64)
    numbers = np.zeros((n, 2))
    there = ~gone
    if there.any():
        own = np.bincount(codes[there], minlength=levels)
        middle = np.cumsum(own) - (own - 1) / 2
        numbers[there, 0] = _standard(values[there])
        numbers[there, 1] = _standard(ndtri(middle[codes[there]] / (there.sum() + 1)))
    return Part(
        column, series, codes.astype(np.int32), levels, True, numbers,
        classes.astype(np.int32), int(heap.sum()) + 1 if levels > 1 else 1,
    )  # fmt: skip


def _standard(values: FloatArray) -> FloatArray:
    """Mean 0 and variance 1; all 0 where there is no spread, or one too large for a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.abs(values).max(initial=0.0)) or 1.0
        scaled = values / size
        off = scaled - scaled.mean()
        spread = float(off.std())
    return off / spread if np.isfinite(spread) and spread > 1e-12 else np.zeros(len(values))
