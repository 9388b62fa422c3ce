"""What the pairs that may be true teach: expected agreements and displacements over all candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sfumato.kernels.linkage import EQUAL, TABLE, score_row

_NOTHING = 1e-7  # a candidate less likely than this teaches nothing


@njit(nogil=True, cache=True)
def expected_agreement(
    rows: Any, low: Any, high: Any, fields: Any, equal_of: Any, agreed: Any, seen: Any, moved: Any
) -> float:
    """Sums over left records ``rows`` and their candidates k, each with probability ∝ exp(weight).

    One of right records low[i] … high[i]−1 belongs to record i, each as likely before they are
    compared. ``agreed[j]`` and ``seen[j]`` get the expected number of values of an EQUAL field j that
    stayed (1 − m = exp(disagree), agree = ln(m/f + 1 − m)), and of comparisons. ``moved[j, cell]`` gets
    the expected displacements of a TABLE field j, from pairs that don't agree on field
    ``equal_of[j]``. Returns the mean log-likelihood of the records.
    """
    kinds, left, right, left_present, right_present, scale, agree, disagree, tables = fields
    m, last = kinds.shape[0], tables.shape[1] - 1
    wide = 1
    for t in range(rows.shape[0]):
        wide = max(wide, high[rows[t]] - low[rows[t]])
    row = np.empty(wide)
    total = 0.0
    for t in range(rows.shape[0]):
        i = rows[t]
        r0 = low[i]
        n = high[i] - r0
        score_row(i, r0, r0 + n, fields, row)
        top = row[0]
        for k in range(1, n):
            top = max(top, row[k])
        mass = 0.0
        for k in range(n):
            row[k] = np.exp(row[k] - top)
            mass += row[k]
        total += top + np.log(mass / n)
        for k in range(n):
            p = row[k] / mass
            if p < _NOTHING:
                continue
            r = r0 + k
            for j in range(m):
                here = left_present[j, i if left_present.shape[1] > 1 else 0]
                there = right_present[j, r if right_present.shape[1] > 1 else 0]
                if here * there == 0.0:
                    continue
                if kinds[j] == EQUAL:
                    seen[j] += p
                    if left[j, i] == right[j, r]:
                        # The part of the agreement that isn't another's equal value.
                        agreed[j] += p * (1.0 - np.exp(disagree[j] - agree[j, i]))
                elif kinds[j] == TABLE:
                    e = equal_of[j]
                    if e >= 0 and left[e, i] == right[e, r]:
                        continue
                    s = scale[j, i if scale.shape[1] > 1 else 0]
                    moved[j, min(last, int(abs(left[j, i] - right[j, r]) * s))] += p
    return float(total / max(rows.shape[0], 1))


@njit(nogil=True, cache=True)
def held_out_agreement(rows: Any, low: Any, high: Any, fields: Any, j: int) -> float:
    """How far, on average, left records agree on field j with the right records they weigh most with.

    Field j itself must weigh nothing in ``fields``; ties count by their mean. Fields are EQUAL (1 or 0)
    or TENT (1 falling to 0); pairs with a missing value are left out.
    """
    kinds, left, right, left_present, right_present, scale = fields[:6]
    wide = 1
    for t in range(rows.shape[0]):
        wide = max(wide, high[rows[t]] - low[rows[t]])
    row = np.empty(wide)
    total, counted = 0.0, 0
    for t in range(rows.shape[0]):
        i = rows[t]
        r0 = low[i]
        n = high[i] - r0
        if left_present[j, i if left_present.shape[1] > 1 else 0] == 0.0:
            continue
        score_row(i, r0, r0 + n, fields, row)
        top = row[0]
        for k in range(1, n):
            top = max(top, row[k])
        near = top - 1e-9 * (1.0 + abs(top))
        s = scale[j, i if scale.shape[1] > 1 else 0]
        agreed, seen = 0.0, 0
        for k in range(n):
            if row[k] < near or right_present[j, r0 + k if right_present.shape[1] > 1 else 0] == 0.0:
                continue
            seen += 1
            if kinds[j] == EQUAL:
                agreed += 1.0 if left[j, i] == right[j, r0 + k] else 0.0
            else:
                agreed += max(0.0, 1.0 - abs(left[j, i] - right[j, r0 + k]) * s)
        if seen:
            total += agreed / seen
            counted += 1
    return float(total / max(counted, 1))
