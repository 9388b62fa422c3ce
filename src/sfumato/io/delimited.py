"""CSV, TSV and other delimited text.

Everything is read as text first and typed afterwards, from the values of the whole file (``infer``).
Polars reads the text; where it can't, or where rows may be ragged, Python's csv module goes over the
file again, finds the line and says it.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import polars as pl

from sfumato.data.schema import Schema
from sfumato.errors import InputError, SfumatoWarning, did_you_mean
from sfumato.io import encodings
from sfumato.io.files import explained, refuse_infinities, rows_said, unique_names
from sfumato.io.headless import refuse_fixed_width, refuse_like_records, refuse_record_for_names
from sfumato.io.infer import TextColumns, forced, not_numbers

DELIMITERS: Final = (",", ";", "\t", "|")
_SNIFF_CHARACTERS: Final = 1 << 18
_SNIFF_RECORDS: Final = 100
_BLOCK: Final = 1 << 24


@dataclass(frozen=True)
class Dialect:
    """How a delimited file is to be read; None leaves it to the file.

    ``header=False`` names the columns column_1, column_2 …; ``null_values`` are texts that stand for
    nothing in every column; ``types`` sets the types of some columns ("text", "integer", "number",
    "date", "time", "true/false", or a Polars type); ``columns`` reads only some.
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    quote: str | None = '"'
    header: bool = True
    null_values: tuple[str, ...] = ()
    types: Mapping[str, Any] | None = None
    columns: tuple[str, ...] | None = None
    allow_infinite: bool = False

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or len(value.encode()) != 1):
                raise InputError(f"`{name}` must be one ASCII character, not {value!r}")
        if self.decimal not in (None, ".", ","):
            raise InputError(f"`decimal` must be '.' or ',', not {self.decimal!r}")
        if self.decimal == "," and self.delimiter == ",":
            raise InputError("a comma can't separate both decimals and fields")
        nulls = (self.null_values,) if isinstance(self.null_values, str) else tuple(self.null_values)
        object.__setattr__(self, "null_values", nulls)
        if self.columns is not None:
            one = (self.columns,) if isinstance(self.columns, str) else tuple(self.columns)
            object.__setattr__(self, "columns", one)


def read_delimited(
    file: Path, dialect: Dialect, schema: Schema | None = None, *, lazy: bool = False, tabs: bool = False
) -> pl.DataFrame | pl.LazyFrame:
    """A delimited file as a typed frame, or as a scan of one. ``tabs``: the suffix says tabs."""
    with explained(file, "delimited text"):
        source = encodings.as_utf8(file, dialect.encoding)
        try:
            return _Reading(file, source, dialect, tabs).frame(schema, lazy)
        except (pl.exceptions.PolarsError, UnicodeDecodeError):
            if encodings.is_utf8(source):
                raise
            if dialect.encoding is not None:
                encodings.refuse_other_than_utf8(file, source)
            source = encodings.from_legacy(file, source)
            return _Reading(file, source, dialect, tabs).frame(schema, lazy)


