"""Blocking: only pairs that agree exactly on the blocking columns are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.data.codes import joint_codes
from sfumato.data.microdata import IntArray, Microdata
from sfumato.draws import Draws


@dataclass(frozen=True)
class Blocks:
    """The records of two files by block, in a random order within each.

    Record ``left[left_starts[b]:left_starts[b + 1]]`` of one file meets those of the other. The
    order is random because with tied weights an assignment in file order would find the truth for
    nothing: record i stands at place i of both files. Blocks that are empty on one side are left
    out: their records can't be linked.
    """

    left: IntArray
    right: IntArray
    left_starts: IntArray
    right_starts: IntArray

    def __len__(self) -> int:
        return len(self.left_starts) - 1

    @property
    def sizes(self) -> tuple[IntArray, IntArray]:
        return np.diff(self.left_starts), np.diff(self.right_starts)

    @property
    def pairs(self) -> int:
        left, right = self.sizes
        return int(np.dot(left, right))

    @property
    def links(self) -> int:
        """The greatest number of 1-1 links."""
        return int(np.minimum(*self.sizes).sum())


def make_blocks(
    original: Microdata,
    masked: Microdata,
    block_on: Sequence[str],
    draws: Draws,
    *,
    left: IntArray | None = None,
    right: IntArray | None = None,
) -> Blocks:
    """Blocks of the records (or of some: ``left``, ``right``) that share the values of ``block_on``."""
    if block_on:
        codes, masked_codes, size = joint_codes(original, masked, block_on)
    else:
        codes, masked_codes, size = np.zeros(len(original), np.int64), np.zeros(len(masked), np.int64), 1
    orders, counts = [], []
    for which, code, some in (("original", codes, left), ("masked", masked_codes, right)):
        order = draws.stream("+".join(block_on), purpose=f"shuffle {which}").permutation(len(code))
        if some is not None:
            chosen = np.zeros(len(code), dtype=np.bool_)
            chosen[some] = True
            order = order[chosen[order]]
        orders.append(order[np.argsort(code[order], kind="stable")])
        counts.append(np.bincount(code[order], minlength=size))
    full = (counts[0] > 0) & (counts[1] > 0)
    kept = [order[np.repeat(full, count)] for order, count in zip(orders, counts, strict=True)]
    starts = [np.concatenate([[0], np.cumsum(count[full])]).astype(np.int64) for count in counts]
    return Blocks(kept[0], kept[1], starts[0], starts[1])
