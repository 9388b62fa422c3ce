"""Suppression for one key set, where a value suppressed in one record counts as a match for another.

This is what k-anonymity with missing values means in sdcMicro, and it needs fewer suppressions than
records taken one by one. Counted to its end it would protect nobody: a few records whose keys are all
suppressed match everyone. So no unsafe record stays complete: each loses at least one value of its
own, and only leans on others for the rest.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np

from sfumato.cells.suppression import WIDE, Suppression, each_record
from sfumato.microdata import FloatArray

if TYPE_CHECKING:
    from sfumato.cells.table import CellTable

MAX_COMPARISONS: Final = 4_000_000_000


def together(
    table: CellTable, tolerance: int, at: list[int], weights: FloatArray, *, counted: bool
) -> Suppression:
    """Each record's own optimum, then cheaper where unsafe records can lean on each other.

    ``counted`` says that the number of suppressions is what matters, and weights only order equals.
    """
    from sfumato.kernels.suppress import share

    alone = each_record(table, tolerance, [at], weights, exact=True)
    if (1 << len(at)) > WIDE:
        return alone
    # Cells with missing values match others already: they keep their own optimum.
    complete = np.ones(len(table), np.bool_)
    for j in at:
        complete &= table.codes[j] != len(table.levels[table.keys[j]])
    bad = np.flatnonzero((alone.keys != 0) & complete)
    largest = max((int(k).bit_count() for k in np.unique(alone.keys).tolist()), default=0)
    if largest < 2:
        return alone
    drops = [c for d in range(1, largest + 1) for c in itertools.combinations(range(len(at)), d)]
    drops.sort(key=lambda c: float(weights[[at[q] for q in c]].sum()))
    costs = np.array([weights[[at[q] for q in c]].sum() for c in drops])
    several = int((np.bitwise_count(alone.keys[bad]) > 1).sum())
    if len(bad) * several * len(drops) > MAX_COMPARISONS:
        return alone
    options = np.array([sum(1 << q for q in c) for c in drops], np.int64)
    of_table = np.array([sum(1 << at[q] for q in c) for c in drops], np.int64)
    frequency = np.empty((len(drops), len(bad)), np.int32)
    for t, drop in enumerate(drops):
        left = [table.keys[j] for q, j in enumerate(at) if q not in drop]
        found = table.frequencies(left, enough=tolerance)[bad] if left else np.full(len(bad), table.records)
        frequency[t] = np.minimum(found, tolerance)
    place = {int(mask): t for t, mask in enumerate(of_table.tolist())}
    chosen = np.array([place[m] for m in alone.keys[bad].tolist()], np.int64)
    codes = np.ascontiguousarray(table.codes[at][:, bad].T.astype(np.int32))
    share(codes, table.counts[bad], options, costs, frequency, tolerance, chosen)
    keys = alone.keys.copy()
    keys[bad] = of_table[chosen]
    # One value of each unsafe record is the least there can be; what is between isn't known.
    proven = counted and bool((np.bitwise_count(keys[keys != 0]) == 1).all())
    return Suppression(keys, proven)
