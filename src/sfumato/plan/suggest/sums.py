"""Which columns are exact sums of others.

Columns are hashed on a sample of records: with random whole numbers r, h(column) = Σ r·x. A total is
a sum of components if and only if its hash is the sum of theirs (but for coincidences of one in
2⁶³), so the search for sums of two to six components runs over numbers, not columns: pairs and
triples are put into a table, and the rest of each total is looked up there. Longer sums come from a
least-squares fit of each total on columns that aren't totals themselves: coefficients of exactly 0
and 1. Every sum found is then checked on all records.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import Microdata
from sfumato.data.rules import broken_sums

_SAMPLE: Final = 400
_SCALES: Final = (1, 10, 100, 1000, 10_000)
_MOST_COLUMNS: Final = 400
_QUADS_UP_TO: Final = 150
_FITTED_UP_TO: Final = 80
_TRIPLES_UP_TO: Final = 40
"""Beyond this many columns only sums of up to four are searched by hashes."""
_FEWEST_RECORDS: Final = 30
_FEWEST_VALUES: Final = 10
_FEWEST_COUNTS: Final = 50
_ILL_CONDITIONED: Final = 1e11

Matrix = npt.NDArray[np.float64]


def find_sums(data: Microdata, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Each total among these columns → its components; every one holds in all records.

    A record with a missing total or component isn't judged, as in a plan's check.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"a": range(50), "b": [3 * i % 7 for i in range(50)]})
    >>> frame = frame.with_columns(t=pl.col("a") + pl.col("b"))
    >>> find_sums(Microdata(frame), ["a", "b", "t"])
    {'t': ('a', 'b')}
    """
    if len(data) < _FEWEST_RECORDS:
        return {}
    numbers = {c: data.numbers(c) for c in columns[:_MOST_COLUMNS]}
    usable = _usable(numbers)
    if len(usable) < 3:
        return {}
    rows = _rows([numbers[c] for c in usable])
    # A missing value counts as nothing here; the check on all records has the last word.
    sample = np.nan_to_num(np.column_stack([numbers[c][rows] for c in usable]), nan=0.0)
    found: dict[str, tuple[str, ...]] = {}
    for total, parts in itertools.chain(_by_hash(sample), _by_fit(sample, usable, found)):
        name, components = usable[total], tuple(usable[p] for p in parts)
        if name in found or not _plausible(sample, total, parts):
            continue
        components = _through_totals(components, found)
        if not broken_sums(data, name, components).any() and _judged(numbers, name, components):
            found[name] = components
    return found


def _usable(numbers: dict[str, Matrix]) -> list[str]:
    """Columns that vary, aren't zero throughout, and aren't copies of an earlier one."""
    out: list[str] = []
    seen: set[int] = set()
    for name, values in numbers.items():
        known = values[np.isfinite(values)]
        if len(known) < _FEWEST_RECORDS or known.min() == known.max():
            continue
        mark = hash(values.tobytes())
        if mark in seen:
            continue
        seen.add(mark)
        out.append(name)
    return out


