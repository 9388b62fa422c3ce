"""Files of SPSS, Stata and SAS, by way of pyreadstat.

Variable labels, value labels, measurement levels and user-missing values go into the schema; the
values themselves stay as they are. What the packages call system-missing is null. The lettered
missing values of Stata and SAS (.a … .z) have no number of their own: each gets a code outside the
column's values, and its label begins with the letter (``.a refused``), by which it is written back.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from sfumato.data.schema import Code, Range, Schema, Variable
from sfumato.errors import InputError, did_you_mean
from sfumato.io.crash import refuse_crashing
from sfumato.io.files import explained, refuse_infinities, unique_names

_KINDS: Final = {"nominal": "categorical", "ordinal": "ordinal", "scale": "continuous"}
_WHOLE_FORMAT: Final = re.compile(r"^[A-Z]*\d*(\.0)?$|^BEST\d*$", re.IGNORECASE)
_EXACT: Final = 2**53
CODE_IN_LABEL: Final = re.compile(r"^(?P<label>.*?) ?\[(?P<code>-?\d+(?:\.\d+)?)\]$", re.DOTALL)
LETTER_IN_LABEL: Final = re.compile(r"^\.(?P<letter>[a-z_])(?: (?P<label>.*))?$", re.DOTALL)

_READERS: Final = {
    "sav": "read_sav",
    "por": "read_por",
    "dta": "read_dta",
    "sas7bdat": "read_sas7bdat",
    "xpt": "read_xport",
}
_SAS_MAGIC: Final = bytes.fromhex("000000000000000000000000c2ea8160b31411cfbd92080009c7318c181f1011")


def _looks_right(format: str, head: bytes) -> bool:
    """Whether a file begins as its format must; the C library sees nothing that doesn't."""
    if format == "sav":
        return head[:4] in (b"$FL2", b"$FL3")
    if format == "dta":
        return head.startswith(b"<stata_dta>") or (len(head) > 60 and head[0] in range(104, 116))
    if format == "sas7bdat":
        return head.startswith(_SAS_MAGIC)
    if format == "xpt":
        return head.startswith(b"HEADER RECORD*******LIB")
    return len(head) > 464  # a portable file begins with a table of its own characters


def read_stat(
    file: Path,
    format: str,
    *,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
    catalog: str | os.PathLike[str] | None = None,
    guard: bool = True,
) -> tuple[pl.DataFrame, Schema]:
    """A file of a statistical package, and the schema that its metadata make.

    A damaged file can crash the C library that reads it, and the process with it. With ``guard`` its
    metadata are read in a process of their own first (about half a second), so that only that one dies.
    """
    with explained(file, f"{format} data"):
        with file.open("rb") as handle:
            head = handle.read(1024)
        if not _looks_right(format, head):
            raise InputError(
                f"{file} doesn't begin as {format} files do", hint="its suffix may be wrong, or it is damaged"
            )
        if guard:
            refuse_crashing(file, _READERS[format])
        frame, meta = _parse(file, format, encoding, columns, catalog)
        unique_names(file, frame.columns)
        if not frame.columns:
            raise InputError(f"{file} has no columns")
        out, variables = [], {}
        for series in frame.get_columns():
            new, variable = _column(series, meta)
            out.append(new)
            if variable.to_dict():
                variables[series.name] = variable
        result = pl.DataFrame(out)
        refuse_infinities(file, result)
        return result, Schema(variables=variables)


def _parse(
    file: Path, format: str, encoding: str | None, columns: Sequence[str] | None, catalog: Any
) -> tuple[pl.DataFrame, Any]:
    import pyreadstat

    reader: Callable[..., Any] = getattr(pyreadstat, _READERS[format])
    options: dict[str, Any] = {} if format == "por" else {"encoding": encoding}
    if format in ("sav", "dta", "sas7bdat"):
        options["user_missing"] = True
    _, meta = reader(str(file), metadataonly=True, output_format="dict", **options)
    _refuse_too_many_rows(file, format, meta)
    if columns is not None:
        for name in columns:
            if name not in meta.column_names:
                raise InputError(f"{file} has no column {name!r}", hint=did_you_mean(name, meta.column_names))
        options["usecols"] = list(columns)
    unique_names(file, [n for n in meta.column_names if columns is None or n in columns])
    frame, meta = reader(str(file), output_format="polars", **options)
    if catalog is not None:
        _, formats = pyreadstat.read_sas7bcat(str(catalog), output_format="dict")
        of = {c: formats.value_labels.get(f.rstrip(".")) for c, f in meta.variable_to_label.items()}
        meta.variable_value_labels = {**meta.variable_value_labels, **{c: v for c, v in of.items() if v}}
    return frame.select(columns) if columns is not None else frame, meta


def _refuse_too_many_rows(file: Path, format: str, meta: Any) -> None:
    """Refuse a file whose header promises more records than its bytes can hold (it would fill memory)."""
    rows, size = meta.number_rows or 0, file.stat().st_size
    least = len(meta.column_names)  # a byte a value, in SPSS's compressed form too
    if format == "dta":
        # The reader's widths of text count a byte that ends it, which the file doesn't have.
        text = {c for c, t in meta.readstat_variable_types.items() if t == "string"}
        widths = meta.variable_storage_width or {}
        least = sum(max(width - (c in text), 0) for c, width in widths.items())
    with file.open("rb") as handle:
        packed = handle.read(4) == b"$FL3"
    if format in ("dta", "sav") and not packed and rows * least > size:
        raise InputError(
            f"{file} is damaged: it promises {rows:,} records, but has only {size:,} bytes",
            hint="it may be cut short; export it again",
        )