class _Reading:
    """One reading of a file whose bytes are UTF-8."""

    def __init__(self, file: Path, source: Path | bytes, dialect: Dialect, tabs: bool) -> None:
        self.file, self.source, self.dialect = file, source, dialect
        with self._text() as text:
            head = text.read(_SNIFF_CHARACTERS)
        if not head.strip():
            raise InputError(f"{file} is empty", hint="it holds only blanks")
        self.delimiter = dialect.delimiter or sniff(head, dialect.quote, tabs=tabs)
        if dialect.delimiter is None:
            refuse_fixed_width(file, head, self.delimiter)
        self.names = self._header()

    @contextlib.contextmanager
    def _text(self) -> Iterator[IO[str]]:
        raw: IO[bytes] = io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb")
        with io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
            yield text

    def _records(self, text: IO[str]) -> Iterator[tuple[int, list[str]]]:
        """Each record with the number of its first line."""
        reader = _csv_reader(text, self.delimiter, self.dialect.quote)
        limit = csv.field_size_limit(1 << 30)
        try:
            line = 1
            while True:
                try:
                    record = next(reader, None)
                except csv.Error as problem:
                    raise InputError(f"{self.file}: line {line:,} can't be read: {problem}") from None
                if record is None:
                    return
                yield line, record
                line = reader.line_num + 1
        finally:
            csv.field_size_limit(limit)

    def _header(self) -> list[str]:
        with self._text() as text:
            first = next((r for _, r in self._records(text) if r), [])
        if not self.dialect.header:
            return [f"column_{i + 1}" for i in range(len(first))]
        names = [n if n.strip() else f"column_{i + 1}" for i, n in enumerate(first)]
        refuse_record_for_names(self.file, first)
        unique_names(self.file, names)
        return names

    # -- the frame --------------------------------------------------------------------------------

    def frame(self, schema: Schema | None, lazy: bool) -> pl.DataFrame | pl.LazyFrame:
        for name in self.dialect.columns or ():
            if name not in self.names:
                raise InputError(f"{self.file} has no column {name!r}", hint=did_you_mean(name, self.names))
        strings: pl.DataFrame | pl.LazyFrame
        scan = self._scan()
        try:
            strings = scan if lazy and isinstance(self.source, Path) else scan.collect()
            size = strings.lazy().select(rows=pl.len(), empty=pl.col(self.names[-1]).null_count())
            rows, empty = size.collect(engine="streaming").row(0)
        except pl.exceptions.PolarsError:
            if not encodings.is_utf8(self.source):
                raise
            strings = self._slowly()
            rows, empty = strings.height, 0
        if not rows:
            raise InputError(f"{self.file} has a header but no records")
        # Polars fills a row that is too short with nulls, so the last column shows whether to look.
        if empty and len(self.names) > 1:
            blank = self._blank_rows(rows)
            if blank:
                kept = strings.lazy().with_row_index("\0row").filter(~pl.col("\0row").is_in(blank))
                strings = kept.drop("\0row").collect()
        if self.dialect.columns is not None:
            strings = strings.select(self.dialect.columns)
        return self._typed(strings, schema)

    def _scan(self) -> pl.LazyFrame:
        return pl.scan_csv(
            self.source,
            has_header=self.dialect.header,
            new_columns=self.names,
            separator=self.delimiter,
            quote_char=self.dialect.quote,
            null_values=list(self.dialect.null_values) or None,
            infer_schema=False,
            glob=False,
        )

    def _blank_rows(self, rows: int) -> list[int]:
        """The rows (from 0) that are blank lines; a row of too few fields is an error.

        As many delimiters as full rows would have means that no row is short (longer rows are
        refused by Polars); only where the number differs is every record looked at.
        """
        expected = (rows + self.dialect.header) * (len(self.names) - 1)
        if self._count(self.delimiter.encode()) == expected:
            return []
        blank, row = [], 0
        with self._text() as text:
            for line, record in self._body(text):
                if not record:
                    blank.append(row)
                else:
                    self._check_width(line, record)
                row += 1
        return blank

    def _body(self, text: IO[str]) -> Iterator[tuple[int, list[str]]]:
        """The records after the header, blank lines included."""
        records = self._records(text)
        for line, record in records:
            if record:
                if not self.dialect.header:
                    yield line, record
                break
        yield from records

    def _check_width(self, line: int, record: list[str]) -> None:
        if len(record) != len(self.names):
            many = "1 field" if len(record) == 1 else f"{len(record):,} fields"
            raise InputError(
                f"{self.file}: line {line:,} has {many}, where the first line has {len(self.names):,} "
                f"(fields are separated by {self.delimiter!r})",
                hint="mend that line; a delimiter or line break inside a field needs quotes around it",
            )

    def _count(self, what: bytes) -> int:
        if isinstance(self.source, bytes):
            return self.source.count(what)
        total = 0
        with self.source.open("rb") as handle:
            while block := handle.read(_BLOCK):
                total += block.count(what)
        return total

    def _slowly(self) -> pl.DataFrame:
        """The file by Python's csv module, which takes stray quotes and names the line of a bad row."""
        rows: list[list[str]] = []
        with self._text() as text:
            for line, record in self._body(text):
                if record:
                    self._check_width(line, record)
                    rows.append(record)
        nothing = {"", *self.dialect.null_values}
        columns = [[v if v not in nothing else None for v in c] for c in zip(*rows, strict=True)]
        columns = columns or [[] for _ in self.names]
        return pl.DataFrame(dict(zip(self.names, columns, strict=True)), dict.fromkeys(self.names, pl.String))

    def _typed(
        self, strings: pl.DataFrame | pl.LazyFrame, schema: Schema | None
    ) -> pl.DataFrame | pl.LazyFrame:
        text = TextColumns(strings, self.dialect.decimal or ("." if self.delimiter == "," else None))
        types = {**text.infer(), **forced(self.file, text, self.dialect.types or {})}
        words = {t.word for t in types.values()}
        if "comma number" in words and words & {"number", "padded number"}:
            commas = [c for c, t in types.items() if t.word == "comma number"]
            points = [c for c, t in types.items() if t.word in ("number", "padded number")]
            warnings.warn(
                f"{self.file}: {commas[0]} has decimal commas and {points[0]} decimal points; "
                'pass decimal="," or "." if one of them is a thousands separator',
                SfumatoWarning,
                stacklevel=2,
            )
        for column in types:
            if schema is not None and types[column].word == "text" and _must_be_number(schema, column):
                gone = [m for m in schema[column].missing if isinstance(m, str)]
                kept = strings.lazy().select(pl.when(~pl.col(column).is_in(gone)).then(pl.col(column)))
                rows, total = not_numbers(kept, column)
                if total:
                    where = rows_said(rows, total)
                    raise InputError(
                        f"{self.file}: {column} should hold numbers, but has text in {where}",
                        hint="the first record after the header is row 1; mend those rows, or pass "
                        "null_values=[…] where the text stands for nothing",
                    )
        if self.dialect.header:
            refuse_like_records(self.file, strings, {c for c, t in types.items() if t.is_number})
        frame = text.typed(types)
        if isinstance(frame, pl.DataFrame) and not self.dialect.allow_infinite:
            refuse_infinities(self.file, frame)
        return frame


