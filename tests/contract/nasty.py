"""Columns and files that nobody expects: what every mask and every measure must survive.

A kind makes, from a column of the deck, one that holds something odd; a case is a mask or a measure on
the deck with some of its columns made so. It gives a result without NaN, or an error of ours that names
a column. Shared by ``test_nasty_frames.py`` and ``benchmarks/hostile.py``.
"""

from __future__ import annotations

import datetime
import decimal
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
from cases import deck_for, example

from sfumato.contract.mask import Mask
from sfumato.contract.measure import Measure
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError

RECORDS = 36
Kind = Callable[[pl.Series], pl.Series]


def _of(values: list[Any], dtype: Any = None) -> Kind:
    """These values over and over."""
    return lambda s: pl.Series(s.name, [values[k % len(values)] for k in range(len(s))], dtype, strict=False)


def _float_range(dtype: Any) -> Kind:
    top = float(np.finfo(np.float32 if dtype == pl.Float32 else np.float64).max)
    return _of([top, -top, 0.0, 1.0], dtype)


_ENDS = {
    **{f"Int{b}": [-(2 ** (b - 1)), 2 ** (b - 1) - 1, 0, 1, -1] for b in (8, 16, 32, 64)},
    **{f"UInt{b}": [0, 2**b - 1, 1, 2] for b in (8, 16, 32, 64)},
}
_DAY, _DATE, _EXACT = datetime.date, datetime.datetime, decimal.Decimal

