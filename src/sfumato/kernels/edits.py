"""Kernels of the confidentiality edits and of record swapping: classes, partners, neighbours.

A *class* is a combination of key values, given as a whole number; a *bucket* is a class in which
partners are looked for; an *area* is a combination of geographic codes. All cost O(records).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Random = np.random.Generator

GEOGRAPHY, SENSITIVE, FIRST_KEY = 0, 1, 2


@njit(nogil=True, cache=True)
def _slot(value: int, mask: int) -> int:
    """A place in a hash table; two rounds, because codes are often multiples of a power of two."""
    value = (value ^ (value >> 31)) * 0x7FB5D329728EA185
    value = (value ^ (value >> 27)) * 0x1B03738712FAD5C9
    return (value ^ (value >> 32)) & mask


@njit(nogil=True, cache=True)
def distinct(values: Ints) -> tuple[Ints, Ints]:
    """Numbers 0 … k−1 of equal values, in order of first appearance, and the k values themselves."""
    n = values.size
    size = 1024
    table = np.full(size, -1, np.int64)
    found = np.empty(256, np.int64)
    ids = np.empty(n, np.int64)
    k = 0
    for i in range(n):
        value = values[i]
        # Linear probing at a load of at most one half.
        slot = _slot(value, size - 1)
        while table[slot] >= 0 and found[table[slot]] != value:
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            if k == found.size:
                bigger = np.empty(2 * k, np.int64)
                bigger[:k] = found
                found = bigger
            found[k] = value
            table[slot] = k
            ids[i] = k
            k += 1
            if 2 * k > size:
                size *= 4
                table = np.full(size, -1, np.int64)
                for c in range(k):
                    s = _slot(found[c], size - 1)
                    while table[s] >= 0:
                        s = (s + 1) & (size - 1)
                    table[s] = c
        else:
            ids[i] = table[slot]
    return ids, found[:k].copy()


@njit(nogil=True, cache=True)
def by_class(ids: Ints, k: int) -> tuple[Ints, Ints]:
    """Records grouped by class: those of class c are ``members[starts[c] : starts[c + 1]]``."""
    starts = np.zeros(k + 1, np.int64)
    for i in range(ids.size):
        starts[ids[i] + 1] += 1
    for c in range(k):
        starts[c + 1] += starts[c]
    place = starts[:-1].copy()
    members = np.empty(ids.size, np.int64)
    for i in range(ids.size):
        c = ids[i]
        members[place[c]] = i
        place[c] += 1
    return starts, members


@njit(nogil=True, cache=True)
def draw_sample(starts: Ints, members: Ints, share: Floats, rng: Random, chosen: Bools) -> None:
    """Mark ``share[g]`` of each group's members: the fraction is rounded up or down at random."""
    for g in range(starts.size - 1):
        first, m = starts[g], starts[g + 1] - starts[g]
        wanted = share[g] * m
        k = int(wanted)
        if rng.random() < wanted - k:
            k += 1
        k = min(k, m)
        # The first k of a partial shuffle.
        for t in range(k):
            other = first + t + int(rng.random() * (m - t))
            members[first + t], members[other] = members[other], members[first + t]
            chosen[members[first + t]] = True


@njit(nogil=True, cache=True)
def probe_partners(
    seekers: Ints,
    bucket: Ints,
    area: Ints,
    free: Bools,
    starts: Ints,
    members: Ints,
    partner: Ints,
    rng: Random,
    tries: int,
) -> Ints:
    """Give each seeker a uniform free partner of its bucket in another area, by drawing and looking.

    Returns those who found nobody in ``tries`` draws: they are few unless partners are scarce, and
    ``exact_partners`` settles them.
    """
    left = np.empty(seekers.size, np.int64)
    n_left = 0
    for q in range(seekers.size):
        i = seekers[q]
        if partner[i] >= 0:
            continue
        first = starts[bucket[i]]
        m = starts[bucket[i] + 1] - first
        found = -1
        for _ in range(tries if m > 1 else 0):
            j = members[first + int(rng.random() * m)]
            if free[j] and partner[j] < 0 and area[j] != area[i]:
                found = j
                break
        if found >= 0:
            partner[i] = found
            partner[found] = i
        else:
            left[n_left] = i
            n_left += 1
    return left[:n_left]


