"""A released file read beside its original, whatever tool wrote it.

Other tools reorder columns, write ``*`` or ``NA`` for what they hide, turn ages into ``[20, 30[`` and codes
into ``1.0``. Here the released file gets the original's names and, where nothing is lost by it, its types.
What was coarsened stays coarsened: :func:`in_classes` puts somebody's own list into the same classes, as any
reader of the release would.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from sfumato.contract.own_list import class_range
from sfumato.data.microdata import Microdata
from sfumato.errors import InputError

_BLANKS: Final = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "?", "."})
_STARS: Final = re.compile(r"\*+")
_PREFIX: Final = re.compile(r"([^*]+)(\*+)")
_SET: Final = re.compile(r"\{(.*)\}")
_YES: Final = {"true": True, "t": True, "yes": True, "1": True, "1.0": True}
_NO: Final = {"false": False, "f": False, "no": False, "0": False, "0.0": False}
_SURE: Final = 0.95
"""So many of the values must read as something before the column is taken for it."""


@dataclass(frozen=True)
class Reading:
    """The two files with the same names and, as far as they go, the same types; and what was done."""

    original: Microdata
    released: Microdata
    shared: tuple[str, ...]
    notes: tuple[str, ...]
    unread: tuple[str, ...] = ()
    """Columns that only the released file has and that may tell of people: nobody has looked at them."""


def read_alike(original: Microdata, released: Microdata) -> Reading:
    """The released file in the original's names, order and types.

    >>> import polars as pl
    >>> one = Microdata(pl.DataFrame({"AGE": [21, 34], "SEX": ["f", "m"]}))
    >>> two = Microdata(pl.DataFrame({"sex": ["*", "m"], "AGE": ["34.0", "NA"]}))
    >>> read_alike(one, two).released.frame.rows()
    [(34, None), (None, 'm')]
    """
    notes: list[str] = []
    frame = _renamed(original, released, notes)
    shared = tuple(c for c in original.columns if c in frame.columns)
    if not shared:
        raise InputError(
            "the two files have no column in common",
            hint="the released file needs the original's column names",
        )
    new = {c: _like(original, c, frame[c], notes) for c in shared}
    frame = frame.select(*(new[c].alias(c) for c in shared), *(c for c in frame.columns if c not in shared))
    gone = [c for c in original.columns if c not in shared]
    if gone:
        notes.append(f"not released: {', '.join(gone)}")
    added = [c for c in frame.columns if c not in shared]
    if added:
        notes.append(f"only in the released file, and not looked at: {', '.join(added)}")
    schema = original.schema.restricted_to(shared)
    unread = tuple(c for c in added if _may_tell(c, frame[c], shared))
    return Reading(original, Microdata(frame.select(shared), schema), shared, tuple(notes), unread)


def _may_tell(name: str, series: pl.Series, shared: Sequence[str]) -> bool:
    """Whether a column of the released file alone may hold something of the original: all but a constant, a
    running number, and a flag of zeros, which every attack adds to its own list."""
    if series.n_unique() <= 1 or (name.endswith("_zero") and name.removesuffix("_zero") in shared):
        return False
    numbers = series.cast(pl.Int64, strict=False)
    if numbers.null_count() or numbers.n_unique() < len(numbers):
        return True
    return numbers.max() - numbers.min() + 1 != len(numbers)  # type: ignore[operator]


def _renamed(original: Microdata, released: Microdata, notes: list[str]) -> pl.DataFrame:
    """R makes ``HOME VALUE`` into ``HOME.VALUE``: names are matched without such signs."""

    def bare(name: str) -> str:
        return re.sub(r"[\W_]", "", name).lower()

    frame = released.frame
    open_ = [c for c in original.columns if c not in frame.columns]
    left = [c for c in frame.columns if c not in original.columns]
    renames = {}
    for name in left:
        there = [c for c in open_ if bare(c) == bare(name)]
        if len(there) == 1 and sum(bare(n) == bare(name) for n in left) == 1:
            renames[name] = there[0]
    if renames:
        notes.append("read by its name: " + ", ".join(f"{a} as {b}" for a, b in renames.items()))
    return frame.rename(renames)


def _like(original: Microdata, column: str, series: pl.Series, notes: list[str]) -> pl.Series:
    before = original.column(column)
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        series = _without_marks(before, series.str.strip_chars(), column, notes)
        if before.dtype != pl.String:
            return _typed(original, column, series, notes)
        return series
    if before.dtype == pl.String and series.dtype.is_numeric():
        return _as_codes(before, series)
    if before.dtype == pl.Boolean and series.dtype.is_numeric():
        return series.cast(pl.Boolean) if series.drop_nulls().is_in([0, 1]).all() else series
    if before.dtype.is_integer() and series.dtype.is_float():
        whole = series.fill_nan(None)
        there = whole.drop_nulls()
        return whole.cast(pl.Int64) if bool((there == there.round(0)).all()) else whole
    return series


def _without_marks(before: pl.Series, series: pl.Series, column: str, notes: list[str]) -> pl.Series:
    """``*``, ``NA`` and their kind are missing, unless the original has such a value."""
    own = set(before.cast(pl.String).unique().drop_nulls()) if before.dtype == pl.String else set()
    marks = [
        v
        for v in series.unique().drop_nulls()
        if v not in own and (v in _BLANKS or _STARS.fullmatch(v) is not None)
    ]
    if not marks:
        return series
    hidden = series.is_in(marks)
    notes.append(f"{column}: {int(hidden.sum()):,} values are hidden ({', '.join(sorted(map(repr, marks)))})")
    return series.set(hidden, None)


def _typed(original: Microdata, column: str, series: pl.Series, notes: list[str]) -> pl.Series:
    """Text in the released file where the original has numbers, dates or true and false."""
    dtype = original.dtype(column)
    there = series.drop_nulls()
    if not len(there):
        return pl.Series(column, [None] * len(series), dtype=dtype)
    if dtype == pl.Boolean:
        said = {**_YES, **_NO}
        if there.str.to_lowercase().is_in(list(said)).all():
            return series.str.to_lowercase().replace_strict(said, return_dtype=pl.Boolean)
        return series
    if dtype.is_temporal():
        read = series.str.to_date(strict=False) if dtype == pl.Date else series.str.to_datetime(strict=False)
        return read.cast(dtype) if read.null_count() == series.null_count() else series
    plain = series.str.replace_all(r"[\s\u00a0]", "").cast(pl.Float64, strict=False)
    if plain.null_count() == series.null_count():
        known = plain.drop_nulls()
        whole = dtype.is_integer() and bool((known == known.round(0)).all())
        return plain.cast(pl.Int64) if whole else plain
    labels = {str(text): code for code, text in (original.schema[column].labels or {}).items()}
    if labels and there.is_in(list(labels)).mean() >= _SURE:  # type: ignore[operator]
        codes = series.replace_strict(labels, default=None, return_dtype=pl.Float64)
        notes.append(f"{column}: labels are read as the codes they stand for")
        return codes.cast(dtype, strict=False)
    if not _is_partition(there):
        return _middles(original, column, series, notes)
    return series


def _as_codes(before: pl.Series, series: pl.Series) -> pl.Series:
    """Numbers in the released file where the original has text: ``1`` for ``01``, or for ``1``."""
    series = series.fill_nan(None) if series.dtype.is_float() else series
    there = series.drop_nulls()
    if series.dtype.is_float() and bool((there == there.round(0)).all()):
        series = series.cast(pl.Int64)
    texts = before.unique().drop_nulls()
    as_numbers = texts.cast(pl.Float64, strict=False)
    if as_numbers.null_count():
        return series.cast(pl.String)
    named = dict(zip(as_numbers.to_list(), texts.to_list(), strict=True))
    if len(named) < len(texts):  # "1" and "01" are two codes here: the numbers can't tell them apart
        return series.cast(pl.String)
    return pl.Series(series.name, [named.get(v, str(v)) if v is not None else None for v in series])


def _is_partition(labels: pl.Series) -> bool:
    """Whether no two classes among these labels overlap (labels that name no range aside)."""
    ends = sorted(r for r in (class_range(v) for v in labels.unique()) if r is not None)

    def apart(a: tuple[float, float, bool], b: tuple[float, float, bool]) -> bool:
        # 20-30 beside 30-40 is a way of writing; 20 beside 20-30 is a value beside its class.
        return a[1] < b[0] or (a[1] == b[0] and a[0] < a[1] and b[0] < b[1])

    return all(apart(a, b) for a, b in pairwise(ends))


def _middles(original: Microdata, column: str, series: pl.Series, notes: list[str]) -> pl.Series:
    """Classes that overlap (each record was coarsened by itself): the mean of the values within each."""
    x = original.numbers(column)
    x = x[~np.isnan(x)]
    means: dict[str, float] = {}
    for label in series.unique().drop_nulls():
        ends = class_range(label)
        if ends is None:
            continue
        low, high, closed = ends
        inside = x[(x >= low) & ((x <= high) if closed else (x < high))]
        finite = [e for e in (low, high) if np.isfinite(e)]
        means[label] = float(inside.mean()) if len(inside) else float(np.mean(finite))
    notes.append(f"{column}: its classes overlap, so each is read as the mean of the values within it")
    return series.replace_strict(means, default=None, return_dtype=pl.Float64)


# -- somebody's own list in the release's classes ---------------------------------------------------


def in_classes(own: Microdata, released: Microdata, columns: Sequence[str]) -> Microdata:
    """A list of people in the classes that the release's labels name: ranges of numbers, ``130**``, ``{a,
    b}``.

    >>> import polars as pl
    >>> own = Microdata(pl.DataFrame({"AGE": [21, 34], "ZIP": ["13051", "13102"]}))
    >>> released = Microdata(pl.DataFrame({"AGE": ["[20, 30[", "[30, 40["], "ZIP": ["130**", "131**"]}))
    >>> in_classes(own, released, ["AGE", "ZIP"]).frame.rows()
    [('[20, 30[', '130**'), ('[30, 40[', '131**')]
    """
    new: dict[str, pl.Series] = {}
    for column in columns:
        if released.dtype(column) != pl.String:
            continue
        labels = released.column(column).drop_nulls().unique().to_list()
        values = own.column(column)
        found = _ranges(values, labels) if values.dtype.is_numeric() else _named(values, labels)
        if found is not None:
            new[column] = found
    return own.with_columns(new) if new else own


def _ranges(values: pl.Series, labels: list[str]) -> pl.Series:
    """Each number's class, and the number itself as text where no class holds it."""
    x = values.cast(pl.Float64).to_numpy()
    whole = values.cast(pl.Int64, strict=False) if values.dtype.is_float() else values
    text = values if whole.cast(pl.Float64).ne_missing(values.cast(pl.Float64)).any() else whole
    out = np.array(text.cast(pl.String).to_list(), dtype=object)
    ranges = {label: ends for label in labels if (ends := class_range(label)) is not None}
    for label, (low, high, closed) in sorted(ranges.items(), key=lambda item: item[1]):
        if low != high:
            out[(x >= low) & ((x <= high) if closed else (x < high))] = label
    return pl.Series(values.name, out.tolist(), dtype=pl.String)


def _named(values: pl.Series, labels: list[str]) -> pl.Series | None:
    """The class of each text: its beginning with stars for the rest, or a set that lists it."""
    texts = values.cast(pl.String)
    classes: dict[str, str] = {}
    levels = texts.unique().drop_nulls().to_list()
    own = set(levels)
    for label in labels:
        if label in own:
            continue
        prefix, listed = _PREFIX.fullmatch(label), _SET.fullmatch(label)
        if prefix:
            held = [v for v in levels if len(v) == len(label) and v.startswith(prefix.group(1))]
        elif listed:
            held = [v for v in levels if v in {part.strip() for part in listed.group(1).split(",")}]
        else:
            held = []
        classes |= {v: label for v in held if v not in classes}
    return texts.replace(classes) if classes else None