KINDS: dict[str, Kind] = {
    "constant": _of([7]),
    "constant zero": _of([0.0]),
    "two values": _of([1, 2]),
    "all null": lambda s: pl.Series(s.name, [None] * len(s), dtype=s.dtype),
    "null type": lambda s: pl.Series(s.name, [None] * len(s)),
    "one value, else null": lambda s: pl.Series(s.name, [5.0] + [None] * (len(s) - 1)),
    "all NaN": _of([float("nan")]),
    "some NaN": _of([float("nan"), 1.5, 2.5, 3.5, 9.0]),
    "some infinite": _of([float("inf"), 1.5, -float("inf"), 3.5, 9.0]),
    "all infinite": _of([float("inf")]),
    "float64 extremes": _float_range(pl.Float64),
    "float32 extremes": _float_range(pl.Float32),
    "one float64 extreme": lambda s: pl.Series(s.name, [1.7e308] + [float(k) for k in range(1, len(s))]),
    "around 1e155": lambda s: pl.Series(s.name, [1e155 * (k + 1) for k in range(len(s))]),
    "around 1e-155": lambda s: pl.Series(s.name, [1e-155 * (k + 1) for k in range(len(s))]),
    "subnormals": lambda s: pl.Series(s.name, [5e-324 * (k + 1) for k in range(len(s))]),
    "some subnormals": _of([5e-324, 0.0, 1.0, 2.0, 3.0]),
    "float32 subnormals": _of([1e-45, 3e-45, 0.0], pl.Float32),
    "negative zeros": _of([-0.0, 0.0, 1.0]),
    "huge and tiny": _of([1e-300, 1e300, 1.0, -1e300]),
    **{f"{name} extremes": _of(ends, getattr(pl, name)) for name, ends in _ENDS.items()},
    "int128 extremes": _of([-(2**127) + 1, 2**127 - 1, 0, 1], pl.Int128),
    "decimals": _of(
        [decimal.Decimal("1.25"), decimal.Decimal("-7.10"), decimal.Decimal("3.05")], pl.Decimal(12, 2)
    ),
    "large decimals": _of(
        [decimal.Decimal(10) ** 30, decimal.Decimal(1), decimal.Decimal(2)], pl.Decimal(38, 2)
    ),
    "booleans": _of([True, False, True]),
    "dates at their limits": _of([_DAY.min, _DAY.max, _DAY(2000, 1, 1)]),
    "times at their limits": _of([_DATE(1, 1, 1), _DATE(9999, 12, 31, 23, 59, 59), _DATE(2000, 1, 1)]),
    "times of day": _of([datetime.time(0), datetime.time(23, 59, 59), datetime.time(12)]),
    "durations": _of([datetime.timedelta(days=-10_000), datetime.timedelta(days=10_000)]),
    "empty text": _of([""]),
    "odd text": _of(["", " ", "\x00", "=1+1", "naïve", "𝔘" * 40, "NaN", "null"]),
    "numbers as text": _of(["1", "2", "x", "4.5"]),
    "unique text": lambda s: pl.Series(s.name, [f"v{k}" for k in range(len(s))]),
    "categorical": lambda s: pl.Series(s.name, [f"c{k % 3}" for k in range(len(s))], dtype=pl.Categorical),
    "enum": lambda s: pl.Series(
        s.name, ["a", "b"] * (len(s) // 2) + ["a"] * (len(s) % 2), dtype=pl.Enum(["a", "b", "z"])
    ),
    "lists": _of([[1, 2], [3], [1, 2]]),
    "arrays": lambda s: pl.Series(s.name, [[k, 1] for k in range(len(s))], dtype=pl.Array(pl.Int64, 2)),
    "structs": _of([{"a": 1}, {"a": 2}]),
    "binary": _of([b"\x00", b"\xff\xfe"]),
    "objects": lambda s: pl.Series(s.name, [object() for _ in range(len(s))], dtype=pl.Object),
}

FRAMES = (
    "0 rows",
    "1 row",
    "2 rows",
    "3 rows",
    "all alike",
    "strata of one",
    "zero weights",
    "2,000 columns",
)


def frame_of(name: str, data: Microdata) -> Microdata:
    """The whole file made odd."""
    frame, n = data.frame, len(data)
    if name.endswith(("row", "rows")):
        return Microdata(frame.head(int(name[0])), data.schema)
    if name == "all alike":
        return Microdata(frame.select(pl.all().gather(pl.Series([0] * n))), data.schema)
    if name == "strata of one":
        alone = {
            c: pl.Series(c, range(n)).cast(frame[c].dtype, strict=False) for c in ("SEX", "RACE", "AGEGRP")
        }
        return Microdata(frame.with_columns(**alone), data.schema)
    if name == "zero weights":
        return Microdata(frame.with_columns(WEIGHT=pl.lit(0.0)), data.schema)
    more = {f"Z{k}": np.arange(n) % (k % 7 + 2) for k in range(2_000)}
    return Microdata(frame.with_columns(**{c: pl.Series(v) for c, v in more.items()}), data.schema)


def cases_of(cls: type[Mask] | type[Measure]) -> Iterator[tuple[str, Any, Microdata]]:
    """Every case of one class: its name, an example, and the odd file."""
    data = deck_for(cls, 320)
    one = example(cls, data)
    small = Microdata(data.frame.head(RECORDS), data.schema)
    if issubclass(cls, Mask):
        named = [c for c in dict.fromkeys([*one.changes(data), *one.needs(data)]) if c in data.columns]
    else:
        named = [c for c in one.named_columns() if c in data.columns]
        named = named or [c for c in ("SEX", "RACE", "AGEGRP", "INCOME", "WAGE") if c in data.columns]
    for frame in FRAMES:
        yield frame, one, frame_of(frame, small)
    for kind, make in KINDS.items():
        yield f"{kind} in one", one, small.with_columns({named[0]: make(small.column(named[0]))})
        if len(named) > 1:
            yield f"{kind} in the last", one, small.with_columns({named[-1]: make(small.column(named[-1]))})
            yield f"{kind} in all", one, small.with_columns({c: make(small.column(c)) for c in named})


def tried(one: Any, data: Microdata) -> str | None:
    """None where a mask or measure does as it must; else what went wrong."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            if isinstance(one, Mask):
                return _lost(data, one.mask(data, seed=1), one.moves_missing)
            masked = data.with_columns({}) if one.files == "one" else _shaken(data)
            result = one.measure(data, seed=1) if one.files == "one" else one.measure(data, masked, seed=1)
        except SfumatoError as problem:
            return None if str(problem) else "an error without words"
        except Exception as problem:
            return f"{type(problem).__name__}: {problem}"[:200]
        except pl.exceptions.PanicException as problem:
            return f"panic: {problem}"[:200]
    return None if result.value == result.value else "a value that is NaN"


def _shaken(data: Microdata) -> Microdata:
    """The file with its records in another order: what a swap of everything would give."""
    n = len(data)
    turn = [c for c in data.columns if c not in ("ID", "HH")][::2]
    index = pl.Series([(k + 1) % n for k in range(n)], dtype=pl.UInt32)
    return data.with_columns({c: data.column(c).gather(index) for c in turn})


def _lost(data: Microdata, masked: Microdata, moved: bool) -> str | None:
    """A finite value that isn't finite any more (where none were missing, if these may move)."""
    for column in data.columns:
        one, two = data.column(column), masked.column(column)
        if two.dtype.is_float():
            was = one.is_finite() if one.dtype.is_float() else one.is_not_null()
            n = int((was & ~two.is_finite()).fill_null(False).sum())
            if n and not (moved and not was.fill_null(False).all()):
                return f"{n} values of {column} became NaN or infinite"
    return None
