"""What a rank swap ranks by: numbers, dates, and categories put in an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.errors import MaskError
from sfumato.microdata import BoolArray, FloatArray, IntArray, Microdata

_WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)


@dataclass(frozen=True)
class Scores:
    """A column as numbers to rank by.

    ``exact`` says that ``values`` are the column's own physical values (int64 or float64), so that
    swapped values can be written straight back; otherwise whole values are fetched by record.
    """

    values: npt.NDArray[Any]
    exact: bool


def is_category(data: Microdata, column: str) -> bool:
    """Whether a column's values have no distance of their own."""
    dtype = data.dtype(column)
    return not (dtype.is_numeric() or dtype.is_temporal())


def scores(data: Microdata, column: str, order_by: str | None) -> Scores:
    """The numbers that a column is ranked by.

    Numbers and dates rank as they are. Categories rank by the order that the schema gives
    (``variables.X.order``, an Enum's own order, false before true), or, with ``order_by``, by the
    mean of that column among the records of the category. Missing values score 0.
    """
    series = data.column(column)
    dtype = series.dtype
    if order_by is not None:
        return Scores(_category_means(data, column, order_by), exact=False)
    order = data.schema[column].order
    if order:
        return Scores(_positions(data, column, series, order), exact=False)
    if dtype == pl.Boolean or dtype == pl.Enum:
        return Scores(_filled(series.to_physical().cast(pl.Int64)), exact=False)
    if dtype.is_temporal():
        return Scores(_filled(series.to_physical().cast(pl.Int64)), exact=True)
    if dtype in _WHOLE:
        return Scores(_filled(series.cast(pl.Int64)), exact=True)
    if dtype.is_float():
        return Scores(_filled(series.cast(pl.Float64)), exact=True)
    if dtype.is_numeric():  # 128 bits, unsigned 64 bits, decimals: ranked as floats, moved whole
        return Scores(_filled(series.cast(pl.Float64)), exact=False)
    raise MaskError(
        f"rank_swap: {column} holds categories without an order",
        hint=f"give variables.{column}.order, or `order_by` a column whose mean orders them",
    )


def _filled(series: pl.Series) -> npt.NDArray[Any]:
    if series.null_count():
        series = series.fill_null(0)
    if series.n_chunks() > 1:
        series = series.rechunk()
    return np.ascontiguousarray(series.to_numpy())


def _positions(data: Microdata, column: str, series: pl.Series, order: tuple[Any, ...]) -> IntArray:
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    steps = {value: place for place, value in enumerate(order)}
    keys = pl.Series(list(steps), dtype=series.dtype)
    places = pl.Series(list(steps.values()), dtype=pl.Int64)
    found = series.replace_strict(keys, places, default=None, return_dtype=pl.Int64)
    unknown = int((found.is_null().to_numpy() & ~data.missing(column)).sum())
    if unknown:
        raise MaskError(
            f"rank_swap: {unknown:,} values of {column} aren't in its order of {len(order)} categories",
            hint=f"complete variables.{column}.order, or declare the others as missing codes",
        )
    return found.fill_null(0).to_numpy()


def _category_means(data: Microdata, column: str, by: str) -> FloatArray:
    numbers = data.numbers(by)
    codes, n = data.codes(column)
    use = np.isfinite(numbers) & ~data.missing(column)
    counts = np.bincount(codes[use], minlength=n)
    sums = np.bincount(codes[use], weights=numbers[use], minlength=n)
    empty = (counts == 0) & (np.bincount(codes[~data.missing(column)], minlength=n) > 0)
    if empty.any():
        raise MaskError(
            f"rank_swap: {int(empty.sum()):,} categories of {column} have no value of {by} to order them by",
            hint="recode them together with others first, or order by another column",
        )
    means: FloatArray = np.divide(sums, counts, out=np.zeros(n), where=counts > 0)
    return means[codes]


def principal_scores(data: Microdata, columns: tuple[str, ...], eligible: BoolArray) -> FloatArray:
    """The first principal component of the standardised columns, over the eligible records.

    Its sign is such that the first column with a loading has a positive one; constant columns don't
    count.
    """
    x = data.matrix(columns, missing=0.0)
    used = x[eligible]
    out = np.zeros(len(data))
    if len(used) < 2:
        return out
    spread = used.std(axis=0)
    live = spread > 0
    if not live.any():
        return out
    z = (used[:, live] - used[:, live].mean(axis=0)) / spread[live]
    _, vectors = np.linalg.eigh(z.T @ z / len(z))
    loading = vectors[:, -1]
    first = loading[np.argmax(np.abs(loading) > 1e-9)]
    out[eligible] = z @ (loading if first > 0 else -loading)
    return out
