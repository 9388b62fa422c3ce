"""Ranks: the values that may move, sorted within their strata, and the swap on those ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import IntArray
from sfumato.draws import Draws

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True)
class Ranked:
    """Sorted values of one column (or score), stratum after stratum.

    ``places`` says which of the values that may move stands at each rank; ``starts`` where each
    stratum begins (and the last one ends).
    """

    values: AnyArray
    places: AnyArray
    starts: IntArray
    distinct: bool = False
    """Whether all values are known to differ."""

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.starts)

    @property
    def is_finite(self) -> bool:
        """Whether no value is infinite or NaN: these would stand first or last in a stratum."""
        used = np.flatnonzero(self.sizes)
        ends = self.values[np.concatenate([self.starts[used], self.starts[used + 1] - 1])]
        return bool(np.isfinite(ends).all())

    def __len__(self) -> int:
        return len(self.values)


def rank(values: AnyArray, strata: IntArray | None = None, n_strata: int = 1) -> Ranked:
    """Rank values (int64 or float64) within strata, equal values in file order and NaN at the ends."""
    from sfumato.kernels.sort import gather_strata, sorted_with_places

    ordered, places, distinct = sorted_with_places(np.ascontiguousarray(values))
    starts = np.array([0, len(values)], dtype=np.int64)
    if strata is not None and n_strata > 1:
        starts = np.concatenate([[0], np.cumsum(np.bincount(strata, minlength=n_strata))]).astype(np.int64)
        by_value, by_place = ordered, places
        ordered, places = np.empty_like(by_value), np.empty_like(by_place)
        gather_strata(by_value, by_place, strata, starts, ordered, places)
    return Ranked(ordered, places, starts, distinct)


def order_ties(ranked: Ranked, draws: Draws, column: str) -> None:
    """Put equal values in random order (in place), so that the file's order can't steer the swap."""
    from sfumato.kernels.sort import order_equals

    if ranked.distinct:
        return
    order_equals(
        ranked.values, ranked.places, ranked.starts, draws.stream(column, purpose="ties").bits(0, len(ranked))
    )


def window_ranks(percent: float, sizes: IntArray) -> IntArray:
    """W = max(1, ⌊P·n/100⌋) ranks in each stratum of n values; P = 0 moves nothing."""
    if percent <= 0:
        return np.zeros(len(sizes), dtype=np.int64)
    # A hair is added so that 0.07 · 100 is 7 and not 6.999….
    ranks: IntArray = np.maximum(1, np.floor(sizes * (percent / 100) + 1e-9)).astype(np.int64)
    return ranks
