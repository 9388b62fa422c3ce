"""From weights to links: the 1-1 assignment with the greatest total weight, block by block.

Small blocks are dense matrices; a block with more than ``DENSE_PAIRS`` pairs goes the sparse way: each
record's best candidates, then the exact optimum over those. There, a record that gets none of its
candidates counts as much as the worst of them would, and stays without a link. No array of all pairs
is ever made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sfumato.masks.base import in_threads, threads
from sfumato.microdata import BoolArray, FloatArray, IntArray
from sfumato.risk.linkage.blocks import Blocks
from sfumato.risk.linkage.compare import Fields

DENSE_PAIRS: Final = 9_000_000
"""The largest block that is held as a matrix (72 MB of weights)."""
_TASK_PAIRS: Final = 2_000_000


def linkage_kernels() -> Any:
    """The kernels; loading them loads numba, so it waits until they are needed."""
    from sfumato.kernels import linkage

    return linkage


@dataclass(frozen=True)
class Links:
    """Who was linked to whom, by row positions in the two files."""

    match: IntArray
    """The right record of each left record, −1 for none."""
    weight: FloatArray
    """The weight of each link (NaN for none)."""
    nearest: FloatArray
    """The chance that a draw among a record's nearest right records hits the truth."""
    pairs: int
    """How many pairs were compared."""
    sparse_blocks: int = 0


def link(
    fields: Fields,
    blockings: Blocks | Sequence[Blocks],
    truth: IntArray,
    *,
    one_to_one: bool = True,
    candidates: int = 32,
    dense_pairs: int = DENSE_PAIRS,
) -> Links:
    """Link the left records to the right ones.

    ``truth[i]`` is the right record that left record i belongs to (−1: none); it is used to judge
    the nearest neighbours, never to link. With several blockings a pair is compared if it shares a
    block in any of them, and the assignment is over all of these pairs together (the sparse way).
    """
    if isinstance(blockings, Blocks):
        return _one_blocking(fields, blockings, truth, one_to_one, candidates, dense_pairs)
    if len(blockings) == 1:
        return _one_blocking(fields, blockings[0], truth, one_to_one, candidates, dense_pairs)
    found = [_candidates(fields, blocks, truth, candidates) for blocks in blockings]
    n, N = fields.left_records, fields.right_records
    rows, cols, weights = (np.concatenate([f[k] for f in found]) for k in range(3))
    _, once = np.unique(rows * N + cols, return_index=True)
    rows, cols, weights = rows[once], cols[once], weights[once]
    nearest = np.max([f[3] for f in found], axis=0)
    pairs = sum(blocks.pairs for blocks in blockings)
    match, weight = _solve(rows, cols, weights, n, N, one_to_one)
    return Links(match, weight, nearest, pairs, sum(len(b) for b in blockings))


def _one_blocking(
    fields: Fields, blocks: Blocks, truth: IntArray, one_to_one: bool, candidates: int, dense_pairs: int
) -> Links:
    kernels = linkage_kernels()
    sorted_fields, sorted_truth = _in_order(fields, blocks, truth)
    arrays = sorted_fields.arrays()
    total = len(blocks.left)
    match = np.full(total, -1, dtype=np.int64)
    weight = np.full(total, np.nan)
    nearest = np.zeros(total)
    left, right = blocks.sizes
    work = left * right
    dense = work <= dense_pairs

    def run(task: tuple[int, int]) -> None:
        kernels.link_blocks(
            *task,
            blocks.left_starts,
            blocks.right_starts,
            *arrays,
            sorted_truth,
            one_to_one,
            match,
            weight,
            nearest,
        )

    in_threads(run, _tasks(work, dense))
    for b in np.flatnonzero(~dense):
        r0, r1 = int(blocks.right_starts[b]), int(blocks.right_starts[b + 1])
        l0, l1 = int(blocks.left_starts[b]), int(blocks.left_starts[b + 1])
        places, weights = _top(arrays, sorted_truth, nearest, (l0, l1, r0, r1), candidates)
        rows = np.repeat(np.arange(l1 - l0), places.shape[1])
        found, its_weight = _solve(rows, places.ravel() - r0, weights.ravel(), l1 - l0, r1 - r0, one_to_one)
        match[l0:l1] = np.where(found >= 0, found + r0, -1)
        weight[l0:l1] = its_weight
    out_match = np.full(fields.left_records, -1, dtype=np.int64)
    out_match[blocks.left] = np.where(match >= 0, blocks.right[match], -1)
    out_weight = np.full(fields.left_records, np.nan)
    out_weight[blocks.left] = np.where(match >= 0, weight, np.nan)
    out_nearest = np.zeros(fields.left_records)
    out_nearest[blocks.left] = nearest
    return Links(out_match, out_weight, out_nearest, blocks.pairs, int((~dense).sum()))


