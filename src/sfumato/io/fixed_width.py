"""Text files that a mu-ARGUS .rda file describes: fixed width, or delimited without a header.

Blanks are null. What the metadata know goes into the schema: missing codes, code lists as labels,
the weight, the household id, and the variables with an identification level as keys.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from sfumato.data.schema import Code, Kind, Schema, Variable
from sfumato.errors import InputError, did_you_mean
from sfumato.io import argus, encodings
from sfumato.io.files import (
    SHOWN,
    explained,
    refuse_infinities,
    rows_said,
    unique_names,
)
from sfumato.io.infer import TextColumns
from sfumato.io.layouts import READERS, read_layout


def read_fixed_width(
    file: Path,
    schema: Schema | None = None,
    *,
    metadata: str | os.PathLike[str] | None = None,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
) -> tuple[pl.DataFrame, Schema]:
    """A text file with its .rda metadata, as a frame and a schema."""
    described = argus.beside(file, Path(metadata) if metadata is not None else None)
    with explained(described, "a layout of fixed-width text"):
        about, labels, said = _described(described)
        unique_names(described, [c.name for c in about.columns])
    with explained(file, "fixed-width text"):
        lines = _lines(file, encoding)
        frame = _split(file, lines, about) if about.separator is not None else _cut(file, lines, about)
        wanted = [c.name for c in about.columns] if columns is None else list(columns)
        for name in wanted:
            if name not in frame.columns:
                raise InputError(f"{file} has no column {name!r}", hint=did_you_mean(name, frame.columns))
        of = {c.name: c for c in about.columns}
        typed = _typed(file, frame.select(wanted), of)
        refuse_infinities(file, typed)
        sure = described.suffix.casefold() not in READERS
        return typed, _schema(typed, [of[n] for n in wanted], labels, said, sure=sure)


def _described(file: Path) -> tuple[argus.Metadata, dict[str, dict[str, str]], dict[str, str]]:
    """The columns, the labels of codes and the labels of variables that a layout gives."""
    if file.suffix.casefold() in READERS:
        layout = read_layout(file)
        fitting = {c.name: layout.codes[n] for n in layout.codes if (c := layout.named(n)) is not None}
        said = {c.name: layout.labels[n] for n in layout.labels if (c := layout.named(n)) is not None}
        return argus.Metadata(layout.columns), fitting, said
    about = argus.read_rda(file)
    return about, argus.codelists(about, file.parent), {}


def _lines(file: Path, encoding: str | None) -> pl.Series:
    """The lines of the file, without their ends; blank lines at the end aren't records."""
    source = encodings.as_utf8(file, encoding)
    raw = source if isinstance(source, bytes) else source.read_bytes()
    if not encodings.is_utf8(raw):
        raw = encodings.from_legacy(file, raw)
    text = raw.decode("utf-8-sig").rstrip("\r\n\x1a")
    if not text.strip():
        raise InputError(f"{file} is empty", hint="it holds only blanks")
    return pl.Series("line", text.split("\n"), pl.String).str.strip_chars_end("\r")


def _cut(file: Path, lines: pl.Series, about: argus.Metadata) -> pl.DataFrame:
    width = max(c.end for c in about.columns)
    length = lines.str.len_chars()
    short = (length < width).arg_true()
    if len(short):
        first = int(short[0])
        many = f"; {len(short):,} lines are" if len(short) > 1 else ""
        raise InputError(
            f"{file}: line {first + 1:,} is too short: it has {length[first]:,} characters, where the "
            f"metadata need {width:,}{many}",
            hint="is the layout the right one? was white space at line ends removed?",
        )
    frame = pl.DataFrame({"": lines})
    return frame.lazy().select(
        [pl.col("").str.slice(c.start - 1, c.length).alias(c.name) for c in about.columns]
    ).collect()  # fmt: skip


def _split(file: Path, lines: pl.Series, about: argus.Metadata) -> pl.DataFrame:
    import csv

    separator = about.separator or ","
    names = [c.name for c in about.columns]
    rows = []
    for number, record in enumerate(csv.reader(lines.to_list(), delimiter=separator), 1):
        if len(record) != len(names):
            raise InputError(
                f"{file}: line {number:,} has {len(record):,} fields, where the metadata name "
                f"{len(names):,} (separated by {separator!r})",
                hint="is the .rda file the right one?",
            )
        rows.append(record)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return pl.DataFrame({n: pl.Series(v, dtype=pl.String) for n, v in columns.items()})


def _typed(file: Path, text: pl.DataFrame, of: dict[str, argus.Column]) -> pl.DataFrame:
    bare = pl.all().str.strip_chars()
    text = text.with_columns(pl.when(bare != "").then(bare))
    text = text.with_columns(
        [_pointed(c.name, c.implied) for c in of.values() if c.implied and c.name in text.columns]
    )
    columns = TextColumns(text, ".")
    types = {n: t for n, t in columns.infer().items() if not of[n].text}
    for name in text.columns:
        if of[name].numeric and name in types and not types[name].is_number and text[name].count():
            number = text[name].cast(pl.Float64, strict=False)
            bad = (number.is_null() & text[name].is_not_null()).arg_true()
            if len(bad):
                rows = (bad.head(SHOWN) + 1).to_list()
                raise InputError(
                    f"{file}: {name} should hold numbers, but has text in {rows_said(rows, len(bad))}",
                    hint="the first line is row 1; is the .rda file the right one?",
                )
            text = text.with_columns(number)
    typed = columns.typed({n: t for n, t in types.items() if text[n].dtype == pl.String})
    assert isinstance(typed, pl.DataFrame)
    numbers = [
        pl.col(n).cast(pl.Float64)
        for n in text.columns
        if of[n].numeric and of[n].decimals and typed[n].dtype.is_integer()
    ]
    forced = {n: text[n] for n in text.columns if text[n].dtype != pl.String}
    return typed.with_columns(numbers).with_columns(**forced)


def _pointed(name: str, places: int) -> pl.Expr:
    """Whole digits with the decimal point that the layout implies; written points are left."""
    at = pl.col(name)
    digits = at.str.contains(r"^[+-]?\d+$")
    number = at.cast(pl.Float64, strict=False) / 10.0**places
    return pl.when(digits).then(number.cast(pl.String)).otherwise(at).alias(name)


def _schema(
    frame: pl.DataFrame,
    columns: Sequence[argus.Column],
    labels: dict[str, dict[str, str]],
    said: dict[str, str],
    *,
    sure: bool,
) -> Schema:
    variables = {}
    for c in columns:
        dtype = frame[c.name].dtype
        variables[c.name] = Variable(
            kind=_kind(c, sure),
            label=said.get(c.name),
            missing=tuple(_code(m, dtype) for m in c.missing),
            labels={_code(code, dtype): text for code, text in labels.get(c.name, {}).items()},
            unit=10.0**-c.decimals if c.numeric and c.decimals else None,
        )
    return Schema(
        keys=tuple(c.name for c in columns if c.id_level > 0),
        weight=next((c.name for c in columns if c.weight), None),
        household=next((c.name for c in columns if c.household_id), None),
        variables=variables,
    )


def _kind(column: argus.Column, sure: bool) -> Kind | None:
    """What the metadata of mu-ARGUS say; other layouts only know text."""
    if column.numeric:
        return "continuous"
    return "categorical" if sure or column.text else None


def _code(text: str, dtype: pl.DataType) -> Code:
    """A code in the type of its column, where it has one there."""
    if dtype.is_numeric():
        try:
            number = float(text)
        except ValueError:
            return text
        return int(number) if number.is_integer() and not dtype.is_float() else number
    return text
