"""Tables of code → class: how they are written, read from mu-ARGUS files, and applied to values."""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl

from sfumato.data.hierarchy import file_text
from sfumato.errors import SchemaError


@dataclass(frozen=True)
class GlobalRecode:
    """A recoding as mu-ARGUS keeps it in a ``.grc`` file."""

    mapping: Mapping[str, str]
    """Old codes or ranges ("21-30", "-20", "61-", "1,2") → new code."""
    missing: tuple[str, ...] = ()
    """Codes that mean missing in the recoded variable."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the new codes, from the ``.cdl`` file that ``<CODELIST>`` names."""


def read_grc(path: str | Path, base: Path = Path()) -> GlobalRecode:
    """A mu-ARGUS recoding: lines ``new: old, old, from-to``, then ``<MISSING>`` and ``<CODELIST>``."""
    mapping: dict[str, str] = {}
    missing: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    for place, raw in enumerate(file_text(path, "recoding", base).splitlines(), start=1):
        line = raw.strip()
        if not line:
            continue
        tag = re.match(r"<\s*(\w+)\s*>\s*(.*)", line)
        if tag and tag[1].upper() == "MISSING":
            missing = tuple(code for code in re.split(r"[,\s]+", tag[2].strip()) if code)
        elif tag and tag[1].upper() == "CODELIST":
            labels = read_cdl(Path(path).parent / tag[2].strip().strip('"'), base)
        elif tag:
            raise SchemaError(f"{path}, line {place}: <{tag[1]}> isn't known", hint="<MISSING> or <CODELIST>")
        else:
            new, colon, old = line.partition(":")
            if not colon or not old.strip():
                raise SchemaError(f"{path}, line {place}: expected `new: old codes`, found {line!r}")
            for part in old.split(","):
                key = part.strip().strip('"')
                if mapping.get(key, new.strip()) != new.strip():
                    raise SchemaError(f"{path}, line {place}: {key} is put into two classes")
                mapping[key] = new.strip().strip('"')
    if not mapping:
        raise SchemaError(f"{path} holds no recoding")
    return GlobalRecode(mapping, missing, labels)


def read_cdl(path: str | Path, base: Path = Path()) -> dict[str, str]:
    """A mu-ARGUS code list: lines ``code,label``."""
    rows = csv.reader(file_text(path, "code list", base).splitlines(), skipinitialspace=True)
    return {row[0].strip(): ",".join(row[1:]).strip() for row in rows if len(row) > 1}


@dataclass(frozen=True)
class Span:
    """A range of numbers, both ends included; an end of None is open."""

    low: float | None
    high: float | None

    def expression(self, at: pl.Expr) -> pl.Expr:
        inside = at.is_not_null() & at.is_not_nan()
        if self.low is not None:
            inside &= at >= self.low
        if self.high is not None:
            inside &= at <= self.high
        return inside


_NUMBER = r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"


def span(text: str) -> Span | None:
    """What a range says: "21-30", "-20" (up to 20), "61-" (61 and above), "7"; None if it is none.

    A leading minus is an open range, as in mu-ARGUS, so minus five alone is written "-5--5".

    >>> span("21-30"), span("-20"), span("-5--5"), span("north")
    (Span(low=21.0, high=30.0), Span(low=None, high=20.0), Span(low=-5.0, high=-5.0), None)
    """
    text = text.strip()
    if re.fullmatch(rf"-\s*({_NUMBER})", text):
        return Span(None, float(text[1:]))
    if re.fullmatch(_NUMBER, text):
        return Span(float(text), float(text))
    both = re.fullmatch(rf"({_NUMBER})\s*-\s*({_NUMBER})?", text)
    if both is None:
        return None
    low, high = float(both[1]), None if both[2] is None else float(both[2])
    if high is not None and low > high:
        raise SchemaError(f"the range {text!r} is backwards")
    return Span(low, high)


_LABELS: Final[tuple[tuple[str, Callable[..., Span]], ...]] = (
    (rf"({_NUMBER})\s+to\s+({_NUMBER})", lambda a, b: Span(a, b)),
    (rf"\[\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\)", lambda a, b: Span(a, math.nextafter(b, -math.inf))),
    (rf"(?:>=|≥)?\s*({_NUMBER})\s*\+", lambda a: Span(a, None)),
    (rf"(?:>=|≥)\s*({_NUMBER})", lambda a: Span(a, None)),
    (rf"<\s*({_NUMBER})", lambda a: Span(None, math.nextafter(a, -math.inf))),
    (rf"(?:<=|≤)\s*({_NUMBER})", lambda a: Span(None, a)),
)


def label_span(label: str) -> Span | None:
    """The numbers that a class's label stands for, as people and :class:`~sfumato.Recode` write it; None if
    none.

    >>> label_span("20-29"), label_span("90+"), label_span("-5 to 4"), label_span("north")
    (Span(low=20.0, high=29.0), Span(low=90.0, high=None), Span(low=-5.0, high=4.0), None)
    """
    text = label.strip()
    for pattern, ends in _LABELS:
        found = re.fullmatch(pattern, text)
        if found:
            made: Span = ends(*(float(number) for number in found.groups()))
            return made
    between = re.fullmatch(rf"({_NUMBER})\s*[-–]\s*({_NUMBER})", text)
    if between and float(between[1]) <= float(between[2]):
        return Span(float(between[1]), float(between[2]))
    return Span(float(text), float(text)) if re.fullmatch(_NUMBER, text) else None


