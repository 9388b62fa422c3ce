"""The intruder who asks which arrangements of a cluster's values would have given these clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Grouped
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.following import following
from sfumato.data.microdata import IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.results import wilson
from sfumato.risk.clusters_known import KnowsClusters
from sfumato.stats.levels import Levels

SMALL: Final = 500
"""Records up to which a battery tries it: every try makes all clusters again."""


@dataclass(frozen=True, kw_only=True)
class MinimalityAttack(KnowsClusters):
    """Learn a value from the clusters themselves: they were made by looking at it.

    The intruder knows everybody's other values, the clusters, and which values a cluster holds. For a
    person and a column he puts each other value of the cluster in its place (the two holders exchange
    theirs) and makes the clusters again: what doesn't give the same clusters can't be. With s of the c
    records' values left, the true one has probability 1/s instead of 1/c (equal values counted
    together). ``value`` is the mean gain (p − b)/(1 − b) over ``persons`` drawn by lot and up to
    ``most_columns`` columns. Clusters that the release doesn't bear out tell nothing, nor do columns that
    the clusters don't look at (``blind``).

    Reference: Wong, R.C.-W., Fu, A.W.-C., Wang, K., Pei, J. (2007). Minimality attack in privacy preserving
    data publishing. VLDB, 543-554.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(0)
    >>> people = pl.DataFrame({c: rng.normal(size=60).round(1) for c in "ABC"})
    >>> masked = sf.ClusterShuffle(columns=["A", "B", "C"], smallest=5, blind=["C"]).mask(people, seed=1)
    >>> attack = sf.MinimalityAttack(columns=["A", "B", "C"], smallest=5, blind=["C"], persons=5)
    >>> found = attack.measure(people, masked)
    >>> sorted(found.by_column["column"]), found.value > 0
    (['A', 'B'], True)
    """

    name: ClassVar[str] = "minimality_attack"
    reference: ClassVar[str] = "Wong, Fu, Wang, Pei (2007)"
    finds: ClassVar[Literal["records", "targets", "values", "members"]] = "values"

    persons: int = parameter(12, doc="How many persons are attacked.", at_least=1)
    most_columns: int = parameter(3, doc="How many columns are looked for, at most.", at_least=1)

    @classmethod
    def worth_trying(cls, fact: Grouped, data: Microdata) -> bool:
        return len(data) <= SMALL and fact.unit is None and any(c not in fact.blind for c in fact.columns)

    def measure(self, original: Any, masked: Any = None, *, seed: Any = 0, steps: Any = ()) -> Result:
        """The result on an original and a masked file. His own list stays as it is: he blurs it himself."""
        return RiskMeasure.measure(self, original, masked, seed=seed)

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        columns, partition = self.clusters(original)
        dealt = following(original.schema, self.columns).dealt
        look_at = [c for c in dealt if c not in self.blind]
        wanted = _looked_for(original, columns, look_at)[: self.most_columns]
        if not wanted:
            raise MeasureError("the clusters look at no column with several values")
        order = draws.stream(purpose="persons").permutation(len(original))
        told = self.told(original, masked, partition)
        rows: list[dict[str, Any]] = []
        for j in wanted:
            prior, posterior = [], []
            for person in order[: self.persons].tolist():
                mates = np.flatnonzero(partition.label == partition.label[person])
                true = columns[j].codes[mates] == columns[j].codes[person]
                fits = [
                    bool(same)
                    or not told[partition.label[person]]
                    or self._same(original, columns, look_at, partition.label, j, person, int(mate))
                    for mate, same in zip(mates, true, strict=True)
                ]
                prior.append(float(true.mean()))
                posterior.append(float(true.sum() / np.sum(fits)))
            b, p = float(np.mean(prior)), float(np.mean(posterior))
            gain = (p - b) / (1 - b) if b < 1 else 0.0
            rows.append({"column": columns[j].name, "prior": b, "posterior": p, "gain": gain})
        value = max(0.0, float(np.mean([r["gain"] for r in rows])))
        tried = len(rows) * min(self.persons, len(original))
        return Result(
            value=value,
            unit="gain",
            interval=wilson(value * tried, tried),
            notes=(
                "he knows everybody's other values, the clusters and the values of each, and asks which "
                "arrangements would have given these clusters",
                f"{min(self.persons, len(original))} persons, {len(rows)} columns that the clusters look at",
            ),
            figures={
                "rate": value,
                "baseline": 0.0,
                "attacked": tried,
                "prior": float(np.mean([r["prior"] for r in rows])),
                "posterior": float(np.mean([r["posterior"] for r in rows])),
                "by_column": pl.DataFrame(rows),
            },
        )

    def _same(
        self, data: Microdata, columns: Sequence[Levels], look_at: Sequence[str], label: IntArray, j: int,
        one: int, two: int,
    ) -> bool:  # fmt: skip
        """Whether the clusters are the same if these two had each other's value."""
        codes = columns[j].codes.copy()
        codes[[one, two]] = codes[[two, one]]
        changed = [c.with_codes(codes) if at == j else c for at, c in enumerate(columns)]
        again = self.parted(data, changed, look_at).label
        # The same clusters may bear other numbers.
        pairs = len(np.unique(label * (int(again.max()) + 1) + again))
        return pairs == len(np.unique(label)) == len(np.unique(again))


def _looked_for(data: Microdata, columns: Sequence[Levels], look_at: Sequence[str]) -> list[int]:
    """Columns of several values, sensitive ones first, then those of most values."""
    there = [j for j, c in enumerate(columns) if c.name in set(look_at) and len(c) > 1]
    return sorted(there, key=lambda j: (columns[j].name not in data.schema.sensitive, -len(columns[j]), j))
