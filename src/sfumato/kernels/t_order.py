"""Exchanging values within classes of records, in time linear in the records."""

from __future__ import annotations

import numba as nb
import numpy as np


@nb.njit(nogil=True, cache=True)
def exchange_within(classes, n_classes, share, rng, source):  # type: ignore[no-untyped-def]
    """Let a share of each class exchange values: a random cycle through members drawn at random.

    Of r members, k = the nearest number to share·r (at least 2, at most r) take part, and each
    receives the value of the next one, so nobody of them keeps his own. ``source[i]`` is the record
    that i's value comes from.
    """
    starts = np.zeros(n_classes + 1, np.int64)
    for i in range(classes.size):
        starts[classes[i] + 1] += 1
    for c in range(n_classes):
        starts[c + 1] += starts[c]
    cursor = starts[:-1].copy()
    members = np.empty(classes.size, np.int64)
    for i in range(classes.size):
        members[cursor[classes[i]]] = i
        cursor[classes[i]] += 1
    for c in range(n_classes):
        first, size = starts[c], starts[c + 1] - starts[c]
        if size < 2:
            continue
        k = min(max(2, int(share * size + 0.5)), size)
        for t in range(k):  # the first k of a random order, in random order
            other = t + int(rng.random() * (size - t))
            members[first + t], members[first + other] = members[first + other], members[first + t]
        for t in range(k):
            source[members[first + t]] = members[first + (t + 1) % k]
