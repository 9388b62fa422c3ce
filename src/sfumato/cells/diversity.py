"""The values of a column in each cell: how often each occurs, and how many and how even they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.codes import code_column
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.errors import MeasureError

if TYPE_CHECKING:
    from sfumato.cells.table import CellTable

MAX_COMPARISONS: Final = 5_000_000_000


@dataclass(frozen=True)
class ValueCounts:
    """How often each value occurs in each cell, for the pairs that occur, by cell and value.

    ``whole`` counts each value in the whole file. Missing values are left out: nobody learns one.
    """

    cells: int
    levels: pl.Series
    of_cell: IntArray
    value: IntArray
    count: IntArray
    whole: IntArray

    @classmethod
    def of(cls, table: CellTable, data: Microdata, column: str) -> ValueCounts:
        """The values of a column among the peers of each cell: the records that share its keys.

        Under ``matches_anything`` the peers are those of all cells that agree with it.

        >>> import polars as pl, sfumato as sf
        >>> people = sf.Microdata(pl.DataFrame({"age": [3, 3, 4], "ill": ["a", "b", "a"]}))
        >>> found = ValueCounts.of(people.cells(["age"]), people, "ill")
        >>> found.distinct.tolist(), found.largest.tolist()
        ([2, 1], [0.5, 1.0])
        """
        codes, levels = code_column(data, column)
        found = cls.from_codes(table.record_cell, codes, len(table), levels)
        if table.missing == "matches_anything" and any(table.has_missing):
            found = _with_peers(table, found)
        return found

    @classmethod
    def from_codes(
        cls, cell: npt.NDArray[np.int32], codes: npt.NDArray[np.int32], cells: int, levels: pl.Series
    ) -> ValueCounts:
        """From each record's cell and value (``len(levels)`` where it is missing)."""
        m = len(levels)
        there = codes < m
        if not there.all():
            cell, codes = cell[there], codes[there]
        # Sorting the packed pairs gives their counts as run lengths, in order.
        packed = cell.astype(np.int64)
        packed *= max(m, 1)
        packed += codes
        pairs, count = _runs(packed, cells * max(m, 1))
        whole = np.bincount(codes, minlength=m).astype(np.int64)
        return cls(cells, levels, pairs // max(m, 1), pairs % max(m, 1), count, whole)

    def merged(self, group: npt.NDArray[np.int32], groups: int) -> ValueCounts:
        """The counts after cells are joined: ``group`` is the new cell of each."""
        m = max(len(self.levels), 1)
        packed = group[self.of_cell].astype(np.int64) * m + self.value
        order = np.argsort(packed, kind="stable")
        packed = packed[order]
        first = np.flatnonzero(np.diff(packed, prepend=-1))
        count = np.add.reduceat(self.count[order], first) if len(first) else self.count[:0]
        pairs = packed[first]
        return ValueCounts(groups, self.levels, pairs // m, pairs % m, count, self.whole)

    @cached_property
    def starts(self) -> IntArray:
        """Where each cell's values begin, and where the last ones end."""
        return np.concatenate([[0], np.cumsum(self.distinct)]).astype(np.int64)

    @cached_property
    def distinct(self) -> IntArray:
        """How many different values each cell has."""
        return np.bincount(self.of_cell, minlength=self.cells).astype(np.int64)

    @cached_property
    def records(self) -> IntArray:
        """How many records of each cell have a value."""
        return self._sum(self.count.astype(np.float64)).astype(np.int64)

    @cached_property
    def share(self) -> FloatArray:
        """The share of each value in the whole file."""
        return self.whole / max(int(self.whole.sum()), 1)

    @cached_property
    def shares(self) -> FloatArray:
        """The share of each value in its cell."""
        return self.count / self.records[self.of_cell]

    @cached_property
    def entropy(self) -> FloatArray:
        """exp(−Σ p ln p): the number of equally frequent values that would be as uneven; 0 without any."""
        even = np.exp(self._sum(-self.shares * np.log(self.shares)))
        return np.where(self.distinct > 0, even, 0.0)

    @cached_property
    def largest(self) -> FloatArray:
        """The share of each cell's most frequent value; 0 without any."""
        out = np.zeros(self.cells)
        np.maximum.at(out, self.of_cell, self.shares)
        return out

    def largest_of(self, values: Sequence[str]) -> FloatArray:
        """The largest share that one of some values (all of them, if none is named) has in each cell."""
        if not values:
            return self.largest
        names = self.levels.cast(pl.String).to_list()
        chosen = np.array([n in set(values) for n in names], np.bool_)[self.value]
        out = np.zeros(self.cells)
        np.maximum.at(out, self.of_cell[chosen], self.shares[chosen])
        return out

    def recursive(self, l: int, c: float) -> BoolArray:  # noqa: E741
        """Whether p_1 < c · (p_l + p_(l+1) + …), the shares in falling order."""
        order = np.lexsort((-self.count, self.of_cell))
        rank = np.arange(len(order)) - self.starts[self.of_cell[order]]
        share = self.shares[order]
        tail = np.bincount(
            self.of_cell[order], weights=np.where(rank >= l - 1, share, 0.0), minlength=self.cells
        )
        return np.asarray(self.largest < c * tail)

    def _sum(self, amounts: FloatArray) -> FloatArray:
        return np.bincount(self.of_cell, weights=amounts, minlength=self.cells).astype(np.float64)


def _runs(packed: IntArray, possible: int) -> tuple[IntArray, IntArray]:
    """The different codes in order and how often each occurs."""
    if possible <= max(1 << 16, 2 * len(packed)):
        counts = np.bincount(packed, minlength=possible)
        pairs = np.flatnonzero(counts)
        return pairs, counts[pairs].astype(np.int64)
    packed.sort()
    first = np.flatnonzero(np.diff(packed, prepend=-1))
    return packed[first], np.diff(first, append=len(packed)).astype(np.int64)


def _with_peers(table: CellTable, found: ValueCounts) -> ValueCounts:
    """The same with the counts of all cells that agree with each cell."""
    from sfumato.kernels.cells import agreeing_cells

    gone = np.array([len(table.levels[k]) for k in table.keys], np.int64)
    open_cells = int((table.codes == gone[:, None]).any(axis=0).sum())
    if open_cells * len(table) > MAX_COMPARISONS:
        raise MeasureError(
            f"{open_cells:,} combinations have missing keys, too many to compare with others",
            hint='count a missing value as a category (missing="category"), or recode the keys first',
        )
    mine, peer = agreeing_cells(np.ascontiguousarray(table.codes.astype(np.int64)), gone)
    # Each (cell, peer) pair brings all values of the peer.
    repeat = found.distinct[peer]
    inside = np.arange(repeat.sum()) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    source = np.repeat(found.starts[peer], repeat) + inside
    m = max(len(found.levels), 1)
    packed = np.repeat(mine, repeat) * m + found.value[source]
    order = np.argsort(packed, kind="stable")
    packed = packed[order]
    first = np.flatnonzero(np.diff(packed, prepend=-1))
    count = np.add.reduceat(found.count[source][order], first) if len(first) else found.count[:0]
    pairs = packed[first]
    return ValueCounts(found.cells, found.levels, pairs // m, pairs % m, count, found.whole)
