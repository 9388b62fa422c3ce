"""Text without names: fixed width without a layout, and records that stand where names should.

Whoever reads such a file by guesses takes its first record for names, loses it, and releases it as the
header. So it is refused, with what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from sfumato.errors import InputError
from sfumato.io.argus import LAYOUT_HINT

_LINES: Final = 50
_SHORTEST: Final = 8
_LOOK: Final = 2_000


def refuse_fixed_width(file: Path, head: str, delimiter: str) -> None:
    """Refuse lines of one length without a delimiter, which only a layout can cut.

    A single column has a name that isn't a number; a line of fixed width has digits from its start.
    """
    lines = [x for x in head.split("\n")[:_LINES] if x.strip()]
    lines = [x.rstrip("\r") for x in (lines[:-1] if len(lines) > 2 else lines)]
    if len(lines) < 3 or any(delimiter in x for x in lines):
        return
    first = lines[0]
    longest = max(len(x) for x in lines)
    level = sum(len(x) == longest for x in lines) > 0.9 * len(lines) and len(first) == longest
    digits = sum(c.isdigit() or c == " " for c in first) >= 0.5 * len(first)
    if level and longest >= _SHORTEST and digits:
        raise InputError(
            f"{file} has no delimiter, and its lines have {longest} characters each: fixed width without a "
            "layout",
            hint=f"{LAYOUT_HINT}; delimiter=… if it has one",
        )


def refuse_record_for_names(file: Path, first: Sequence[str]) -> None:
    """Refuse a first line of numbers; a row of years may be names."""
    numbers = [n.strip() for n in first if is_number(n)]
    years = all(n.isdigit() and 1800 <= int(n) <= 2200 for n in numbers) and len(set(numbers)) == len(numbers)
    if len(numbers) == len(first) > 1 and not years:
        raise InputError(
            f"{file}: the first line holds numbers where names are expected",
            hint="pass header=False (header = false under [read] in a plan) if it is a record",
        )


def refuse_like_records(file: Path, strings: pl.DataFrame | pl.LazyFrame, numbers: set[str]) -> None:
    """Refuse names that look like the values below them in every column: they are a record.

    A name that is a number above numbers, and a name that occurs among the texts below it.
    """
    names = strings.collect_schema().names()
    numeric = [c for c in names if c in numbers]
    if len(names) < 2 or not numeric or not all(is_number(c) for c in numeric):
        return
    texts = [c for c in names if c not in numbers]
    head = strings.lazy().select(texts).head(_LOOK).collect() if texts else pl.DataFrame()
    if texts and all(bool((head[c] == c).any()) for c in texts):
        raise InputError(
            f"{file}: the first line looks like a record, not like names",
            hint="pass header=False (header = false under [read] in a plan), or put a line of names above it",
        )


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
