"""A released column read as an analyst reads it: each value stands for a distribution over the original's
bins.

A value that is as it was stands for itself; a class stands for its values, evenly; what was blanked stands
for the column's released margin; a column that was dropped stands for all its values, evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.data.recoding import label_span

BINS: Final = 10
LEVELS: Final = 12
"""A category's most frequent levels have a bin each, the others one together."""


@dataclass(frozen=True)
class Reading:
    """One column of two files in the same bins, and as terms of a model."""

    column: str
    kind: Literal["number", "ordered", "category"]
    original: IntArray
    """The bin of each original record."""
    released: IntArray
    """The code of each released record."""
    spread: FloatArray
    """The share of each bin in what a released code stands for; rows add up to 1."""
    original_terms: FloatArray
    released_terms: FloatArray
    """Records × terms of a linear model, the released ones as expected from the reading."""
    kept: float
    """The share of the column's entropy that the released classes can tell; a blank tells nothing."""

    @property
    def bins(self) -> int:
        return int(self.spread.shape[1])

    def table(self, other: Reading, *, released: bool) -> FloatArray:
        """The two-way table of shares with another column, as the file says or as the release is read."""
        if not released:
            return _shares(self.original, other.original, self.bins, other.bins)
        codes = _shares(self.released, other.released, len(self.spread), len(other.spread))
        return self.spread.T @ codes @ other.spread


def _shares(a: IntArray, b: IntArray, rows: int, columns: int) -> FloatArray:
    flat = np.bincount(a * columns + b, minlength=rows * columns)
    return flat.reshape(rows, columns) / max(len(a), 1)


def read_column(original: Microdata, masked: Microdata, column: str, rows: npt.NDArray[np.int64]) -> Reading:
    """The reading of a column in some of the records; one that the release hasn't is one class."""
    before, gone = original.column(column).gather(rows), original.missing(column)[rows]
    number = _is_number(original, column, before, gone)
    if column in masked.columns:
        at = rows[rows < len(masked)] if len(masked) < len(original) else rows
        after, blank = masked.column(column).gather(at), masked.missing(column)[at]
    else:
        after, blank = pl.Series(column, ["all"] * len(before)), np.zeros(len(before), np.bool_)
    if number and (after.dtype.is_numeric() or after.dtype.is_temporal()):
        return _numbers(column, before, gone, after, blank)
    return _classes(original, column, before, gone, after, blank, number=number)


def _is_number(data: Microdata, column: str, values: pl.Series, gone: npt.NDArray[np.bool_]) -> bool:
    dtype = data.dtype(column)
    if not (dtype.is_numeric() or dtype.is_temporal()) or data.kind(column) == "categorical":
        return False
    return int(values.filter(pl.Series(~gone)).n_unique()) > LEVELS


def _floats(values: pl.Series, gone: npt.NDArray[np.bool_]) -> FloatArray:
    physical = values.to_physical() if values.dtype.is_temporal() else values
    out: FloatArray = physical.cast(pl.Float64).fill_null(np.nan).to_numpy().copy()
    out[gone] = np.nan
    return out


def _scaled(values: FloatArray) -> FloatArray:
    return np.sign(values) * np.log1p(np.abs(values))


class _Bins:
    """The bins of a number: tenths of what isn't zero, zero apart, missing apart; and its scale in a
    model."""

    def __init__(self, values: FloatArray) -> None:
        there = values[~np.isnan(values)]
        other = there[there != 0]
        inner = np.linspace(0, 1, BINS + 1)[1:-1]
        self.edges = np.unique(np.quantile(other, inner)) if len(other) else np.zeros(0)
        self.count = len(self.edges) + 3
        scaled = _scaled(there)
        self.mean = float(scaled.mean()) if len(scaled) else 0.0
        self.sd = float(scaled.std()) if len(scaled) else 0.0

    def of(self, values: FloatArray) -> IntArray:
        out = np.searchsorted(self.edges, np.nan_to_num(values), side="right").astype(np.int64)
        out[values == 0] = self.count - 2
        out[np.isnan(values)] = self.count - 1
        return out

    def term(self, values: FloatArray) -> FloatArray:
        return np.nan_to_num((_scaled(values) - self.mean) / (self.sd or 1.0))


