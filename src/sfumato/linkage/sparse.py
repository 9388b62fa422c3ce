"""The 1-1 assignment where there are too many pairs for a matrix: by candidates, and exact all the same.

Each record keeps its best candidates, and the assignment over those is solved with its dual prices: u
for the known records, v ≥ 0 for the released ones. It is the best over all pairs if no pair that was
left out has weight > u + v. A record's left-out pairs weigh no more than its worst candidate, which
proves most records without another look; those of the others are scanned, and where a pair would
improve the total, it becomes a candidate and the assignment is solved again. Where that doesn't end
within the rounds allowed, the result says by how much, at most, its total falls short.

Where many records want the same few, that would take hours. They are then served by an auction
(``sfumato.kernels.linkage_auction``), which looks at all pairs too and says how far, at most, it is off.

As many records as possible are linked, and among such assignments the heaviest is chosen, as in a
matrix. Records go by their places in the blocks' random order throughout: in file order, a tie would be
broken in favour of the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.linkage.blocks import Blocks
from sfumato.linkage.fields import Fields
from sfumato.parallel import in_threads, threads
from sfumato.waiting import Meter

ROUNDS: Final = 24
"""How often, at most, the candidates grow before an assignment is left unproved."""
HARD: Final = 5e9
"""Unsettled records times candidate pairs, beyond which no proof is tried: it could take hours."""
_MORE: Final = 24  # candidates that a record gets in one round
_EASY: Final = 2e7  # unsettled records times candidate pairs, up to which the exact way is quick
_CROWDED: Final = 0.3  # so many records that want what another wants call for an auction at once
_LAST_STEP: Final = 1e-3  # the auction's last step, as a share of the candidates' mean spread
_SLICE: Final = 2e8  # pairs compared before the auction looks up: Ctrl-C is heard then
_SMALLER: Final = 5.0
RELISTED: Final = 4e10
"""How many pairs an auction may compare again before those who still wait get what is left."""
_EXACT: Final = 1e-9  # rounding, as a share of the weights' range


def sparse_kernels() -> Any:
    """The kernels; loading them loads numba, so it waits until they are needed."""
    from sfumato.kernels import linkage_sparse

    return linkage_sparse


def _compare_kernels() -> Any:
    from sfumato.kernels import linkage

    return linkage


@dataclass(frozen=True)
class Edges:
    """Candidate pairs: rows of one file, rows of the other, weights."""

    rows: IntArray
    cols: IntArray
    weights: FloatArray

    def and_also(self, others: Sequence[Edges], n_cols: int) -> Edges:
        """These pairs and others, each once, by row."""
        all_of = [self, *others]
        rows, cols = (np.concatenate([getattr(e, k) for e in all_of]) for k in ("rows", "cols"))
        weights = np.concatenate([e.weights for e in all_of])
        _, once = np.unique(rows * n_cols + cols, return_index=True)
        return Edges(rows[once], cols[once], weights[once])


@dataclass(frozen=True)
class Solved:
    """Each record's match (−1: none) and weight, and how much heavier a 1-1 assignment could be at most."""

    match: IntArray
    weight: FloatArray
    gap: float
    candidates: int

    @property
    def proved(self) -> bool:
        return self.gap == 0.0


