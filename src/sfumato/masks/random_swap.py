"""Random data swapping (Reiss 1980)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact, Kept, Travelled
from sfumato.contract.engine import Locality
from sfumato.contract.guarantees import Guarantee, SameMultiset
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.per_household import PerHousehold
from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.draws import Draws, Stream
from sfumato.parallel import in_threads


@dataclass(frozen=True, kw_only=True)
class RandomSwap(PerHousehold):
    """Swap the values of a share of records pairwise, at random.

    In each stratum of n eligible records, the nearest even number to ``rate_percent`` · n / 100 of
    them is drawn without replacement, paired at random, and the two records of a pair exchange
    their values. Columns are swapped one by one with draws of their own, or, with
    ``together=True``, as one string of values that travels with the same partner. Missing values
    stay where they are. The mean and every other statistic of one column alone is kept;
    correlations shrink by the factor 1 − rate (both columns swapped: its square).

    Reference: Reiss, S. P. (1980). Practical data-swapping: the first steps. ACM TODS 9, 20-37.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [30, 40, 50, 60]}))
    >>> sorted(sf.RandomSwap(columns=["AGE"], rate_percent=100).mask(data, seed=1).frame["AGE"])
    [30, 40, 50, 60]
    """

    name: ClassVar[str] = "random_swap"
    reference: ClassVar[str] = "Reiss (1980)"

    columns: tuple[str, ...] = parameter(doc="The columns to swap.", columns="sensitive", public=True)
    rate_percent: float = parameter(
        doc="How many percent of the records are swapped.", at_least=0, at_most=100, public=True
    )
    within: tuple[str, ...] = parameter(
        (), doc="Nothing crosses the strata of these columns.", columns=True, public=True
    )
    together: bool = parameter(
        False, doc="Whether the columns travel together, as one string of values, or one by one.", public=True
    )

    def _check(self) -> Sequence[Fault]:
        if not self.columns:
            return [("`columns` must name at least one column", None, "columns")]
        both = [c for c in self.columns if c in self.within]
        if both:
            return [(f"{both[0]} can't be swapped within itself", "take it out of `within`")]
        return ()

    @property
    def locality(self) -> Locality:
        return "column"

    def apart(self, data: Microdata) -> Sequence[Mask]:
        return (self,) if self.together else self.by_column(data)

    def changes(self, data: Microdata) -> Sequence[str]:
        return self.columns

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        stays = 1 - self.rate_percent / 100
        kept = Kept(columns=self.columns, within=self.within, keep=dict.fromkeys(self.columns, stays))
        whole = self.together and len(self.columns) > 1
        return [kept, *([Travelled(columns=self.columns, within=self.within)] if whole else [])]

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        return [SameMultiset(self.columns, self.within)]

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        strata, _ = data.codes(self.within)
        blocks = [self.columns] if self.together else [(c,) for c in self.columns]

        def swap(block: tuple[str, ...]) -> IntArray:
            eligible = ~np.logical_or.reduce([data.missing(c) for c in block])
            stream = draws.stream("+".join(block), purpose="pairs")
            return partners(eligible, strata, self.rate_percent, stream)

        if self.together and len(self.columns) > 1:
            notes.warn(
                f"the values of {', '.join(self.columns)} travel as one string, so that every string of the "
                "original is in the release: whoever knows several of them finds it there"
            )
        new: dict[str, pl.Series] = {}
        for block, partner in zip(blocks, in_threads(swap, blocks), strict=True):
            moved = partner != np.arange(len(data))
            take = pl.Series(partner.astype(np.uint32 if len(data) < 2**32 - 1 else np.uint64))
            for column in block:
                new[column] = data.column(column).gather(take)
                notes.figure("records_swapped", int(moved.sum()), column)
        return data.with_columns(new)


def partners(eligible: BoolArray, strata: IntArray, rate_percent: float, stream: Stream) -> IntArray:
    """Each record's partner (itself where it isn't swapped): an involution within strata."""
    n = len(eligible)
    partner = np.arange(n, dtype=np.int64)
    chosen = np.flatnonzero(eligible)
    if not len(chosen) or rate_percent == 0:
        return partner
    # A random order within each stratum: by the record's own draw, then stably by stratum.
    order = chosen[np.argsort(stream.uniform(0, n)[chosen])]
    order = order[np.argsort(strata[order], kind="stable")]
    sizes = np.bincount(strata[order])
    pairs = np.minimum(np.rint(sizes * rate_percent / 200.0).astype(np.int64), sizes // 2)
    starts = np.cumsum(sizes) - sizes
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    taken = order[place < np.repeat(2 * pairs, sizes)]
    partner[taken[0::2]], partner[taken[1::2]] = taken[1::2], taken[0::2]
    return partner
