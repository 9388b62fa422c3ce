"""Sum rules under noise: a total rebuilt from its noisy parts, or masked with what it has beyond them.

A rule says total = Σ coefficient·part + constant. Rules come from the schema (``sum_of``) and, for
columns that are rounded, from the data themselves (an exact whole-number identity nobody declared).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray
from sfumato.data.rules import TOLERANCE
from sfumato.errors import MaskError


@dataclass(frozen=True)
class Rule:
    """One sum rule as the noise treats it."""

    total: str
    parts: tuple[tuple[str, int], ...]
    constant: float = 0.0
    holds: bool = True
    """Whether it holds in every record that can be judged."""
    declared: bool = True

    @property
    def components(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.parts)

    def added(self, values: Mapping[str, FloatArray]) -> FloatArray:
        """Σ coefficient·part + constant in each record."""
        out = np.full(len(next(iter(values.values()))), self.constant)
        for name, coefficient in self.parts:
            out += coefficient * values[name]
        return out

    def residual(self, values: Mapping[str, FloatArray]) -> FloatArray:
        """total − sum in each record; NaN where a value is missing, 0 where it is rounding error."""
        gap = values[self.total] - self.added(values)
        size = np.maximum(np.abs(values[self.total]), 1.0)
        for name, _ in self.parts:
            size = np.fmax(size, np.abs(values[name]))
        with np.errstate(invalid="ignore"):
            gap[np.abs(gap) <= TOLERANCE * size] = 0.0
        return gap

    def held(self, values: Mapping[str, FloatArray]) -> BoolArray:
        return np.asarray(self.residual(values) == 0.0)


def unique_rows(columns: Sequence[np.ndarray[tuple[int], np.dtype[np.generic]]]) -> int:
    """How many records have a combination of these values that no other record has."""
    import polars as pl

    if not columns:
        return 0
    frame = pl.DataFrame({str(j): np.asarray(c) for j, c in enumerate(columns)})
    counts = frame.group_by(frame.columns).len()["len"]
    return int((counts == 1).sum())


def rebuild(
    rule: Rule,
    before: Mapping[str, FloatArray],
    after: Mapping[str, FloatArray],
    *,
    keep_residual: bool,
    keep_zero: bool,
    noised: bool,
) -> FloatArray:
    """The masked total.

    ``keep_residual`` is Kim and Winkler's published rule: the raw difference between total and sum
    is added to the masked sum. Else a rule that holds everywhere (or, with ``keep_zero``, in this
    record) holds after masking, and every other total has its own correlated noise, which is the
    same as masking the difference as one more component. ``noised`` says that the total has it.
    """
    total = before[rule.total]
    moved = np.zeros(len(total))
    for name, coefficient in rule.parts:
        moved += coefficient * np.nan_to_num(after[name] - before[name])
    if keep_residual or not noised:
        out = total + moved
        if keep_residual and rule.declared:
            return out
    else:
        out = after[rule.total].copy()
    if rule.holds or keep_zero:
        held = rule.held(before)
        out[held] = rule.added(after)[held]
    return out


def check_bounds(column: str, bound: float, count: int, side: str) -> None:
    """Refuse a bound that the original values break already."""
    if count:
        raise MaskError(
            f"`{side}` says that {column} stays {'at or above' if side == 'lower' else 'at or below'} "
            f"{bound:g}, but {count:,} records are beyond it already",
            hint="correct the data or move the bound",
        )
