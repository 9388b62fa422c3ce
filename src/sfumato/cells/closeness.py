"""How far the values of each cell are from those of the whole file: what its people's keys give away.

Each function takes the :class:`~sfumato.cells.diversity.ValueCounts` of a column and returns one number
a cell. p are the shares in the cell, q those in the whole file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sfumato.cells.diversity import ValueCounts
from sfumato.data.microdata import FloatArray, IntArray
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from sfumato.data.hierarchy import Hierarchy


def equal_distance(counts: ValueCounts) -> FloatArray:
    """½ Σ |p − q|: all values are equally far from each other.

    >>> from sfumato.cells.closeness import equal_distance
    >>> import polars as pl, sfumato as sf
    >>> people = sf.Microdata(pl.DataFrame({"age": [3, 3, 4, 4], "ill": ["a", "a", "a", "b"]}))
    >>> equal_distance(ValueCounts.of(people.cells(["age"]), people, "ill")).tolist()
    [0.25, 0.25]
    """
    from sfumato.kernels.closeness import equal_distances

    return equal_distances(counts.starts, counts.value, counts.count, counts.share)


def ordered_distance(counts: ValueCounts, order: Sequence[object] = ()) -> FloatArray:
    """Σ_i |Σ_{j ≤ i} (p_j − q_j)| / (m − 1): values i and j are |i − j| / (m − 1) apart.

    The m values are in their own order, or in ``order`` where it is given.
    """
    from sfumato.kernels.closeness import ordered_distances

    if order:
        counts = _in_order(counts, order)
    return ordered_distances(counts.starts, counts.value, counts.count, counts.share)


def hierarchical_distance(counts: ValueCounts, hierarchy: Hierarchy) -> FloatArray:
    """The earth mover's distance where two values are as far apart as their lowest common class is high.

    Moving a share within a class of level h costs h/H of it, H being the level at which all meet.
    """
    from sfumato.kernels.closeness import hierarchical_distances

    above = ancestors(counts.levels, hierarchy)
    return hierarchical_distances(counts.starts, counts.value, counts.count, counts.share, above)


def gains(counts: ValueCounts) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """What a cell tells of its values: the largest p; the largest (p − q)/q (β-likeness); the same
    divided by −ln q (enhanced β-likeness); the largest |ln(p/q)| (δ-disclosure), which is infinite
    where a value of the file doesn't occur in the cell; and that of the values that do."""
    from sfumato.kernels import closeness

    return closeness.gains(counts.starts, counts.value, counts.count, counts.share)


def ancestors(levels: pl.Series, hierarchy: Hierarchy) -> IntArray:
    """The node of each value at each level, a root in which all meet added where there is none."""
    rows: list[IntArray] = [np.arange(len(levels), dtype=np.int64)]
    for level in range(1, hierarchy.height + 1):
        classes = hierarchy.class_of(levels, level)
        unknown = levels.filter(classes.is_null())
        if len(unknown):
            raise SchemaError(
                f"{len(unknown):,} of the values aren't in the hierarchy {hierarchy.source}",
                hint="add a line for each of them, or take another distance",
            )
        rows.append((classes.rank("dense").cast(pl.Int64).to_numpy() - 1).astype(np.int64))
        if len(set(rows[-1].tolist())) <= 1:
            break
    if len(levels) and len(set(rows[-1].tolist())) > 1:
        rows.append(np.zeros(len(levels), np.int64))
    return np.array(rows, np.int64)


def _in_order(counts: ValueCounts, order: Sequence[object]) -> ValueCounts:
    place = {str(v): i for i, v in enumerate(order)}
    names = counts.levels.cast(pl.String).to_list()
    unknown = [n for n in names if n not in place]
    if unknown:
        raise SchemaError(
            f"{len(unknown):,} of the values aren't in the column's `order`",
            hint="list every category, lowest first",
        )
    rank = np.argsort(np.argsort([place[n] for n in names], kind="stable"), kind="stable").astype(np.int64)
    value = rank[counts.value]
    resort = np.lexsort((value, counts.of_cell))
    whole = np.empty_like(counts.whole)
    whole[rank] = counts.whole
    levels = counts.levels.gather(pl.Series(np.argsort(rank)))
    return ValueCounts(
        counts.cells, levels, counts.of_cell[resort], value[resort], counts.count[resort], whole
    )
