"""Values as JSON and TOML have them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import polars as pl


def plain(value: Any, *, most_rows: int | None = None, strict: bool = False) -> Any:
    """Frames as lists of rows (the first ``most_rows``), arrays and tuples as lists, dataclasses as dicts.

    ``strict`` leaves nothing that JSON doesn't have: NaN and infinities become None, the rest text.

    >>> plain({"a": (1, 2), "b": float("nan")}, strict=True)
    {'a': [1, 2], 'b': None}
    """

    def of(part: Any) -> Any:
        return plain(part, most_rows=most_rows, strict=strict)

    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return None if strict and not math.isfinite(value) else value
    if isinstance(value, pl.DataFrame):
        return [of(row) for row in (value if most_rows is None else value.head(most_rows)).to_dicts()]
    if isinstance(value, pl.Series):
        return [of(v) for v in (value if most_rows is None else value.head(most_rows)).to_list()]
    if isinstance(value, Mapping):
        return {str(k): of(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return of(value.tolist())
    if isinstance(value, (list, tuple)):
        return [of(v) for v in value]
    for way in ("as_table", "to_dict"):
        if hasattr(value, way) and not isinstance(value, type):
            return of(getattr(value, way)())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return of(dataclasses.asdict(value))
    return str(value) if strict else value
