"""Write SPSS (.sav, .zsav) and Stata (.dta) files with labels and missing values."""

from __future__ import annotations

import math
import re
import string
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.data.schema import Range, Variable
from sfumato.errors import InputError, SfumatoWarning
from sfumato.io.arrow import plain
from sfumato.io.files import written
from sfumato.io.stat import LETTER_IN_LABEL

_MEASURES: Final = {"categorical": "nominal", "ordinal": "ordinal", "continuous": "scale"}
_SPSS_NAME: Final = re.compile(r"^[^\W\d_][\w.@#$]{0,63}$")
_STATA_NAME: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,31}$")
_EXACT: Final = 2**53
_SPSS_MISSING_TEXT: Final = 8
_STATA_LABEL: Final = 80
_STATA_LONG: Final = 2**31 - 1


def write_sav(
    data: Microdata, part: Path, target: Path, *, file_label: str = "", compress: bool = False
) -> None:
    """An SPSS file: up to three missing codes a column, or one range and one code, as SPSS has them."""
    import pyreadstat

    frame = _prepared(data, target, _SPSS_NAME, "SPSS")
    missing, labels, measures, formats = {}, {}, {}, {}
    for column in frame.columns:
        variable = data.schema[column]
        if variable.missing:
            missing[column] = _spss_missing(frame[column], variable, target)
        if variable.labels:
            labels[column] = _fitting(variable.labels, frame[column].dtype)
        if variable.kind:
            measures[column] = _MEASURES[variable.kind]
        if frame[column].dtype.is_integer():
            formats[column] = "F8.0"
        elif frame[column].dtype == pl.Float64:
            formats[column] = "F16.4"
    with written(target):
        pyreadstat.write_sav(
            frame,
            str(part),
            file_label=file_label,
            column_labels=_variable_labels(data),
            variable_value_labels={c: v for c, v in labels.items() if v},
            missing_ranges={c: m for c, m in missing.items() if m},
            variable_measure=measures,
            variable_format=formats,
            compress=compress,
            row_compress=not compress,
        )
        _forget_time(part)


def write_dta(data: Microdata, part: Path, target: Path, *, file_label: str = "", version: int = 15) -> None:
    """A Stata file: missing codes become .a … .z, whose labels carry the code (``refused [-9]``)."""
    import pandas as pd
    import pyreadstat

    frame = _prepared(data, target, _STATA_NAME, "Stata")
    labels: dict[str, dict[Any, str]] = {}
    lettered: dict[str, list[str]] = {}
    columns: dict[str, Any] = {}
    for column in frame.columns:
        series, variable = frame[column], data.schema[column]
        own = _fitting(variable.labels, series.dtype)
        values: Any = series.to_list() if not series.dtype.is_numeric() else None
        if series.dtype.is_numeric():
            letter_of = _letters(series, variable, target, column)
            if letter_of:
                values = [letter_of.get(v, v) for v in series.to_list()]
                lettered[column] = sorted(set(letter_of.values()))
                for code, letter in letter_of.items():
                    own[letter] = _letter_label(letter, code, own.pop(code, ""))
                values = pd.Series(values, dtype=object)
            else:
                values = _stata_numbers(series)
            # Stata's value labels belong to whole numbers (and letters) only.
            own = {c: t for c, t in own.items() if isinstance(c, str) or float(c).is_integer()}
            if own and not (series.dtype.is_integer() or lettered.get(column)):
                own = {}
            labels[column] = own
        columns[column] = values
    with written(target):
        pyreadstat.write_dta(
            pd.DataFrame(columns, copy=False),
            str(part),
            file_label=file_label,
            version=version,
            column_labels=_short(_variable_labels(data), target),
            variable_value_labels={c: v for c, v in labels.items() if v},
            missing_user_values=lettered,
        )
        _forget_time(part)


def _forget_time(part: Path) -> None:
    """Set the time of writing in a file's header to that of no file: the same data, the same bytes."""
    with part.open("r+b") as file:
        head = file.read(1024)
        if head.startswith((b"$FL2", b"$FL3")):
            at, never = 92, b"01 Jan 7000:00:00"
        elif head.startswith(b"<stata_dta>"):
            at, never = head.index(b"<timestamp>") + 12, b"01 Jan 1970 00:00"
        else:  # Stata up to version 12
            at, never = 91, b"01 Jan 1970 00:00"
        file.seek(at)
        file.write(never)


def _stata_numbers(series: pl.Series) -> Any:
    """Whole numbers as Stata's long where they fit, else doubles: a long comes back as a whole number."""
    if series.dtype.is_integer() and series.null_count() < len(series):
        low, high = cast(int, series.min()), cast(int, series.max())
        if low >= -_STATA_LONG and high <= _STATA_LONG - 27:  # the largest 27 mean missing
            return series.cast(pl.Int32).to_pandas().astype("Int32" if series.null_count() else "int32")
    return series.cast(pl.Float64).to_pandas()


def _variable_labels(data: Microdata) -> dict[str, str | None]:
    return {c: text for c in data.columns if (text := data.schema[c].label)}


def _short(labels: dict[str, str | None], target: Path) -> dict[str, str | None]:
    """Variable labels cut to the 80 characters that Stata takes, with a warning."""
    long = [c for c, text in labels.items() if text and len(text) > _STATA_LABEL]
    if long:
        warnings.warn(
            f"{target}: Stata's variable labels have at most {_STATA_LABEL} characters; "
            f"cut were those of {', '.join(long[:5])}{' …' if len(long) > 5 else ''}",
            SfumatoWarning,
            stacklevel=2,
        )
    return {c: text[:_STATA_LABEL] if text else text for c, text in labels.items()}


