"""What a rank swap promises, checked from the two files alone.

Each column is sorted once before and once after, whatever it has promised; the bounds are worked out anew
from the file as it was, and nothing that the mask remembers is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sfumato.contract.guarantees import Guarantee, SameMultiset
from sfumato.data.differences import changed
from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.masks.rank_swap.far import Far
from sfumato.masks.rank_swap.ranks import AnyArray, Ranked, rank
from sfumato.parallel import in_threads


@dataclass(frozen=True)
class StaysPut(Guarantee):
    """Values that may not move are the same in the same records."""

    columns: tuple[str, ...]
    movable: Callable[[Microdata, str], BoolArray | None]
    what: str

    def describe(self) -> str:
        return f"{self.what} of {', '.join(self.columns)} stay where they are"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        for column in self.columns:
            movable = self.movable(before, column)
            fixed = np.flatnonzero(~movable) if movable is not None else None
            if fixed is not None and len(fixed):
                n = changed(before.column(column).gather(fixed), after.column(column).gather(fixed))
                if n:
                    return f"{n:,} values of {column} moved that should stay"
        return None


@dataclass(frozen=True)
class Moves:
    """How far the values of a column may go: ranks of each stratum, a distance, and the far values."""

    windows: IntArray
    distance: float = math.inf
    far: Far | None = None


@dataclass(frozen=True)
class Compared:
    """One column before and after: the scores that may move, their strata, and how far they may go."""

    before: AnyArray
    after: AnyArray
    strata: IntArray | None
    n_strata: int
    moves: Callable[[Ranked], Moves] | None
    """None where there is no bound."""
    exact: bool
    """Whether scores are the values themselves."""


@dataclass(frozen=True)
class Found:
    """What is wrong with one column, if anything: its set of values, how far they moved."""

    values: str | None
    moves: str | None


@dataclass(frozen=True)
class Look:
    """One look at every swapped column of two files, for all guarantees that ask."""

    columns: tuple[str, ...]
    within: tuple[str, ...]
    compared: Callable[[Microdata, Microdata, str], Compared]
    _found: dict[tuple[int, int], dict[str, Found]] = field(default_factory=dict, compare=False, repr=False)

    def found(self, before: Microdata, after: Microdata) -> dict[str, Found]:
        key = id(before), id(after)
        if key not in self._found:
            self._found.clear()
            look = in_threads(lambda c: self._look(before, after, c), self.columns)
            self._found[key] = dict(zip(self.columns, look, strict=True))
        return self._found[key]

    def _look(self, before: Microdata, after: Microdata, column: str) -> Found:
        if before.dtype(column) != after.dtype(column):
            return Found(f"{column} was {before.dtype(column)} and became {after.dtype(column)}", None)
        this = self.compared(before, after, column)
        ranked = rank(this.before, this.strata, this.n_strata)
        moves = None if this.moves is None or not len(ranked) else this.moves(ranked)
        if this.exact:
            values = _same_values(column, this, ranked, moves)
        else:
            values = SameMultiset((column,), self.within).failure(before, after)
        return Found(values, None if moves is None else _beyond(column, ranked, moves, this.after))


def _same_values(column: str, this: Compared, ranked: Ranked, moves: Moves | None) -> str | None:
    """Whether the values that may move are the same set in each stratum, codes of far values apart."""
    wanted = ranked.values
    if moves is not None and moves.far is not None and moves.far.codes:
        wanted = wanted.copy()
        for (start, stop), code in moves.far.codes:  # at an end, so that they stay in order
            wanted[start:stop] = code
    got = rank(this.after, this.strata, this.n_strata).values
    return None if np.array_equal(wanted, got) else f"the values of {column} aren't the same set as before"


def _beyond(column: str, ranked: Ranked, moves: Moves, after: AnyArray) -> str | None:
    from sfumato.kernels.rank_bounds import count_beyond_bounds

    far, now = moves.far, after.take(ranked.places)
    values, starts = ranked.values, ranked.starts
    if far is not None:
        core = far.core.copy()
        for start, stop in far.groups:  # ties of a member may stand on either side of the group's edge
            low, high = values[start], values[stop - 1]
            first, last = start, stop
            if len(starts) == 2:
                first = int(np.searchsorted(values, low, "left"))
                last = int(np.searchsorted(values, high, "right"))
            here = slice(first, last)
            among = (now[here] >= low) & (now[here] <= high)
            now[here] = np.where(among, values[here], now[here])
            core[here] |= ~among
        for (start, stop), code in far.codes:
            off = int((now[start:stop] != code).sum())
            if off:
                return f"{off:,} far values of {column} didn't take their code"
        at = np.flatnonzero(core)
        values, now = values[at], now[at]
        starts = np.searchsorted(at, starts).astype(np.int64)
    ranks, distance = count_beyond_bounds(values, starts, moves.windows, moves.distance, now)
    if ranks:
        return f"{ranks:,} values of {column} moved further than the window"
    return f"{distance:,} values of {column} moved further than their distance" if distance else None


@dataclass(frozen=True)
class SameValues(Guarantee):
    """Each column holds the same values, each as often as before, but for far values that took a code."""

    look: Look
    coded: bool = False

    def describe(self) -> str:
        told = SameMultiset(self.look.columns, self.look.within).describe()
        return f"{told}, but for far values that took a code" if self.coded else told

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        return next((f.values for f in self.look.found(before, after).values() if f.values), None)


@dataclass(frozen=True)
class RankDisplacement(Guarantee):
    """No value moves more ranks than the window, among the values that may move, nor further in value than
    the distance, where there is one.

    Equal values have no order of their own: a value is given the benefit of all ranks it ties over,
    so a failure is a move that no order of the ties could explain.
    """

    look: Look
    window: str = "its window of ranks"

    def describe(self) -> str:
        return f"no value of {', '.join(self.look.columns)} moves further than {self.window}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        return next((f.moves for f in self.look.found(before, after).values() if f.moves), None)
