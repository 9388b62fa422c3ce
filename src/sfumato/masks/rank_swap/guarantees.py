"""What a rank swap promises, checked from the two files alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.contract.guarantees import Guarantee
from sfumato.data.differences import changed
from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.masks.rank_swap.ranks import AnyArray, rank


@dataclass(frozen=True)
class StaysPut(Guarantee):
    """Values that may not move are the same in the same records."""

    columns: tuple[str, ...]
    movable: Callable[[Microdata, str], BoolArray]
    what: str

    def describe(self) -> str:
        return f"{self.what} of {', '.join(self.columns)} stay where they are"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        for column in self.columns:
            fixed = np.flatnonzero(~self.movable(before, column))
            if len(fixed):
                n = changed(before.column(column).gather(fixed), after.column(column).gather(fixed))
                if n:
                    return f"{n:,} values of {column} moved that should stay"
        return None


@dataclass(frozen=True)
class Moves:
    """What is needed to judge the moves of one column: the scores that may move, before and after,
    their strata, and the window in ranks of each stratum."""

    before: AnyArray
    after: AnyArray
    strata: IntArray | None
    n_strata: int
    windows: IntArray


@dataclass(frozen=True)
class RankDisplacement(Guarantee):
    """No value moves more ranks than the window, among the values that may move.

    Equal values have no order of their own: a value is given the benefit of all ranks it ties over,
    so a failure is a move that no order of the ties could explain.
    """

    columns: tuple[str, ...]
    moves: Callable[[Microdata, Microdata, str], Moves]
    window: str = "its window of ranks"

    def describe(self) -> str:
        return f"no value of {', '.join(self.columns)} moves further than {self.window}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        from sfumato.kernels.rank_swap import count_beyond

        for column in self.columns:
            moves = self.moves(before, after, column)
            if not len(moves.before):
                continue
            ranked = rank(moves.before, moves.strata, moves.n_strata)
            far = int(count_beyond(ranked.values, ranked.places, ranked.starts, moves.windows, moves.after))
            if far:
                return f"{far:,} values of {column} moved further than the window"
        return None
