"""Deal and repair: one region of the file at a time.

A region is a run of whole clusters. In each of its clusters every column's values are put in the order
of normal draws that share the region's pooled within-cluster correlation; then two values of one column
and one cluster change places as long as that brings the region's cross moments nearer to the original's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.draws import Draws
from sfumato.masks.cluster_shuffle.edited import Edited, without_edits
from sfumato.masks.cluster_shuffle.keeping import FeatureArray, Kept
from sfumato.parallel import in_threads
from sfumato.stats.levels import CodeArray

TRIES: Final = 240
"""Exchanges tried a record, at most."""
_ROUND: Final = 4
_GOAL: Final = 0.02
"""Where a repair stops: the rms error of a moment, in standard errors 1/√n of a correlation."""
_SLOW: Final = 0.007


@dataclass(frozen=True)
class Region:
    """A run of clusters, and the numbers that the release keeps of it."""

    begin: int
    end: int


@dataclass(frozen=True)
class Dealt:
    """What a region was dealt: codes in the order of rows, and how near its moments are."""

    codes: CodeArray
    exchanges: int
    rms: float
    worst: float
    together: int = 0
    """Rows whose edited columns stay together, where nothing else would keep an edit."""


def regions(sizes: IntArray, part: IntArray, least: int) -> list[Region]:
    """Runs of clusters: the parts of the file, small neighbours joined until they have ``least`` records.

    ``sizes`` and ``part`` are the clusters'; parts are runs of clusters already.
    """
    ends = np.cumsum(sizes)
    last = np.flatnonzero(np.diff(part, append=part[-1] + 1))
    cuts: list[int] = []
    begun = 0
    for cluster in last:
        if ends[cluster] - begun >= least:
            cuts.append(int(ends[cluster]))
            begun = int(ends[cluster])
    total = int(ends[-1])
    cuts = [*cuts[:-1], total] if cuts else [total]
    return [Region(a, b) for a, b in zip([0, *cuts[:-1]], cuts, strict=True)]


@dataclass(frozen=True)
class Work:
    """What all regions are dealt from: rows stand cluster by cluster."""

    codes: CodeArray
    """The original's."""
    cluster: IntArray
    names: tuple[str, ...]
    aims: tuple[npt.NDArray[np.float32] | None, ...]
    """By column, the rows' numbers before they were blurred."""
    edits: Edited | None = None


def deal_all(work: Work, found: Sequence[Region], what: Kept, draws: Draws) -> list[Dealt]:
    """Every region, dealt and repaired."""
    return in_threads(lambda at: _dealt_and_repaired(work, found[at], at, what, draws), range(len(found)))


def deal_again(
    work: Work, found: Sequence[Region], what: Kept, dealt: Sequence[Dealt], draws: Draws, turn: int,
    clusters: BoolArray,
) -> list[Dealt]:  # fmt: skip
    """The same, but these clusters anew by other lots, and not repaired; ``what`` is kept of the others."""

    def one(at: int) -> Dealt:
        region, was = found[at], dealt[at]
        rows = clusters[work.cluster[region.begin : region.end]]
        if not rows.any():
            return was
        fresh, fixed = _deal(work, region, at, what, draws, str(turn))
        codes = np.where(rows[:, None], fresh, was.codes)
        gaps = _gaps(work, region, what, what.features(codes), what.row_weights(codes))
        return Dealt(codes, was.exchanges, *_errors(*gaps, what), max(was.together, int(fixed.sum())))

    return in_threads(one, range(len(found)))


