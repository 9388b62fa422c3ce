"""Columns of a household that follow from its members: its size, an equivalence scale, totals.

They are never dealt: a total beside dealt parts would be wrong, and would undo the deal. An identity that
holds in every household is found and rebuilt; one that holds in most is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from sfumato.data.microdata import FloatArray, IntArray, Microdata

_GROWN: Final = 14
_MOST: Final = 20_000
_CLOSE: Final = 1e-6
SCALES: Final = {
    "household size": (1.0, 1.0, 1.0),
    "modified OECD scale": (1.0, 0.5, 0.3),
    "OECD scale": (1.0, 0.7, 0.5),
}
"""What the first member, every other one of 14 or more, and every younger one count."""


@dataclass(frozen=True)
class Follows:
    """A household's column that is rebuilt: a scale, or a sum of parts over its members, by a scale."""

    name: str
    parts: Mapping[str, int]
    scale: str | None

    def __str__(self) -> str:
        if not self.parts:
            return f"{self.name} = {self.scale}"
        terms = " ".join(f"{'+' if f > 0 else '−'} {p}" for p, f in self.parts.items()).removeprefix("+ ")
        return f"{self.name} = ({terms} over the household)" + (f" / {self.scale}" if self.scale else "")

    def values(self, data: Microdata, of: IntArray, first: IntArray, age: str | None) -> FloatArray:
        """Its value in each household of a file."""
        scale = scales(data, of, age)[self.scale] if self.scale else np.ones(len(first))
        if not self.parts:
            return scale
        out = np.zeros(len(first))
        for part, factor in self.parts.items():
            out += factor * over_household(data, part, of, first)
        return out / scale


def scales(data: Microdata, of: IntArray, age: str | None) -> dict[str, FloatArray]:
    size = np.bincount(of).astype(np.float64)
    out = {"household size": size, "root of the size": np.sqrt(size)}
    if age is not None:
        grown = np.bincount(of, (data.numbers(age) >= _GROWN).astype(np.float64))
        for name, (one, adult, child) in SCALES.items():
            if name not in out:
                out[name] = one + adult * np.maximum(grown - 1, 0) + child * (size - np.maximum(grown, 1))
    return out


def over_household(data: Microdata, column: str, of: IntArray, first: IntArray) -> FloatArray:
    """The sum over members; of a column that they share, its value. Missing values count as 0."""
    values = np.nan_to_num(data.numbers(column))
    own = values[first]
    return own if (own[of] == values).all() else np.asarray(np.bincount(of, values), np.float64)


def find(
    data: Microdata,
    shared: Sequence[str],
    numbers: Sequence[str],
    of: IntArray,
    first: IntArray,
    age: str | None,
) -> list[Follows]:
    """The shared columns that follow from others, ``numbers`` being the columns that may be parts."""
    by = scales(data, of, age)
    out: list[Follows] = []
    for name in shared:
        own = data.numbers(name)[first]
        for scale, value in by.items():
            if np.ptp(value) > 0 and np.allclose(own, value, rtol=_CLOSE, atol=_CLOSE):
                out.append(Follows(name, {}, scale))
                break
    spoken = {f.name for f in out}
    sums = {c: over_household(data, c, of, first) for c in numbers if c not in spoken and c != age}
    sums = {c: v for c, v in sums.items() if v.any()}
    step = max(1, len(first) // _MOST)
    for name in shared:
        if name in spoken or name not in sums or np.unique(sums[name]).size <= 20:
            continue
        others = {c: v for c, v in sums.items() if c != name and c not in spoken}
        for divisor in (None, *by):
            whole = sums[name] * (1.0 if divisor is None else by[divisor])
            parts = _signs(whole, others, step)
            if parts:
                out.append(Follows(name, parts, divisor))
                spoken.add(name)
                break
    return out


def _signs(total: FloatArray, parts: Mapping[str, FloatArray], step: int) -> dict[str, int]:
    """Which parts make the total with a sign of + or −, nothing where they don't in every household."""
    names: list[str] = []
    for name, value in parts.items():
        if not any(np.array_equal(value, parts[other]) for other in names):
            names.append(name)
    if not names or not total.any():
        return {}
    table = np.column_stack([parts[n] for n in names])
    width = np.abs(table).max(axis=0)
    found = np.linalg.lstsq((table / width)[::step], total[::step], rcond=None)[0] / width
    sign = np.rint(found)
    if (np.abs(sign) > 1).any() or (sign != 0).sum() < 2:
        return {}
    off = np.abs(table @ sign - total)
    if (off > _CLOSE * np.maximum(np.abs(table).max(axis=1), 1.0)).any():
        return {}
    return {n: int(s) for n, s in zip(names, sign, strict=True) if s}


def in_type(data: Microdata, name: str, values: FloatArray) -> pl.Series:
    dtype = data.dtype(name)
    return pl.Series(name, np.rint(values) if dtype.is_integer() else values).cast(dtype)
