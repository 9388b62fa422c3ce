"""Deal the blocks of a wide table, mend what breaks edit rules, and bring cross moments back.

Rows stand cluster by cluster, in an order that values decide; every draw is addressed by a row's place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.draws import Draws
from sfumato.masks.cluster_shuffle.blocks import COUPLE, DEPENDANTS, HOUSEHOLD, Wide
from sfumato.masks.cluster_shuffle.clauses import Clauses
from sfumato.stats.levels import CodeArray, scores

TRIES: Final = 2400
"""Exchanges tried a household, at most."""
_ROUND: Final = 24
_SLOW: Final = 0.005
_GOAL: Final = 0.01
_MENDS: Final = 400


@dataclass(frozen=True)
class Pools:
    """Between which rows each kind of block may change places."""

    of: IntArray
    """Rows × pools: each row's."""
    start: IntArray
    """Pools × (most + 1): where each one's members begin."""
    members: IntArray
    """Places × pools."""


def pools(cluster: IntArray, there: BoolArray, adults: int) -> Pools:
    """The pools of rows with these slots: by partner, by numbers of A and K, all, and by each slot."""
    n, slots = there.shape
    dependants = there[:, 2 : 2 + adults].sum(1) * (slots + 1) + there[:, 2 + adults :].sum(1)
    keys = [np.zeros(n, np.int64)] * 3
    keys[COUPLE], keys[DEPENDANTS], keys[HOUSEHOLD] = there[:, 1].astype(np.int64), dependants, keys[2]
    keys += [there[:, s].astype(np.int64) for s in range(slots)]
    of = np.column_stack(
        [np.unique(cluster * (int(k.max()) + 1) + k, return_inverse=True)[1].ravel() for k in keys]
    ).astype(np.int64)
    start = np.zeros((of.shape[1], int(of.max()) + 2), np.int64)
    members = np.empty_like(of)
    for p in range(of.shape[1]):
        members[:, p] = np.argsort(of[:, p], kind="stable")
        start[p, 1:] = np.cumsum(np.bincount(of[:, p], minlength=int(of.max()) + 1))
    return Pools(of, start, members)


def deal_blocks(wide: Wide, own: CodeArray, cluster: IntArray, between: Pools, draws: Draws, turn: str = "",
                *, tied: bool = True) -> CodeArray:  # fmt: skip
    """Every block to the rows of its pool in the order of normal draws, which share the pooled correlation
    of the blocks' scores within clusters (independent ones unless ``tied``)."""
    from sfumato.kernels import shuffle

    n = len(own)
    single = [w for b in wide.blocks for w in b.apart]
    score = np.column_stack(
        [wide.scores(b) for b in wide.blocks]
        + [_scores(wide, w) for w in single]
    ).astype(np.float32)  # fmt: skip
    lots = np.empty((score.shape[1], n))
    names = [b.name for b in wide.blocks] + [wide.columns[w].name for w in single]
    for j, name in enumerate(names):
        lots[j] = draws.stream(name, stratum=turn, purpose="deal").normal(0, n)
    if tied:
        start = np.concatenate([[0], np.cumsum(np.bincount(cluster))])
        shuffle.correlated(lots, shuffle.root(shuffle.pooled_products(score, start)))
    out = own.copy()
    place = np.arange(n)
    for j, block in enumerate(wide.blocks):
        pool = between.of[:, block.pool]
        to, taken = np.lexsort((lots[j], pool)), np.lexsort((place, score[:, j], pool))
        out[to, block.begin : block.end] = own[taken, block.begin : block.end]
    kind, at = wide.kinds()
    pool_of = {w: b.pool for b in wide.blocks for w in b.apart}
    for j, w in enumerate(single, start=len(wide.blocks)):
        code = out[:, w]
        key = between.of[:, pool_of[w]] * 4 + np.where(code < 0, 3, kind[at[w] + np.maximum(code, 0)])
        to, taken = np.lexsort((lots[j], key)), np.lexsort((place, code, key))
        fresh = code.copy()
        fresh[to] = code[taken]
        out[:, w] = fresh
    return out


def _scores(wide: Wide, w: int) -> FloatArray:
    table, codes = scores(wide.columns[w].levels), wide.codes[:, w]
    return np.where(codes >= 0, table[np.maximum(codes, 0)], 0.0)


