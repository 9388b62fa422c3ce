"""Slow, obvious twins of the key-combination kernels: plain Python over rows, None = missing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

Row = Sequence[Any]


def agree(one: Row, two: Row, at: Sequence[int], missing: str) -> bool:
    """Whether two rows agree on the keys ``at`` under a missing convention."""
    if missing == "category":
        return all(one[j] == two[j] for j in at)
    return all(one[j] is None or two[j] is None or one[j] == two[j] for j in at)


def frequencies(rows: Sequence[Row], at: Sequence[int], missing: str) -> list[int]:
    return [sum(agree(r, s, at, missing) for s in rows) for r in rows]


def unsafe(
    rows: Sequence[Row], sets: Sequence[Sequence[int]], tolerance: int, missing: str
) -> list[list[int]]:
    """For each row the positions of the sets in which it is unsafe."""
    counts = [frequencies(rows, s, missing) for s in sets]
    return [[q for q in range(len(sets)) if counts[q][i] < tolerance] for i in range(len(rows))]


def fewest_per_record(
    rows: Sequence[Row], sets: Sequence[Sequence[int]], tolerance: int, weights: Sequence[float]
) -> float:
    """Σ over records of the cheapest keys to blank so that the record agrees with enough *original*
    records in every set; every subset of keys is tried."""
    keys = range(len(rows[0]))
    total = 0.0
    for i, row in enumerate(rows):
        best = math.inf
        for size in range(len(rows[0]) + 1):
            for chosen in itertools.combinations(keys, size):
                blanked = [None if j in chosen else v for j, v in enumerate(row)]
                others = [blanked if q == i else r for q, r in enumerate(rows)]
                if all(
                    sum(agree(blanked, r, s, "matches_anything") for r in others) >= tolerance for s in sets
                ):
                    best = min(best, sum(weights[j] for j in chosen))
        total += best
    return total


def fewest_together(rows: Sequence[Row], tolerance: int, weights: Sequence[float]) -> float:
    """The cheapest way to blank values of unsafe records, at least one in each, so that all records
    are safe on all keys, a blank matching anything; every way is tried."""
    keys = range(len(rows[0]))
    risky = [i for i, f in enumerate(frequencies(rows, keys, "matches_anything")) if f < tolerance]
    options = []
    for i in risky:
        shown = [j for j in keys if rows[i][j] is not None]
        options.append([c for d in range(1, len(shown) + 1) for c in itertools.combinations(shown, d)])
    best = math.inf
    for choice in itertools.product(*options):
        cost = sum(weights[j] for c in choice for j in c)
        if cost >= best:
            continue
        blanked = [list(r) for r in rows]
        for i, chosen in zip(risky, choice, strict=True):
            for j in chosen:
                blanked[i][j] = None
        if min(frequencies(blanked, keys, "matches_anything")) >= tolerance:
            best = cost
    return best


def minimal_sample_uniques(rows: Sequence[Row], max_size: int) -> list[list[tuple[int, ...]]]:
    """For each row every minimal set of keys on which it is unique."""
    out: list[list[tuple[int, ...]]] = []
    keys = range(len(rows[0]))
    for row in rows:
        found: list[tuple[int, ...]] = []
        for size in range(1, max_size + 1):
            for chosen in itertools.combinations(keys, size):
                if any(set(f) <= set(chosen) for f in found):
                    continue
                if sum(all(row[j] == r[j] for j in chosen) for r in rows) == 1:
                    found.append(chosen)
        out.append(found)
    return out
