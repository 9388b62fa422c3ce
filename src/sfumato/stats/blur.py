"""Blur: values that few records have are replaced by means of their neighbours in rank.

>>> blurred(np.array([0.0, 0.0, 0.0, 5.0, 6.0, 10.0, 90.0]), 3).tolist()
[0.0, 0.0, 0.0, 27.75, 27.75, 27.75, 27.75]
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sfumato.data.microdata import FloatArray


def blurred(values: FloatArray, least: int) -> FloatArray:
    """The values, each that fewer than ``least`` records have replaced by a mean of ``least`` or more.

    Values that ``least`` records share stay. Between two of them the others, in order, form groups of
    ``least`` records or a few more, equal values always in one group; a group gets its mean. Where fewer
    than ``least`` records stand between two shared values, they take the nearer of the two. Every value
    of the outcome is thus shared by ``least`` records at least, extremes included, and the mean stays
    but for those few. A file with fewer than ``least`` values gets one mean.
    """
    if least < 2 or not len(values):
        return values.copy()
    level, place, count = np.unique(values, return_inverse=True, return_counts=True)
    if (count >= least).all():
        return values.copy()
    shared = count >= least
    out = level.copy()
    at = 0
    while at < len(level):
        if shared[at]:
            at += 1
            continue
        end = at
        while end < len(level) and not shared[end]:
            end += 1
        _blur_run(level, count, out, at, end, least)
        at = end
    return np.asarray(out[place])


def _blur_run(
    level: FloatArray, count: np.ndarray[tuple[int], np.dtype[np.intp]], out: FloatArray, at: int, end: int,
    least: int,
) -> None:  # fmt: skip
    """One run of rare values level[at:end] between two shared ones."""
    if count[at:end].sum() < least:
        sides = [s for s in (at - 1, end) if 0 <= s < len(level)]
        if not sides:
            out[at:end] = np.average(level[at:end], weights=count[at:end])
        for i in range(at, end) if sides else ():
            out[i] = level[min(sides, key=lambda s: abs(level[s] - level[i]))]
        return
    cuts = [at]
    have = 0
    for i in range(at, end):
        have += count[i]
        if have >= least:
            cuts.append(i + 1)
            have = 0
    cuts[-1] = end  # the few that are left join the last group
    for low, high in pairwise(cuts):
        # Means of differences: the mean of three equal floats must be that float.
        base = level[low]
        out[low:high] = base + ((level[low:high] - base) * count[low:high]).sum() / count[low:high].sum()
