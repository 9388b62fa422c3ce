"""Columns that nothing can be computed with: said before the work, and where arithmetic fails in it.

Lists, structs, bytes and columns without a type are refused by every step and measure that needs
them. Numbers so large that their squares overflow (or so small that they vanish) are refused where
they are turned into numbers (:meth:`Microdata.numbers`). What slips through, a solver that doesn't
converge or a type that an operation doesn't know, becomes an error that names the columns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError, counted

_FAILURES = (
    ArithmeticError,
    np.linalg.LinAlgError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)


def refuse_unusable(data: Microdata, columns: Sequence[str], error: type[SfumatoError], name: str) -> None:
    """An error where one of the columns is of a type that no method takes."""
    for column in columns:
        word = odd_type(data.dtype(column)) if column in data.columns else None
        if word is not None:
            raise error(
                f"{name}: {column} holds {word}, which can't be masked or measured",
                hint="make plain columns of it, or drop it before",
            )


def odd_type(dtype: pl.DataType) -> str | None:
    """What a column of this type holds, in words; None for ordinary types.

    >>> odd_type(pl.List(pl.Int64())), odd_type(pl.Int64())
    ('lists', None)
    """
    if isinstance(dtype, (pl.List, pl.Array)):
        return "lists"
    if isinstance(dtype, pl.Struct):
        return "records of their own (structs)"
    if dtype == pl.Binary:
        return "bytes"
    if dtype == pl.Object:
        return "Python objects"
    return "nothing but nulls, without a type" if dtype == pl.Null else None


@contextmanager
def computing(
    data: Microdata, columns: Sequence[str], error: type[SfumatoError], name: str
) -> Iterator[None]:
    """Failures of arithmetic as an error that names the columns (SFUMATO_DEBUG shows the failure itself)."""
    try:
        yield
    except _FAILURES as problem:
        if os.environ.get("SFUMATO_DEBUG"):
            raise
        there = [c for c in columns if c in data.columns]
        odd = [c for c in there if _suspect(data, c)] or there
        named = ", ".join(f"{c} ({data.dtype(c)})" for c in odd[:5]) + (" …" if len(odd) > 5 else "")
        raise error(
            f"{name} can't compute with the values of {named} ({type(problem).__name__})",
            hint="are they too large, too small or of too odd a type? Give them in other units or as "
            "another type, or leave them out",
        ) from None


def _suspect(data: Microdata, column: str) -> bool:
    """Whether a column is of a rare type, or has values at the ends of what floats can hold."""
    dtype = data.dtype(column)
    if dtype in (pl.Duration, pl.Time, pl.Int128, pl.UInt128) or dtype.is_decimal():
        return True
    if not dtype.is_float():
        return False
    size = data.column(column).abs().drop_nans()
    top, least = size.max(), size.filter(size > 0).min()
    return (isinstance(top, float) and top > 1e30) or (isinstance(least, float) and least < 1e-30)


def negatives(before: Microdata, after: Microdata, column: str) -> tuple[int, int] | None:
    """How many values are below zero before and after; a missing code isn't one. None for what is no number.

    >>> before = Microdata(pl.DataFrame({"PAY": [1, 2]}))
    >>> negatives(before, before.with_columns({"PAY": pl.Series([1, -2])}), "PAY")
    (0, 1)
    """
    if not (before.is_numeric(column) and after.is_numeric(column)):
        return None

    def count(data: Microdata) -> int:
        series = data.column(column)
        least = series.min()
        if least is None or not least < 0:  # type: ignore[operator]
            return 0
        there = pl.Series(~data.missing(column))
        return int(((series < 0) & there).fill_null(False).sum())

    return count(before), count(after)


def below_zero(column: str, before: int, after: int) -> str | None:
    """A sentence where a column without negative values has some now.

    >>> below_zero("PAY", 0, 1)
    'PAY is negative in 1 record, where no value was before'
    """
    if before or not after:
        return None
    return f"{column} is negative in {counted(after, 'record')}, where no value was before"
