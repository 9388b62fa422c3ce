"""What an intruder knows where nobody says what he knows."""

from __future__ import annotations

import polars as pl

from sfumato.data.microdata import Microdata


def is_number(data: Microdata, column: str) -> bool:
    """Whether a column is compared as a number (continuous by schema or type) or as a category."""
    dtype = data.dtype(column)
    return data.kind(column) == "continuous" and (dtype.is_numeric() or dtype.is_temporal())


def is_comparable(data: Microdata, column: str) -> bool:
    """Whether values of a column can be told equal or not: no lists, no structures."""
    dtype = data.dtype(column)
    named = dtype in (pl.String, pl.Categorical, pl.Enum, pl.Boolean)
    return named or dtype.is_numeric() or dtype.is_temporal()


def default_known(original: Microdata, masked: Microdata) -> tuple[str, ...]:
    """The sensitive columns of both files; else all numbers but ids, households and weights."""
    shared = [c for c in original.columns if c in masked.columns]
    sensitive = tuple(c for c in original.schema.sensitive if c in shared)
    if sensitive:
        return sensitive
    apart = {original.schema.id, original.schema.household, original.schema.weight}
    return tuple(c for c in shared if is_number(original, c) and c not in apart)