def _prepared(data: Microdata, target: Path, name: re.Pattern[str], package: str) -> pl.DataFrame:
    """The frame in types that both packages have; names that they don't take are refused."""
    frame = plain(data.frame)
    bad = [c for c in frame.columns if not name.match(c)]
    if bad:
        raise InputError(
            f"{target}: {package} has no variable names like {bad[0]!r}",
            hint="rename the column, or write .csv or .parquet",
        )
    folded = [c.casefold() for c in frame.columns]
    if package == "SPSS" and len(set(folded)) < len(folded):
        twice = next(c for c in frame.columns if folded.count(c.casefold()) > 1)
        raise InputError(f"{target}: SPSS can't tell {twice!r} from a column that differs only in case")
    casts = []
    for column, dtype in frame.schema.items():
        if dtype.is_integer():
            reach = frame.select(pl.col(column).cast(pl.Int128).abs().max()).item()
            if reach is not None and reach > _EXACT:
                raise InputError(
                    f"{target}: {column} has whole numbers that {package} can't hold exactly",
                    hint="write it as text, or write .csv or .parquet",
                )
            casts.append(pl.col(column).cast(pl.Int64))
        elif dtype == pl.Boolean:
            casts.append(pl.col(column).cast(pl.Int64))
        elif dtype.is_float():
            casts.append(pl.col(column).cast(pl.Float64))
        elif dtype == pl.Null:
            casts.append(pl.col(column).cast(pl.String))
        elif dtype.is_temporal() and dtype not in (pl.Date, pl.Time):
            if dtype.base_type() == pl.Duration:
                raise InputError(f"{target}: {package} has no durations, which {column} holds")
            casts.append(pl.col(column).dt.replace_time_zone(None).cast(pl.Datetime("us")))
        elif dtype.is_decimal():
            casts.append(pl.col(column).cast(pl.Float64))
    return frame.with_columns(casts)


def _fitting(labels: Mapping[Any, str], dtype: pl.DataType) -> dict[Any, str]:
    """The labels whose codes are of the column's type; text that reads as a number becomes one."""
    out: dict[Any, str] = {}
    for code, text in labels.items():
        if dtype.is_numeric():
            try:
                number = float(code)
            except ValueError:
                continue
            out[int(number) if number.is_integer() else number] = text
        elif dtype == pl.String:
            out[str(code)] = text
    return out


def _spss_missing(series: pl.Series, variable: Variable, target: Path) -> list[Any]:
    numeric = series.dtype.is_numeric()
    codes = [m for m in variable.missing if not isinstance(m, Range)]
    ranges = [m for m in variable.missing if isinstance(m, Range)]
    codes = [c for c in codes if isinstance(c, str) != numeric]
    ranges = ranges if numeric else []
    if numeric and (len(ranges) > 1 or len(codes) + 2 * len(ranges) > 3):
        codes, ranges = _joined(series, variable)
    if len(ranges) > 1 or len(codes) + 2 * len(ranges) > 3:
        raise InputError(
            f"{target}: {series.name} has more missing codes than SPSS takes",
            hint="SPSS takes three codes, or one range and one code; join codes into a range",
        )
    for code in codes:
        if isinstance(code, str) and len(code.encode()) > _SPSS_MISSING_TEXT:
            raise InputError(
                f"{target}: SPSS takes missing codes of at most 8 bytes; {series.name} has longer"
            )
    out: list[Any] = [
        {
            "lo": float("-inf") if r.low is None else r.low,
            "hi": float("inf") if r.high is None else r.high,
        }
        for r in ranges
    ]
    return out + list(codes)


def _joined(series: pl.Series, variable: Variable) -> tuple[list[Any], list[Range]]:
    """The same missing values as one range and at most one code, where no valid value is in between."""
    there = sorted(v for v in series.drop_nulls().unique().to_list())
    valid = [v for v in there if not variable.is_missing_code(v)]
    ends: list[tuple[float, float]] = []
    for m in variable.missing:
        if isinstance(m, Range):
            ends.append((-math.inf if m.low is None else m.low, math.inf if m.high is None else m.high))
        elif not isinstance(m, str):
            ends.append((m, m))
    ends.sort()
    runs: list[tuple[float, float]] = []
    for low, high in ends:
        if runs and not any(runs[-1][1] < v < low for v in valid):
            runs[-1] = (runs[-1][0], max(runs[-1][1], high))
        else:
            runs.append((low, high))
    wide = [r for r in runs if r[0] != r[1]]
    ranges = [Range(None if a == -math.inf else a, None if b == math.inf else b) for a, b in wide]
    return [a for a, b in runs if a == b], ranges


def _letters(series: pl.Series, variable: Variable, target: Path, column: str) -> dict[Any, str]:
    """Each missing code of the column (those of a range that occur) → its letter."""
    codes = {m for m in variable.missing if not isinstance(m, (Range, str))}
    for part in variable.missing:
        if isinstance(part, Range):
            codes |= {v for v in series.drop_nulls().unique().to_list() if v in part}
    out: dict[Any, str] = {}
    for code in sorted(codes):
        said = LETTER_IN_LABEL.match(variable.labels.get(code, ""))
        if said and said["letter"] != "_" and said["letter"] not in out.values():
            out[code] = said["letter"]
    free = [x for x in string.ascii_lowercase if x not in out.values()]
    rest = sorted((c for c in codes if c not in out), key=abs)
    if len(rest) > len(free):
        raise InputError(f"{target}: {column} has more missing codes than the 26 that Stata takes")
    return {**out, **dict(zip(rest, free, strict=False))}


def _letter_label(letter: str, code: Any, text: str) -> str:
    said = LETTER_IN_LABEL.match(text)
    if said and said["letter"] == letter:
        return said["label"] or f".{letter}"
    return f"{text} [{code}]".strip()
