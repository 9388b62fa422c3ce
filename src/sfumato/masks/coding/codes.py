"""A top or bottom code as a value of the column's own type, and what replaces the values beyond it."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
import polars as pl

from sfumato.errors import MaskError

SIDES = ("top", "bottom")


def how_many(n: int, percent: float) -> int:
    """⌈percent · n / 100⌉, safe against 0.1 · 30 = 3.0000000000000004."""
    return math.ceil(n * (percent / 100) - 1e-9)


def in_type(code: float, dtype: pl.DataType, *, top: bool) -> Any:
    """A code as a value of the column's type, never looser than asked; None where the type can't
    reach it (nothing can lie beyond it)."""
    if dtype == pl.Float32:
        return float(np.float32(code))
    if isinstance(dtype, pl.Decimal):
        step = Decimal(1).scaleb(-dtype.scale)
        exact = Decimal(repr(code)) if isinstance(code, float) else Decimal(code)
        return exact.quantize(step, rounding=ROUND_FLOOR if top else ROUND_CEILING)
    if not dtype.is_integer():
        return float(code)
    whole = math.floor(code) if top else math.ceil(code)
    bits = {"8": 8, "16": 16, "32": 32, "64": 64, "128": 128}[str(dtype).lstrip("UInt")]
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.is_signed_integer() else (0, 2**bits - 1)
    return whole if low <= whole <= high else None


def _centre(values: list[Any], what: str) -> float:
    """The mean or the median; the sum is exact, so that chunks and threads can't change a bit of it."""
    return math.fsum(values) / len(values) if what == "mean" else float(np.median(np.array(values, float)))


def replacement(values: list[Any], what: str, dtype: pl.DataType, column: str) -> tuple[float, Any]:
    """The mean or median of the coded values, as it is and in the column's type."""
    if dtype.is_integer() and max(abs(v) for v in values) > 1 << 53:
        raise MaskError(
            f"top_bottom_code: {column} has whole numbers beyond 2^53, whose {what} can't be had exactly",
            hint='is it an identifier? else use replace="code"',
        )
    centre = _centre(values, what)
    return centre, _rounded(centre, dtype)


def plain(code: Any) -> Any:
    return float(code) if isinstance(code, Decimal) else code


def _rounded(value: float, dtype: pl.DataType) -> Any:
    if isinstance(dtype, pl.Decimal):
        return Decimal(repr(value)).quantize(Decimal(1).scaleb(-dtype.scale))
    if dtype == pl.Float32:
        return float(np.float32(value))
    return value if dtype.is_float() or not math.isfinite(value) else int(np.rint(value))
