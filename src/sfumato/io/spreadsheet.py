"""Spreadsheets (.xlsx, .xlsb, .xls, .ods), read by fastexcel: one sheet, names in its first row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sfumato.errors import InputError, did_you_mean
from sfumato.io.files import explained, refuse_infinities, unique_names


def read_spreadsheet(
    file: Path,
    *,
    sheet: str | None = None,
    columns: Sequence[str] | None = None,
    allow_infinite: bool = False,
) -> pl.DataFrame:
    """A sheet as a frame: its only one that isn't empty, or the one that ``sheet`` names.

    Numbers that are all whole become whole numbers again (a spreadsheet knows none), and a column with
    text among its numbers is text throughout, so that nothing is lost.
    """
    import fastexcel

    with explained(file, "a spreadsheet", hint="is it locked by a password, cut short or of another kind?"):
        book = fastexcel.read_excel(str(file))
        name = _sheet(file, book, sheet)
        loaded: Any = book.load_sheet(
            name, header_row=0, schema_sample_rows=None, skip_whitespace_tail_rows=True
        )
        frame = pl.DataFrame(loaded.to_polars())
    if not frame.width:
        raise InputError(f"{file}: the sheet {name!r} is empty")
    unnamed = [c for c in frame.columns if c.startswith("__UNNAMED__")]
    frame = frame.rename({c: f"column_{frame.columns.index(c) + 1}" for c in unnamed})
    unique_names(file, frame.columns)
    _refuse_values_for_names(file, name, frame.columns)
    frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    for wanted in columns or ():
        if wanted not in frame.columns:
            raise InputError(f"{file} has no column {wanted!r}", hint=did_you_mean(wanted, frame.columns))
    frame = frame.select(columns) if columns is not None else frame
    frame = frame.with_columns([pl.col(c).cast(pl.Int64) for c in frame.columns if _whole(frame[c])])
    if not allow_infinite:
        refuse_infinities(file, frame)
    return frame


def _sheet(file: Path, book: Any, wanted: str | None) -> str:
    names: list[str] = list(book.sheet_names)
    if wanted is not None:
        if wanted not in names:
            raise InputError(f"{file} has no sheet {wanted!r}", hint=did_you_mean(wanted, names))
        return wanted
    filled = [n for n in names if book.load_sheet(n, header_row=None, n_rows=2).width]
    if not filled:
        raise InputError(f"{file} has no sheet with anything in it")
    if len(filled) > 1:
        raise InputError(
            f"{file} has {len(filled)} sheets: {', '.join(filled[:8])}",
            hint=f"say which: sheet = {filled[0]!r} under [read] in a plan, or sheet={filled[0]!r}",
        )
    return filled[0]


def _refuse_values_for_names(file: Path, sheet: str, names: Sequence[str]) -> None:
    numbers = [n for n in names if n.replace(".", "", 1).replace("-", "", 1).isdigit()]
    years = all(len(n) == 4 and n[:2] in ("18", "19", "20") for n in numbers)
    if len(numbers) > len(names) / 2 and not years:
        raise InputError(
            f"{file}: the first row of the sheet {sheet!r} holds numbers where names are expected",
            hint="put a row of names above the records",
        )


def _whole(series: pl.Series) -> bool:
    if not series.dtype.is_float() or series.null_count() == len(series):
        return False
    known = series.drop_nulls()
    return bool(known.is_finite().all() and (known == known.floor()).all() and (known.abs() < 2**53).all())
