"""The fit of the noise masks: moments by stratum, exactness, rescaling; and records as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.contract.mask import Notes
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.errors import MaskError
from sfumato.masks.noise.sums import Rule
from sfumato.stats.covariance import from_products, identities, whitener
from sfumato.stats.products import products


@dataclass
class NoiseState:
    """All that a chunk needs: z = shrink·x + shift + project·(x − centre) + root·white, by group."""

    vector: tuple[str, ...]
    root: FloatArray
    shrink: FloatArray
    shift: FloatArray
    project: FloatArray
    centre: FloatArray
    projected: BoolArray
    strata: pl.DataFrame | None = None
    groups: int = 1
    split: bool = False
    """Whether incomplete records form groups of their own (exact moments need complete ones)."""
    unit: dict[str, float] = field(default_factory=dict)
    low: dict[str, float] = field(default_factory=dict)
    high: dict[str, float] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    covariance: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))
    mean: FloatArray = field(default_factory=lambda: np.empty((0, 0)))


@dataclass(frozen=True)
class Block:
    """Some records as arrays: values and eligibility (variables × records), group, first place."""

    start: int
    x: FloatArray
    eligible: BoolArray
    complete: bool
    group: IntArray


class Blocks:
    """The whole file, block by block: the fit doesn't depend on how the file is chunked later."""

    def __init__(self, data: Microdata, state: NoiseState) -> None:
        self.data, self.state = data, state

    def each(self, function: Callable[[Block], Any]) -> list[Any]:
        state = self.state
        return self.data.aggregate(lambda chunk, start: function(make_block(chunk, start, state)))


def make_block(chunk: Microdata, start: int, state: NoiseState) -> Block:
    """The arrays of a chunk that begins at record ``start``."""
    n, m = len(chunk), len(state.vector)
    x = np.empty((m, n))
    eligible = np.empty((m, n), dtype=np.bool_)
    for j, column in enumerate(state.vector):
        series = chunk.column(column)
        if series.dtype.is_temporal():
            series = series.to_physical()
        x[j] = series.cast(pl.Float64).to_numpy()
        eligible[j] = chunk.eligible(column)
    complete = bool(eligible.all())
    group: npt.NDArray[np.int64] = np.zeros(n, dtype=np.int64)
    if state.strata is not None:
        keys = state.strata.columns[:-1]
        joined = chunk.select(keys).join(
            state.strata, on=keys, how="left", nulls_equal=True, maintain_order="left"
        )
        group = joined["__group"].to_numpy().astype(np.int64)
    if state.split and not complete:
        group = group + state.groups * (~eligible.all(axis=0))
    return Block(start, x, eligible, complete, group)


def strata_groups(
    data: Microdata,
    within: Sequence[str],
    vector: Sequence[str],
    notes: Notes,
    *,
    exact: bool,
    smallest: int | None,
) -> tuple[pl.DataFrame | None, int]:
    """Which group each stratum belongs to; strata that are too small share one."""
    if not within:
        return None, 1

    def counted(block: Microdata, _start: int) -> pl.DataFrame:
        """Records by stratum; those that exact moments use."""
        frame = block.select(list(within))
        whole = np.logical_and.reduce([block.eligible(c) for c in vector]) if exact else np.ones(len(block))
        frame = frame.with_columns(pl.Series("__size", whole).cast(pl.Int64))
        return frame.group_by(within).agg(pl.col("__size").sum())

    parts = data.aggregate(counted, [*within, *vector])
    sizes = pl.concat(parts).group_by(within).agg(pl.col("__size").sum()).sort(within, nulls_last=False)
    count = sizes["__size"].cast(pl.Int64).to_numpy()
    smallest = smallest or max(10, 3 * (len(vector) + 1))
    if exact:
        smallest = max(smallest, 2 * len(vector) + 2)
    small = count < smallest
    group = np.where(small, -1, np.cumsum(~small) - 1)
    groups = int((~small).sum())
    if small.any():
        if count[small].sum() >= smallest or not groups:
            group[small] = groups
            groups += 1
        else:  # too few even together: they join the smallest of the others
            group[small] = group[np.flatnonzero(~small)[count[~small].argmin()]]
        notes.figure("strata_pooled", int(small.sum()))
        notes.figure("records_in_pooled_strata", int(count[small].sum()))
        notes.warn(
            f"{int(small.sum()):,} of {len(count):,} strata have fewer than {smallest} records and were "
            f"pooled ({int(count[small].sum()):,} records): their noise has the pool's covariance"
        )
    notes.figure("strata", len(count))
    notes.figure("covariances", groups)
    strata = sizes.drop("__size").with_columns(pl.Series("__group", group.astype(np.int64)))
    return strata, groups


