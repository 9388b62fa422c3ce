"""Numbers too large or too small to compute with."""

from __future__ import annotations

import polars as pl

from sfumato.errors import SchemaError

_LARGE, _SMALL = 1e150, 1e-150
"""Beyond these, the squares of values overflow, or vanish."""


def refuse_extremes(series: pl.Series) -> None:
    """An error where a column holds finite numbers whose squares no float can hold."""
    ends = [abs(v) for v in (series.min(), series.max()) if isinstance(v, float)]
    top = max((v for v in ends if v == v), default=0.0)
    if top == float("inf"):
        finite = series.filter(series.is_finite()).abs().max()
        top = finite if isinstance(finite, float) else 0.0
    if top > _LARGE or 0.0 < top < _SMALL:
        word = "large" if top > _LARGE else "small"
        raise SchemaError(
            f"{series.name} holds numbers too {word} to compute with: their squares leave a float's range",
            hint="give the column in other units, or leave it out",
        )
