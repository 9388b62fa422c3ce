"""Frequencies of combinations where a missing value may match anything."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato.data.codes import label, pack

JOIN_COST: Final = 50_000
"""What joining two patterns costs, in comparisons of two combinations."""
Number = TypeVar("Number", np.int64, np.float64)


def match_counts(
    codes: npt.NDArray[Any],
    sizes: list[int],
    gone: list[int],
    amounts: npt.NDArray[Number],
    enough: int | None,
    *,
    wild: bool,
) -> npt.NDArray[Number]:
    """For each cell, the amount (records or weight) of all cells that agree with it.

    ``codes`` are keys × cells, ``sizes`` the number of codes of each key, ``gone`` the code that means
    missing. With ``wild`` a missing value agrees with every other.
    """
    group, first = label(*pack(list(codes), sizes))
    own = np.zeros(len(first), amounts.dtype)
    if amounts.dtype == np.float64:
        own = np.bincount(group, weights=amounts, minlength=len(first)).astype(amounts.dtype)
    else:
        np.add.at(own, group, amounts)
    if not wild:
        return own[group]
    return _with_wildcards(codes[:, first], np.array(gone), sizes, own, enough)[group]


def missing_patterns(codes: npt.NDArray[Any], gone: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """A bit for each key that is missing, for each column of ``codes``."""
    pattern = np.zeros(codes.shape[1], np.int64)
    for j in range(codes.shape[0]):
        pattern |= (codes[j] == gone[j]).astype(np.int64) << j
    return pattern


def _with_wildcards(
    codes: npt.NDArray[Any],
    gone: npt.NDArray[Any],
    sizes: list[int],
    own: npt.NDArray[Number],
    enough: int | None,
) -> npt.NDArray[Number]:
    """Two combinations agree where they are equal on every key that is missing in neither.

    For each pair of missing patterns (P, Q) the combinations are joined on the keys outside P ∪ Q.
    There are few patterns, and with ``enough`` most combinations are done after their own.
    """
    pattern = missing_patterns(codes, gone)
    patterns, pattern_index = np.unique(pattern, return_inverse=True)
    if len(patterns) ** 2 * JOIN_COST > int((pattern != 0).sum()) * len(own):
        # Many patterns and few combinations: comparing pairs is quicker than joining patterns.
        from sfumato.kernels.cells import sum_agreeing

        wide = np.ascontiguousarray(codes, dtype=np.int64)
        return sum_agreeing(wide, gone.astype(np.int64), own.astype(np.float64)).astype(own.dtype)
    members = [np.flatnonzero(pattern_index == p) for p in range(len(patterns))]
    total = np.zeros_like(own)
    for p, mine in zip(patterns.tolist(), members, strict=True):
        # The same pattern first, then patterns with fewer missing keys: they are the likeliest to do.
        order = sorted(range(len(patterns)), key=lambda q: (patterns[q] != p, int(patterns[q]).bit_count()))
        targets = mine
        for q in order:
            if enough is not None:
                targets = targets[total[targets] < enough]
                if not len(targets):
                    break
            keys = [j for j in range(len(sizes)) if not (p | int(patterns[q])) >> j & 1]
            total[targets] += _joined(codes, sizes, keys, targets, members[q], own)
    return total


def _joined(
    codes: npt.NDArray[Any],
    sizes: list[int],
    keys: list[int],
    targets: npt.NDArray[np.int64],
    sources: npt.NDArray[np.int64],
    own: npt.NDArray[Number],
) -> npt.NDArray[Number]:
    """For each target the sum over the sources that have the same codes on ``keys``."""
    if not keys:
        return np.full(len(targets), own[sources].sum(), own.dtype)
    both = np.concatenate([targets, sources])
    names, first = label(*pack([codes[j][both] for j in keys], [sizes[j] for j in keys]))
    sums = np.bincount(names[len(targets) :], weights=own[sources].astype(np.float64), minlength=len(first))
    return sums[names[: len(targets)]].astype(own.dtype)
