"""How well the members of two households go together, on plain arrays.

The records of both files come sorted by household; ``fields`` is what ``sfumato.kernels.linkage`` says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sfumato.kernels.linkage import score_row


@njit(nogil=True, cache=True)
def home_scores(first: int, last: int, left_starts: Any, right_starts: Any, fields: Any, out: Any) -> None:
    """The scores of left households first … last−1 with every right one, into ``out``.

    Half the sum of each member's weight with whoever fits him best on the other side, from both sides: a
    household that is part of a larger one doesn't go with it as well as with its own.
    """
    homes = right_starts.shape[0] - 1
    people = right_starts[homes]
    row, theirs = np.empty(people), np.empty(people)
    for h in range(first, last):
        for g in range(homes):
            out[h - first, g] = 0.0
        for k in range(people):
            theirs[k] = -np.inf
        for i in range(left_starts[h], left_starts[h + 1]):
            score_row(i, 0, people, fields, row)
            for g in range(homes):
                best = -np.inf
                for k in range(right_starts[g], right_starts[g + 1]):
                    best = max(best, row[k])
                    theirs[k] = max(theirs[k], row[k])
                out[h - first, g] += 0.5 * best
        for g in range(homes):
            for k in range(right_starts[g], right_starts[g + 1]):
                out[h - first, g] += 0.5 * theirs[k]


@njit(nogil=True, cache=True)
def link_members(
    pairs: Any, left_starts: Any, right_starts: Any, fields: Any, match: Any, weight: Any
) -> None:
    """Link the members of household h with those of ``pairs[h]`` (−1: none), the heaviest pair first."""
    for h in range(pairs.shape[0]):
        g = pairs[h]
        if g < 0:
            continue
        low, high = left_starts[h], left_starts[h + 1]
        start, stop = right_starts[g], right_starts[g + 1]
        scores = np.empty((high - low, stop - start))
        for i in range(low, high):
            score_row(i, start, stop, fields, scores[i - low])
        for _ in range(min(high - low, stop - start)):
            best = -np.inf
            a, b = -1, -1
            for i in range(high - low):
                for k in range(stop - start):
                    if match[low + i] < 0 and scores[i, k] > best:
                        best = scores[i, k]
                        a, b = i, k
            if a < 0:
                break
            match[low + a] = start + b
            weight[low + a] = best
            for i in range(high - low):
                scores[i, b] = -np.inf