def _in_order(fields: Fields, blocks: Blocks, truth: IntArray) -> tuple[Fields, IntArray]:
    """The fields in the order of the blocks, and the truth as places in that order (same block only)."""
    place = np.full(fields.right_records + 1, -1, dtype=np.int64)
    place[blocks.right] = np.arange(len(blocks.right))
    goal = place[truth[blocks.left]]
    left_sizes, _ = blocks.sizes
    low = np.repeat(blocks.right_starts[:-1], left_sizes)
    high = np.repeat(blocks.right_starts[1:], left_sizes)
    goal = np.where((goal >= low) & (goal < high), goal, -1)
    return fields.take(blocks.left, blocks.right), goal


def _tasks(work: IntArray, dense: BoolArray) -> list[tuple[int, int]]:
    """Runs of neighbouring dense blocks of about equal work, the blocks within a run in their order."""
    tasks: list[tuple[int, int]] = []
    begin, load = None, 0
    for b in range(len(work)):
        if not dense[b]:
            if begin is not None:
                tasks.append((begin, b))
            begin, load = None, 0
            continue
        if begin is None:
            begin = b
        load += int(work[b])
        if load >= _TASK_PAIRS:
            tasks.append((begin, b + 1))
            begin, load = None, 0
    if begin is not None:
        tasks.append((begin, len(work)))
    return tasks


def _top(
    arrays: tuple[FloatArray, ...],
    truth: IntArray,
    nearest: FloatArray,
    block: tuple[int, int, int, int],
    candidates: int,
) -> tuple[IntArray, FloatArray]:
    """The best candidates of every left record of one block, on several threads."""
    kernels = linkage_kernels()
    l0, l1, r0, r1 = block
    k = min(candidates, r1 - r0)
    places = np.empty((l1 - l0, k), dtype=np.int64)
    weights = np.empty((l1 - l0, k))
    step = max(1, -(-(l1 - l0) // (4 * threads())))

    def run(first: int) -> None:
        last = min(first + step, l1)
        rows = slice(first - l0, last - l0)
        kernels.top_candidates(first, last, r0, r1, *arrays, truth, places[rows], weights[rows], nearest)

    in_threads(run, range(l0, l1, step))
    return places, weights


def _candidates(
    fields: Fields, blocks: Blocks, truth: IntArray, candidates: int
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """The candidate pairs of one blocking: left, right, weight; and the nearest neighbours' shares."""
    kernels = linkage_kernels()
    sorted_fields, sorted_truth = _in_order(fields, blocks, truth)
    arrays = sorted_fields.arrays()
    near = np.zeros(len(blocks.left))

    def run(b: int) -> tuple[IntArray, IntArray, FloatArray]:
        r0, r1 = int(blocks.right_starts[b]), int(blocks.right_starts[b + 1])
        l0, l1 = int(blocks.left_starts[b]), int(blocks.left_starts[b + 1])
        k = min(candidates, r1 - r0)
        places, weights = np.empty((l1 - l0, k), dtype=np.int64), np.empty((l1 - l0, k))
        kernels.top_candidates(l0, l1, r0, r1, *arrays, sorted_truth, places, weights, near)
        return np.repeat(blocks.left[l0:l1], k), blocks.right[places.ravel()], weights.ravel()

    parts = in_threads(run, range(len(blocks)))
    nearest = np.zeros(fields.left_records)
    nearest[blocks.left] = near
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), nearest
    rows, cols, weights = (np.concatenate([p[k] for p in parts]) for k in range(3))
    return rows, cols, weights, nearest


def _solve(
    rows: IntArray, cols: IntArray, weights: FloatArray, n: int, n_cols: int, one_to_one: bool
) -> tuple[IntArray, FloatArray]:
    """Each row's column (−1: none) and weight, from its candidate edges."""
    order = np.argsort(rows, kind="stable")
    cols, weights = cols[order], weights[order]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    edge = solve_sparse(starts, cols, weights, n_cols) if one_to_one else _best_edges(starts, weights)
    match = np.full(n, -1, dtype=np.int64)
    weight = np.full(n, np.nan)
    has = edge >= 0
    match[has], weight[has] = cols[edge[has]], weights[edge[has]]
    return match, weight


def solve_sparse(
    starts: IntArray, cols: IntArray, weights: FloatArray, n_cols: int, outside: FloatArray | None = None
) -> IntArray:
    """The edges of the best 1-1 assignment over sparse candidates: each row's edge, or −1.

    ``outside`` is what a row counts that gets no edge; by default the weight of its worst one.
    """
    kernels = linkage_kernels()
    if outside is None:
        outside = np.zeros(len(starts) - 1)
        has = np.diff(starts) > 0
        if has.any():
            outside[has] = np.minimum.reduceat(weights, starts[:-1][has])
    edges, _, _ = kernels.assign_sparse(starts, cols, weights, outside, n_cols)
    return np.asarray(edges)


def _best_edges(starts: IntArray, weights: FloatArray) -> IntArray:
    edge = np.full(len(starts) - 1, -1, dtype=np.int64)
    if not len(weights):
        return edge
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.lexsort((-weights, rows))
    first = np.flatnonzero(np.diff(rows[order], prepend=-1))
    edge[rows[order][first]] = order[first]
    return edge
