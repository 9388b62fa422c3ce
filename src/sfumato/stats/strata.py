"""The strata of two files, matched by their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sfumato.data.codes import joint_codes
from sfumato.data.microdata import IntArray, Microdata


def matched_strata(
    original: Microdata, masked: Microdata, within: Sequence[str]
) -> Iterator[tuple[str, IntArray, IntArray]]:
    """Each stratum in either file: its label, its records in the original, its records in the masked."""
    if not within:
        yield "", np.arange(len(original)), np.arange(len(masked))
        return
    before, after = joint_codes(original, masked, within)[:2]
    sides = []
    k = int(max(before.max(initial=-1), after.max(initial=-1))) + 1
    for codes in (before, after):
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=k))
        sides.append(np.split(order, ends[:-1]))
    for rows, rows_after in zip(*sides, strict=True):
        data, row = (original, rows[0]) if len(rows) else (masked, rows_after[0])
        values = data.select(list(within)).row(int(row))
        yield " × ".join("(missing)" if v is None else str(v) for v in values), rows, rows_after