def mended(
    wide: Wide, codes: CodeArray, between: Pools, rules: Clauses, draws: Draws
) -> tuple[int, IntArray]:
    """Mend rows that break clauses, in place: how many there were, and which are left."""
    from sfumato.kernels.blocks import count_broken, mend

    if not rules.literals:
        return 0, np.empty(0, np.int64)
    numbers, at = wide.numbers()
    told = rules.arrays()
    before = int((count_broken(codes, *told, numbers, at) > 0).sum())
    moves = np.array([(b.begin, b.end, b.pool) for b in wide.blocks if rules.touching(b.begin, b.end)])
    words = draws.stream(purpose="mend").bits(0, _MENDS * max(before, 1))
    left = mend(
        codes, moves.astype(np.int64), between.of, between.start, between.members, *told, numbers, at, words
    )
    return before, left


@dataclass(frozen=True)
class Repaired:
    """What a repair did."""

    exchanges: int
    refused: int
    before: float
    rms: float
    worst: float


def repaired(
    wide: Wide, own: CodeArray, codes: CodeArray, between: Pools, rules: Clauses, frozen: BoolArray,
    tables: Sequence[Sequence[FloatArray]], draws: Draws,
) -> Repaired:  # fmt: skip
    """Bring the cross moments of ``codes`` (changed in place) near those of ``own``, the original's."""
    from sfumato.kernels import shuffle
    from sfumato.kernels.blocks import repair_blocks

    n = len(codes)
    first = np.concatenate([[0], np.cumsum([len(t) for t in tables])]).astype(np.int64)
    wanted, now = wide.features(own, tables), wide.features(codes, tables)
    gap = shuffle.moment_gap(now, wanted)
    del wanted
    shuffle.own_pairs_off(gap, first)
    for block in wide.blocks:  # what moves whole keeps the moments inside it
        if not block.apart:
            lo, hi = first[block.begin], first[block.end]
            gap[lo:hi, lo:hi] = 0.0
    count = max(int(first[-1] ** 2 - (np.diff(first) ** 2).sum()), 1)
    goal = count * _GOAL**2 / n
    moves = [(b.begin, b.end, b.pool, 0) for b in wide.blocks]
    moves += [(w, w + 1, b.pool, 1) for b in wide.blocks for w in b.apart]
    touching = [rules.touching(m[0], m[1]) for m in moves]
    touched = np.array([c for own_ in touching for c in own_], np.int64)
    touched_at = np.concatenate([[0], np.cumsum([len(c) for c in touching])]).astype(np.int64)
    kind, kind_at = wide.kinds()
    numbers, at = wide.numbers()
    before = float(np.sqrt((gap**2).sum() / count))
    stream = draws.stream(purpose="repair")
    work: Callable[..., tuple[int, int, float]] = repair_blocks
    exchanges, refused, left = 0, 0, np.inf
    fixed: tuple[Any, ...] = (
        np.array(moves, np.int64), kind, kind_at, between.of, between.start, between.members, frozen,
        touched, touched_at, *rules.arrays(), numbers, at,
    )  # fmt: skip
    none = (np.empty((0, 0), np.bool_), np.empty(0, np.int64), np.empty(0), np.empty((0, 0)))
    for turn in range(TRIES // _ROUND):
        words = stream.bits(turn * _ROUND * n, _ROUND * n)
        done, no, now_left = work(now, first, codes, *fixed, gap, *none, words, goal)
        exchanges, refused = exchanges + done, refused + no
        if now_left <= goal or now_left > (1 - _SLOW) * left:
            break
        left = now_left
    return Repaired(
        exchanges,
        refused,
        before,
        float(np.sqrt((gap**2).sum() / count)),
        float(np.abs(gap).max(initial=0.0)),
    )


def blurred_ages(
    codes: CodeArray,
    columns: Sequence[int],
    ages: FloatArray,
    group: npt.NDArray[np.int64],
    extra: FloatArray,
    least: int,
    lot: FloatArray,
) -> tuple[CodeArray, int]:
    """Age vectors in groups of ``least`` alike ones, all with the ages of one of them, drawn at random.

    ``ages`` are the vectors as numbers, ``extra`` what else makes rows alike, ``group`` who may share.
    Returns the columns' new codes, and how many rows had fewer than ``least`` to share with.
    """
    from sfumato.kernels.blocks import alike_groups

    order = np.lexsort((np.arange(len(codes)), ages.sum(1), group))
    begin = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1)).astype(np.int64)
    made = np.empty(len(order), np.int64)
    alike_groups(np.ascontiguousarray(np.column_stack([ages, extra])[order]), begin, least, made)
    label = np.empty(len(order), np.int64)
    label[order] = made
    by_lot = np.lexsort((lot, label))
    chosen = by_lot[np.searchsorted(label[by_lot], np.arange(int(label.max(initial=-1)) + 1))]
    out = codes[:, list(columns)][chosen[label]]
    few = np.bincount(label)[label] < least
    return out, int(few.sum())