def by_mapping(
    values: pl.Series, mapping: Mapping[str, Any], other: str | int | None
) -> tuple[pl.Series, pl.DataType]:
    """The class that a table gives each value; null where it gives none."""
    keys = {part.strip(): name for key, name in mapping.items() for part in _parts(key)}
    names = list(keys.values()) + ([other] if other is not None else [])
    dtype = class_type(values.dtype, names)
    text = values.cast(pl.String)
    exact = text.replace_strict(
        list(keys), [str(n) for n in keys.values()], default=None, return_dtype=pl.String
    )
    if values.dtype.is_numeric():
        exact = pl.Series(values.name, [None] * len(values), dtype=pl.String)
    number = (
        values.cast(pl.Float64, strict=False)
        if values.dtype.is_numeric()
        else (text.str.strip_chars().cast(pl.Float64, strict=False))
    )
    spans = [(s, str(name)) for s, name in ((span(k), n) for k, n in keys.items()) if s is not None]
    if values.dtype.is_numeric():
        wrong = [k for k in keys if span(k) is None]
        if wrong:
            raise SchemaError(
                f"{wrong[0]!r} in `mapping` is neither a number nor a range",
                hint='write "7", "21-30", "-20" (up to 20) or "61-" (61 and above)',
            )
        _no_overlap(spans)
    at = pl.col("x")
    by_span = pl.lit(None, dtype=pl.String)
    # Single numbers are looked up at once: hundreds of them one after the other took most of a recode's time.
    single = {s.low: name for s, name in spans if s.low is not None and s.low == s.high}
    ranges = [(s, name) for s, name in spans if s.low is None or s.low != s.high]
    if ranges and not values.dtype.is_numeric():
        single, ranges = {}, spans  # ranges of texts may hold other entries: the first counts
    if single:
        by_span = at.replace_strict(list(single), list(single.values()), default=None, return_dtype=pl.String)
    for one, name in reversed(ranges):
        by_span = pl.when(one.expression(at)).then(pl.lit(name)).otherwise(by_span)
    found = pl.DataFrame({"x": number}).select(by_span.alias("c")).to_series()
    found = exact.fill_null(found).rename(values.name)
    return found.cast(dtype), dtype


def class_type(dtype: pl.DataType, names: Sequence[Any]) -> pl.DataType:
    """The type of a column whose values become these classes: text, or whole numbers where all of them
    and the column's own values are (a wider type where the column's can't hold them).

    >>> class_type(pl.Int8(), [1, 2]), class_type(pl.Int8(), [1000]), class_type(pl.Int8(), ["old"])
    (Int8, Int64, String)
    """
    if not dtype.is_integer() or not all(is_code(str(n), False) for n in names):
        return pl.String()
    wide = pl.Series([int(str(n)) for n in names], dtype=pl.Int64)
    try:
        wide.cast(dtype)
    except pl.exceptions.InvalidOperationError:
        return pl.Int64()
    return dtype


def _no_overlap(spans: Sequence[tuple[Span, str]]) -> None:
    ordered = sorted(spans, key=lambda s: -math.inf if s[0].low is None else s[0].low)
    for (one, first), (two, second) in itertools.pairwise(ordered):
        end = math.inf if one.high is None else one.high
        start = -math.inf if two.low is None else two.low
        if start <= end and first != second:
            raise SchemaError(f"the ranges of the classes {first!r} and {second!r} in `mapping` overlap")


def key_text(code: Any) -> str:
    """A key of a mapping as text; a negative number alone as a range, since "-5" reads as up to 5."""
    if isinstance(code, str):
        return code
    text = number_text(code)
    return f"{text}-{text}" if text.startswith("-") else text


def _parts(key: str) -> list[str]:
    return key.split(",") if "," in key and all(span(p) is not None for p in key.split(",")) else [key]


def is_code(code: str, text: bool) -> bool:
    """Whether a code from a file fits a column of text, or of whole numbers."""
    return text or code.strip().lstrip("-").isdigit()


def number_text(value: float | None) -> str:
    """A number as a person would write it."""
    return f"{value:.12g}" if value is not None else ""


def by_period(values: pl.Series, period: str, *, low: bool) -> pl.Series:
    """The period that each date or time lies in: its name, or its first moment in the column's type.

    >>> from datetime import date
    >>> days = pl.Series([date(1987, 5, 30), date(1991, 1, 2)])
    >>> by_period(days, "quarter", low=False).to_list(), by_period(days, "decade", low=False).to_list()
    (['1987-Q2', '1991-Q1'], ['1980-1989', '1990-1999'])
    """
    if low:
        if period == "decade":  # Polars counts ten years from 1970, which is where decades start too
            return values.dt.truncate("10y")
        return values.dt.truncate({"year": "1y", "quarter": "1q", "month": "1mo", "day": "1d"}[period])
    if period == "quarter":
        year, quarter = values.dt.year().cast(pl.String), values.dt.quarter().cast(pl.String)
        return (year + "-Q" + quarter).rename(values.name)
    if period == "decade":
        first = values.dt.year() // 10 * 10
        return (first.cast(pl.String) + "-" + (first + 9).cast(pl.String)).rename(values.name)
    return values.dt.strftime({"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d"}[period])


def without_last(values: pl.Series, digits: int) -> pl.Series:
    """The values without their last digits or characters; whole numbers are cut towards zero.

    >>> without_last(pl.Series([12345, -19]), 1).to_list(), without_last(pl.Series(["20233"]), 2).to_list()
    ([1234, -1], ['202'])
    """
    if values.dtype.is_integer():
        wide = values.cast(pl.Int64) if values.dtype != pl.UInt64 else values
        sign = wide.sign()
        cut: pl.Series = (wide * sign) // 10**digits * sign
    else:
        names = values.cast(pl.String)
        cut = names.str.head(-digits) if digits else names
    return cut.cast(values.dtype)
