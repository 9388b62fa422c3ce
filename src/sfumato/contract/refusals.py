"""What a step refuses, and what may be behind a promise that it broke."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field
from typing import Any, Final

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.errors import MaskError, Problem


def default(declared: Field[Any]) -> Any:
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


def ends(series: pl.Series) -> list[float]:
    """The least and the largest value, and the largest finite size."""
    finite = series.filter(series.is_finite()).abs().max()
    return [float(v) for v in (series.min(), series.max(), finite) if isinstance(v, float)]


_NARROW: Final = (pl.Int8, pl.Int16, pl.UInt8, pl.UInt16, pl.Float32)


def blame(data: Microdata, columns: Sequence[str]) -> str:
    """What may be behind a broken promise: a type too narrow for what the mask makes, or a defect."""
    narrow = [c for c in columns if c in data.columns and data.dtype(c) in _NARROW]
    if not narrow:
        return "this is a defect of the mask or of its parameters"
    named = ", ".join(f"{c} is {data.dtype(c)}" for c in narrow[:5]) + (" …" if narrow[5:] else "")
    return f"{named}, which may be too narrow for it: read it as Int64 or Float64"


def refuse(problems: Sequence[Problem], name: str) -> None:
    if problems:
        raise MaskError(
            "; ".join(f"{name}: {p.message}" for p in problems),
            hint="; ".join(dict.fromkeys(p.hint for p in problems if p.hint)) or None,
        )
