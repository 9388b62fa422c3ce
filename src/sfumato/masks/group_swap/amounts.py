"""How many records of each pair of strata change places, and which strata are too small to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.errors import MaskError
from sfumato.masks.group_swap.pairs import Distances, Pair, fit_pair
from sfumato.masks.group_swap.swap import PairPlan, allocate
from sfumato.parallel import in_threads


@dataclass(frozen=True)
class Amounts:
    """What was asked for: a number or a rate, the same in each pair or by what each can give."""

    n_swap: int | None
    rate_percent: float | None
    equal: bool
    small_strata: Literal["refuse", "fewer", "leave"]
    conditional: bool
    by_share: bool
    """Whether U_p is centred at the share, which favours pairs of unequal size."""

    def taking_part(self, sizes: IntArray, labels: list[str], warnings: list[str]) -> BoolArray:
        """Which strata are paired at all: a stratum that can give none would only take another's partner."""
        taking = np.ones(len(sizes), dtype=np.bool_)
        halved = self.small_strata == "fewer" or not self.equal
        if self.n_swap is None:
            none = np.rint(sizes * (self.rate_percent or 0.0) / 100.0) == 0
        else:
            small = np.flatnonzero(sizes < self.n_swap)
            names = some([f"{labels[s]} ({sizes[s]:,})" for s in small])
            if len(small) and self.small_strata == "leave":
                taking[small] = False
                warnings.append(f"left out, since they have fewer than {self.n_swap:,} records: {names}")
            elif len(small) and self.small_strata == "fewer":
                warnings.append(f"fewer than {self.n_swap:,} records: at most half of {names} moves")
            elif len(small) and self.equal:
                have = "stratum has" if len(small) == 1 else "strata have"
                raise MaskError(
                    f"{len(small):,} {have} fewer than n_swap = {self.n_swap:,} records: {names}",
                    hint='lower `n_swap`, give `rate_percent`, or set `small_strata` to "fewer" or "leave"',
                )
            none = taking & (sizes < 2) & (sizes < self.n_swap) & halved
        if none.any() and int((taking & ~none).sum()) > 1:
            taking &= ~none
            names = some([f"{labels[s]} ({sizes[s]:,})" for s in np.flatnonzero(none)])
            warnings.append(
                f"no record is swapped in {names}: too small, left out of the pairs, not protected"
            )
        return taking

    def pair_plans(
        self,
        distances: Distances,
        found: list[Pair],
        terms: FloatArray,
        starts: IntArray,
        labels: list[str],
        warnings: list[str],
    ) -> list[PairPlan]:
        fits = in_threads(
            lambda p: fit_pair(
                terms[:, starts[p[0]] : starts[p[0] + 1]], terms[:, starts[p[1]] : starts[p[1] + 1]]
            ),
            found,
        )
        sizes = np.diff(starts)
        smaller = [int(min(sizes[a], sizes[b])) for a, b in found]
        most = smaller
        if self.n_swap is not None:
            wanted = [self.n_swap] * len(found)
            if self.small_strata == "fewer" or not self.equal:
                # Half of a small stratum at most, shared out where it is in two pairs.
                often = np.bincount(np.array(found).ravel(), minlength=len(sizes))
                room = np.where(sizes < self.n_swap, sizes // 2 // np.maximum(often, 1), sizes)
                most = [int(min(room[a], room[b])) for a, b in found]
        else:
            rate = self.rate_percent or 0.0
            wanted = [int(np.rint(m * rate / 100.0)) for m in smaller]
        capacities = [f.capacity for f in fits]
        counts = allocate(wanted, capacities, most, "equal" if self.equal else "capacity")
        if sum(counts) < sum(wanted):
            warnings.append(f"{sum(counts):,} swaps each way where {sum(wanted):,} were asked for")
        seen: set[int] = set()
        out = []
        for pair, fit, count in zip(found, fits, counts, strict=True):
            again = not seen.isdisjoint(pair)
            seen.update(pair)
            out.append(
                PairPlan(
                    pair, distances.u[pair], distances[pair], fit.capacity, count, None if again else fit
                )
            )
        names = [f"{labels[a]} | {labels[b]}" for a, b in found]
        over = [
            f"{n} ({p.count:,} of {p.capacity:.1f})"
            for n, p in zip(names, out, strict=True)
            if p.count > p.capacity
        ]
        if over and self.conditional:
            warnings.append(
                f"more records are swapped than the capacity of the pair, so that relations with the strata "
                f"are distorted: {some(over)}"
            )
        apart = [n for n, f in zip(names, fits, strict=True) if f.separated]
        if apart:
            warnings.append(f"the covariates tell these strata apart (almost) completely: {some(apart)}")
        uneven = [n for n, f in zip(names, fits, strict=True) if min(f.share, 1 - f.share) < 0.1]
        if uneven and self.by_share:
            warnings.append(
                f"strata of very unequal size are paired, since U_p can't exceed c(1 − c): {some(uneven)}; "
                'centre = "half" counts the difference in size as distance'
            )
        none = [n for n, c in zip(names, counts, strict=True) if c == 0]
        if none:
            warnings.append(f"no record is swapped in {some(none)}: these strata aren't protected")
        return out


def some(names: Sequence[str], show: int = 5) -> str:
    more = f" and {len(names) - show:,} more" if len(names) > show else ""
    return ", ".join(names[:show]) + more
