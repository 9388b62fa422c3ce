"""A file's records in clusters of alike ones: what a shuffle deals in, and what its intruder makes again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.data.following import Following
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.errors import InputError
from sfumato.parallel import in_threads
from sfumato.stats.clusters import atoms, digests, gather, in_order
from sfumato.stats.levels import CodeArray, Levels, blurred, levels_of, points


@dataclass(frozen=True)
class Partition:
    """Clusters of a file's records, in an order that values decide."""

    label: IntArray
    """Each record's cluster."""
    part: IntArray
    """Each cluster's part of the file."""
    rows: IntArray
    """The records cluster by cluster."""
    start: IntArray
    """Where each cluster begins among the rows."""

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.start)


def coded_columns(data: Microdata, told: Following, blur: int) -> list[Levels]:
    """Every column that moves, in codes, numbers of fewer than ``blur`` records averaged."""

    def one(column: str) -> Levels:
        levels = levels_of(data, column, told.riders.get(column, ()))
        if np.isinf(levels.numbers).any():
            raise InputError(
                f"{column} has infinite values", hint="declare them as missing or top-coded, or mend them"
            )
        variable = data.schema[column]
        return blurred(levels, blur, step=variable.unit, ordinal=variable.kind == "ordinal")

    return in_threads(one, told.dealt)


def partitioned(
    data: Microdata,
    columns: Sequence[Levels],
    look_at: Sequence[str],
    *,
    smallest: int,
    within: Sequence[str] = (),
    unit: str | None = None,
    spread: int = 1,
    span_percent: float = 0.0,
) -> Partition:
    """Clusters of ``smallest`` records or more that are alike in the columns they ``look_at``.

    All of it is a function of the values: the order of the file has no part in it. ``spread`` is how
    many different values each sensitive column has in a cluster at least, ``span_percent`` how many percent
    of the ranks of one with an order its values span.
    """
    stratum, _ = data.codes(within)
    owner = None if unit is None else data.households(unit)[0]
    _check_strata(smallest, stratum, owner)
    seen = [c for c in columns if c.name in set(look_at)]
    found = atoms([c.codes for c in seen], stratum, owner)
    # Coarser codes that travel with a column say which of its values are near each other.
    near = [levels_of(data, w) for c in seen for w in data.schema.wider(c.name) if w in c.values]
    where = _positions([*seen, *near], found.first, owner, len(data))
    clusters = gather(where, found, stratum[found.first], smallest)
    label = clusters.label[found.of]
    part = np.empty(clusters.n_clusters, np.int64)
    part[clusters.label] = clusters.part
    if spread > 1 or span_percent > 0:
        wanted = [c for c in columns if c.name in data.schema.sensitive]
        ranks = [_middle_ranks(c) for c in wanted if c.ordered] if span_percent > 0 else []
        label, part = spread_out(
            label, part, stratum, [c.codes for c in wanted], spread, ranks, span_percent / 100
        )
    digest = digests([c.codes for c in columns], len(data))
    rows = in_order(digest, label)
    start = np.concatenate([[0], np.cumsum(np.bincount(label))])
    return Partition(label, part, rows, start)


def _check_strata(k: int, stratum: IntArray, unit: IntArray | None) -> None:
    sizes = np.bincount(stratum)
    largest = np.ones_like(sizes)
    if unit is not None:
        owner = np.zeros(int(unit.max()) + 1, np.int64)
        owner[unit] = stratum
        if (owner[unit] != stratum).any():
            raise InputError(
                "some units have records in more than one stratum",
                hint="take out of `within` what changes within a unit",
            )
        held = np.bincount(unit)
        np.maximum.at(largest, owner, held)
    few = sizes < k * largest
    if few.any():
        what = "the file" if len(sizes) == 1 else f"{int(few.sum()):,} of {len(sizes):,} strata"
        why = (
            f"fewer than k = {k} records"
            if unit is None
            else f"a unit with more than 1/{k} of the records, or fewer than {k} units"
        )
        raise InputError(
            f"{what} ha{'s' if len(sizes) == 1 or few.sum() == 1 else 've'} {why}",
            hint="stratify by fewer or coarser columns, or lower `smallest`",
        )


def _positions(
    seen: Sequence[Levels], first: IntArray, unit: IntArray | None, n: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Where each atom stands; a unit at the middle of its records."""
    if unit is None:
        return points(seen, first)
    # In the order of digests, so that no sum depends on the order of the records.
    order = np.argsort(digests([c.codes for c in seen], n), kind="stable")
    where = points(seen, order)
    held = np.bincount(unit)
    out = np.empty((len(first), where.shape[1]), np.float32)
    for u in range(where.shape[1]):
        middle = np.bincount(unit[order], where[:, u].astype(np.float64)) / held
        out[:, u] = middle[unit[first]]
    return out


def spread_out(
    label: IntArray, part: IntArray, stratum: IntArray, columns: Sequence[CodeArray], least: int,
    ranks: Sequence[FloatArray] = (), span: float = 0.0,
) -> tuple[IntArray, IntArray]:  # fmt: skip
    """Join each cluster with too few different values, or whose ranks span too little, to its neighbours,
    until none is left."""
    for values in ranks:
        if (_span(values, stratum, int(stratum.max()) + 1) < span).any():
            raise InputError(
                "a stratum's values of a sensitive column span less than `span_percent`",
                hint="stratify by fewer columns, or lower `span_percent`",
            )
    for codes in columns:
        few = np.bincount(stratum[_firsts(stratum, codes)]) < least
        if few.any():
            raise InputError(
                "a stratum has fewer different values of a sensitive column than `spread`",
                hint="stratify by fewer columns, or lower `spread`",
            )
    while True:
        n = len(part)
        short = np.zeros(n, np.bool_)
        for codes in columns:
            short |= np.bincount(label[_firsts(label, codes)], minlength=n) < least
        for values in ranks:
            short |= _span(values, label, n) < span
        if not short.any():
            return label, part
        home = np.empty(n, np.int64)
        home[label] = stratum
        joined = np.zeros(n, np.bool_)  # whether a cluster joins the one before it
        for g in np.flatnonzero(short):
            if g + 1 < n and home[g + 1] == home[g] and not joined[g]:
                joined[g + 1] = True
            elif g > 0 and home[g - 1] == home[g]:
                joined[g] = True
        number = np.cumsum(~joined) - 1
        fresh = np.empty(number[-1] + 1, np.int64)
        fresh[number[::-1]] = part[::-1]
        label, part = number[label], fresh


def _middle_ranks(levels: Levels) -> FloatArray:
    """Each record's middle rank, as a share of the records; NaN where it is missing."""
    share = (np.cumsum(levels.counts) - levels.counts / 2) / max(int(levels.counts.sum()), 1)
    return np.asarray(np.where(levels.missing, np.nan, share)[levels.codes])


def _span(values: FloatArray, group: IntArray, n: int) -> FloatArray:
    """How far apart the values of each group are."""
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    ok = np.isfinite(values)
    np.minimum.at(low, group[ok], values[ok])
    np.maximum.at(high, group[ok], values[ok])
    return np.where(np.isfinite(low), high - low, 0.0)


def _firsts(group: IntArray, codes: CodeArray) -> IntArray:
    """A record of each pair of group and code."""
    _, first = np.unique(group * (int(codes.max(initial=0)) + 1) + codes, return_index=True)
    return np.asarray(first, dtype=np.int64)