def _must_be_number(schema: Schema, column: str) -> bool:
    details = schema[column]
    numbers = (details.top, details.bottom, details.unit)
    return details.kind == "continuous" or any(n is not None for n in numbers) or bool(details.sum_of)


def sniff(head: str, quote: str | None = '"', *, tabs: bool = False) -> str:
    """The delimiter of a text: the one that splits its first records into the same number of fields.

    >>> sniff("a;b;c\\n1,5;2;3\\n1,5;2,25;3\\n")
    ';'
    """
    best, score = ("\t" if tabs else ","), (0.0, 0, 0)
    for order, delimiter in enumerate(("\t", *DELIMITERS) if tabs else DELIMITERS):
        reader = _csv_reader(io.StringIO(head, newline=""), delimiter, quote)
        widths = []
        with contextlib.suppress(csv.Error):
            for record in reader:
                if record:
                    widths.append(len(record))
                if len(widths) > _SNIFF_RECORDS:
                    break
        # The last record of the head may be cut short.
        widths = widths[:-1] if len(widths) > 2 else widths
        if not widths or widths[0] < 2:
            continue
        same = sum(w == widths[0] for w in widths) / len(widths)
        if (now := (round(same, 2), widths[0], -order)) > score:
            best, score = delimiter, now
    return best


def _csv_reader(text: IO[str], delimiter: str, quote: str | None) -> Any:
    if quote is None:
        return csv.reader(text, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    return csv.reader(text, delimiter=delimiter, quotechar=quote)


def write_delimited(
    frame: pl.DataFrame,
    file: Path,
    *,
    delimiter: str = ",",
    decimal: str = ".",
    null_value: str = "",
    include_header: bool = True,
    compress: bool = False,
) -> None:
    """Write text in UTF-8: nulls as nothing, empty text as "", NaN as NaN."""
    with opened(file, compress=compress) as out:
        append_delimited(
            frame,
            out,
            delimiter=delimiter,
            decimal=decimal,
            null_value=null_value,
            include_header=include_header,
        )


_OTHER_DELIMITERS = frozenset(DELIMITERS)


def append_delimited(
    frame: pl.DataFrame,
    out: IO[bytes],
    *,
    delimiter: str = ",",
    decimal: str = ".",
    null_value: str = "",
    include_header: bool = True,
) -> None:
    if decimal == "," and delimiter == ",":
        raise InputError("a comma can't separate both decimals and fields", hint='pass delimiter=";"')
    if include_header and any(set(name) & _OTHER_DELIMITERS for name in frame.columns):
        # Who reads the file guesses its delimiter from the first line: names that hold one are quoted.
        names = ('"' + name.replace('"', '""') + '"' for name in frame.columns)
        out.write(delimiter.join(names).encode() + b"\n")
        include_header = False
    frame.write_csv(
        out,
        separator=delimiter,
        decimal_comma=decimal == ",",
        null_value=null_value or None,
        include_header=include_header,
    )


@contextlib.contextmanager
def opened(file: Path, *, compress: bool) -> Iterator[IO[bytes]]:
    with file.open("wb") as raw:
        if not compress:
            yield raw
            return
        # No name and no time in the header: both tell of the machine that made the file.
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as out:
            yield out  # type: ignore[misc]
