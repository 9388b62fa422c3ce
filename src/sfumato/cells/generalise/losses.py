"""What a level costs: losses that are sums over keys, and losses of the groups as a whole.

- ``detail`` (the default): ((share of the key's entropy lost + share of its association with the other keys
  lost) / 2)². The square makes a little off every key cheaper than one key gone, and detail that tells
  nothing of other columns goes first.
- ``entropy``: non-uniform entropy, Σ over keys of H(value | class) in bits a record (times the records:
  ARX's).
- ``precision``: mean of level / height (Sweeney 2002).
- ``discernibility``: Σ over safe groups of size², plus records · unsafe, over records² (Bayardo, Agrawal
  2005).
- ``class_size``: records / safe groups, over records (LeFevre et al. 2006, up to the factor k).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sfumato.cells.generalise.lattice import Groups, Lattice, State
from sfumato.cells.generalise.models import Judgement
from sfumato.errors import ParameterError, did_you_mean

FloatArray = npt.NDArray[np.float64]

LOSSES: Final = ("detail", "entropy", "precision", "discernibility", "class_size")
SUPPRESSED: Final = 1.5
"""What a suppressed record costs, in keys dropped: local suppression blanks one value of such a record or
two."""


@dataclass(frozen=True)
class Loss:
    """A loss, made for a lattice: the cost of each level of each key, and what the groups add."""

    name: str
    tables: tuple[FloatArray, ...]
    price: float
    """Of the share of records that is suppressed."""

    def whole(self, groups: Groups, judged: Judgement) -> float:
        """What the groups of a node cost."""
        n = max(groups.lattice.records, 1)
        if self.name == "discernibility":
            safe = groups.counts[~judged.unsafe].astype(np.float64)
            return float(safe @ safe) / n**2 + judged.records / n
        if self.name == "class_size":
            return 1.0 / max(int((~judged.unsafe & (groups.counts > 0)).sum()), 1)
        return 0.0

    def least(self, state: State, records: int) -> float:
        """What any choice of the later keys adds at least: they are kept as they are, and nothing is
        suppressed."""
        n = max(records, 1)
        if self.name == "discernibility":
            sizes = state.counts.astype(np.float64)
            return float(sizes @ sizes) / n**2
        if self.name == "class_size":
            return 1.0 / max(int((state.counts > 0).sum()), 1)
        return 0.0

    @property
    def of_groups(self) -> bool:
        return self.name in ("discernibility", "class_size")


def loss_for(
    lattice: Lattice,
    name: str = "detail",
    *,
    importance: Mapping[str, float] | None = None,
    price: float | None = None,
) -> Loss:
    """The named loss on a lattice; ``importance`` weights the keys."""
    if name not in LOSSES:
        raise ParameterError(f"there is no loss {name!r}", hint=did_you_mean(name, LOSSES))
    weight = [float((importance or {}).get(c.key, 1.0)) for c in lattice.chains]
    if name in ("discernibility", "class_size"):
        tables = [np.zeros(len(c)) for c in lattice.chains]
        return Loss(name, tuple(tables), 0.0 if price is None else price)
    unit = 1.0
    if name == "precision":
        tables = [np.arange(len(c)) / (len(c) - 1) / len(lattice.chains) for c in lattice.chains]
        unit = 1.0 / len(lattice.chains)
    elif name == "entropy":
        tables = [entropy_lost(lattice, j) for j in range(len(lattice.chains))]
        unit = float(np.mean([t[-1] for t in tables]))
    else:
        tables = [_detail(lattice, j) for j in range(len(lattice.chains))]
    weighted = [w * t for w, t in zip(weight, tables, strict=True)]
    cost = SUPPRESSED * unit * float(np.mean(weight)) if price is None else price
    return Loss(name, tuple(weighted), cost)


def _entropy(counts: npt.NDArray[Any]) -> float:
    share = counts[counts > 0] / max(counts.sum(), 1e-300)
    return float(-(share * np.log2(share)).sum())


def entropy_lost(lattice: Lattice, key: int) -> FloatArray:
    """H(value | class) in bits at each level of a key."""
    counts = np.bincount(lattice.codes[key], lattice.counts)
    maps = lattice.chains[key].maps
    kept = [_entropy(np.bincount(to[: len(counts)], counts)) for to in maps]
    return np.maximum(kept[0] - np.array(kept), 0.0)


def _detail(lattice: Lattice, key: int) -> FloatArray:
    """((entropy share + association share) / 2)² at each level; it never falls from a level to the next."""
    chain = lattice.chains[key]
    lost = entropy_lost(lattice, key)
    entropy = lost / lost[-1] if lost[-1] > 0 else np.zeros(len(chain))
    shared = np.zeros(len(chain))
    for other in range(len(lattice.chains)):
        if other == key:
            continue
        mine, its, records = lattice.pair(key, other)
        for level, to in enumerate(chain.maps):
            shared[level] += _mutual(lattice, to[mine], its, records)
    tied = np.clip(1 - shared / shared[0], 0, 1) if shared[0] > 1e-6 else entropy
    tied[-1] = 1.0
    return np.maximum.accumulate(((entropy + np.maximum.accumulate(tied)) / 2) ** 2)


def _mutual(
    lattice: Lattice, a: npt.NDArray[np.int32], b: npt.NDArray[np.int32], records: npt.NDArray[np.int64]
) -> float:
    """The mutual information of two codes in bits, less what chance gives: (r − 1)(c − 1) / (2 n ln 2)."""
    weights = records.astype(np.float64)
    rows, columns = np.bincount(a, weights), np.bincount(b, weights)
    labels, places = lattice.join(a, b, int(b.max(initial=0)) + 1)
    joint = np.bincount(labels, weights, minlength=len(places))
    free = (np.count_nonzero(rows) - 1) * (np.count_nonzero(columns) - 1)
    chance = free / 2 / max(float(weights.sum()), 1.0) / math.log(2)
    return max(0.0, _entropy(rows) + _entropy(columns) - _entropy(joint) - chance)
