"""What a synthetic file promises, recomputed from the two files and the schema alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.contract.guarantees import Guarantee
from sfumato.data.microdata import BoolArray, Microdata
from sfumato.data.rules import broken_sums
from sfumato.errors import counted
from sfumato.masks.synthesise.parts import blurred_column


@dataclass(frozen=True)
class KnownValues(Guarantee):
    """Every synthetic value is one that the stratum's original records have (rare numbers blurred)."""

    columns: tuple[str, ...]
    within: tuple[str, ...]
    blur: int

    def describe(self) -> str:
        where = f" of the same {' × '.join(self.within)}" if self.within else ""
        how = (
            f"; a number that fewer than {self.blur} records have is released as a mean of so many or more, "
            f"or as a neighbour that {self.blur} share"
            if self.blur
            else ""
        )
        return f"every value of {', '.join(self.columns)} is one that original records{where} have{how}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        for column in self.columns:
            old = blurred_column(before, column, self.blur)
            one = pl.DataFrame([old.rename("\0value"), *(before.column(c) for c in self.within)])
            two = pl.DataFrame(
                [after.column(column).rename("\0value"), *(after.column(c) for c in self.within)]
            )
            if old.dtype != after.dtype(column):
                return f"{column} was {old.dtype} and became {after.dtype(column)}"
            new = two.unique().join(one.unique(), on=one.columns, how="anti", nulls_equal=True)
            if new.height:
                return f"{column} has {counted(new.height, 'value')} that no original record has"
        return None


@dataclass(frozen=True)
class OthersStay(Guarantee):
    """Records that aren't at risk stay as they are."""

    columns: tuple[str, ...]
    keys: tuple[str, ...]
    tolerance: int
    unit: str | None

    def describe(self) -> str:
        return f"records whose {' × '.join(self.keys)} at least {self.tolerance} share stay as they are"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        stay = pl.Series(~synthesised(before, self.keys, self.tolerance, self.unit))
        for column in self.columns:
            n = int((before.column(column).ne_missing(after.column(column)) & stay).sum())
            if n:
                return f"{column} changed in {counted(n, 'record')} of them"
        return None


@dataclass(frozen=True)
class TotalsHold(Guarantee):
    """A total that was the sum of its parts in every record that has them all is so again."""

    total: str
    parts: tuple[str, ...]

    def describe(self) -> str:
        return f"{self.total} = {' + '.join(self.parts)} in every record, if it held in every record before"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        if broken_sums(before, self.total, self.parts).any():
            return None
        n = int(broken_sums(after, self.total, self.parts).sum())
        return f"the sum {self.total} is broken in {counted(n, 'record')}" if n else None


def synthesised(data: Microdata, keys: Sequence[str], tolerance: int, unit: str | None) -> BoolArray:
    """Which records are synthesised: all, or those whose keys too few share, with their households."""
    if not keys:
        return np.ones(len(data), np.bool_)
    codes, _ = data.codes(keys)
    risky = np.bincount(codes)[codes] < tolerance
    if unit is None:
        return np.asarray(risky)
    home, homes = data.households(unit)
    return np.asarray(np.bincount(home, weights=risky, minlength=homes)[home] > 0)