@njit(nogil=True, cache=True)
def exact_partners(
    seekers: Ints,
    bucket: Ints,
    area: Ints,
    runs: Ints,
    run_area: Ints,
    bucket_runs: Ints,
    pool: Ints,
    partner: Ints,
    rng: Random,
) -> Ints:
    """Give each seeker a free partner in another area while there is one, at a cost linear in all.

    ``pool`` holds the free records of the buckets in play, sorted by bucket and area: a *run* is one
    area of one bucket, ``pool[runs[r] : runs[r + 1]]``; those of bucket b are runs
    ``bucket_runs[b] : bucket_runs[b + 1]``. A spent run is taken out of its bucket's list, and a
    spent record is passed over once only, so no search is repeated. Returns the unmatched.
    """
    n_runs = run_area.size
    place = runs[:-1].copy()
    listed = np.arange(n_runs)
    alive = bucket_runs[1:] - bucket_runs[:-1]
    left = np.empty(seekers.size, np.int64)
    n_left = 0
    for q in range(seekers.size):
        i = seekers[q]
        if partner[i] >= 0:
            continue
        b = bucket[i]
        base = bucket_runs[b]
        found = -1
        while alive[b] > 0 and found < 0:
            t = int(rng.random() * alive[b])
            r = listed[base + t]
            if run_area[r] == area[i]:
                if alive[b] == 1:
                    break
                t = (t + 1 + int(rng.random() * (alive[b] - 1))) % alive[b]
                r = listed[base + t]
            while place[r] < runs[r + 1] and partner[pool[place[r]]] >= 0:
                place[r] += 1
            if place[r] == runs[r + 1]:
                alive[b] -= 1
                listed[base + t] = listed[base + alive[b]]
                listed[base + alive[b]] = r
            else:
                found = pool[place[r]]
        if found >= 0:
            partner[i] = found
            partner[found] = i
        else:
            left[n_left] = i
            n_left += 1
    return left[:n_left]


@njit(nogil=True, cache=True)
def permute_selected(starts: Ints, members: Ints, chosen: Bools, rng: Random, source: Ints) -> None:
    """Permute the chosen members of each bucket uniformly: record i gets the area of source[i]."""
    size = 0
    for b in range(starts.size - 1):
        size = max(size, starts[b + 1] - starts[b])
    some = np.empty(size, np.int64)
    mixed = np.empty(size, np.int64)
    for b in range(starts.size - 1):
        m = 0
        for t in range(starts[b], starts[b + 1]):
            if chosen[members[t]]:
                some[m] = members[t]
                mixed[m] = members[t]
                m += 1
        for t in range(m - 1, 0, -1):
            other = int(rng.random() * (t + 1))
            mixed[t], mixed[other] = mixed[other], mixed[t]
        for t in range(m):
            source[some[t]] = mixed[t]


@njit(nogil=True, cache=True)
def _differ(
    mode: int, a: int, b: int, c: int, d: int, area: Ints, values: Floats, digits: Ints, key: int
) -> bool:
    """Whether records a, b (of classes c, d) differ in what would be swapped; a missing one can't move."""
    if mode == GEOGRAPHY:
        return bool(area[a] != area[b] and area[a] >= 0 and area[b] >= 0)
    if mode == FIRST_KEY:
        return key >= 0 and digits[c, key] != digits[d, key] and digits[c, key] >= 0 and digits[d, key] >= 0
    for j in range(values.shape[1]):
        x, y = values[a, j], values[b, j]
        # A missing value is NaN, which doesn't equal itself.
        if x == x and y == y and x != y:
            return True
    return False