def moments(blocks: Blocks, notes: Notes) -> tuple[FloatArray, FloatArray]:
    """Means and covariances of every group, from the eligible values."""
    from sfumato.kernels.noise import cross_products, group_sums

    state, m = blocks.state, len(blocks.state.vector)
    size = len(state.root)
    for ends in blocks.data.aggregate(_ends_of(state.vector), state.vector):
        for series in ends:
            refuse_huge(series)

    def add_up(block: Block) -> tuple[FloatArray, IntArray]:
        if not np.isfinite(block.x[block.eligible]).all():
            raise MaskError(
                "a masked column has infinite values",
                hint="declare them as missing or correct them",
            )
        sums, counts = np.zeros((size, m)), np.zeros((size, m), dtype=np.int64)
        if size == 1 and block.complete:
            sums[0], counts[0] = block.x.sum(axis=1), block.x.shape[1]
        else:
            group_sums(block.x, block.eligible, block.group, sums, counts)
        return sums, counts

    parts = blocks.each(add_up)
    counts = np.add.reduce([c for _, c in parts])
    mean = np.add.reduce([s for s, _ in parts]) / np.maximum(counts, 1)
    few = [c for j, c in enumerate(state.vector) if counts[:, j].sum() < 2]
    if few:
        notes.warn(f"{', '.join(few)} have fewer than two values to mask and stay as they are")

    def multiplied(block: Block) -> tuple[FloatArray, IntArray]:
        sums, pairs = np.zeros((size, m, m)), np.zeros((size, m, m), dtype=np.int64)
        if size == 1 and block.complete:
            centred = block.x - mean[0][:, None]
            sums[0], pairs[0] = products(centred, centred), block.x.shape[1]
        else:
            cross_products(block.x, block.eligible, block.group, mean, sums, pairs)
        return sums, pairs

    parts = blocks.each(multiplied)
    sums = np.add.reduce([s for s, _ in parts])
    pairs = np.add.reduce([p for _, p in parts])
    covariance = np.zeros((size, m, m))
    mended = 0
    if state.split:  # incomplete records take the covariance of all that their stratum has
        g = state.groups
        shift = mean[:g] - mean[g:]
        mean[g:] = _merged(mean[:g], counts[:g], mean[g:], counts[g:])
        sums[g:] += sums[:g] + _between(shift, pairs[:g], pairs[g:])
        pairs[g:] += pairs[:g]
    for g in range(size):
        covariance[g], was = from_products(sums[g], pairs[g])
        mended += was
    if mended:
        notes.warn(
            "the covariances of the available pairs of values weren't those of any data; the nearest "
            "covariance matrix was used (negative eigenvalues set to 0)"
        )
    return mean, covariance


def _ends_of(columns: Sequence[str]) -> Callable[[Microdata, int], list[pl.Series]]:
    """The least and the largest value of each column of a block."""

    def ends(block: Microdata, _start: int) -> list[pl.Series]:
        return [
            pl.Series(c, [block.column(c).min(), block.column(c).max()], dtype=block.dtype(c))
            for c in columns
            if block.dtype(c).is_integer()
        ]

    return ends


def eligible_ends(data: Microdata, column: str) -> tuple[float, float] | None:
    """The least and the largest value that may be masked; None where there is none."""

    def ends(block: Microdata, _start: int) -> tuple[float, float] | None:
        values = block.numbers(column)[block.eligible(column)]
        return (float(values.min()), float(values.max())) if len(values) else None

    parts = [p for p in data.aggregate(ends, [column]) if p is not None]
    return (min(p[0] for p in parts), max(p[1] for p in parts)) if parts else None


