"""Bring the records to a safe table: change the fewest keys in the fewest records.

Cells that lose records send them to cells that gain. Along a line of the table that keeps its total,
the two balance, so each moved record changes one key; where only coarser margins are kept, a
transport through "keep these keys" hubs finds the moves that change the least.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.microdata import Microdata, as_microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import GuaranteeError, InputError, MaskError, ParameterError, did_you_mean
from sfumato.tables.build import tabulate
from sfumato.tables.safe import SafeTable

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Moves:
    """How many records go from which cell to which (flat cell numbers)."""

    source: Ints
    target: Ints
    records: Ints

    @property
    def total(self) -> int:
        return int(self.records.sum())


def realise(
    data: Any,
    safe: SafeTable,
    *,
    importance: Any = None,
    similar_on: Sequence[str] | None = None,
    household: bool = False,
    seed: Seed | int | None = None,
) -> Microdata:
    """The records, changed so that they tabulate to the safe table.

    Parameters
    ----------
    data, safe
        The records and a safe table of them (``sf.safe_table(data, …)``).
    importance
        What changing each key costs: a dict, or a list from least to most important. The least
        important key that will do is changed.
    similar_on
        Numeric columns (the schema's sensitive ones by default): of the records that could move,
        those whose values are nearest to the cell they go to. An empty list: drawn at random.
    household
        Move whole households (the schema's household id): the table then counts households, and
        all members get the new keys.
    seed
        Decides among equal records; as secret as any seed.

    With N records, c cells and m moved records the cost is one pass over the records, a program over
    the changed cells only, and m changes: O(N + c + m), so a hundred million households are no
    obstacle (Moore 1996 thought they were).

    >>> import polars as pl, sfumato as sf
    >>> people = sf.Microdata(pl.DataFrame({"A": [1, 1, 1, 1, 2, 2, 2], "B": [1, 1, 1, 2, 1, 2, 2]}))
    >>> safe = sf.safe_table(people, tolerance=2, keys=["A", "B"])
    >>> changed = sf.realise(people, safe, seed=1)
    >>> bool((tabulate(changed, ["A", "B"]).counts == safe.counts).all())
    True
    """
    data = as_microdata(data)
    units = _households(data, safe.keys) if household else None
    records = data if units is None else units[0]
    table = tabulate(records, safe.keys)
    if table.levels != safe.table.levels or not np.array_equal(table.counts, safe.original):
        raise InputError(
            "the records don't tabulate to the safe table's original",
            hint="make the safe table from these records: sf.safe_table(data, tolerance, keys=[…])",
        )
    moves = plan_moves(safe, _costs(importance, safe.keys))
    code = _codes(records, safe)
    who, where = _choose(records, code, moves, safe, similar_on, as_seed(seed))
    places = np.unravel_index(where, safe.counts.shape)
    new: dict[str, pl.Series] = {}
    for axis, key in enumerate(safe.keys):
        level = pl.Series(list(safe.table.levels[axis]), dtype=_level_type(data, key))
        values = data.column(key)
        kind = values.dtype
        rows, picks = who, places[axis]
        if units is not None:
            rows, picks = _spread(units[1], who, places[axis])
        text = values.cast(pl.String) if kind in (pl.Categorical, pl.Enum) else values.clone()
        changed = text.scatter(rows.astype(np.uint64), level.gather(picks)) if len(rows) else text
        new[key] = changed.cast(kind)
    out: Microdata = data.with_columns(new)
    counted = out if units is None else _households(out, safe.keys)[0]
    if not np.array_equal(_recount(counted, safe), safe.counts):
        raise GuaranteeError("the records don't tabulate to the safe table; nothing was changed")
    return out


def plan_moves(safe: SafeTable, importance: Any) -> Moves:
    """The cheapest moves from the cells that lose to the cells that gain."""
    change = safe.counts - safe.original
    if not change.any():  # a table that was safe already
        none = np.zeros(0, dtype=np.int64)
        return Moves(none, none, none)
    order = sorted(range(change.ndim), key=lambda a: importance[safe.keys[a]])
    for axis in order:
        # A kept margin over all other keys means that every line along this axis balances.
        others = {k for a, k in enumerate(safe.keys) if a != axis}
        if any(others <= set(m) for m in safe.margins) or change.ndim == 1:
            return _along(change, axis)
    return _transport(change, safe.keys, importance)


def _along(change: npt.NDArray[np.int64], axis: int) -> Moves:
    """Pair losses and gains within each line along one axis, nearest levels first."""
    cells = np.arange(change.size).reshape(change.shape)
    lines = np.moveaxis(change, axis, -1).reshape(-1, change.shape[axis])
    names = np.moveaxis(cells, axis, -1).reshape(-1, change.shape[axis])
    lost = np.repeat(names.ravel(), np.maximum(-lines, 0).ravel())
    gained = np.repeat(names.ravel(), np.maximum(lines, 0).ravel())
    return _counted(lost, gained)


def _counted(lost: Ints, gained: Ints) -> Moves:
    pairs, records = np.unique(np.column_stack([lost, gained]), axis=0, return_counts=True)
    return Moves(pairs[:, 0], pairs[:, 1], records.astype(np.int64))


def _transport(change: npt.NDArray[np.int64], keys: Sequence[str], importance: Any) -> Moves:
    """A transport program: source cell → hub "these keys stay" → target cell, at the changed keys' cost."""
    from sfumato.tables.program import _Model

    flat = change.ravel()
    source, target = np.flatnonzero(flat < 0), np.flatnonzero(flat > 0)
    supply, demand = -flat[source], flat[target]
    places = [np.unravel_index(c, change.shape) for c in (source, target)]
    model = _Model()
    rows_out = model.row(len(source), supply, supply)
    rows_in = model.row(len(target), demand, demand)
    hubs: list[tuple[Ints, Ints, Any, Any]] = []
    axes = range(change.ndim)
    most = change.ndim if change.ndim <= 5 else 2
    for k in [*range(1, most + 1)] + ([change.ndim] if most < change.ndim else []):
        for changed in itertools.combinations(axes, k):
            kept = [a for a in axes if a not in changed]
            ids = [_hub_ids(p, kept, change.shape) for p in places]
            both = np.unique(np.concatenate(ids))
            hub_source, hub_target = (np.searchsorted(both, i) for i in ids)
            cost = sum(importance[keys[a]] for a in changed)
            into = model.add(len(source), cost=cost, high=supply, whole=False)
            out = model.add(len(target), cost=0.0, high=demand, whole=False)
            balance = model.row(len(both), 0.0, 0.0)
            model.put(rows_out, into, 1.0)
            model.put(rows_in, out, 1.0)
            model.put(balance[hub_source], into, 1.0)
            model.put(balance[hub_target], out, -1.0)
            hubs.append((hub_source, hub_target, into, out))
    status, values, _ = model.solve(relaxed=True, seconds=600.0)
    if values is None:
        raise MaskError(f"no transport between the cells was found ({status})")
    # A vertex of a transport program with whole supplies is whole.
    flow = np.rint(values).astype(np.int64)
    lost: list[Ints] = []
    gained: list[Ints] = []
    for hub_source, hub_target, into, out in hubs:
        first = np.argsort(hub_source, kind="stable")
        second = np.argsort(hub_target, kind="stable")
        lost.append(np.repeat(source[first], flow[into][first]))
        gained.append(np.repeat(target[second], flow[out][second]))
    return _counted(np.concatenate(lost), np.concatenate(gained))


def _hub_ids(places: Any, kept: Sequence[int], shape: tuple[int, ...]) -> Ints:
    if not kept:
        return np.zeros(len(places[0]), dtype=np.int64)
    return np.asarray(
        np.ravel_multi_index([places[a] for a in kept], [shape[a] for a in kept]), dtype=np.int64
    )


def _choose(
    data: Microdata,
    code: Ints,
    moves: Moves,
    safe: SafeTable,
    similar_on: Sequence[str] | None,
    seed: Seed,
) -> tuple[Ints, Ints]:
    """Which record of each losing cell goes to which gaining cell."""
    if not moves.total:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    given = data.schema.sensitive if similar_on is None else similar_on
    columns = [c for c in given if data.is_numeric(c) and not data.missing(c).all()]
    losing = np.zeros(safe.counts.size, dtype=bool)
    losing[moves.source] = True
    rows = np.flatnonzero(losing[code])
    # A random order first, so that ties and equal records follow nothing in the file.
    draws = seed.draws("realise").stream(purpose="records").uniform(0, len(data))
    rows = rows[np.argsort(draws[rows])]
    rows = rows[np.argsort(code[rows], kind="stable")]
    if columns:
        rows = _nearest_first(data, rows, code, moves, safe, columns)
        return rows, np.repeat(moves.target, moves.records)
    starts = np.searchsorted(code[rows], moves.source)
    before = _earlier_in_cell(moves)
    where = np.repeat(starts + before, moves.records) + _ramp(moves.records)
    return rows[where], np.repeat(moves.target, moves.records)


def _earlier_in_cell(moves: Moves) -> Ints:
    """How many records of the same source cell earlier moves take (moves are sorted by source)."""
    total = np.cumsum(moves.records) - moves.records
    first = np.searchsorted(moves.source, moves.source)
    return np.asarray(total - total[first], dtype=np.int64)


def _ramp(sizes: Ints) -> Ints:
    """0 … size−1 for each size."""
    ends = np.cumsum(sizes)
    return np.asarray(np.arange(ends[-1]) - np.repeat(ends - sizes, sizes), dtype=np.int64)


def _nearest_first(
    data: Microdata, rows: Ints, code: Ints, moves: Moves, safe: SafeTable, columns: Sequence[str]
) -> Ints:
    """For each move, the records of the source cell nearest to the target cell's mean."""
    values = data.matrix(columns)
    centre, spread = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    spread[~(spread > 0)] = 1.0
    scaled = np.nan_to_num((values - centre) / spread)
    size = np.bincount(code, minlength=safe.counts.size)
    means = np.column_stack(
        [np.bincount(code, each, safe.counts.size) / np.maximum(size, 1) for each in scaled.T]
    )
    starts = np.searchsorted(code[rows], moves.source)
    ends = np.searchsorted(code[rows], moves.source, side="right")
    taken = np.zeros(len(rows), dtype=bool)
    out = []
    for source_start, source_end, target, m in zip(starts, ends, moves.target, moves.records, strict=True):
        free = np.flatnonzero(~taken[source_start:source_end]) + source_start
        far = ((scaled[rows[free]] - means[target]) ** 2).sum(axis=1)
        chosen = free[np.argsort(far, kind="stable")[:m]]
        taken[chosen] = True
        out.append(rows[chosen])
    return np.concatenate(out)


def _codes(data: Microdata, safe: SafeTable) -> Ints:
    """The flat cell of every record."""
    places = []
    for axis, key in enumerate(safe.keys):
        values = data.column(key)
        if values.dtype in (pl.Categorical, pl.Enum):
            values = values.cast(pl.String)
        level = pl.DataFrame({key: list(safe.table.levels[axis])}, schema={key: values.dtype})
        level = level.with_row_index("place")
        joined = pl.DataFrame({key: values}).join(
            level, on=key, how="left", nulls_equal=True, maintain_order="left"
        )
        places.append(joined["place"].to_numpy().astype(np.int64))
    return np.asarray(np.ravel_multi_index(tuple(places), safe.counts.shape), dtype=np.int64)


def _recount(data: Microdata, safe: SafeTable) -> Ints:
    flat = np.bincount(_codes(data, safe), minlength=safe.counts.size)
    return flat.reshape(safe.counts.shape).astype(np.int64)


def _level_type(data: Microdata, key: str) -> pl.DataType | type[pl.DataType]:
    dtype = data.dtype(key)
    return pl.String if dtype in (pl.Categorical, pl.Enum) else dtype


def _households(data: Microdata, keys: Sequence[str]) -> tuple[Microdata, Ints]:
    """One record a household (the first of each), and the household of every record."""
    name = data.schema.household
    if name is None:
        raise InputError("household=True needs the role `household`", hint="data.with_roles(household=…)")
    codes, size = data.households(name)
    classes, _ = data.codes(list(keys))
    first = np.full(size, len(data), dtype=np.int64)
    np.minimum.at(first, codes, np.arange(len(data)))
    differ = np.unique(codes[classes != classes[first[codes]]])
    if len(differ):
        raise InputError(
            f"the members of {len(differ):,} households differ in {', '.join(keys)}",
            hint="tabulate keys that belong to the household, or realise persons one by one",
        )
    return Microdata(data.frame[first], data.schema), codes


def _spread(household: Ints, who: Ints, picks: Ints) -> tuple[Ints, Ints]:
    """Changes of households as changes of all their members."""
    chosen = np.full(int(household.max()) + 1, -1, dtype=np.int64)
    chosen[who] = picks
    rows = np.flatnonzero(chosen[household] >= 0)
    return rows, chosen[household[rows]]


def _costs(importance: Any, keys: Sequence[str]) -> Mapping[str, float]:
    """What changing each key costs: a dict, or a list from least to most important."""
    if importance is None:
        return dict.fromkeys(keys, 1.0)
    if isinstance(importance, Mapping):
        unknown = [k for k in importance if k not in keys]
        if unknown:
            raise ParameterError(f"importance names {unknown[0]!r}", hint=did_you_mean(unknown[0], keys))
        out = {k: float(importance.get(k, 1.0)) for k in keys}
    else:
        order = list(importance)
        if sorted(order) != sorted(keys):
            raise ParameterError("importance must list every key once", hint="least important first")
        out = {k: 1.0 + order.index(k) / len(keys) for k in keys}
    if not all(math.isfinite(v) and v > 0 for v in out.values()):
        raise ParameterError("importance must be above 0")
    return out
