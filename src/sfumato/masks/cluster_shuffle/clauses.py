"""Edit rules of a household as clauses, which exchanges must not break.

A clause is a list of literals of which one must be true: "x isn't a child, or x is 12 years younger than R".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sfumato.data.edits import Edit
from sfumato.data.edits import Literal as EditLiteral
from sfumato.data.microdata import FloatArray, IntArray
from sfumato.kernels.blocks import AT_LEAST, AT_MOST, EQUAL, LESS, MORE, UNEQUAL
from sfumato.masks.cluster_shuffle.blocks import KIN, Wide
from sfumato.masks.cluster_shuffle.members import CHILD, Members
from sfumato.stats.levels import Levels


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


RELATIONS: Final = {"<": LESS, "<=": AT_MOST, "==": EQUAL, "!=": UNEQUAL, ">": MORE, ">=": AT_LEAST}


def add_edits(
    out: Clauses,
    edits: Sequence[Edit],
    where: Callable[[str, int], int],
    levels: Callable[[int], Levels],
    slots: Sequence[int],
) -> None:
    """The clauses of declared edits: one for each slot, or for each choice of slots for the members.

    ``where`` has the place of a column in a slot (−1 for none), ``levels`` what stands at a place. Edits
    that speak of columns which aren't dealt are left out.
    """
    for edit in edits:
        for chosen in itertools.permutations(slots, edit.members):
            made = [_literal(z, chosen, where, levels) for z in edit.literals]
            if all(z is not None for z in made):
                out.add(*(z for z in made if z is not None))


def _literal(
    z: EditLiteral,
    chosen: Sequence[int],
    where: Callable[[str, int], int],
    levels: Callable[[int], Levels],
) -> Literal | None:
    places = [(-1 if p is None else where(p[0], chosen[p[1]])) for p in (z.left, z.right)]
    if places[0] < 0 or (z.right is not None and places[1] < 0):
        return None
    own = levels(places[0])
    constant = z.constant
    if z.right is None and not own.ordered:  # a category: its place among the levels
        constant = float(next((i for i, v in enumerate(own.values[own.name]) if _same(v, constant)), -1))
    if isinstance(constant, str):
        return None
    return Literal(places[0], places[1], RELATIONS[z.relation], constant)


def _same(value: object, constant: float | str) -> bool:
    if isinstance(constant, str):
        return str(value) == constant
    try:
        return float(value) == constant  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


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
