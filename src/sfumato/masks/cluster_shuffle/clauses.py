"""Edit rules of a household as clauses, which exchanges must not break.

A clause is a list of literals of which one must be true: "x isn't a child, or x is 12 years younger than R".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.data.microdata import FloatArray, IntArray
from sfumato.kernels.blocks import AT_MOST, UNEQUAL
from sfumato.masks.cluster_shuffle.blocks import KIN, Wide
from sfumato.masks.cluster_shuffle.members import CHILD, Members


@dataclass(frozen=True)
class Literal:
    """column ⋛ other + constant, or column ⋛ constant; ``open`` says what it is where one is missing."""

    column: int
    other: int
    relation: int
    constant: float
    open: bool = True


@dataclass
class Clauses:
    """Clauses over the columns of a wide table."""

    literals: list[list[Literal]] = field(default_factory=list)

    def add(self, *literals: Literal) -> None:
        self.literals.append(list(literals))

    def arrays(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Where each clause begins, the literals, their constants: what the kernels take."""
        flat = [z for clause in self.literals for z in clause]
        begin = np.concatenate([[0], np.cumsum([len(c) for c in self.literals])]).astype(np.int64)
        rows = np.array([[z.column, z.other, z.relation, z.open] for z in flat], np.int64).reshape(-1, 4)
        return begin, rows, np.array([z.constant for z in flat], np.float64)

    def touching(self, begin: int, end: int) -> list[int]:
        """The clauses that look at one of these columns."""
        return [
            c
            for c, clause in enumerate(self.literals)
            if any(begin <= z.column < end or begin <= z.other < end for z in clause)
        ]


def of_families(wide: Wide, mem: Members, age: str | None) -> Clauses:
    """What the file itself keeps to: how much younger a child is than R and P, and that the younger of
    them isn't older than any such parent of the file."""
    out = Clauses()
    if age is None or mem.age is None or wide.where(age, 0) < 0:
        return out
    least, most = family_gaps(mem)
    own = [wide.where(age, slot) for slot in (0, 1)]
    for slot in range(2, mem.who.shape[1]):
        x, kin = wide.where(age, slot), wide.where(KIN, slot)
        grown = Literal(kin, -1, UNEQUAL, float(CHILD))
        for parent, gap in zip(own, least, strict=True):
            if parent >= 0 and np.isfinite(gap):
                out.add(grown, Literal(x, parent, AT_MOST, -gap))
        if np.isfinite(most):
            # The age of R or P is at most the child's + most.
            out.add(grown, *(Literal(p, x, AT_MOST, most, open=False) for p in own if p >= 0))
    return out


def family_gaps(mem: Members) -> tuple[Sequence[float], float]:
    """The least years between R (and P) and a child, and the most between the younger of them and one."""
    assert mem.age is not None
    child = mem.relation == CHILD
    ages = np.where(mem.there[:, :2], mem.age[mem.who[:, :2]], np.nan)
    gaps = ages[mem.of] - mem.age[:, None]
    gaps = gaps[child & np.isfinite(mem.age)]
    least = [float(np.nanmin(g)) if np.isfinite(g).any() else np.nan for g in gaps.T]
    young = np.fmin(gaps[:, 0], gaps[:, 1])
    return least, float(np.nanmax(young)) if np.isfinite(young).any() else np.nan
