"""Write a text file that a mu-ARGUS .rda file describes, with its code lists."""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.data.schema import Range, Variable
from sfumato.errors import InputError, SfumatoWarning
from sfumato.io import argus
from sfumato.io.arrow import plain
from sfumato.io.files import check_target, replacing, written

_NAME: Final = re.compile(r"^[^\s<>\",;]+$")


def write_fixed_width(
    data: Microdata, path: Path, *, overwrite: bool, separator: str | None = None, encoding: str = "utf-8"
) -> None:
    """The data, the .rda file beside them, and a .cdl file for each column with labels.

    All are written under temporary names first; the data take their place last.
    """
    frame = plain(data.frame)
    for name in frame.columns:
        if not _NAME.match(name):
            raise InputError(
                f"{path}: mu-ARGUS has no variable names like {name!r}",
                hint="rename the column, or write .csv or .parquet",
            )
    if separator is not None and len(separator.encode()) != 1:
        raise InputError(f"`separator` must be one character, not {separator!r}")
    with written(path):
        text = pl.DataFrame([_text(frame[c], data, path) for c in frame.columns])
        _warn_of_blanks(frame, path)
        about = _about(data, text, path, separator)
        body = _body(text, frame, about)
        extras = {path.with_suffix(".rda"): argus.write_rda(about)}
        for column in about.columns:
            if column.codelist is not None:
                extras[path.with_name(column.codelist)] = _codelist(data.schema[column.name])
        try:
            content = {file: t.encode(encoding) for file, t in {path: body, **extras}.items()}
        except (UnicodeEncodeError, LookupError) as problem:
            raise InputError(f"{path} can't be written as {encoding}: {problem}") from None
    for file in content:
        check_target(file, overwrite=overwrite)
    with ExitStack() as stack:  # left in reverse order: the data are renamed last
        for file, raw in content.items():
            stack.enter_context(replacing(file, overwrite=overwrite)).write_bytes(raw)


def _text(series: pl.Series, data: Microdata, path: Path) -> pl.Series:
    """The values as they are written; null is nothing."""
    if series.dtype == pl.Boolean:
        series = series.cast(pl.Int8)
    if series.dtype == pl.Datetime:
        return series.dt.to_string("iso:strict").fill_null("").rename(series.name)
    text = series.cast(pl.String)
    if series.dtype == pl.String and text.str.contains("[\r\n]").any():
        raise InputError(f"{path}: {series.name} has line breaks, which fixed width has no place for")
    return text.fill_null("")


def _warn_of_blanks(frame: pl.DataFrame, path: Path) -> None:
    texts = [c for c, t in frame.schema.items() if t == pl.String]
    lost = frame.select(
        [((pl.col(c) != pl.col(c).str.strip_chars()) | (pl.col(c) == "")).any() for c in texts]
    )
    names = [c for c in texts if lost[c][0]]
    if names:
        warnings.warn(
            f"{path}: text that is empty or ends in blanks can't be told from padding in fixed width "
            f"({', '.join(names[:5])}{' …' if len(names) > 5 else ''})",
            SfumatoWarning,
            stacklevel=2,
        )


def _about(data: Microdata, text: pl.DataFrame, path: Path, separator: str | None) -> argus.Metadata:
    out, start, schema = argus.Metadata(separator=separator), 1, data.schema
    for name in text.columns:
        variable = schema[name]
        numeric = data.kind(name) == "continuous" and data.is_numeric(name)
        codes = _codes(data, name, variable)
        longest = int(text[name].str.len_chars().max() or 1)  # type: ignore[arg-type]
        length = max(1, longest, *map(len, codes))
        key = name in schema.keys or name in schema.geography
        column = argus.Column(
            name=name,
            start=0 if separator else start,
            length=length,
            missing=codes,
            numeric=numeric or name == schema.weight,
            decimals=_decimals(text[name], variable) if numeric else 0,
            weight=name == schema.weight,
            household_id=name == schema.household,
            recodable=not numeric and name != schema.weight,
            id_level=1 if key else 0,
            codelist=f"{path.stem}_{name}.cdl" if variable.labels else None,
        )
        out.columns.append(column)
        start += length
    return out


def _codes(data: Microdata, name: str, variable: Variable) -> tuple[str, ...]:
    """The missing codes as text; of a range, those that occur."""
    codes: list[str] = []
    for code in variable.missing:
        if isinstance(code, Range):
            there = sorted(v for v in data.column(name).drop_nulls().unique().to_list() if v in code)
            codes += [str(v) for v in there]
        else:
            codes.append(str(code))
    return tuple(dict.fromkeys(codes))


def _decimals(text: pl.Series, variable: Variable) -> int:
    if variable.unit is not None and variable.unit < 1:
        return max(0, round(-math.log10(variable.unit)))
    after = text.str.extract(r"\.(\d+)$", 1).drop_nulls().str.len_chars()
    return int(after.max() or 0)  # type: ignore[arg-type]


def _body(text: pl.DataFrame, frame: pl.DataFrame, about: argus.Metadata) -> str:
    if about.separator is not None:
        buffer = io.StringIO(newline="")
        csv.writer(buffer, delimiter=about.separator, lineterminator="\r\n").writerows(text.rows())
        return buffer.getvalue()
    fields = [
        pl.col(c.name).str.pad_start(c.length)
        if frame[c.name].dtype.is_numeric()
        else pl.col(c.name).str.pad_end(c.length)
        for c in about.columns
    ]
    lines = text.select(pl.concat_str(fields).alias("")).to_series()
    return "".join(f"{line}\r\n" for line in lines)


def _codelist(variable: Variable) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\r\n").writerows(variable.labels.items())
    return buffer.getvalue()
