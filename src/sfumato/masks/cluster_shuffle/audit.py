"""What a shuffle may give away: values that a cluster shares, and people that a repair put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.draws import Draws
from sfumato.stats.levels import CodeArray, Levels

DEALS: Final = 20
"""Independent deals that whole records are counted in, for comparison."""
RARE: Final = 3
"""A value of fewer records is rare; `blur` leaves no rare numbers."""
_LOOKED_AT: Final = 20_000
_THREE_ERRORS: Final = 0.00135


@dataclass(frozen=True)
class Constant:
    """How much of a column is the same within clusters."""

    cells: float
    """Share of clusters with one value."""
    certain: float
    """Of the records with another than the most frequent value, the share whose cluster shares it."""


def constant(levels: Levels, codes: CodeArray, start: IntArray) -> Constant:
    """``codes`` in the order of rows, cluster by cluster."""
    from sfumato.kernels.shuffle import constant_cells

    same = np.empty(len(start) - 1, np.bool_)
    constant_cells(np.ascontiguousarray(codes), start, same)
    usual = int(levels.counts.argmax())
    held, size = codes[start[:-1]], np.diff(start)
    others = int(levels.counts.sum() - levels.counts[usual])
    certain = int(size[same & (held != usual)].sum())
    return Constant(float(same.mean()), certain / others if others else 0.0)


@dataclass(frozen=True)
class Wholes:
    """Rows of the release that are whole records, or hold three rare values of one, and by how much
    they are more than independent deals of the same clusters give."""

    whole: int
    three: int
    whole_by_chance: float
    three_by_chance: float
    too_many: bool
    """Whether either is more than three standard errors above chance."""
    rows: int


def by_chance(columns: Sequence[Levels], own: CodeArray, cluster: IntArray, draws: Draws) -> FloatArray:
    """Both counts in independent deals of the same clusters."""
    from sfumato.kernels.shuffle import deal_column

    keep = _some_clusters(cluster)
    own, cluster = own[keep], cluster[keep]
    start = _starts(cluster)
    out = np.empty((DEALS, 2))
    other = np.empty_like(own)
    for turn in range(DEALS):
        for j, one in enumerate(columns):
            lot = draws.stream(one.name, stratum=str(turn), purpose="audit").uniform(0, len(own))
            column = np.empty(len(own), np.int32)
            deal_column(np.ascontiguousarray(own[:, j]), start, lot, column)
            other[:, j] = column
        out[turn] = _counts(columns, own, other, start).sum(axis=0)
    return out


def wholes(
    columns: Sequence[Levels], own: CodeArray, dealt: CodeArray, cluster: IntArray, chance: FloatArray
) -> Wholes:
    """Counted in the whole file, or in clusters taken evenly from a large one."""
    keep = _some_clusters(cluster)
    own, dealt, cluster = own[keep], dealt[keep], cluster[keep]
    whole, three = _counts(columns, own, dealt, _starts(cluster)).sum(axis=0)
    return Wholes(
        int(whole),
        int(three),
        float(chance[:, 0].mean()),
        float(chance[:, 1].mean()),
        too_many(float(whole), chance[:, 0]) or too_many(float(three), chance[:, 1]),
        len(own),
    )


def tight_clusters(
    columns: Sequence[Levels], own: CodeArray, dealt: CodeArray, cluster: IntArray
) -> BoolArray:
    """The clusters with a row that is a whole record, or holds three rare values of one."""
    return np.asarray(_counts(columns, own, dealt, _starts(cluster)).any(axis=1))


def _counts(columns: Sequence[Levels], own: CodeArray, dealt: CodeArray, start: IntArray) -> IntArray:
    from sfumato.kernels.shuffle import whole_records

    rare = np.concatenate([c.counts < RARE for c in columns])
    at = np.concatenate([[0], np.cumsum([len(c) for c in columns])]).astype(np.int64)
    return np.asarray(whole_records(own, dealt, start, rare, at))


def _starts(cluster: IntArray) -> IntArray:
    """Where each cluster begins, these cluster by cluster."""
    return np.flatnonzero(np.diff(cluster, prepend=-1, append=-1)).astype(np.int64)


def too_many(found: float, chance: FloatArray) -> bool:
    """Whether a count is more than three standard errors above what independent deals give.

    Small counts are judged by the Poisson law (at the same probability, Φ(−3) = 0.00135), whose mean is
    known from these deals alone: the law of a new count is then negative binomial.

    >>> too_many(3, np.array([0.0, 1.0] * 10)), too_many(12, np.array([0.0, 1.0] * 10))
    (False, True)
    """
    from scipy.special import betainc

    deals = len(chance)
    if found <= chance.mean() + 3 * np.sqrt(chance.var(ddof=1) * (1 + 1 / deals)):
        return False
    at_least = betainc(found, chance.sum() + 0.5, 1 / (deals + 1))  # P(count ≥ found)
    return bool(at_least < _THREE_ERRORS)


def _some_clusters(cluster: IntArray) -> IntArray | slice:
    n = len(cluster)
    if n <= _LOOKED_AT:
        return slice(None)
    step = -(-n // _LOOKED_AT)
    return np.flatnonzero(cluster % step == 0)
