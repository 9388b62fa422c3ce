"""From weights to links: the 1-1 assignment with the greatest total weight, block by block.

Small blocks are dense matrices; a block with more than ``DENSE_PAIRS`` pairs goes the sparse way
(``sfumato.linkage.sparse``): each record's best candidates, more of them where the dual prices call
for more. No array of all pairs is ever made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.linkage.blocks import Blocks
from sfumato.linkage.fields import Fields
from sfumato.linkage.sparse import ROUNDS, Scan, assign_large, in_order, sparse_kernels
from sfumato.parallel import in_threads

DENSE_PAIRS: Final = 1_500_000
"""The largest block that is held as a matrix; beyond it candidates and an auction are quicker."""
_TASK_PAIRS: Final = 2_000_000


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
    """How many blocks were assigned by candidates."""
    gap: float = 0.0
    """How much heavier, at most, another 1-1 assignment could be (0: proved the heaviest)."""


def link(
    fields: Fields,
    blockings: Blocks | Sequence[Blocks],
    truth: IntArray,
    *,
    one_to_one: bool = True,
    candidates: int = 32,
    dense_pairs: int = DENSE_PAIRS,
    rounds: int = ROUNDS,
) -> Links:
    """Link the left records to the right ones.

    ``truth[i]`` is the right record that left record i belongs to (−1: none); it is used to judge
    the nearest neighbours, never to link. With several blockings a pair is compared if it shares a
    block in any of them, and the assignment is over all of these pairs together (the sparse way).
    There, each record starts with ``candidates``, and gets more in at most ``rounds`` rounds until
    the assignment is proved the best.
    """
    if isinstance(blockings, Blocks):
        blockings = [blockings]
    if len(blockings) == 1:
        return _one_blocking(fields, blockings[0], truth, one_to_one, candidates, dense_pairs, rounds)
    scans = [Scan(fields, blocks, truth) for blocks in blockings]
    solved = assign_large(scans, candidates, one_to_one=one_to_one, rounds=rounds)
    nearest = np.zeros(fields.left_records)
    for scan in scans:
        nearest[scan.blocks.left] = np.maximum(nearest[scan.blocks.left], scan.nearest)
    pairs = sum(blocks.pairs for blocks in blockings)
    return Links(solved.match, solved.weight, nearest, pairs, sum(len(b) for b in blockings), solved.gap)


def _one_blocking(
    fields: Fields,
    blocks: Blocks,
    truth: IntArray,
    one_to_one: bool,
    candidates: int,
    dense_pairs: int,
    rounds: int,
) -> Links:
    from sfumato.kernels import linkage_dense

    left, right = blocks.sizes
    work = left * right
    dense = work <= dense_pairs
    out_match = np.full(fields.left_records, -1, dtype=np.int64)
    out_weight = np.full(fields.left_records, np.nan)
    out_nearest = np.zeros(fields.left_records)
    gap = 0.0
    if not dense.all():
        scan = Scan(fields, blocks, truth, ~dense)
        solved = assign_large([scan], candidates, one_to_one=one_to_one, rounds=rounds)
        out_match, out_weight, gap = solved.match, solved.weight, solved.gap
        out_nearest[blocks.left] = scan.nearest
    if dense.any():
        sorted_fields, sorted_truth = in_order(fields, blocks, truth)
        arrays = sorted_fields.arrays()
        total = len(blocks.left)
        match, weight, nearest = np.full(total, -1), np.full(total, np.nan), np.zeros(total)

        def run(task: tuple[int, int]) -> None:
            linkage_dense.link_blocks(
                *task,
                blocks.left_starts,
                blocks.right_starts,
                arrays,
                sorted_truth,
                one_to_one,
                match,
                weight,
                nearest,
            )

        in_threads(run, _tasks(work, dense))
        mine = np.repeat(dense, left)
        rows, match, weight = blocks.left[mine], match[mine], weight[mine]
        out_match[rows] = np.where(match >= 0, blocks.right[match], -1)
        out_weight[rows] = np.where(match >= 0, weight, np.nan)
        out_nearest[rows] = nearest[mine]
    return Links(out_match, out_weight, out_nearest, blocks.pairs, int((~dense).sum()), gap)


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


def solve_sparse(
    starts: IntArray, cols: IntArray, weights: FloatArray, n_cols: int, outside: FloatArray | None = None
) -> IntArray:
    """The edges of the best 1-1 assignment over sparse candidates: each row's edge, or −1.

    ``outside`` is what a row counts that gets no edge; by default the weight of its worst one.
    """
    if outside is None:
        outside = np.zeros(len(starts) - 1)
        has = np.diff(starts) > 0
        if has.any():
            outside[has] = np.minimum.reduceat(weights, starts[:-1][has])
    edges, _, _ = sparse_kernels().assign_sparse(starts, cols, weights, outside, n_cols)
    return np.asarray(edges)