def beyond(data: Microdata, column: str, bound: float, *, below: bool) -> int:
    """How many values that may be masked lie beyond a bound."""

    def count(block: Microdata, _start: int) -> int:
        values = block.numbers(column)[block.eligible(column)]
        return int((values < bound).sum() if below else (values > bound).sum())

    return sum(data.aggregate(count, [column]))


def all_eligible(data: Microdata, columns: Sequence[str]) -> bool:
    """Whether every value of these columns may be masked."""
    return all(data.aggregate(lambda block, _: all(bool(block.eligible(c).all()) for c in columns), columns))


def refuse_huge(series: pl.Series, what: str = "noise can't be added to") -> None:
    """Whole numbers beyond 2⁵³ aren't amounts, and a float can't hold them: they would come out wrong."""
    if not series.dtype.is_integer() or not series.len() - series.null_count():
        return
    low, high = series.min(), series.max()
    if max(-int(low), int(high)) > 1 << 53:  # type: ignore[arg-type]
        raise MaskError(
            f"{series.name} has whole numbers beyond 2^53, which {what} exactly",
            hint="is it an identifier? else cast it to a float",
        )


def found_rules(state: NoiseState, rules: Sequence[Rule], blocks: Blocks) -> list[Rule]:
    """Identities nobody declared, which rounding (or a bound) would break: kept to the unit."""
    if not (state.unit or state.low or state.high):
        return []
    totals = {r.total for r in rules}
    free = [j for j, c in enumerate(state.vector) if c not in totals]
    size = len(state.covariance)
    pooled = state.covariance.mean(axis=0) if size > 1 else state.covariance[0]
    if state.strata is not None:  # an identity must hold across strata, with one constant
        pooled = pooled + np.cov(state.mean.T).reshape(pooled.shape) if size > 1 else pooled
    out = []
    for total, parts in identities(pooled[np.ix_(free, free)]):
        columns = [free[total], *(free[p] for p in parts)]
        signs = np.array([1.0, *(-c for c in parts.values())])

        def gaps(block: Block, at: list[int] = columns, by: FloatArray = signs) -> tuple[float, float]:
            usable = block.eligible[at].all(axis=0)
            gap = by @ block.x[at][:, usable]
            return (float(gap.min()), float(gap.max())) if len(gap) else (np.inf, -np.inf)

        ends = blocks.each(gaps)
        low, high = min(e[0] for e in ends), max(e[1] for e in ends)
        if low <= high and high - low <= 1e-9 * max(1.0, np.abs(state.mean[0, columns]).max()):
            names = tuple((state.vector[free[p]], c) for p, c in parts.items())
            out.append(Rule(state.vector[free[total]], names, (low + high) / 2, declared=False))
    return out


def make_exact(blocks: Blocks, white: Callable[[int, int], FloatArray]) -> None:
    """Centre the white noise, take out what it shares with x, and give it identity covariance."""
    state, m = blocks.state, len(blocks.state.vector)
    whiteners = [whitener(state.covariance[g]) for g in range(state.groups)]

    def add_up(block: Block) -> list[tuple[int, int, FloatArray, FloatArray, FloatArray]]:
        drawn = white(block.start, block.x.shape[1])
        out = []
        for g in range(state.groups):
            everybody = len(state.root) == 1
            rows = slice(None) if everybody else np.flatnonzero(block.group == g)
            w = drawn[:, rows]
            if w.shape[1]:
                x = whiteners[g] @ (block.x[:, rows] - state.mean[g][:, None])
                out.append((g, w.shape[1], w.sum(axis=1), products(w, w), products(w, x)))
        return out

    n = np.zeros(state.groups, dtype=np.int64)
    total = np.zeros((state.groups, m))
    square = np.zeros((state.groups, m, m))
    shared = [np.zeros((m, len(t))) for t in whiteners]
    for part in blocks.each(add_up):
        for g, count, w, ww, wx in part:
            n[g] += count
            total[g] += w
            square[g] += ww
            shared[g] += wx
    for g in range(state.groups):
        if n[g] < m + len(whiteners[g]) + 2:
            raise MaskError(
                f"`exact` needs at least {m + len(whiteners[g]) + 2} complete records, but there are {n[g]}",
                hint="drop `exact`, or mask fewer columns",
            )
        mean = total[g] / n[g]
        slope = shared[g] / (n[g] - 1)
        left = (square[g] - n[g] * np.outer(mean, mean)) / (n[g] - 1) - slope @ slope.T
        values, vectors = np.linalg.eigh(left)
        state.root[g] = state.root[g] @ ((vectors / np.sqrt(values)) @ vectors.T)
        state.project[g] = -state.root[g] @ slope @ whiteners[g]
        state.shift[g] = -state.root[g] @ mean
        state.centre[g], state.projected[g] = state.mean[g], True


