"""Relations between two numbers that nobody declared, and that a deal would erode: A = B, A ≤ B.

A declared rule holds afterwards; one that isn't declared holds as often as chance and correlation have it.
``sum_of = ["A"]`` of B declares both: what B has beyond A (0, or never below 0) is dealt like a part; an
edit (``edits = ["A <= B"]``) declares the second.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.data.microdata import FloatArray, Microdata

EQUAL: Final = 0.5
"""From this share of records on, an equality is worth declaring."""
BY_CHANCE: Final = 0.05
"""An order of two columns means something where chance would break it in so many records."""
NEARLY: Final = 0.99
"""From this share of records on, an order is worth declaring."""
_LOOKED_AT: Final = 10_000
_FIRST: Final = 300
_CODES: Final = 12
"""Columns of so few values are codes, whose order means little."""


@dataclass(frozen=True)
class Relation:
    """``small`` = ``large`` in ``share`` of the records, or ``small`` ≤ ``large`` in all or nearly all."""

    small: str
    large: str
    equal: bool
    share: float

    def __str__(self) -> str:
        if self.equal:
            return f"{self.large} = {self.small} in {self.share:.0%} of the records"
        where = "all records" if self.share == 1 else f"{min(self.share, 0.9999):.2%} of the records"
        return f"{self.small} ≤ {self.large} in {where}"

    @property
    def hint(self) -> str:
        """How the schema would declare it."""
        if self.equal:
            return f'`sum_of = ["{self.small}"]` with `residual = true` under variables.{self.large} keeps it'
        return f'`edits = ["{self.small} <= {self.large}"]` under variables.{self.small} keeps it'


def relations(data: Microdata, columns: Sequence[str], tied: Sequence[frozenset[str]] = ()) -> list[Relation]:
    """The relations of numeric columns, but for those that a rule ties already.

    Zeros in both say nothing, and are left out. A large file is looked at in part.
    """
    step = max(1, len(data) // _LOOKED_AT)
    numbers = [c for c in columns if data.is_numeric(c) and data.kind(c) == "continuous"]
    values = {c: data.numbers(c)[::step] for c in numbers}
    values = {c: v for c, v in values.items() if len(np.unique(v[:_FIRST])) > _CODES}
    out = []
    for one, two in itertools.combinations(values, 2):
        if any({one, two} <= group for group in tied):
            continue
        a, b = values[one], values[two]
        if not _worth(a[:_FIRST], b[:_FIRST]):
            continue
        rows = np.isfinite(a) & np.isfinite(b) & ((a != 0) | (b != 0))
        if rows.sum() < 20:
            continue
        a, b = a[rows], b[rows]
        share = float((a == b).mean())
        if share >= EQUAL:
            out.append(Relation(two, one, True, share))
            continue
        for small, large, x, y in ((one, two, a, b), (two, one, b, a)):
            # By chance: the same two columns, half the file apart.
            held = float((x <= y).mean())
            if held >= NEARLY and (x > np.roll(y, len(y) // 2)).mean() >= BY_CHANCE:
                out.append(Relation(small, large, False, held))
    return out


def _worth(a: FloatArray, b: FloatArray) -> bool:
    """Whether the first records leave room for a relation of two columns."""
    with np.errstate(invalid="ignore"):
        rows = np.isfinite(a) & np.isfinite(b) & ((a != 0) | (b != 0))
        many = int(rows.sum())
        equal, less = int((a[rows] == b[rows]).sum()), int((a[rows] < b[rows]).sum())
    # Room for chance: three standard errors and more below the shares that are worth a word.
    ordered = max(less + equal, many - less) >= (NEARLY - 0.05) * many
    return many < 50 or ordered or equal >= (EQUAL - 0.15) * many
