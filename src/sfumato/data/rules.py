"""What the schema says of several columns at once: sums and ratios.

A rule is a promise to the reader of a file, and a way round a mask: whoever has all columns of a
rule but one can compute that one.

>>> import numpy as np
>>> rule = SumOf("TOTAL", ("WAGE", "RENT"))
>>> values = {"TOTAL": np.array([5.0]), "WAGE": np.array([3.0]), "RENT": np.array([2.0])}
>>> rule.holds(values).tolist(), rule.solve("WAGE", values).tolist(), rule.by("WAGE")
([True], [3.0], 'TOTAL − RENT')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.data.schema import Schema

TOLERANCE: Final = 1e-6
"""Absolute for small figures, relative to the largest term for large ones."""

Values: TypeAlias = Mapping[str, FloatArray]


@dataclass(frozen=True)
class SumOf:
    """result = the sum of the parts (and, with ``residual``, of something that has no column)."""

    result: str
    parts: tuple[str, ...]
    residual: bool = False

    @property
    def members(self) -> tuple[str, ...]:
        return (self.result, *self.parts)

    def __str__(self) -> str:
        return f"{self.result} = {' + '.join(self.parts)}"

    def by(self, member: str) -> str:
        """How the member is computed from the others, in words."""
        if member == self.result:
            return " + ".join(self.parts)
        return " − ".join([self.result, *(p for p in self.parts if p != member)])

    def solve(self, member: str, values: Values) -> FloatArray:
        """The member from the others."""
        if member == self.result:
            return np.asarray(sum(values[p] for p in self.parts), dtype=np.float64)
        others = [values[p] for p in self.parts if p != member]
        return np.asarray(values[self.result] - sum(others), dtype=np.float64)

    def holds(self, values: Values, tolerance: float = TOLERANCE) -> BoolArray:
        """In which records it holds; not where a value is missing."""
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.abs(values[self.result])
            for part in self.parts:
                size = np.maximum(size, np.abs(values[part]))
            gap = np.abs(values[self.result] - self.solve(self.result, values))
            return np.asarray(gap <= tolerance * np.maximum(size, 1.0))


@dataclass(frozen=True)
class RatioOf:
    """result = times · numerator / denominator, as exactly as the result is written (its ``unit``).

    >>> rule = RatioOf("SHARE", ("RENT", "INCOME"), unit=0.1, times=100)
    >>> values = {"SHARE": np.array([33.3]), "RENT": np.array([400.0]), "INCOME": np.array([1200.0])}
    >>> str(rule), rule.holds(values).tolist(), rule.solve("SHARE", values).round(1).tolist()
    ('SHARE = 100 · RENT / INCOME', [True], [33.3])
    """

    result: str
    parts: tuple[str, str]
    unit: float | None = None
    residual: bool = False
    times: float = 1.0

    @property
    def members(self) -> tuple[str, ...]:
        return (self.result, *self.parts)

    def __str__(self) -> str:
        return f"{self.result} = {self.by(self.result)}"

    def by(self, member: str) -> str:
        above, below = self.parts
        factor = "" if self.times == 1 else f"{self.times:g} · "
        if member == self.result:
            return f"{factor}{above} / {below}"
        if member == below:
            return f"{factor}{above} / {self.result}"
        return f"{self.result} · {below}" + ("" if self.times == 1 else f" / {self.times:g}")

    def solve(self, member: str, values: Values) -> FloatArray:
        above, below = self.parts
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if member == self.result:
                out = self.times * values[above] / values[below]
                out = np.rint(out / self.unit) * self.unit if self.unit else out
            elif member == above:
                out = values[self.result] * values[below] / self.times
            else:
                out = self.times * values[above] / values[self.result]
        return np.where(np.isfinite(out), out, np.nan)

    def holds(self, values: Values, tolerance: float = TOLERANCE) -> BoolArray:
        ratio = self.solve(self.result, values)
        slack = tolerance * np.maximum(np.abs(values[self.result]), 1.0) + 0.5 * (self.unit or 0.0)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(values[self.result] - ratio) <= slack)


Rule: TypeAlias = SumOf | RatioOf


def undefined(rule: Rule, values: Values) -> BoolArray:
    """Where a rule has no result: a ratio to zero."""
    below = values[rule.parts[-1]]
    return np.asarray(below == 0) if isinstance(rule, RatioOf) else np.zeros(len(below), dtype=np.bool_)


def rules_of(schema: Schema) -> list[Rule]:
    """Every rule of the schema, each after those whose results it uses."""
    found: dict[str, Rule] = {t: SumOf(t, p, schema[t].residual) for t, p in schema.sums.items()}
    found |= {
        t: RatioOf(t, parts, schema[t].unit, times=schema[t].times or 1.0)
        for t, parts in schema.ratios.items()
    }
    out: list[Rule] = []
    waiting = dict(found)
    while waiting:
        ready = [t for t, rule in waiting.items() if not any(p in waiting for p in rule.parts)]
        # A circle has no order; the steps that need one refuse it by themselves.
        out += [waiting.pop(result) for result in ready or list(waiting)]
    return out


def values_of(data: Microdata, columns: Sequence[str]) -> dict[str, FloatArray]:
    """The columns as numbers, missing values as NaN."""
    return {c: data.numbers(c) for c in columns}


def judgeable(data: Microdata, rule: Rule) -> bool:
    """Whether all members of the rule are there, as numbers."""
    return all(c in data.columns and data.is_numeric(c) for c in rule.members)


def strict(data: Microdata, rule: Rule) -> bool:
    """Whether the rule holds in every record that can be judged, and was declared to."""
    if rule.residual:
        return False

    def partial(block: Microdata, _start: int) -> bool:
        values = values_of(block, rule.members)
        there = np.logical_and.reduce([np.isfinite(v) for v in values.values()])
        return bool((rule.holds(values) | ~there).all())

    return all(data.aggregate(partial, rule.members))


def broken_sums(
    data: Microdata, total: str, components: Sequence[str], tolerance: float = TOLERANCE
) -> BoolArray:
    """Which records have a total that isn't the sum of its components.

    A record with a missing total or component isn't judged. The tolerance is absolute for small
    totals and relative to the largest term for large ones.
    """
    rule = SumOf(total, tuple(components))
    values = values_of(data, rule.members)
    there = np.logical_and.reduce([np.isfinite(v) for v in values.values()])
    return np.asarray(there & ~rule.holds(values, tolerance))


def count_broken_sums(data: Microdata, total: str, components: Sequence[str]) -> int:
    """In how many records a total isn't the sum of its components."""
    parts = data.aggregate(
        lambda block, _: int(broken_sums(block, total, components).sum()), [total, *components]
    )
    return sum(parts)