def _numbers(
    column: str,
    before: pl.Series,
    gone: npt.NDArray[np.bool_],
    after: pl.Series,
    blank: npt.NDArray[np.bool_],
) -> Reading:
    x, z = _floats(before, gone), _floats(after, blank)
    bins = _Bins(x)
    return Reading(
        column,
        "number",
        bins.of(x),
        bins.of(z),
        np.eye(bins.count),
        bins.term(x)[:, None],
        bins.term(z)[:, None],
        1.0 - max(0.0, float(blank.mean() - gone.mean())) if len(z) else 1.0,
    )


def _text(values: pl.Series) -> pl.Series:
    """Values as text, whole numbers without a point."""
    if values.dtype.is_float():
        whole = values.cast(pl.Int64, strict=False)
        if (whole.cast(pl.Float64) == values).fill_null(True).all():
            values = whole
    return values.cast(pl.String)


def _classes(
    data: Microdata,
    column: str,
    before: pl.Series,
    gone: npt.NDArray[np.bool_],
    after: pl.Series,
    blank: npt.NDArray[np.bool_],
    *,
    number: bool,
) -> Reading:
    names = _text(before)
    levels = _levels(before, gone, names)
    place = {name: i for i, name in enumerate(levels)}
    m = len(levels)
    x = _coded(names, place, gone, m)
    count = np.bincount(x, minlength=m + 1).astype(np.float64)
    temporal = before.dtype.is_numeric() or before.dtype.is_temporal()
    ordered = (temporal and data.kind(column) != "categorical") or data.kind(column) == "ordinal"
    # Bins: of a number its own; of ordered levels neighbours of about equal counts; else the frequent ones.
    if number:
        bins = _Bins(_floats(before, gone))
        own = _floats(before.gather(_firsts(x, m)), np.zeros(m, np.bool_))
        to, score = np.append(bins.of(own), bins.count - 1), np.append(bins.term(own), 0.0)
        width = bins.count
    else:
        to, width = _level_bins(count, m, ordered)
        score = np.append(np.arange(m, dtype=np.float64), 0.0)
        score[m] = float(count[:m] @ score[:m]) / max(count[:m].sum(), 1.0)
    held = _members(levels, names, gone, _text(after), blank, numeric=before.dtype.is_numeric())
    labels = list(held)
    code = {name: i for i, name in enumerate(labels)}
    z = _coded(_text(after), code, blank, len(labels))
    stands = np.zeros((len(labels) + 1, m + 1))
    for i, label in enumerate(labels):
        stands[i, held[label]] = 1.0 / max(len(held[label]), 1)
    share = np.bincount(z, minlength=len(labels) + 1)[: len(labels)].astype(np.float64)
    margin = (
        share @ stands[: len(labels)] / max(share.sum(), 1.0) if share.sum() else np.full(m + 1, 1 / (m + 1))
    )
    blanks, was = float(blank.mean()) if len(z) else 0.0, count[m] / max(count.sum(), 1.0)
    still = min(1.0, was / blanks) if blanks > 0 else 0.0
    stands[-1] = (1 - still) * margin
    stands[-1, m] += still
    spread = stands @ np.eye(width)[to]
    if ordered or number:
        x_terms, z_terms = score[x][:, None], (stands @ score)[z][:, None]
        sd = float(x_terms.std()) or 1.0
        x_terms, z_terms = (x_terms - x_terms.mean()) / sd, (z_terms - x_terms.mean()) / sd
    else:
        used = range(1, min(4, width))
        x_terms, z_terms = np.eye(width)[to][x][:, used], spread[z][:, used]
    kept = _entropy_kept(count[:m], held) * (1.0 - max(0.0, blanks - was))
    kind: Literal["number", "ordered", "category"] = (
        "number" if number else "ordered" if ordered else "category"
    )
    return Reading(column, kind, to[x], z, spread, x_terms, z_terms, kept)


def _levels(before: pl.Series, gone: npt.NDArray[np.bool_], names: pl.Series) -> list[str]:
    frame = pl.DataFrame({"v": before, "t": names}).filter(pl.Series(~gone))
    by = "v" if frame.schema["v"] not in (pl.Categorical, pl.Enum) else "t"
    return frame.unique("t").sort(by)["t"].to_list()


