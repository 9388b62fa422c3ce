"""What a rank swap ranks by: numbers, dates, and categories put in an order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sfumato.data.microdata import BoolArray, Microdata
from sfumato.errors import MaskError
from sfumato.masks.rank_swap.ranks import AnyArray

_WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)


@dataclass(frozen=True)
class Scores:
    """A column as numbers to rank by.

    ``exact`` says that ``values`` are the column's own physical values (int64 or float64), so that
    swapped values can be written straight back; otherwise whole values are fetched by record.
    ``of`` gives the scores of another file by the same rule (and the same category means).
    """

    values: AnyArray
    exact: bool
    of: Callable[[Microdata], AnyArray]


def scores(data: Microdata, column: str, order_by: str | None) -> Scores:
    """The numbers that a column is ranked by.

    Numbers and dates rank as they are. Categories rank by the order that the schema gives
    (``variables.X.order``, an Enum's own order, false before true), or, with ``order_by``, by the
    mean of that column among the records of the category. Missing values score 0.
    """
    dtype = data.dtype(column)
    if order_by is not None:
        means = category_means(data, column, order_by)
        return _scored(data, lambda other: _by_table(other.column(column), means), exact=False)
    steps = data.schema[column].order
    if steps:
        return _scored(data, lambda other: _positions(other, column, steps), exact=False)
    if dtype == pl.Boolean or dtype == pl.Enum:
        return _scored(data, lambda o: _filled(o.column(column).to_physical().cast(pl.Int64)), exact=False)
    if dtype.is_temporal():
        return _scored(data, lambda o: _filled(o.column(column).to_physical().cast(pl.Int64)), exact=True)
    if dtype in _WHOLE:
        return _scored(data, lambda o: _filled(o.column(column).cast(pl.Int64)), exact=True)
    if dtype.is_numeric():  # unsigned 64 bits, 128 bits and decimals: ranked as floats, moved whole
        return _scored(data, lambda o: _filled(o.column(column).cast(pl.Float64)), exact=dtype.is_float())
    raise MaskError(
        f"rank_swap: {column} holds categories without an order",
        hint=f"give variables.{column}.order, or `order_by` a column whose mean orders them",
    )


def _scored(data: Microdata, of: Callable[[Microdata], AnyArray], *, exact: bool) -> Scores:
    return Scores(of(data), exact, of)


def _filled(series: pl.Series) -> AnyArray:
    if series.null_count():
        series = series.fill_null(0)
    if series.n_chunks() > 1:
        series = series.rechunk()
    return np.ascontiguousarray(series.to_numpy())


def _positions(data: Microdata, column: str, order: tuple[Any, ...]) -> AnyArray:
    series = data.column(column)
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    keys = pl.Series(list(order)).cast(series.dtype)
    found = series.replace_strict(keys, pl.Series(range(len(order)), dtype=pl.Int64), default=None)
    unknown = int((found.is_null().to_numpy() & ~data.missing(column)).sum())
    if unknown:
        raise MaskError(
            f"rank_swap: {unknown:,} values of {column} aren't in its order of {len(order)} categories",
            hint=f"complete variables.{column}.order, or declare the others as missing codes",
        )
    return found.fill_null(0).to_numpy()


def category_means(data: Microdata, column: str, by: str) -> pl.DataFrame:
    """Each category and the mean of ``by`` in it."""
    use = np.isfinite(data.numbers(by))
    frame = pl.DataFrame(
        {
            "category": data.column(column),
            "value": pl.Series(data.numbers(by)).fill_nan(None).set(pl.Series(~use), None),
            "missing": data.missing(column),
        }
    )
    means = frame.filter(~pl.col("missing")).group_by("category").agg(pl.col("value").mean())
    empty = means["value"].null_count()
    if empty:
        raise MaskError(
            f"rank_swap: {empty:,} categories of {column} have no value of {by} to order them by",
            hint="recode them together with others first, or order by another column",
        )
    return means


def _by_table(series: pl.Series, table: pl.DataFrame) -> AnyArray:
    joined = series.alias("category").to_frame().join(table, on="category", how="left", maintain_order="left")
    return joined["value"].fill_null(0.0).to_numpy()


def principal(data: Microdata, columns: tuple[str, ...], movable: BoolArray) -> Scores:
    """The first principal component of the standardised columns, over the records that may move.

    Its sign is such that the first column with a loading has a positive one; constant columns don't
    count.
    """
    used = data.matrix(columns, missing=0.0)[movable]
    mean, spread, loading = np.zeros(len(columns)), np.ones(len(columns)), np.zeros(len(columns))
    if len(used) > 1:
        mean, spread = used.mean(axis=0), used.std(axis=0)
        live = spread > 0
        spread[~live] = 1.0
        if live.any():
            z = (used[:, live] - mean[live]) / spread[live]
            vector = np.linalg.eigh(z.T @ z / len(z))[1][:, -1]
            loading[live] = vector if vector[np.argmax(np.abs(vector) > 1e-9)] > 0 else -vector

    def of(other: Microdata) -> AnyArray:
        out = np.zeros(len(other))
        for k, column in enumerate(columns):  # column by column: a record's score never depends on others
            out += (other.numbers(column, missing=0.0) - mean[k]) / spread[k] * loading[k]
        return out

    return _scored(data, of, exact=False)
