"""Households as rows: who stands where in each.

A household's members stand in slots: the reference person R, the partner P, others of adult age A1 …, those
below it K1 …, oldest first, ties by values alone. A row keeps its slots, so its *shape* (is there a
partner, how many A, how many K) stays with it, and a household hides among those of its shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.stats.levels import CodeArray, Levels, levels_of

REFERENCE, PARTNER, CHILD, OTHER = 1, 2, 3, 4
_NAMES: Final = {
    "age": ("age", "rx010", "px020", "agep", "alter", "idade", "edad"),
    "sex": ("sex", "gender", "rb090", "geschlecht", "sexo"),
    "relation": ("relation", "relat", "relationship", "relp", "relshipp", "rel", "relate", "rb230"),
}
_COUPLE_YEARS: Final = 15
_CHILD_YEARS: Final = 12
_NEARLY: Final = 0.95


@dataclass(frozen=True)
class Members:
    """Each household's slots: the record that stands there (−1 for nobody)."""

    of: IntArray
    """Each record's household."""
    who: IntArray
    """Households × slots."""
    adults: int
    """How many slots there are for A; K's come after them."""
    relation: CodeArray
    """Each record's relation: 1 reference person, 2 partner, 3 child, 4 other."""
    age: FloatArray | None

    @property
    def there(self) -> BoolArray:
        return self.who >= 0

    @property
    def shape(self) -> IntArray:
        """A number for each household's shape."""
        there = self.there
        keys = np.column_stack([there[:, 1], there[:, 2 : 2 + self.adults].sum(1), self.children])
        return np.asarray(np.unique(keys, axis=0, return_inverse=True)[1]).ravel()

    @property
    def children(self) -> IntArray:
        return np.asarray(self.there[:, 2 + self.adults :].sum(1))

    @property
    def sizes(self) -> IntArray:
        return np.asarray(self.there.sum(1))

    @property
    def seats(self) -> IntArray:
        """Where the release puts who stands in each slot: a household's records in the file's order.

        Whose they were has no part in it, so that slots of equal values can't be told apart by place.
        """
        there = self.there
        out = np.full(self.who.shape, -1, np.int64)
        out[there] = np.argsort(self.of, kind="stable")
        return out

    def slots(self, values: CodeArray) -> CodeArray:
        """A column of codes by household and slot, −1 where nobody is."""
        return np.where(self.there, values[self.who], np.int32(-1)).astype(np.int32)


def named(columns: Sequence[str], what: str) -> str | None:
    """The column that holds the members' ages, sexes or relations, by its name."""
    by_name = {c.lower(): c for c in reversed(columns)}
    return next((by_name[n] for n in _NAMES[what] if n in by_name), None)


def members(
    data: Microdata,
    household: str,
    *,
    age: str | None,
    sex: str | None,
    relation: str | None,
    adult: int,
    digest: IntArray,
) -> Members:
    """The households' members in their slots; ``digest`` is a number that each record's values decide."""
    of, many = data.households(household)
    years = None if age is None else data.numbers(age)
    told = _relations(data, of, many, years, sex, relation, digest)
    ages = np.zeros(len(data)) if years is None else np.nan_to_num(years, nan=-1.0)
    role = np.select(
        [told == REFERENCE, told == PARTNER, (ages >= adult) | (years is None)], [0, 1, 2], default=3
    )
    order = np.lexsort((digest, told, -ages, role, of))
    # A second reference person or partner (a mistake in the file) stands with the others.
    for one in (0, 1):
        own = order[role[order] == one]
        spare = own[1:][of[own][1:] == of[own][:-1]]
        role[spare] = np.where((ages[spare] >= adult) | (years is None), 2, 3)
        order = np.lexsort((digest, told, -ages, role, of))
    group = of[order] * 4 + role[order]
    nth = np.arange(len(order)) - np.searchsorted(group, group)
    adults = int(nth[role[order] == 2].max(initial=-1)) + 1
    children = int(nth[role[order] == 3].max(initial=-1)) + 1
    slot = np.array([0, 1, 2, 2 + adults])[role[order]] + nth
    who = np.full((many, 2 + adults + children), -1, np.int64)
    who[of[order], slot] = order
    return Members(of, who, adults, told.astype(np.int32), years)


def _relations(
    data: Microdata,
    of: IntArray,
    many: int,
    years: FloatArray | None,
    sex: str | None,
    relation: str | None,
    digest: IntArray,
) -> IntArray:
    """Each record's relation to the reference person of its household, told or guessed."""
    n = len(data)
    ages = np.zeros(n) if years is None else np.nan_to_num(years, nan=-1.0)
    out = np.full(n, OTHER, np.int64)
    code = None if relation is None else levels_of(data, relation)
    first = None if code is None else _code_of_reference(code, of, many)
    if code is not None and first is not None:
        out[code.codes == first] = REFERENCE
    else:  # the oldest
        order = np.lexsort((digest, -ages, of))
        out[order[np.searchsorted(of[order], np.arange(many))]] = REFERENCE
    # A household without a reference person gets its oldest member.
    without = np.ones(many, np.bool_)
    without[of[out == REFERENCE]] = False
    order = np.lexsort((digest, -ages, of))
    oldest = order[np.searchsorted(of[order], np.arange(many))]
    out[oldest[without]] = REFERENCE
    reference = np.empty(many, np.int64)
    reference[of[out == REFERENCE][::-1]] = np.flatnonzero(out == REFERENCE)[::-1]
    gap = ages[reference][of] - ages
    if code is not None and first is not None:
        others = out != REFERENCE
        for one in range(len(code)):
            own = others & (code.codes == one)
            if not own.any() or one == first:
                continue
            held = np.bincount(of[own])
            once = float((held[held > 0] == 1).mean()) >= _NEARLY
            middle = float(np.median(gap[own])) if years is not None else 0.0
            spread = float(np.median(np.abs(gap[own]))) if years is not None else 0.0
            if once and spread < _COUPLE_YEARS and not (out == PARTNER).any():
                out[own] = PARTNER
            elif middle >= _CHILD_YEARS + 4:
                out[own] = CHILD
        return out
    if years is None:
        return out
    mate = (out != REFERENCE) & (ages >= 16) & (np.abs(gap) <= _COUPLE_YEARS)
    if sex is not None:
        codes = levels_of(data, sex).codes
        mate &= codes != codes[reference][of]
    order = np.flatnonzero(mate)
    order = order[np.lexsort((digest[order], -ages[order], of[order]))]
    out[order[np.flatnonzero(np.diff(of[order], prepend=-1))]] = PARTNER
    partner = np.full(many, np.inf)
    partner[of[out == PARTNER]] = ages[out == PARTNER]
    young = np.minimum(ages[reference], partner)[of] - ages >= _CHILD_YEARS
    out[(out == OTHER) & young] = CHILD
    return out


def _code_of_reference(code: Levels, of: IntArray, many: int) -> int | None:
    """The code that nearly every household has once."""
    best = None
    for one in range(len(code)):
        held = np.bincount(of[code.codes == one], minlength=many)
        share = float((held == 1).mean())
        if share >= _NEARLY and (best is None or share > best[1]):
            best = (one, share)
    return None if best is None else best[0]
