"""Columns that follow others: what moves when some columns do, what travels along, what is added up again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfumato.data.schema import Schema
from sfumato.data.sums import circular
from sfumato.errors import SchemaError


@dataclass(frozen=True)
class Following:
    """What a shuffle of some columns deals, and what follows from it."""

    dealt: tuple[str, ...]
    riders: Mapping[str, tuple[str, ...]]
    """Dealt column → columns that travel with it."""
    totals: tuple[tuple[str, tuple[str, ...]], ...]
    """Total → parts, each total after those that it is made of."""

    @property
    def changed(self) -> tuple[str, ...]:
        riding = [r for c in self.dealt for r in self.riders.get(c, ())]
        return (*self.dealt, *riding, *(t for t, _ in self.totals))


def following(schema: Schema, columns: Sequence[str]) -> Following:
    """What dealing these columns means under a schema's rules.

    A named total stands for all its parts; a total of which one part is named follows it.

    >>> schema = Schema(variables={"ALL": {"sum_of": ["A", "B"]}})
    >>> following(schema, ["ALL", "AGE"]).dealt
    ('AGE', 'A', 'B')
    """
    sums = schema.sums
    if (ring := circular(sums)) is not None:
        raise SchemaError(f"the sum rules of {ring} go round in a circle")
    names = dict.fromkeys(columns)
    while more := [p for c in names if c in sums for p in sums[c] if p not in names]:
        names |= dict.fromkeys(more)
    touched, order = set(names), list[str]()

    def visit(total: str) -> None:
        for part in sums[total]:
            if part in sums:
                visit(part)
        if total not in order and touched & set(sums[total]):
            order.append(total)
            touched.add(total)

    for total in sums:
        visit(total)
    free = [c for c in names if c not in order]
    riders: dict[str, tuple[str, ...]] = {}
    for column in free:
        flag = schema[column].imputed
        if flag is not None and flag not in {r for rs in riders.values() for r in rs}:
            riders[column] = (flag,)
    riding = {r for rs in riders.values() for r in rs}
    dealt = tuple(c for c in free if c not in riding)
    return Following(dealt, riders, tuple((t, sums[t]) for t in order))