@njit(nogil=True, cache=True)
def _distance(a: int, b: int, likeness: Floats) -> float:
    """Mean squared difference over the columns that both have; a large number where there are none."""
    total = 0.0
    n = 0
    for j in range(likeness.shape[1]):
        d = likeness[a, j] - likeness[b, j]
        if d == d:
            total += d * d
            n += 1
    return total / n if n else 1e30


@njit(nogil=True, cache=True)
def neighbour_pairs(
    sequence: Ints,
    ids: Ints,
    stratum: Ints,
    counts: Ints,
    starts: Ints,
    members: Ints,
    offset: Ints,
    kept: Bools,
    mode: int,
    area: Ints,
    values: Floats,
    digits: Ints,
    key: Ints,
    likeness: Floats,
    window: int,
    reach: int,
    partner: Ints,
    via: Ints,
) -> Ints:
    """Pair one record of each kept class with a record of a class that follows it in the sequence.

    Section VIII of Moore (1996): a class below tolerance (``kept``) that hasn't been touched yet
    swaps with the next class; both are then done. The partner must differ in what is swapped. Of
    the first ``window`` records that may be partners, the most similar one is taken. Where none of
    the next ``reach`` classes has one, as many classes before are looked at. The members of class c
    are read from ``offset[c]`` on, cyclically. ``via`` notes the key that is swapped. Returns the
    classes that found nobody.
    """
    touched = np.zeros(counts.size, np.bool_)
    left = np.empty(sequence.size, np.int64)
    n_left = 0
    for s in range(sequence.size):
        c = sequence[s]
        if not kept[c] or touched[c]:
            continue
        best = np.inf
        best_a = best_b = -1
        for step in (1, -1):
            seen = 0
            place = s
            for _ in range(reach):
                place += step
                if place < 0 or place >= sequence.size or seen >= window:
                    break
                d = sequence[place]
                if stratum[d] != stratum[c]:
                    break
                if touched[d]:
                    continue
                m = counts[d]
                for t in range(min(m, window + reach)):
                    b = members[starts[d] + (offset[d] + t) % m]
                    for u in range(counts[c]):
                        a = members[starts[c] + (offset[c] + u) % counts[c]]
                        if _differ(mode, a, b, c, d, area, values, digits, key[c]):
                            seen += 1
                            far = 0.0 if window == 1 else _distance(a, b, likeness)
                            if far < best:
                                best = far
                                best_a, best_b = a, b
                            break
                    if seen >= window:
                        break
            if best_b >= 0:
                break
        if best_b >= 0:
            partner[best_a] = best_b
            partner[best_b] = best_a
            via[best_a] = via[best_b] = key[c]
            touched[c] = True
            touched[ids[best_b]] = True
        else:
            left[n_left] = c
            n_left += 1
    return left[:n_left]


@njit(nogil=True, cache=True)
def squared_bias(
    ids: Ints, k: int, sums: Floats, sizes: Floats, first: Ints, second: Ints, values: Floats
) -> float:
    """Σ n_c (mean before − mean after)² when the pairs exchange their values between classes.

    ``ids`` is each record's class at some level, ``sums`` and ``sizes`` the classes' totals of the
    values that aren't missing (NaN). A class that is empty before or after doesn't count.
    """
    more = np.zeros(k, np.float64)
    gain = np.zeros(k, np.float64)
    hit = np.zeros(k, np.bool_)
    for q in range(first.size):
        for side in range(2):
            a = first[q] if side == 0 else second[q]
            b = second[q] if side == 0 else first[q]
            c = ids[a]
            hit[c] = True
            if values[a] == values[a]:
                more[c] -= 1
                gain[c] -= values[a]
            if values[b] == values[b]:
                more[c] += 1
                gain[c] += values[b]
    total = 0.0
    for c in range(k):
        if hit[c] and sizes[c] > 0 and sizes[c] + more[c] > 0:
            d = (sums[c] + gain[c]) / (sizes[c] + more[c]) - sums[c] / sizes[c]
            total += sizes[c] * d * d
    return total
