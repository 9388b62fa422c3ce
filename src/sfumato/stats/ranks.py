"""Mid-ranks. SciPy has them in ``scipy.stats``, whose import costs more than most commands' work."""

from __future__ import annotations

import numpy as np

from sfumato.data.microdata import FloatArray


def mid_ranks(values: FloatArray) -> FloatArray:
    """The rank of each value, 1 for the least; equal values share the mean of their ranks.

    NaN must have been left out before.

    >>> mid_ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(values)])
    end = np.append(first[1:], len(values))
    out = np.empty(len(values))
    out[order] = np.repeat((first + end + 1) / 2, end - first)
    return out
