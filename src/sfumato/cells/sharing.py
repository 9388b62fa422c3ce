"""Suppression for one key set, where a value suppressed in one record counts as a match for another.

This is what k-anonymity with missing values means in sdcMicro, and it needs fewer suppressions than
records taken one by one. Counted to its end it would protect nobody: a few records whose keys are all
suppressed match everyone. So no unsafe record stays complete: each loses at least one value of its
own, and only leans on others for the rest.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from sfumato.cells.suppression import WIDE, Suppression, each_record
from sfumato.data.microdata import BoolArray, FloatArray

if TYPE_CHECKING:
    from sfumato.cells.cells import Cells

MAX_COMPARISONS: Final = 4_000_000_000
TINY_RECORDS: Final = 100
TINY_VALUES: Final = 56
"""Up to this many values of unsafe records the optimum is found by integer programming."""
NODES: Final = 5_000


def together(
    table: Cells, tolerance: int, at: list[int], weights: FloatArray, *, counted: bool
) -> Suppression:
    """Each record's own optimum, then cheaper where unsafe records can lean on each other.

    ``counted`` says that the number of suppressions is what matters, and weights only order equals.
    """
    from sfumato.kernels.suppress import share

    alone = each_record(table, tolerance, [at], weights, exact=True)
    if (1 << len(at)) > WIDE:
        return replace(alone, proven=False)
    # Cells with missing values match others already: they keep their own optimum.
    complete = np.ones(len(table), np.bool_)
    for j in at:
        complete &= table.codes[j] != len(table.levels[table.keys[j]])
    bad = np.flatnonzero((alone.keys != 0) & complete)
    largest = max((int(k).bit_count() for k in np.unique(alone.keys).tolist()), default=0)
    if largest == 0 or (largest == 1 and counted):
        return alone
    if table.records <= TINY_RECORDS and int(table.counts[alone.keys != 0].sum()) * len(at) <= TINY_VALUES:
        exact = _optimum(table, tolerance, at, weights, alone.keys != 0)
        if exact is not None:
            return exact
    drops = [c for d in range(1, largest + 1) for c in itertools.combinations(range(len(at)), d)]
    drops.sort(key=lambda c: float(weights[[at[q] for q in c]].sum()))
    costs = np.array([weights[[at[q] for q in c]].sum() for c in drops])
    several = int((np.bitwise_count(alone.keys[bad]) > counted).sum())
    if len(bad) * several * len(drops) > MAX_COMPARISONS:
        return replace(alone, proven=False)
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


def _optimum(
    table: Cells, tolerance: int, at: list[int], weights: FloatArray, unsafe: BoolArray
) -> Suppression | None:
    """The least suppression of a tiny file, where every unsafe record loses a value and no other does.

    y = 1 where a value of an unsafe record is suppressed. z of two records is at most y_u + y_v for
    each key in which they differ, so that it is 1 only where they agree; every unsafe record needs
    tolerance − 1 others that agree with it.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    codes = table.codes[at][:, table.record_cell].astype(np.int64)
    gone = np.array([len(table.levels[table.keys[j]]) for j in at])
    shown = codes != gone[:, None]
    risky = np.flatnonzero(unsafe[table.record_cell])
    k, n = len(at), codes.shape[1]
    place = {int(r): i for i, r in enumerate(risky)}
    pairs = [(u, v) for u in risky.tolist() for v in range(n) if v != u and (v not in place or u < v)]
    first_z = len(risky) * k
    entries: list[tuple[int, int, float]] = []
    lower: list[float] = []
    for i, u in enumerate(risky.tolist()):
        entries += [(len(lower), i * k + q, 1.0) for q in range(k) if shown[q, u]]
        lower.append(1.0)
    need = len(lower)
    lower += [tolerance - 1.0] * len(risky)
    for p, (u, v) in enumerate(pairs):
        entries += [(need + place[r], first_z + p, 1.0) for r in (u, v) if r in place]
        for q in range(k):
            if shown[q, u] and shown[q, v] and codes[q, u] != codes[q, v]:
                row = len(lower)
                entries.append((row, first_z + p, -1.0))
                entries += [(row, place[r] * k + q, 1.0) for r in (u, v) if r in place]
                lower.append(0.0)
    rows, columns, values = zip(*entries, strict=True)
    total = first_z + len(pairs)
    matrix = coo_array((values, (rows, columns)), shape=(len(lower), total)).tocsr()
    upper = np.ones(total)
    upper[:first_z] = shown[:, risky].T.ravel()
    found = milp(
        np.concatenate([np.tile(weights[at], len(risky)), np.zeros(len(pairs))]),
        constraints=LinearConstraint(matrix, np.array(lower), np.inf),
        integrality=np.concatenate([np.ones(first_z), np.zeros(len(pairs))]),
        bounds=Bounds(0, upper),
        options={"node_limit": NODES, "mip_rel_gap": 0.0},
    )
    if found.status != 0:
        return None
    blank = np.rint(found.x[:first_z]).astype(np.int64).reshape(len(risky), k)
    keys = np.zeros(n, np.int64)
    for q, j in enumerate(at):
        keys[risky] |= blank[:, q] << j
    return Suppression(keys, True, of_records=True)
