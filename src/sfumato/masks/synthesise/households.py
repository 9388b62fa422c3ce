"""Persons in households: what members share is drawn once, and a person's values look at those before.

The columns that all members of every household share (rent, region, tenure) are synthesised with one
row a household. Then the members come in the file's order: a person's tree also sees the household's
size and columns, the person's place in it, and all columns of the member before and of the first one.
So spouses' ages and parents' and children's keep their relation, and members get values of other
households' members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.data.microdata import IntArray, Microdata
from sfumato.errors import MaskError
from sfumato.masks.synthesise.forest import Predictor
from sfumato.masks.synthesise.parts import Codes, Part, amount

SIZE, PLACE = "members of the household", "place in the household"


@dataclass(frozen=True)
class Homes:
    """Who lives with whom; a record without a household is one of its own."""

    of: IntArray
    """The household of each record."""
    first: IntArray
    """The first record of each household."""
    size: IntArray
    """How many members the record's household has."""
    place: IntArray
    """0 for a household's first record, 1 for its second …"""
    before: IntArray
    """The record of the member before, −1 for a household's first."""

    def shared(self, part: Part) -> bool:
        """Whether all members of every household have the same value."""
        return bool((part.codes == part.codes[self.first[self.of]]).all())

    def parts(self) -> list[Part]:
        return [_whole(SIZE, self.size), _whole(PLACE, self.place)]

    def others(self, parts: Sequence[Part]) -> list[Predictor]:
        """What a person's tree sees of the member before and of the first one."""
        first = np.where(self.place >= 2, self.first[self.of], -1)
        members = [self.before, first] if bool((self.place >= 2).any()) else [self.before]
        return [Predictor(part, member) for member in members for part in parts]


def homes(data: Microdata, unit: str | None) -> Homes | None:
    """The file's households; None where nobody lives with anybody."""
    if unit is None:
        return None
    of, n = data.households(unit)
    size = np.bincount(of, minlength=n)
    if not (size > 1).any():
        return None
    order = np.argsort(of, kind="stable")
    start = np.cumsum(size) - size
    place = np.empty(len(of), np.int64)
    place[order] = np.arange(len(of)) - start[of[order]]
    before = np.full(len(of), -1, np.int64)
    later = place[order] > 0
    before[order[later]] = order[np.flatnonzero(later) - 1]
    return Homes(of, order[start], size[of], place, before)


def of_first(part: Part, first: IntArray) -> Part:
    """A column with one row a household."""
    return replace(
        part, codes=part.codes[first], numbers=part.numbers[first], classes=part.classes[first],
        values=part.values.gather(first),
    )  # fmt: skip


def refuse_torn(strata: Codes, found: Homes, within: Sequence[str]) -> None:
    """A household can't stand in two strata."""
    torn = int(np.unique(found.of[strata != strata[found.first[found.of]]]).size)
    if torn:
        raise MaskError(
            f"synthesise: {torn:,} households have members in different strata of {', '.join(within)}",
            hint="stratify by columns that a household shares, or leave out `within`",
        )


def _whole(name: str, values: IntArray) -> Part:
    import polars as pl

    series = pl.Series(name, values)
    codes, levels = Microdata(series.to_frame()).codes(name)
    return amount(name, series, codes, levels, values.astype(np.float64), np.zeros(len(values), np.bool_))
