"""Examples of the cluster shuffle for the contract suite."""

from __future__ import annotations

from collections.abc import Callable

import sfumato as sf
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Measure
from sfumato.data.microdata import Microdata

COLUMNS = ("SEX", "RACE", "AGE", "INCOME", "WAGE", "RENT", "WEALTH")

CASES: dict[str, Callable[[Microdata], Mask | Measure]] = {
    "cluster_shuffle": lambda data: sf.ClusterShuffle(columns=COLUMNS, smallest=10),
    "cluster_attack": lambda data: sf.ClusterAttack(columns=COLUMNS, smallest=10),
    "differencing_attack": lambda data: sf.DifferencingAttack(columns=COLUMNS, smallest=10),
    "minimality_attack": lambda data: sf.MinimalityAttack(columns=COLUMNS, smallest=10, persons=2),
}