def bring_back(
    blocks: Blocks, coloured: Callable[[Block], FloatArray], variance_ratio: float, *, exact: bool
) -> None:
    """z ↦ a·z + (1 − a)·z̄, z̄ the mean of the masked values of the group."""
    state, a = blocks.state, 1.0 / np.sqrt(1.0 + variance_ratio)
    middle = state.mean.copy()
    if not exact:
        from sfumato.kernels.noise import group_sums

        def add_up(block: Block) -> tuple[FloatArray, IntArray]:
            sums = np.zeros_like(middle)
            counts = np.zeros(middle.shape, dtype=np.int64)
            z = coloured(block)
            z -= block.x
            group_sums(z, block.eligible, block.group, sums, counts)
            return sums, counts

        parts = blocks.each(add_up)
        counts = np.add.reduce([c for _, c in parts])
        middle += np.add.reduce([s for s, _ in parts]) / np.maximum(counts, 1)
    state.shift = a * state.shift + (1 - a) * middle
    state.root, state.project = a * state.root, a * state.project
    state.shrink[:] = a


def unit_of(schema: Schema, column: str, dtype: pl.DataType, round_floats: bool) -> float | None:
    """The unit that a column is rounded to, or None."""
    said = schema[column].unit
    if dtype.is_integer() or dtype.is_temporal():
        return max(1.0, float(np.rint(said))) if said else 1.0
    if isinstance(dtype, pl.Decimal):
        return float(said or 10.0 ** -(dtype.scale or 0))
    return float(said) if said and round_floats else None


def type_range(dtype: pl.DataType) -> tuple[float, float]:
    """The smallest and the largest value that an integer type holds."""
    if not dtype.is_integer() or dtype == pl.Int64:
        return -np.inf, np.inf
    bits = int(str(dtype).lstrip("UInt"))
    if dtype.is_unsigned_integer():
        return 0.0, float(2**bits - 1) if bits < 64 else np.inf
    return -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1


def back_to_type(values: FloatArray, chunk: Microdata, column: str, new: BoolArray) -> pl.Series:
    """An array as a column of the old type; values that aren't new are those of the chunk."""
    old = chunk.column(column)
    if new.all():
        series = pl.Series(column, values)
    else:
        filled = np.where(new, values, 0.0)
        series = pl.Series(column, filled)
    if old.dtype.is_temporal():
        series = series.cast(old.to_physical().dtype).cast(old.dtype)
    elif old.dtype != pl.Float64:
        series = series.cast(old.dtype)
    if new.all():
        return series
    pick = pl.Series(new)
    return pl.select(pl.when(pick).then(series).otherwise(old).alias(column)).to_series()


def _merged(one: FloatArray, n1: IntArray, two: FloatArray, n2: IntArray) -> FloatArray:
    total = np.maximum(n1 + n2, 1)
    merged: FloatArray = (one * n1 + two * n2) / total
    return merged


def _between(shift: FloatArray, n1: IntArray, n2: IntArray) -> FloatArray:
    """The cross-products between two parts of a group, from the difference of their means."""
    total = np.maximum(n1 + n2, 1)
    between: FloatArray = shift[:, :, None] * shift[:, None, :] * (n1 * n2 / total)
    return between