class Scan:
    """All admissible pairs of one blocking, looked through without ever being held."""

    def __init__(
        self, fields: Fields, blocks: Blocks, truth: IntArray, only: BoolArray | None = None
    ) -> None:
        """``only``: the blocks to look at."""
        self.blocks = blocks
        self.fields, self.truth = in_order(fields, blocks, truth)
        self.arrays = self.fields.arrays()
        self.n, self.n_cols = fields.left_records, fields.right_records
        left_sizes, _ = blocks.sizes
        self.low = np.repeat(blocks.right_starts[:-1], left_sizes)
        self.high = np.repeat(blocks.right_starts[1:], left_sizes)
        kept = np.ones(len(blocks), dtype=np.bool_) if only is None else only
        self.places = np.flatnonzero(np.repeat(kept, left_sizes))
        self.nearest = np.zeros(len(blocks.left))
        self.left, self.right = blocks.left, blocks.right

    def renamed(self, left: IntArray, right: IntArray) -> Scan:
        """The same pairs, the records of both files under these new numbers."""
        self.left, self.right = left[self.blocks.left], right[self.blocks.right]
        return self

    def best(self, candidates: int) -> tuple[Edges, FloatArray]:
        """Every record's best candidates, and the most that a pair left out can weigh (−∞: none is)."""
        kernels = _compare_kernels()
        rows = self.places
        width = (self.high - self.low)[rows]
        k = max(1, min(candidates, int(width.max(initial=0))))
        places, weights = np.empty((len(rows), k), dtype=np.int64), np.empty((len(rows), k))
        sizes = np.zeros(len(rows), dtype=np.int64)

        def run(part: tuple[int, int]) -> None:
            kernels.top_candidates(
                *part,
                rows,
                self.low,
                self.high,
                self.arrays,
                self.truth,
                places,
                weights,
                sizes,
                self.nearest,
            )

        in_threads(run, _shares(len(rows)), what=f"comparing {len(rows):,} records with their candidates")
        here = np.arange(k)[None, :] < sizes[:, None]
        left = self.left[rows]
        bound = np.full(self.n, -np.inf)
        bound[left[width > k]] = weights[width > k, 0]
        self.lists = places, weights, sizes
        return Edges(np.repeat(left, sizes), self.right[places[here]], weights[here]), bound

    def auctioned(self, budget: float) -> Solved:
        """All records served by an auction, from the lists of the last look.

        Where that would compare more pairs again than ``budget``, the last in the queue get what is left.
        """
        from sfumato.kernels import linkage_auction as kernels

        places, weights, sizes = self.lists[0].copy(), self.lists[1].copy(), self.lists[2]
        rows, (n, k) = self.places, places.shape
        width = (self.high - self.low)[rows]
        places[np.arange(k)[None, :] >= sizes[:, None]] = -1
        tau = np.where(width > k, weights[:, 0], -np.inf)
        held = np.where(places >= 0, weights, np.nan)
        n_cols = int(self.high.max(initial=0))
        price, owner = np.zeros(n_cols), np.full(n_cols, -1, dtype=np.int64)
        found, weight, queue = np.full(n, -1, dtype=np.int64), np.full(n, np.nan), np.empty(n, dtype=np.int64)
        lists = places, weights, tau, price, owner, found, weight
        steps = self._steps(held)
        meter = Meter(f"assigning {n:,} records 1-1", len(steps))
        waiting = 0
        for eps in steps:
            waiting = kernels.reopen(*lists, eps, queue)
            while waiting and budget > 0:
                waiting, spent = kernels.bid(
                    rows, self.low, self.high, self.arrays, *lists, eps, queue, waiting, min(budget, _SLICE)
                )
                budget -= spent
                meter.advance(0.0)
            meter.advance()
        if waiting:
            rest = queue[:waiting]
            for first, last in _shares(len(rest)):
                kernels.take_leftovers(
                    first, last, rest, rows, self.low, self.high, self.arrays, owner, found, weight
                )
        gap = float(kernels.shortfall(*lists))
        match, value = np.full(self.n, -1, dtype=np.int64), np.full(self.n, np.nan)
        has = found >= 0
        match[self.left[rows[has]]], value[self.left[rows[has]]] = self.right[found[has]], weight[has]
        return Solved(match, value, gap, int(sizes.sum()))

    def _steps(self, held: FloatArray) -> list[float]:
        """The ε of each round, from what is at stake for a person on the mean down to a thousandth of it."""
        inside = float(np.mean(np.nanmax(held, axis=1) - np.nanmin(held, axis=1)))
        # Where everybody's candidates are all alike, what is at stake between persons.
        spread = inside or float(np.nanmax(held) - np.nanmin(held)) or 1.0
        steps = [_LAST_STEP * spread]
        left, right = self.blocks.sizes
        if (left == right).all():  # else prices of earlier rounds would stay on free records
            while steps[-1] < spread:
                steps.append(steps[-1] * _SMALLER)
        return steps[::-1]

    def priced(self, wanted: BoolArray, u: FloatArray, v: FloatArray) -> tuple[Edges, FloatArray]:
        """Pairs of the wanted records with weight > u + v, and the greatest weight − v of each record."""
        kernels = _compare_kernels()
        rows = self.places[wanted[self.left[self.places]]]
        limits, prices = u[self.left[rows]], v[self.right]
        places, weights = np.empty((len(rows), _MORE), dtype=np.int64), np.empty((len(rows), _MORE))
        sizes, best = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), -np.inf)

        def run(part: tuple[int, int]) -> None:
            kernels.priced_candidates(
                *part, rows, self.low, self.high, self.arrays, limits, prices, places, weights, sizes, best
            )

        in_threads(run, _shares(len(rows)))
        here = np.arange(_MORE)[None, :] < sizes[:, None]
        top = np.full(self.n, -np.inf)
        top[self.left[rows]] = best
        return Edges(np.repeat(self.left[rows], sizes), self.right[places[here]], weights[here]), top


