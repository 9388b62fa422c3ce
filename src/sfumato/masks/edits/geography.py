"""Geography that nests: which levels are swapped, and what would tear them apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from sfumato.data.codes import joint
from sfumato.data.microdata import IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.errors import Problem
from sfumato.masks.edits import classes as _classes


def below(schema: Schema, within: Sequence[str] | None) -> tuple[str, ...]:
    """The levels of the schema's geography below the strata (below its first level by default)."""
    levels = schema.geography
    if within is None:
        return levels[1:]
    last = max((i for i, g in enumerate(levels) if g in within), default=-1)
    return levels[last + 1 :]


def geography_problems(schema: Schema, swapped: Sequence[str], within: Sequence[str]) -> list[Problem]:
    """Levels that would stay behind while finer or coarser ones move."""
    levels = schema.geography
    moved = [i for i, g in enumerate(levels) if g in swapped]
    if not moved:
        return []
    out = []
    for i, level in enumerate(levels):
        if level in swapped or level in within:
            continue
        if i > moved[0]:
            why = f"{level} lies below {levels[moved[0]]}, which is swapped: it must move along"
            out.append(Problem(0, why, f"add {level!r} to the columns that are swapped"))
        elif not any(g in within for g in levels[i:]):
            why = f"{level} stays while {levels[moved[0]]}, which lies in it, is swapped across it"
            out.append(Problem(0, why, f"swap {level!r} too, or put it into `within`"))
    return out


def area_levels(data: Microdata, hierarchy: Sequence[str]) -> list[tuple[IntArray, int]]:
    """The areas of each level, coarse to fine, each named by all codes from the coarsest on."""
    parts = [_classes.digits(data, c) for c in hierarchy]
    out: list[tuple[IntArray, int]] = []
    for part in parts:
        out.append(joint([out[-1], part] if out else [part], len(data)))
    return out


def nesting_warnings(data: Microdata, hierarchy: Sequence[str]) -> list[str]:
    """Codes of a finer level that occur in several areas of the coarser one, and levels in reverse."""
    out = []
    for upper, lower in pairwise(hierarchy):
        one, two = _classes.classes(data, [upper]), _classes.classes(data, [lower])
        both, n = joint([two, one], len(data))
        if n == one[1] and 1 < two[1] < one[1]:
            out.append(f"every {upper} lies in one {lower}: are the levels given from coarse to fine?")
            continue
        if n <= two[1]:
            continue
        first = np.zeros(n, np.int64)
        first[both] = two[0]
        often = int((np.bincount(first, minlength=two[1]) > 1).sum())
        out.append(
            f"{often:,} codes of {lower} occur in more than one {upper}; they are taken as different "
            f"areas, and all codes from {hierarchy[0]} on name an area"
        )
    return out