def _deal(
    work: Work, region: Region, at: int, what: Kept, draws: Draws, turn: str = ""
) -> tuple[CodeArray, BoolArray]:
    """A region's codes dealt and mended, and the rows whose edited columns stay together."""
    from sfumato.kernels import shuffle

    codes, cluster = work.codes[region.begin : region.end], work.cluster[region.begin : region.end]
    n, p = codes.shape
    start = _starts(cluster)
    lots = np.empty((p, n))
    for j, name in enumerate(work.names):
        lots[j] = draws.stream(name, stratum=turn, purpose="deal").normal(region.begin, n)
    if what.tied:
        ranked = np.empty((n, p), np.float32)
        for j in range(p):
            ranked[:, j] = what.scores[j].astype(np.float32)[codes[:, j]]
        shuffle.correlated(lots, shuffle.root(shuffle.pooled_products(ranked, start)))
    out = np.empty((n, p), np.int32)
    for j in range(p):
        column = np.empty(n, np.int32)
        shuffle.deal_column(np.ascontiguousarray(codes[:, j]), start, lots[j], column)
        out[:, j] = column
    if work.edits is None:
        return out, np.zeros(n, np.bool_)
    stream = draws.stream(stratum=f"{at} {turn}".strip(), purpose="mend")
    return out, work.edits.mended(codes, out, _numbered(cluster), start, stream)


def _dealt_and_repaired(work: Work, region: Region, at: int, what: Kept, draws: Draws) -> Dealt:
    from sfumato.kernels import shuffle

    out, fixed = _deal(work, region, at, what, draws)
    if what.keep == "none":
        return Dealt(out, 0, 0.0, 0.0, int(fixed.sum()))
    now, weight = what.features(out), what.row_weights(out)
    gap, heavy = _gaps(work, region, what, now, weight)
    cluster = work.cluster[region.begin : region.end]
    own, start, n = _numbered(cluster), _starts(cluster), len(cluster)
    goal = _entries(what) * _GOAL**2 / n
    stream = draws.stream(stratum=str(at), purpose="repair")
    exchanges, left = 0, np.inf
    rules = work.edits or (None if what.plain else without_edits(out.shape[1]))
    for turn in range(TRIES // _ROUND):
        words = stream.bits(turn * _ROUND * n, _ROUND * n)
        if rules is None:
            done, now_left = shuffle.repair(now, what.first, out, own, start, gap, words, goal)
        else:
            done, now_left = rules.repaired(
                now, what, out, own, start, fixed, gap, weight, heavy, words, goal
            )
        exchanges += done
        if now_left <= goal or now_left > (1 - _SLOW) * left:
            break
        left = now_left
    return Dealt(out, exchanges, *_errors(gap, heavy, what), int(fixed.sum()))


# -- how near -------------------------------------------------------------------------------------


def _gaps(
    work: Work, region: Region, what: Kept, now: FeatureArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    codes = work.codes[region.begin : region.end]
    aims = [None if a is None else a[region.begin : region.end] for a in work.aims]
    return what.gaps(now, weight, what.features(codes, aims), what.row_weights(codes))


def _errors(gap: FloatArray, heavy: FloatArray, what: Kept) -> tuple[float, float]:
    """The rms and the largest error of a moment."""
    rms = np.sqrt(((gap**2).sum() + (heavy**2).sum()) / _entries(what))
    return float(rms), largest(gap, heavy)


def largest(gap: FloatArray, heavy: FloatArray) -> float:
    """The largest change of a moment, weighted ones included."""
    return max(float(np.abs(gap).max(initial=0.0)), float(np.abs(heavy).max(initial=0.0)))


def _entries(what: Kept) -> int:
    """How many entries of the gaps matter."""
    m = len(what.main)
    return max(int(what.on.sum()) + m * (m - 1), 1)


def _numbered(cluster: IntArray) -> CodeArray:
    """Clusters from 0 on, these cluster by cluster."""
    return np.cumsum(np.diff(cluster, prepend=cluster[:1]) != 0).astype(np.int32)


def _starts(cluster: IntArray) -> IntArray:
    """Where each cluster begins, these cluster by cluster."""
    return np.flatnonzero(np.diff(cluster, prepend=-1, append=-1)).astype(np.int64)