def _column(series: pl.Series, meta: Any) -> tuple[pl.Series, Variable]:
    """One column and what the file says of it."""
    name = series.name
    labels: dict[Any, str] = dict(meta.variable_value_labels.get(name) or {})
    missing: list[Code | Range] = []
    letters = sorted({*(meta.missing_user_values.get(name) or ()), *_letters(labels)})
    numeric = meta.readstat_variable_types.get(name) not in ("string", None)
    if numeric and (letters or not (series.dtype.is_numeric() or series.dtype.is_temporal())):
        whole = meta.readstat_variable_types[name].startswith("int")
        series, codes, labels = _lettered(series, letters, labels, pl.Int64 if whole else pl.Float64)
        missing += codes
    if series.dtype == pl.Object:
        series = pl.Series(name, [None if v is None else str(v) for v in series.to_list()], pl.String)
    if series.dtype.is_float():
        series = series.fill_nan(None)
        series = _whole(series, str(meta.original_variable_types.get(name) or ""))
    for part in meta.missing_ranges.get(name) or ():
        missing.append(_missing(part, series.dtype))
    if series.dtype.is_integer():
        labels = {_as_int(code): text for code, text in labels.items()}
    labels = {code: str(text) for code, text in labels.items() if isinstance(code, (int, float, str))}
    kind: Any = _KINDS.get((meta.variable_measure or {}).get(name, ""))
    if kind == "continuous" and not (series.dtype.is_numeric() or series.dtype.is_temporal()):
        kind = None
    label = meta.column_names_to_labels.get(name)
    return series, Variable(kind=kind, missing=tuple(missing), label=label or None, labels=labels)


def _whole(series: pl.Series, format: str) -> pl.Series:
    """Whole numbers as integers, where the format shows no decimals and the values have none."""
    if not _WHOLE_FORMAT.match(format) or series.null_count() == len(series):
        return series
    inside = series.abs().max()
    if not isinstance(inside, float) or not math.isfinite(inside) or inside >= _EXACT:
        return series
    return series.cast(pl.Int64) if bool((series.floor() == series).all()) else series


def _missing(part: Any, dtype: pl.DataType) -> Code | Range:
    """One of SPSS's user-missing values or ranges."""
    low, high = (part["lo"], part["hi"]) if isinstance(part, Mapping) else (part, part)
    if isinstance(low, str) or isinstance(high, str):
        return str(low)
    if dtype.is_integer():
        low, high = _as_int(low), _as_int(high)
    if low == high:
        return low  # type: ignore[no-any-return]
    return Range(None if low == -math.inf else low, None if high == math.inf else high)


def _as_int(code: Any) -> Any:
    return int(code) if isinstance(code, float) and code.is_integer() else code


def _lettered(
    series: pl.Series, letters: Sequence[str], labels: Mapping[Any, str], dtype: Any
) -> tuple[pl.Series, list[Code | Range], dict[Any, str]]:
    """A column of numbers and letters as numbers alone, with a code for each letter."""
    values = series.to_list()
    numbers = [v for v in values if not isinstance(v, str) and v is not None]
    used = sorted({v for v in values if isinstance(v, str)} | set(letters) | _letters(labels))
    code_of = letter_codes(used, numbers, labels)
    filled = [code_of.get(v.casefold(), None) if isinstance(v, str) else v for v in values]
    new: dict[Any, str] = {k: t for k, t in labels.items() if not isinstance(k, str)}
    for letter, code in code_of.items():
        text = str(labels.get(letter) or labels.get(letter.upper()) or "")
        carried = CODE_IN_LABEL.match(text)
        if carried:
            if carried["label"]:
                new[code] = carried["label"]
        else:
            new[code] = f".{letter} {text.removeprefix(f'.{letter}')}".rstrip()
    return pl.Series(series.name, filled, dtype, strict=False), list(code_of.values()), new


def _letters(labels: Mapping[Any, str]) -> set[str]:
    return {k for k in labels if isinstance(k, str) and len(k) == 1}


def letter_codes(
    letters: Sequence[str], numbers: Sequence[float], labels: Mapping[Any, str]
) -> dict[str, int | float]:
    """A code for each letter: the one that its label carries in brackets, else one below all values.

    >>> letter_codes(["a", "b"], [3, 250], {"a": "refused", "b": "not asked [-9]"})
    {'a': -1001, 'b': -9}
    """
    out: dict[str, int | float] = {}
    reach = max([abs(n) for n in numbers if math.isfinite(n)], default=0)
    base = 10 ** max(2, len(str(int(reach))))
    taken = set(numbers)
    for letter in sorted({x.casefold() for x in letters}):
        carried = CODE_IN_LABEL.match(str(labels.get(letter) or labels.get(letter.upper()) or ""))
        if carried and (code := float(carried["code"])) not in taken:
            out[letter] = int(code) if code.is_integer() and "." not in carried["code"] else code
        else:
            out[letter] = -(base + max(0, ord(letter) - ord("a")) + 1 if letter != "_" else base)
        taken.add(out[letter])
    return out
