"""The intruder who has two releases of the same people in other clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Grouped
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.results import wilson
from sfumato.risk.clusters_known import KnowsClusters


@dataclass(frozen=True, kw_only=True)
class DifferencingAttack(KnowsClusters):
    """What several releases of the same people tell together, some of them left out each time.

    Each release has clusters of its own. Whoever has them all looks for a person among those who are in
    the person's cluster of every release: with c of them, one row in c is right. This makes the clusters
    of the file and of the file without ``left_out_percent`` of its records, drawn by lot, ``releases``
    in all; ``value`` is the mean of 1/c over those who are in all of them, and the baseline what the first
    release alone tells. Clusters that the release doesn't bear out (its rows hold other values) tell
    nothing. In a battery it is tried where a step says that the same people are
    released again (``again = true``); the step itself refuses that otherwise.

    Reference: Ganta, S.R., Kasiviswanathan, S.P., Smith, A. (2008). Composition attacks and auxiliary
    information in data privacy. KDD, 265-273.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(0)
    >>> people = pl.DataFrame({"A": rng.normal(size=400), "B": rng.normal(size=400)})
    >>> masked = sf.ClusterShuffle(columns=["A", "B"], smallest=20).mask(people, seed=1)
    >>> found = sf.DifferencingAttack(columns=["A", "B"], smallest=20).measure(people, masked)
    >>> found.baseline, found.rate > 2 * found.baseline
    (0.05, True)
    """

    name: ClassVar[str] = "differencing_attack"
    reference: ClassVar[str] = "Ganta, Kasiviswanathan, Smith (2008), KDD, 265-273 (intersection attacks)"
    finds: ClassVar[Literal["records", "targets", "values", "members"]] = "targets"

    left_out_percent: float = parameter(
        10, doc="How many percent of the records each later release leaves out.", above=0, below=100
    )
    releases: int = parameter(2, doc="How many releases he has.", at_least=2, at_most=20)

    @classmethod
    def worth_trying(cls, fact: Grouped, data: Microdata) -> bool:
        return fact.again

    def measure(self, original: Any, masked: Any = None, *, seed: Any = 0, steps: Any = ()) -> Result:
        """The result on an original and a masked file. His own list stays as it is: he blurs it himself."""
        return RiskMeasure.measure(self, original, masked, seed=seed)

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        n = len(original)
        partition = self.clusters(original)[1]
        common = partition.label
        told = self.told(original, masked, partition)[common]
        first = _mean_share(common, told)
        rows = [{"releases": 1, "people": n, "rate": first, "alone": 0.0}]
        for number in range(1, self.releases):
            lot = draws.stream(stratum=str(number), purpose="left out").uniform(0, n)
            there = np.flatnonzero((lot >= self.left_out_percent / 100) & (common >= 0))
            if len(there) < 2 * self.smallest:
                raise MeasureError("too few people are in all releases", hint="lower `left_out_percent`")
            everybody = np.flatnonzero(lot >= self.left_out_percent / 100)
            label = np.full(n, -1, np.int64)
            label[everybody] = self.clusters(original.with_frame(original.frame[everybody]))[1].label
            pair = common[there] * (int(label.max()) + 1) + label[there]
            common = np.full(n, -1, np.int64)
            common[there] = np.unique(pair, return_inverse=True)[1].ravel()
            sizes = np.bincount(common[there])[common[there]]
            rows.append(
                {
                    "releases": number + 1,
                    "people": len(there),
                    "rate": _mean_share(common, told),
                    "alone": float((sizes == 1).mean()),
                }
            )
        rate, people = float(rows[-1]["rate"]), int(rows[-1]["people"])
        return Result(
            value=rate,
            unit="share of people",
            interval=wilson(rate * people, people),
            notes=(
                f"he has {self.releases} releases of the same people, each later one without "
                f"{self.left_out_percent:g}% of them, drawn by lot; he knows every value and the method",
                "in each a person hides in a cluster; in all together among those who share every cluster",
            ),
            figures={
                "rate": rate,
                "baseline": first,
                "attacked": people,
                "alone": float(rows[-1]["alone"]),
                "by_releases": pl.DataFrame(rows),
            },
        )


def _mean_share(label: IntArray, told: BoolArray) -> float:
    """The mean of 1/(people of one's group) over those who are in one; of 1/(all) where nothing is told."""
    there = label >= 0
    sizes = np.bincount(label[there])[label[there]]
    return float(np.where(told[there], 1 / sizes, 1 / len(label)).mean()) if there.any() else 0.0