def _firsts(codes: IntArray, m: int) -> IntArray:
    first = np.zeros(m + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first[:m]


def _coded(names: pl.Series, place: dict[str, int], gone: npt.NDArray[np.bool_], otherwise: int) -> IntArray:
    codes = names.replace_strict(
        list(place), list(place.values()), default=otherwise, return_dtype=pl.Int64
    ).fill_null(otherwise)
    out: IntArray = codes.to_numpy().copy()
    out[gone] = otherwise
    return out


def _level_bins(count: FloatArray, m: int, ordered: bool) -> tuple[IntArray, int]:
    """The bin of each level (and, last, of missing)."""
    most = min(LEVELS, m)
    if ordered and m > LEVELS:
        middle = (np.cumsum(count[:m]) - count[:m] / 2) / max(count[:m].sum(), 1.0)
        place = np.minimum((middle * most).astype(np.int64), most - 1)
        to = np.unique(place, return_inverse=True)[1].astype(np.int64)
    else:
        to = np.full(m, most - 1, np.int64)
        frequent = np.argsort(-count[:m], kind="stable")[: most if m <= LEVELS else most - 1]
        to[frequent] = np.arange(len(frequent))
    width = int(to.max(initial=-1)) + 2
    return np.append(to, width - 1), width


def _members(
    levels: list[str],
    names: pl.Series,
    gone: npt.NDArray[np.bool_],
    released: pl.Series,
    blank: npt.NDArray[np.bool_],
    *,
    numeric: bool,
) -> dict[str, IntArray]:
    """The original levels that each released value stands for."""
    place = {name: i for i, name in enumerate(levels)}
    labels = released.filter(pl.Series(~blank)).drop_nulls().unique().sort().to_list()
    values = np.array([np.nan if v is None else float(v) for v in levels]) if numeric else np.zeros(0)
    held: dict[str, IntArray] = {}
    strange = []
    for label in labels:
        if label in place:
            held[label] = np.array([place[label]])
            continue
        span = label_span(label) if numeric else None
        if span is None:
            strange.append(label)
            continue
        inside = (values >= (-np.inf if span.low is None else span.low)) & (
            values <= (np.inf if span.high is None else span.high)
        )
        held[label] = np.flatnonzero(inside)
    covered = {int(i) for at in held.values() for i in at}
    left = np.array([i for i in range(len(levels)) if i not in covered], np.int64)
    whole = np.arange(len(levels))
    if len(strange) > 1 and len(left) and len(names) == len(released):
        held |= _by_lift(levels, left, strange, names, gone, released, blank)
    else:
        # One class of its own name holds what is released under no other; a number out of range holds
        # nothing.
        held |= {label: left if len(left) else whole for label in strange}
    return {label: at if len(at) else whole for label, at in held.items()}


def _by_lift(
    levels: list[str],
    left: IntArray,
    strange: list[str],
    names: pl.Series,
    gone: npt.NDArray[np.bool_],
    released: pl.Series,
    blank: npt.NDArray[np.bool_],
) -> dict[str, IntArray]:
    """Several classes whose names say nothing: each level is in the one it meets most above chance."""
    open_levels = [levels[i] for i in left]
    x = _coded(names, {n: i for i, n in enumerate(open_levels)}, gone, len(open_levels))
    z = _coded(released, {n: i for i, n in enumerate(strange)}, blank, len(strange))
    table = np.zeros((len(open_levels) + 1, len(strange) + 1))
    np.add.at(table, (x, z), 1.0)
    table = table[:-1, :-1]
    lift = table / np.maximum(table.sum(0, keepdims=True), 1.0)
    best = lift.argmax(1)
    return {label: left[best == j] for j, label in enumerate(strange)}


def _entropy_kept(count: FloatArray, held: dict[str, IntArray]) -> float:
    """The share of a column's entropy that its classes can tell; overlapping classes count as the
    coarsest."""
    total = count.sum()
    if total <= 0:
        return 1.0
    group = np.arange(len(count))
    for at in held.values():
        if len(at) > 1:
            group[np.isin(group, group[at])] = group[at].min()
    whole, now = _entropy(count), _entropy(np.bincount(group, count))
    return now / whole if whole > 0 else 1.0


def _entropy(count: npt.NDArray[Any]) -> float:
    share = count[count > 0] / count.sum()
    return float(-(share * np.log(share)).sum())
