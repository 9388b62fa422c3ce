"""Totals of a synthetic file: never drawn themselves, but what their parts don't explain is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.masks.synthesise.parts import Part, amount, blurred_column

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Total:
    """A total with what is left of it in each record: total − Σ of the parts that aren't missing.

    Where the rule holds in all records with all their parts, it holds in all such synthetic records.
    Otherwise the rest is synthesised as one more column; a missing total is a missing rest.
    """

    name: str
    parts: tuple[str, ...]
    rest: FloatArray
    holds: bool

    @property
    def needs_rest(self) -> bool:
        """Whether there is anything to draw."""
        return bool((self.rest != 0).any())

    def as_part(self, data: Microdata, blur: int) -> Part:
        rest = self.blurred_rest(blur)
        codes, levels = Microdata(pl.DataFrame({"rest": rest})).codes("rest")
        return amount(rest_name(self.name), data.column(self.name), codes, levels, rest, np.isnan(rest))

    def blurred_rest(self, blur: int) -> FloatArray:
        made = blurred_column(Microdata(pl.DataFrame({"rest": self.rest})), "rest", blur)
        return made.to_numpy().copy()

    def rebuilt(
        self,
        data: Microdata,
        now: Mapping[str, pl.Series],
        donors: IntArray | None,
        rows: IntArray,
        blur: int,
    ) -> pl.Series:
        """The total of these synthetic rows, the others' as it was."""
        old = data.column(self.name)
        masked = data.with_columns(dict(now)) if now else data
        added, complete = _added(masked, self.parts)
        rest = np.zeros(len(data))
        if donors is not None:
            rest = self.blurred_rest(blur)[donors]
            if self.holds:
                rest[complete & ~np.isnan(rest)] = 0.0
        total = added + rest
        rows = rows[~np.isnan(total[rows])]
        out = old if donors is None else old.gather(pl.Series(donors).cast(pl.UInt32))
        physical = out.to_physical()
        value = np.rint(total[rows]) if physical.dtype.is_integer() else total[rows]
        out = physical.clone().scatter(rows, pl.Series(value).cast(physical.dtype)).cast(old.dtype)
        return out.rename(self.name)


def total_of(data: Microdata, name: str, parts: Sequence[str]) -> Total:
    """A total as the file has it."""
    value = data.numbers(name)
    added, complete = _added(data, parts)
    rest = value - added
    size = np.maximum(np.abs(value), 1.0)
    for part in parts:
        size = np.fmax(size, np.abs(data.numbers(part)))
    with np.errstate(invalid="ignore"):
        rest[np.abs(rest) <= TOLERANCE * size] = 0.0
    judged = complete & ~np.isnan(rest)
    return Total(name, tuple(parts), rest, bool((rest[judged] == 0).all()))


def _added(
    data: Microdata, parts: Sequence[str]
) -> tuple[FloatArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The sum of the parts that aren't missing, and where none is."""
    added = np.zeros(len(data))
    complete = np.ones(len(data), np.bool_)
    for part in parts:
        value = data.numbers(part)
        complete &= ~np.isnan(value)
        added += np.nan_to_num(value)
    return added, complete


def rest_name(total: str) -> str:
    return f"{total} without its parts"
