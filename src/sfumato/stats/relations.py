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

from sfumato.data.microdata import Microdata

EQUAL: Final = 0.5
"""From this share of records on, an equality is worth declaring."""
BY_CHANCE: Final = 0.05
"""An order of two columns means something where chance would break it in so many records."""
NEARLY: Final = 0.99
"""From this share of records on, an order is worth declaring."""
_LOOKED_AT: Final = 20_000


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
    out = []
    for one, two in itertools.combinations(values, 2):
        if any({one, two} <= group for group in tied):
            continue
        a, b = values[one], values[two]
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