def in_order(fields: Fields, blocks: Blocks, truth: IntArray) -> tuple[Fields, IntArray]:
    """The fields in the order of the blocks, and the truth as places in that order (same block only)."""
    place = np.full(fields.right_records + 1, -1, dtype=np.int64)
    place[blocks.right] = np.arange(len(blocks.right))
    goal = place[truth[blocks.left]]
    left_sizes, _ = blocks.sizes
    low = np.repeat(blocks.right_starts[:-1], left_sizes)
    high = np.repeat(blocks.right_starts[1:], left_sizes)
    goal = np.where((goal >= low) & (goal < high), goal, -1)
    return fields.take(blocks.left, blocks.right), goal


def assign_large(
    scans: Sequence[Scan],
    candidates: int,
    *,
    one_to_one: bool = True,
    rounds: int = ROUNDS,
    hard: float = HARD,
    relisted: float = RELISTED,
) -> Solved:
    """The best 1-1 assignment over all pairs of these scans (each record's best pair, if not 1-1).

    Where the first candidates leave too many records unsettled, an auction over all pairs follows. Without
    ``rounds``, or where no auction is possible (several blockings, fewer released records than persons)
    and the exact way would take too long (``hard``), it is the best over the first candidates alone: a
    record to which a left-out pair might be worth more than all it can get stays without a link, and the
    gap isn't known.
    """
    n, n_cols = scans[0].n, scans[0].n_cols
    orders = _random_order(scans, n, n_cols)
    scans = [scan.renamed(*(np.argsort(order) for order in orders)) for scan in scans]
    solved = _assigned(scans, candidates, one_to_one, rounds, hard, relisted)
    match, weight = np.full(n, -1, dtype=np.int64), np.full(n, np.nan)
    match[orders[0]] = np.where(solved.match >= 0, orders[1][solved.match], -1)
    weight[orders[0]] = solved.weight
    return Solved(match, weight, solved.gap, solved.candidates)


def _random_order(scans: Sequence[Scan], n: int, n_cols: int) -> tuple[IntArray, IntArray]:
    """The records of both files as the first blocks have them, the others after them."""
    out = []
    for held, size in ((scans[0].blocks.left, n), (scans[0].blocks.right, n_cols)):
        rest = np.ones(size, dtype=np.bool_)
        rest[held] = False
        out.append(np.concatenate([held, np.flatnonzero(rest)]))
    return out[0], out[1]


