"""Which released record is whose: by an id, by the place in the file, or nobody knows.

A rate of re-identification needs the truth. An id tells it. Without one, record i is record i only where the
values bear that out *everywhere in the file*: one row left out in the middle would shift all that follow, and
half of the truth would be wrong, which makes any attack look harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sfumato.data.codes import joint_codes
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.errors import InputError, did_you_mean
from sfumato.linkage.results import true_links

_SHIFTS: Final = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)
_SURE: Final = 4.0
_PARTS: Final = 10
_LEAST: Final = 20


def by_id(original: Microdata, released: Microdata, column: str) -> IntArray:
    """For each original record its released one (−1: none), by a column that both files have."""
    for data, which in ((original, "original"), (released, "released")):
        if column not in data.columns:
            raise InputError(
                f"the {which} file has no column {column!r} to tell whose record is whose",
                hint=did_you_mean(column, data.columns),
            )
    links = true_links(original, released, column)
    if not (links >= 0).any():
        raise InputError(
            f"no value of {column} in the released file occurs in the original",
            hint="leave the id out if the records are synthetic or were numbered anew",
        )
    return links


def have_in_common(original: Microdata, released: Microdata, columns: Sequence[str]) -> bool:
    """Whether row i of one file is more like row i of the other than like its neighbours.

    Ids that were numbered anew put strangers together, and any attack then seems to find nobody.
    """
    return len(original) < _LEAST or _stands_out(_in_common(original, released, columns))


def in_place(original: Microdata, released: Microdata, columns: Sequence[str]) -> tuple[IntArray | None, str]:
    """Record i as record i if it looks like it throughout, and a sentence on what was found.

    What record i has in common with record i is set against what it has in common with records i ± 1 … 5:
    files sorted alike have much in common at every place, and only the same person's record has more.
    """
    n = len(original)
    if n != len(released):
        return None, (
            f"the files have {n:,} and {len(released):,} records and no id: whose record is whose isn't known"
        )
    if n < _LEAST:
        return None, f"{n} records are too few to see whether record i is still record i"
    more = _in_common(original, released, columns)
    if not _stands_out(more):
        return None, "record i doesn't look like record i: the records were shuffled, or they are nobody's"
    parts = [p for p in np.array_split(more, _PARTS if n >= _PARTS * _LEAST else 1) if len(p)]
    level = float(np.mean(more))
    weak = [p for p in parts if float(p.mean()) < level / 4 - 2 * float(p.std()) / np.sqrt(len(p))]
    if weak:
        return None, (
            "record i looks like record i in a part of the file only (rows were left out or moved): "
            "whose record is whose isn't known"
        )
    return np.arange(n, dtype=np.int64), "record i is taken for record i, which their values bear out"


def _in_common(original: Microdata, released: Microdata, columns: Sequence[str]) -> FloatArray:
    """By record: likeness to the record at its place less the mean likeness to its neighbours."""
    out = np.zeros(len(original))
    for column in columns:
        one, two, size = joint_codes(original, released, [column])
        # A rare value in common says more than a frequent one; numbers also by how near their ranks are.
        weight = -np.log(np.maximum(np.bincount(two, minlength=size), 1) / max(len(two), 1))
        number = original.dtype(column).is_numeric() and released.dtype(column).is_numeric()
        place = _places(one, two, size) if number else None

        def likeness(shift: int) -> FloatArray:
            other = np.roll(two, shift)  # noqa: B023
            same = np.where(one == other, weight[one], 0.0)  # noqa: B023
            if place is None:  # noqa: B023
                return np.asarray(same)
            near = 1.0 - np.abs(place[0] - np.roll(place[1], shift))  # noqa: B023
            return np.asarray(same + near)

        out += likeness(0) - np.mean([likeness(s) for s in _SHIFTS], axis=0)
    return out


def _places(one: IntArray, two: IntArray, size: int) -> tuple[FloatArray, FloatArray]:
    """Each value's place among its own file's (codes follow the values' order)."""
    ends = [np.cumsum(np.bincount(c, minlength=size)) / max(len(c), 1) for c in (one, two)]
    return ends[0][one], ends[1][two]


def _stands_out(more: FloatArray) -> bool:
    spread = float(more.std())
    return bool(more.mean() > _SURE * max(spread, 1e-12) / np.sqrt(len(more)))
