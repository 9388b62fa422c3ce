"""Columns that follow others: what moves when some columns do, what travels along, what is added up again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfumato.data.rules import Rule, SumOf, rules_of
from sfumato.data.schema import Schema
from sfumato.data.sums import circular
from sfumato.errors import SchemaError


@dataclass(frozen=True)
class Following:
    """What a shuffle of some columns deals, and what follows from it."""

    dealt: tuple[str, ...]
    riders: Mapping[str, tuple[str, ...]]
    """Dealt column → columns that travel with it."""
    rules: tuple[Rule, ...]
    """Rules whose result is computed again, each after those that it uses."""

    @property
    def totals(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Total → parts."""
        return tuple((r.result, r.parts) for r in self.rules if isinstance(r, SumOf))

    @property
    def changed(self) -> tuple[str, ...]:
        riding = [r for c in self.dealt for r in self.riders.get(c, ())]
        return (*self.dealt, *riding, *(r.result for r in self.rules))


def following(schema: Schema, columns: Sequence[str]) -> Following:
    """What dealing these columns means under a schema's rules.

    A named total (or ratio) stands for all its parts; one of which a part is named follows it. Coarser codes
    travel with the finest that lies in them, so that a hierarchy stays one; so does a flag of imputed values.

    >>> schema = Schema(variables={"ALL": {"sum_of": ["A", "B"]}})
    >>> following(schema, ["ALL", "AGE"]).dealt
    ('AGE', 'A', 'B')
    """
    if (ring := circular(schema.sums)) is not None:
        raise SchemaError(f"the sum rules of {ring} go round in a circle")
    rules = rules_of(schema)
    parts = {rule.result: rule.parts for rule in rules}
    names = dict.fromkeys(columns)
    while more := [p for c in names for p in parts.get(c, ()) if p not in names]:
        names |= dict.fromkeys(more)
    touched, order = set(names), list[Rule]()
    for rule in rules:
        if touched & set(rule.parts):
            order.append(rule)
            touched.add(rule.result)
    results = {rule.result for rule in order}
    free = [c for c in names if c not in results]
    riders: dict[str, tuple[str, ...]] = {}
    riding: set[str] = set()
    # The finest code of a hierarchy takes all coarser ones along.
    for column in sorted(free, key=lambda c: -len(schema.wider(c))):
        if column in riding:
            continue
        along = [c for c in schema.wider(column) if c in free and c not in riders]
        along += [flag for c in (column, *along) if (flag := schema[c].imputed) is not None]
        along = [c for c in along if c not in riding]
        if along:
            riders[column] = tuple(along)
            riding.update(along)
    dealt = tuple(c for c in free if c not in riding)
    return Following(dealt, riders, tuple(order))
