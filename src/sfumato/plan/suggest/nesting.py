"""Codes that determine coarser codes: occupation and major occupation, age and age group.

Such columns are one hierarchy: the finest is the key, and the coarser ones follow from it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.plan.suggest import words
from sfumato.plan.suggest.look import Look

_MOST_VALUES: Final = 1_000
_EVIDENCE: Final = 40.0
"""How much less likely than by chance, in natural logarithms, a nesting must be."""
_FIRST: Final = 4_000


def find_nested(
    look: Look, geography: tuple[str, ...], household: str | None = None
) -> dict[str, tuple[str, ...]]:
    """Each finest code → the coarser ones that it determines in every record.

    Of a household's records the first alone counts as evidence: members share what their household has.
    """
    sample = (
        look.sample if household is None else look.sample.unique(household, keep="first", maintain_order=True)
    )
    codes: dict[str, npt.NDArray[np.int64]] = {}
    for c in look.free():
        facts = look.facts[c]
        if c in geography or not facts.is_code or not 2 <= facts.distinct <= _MOST_VALUES or facts.is_date:
            continue
        if _amounts(look, c):
            continue
        if 2 * facts.distinct <= sample.height and facts.filled > 0.5 * facts.n:
            head = sample[c].head(_FIRST)
            codes[c] = head.cast(pl.String).rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    order = sorted(codes, key=lambda c: -look.facts[c].distinct)
    out: dict[str, tuple[str, ...]] = {}
    gone: set[str] = set()
    for fine in order:
        if fine in gone or look.facts[fine].distinct < 6:
            continue
        coarse = [c for c in order if c not in gone and c != fine and _within(look, codes, c, fine)]
        if coarse:
            out[fine] = tuple(coarse)
            gone.update(coarse)
            for c in coarse:
                look.say(c, f"each {fine} lies in one {c}: one hierarchy, of which {fine} is the finest")
    return out


def _amounts(look: Look, column: str) -> bool:
    """Numbers that are mostly zero and else of several lengths: amounts that few have, no codes."""
    facts = look.facts[column]
    if words.is_money(look.label(column)) or words.is_hours(column):
        return True
    if not facts.is_number or facts.zeros < 0.5 or facts.own.labels:
        return False
    others = np.abs(facts.counted[0][facts.counted[0] != 0])
    return facts.distinct > 20 and bool(len(others)) and np.ptp(np.floor(np.log10(others))) > 0


def is_band(look: Look, coarse: str, fine: str) -> bool:
    """Whether the coarser column only cuts the finer one's numbers into classes, in order."""
    if not look.facts[fine].is_number or not look.facts[coarse].is_number:
        return False
    pairs = (
        look.sample.select(pl.col(fine, coarse).cast(pl.Float64, strict=False))
        .drop_nulls()
        .unique()
        .sort(fine)
    )
    steps = np.diff(pairs[coarse].to_numpy())
    return bool(np.all(steps >= 0) or np.all(steps <= 0))


def _within(look: Look, codes: dict[str, npt.NDArray[np.int64]], coarse: str, fine: str) -> bool:
    few, many = look.facts[coarse].distinct, look.facts[fine].distinct
    same = words.key_topic(coarse) == words.key_topic(fine) != None  # noqa: E711
    if 1.5 * few > many or few < (2 if same else 3):
        return False
    of, by = codes[coarse], codes[fine]
    there = (of > 0) & (by > 0)
    of, by = of[there], by[there]
    if len(np.unique(of)) < (2 if same else 3):
        return False
    # Each record that shares its finer value with an earlier one agrees by chance with Σ p².
    agree = float(np.sum((np.bincount(of) / len(of)) ** 2))
    if (len(by) - len(np.unique(by))) * -np.log(min(agree, 1.0)) < _EVIDENCE:
        return False
    last = np.zeros(int(by.max()) + 1, np.int64)
    last[by] = of
    return bool(np.all(last[by] == of)) and look.nests(coarse, fine)
