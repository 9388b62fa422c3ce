"""What `init` proposes for a file: a schema, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema


@dataclass(frozen=True)
class Suggestion:
    """A schema with, for each column, the reasons in words.

    ``drop`` are columns that a release should not have (ids, names, addresses); ``design`` are parts
    of the survey's design that have no role (replicate weights, strata, clusters, waves, person
    numbers); ``nested`` are finer columns and the coarser ones that they determine; ``no_role`` are
    released columns of which nothing is known; ``notes`` are remarks on the file as a whole; ``data``
    are the data with the schema, as the plan reads them.
    """

    schema: Schema
    reasons: dict[str, tuple[str, ...]]
    drop: tuple[str, ...]
    types: dict[str, pl.DataType]
    records: int
    distinct: dict[str, int]
    notes: tuple[str, ...] = ()
    design: dict[str, tuple[str, ...]] = field(default_factory=dict)
    nested: dict[str, tuple[str, ...]] = field(default_factory=dict)
    no_role: tuple[str, ...] = ()
    data: Microdata = field(default_factory=lambda: Microdata(pl.DataFrame()), repr=False)

    @property
    def withheld(self) -> tuple[str, ...]:
        """What a searched plan doesn't release: ``drop``, and replicate weights, which show who is in one
        cluster and don't go with dealt records."""
        return (*self.drop, *self.design.get("replicate weights", ()))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for ``--json``."""
        return {
            "records": self.records,
            "columns": list(self.types),
            **self.schema.to_dict(),
            "drop": list(self.drop),
            "design": {part: list(columns) for part, columns in self.design.items()},
            "nested": {fine: list(coarse) for fine, coarse in self.nested.items()},
            "reasons": {c: list(r) for c, r in self.reasons.items()},
            "no_role": list(self.no_role),
            "notes": list(self.notes),
        }
