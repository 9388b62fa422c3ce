"""The types of columns that were read as text, from all their values.

A column has the narrowest type that takes every value of it. Whole numbers with leading zeros
("007") and those too long to be exact as numbers stay text: they are codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl

from sfumato.errors import InputError, did_you_mean
from sfumato.io.files import SHOWN, rows_said

NUMBER_NULLS: Final = ("", "NA", "N/A", "#N/A", "NULL", "null", ".", "..")
"""What stands for nothing among numbers (R, spreadsheets, databases, SAS and Stata, Eurostat)."""

_SAMPLE: Final = 2_000
_EXACT_DIGITS: Final = 15  # whole numbers of up to this many digits are exact in a double

Expression = Callable[[str], pl.Expr]


def _as_is(column: str) -> pl.Expr:
    return pl.col(column)


def _bare(column: str) -> pl.Expr:
    """The text without padding, and without the words for nothing."""
    text = pl.col(column).str.strip_chars()
    return pl.when(~text.is_in(NUMBER_NULLS)).then(text)


def _comma(column: str) -> pl.Expr:
    text = _bare(column)
    pointed = text.str.replace(",", ".", literal=True)
    return pl.when(~text.str.contains(".", literal=True)).then(pointed).cast(pl.Float64, strict=False)


def _true_false(column: str) -> pl.Expr:
    text = pl.col(column).str.to_lowercase()
    return pl.when(text == "true").then(True).when(text == "false").then(False).alias(column)


def _date(column: str) -> pl.Expr:
    # Exactly ten characters: "2020-1-2" would be written back as something else.
    text = pl.when(pl.col(column).str.len_bytes() == 10).then(pl.col(column))
    return text.str.to_date("%Y-%m-%d", strict=False)


def _time(separator: str) -> Expression:
    pattern = f"%Y-%m-%d{separator}%H:%M:%S%.f"
    return lambda column: pl.col(column).str.to_datetime(pattern, strict=False, time_unit="us")


@dataclass(frozen=True)
class _Type:
    """A type a column may have: what counts as a value, and how it is cast (null where it can't be)."""

    word: str
    cast: Expression
    base: Expression = _as_is
    is_number: bool = False

    def lost(self, column: str) -> pl.Expr:
        return (self.cast(column).is_null() & self.base(column).is_not_null()).sum()


def _to(base: Expression, dtype: Any) -> Expression:
    return lambda column: base(column).cast(dtype, strict=False)


_TEXT: Final = _Type("text", _as_is)
_TYPES: Final = (
    _Type("integer", _to(_as_is, pl.Int64), is_number=True),
    _Type("number", _to(_as_is, pl.Float64), is_number=True),
    _Type("padded integer", _to(_bare, pl.Int64), _bare, is_number=True),
    _Type("padded number", _to(_bare, pl.Float64), _bare, is_number=True),
    _Type("comma number", _comma, _bare, is_number=True),
    _Type("true/false", _true_false),
    _Type("date", _date),
    _Type("time", _time("T")),
    _Type("spaced time", _time(" ")),
)
WORDS: Final[dict[str, Any]] = {
    "text": pl.String,
    "integer": pl.Int64,
    "number": pl.Float64,
    "true/false": pl.Boolean,
    "date": pl.Date,
    "time": pl.Datetime("us"),
}


@dataclass
class TextColumns:
    """Columns read as text. ``frame`` may be a scan: then each question is a pass over the file."""

    frame: pl.DataFrame | pl.LazyFrame
    decimal: str | None = None
    """ "," or "."; None lets each column say."""
    _done: dict[str, tuple[str, pl.Series]] = field(default_factory=dict)

    def ask(self, questions: Mapping[str, pl.Expr]) -> dict[str, Any]:
        """One answer a column, all in one pass."""
        if not questions:
            return {}
        asked = self.frame.lazy().select([q.alias(c) for c, q in questions.items()])
        return asked.collect(engine="streaming").row(0, named=True)

    def lost(self, tries: Mapping[str, _Type]) -> dict[str, int]:
        """How many values of each column its type doesn't take; casts in memory are kept."""
        if isinstance(self.frame, pl.LazyFrame) or not tries:
            return self.ask({c: t.lost(c) for c, t in tries.items()})
        cast = self.frame.lazy().select([t.cast(c) for c, t in tries.items()]).collect()
        cast.columns = list(tries)
        self._done.update({c: (tries[c].word, cast[c]) for c in tries})
        plain = {c: self.frame[c].null_count() for c, t in tries.items() if t.base is _as_is}
        asked = self.ask({c: t.base(c).is_null().sum() for c, t in tries.items() if t.base is not _as_is})
        empty = {**plain, **asked}
        return {c: cast[c].null_count() - empty[c] for c in tries}

    def infer(self) -> dict[str, _Type]:
        """The type of every column."""
        names = self.frame.collect_schema().names()
        skip = {None: (), ".": ("comma number",), ",": ("number", "padded number")}[self.decimal]
        types = [t for t in _TYPES if t.word not in skip]
        filled = self.ask({c: pl.col(c).count() for c in names})
        found = {c: _TEXT for c in names if not filled[c]}
        # What a sample rules out needs no look at the whole file.
        head = TextColumns(self.frame.lazy().head(_SAMPLE).collect(), self.decimal)
        open_ = head._first_fits({c: 0 for c in names if c not in found}, types)
        while open_:
            lost = self.lost({c: types[i] for c, i in open_.items() if i < len(types)})
            for c in [c for c, i in open_.items() if i >= len(types) or lost[c] == 0]:
                i = open_.pop(c)
                found[c] = types[i] if i < len(types) else _TEXT
            open_ = {c: i + 1 for c, i in open_.items()}
        codes = self._codes(found)
        return {c: _TEXT if c in codes else found[c] for c in names}

    def _first_fits(self, start: Mapping[str, int], types: list[_Type]) -> dict[str, int]:
        open_, fits = dict(start), {}
        while open_:
            lost = self.ask({c: types[i].lost(c) for c, i in open_.items() if i < len(types)})
            for c in [c for c, i in open_.items() if i >= len(types) or lost[c] == 0]:
                fits[c] = open_.pop(c)
            open_ = {c: i + 1 for c, i in open_.items()}
        return fits

    def _codes(self, found: Mapping[str, _Type]) -> set[str]:
        """The columns of numbers that are codes: leading zeros, too many digits, nothing but blanks."""
        numbers = [c for c, t in found.items() if t.is_number]
        zeros = self.ask({c: pl.col(c).str.contains("^[-+ ]*0[0-9]").any() for c in numbers})
        longest = self.ask({c: pl.col(c).str.len_bytes().max() for c in numbers})
        padded = [c for c in numbers if found[c].base is not _as_is]
        filled = self.ask({c: _bare(c).count() for c in padded})
        inexact = {
            c: (pl.col(c).str.contains("^[-+ ]*[0-9]+ *$") & _to(_bare, pl.Int64)(c).is_null()).any()
            for c in numbers
            if longest[c] > _EXACT_DIGITS
        }
        long = self.ask(inexact)
        return {c for c in numbers if zeros[c] or long.get(c) or not filled.get(c, 1)}

    def typed(self, types: Mapping[str, _Type]) -> pl.DataFrame | pl.LazyFrame:
        """The frame with its columns cast."""
        if isinstance(self.frame, pl.LazyFrame):
            return self.frame.with_columns([t.cast(c).alias(c) for c, t in types.items() if t is not _TEXT])
        ready, rest = {}, []
        for c, t in types.items():
            word, series = self._done.get(c, ("", None))
            if t is not _TEXT and word == t.word and series is not None:
                ready[c] = series
            elif t is not _TEXT:
                rest.append(t.cast(c).alias(c))
        self._done.clear()
        return self.frame.with_columns(*rest, **ready)


def not_numbers(frame: pl.DataFrame | pl.LazyFrame, column: str) -> tuple[list[int], int]:
    """The rows (from 1) whose text is no number: the first few, and how many there are."""
    bad = _bare(column).is_not_null() & _comma(column).is_null() & _to(_bare, pl.Float64)(column).is_null()
    flag = frame.lazy().select(bad.alias("bad")).collect()["bad"]
    rows = flag.arg_true()
    return (rows.head(SHOWN) + 1).to_list(), len(rows)


def forced(file: Path, columns: TextColumns, types: Mapping[str, Any]) -> dict[str, _Type]:
    """The types that a person has set for some columns, checked on their values."""
    names = columns.frame.collect_schema().names()
    out: dict[str, _Type] = {}
    for column, wanted in types.items():
        if column not in names:
            raise InputError(
                f"{file} has no column {column!r} to set the type of", hint=did_you_mean(column, names)
            )
        if isinstance(wanted, str) and wanted not in WORDS:
            raise InputError(f"{column} can't be of type {wanted!r}", hint=did_you_mean(wanted, list(WORDS)))
        dtype = WORDS[wanted] if isinstance(wanted, str) else wanted
        out[column] = _forced_type(dtype, columns.decimal)
        lost = columns.ask({column: out[column].lost(column)})[column]
        if lost:
            flag = columns.frame.lazy().select(
                (out[column].cast(column).is_null() & out[column].base(column).is_not_null()).alias("bad")
            )
            rows = (flag.collect()["bad"].arg_true().head(SHOWN) + 1).to_list()
            raise InputError(
                f"{file}: {column} should be {wanted}, but isn't in {rows_said(rows, lost)}",
                hint="the first record after the header is row 1",
            )
    return out


def _forced_type(dtype: Any, decimal: str | None) -> _Type:
    if dtype == pl.String:
        return _TEXT
    for known in _TYPES:
        if known.word in WORDS and WORDS[known.word] == dtype and dtype not in (pl.Int64, pl.Float64):
            return known
    if dtype.is_float():
        cast = _comma if decimal == "," else _to(_bare, pl.Float64)
        return _Type("set", lambda c: cast(c).cast(dtype), _bare, is_number=True)
    return _Type("set", _to(_bare, dtype), _bare, is_number=dtype.is_numeric())
