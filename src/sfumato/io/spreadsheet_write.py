"""Spreadsheets written (.xlsx), one sheet with names in its first row.

Nothing in it can be run: text is written as text, whatever it begins with. The same values give the same
bytes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import polars as pl

from sfumato.errors import InputError

MOST_ROWS: Final = 1_048_575
MOST_COLUMNS: Final = 16_384
MOST_LETTERS: Final = 32_767
_EXACT: Final = 2**53
_MADE: Final = dt.datetime(2000, 1, 1)
"""The date that the file says it was made: a real one would tell two writings apart."""


def write_xlsx(frame: pl.DataFrame, target: Path, shown: Path) -> None:
    """Write a frame to ``target``; messages name the file that is ``shown``."""
    try:
        import xlsxwriter
    except ModuleNotFoundError:
        raise InputError(
            f"{shown}: spreadsheets are written by xlsxwriter, which isn't installed",
            hint="pip install 'sfumato[spreadsheets]', or release csv",
        ) from None
    _refuse(frame, shown)
    book = xlsxwriter.Workbook(str(target), {"constant_memory": True, "nan_inf_to_errors": False})
    try:
        book.set_properties({"created": _MADE, "author": ""})
        sheet = book.add_worksheet("data")
        writers = [_writer(book, sheet, dtype) for dtype in frame.dtypes]
        for at, name in enumerate(frame.columns):
            sheet.write_string(0, at, name)
        for row, values in enumerate(frame.iter_rows(), start=1):
            for at, value in enumerate(values):
                if value is not None and value == value:
                    writers[at](row, at, value)
    finally:
        book.close()


def _writer(book: Any, sheet: Any, dtype: pl.DataType) -> Callable[[int, int, Any], Any]:
    if dtype == pl.Boolean:
        return sheet.write_boolean  # type: ignore[no-any-return]
    if dtype.is_numeric():
        return lambda row, at, value: sheet.write_number(row, at, float(value))
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        shape = "yyyy-mm-dd" if dtype == pl.Date else "yyyy-mm-dd hh:mm:ss"
        style = book.add_format({"num_format": shape})
        return lambda row, at, value: sheet.write_datetime(row, at, value, style)
    return lambda row, at, value: sheet.write_string(row, at, str(value))


def _refuse(frame: pl.DataFrame, shown: Path) -> None:
    """What a sheet can't hold is said before anything is written."""
    if frame.height > MOST_ROWS or frame.width > MOST_COLUMNS:
        raise InputError(
            f"{shown}: a sheet holds {MOST_ROWS:,} records of {MOST_COLUMNS:,} columns, not "
            f"{frame.height:,} of {frame.width:,}",
            hint="release csv or parquet",
        )
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        column = frame[name]
        if dtype.is_integer() and float(column.cast(pl.Float64).abs().max() or 0) > _EXACT:  # type: ignore[arg-type]
            raise InputError(
                f"{shown}: {name} has whole numbers of more digits than a sheet holds",
                hint="release csv or parquet",
            )
        if dtype == pl.String and column.str.len_chars().gt(MOST_LETTERS).any():
            raise InputError(
                f"{shown}: {name} has texts longer than a cell holds", hint="release csv or parquet"
            )
        if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
            raise InputError(f"{shown}: {name} has a time zone, which a sheet can't hold", hint="release csv")
        if dtype in (pl.Date, pl.Datetime) and _before_1900(column):
            raise InputError(
                f"{shown}: {name} has days before 1900, which a sheet can't hold", hint="release csv"
            )


def _before_1900(column: pl.Series) -> bool:
    first: Any = column.min()
    return first is not None and first.year < 1900