def _assigned(
    scans: Sequence[Scan], candidates: int, one_to_one: bool, rounds: int, hard: float, relisted: float
) -> Solved:
    n, n_cols = scans[0].n, scans[0].n_cols
    found = [scan.best(candidates) for scan in scans]
    edges = found[0][0].and_also([f[0] for f in found[1:]], n_cols)
    bound = np.max([f[1] for f in found], axis=0)
    if not len(edges.rows):
        return Solved(np.full(n, -1, dtype=np.int64), np.full(n, np.nan), 0.0, 0)
    favourite = _best_edges(_starts(edges, n), edges.weights)
    if not one_to_one:
        return _chosen(edges, favourite, n, 0.0)
    nothing = _worth_of_nothing(scans, min(n, n_cols))
    left_sizes, right_sizes = scans[0].blocks.sizes
    open_to_all = len(scans) == 1 and bool((left_sizes <= right_sizes).all()) and rounds > 0
    wanted = edges.cols[favourite[favourite >= 0]]
    crowd = len(wanted) - len(np.unique(wanted))
    if open_to_all and crowd > _CROWDED * len(wanted) and crowd * len(edges.rows) > _EASY:
        return scans[0].auctioned(relisted)
    if (favourite >= 0).sum() <= n_cols or not rounds:
        # The most that a left-out pair can weigh stands for all of them: if nobody takes that, the
        # assignment is the best of all.
        edge, _, _ = _solve(edges, np.where(np.isinf(bound), nothing, bound), n, n_cols)
        unsettled = int(((edge < 0) & np.isfinite(bound)).sum())
        if not unsettled:
            return _chosen(edges, edge, n, 0.0)
        if open_to_all and unsettled * len(edges.rows) > _EASY:
            return scans[0].auctioned(relisted)
        if not rounds or unsettled * len(edges.rows) > hard:
            return _chosen(edges, edge, n, np.inf)
    turn = 0
    edge, u, v = _solve(edges, np.full(n, nothing), n, n_cols)
    while True:
        room = _EXACT * (1.0 + float(np.ptp(edges.weights)))
        more = [scan.priced(u < bound - room, u + room, v) for scan in scans]
        missed = np.max([top for _, top in more], axis=0) - u
        gap = float(missed[missed > room].sum())
        if gap == 0.0 or turn == rounds:
            return _chosen(edges, edge, n, gap)
        match = np.where(edge >= 0, edges.cols[edge], -1)
        edges = edges.and_also([found for found, _ in more], n_cols)
        edge, u, v = _solve(edges, np.full(n, nothing), n, n_cols, v, match)
        turn += 1


def _worth_of_nothing(scans: Sequence[Scan], links: int) -> float:
    """What a record without a link counts: so little that one more link is worth any detour."""
    low = min(scan.fields.weight_range()[0] for scan in scans)
    high = max(scan.fields.weight_range()[1] for scan in scans)
    return low - (high - low + 1.0) * (links + 1)


def _starts(edges: Edges, n: int) -> IntArray:
    return np.concatenate([[0], np.cumsum(np.bincount(edges.rows, minlength=n))]).astype(np.int64)


def _solve(
    edges: Edges,
    outside: FloatArray,
    n: int,
    n_cols: int,
    prices: FloatArray | None = None,
    match: IntArray | None = None,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """The best assignment over these edges and its prices, resumed from earlier ones if there are any."""
    kernels, starts = sparse_kernels(), _starts(edges, n)
    if prices is not None:
        edge, u, v = kernels.resume_sparse(starts, edges.cols, edges.weights, outside, prices, match)
        free = np.ones(n_cols, dtype=np.bool_)
        free[edges.cols[edge[edge >= 0]]] = False
        if not v[free].any():
            return edge, u, v
    edge, u, v = kernels.assign_sparse(starts, edges.cols, edges.weights, outside, n_cols)
    return edge, u, v


def _chosen(edges: Edges, edge: IntArray, n: int, gap: float) -> Solved:
    match = np.full(n, -1, dtype=np.int64)
    weight = np.full(n, np.nan)
    has = edge >= 0
    match[has], weight[has] = edges.cols[edge[has]], edges.weights[edge[has]]
    return Solved(match, weight, gap, len(edges.rows))


def _best_edges(starts: IntArray, weights: FloatArray) -> IntArray:
    """Each row's heaviest edge, or −1."""
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.lexsort((-weights, rows))
    first = np.flatnonzero(np.diff(rows[order], prepend=-1))
    edge = np.full(len(starts) - 1, -1, dtype=np.int64)
    edge[rows[order][first]] = order[first]
    return edge


def _shares(n: int) -> list[tuple[int, int]]:
    """0 … n in runs short enough that one can look up between them."""
    step = max(1, min(-(-n // (4 * threads())), 1_000))
    return [(k, min(k + step, n)) for k in range(0, n, step)]