def _rows(columns: list[Matrix]) -> npt.NDArray[np.int64]:
    """Records spread over the file, and those with most non-zeros; where possible without gaps."""
    known = np.logical_and.reduce([np.isfinite(c) for c in columns])
    where = np.flatnonzero(known)
    if len(where) < _FEWEST_RECORDS:
        where = np.arange(len(known))
    if len(where) <= _SAMPLE:
        return where
    filled = np.sum([c[where] != 0 for c in columns], axis=0)
    rich = where[np.argsort(-filled, kind="stable")[: _SAMPLE // 2]]
    spread = where[:: max(1, len(where) // (_SAMPLE // 2))]
    return np.unique(np.concatenate([rich, spread]))


def _judged(numbers: dict[str, Matrix], total: str, parts: Sequence[str]) -> bool:
    """Whether enough records have the total and all components for the sum to be more than chance."""
    known = np.logical_and.reduce([np.isfinite(numbers[c]) for c in (total, *parts)])
    return int(known.sum()) >= _FEWEST_RECORDS


def _plausible(sample: Matrix, total: int, parts: Sequence[int]) -> bool:
    """More evidence than unknowns: enough different totals, and records where a sum is at work."""
    at_work = (sample[:, list(parts)] != 0).sum(axis=1) >= 2
    values = len(np.unique(sample[at_work, total]))
    if values >= max(_FEWEST_VALUES, 2 * len(parts)):
        return True
    # Counts (adults and children of a household) have few values, but then many records say the same.
    varied = len(np.unique(sample[at_work][:, list(parts)], axis=0))
    return len(parts) <= 3 and values >= 4 and varied >= 6 and int(at_work.sum()) >= _FEWEST_COUNTS


def _by_hash(sample: Matrix) -> Iterator[tuple[int, tuple[int, ...]]]:
    whole = _whole(sample)
    if whole is None:
        return
    used, values = whole
    for total, parts in hashed_sums(values):
        yield used[total], tuple(used[j] for j in parts)


def hashed_sums(values: npt.NDArray[np.int64]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each column that is a sum of two to six others in all these records, short sums first."""
    n, m = values.shape
    # Multipliers from a fixed recurrence: the search must not depend on a seed.
    r, multipliers = 0x9E3779B97F4A7C15, []
    for _ in range(n):
        r = (r * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        multipliers.append(r | 1)
    hashes = (values.astype(np.uint64) * np.array(multipliers, np.uint64)[:, None]).sum(
        axis=0, dtype=np.uint64
    )
    largest = 3 if m <= _TRIPLES_UP_TO else 2
    groups = [
        np.array(list(itertools.combinations(range(m), k)), np.int64).reshape(math.comb(m, k), k)
        for k in range(largest + 1)
    ]
    sums = [hashes[g].sum(axis=1, dtype=np.uint64) for g in groups]
    orders = [np.argsort(s, kind="stable") for s in sums]
    top = 2 * largest if m <= _QUADS_UP_TO else 3
    for size in range(2, top + 1):
        first = min(largest, (size + 1) // 2)
        second = size - first
        table = sums[second][orders[second]]
        for total in range(m):
            need = hashes[total] - sums[first]
            at = np.searchsorted(table, need)
            hit = np.flatnonzero((at < len(table)) & (table[np.minimum(at, len(table) - 1)] == need))
            for g in hit[:20]:
                parts = {*groups[first][g].tolist(), *groups[second][orders[second][at[g]]].tolist()}
                if total not in parts and len(parts) == size:
                    yield total, tuple(sorted(parts))
                    break


def _whole(sample: Matrix) -> tuple[list[int], npt.NDArray[np.int64]] | None:
    """The columns whose values are whole at a common scale (cents, mills), as integers."""
    used: list[int] = []
    scale = 1
    for j in range(sample.shape[1]):
        fits = [s for s in _SCALES if _is_whole(sample[:, j] * s)]
        if fits:
            used.append(j)
            scale = max(scale, fits[0])
    if len(used) < 3:
        return None
    return used, np.rint(sample[:, used] * scale).astype(np.int64)


def _is_whole(values: Matrix) -> bool:
    return bool(np.all(np.abs(values) < 2**52) and np.all(np.abs(values - np.rint(values)) < 1e-6))


def _by_fit(
    sample: Matrix, names: Sequence[str], found: dict[str, tuple[str, ...]]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Totals of many components, by least squares on the columns that aren't totals themselves."""
    n, m = sample.shape
    if n <= m + 5 or m > _FITTED_UP_TO:
        return
    size = np.maximum(np.abs(sample).max(axis=0), 1.0)
    scaled = sample / size
    gram = scaled.T @ scaled
    for total in range(m):
        basis = [j for j in range(m) if j != total and names[j] not in found]
        if names[total] in found or len(basis) < 2:
            continue
        inner = gram[np.ix_(basis, basis)]
        if np.linalg.cond(inner) > _ILL_CONDITIONED:
            continue
        b = np.linalg.solve(inner, gram[basis, total]) * size[total] / size[basis]
        parts = tuple(basis[i] for i in np.flatnonzero(np.abs(b - 1) < 1e-4))
        if len(parts) >= 2 and np.all((np.abs(b) < 1e-4) | (np.abs(b - 1) < 1e-4)):
            yield total, parts


def _through_totals(parts: tuple[str, ...], found: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Components of a subtotal that is known already, replaced by the subtotal."""
    for total, components in sorted(found.items(), key=lambda item: -len(item[1])):
        if len(components) < len(parts) and set(components) <= set(parts):
            place = min(parts.index(c) for c in components)
            kept = [p for p in parts if p not in components]
            kept.insert(min(place, len(kept)), total)
            parts = tuple(kept)
    return parts
