"""Deal and repair: one region of the file at a time.

A region is a run of whole clusters. In each of its clusters every column's values are put in the order
of normal draws that share the region's pooled within-cluster correlation; then two values of one column
and one cluster change places as long as that brings the region's cross moments nearer to the original's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from sfumato.data.microdata import FloatArray, IntArray
from sfumato.draws import Draws
from sfumato.masks.cluster_shuffle.edited import Edited
from sfumato.parallel import in_threads
from sfumato.stats.levels import CUTS, CodeArray, Levels, features, scores

Keep = Literal["pairs", "moments", "values", "none"]
"""What is kept, from much to nothing; ``values`` are moments of values, without scores and flags."""

MOST_KEPT: Final = 0.1
"""Kept numbers a cell, at most: with more of them a repair can rebuild whole people."""
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


@dataclass(frozen=True)
class Kept:
    """What is kept of each column: tables of features by level, and how many cross moments they make."""

    keep: Keep
    tables: tuple[tuple[FloatArray, ...], ...]
    scores: tuple[FloatArray, ...]

    @property
    def numbers(self) -> int:
        """Cross moments and pooled correlations of one region."""
        if self.keep == "none":
            return 0
        sizes = [len(t) for t in self.tables]
        p = len(sizes)
        return (sum(sizes) ** 2 - sum(s * s for s in sizes)) // 2 + p * (p - 1) // 2


def kept(columns: Sequence[Levels], keep: Keep) -> Kept:
    if keep == "none":
        return Kept(keep, tuple(() for _ in columns), ())
    cuts = CUTS if keep == "pairs" else ()
    few = keep == "values"
    tables = tuple(tuple(features(c, cuts=cuts)[: 1 if few else None]) for c in columns)
    return Kept(keep, tables, tuple(scores(c) for c in columns))


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


def deal_all(
    codes: CodeArray, cluster: IntArray, found: Sequence[Region], what: Kept, names: Sequence[str],
    draws: Draws, edits: Edited | None = None,
) -> list[Dealt]:  # fmt: skip
    """Every region, dealt and repaired; ``codes`` are the original's, rows cluster by cluster."""
    return in_threads(
        lambda at: _deal(
            codes[found[at].begin : found[at].end],
            cluster[found[at].begin : found[at].end],
            found[at].begin,
            what,
            names,
            draws,
            at,
            edits,
        ),
        range(len(found)),
    )


def _deal(
    codes: CodeArray, cluster: IntArray, begin: int, what: Kept, names: Sequence[str], draws: Draws, at: int,
    edits: Edited | None,
) -> Dealt:  # fmt: skip
    from sfumato.kernels import shuffle

    n, p = codes.shape
    own = (cluster - cluster[0]).astype(np.int32)
    start = np.concatenate([[0], np.cumsum(np.bincount(own))])
    lots = np.empty((p, n))
    for j, name in enumerate(names):
        lots[j] = draws.stream(name, purpose="deal").normal(begin, n)
    if what.keep != "none":
        ranked = np.empty((n, p), np.float32)
        for j in range(p):
            ranked[:, j] = what.scores[j].astype(np.float32)[codes[:, j]]
        shuffle.correlated(lots, shuffle.root(shuffle.pooled_products(ranked, start)))
    out = np.empty((n, p), np.int32)
    for j in range(p):
        column = np.empty(n, np.int32)
        shuffle.deal_column(np.ascontiguousarray(codes[:, j]), start, lots[j], column)
        out[:, j] = column
    del lots
    together = 0
    if edits is not None:
        fixed = edits.mended(codes, out, own, start, draws.stream(stratum=str(at), purpose="mend"))
        together = int(fixed.sum())
    if what.keep == "none":
        return Dealt(out, 0, 0.0, 0.0, together)
    first = np.concatenate([[0], np.cumsum([len(t) for t in what.tables])]).astype(np.int64)
    wanted, now = _features(codes, what, first), _features(out, what, first)
    gap = shuffle.moment_gap(now, wanted)
    del wanted
    shuffle.own_pairs_off(gap, first)
    count = max(int(first[-1] ** 2 - (np.diff(first) ** 2).sum()), 1)  # entries of gap that matter
    goal = count * _GOAL**2 / n
    stream = draws.stream(stratum=str(at), purpose="repair")
    exchanges, left = 0, np.inf
    for turn in range(TRIES // _ROUND):
        words = stream.bits(turn * _ROUND * n, _ROUND * n)
        if edits is None:
            done, now_left = shuffle.repair(now, first, out, own, start, gap, words, goal)
        else:
            done, now_left = edits.repaired(now, first, out, own, start, fixed, gap, words, goal)
        exchanges += done
        if now_left <= goal or now_left > (1 - _SLOW) * left:
            break
        left = now_left
    rms, worst = float(np.sqrt((gap**2).sum() / count)), float(np.abs(gap).max(initial=0.0))
    return Dealt(out, exchanges, rms, worst, together)


def _features(
    codes: CodeArray, what: Kept, first: IntArray
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    out = np.empty((len(codes), int(first[-1])), np.float32)
    u = 0
    for j, tables in enumerate(what.tables):
        for table in tables:
            out[:, u] = table.astype(np.float32)[codes[:, j]]
            u += 1
    return out
