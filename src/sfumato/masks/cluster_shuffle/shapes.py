"""Which households may share a cluster, and how few of one shape it holds.

A row keeps its slots, so a household hides among its cluster's households of one shape: the bound is
1/(their number), not 1/k, and it is told by size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sfumato.data.microdata import FloatArray, IntArray
from sfumato.masks.cluster_shuffle.members import CHILD, Members
from sfumato.stats.levels import CodeArray

FEWEST: Final = 3
"""A shape that fewer households of the file have is refused unless its exposure is accepted."""
_LARGE: Final = 6


def types(mem: Members, sexes: CodeArray | None, stratum: IntArray, k: int) -> IntArray:
    """Each household's type: the finest of six kinds that k households of its stratum share.

    From sexes, partner, numbers of A, children among them and K to size alone; what is left over joins
    the largest households of its stratum.
    """
    there = mem.there
    size, partner, young = mem.sizes, there[:, 1], mem.children
    adults = there[:, 2 : 2 + mem.adults].sum(1)
    kin = mem.slots(mem.relation)[:, 2 : 2 + mem.adults]
    grown = (kin == CHILD).sum(1)
    couple = [] if sexes is None else [sexes[:, 0], sexes[:, 1]]
    ladder = [
        [partner, adults, grown, young, *couple],
        [partner, adults, grown, young],
        [partner, adults, young],
        [size, partner],
        [size],
        [np.minimum(size, _LARGE)],
    ]
    label = np.full(len(size), -1, np.int64)
    used = 0
    for keys in ladder:
        left = np.flatnonzero(label < 0)
        if not len(left):
            break
        table = np.column_stack([stratum, *keys])[left]
        _, code, held = np.unique(table, axis=0, return_inverse=True, return_counts=True)
        code = np.asarray(code).ravel()
        enough = held[code] >= k
        fresh = np.cumsum(held >= k) - 1
        label[left[enough]] = used + fresh[code[enough]]
        used += int((held >= k).sum())
    for one in np.unique(stratum[label < 0]):
        rest = (label < 0) & (stratum == one)
        there_ = (label >= 0) & (stratum == one)
        if rest.sum() >= k or not there_.any():
            label[rest] = used
            used += 1
        else:
            label[rest] = label[there_ & (size == size[there_].max())].min()
    return np.unique(label, return_inverse=True)[1]


@dataclass(frozen=True)
class ShapeBound:
    """How well households hide among those of their shape in their cluster."""

    bound: FloatArray
    """Each household's 1/(households of its shape in its cluster)."""
    sizes: IntArray
    rare: int
    """Households whose shape fewer than three households of the file have."""
    rare_sizes: tuple[int, ...]

    @property
    def mean(self) -> float:
        return float(self.bound.mean())

    @property
    def worst(self) -> float:
        return float(self.bound.max())

    @property
    def alone(self) -> float:
        """The share of households alone in their shape."""
        return float((self.bound == 1.0).mean())

    def by_size(self) -> dict[str, float]:
        """The mean bound of the households of each size."""
        return {str(s): float(self.bound[self.sizes == s].mean()) for s in np.unique(self.sizes)}

    def figures(self) -> dict[str, Any]:
        return {
            "shape_bound": self.mean,
            "worst_shape_bound": self.worst,
            "alone_in_shape": self.alone,
            "rare_shapes": self.rare,
            "shape_bound_by_size": self.by_size(),
        }


def shape_bound(shape: IntArray, cluster: IntArray, sizes: IntArray) -> ShapeBound:
    """The bound of these households.

    >>> found = shape_bound(np.array([0, 0, 1]), np.zeros(3, int), np.array([1, 1, 2]))
    >>> found.mean, found.worst, found.rare
    (0.6666666666666666, 1.0, 3)
    """
    pair = cluster * (int(shape.max(initial=0)) + 1) + shape
    _, code, held = np.unique(pair, return_inverse=True, return_counts=True)
    rare = np.bincount(shape)[shape] < FEWEST
    return ShapeBound(
        1.0 / held[np.asarray(code).ravel()],
        sizes,
        int(rare.sum()),
        tuple(int(s) for s in np.unique(sizes[rare])),
    )
