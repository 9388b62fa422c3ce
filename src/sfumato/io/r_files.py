"""Files of R (.rds, .RData, .rda): a data frame with its factors, read by rdata."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from sfumato.errors import InputError, did_you_mean
from sfumato.io.files import explained, refuse_infinities, unique_names

_STARTS: Final = (b"RDX", b"RDA", b"X\n", b"A\n", b"B\n", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")


def read_r(
    file: Path,
    *,
    object: str | None = None,
    columns: Sequence[str] | None = None,
    allow_infinite: bool = False,
) -> pl.DataFrame:
    """The data frame of an R file: its only one, or the one that ``object`` names.

    Factors become text, whole numbers without a fraction whole numbers; dates and times are dates and times.
    """
    try:
        import rdata
    except ModuleNotFoundError:
        raise InputError(
            f"{file}: R files are read by rdata, which isn't installed",
            hint="pip install 'sfumato[r]', or write the data from R as csv or parquet",
        ) from None
    _refuse_others(file)
    with warnings.catch_warnings(), explained(file, "an R file"):
        warnings.simplefilter("ignore")  # of classes that rdata doesn't know: their values are there
        found: Any = rdata.read_rds(file) if _single(file) else rdata.read_rda(file)
    name, table = _chosen(file, found, object)
    data = {str(c): _column(file, str(c), table[c]) for c in table.columns}
    frame = pl.DataFrame(data)
    if not frame.width:
        raise InputError(f"{file}: the data frame {name} has no column")
    unique_names(file, [str(c) for c in table.columns])
    for wanted in columns or ():
        if wanted not in frame.columns:
            raise InputError(f"{file} has no column {wanted!r}", hint=did_you_mean(wanted, frame.columns))
    frame = frame.select(columns) if columns is not None else frame
    if not allow_infinite:
        refuse_infinities(file, frame)
    return frame


def _refuse_others(file: Path) -> None:
    """A layout of mu-ARGUS has the suffix .rda too."""
    with file.open("rb") as opened:
        head = opened.read(6)
    if not head.startswith(_STARTS):
        raise InputError(
            f"{file} isn't an R file",
            hint="a layout of mu-ARGUS (.rda) is read with the data beside it: name the .asc file",
        )


def _single(file: Path) -> bool:
    """Whether one object was written (saveRDS) and not an environment (save)."""
    with file.open("rb") as opened:
        head = opened.read(5)
    if head.startswith(b"\x1f\x8b"):
        with explained(file, "an R file"), gzip.open(file) as inside:
            head = inside.read(5)
    elif not head.startswith((b"RDX", b"RDA", b"X\n", b"A\n", b"B\n")):
        return file.suffix.casefold() == ".rds"
    return not head.startswith((b"RDX", b"RDA"))


def _chosen(file: Path, found: Any, wanted: str | None) -> tuple[str, Any]:
    import pandas as pd

    objects = found if isinstance(found, dict) else {file.stem: found}
    tables = {str(k): v for k, v in objects.items() if isinstance(v, pd.DataFrame)}
    if wanted is not None:
        if wanted not in tables:
            raise InputError(f"{file} has no data frame {wanted!r}", hint=did_you_mean(wanted, tables))
        return wanted, tables[wanted]
    if not tables:
        kinds = ", ".join(sorted({type(v).__name__ for v in objects.values()})) or "nothing"
        raise InputError(f"{file} holds no data frame ({kinds})", hint="save a data.frame or a tibble")
    if len(tables) > 1:
        first = next(iter(tables))
        raise InputError(
            f"{file} holds {len(tables)} data frames: {', '.join(list(tables)[:8])}",
            hint=f"say which: object = {first!r} under [read] in a plan, or object={first!r}",
        )
    return next(iter(tables.items()))


def _column(file: Path, name: str, values: Any) -> pl.Series:
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype):
        return pl.Series(name, [None if v is None or v != v else str(v) for v in values], pl.String)
    kind = values.dtype.kind if hasattr(values.dtype, "kind") else "O"
    if kind == "f":
        series = pl.Series(name, np.asarray(values, np.float64)).fill_nan(None)
        known = series.drop_nulls()
        whole = bool(len(known)) and bool((known.is_finite() & (known == known.floor())).all())
        return series.cast(pl.Int64) if whole and float(known.abs().max() or 0) < 2**53 else series  # type: ignore[arg-type]
    if kind in "iub" or pd.api.types.is_integer_dtype(values) or pd.api.types.is_bool_dtype(values):
        listed = [None if v is pd.NA or v is None else v for v in values]
        return pl.Series(name, listed)
    if kind == "M":
        return pl.Series(name, values.to_list())
    listed = [None if v is None or v is pd.NA or v != v else v for v in values]
    if any(isinstance(v, (list, dict, np.ndarray)) for v in listed):
        raise InputError(f"{file}: {name} holds lists, which can't be read", hint="drop it in R")
    return pl.Series(name, [None if v is None else str(v) for v in listed], pl.String)
