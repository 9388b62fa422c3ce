"""Kernels of the cluster shuffle: blur, deal, repair, and the counts of its audit.

Rows stand cluster by cluster (``start`` has where each begins); what is dealt are a column's codes,
numbers of its levels in order. Nothing here knows which record a code came from.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
WordArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float64]
FeatureArray = npt.NDArray[np.float32]
_SMALL = 64  # clusters up to this size are sorted by insertion


@nb.njit(nogil=True, cache=True)
def blur_groups(values: FloatArray, counts: IntArray, least: int) -> IntArray:
    """A group for each of these ascending values, at least ``least`` records to a group.

    The grouping of neighbours with the least sum of squares within groups, by dynamic programming
    over the last group (Hansen, Mukherjee 2003, for values that several records share).
    """
    n = values.size
    best = np.full(n + 1, np.inf)
    start = np.zeros(n + 1, np.int64)
    best[0] = 0.0
    for end in range(1, n + 1):
        records, mean, squares = 0, 0.0, 0.0
        for begin in range(end - 1, -1, -1):
            c = counts[begin]
            step = values[begin] - mean
            records += c
            mean += step * c / records
            squares += c * step * (values[begin] - mean)
            if records >= least:
                if best[begin] + squares < best[end]:
                    best[end] = best[begin] + squares
                    start[end] = begin
                if records >= 3 * least:
                    break
    group = np.empty(n, np.int64)
    end, number = n, 0
    while end > 0:
        for i in range(start[end], end):
            group[i] = number
        end = start[end]
        number += 1
    return group


@nb.njit(nogil=True, cache=True)
def pooled_products(scores: FeatureArray, start: IntArray) -> FloatArray:
    """Σ over clusters of the products of scores about their cluster's means (rows cluster by cluster)."""
    p = scores.shape[1]
    out = np.zeros((p, p))
    mean = np.empty(p)
    d = np.empty(p)
    for g in range(start.size - 1):
        mean[:] = 0.0
        for i in range(start[g], start[g + 1]):
            for j in range(p):
                mean[j] += scores[i, j]
        mean /= start[g + 1] - start[g]
        for i in range(start[g], start[g + 1]):
            for j in range(p):
                d[j] = scores[i, j] - mean[j]
            for j in range(p):
                for v in range(j + 1):
                    out[j, v] += d[j] * d[v]
    for j in range(p):
        for v in range(j):
            out[v, j] = out[j, v]
    return out


@nb.njit(nogil=True, cache=True)
def root(products: FloatArray) -> FloatArray:
    """A lower triangular L with L Lᵀ the correlation of these products, singular ones included."""
    p = products.shape[0]
    out = np.zeros((p, p))
    for j in range(p):
        for i in range(j, p):
            scale = np.sqrt(products[i, i] * products[j, j])
            x = 1.0 if i == j else (products[i, j] / scale if scale > 0 else 0.0)
            for v in range(j):
                x -= out[i, v] * out[j, v]
            if i == j:
                out[j, j] = np.sqrt(x) if x > 1e-9 else 0.0
            elif out[j, j] > 0:
                out[i, j] = x / out[j, j]
    return out


@nb.njit(nogil=True, cache=True)
def deal_column(codes: CodeArray, start: IntArray, lot: FloatArray, out: CodeArray) -> None:
    """Give each cluster's codes, in order, to its rows in the order of their lots."""
    small = np.empty(_SMALL, np.int64)
    ranked = np.empty(_SMALL, np.int32)
    for g in range(start.size - 1):
        begin, end = start[g], start[g + 1]
        size = end - begin
        if size > _SMALL:
            order = np.argsort(lot[begin:end])
            many = np.sort(codes[begin:end])
            for z in range(size):
                out[begin + order[z]] = many[z]
            continue
        for z in range(size):
            x, c = lot[begin + z], codes[begin + z]
            at = z
            while at > 0 and lot[begin + small[at - 1]] > x:
                small[at] = small[at - 1]
                at -= 1
            small[at] = z
            at = z
            while at > 0 and ranked[at - 1] > c:
                ranked[at] = ranked[at - 1]
                at -= 1
            ranked[at] = c
        for z in range(size):
            out[begin + small[z]] = ranked[z]


@nb.njit(nogil=True, cache=True)
def correlated(lots: FloatArray, factor: FloatArray) -> None:
    """Turn independent normal lots (columns × rows) into ones with the correlation L Lᵀ, in place."""
    p, n = lots.shape
    own = np.empty(p)
    for i in range(n):
        for j in range(p):
            own[j] = lots[j, i]
        for j in range(p):
            t = 1e-6 * own[j]  # keeps an order where the correlation is singular
            for v in range(j + 1):
                t += factor[j, v] * own[v]
            lots[j, i] = t


@nb.njit(nogil=True, cache=True)
def moment_gap(dealt: FeatureArray, wanted: FeatureArray) -> FloatArray:
    """Mean products of features as dealt, less those that are wanted."""
    n, q = dealt.shape
    out = np.zeros((q, q))
    for i in range(n):
        for u in range(q):
            x, y = np.float64(dealt[i, u]), np.float64(wanted[i, u])
            for v in range(u + 1):
                out[u, v] += x * dealt[i, v] - y * wanted[i, v]
    for u in range(q):
        for v in range(u + 1):
            out[u, v] /= n
            out[v, u] = out[u, v]
    return out


@nb.njit(nogil=True, cache=True)
def own_pairs_off(gap: FloatArray, first: IntArray) -> None:
    """Put 0 where both features are of one column: its own moments can't change."""
    for j in range(first.size - 1):
        gap[first[j] : first[j + 1], first[j] : first[j + 1]] = 0.0


@nb.njit(nogil=True, cache=True)
def repair(
    features: FeatureArray, first: IntArray, codes: CodeArray, cluster: CodeArray, start: IntArray,
    gap: FloatArray, words: WordArray, goal: float,
) -> tuple[int, float]:  # fmt: skip
    """Exchange codes of one column between two rows of a cluster wherever Σ gap² falls.

    An exchange of rows a and b in column j, with features f of j and g of the others, changes the mean
    product of f and g by (f_a − f_b)(g_b − g_a)/n. One word of random bits a try: the row, the other
    row of its cluster, the column. Stops where Σ gap² is at most ``goal``. Returns how many were
    exchanged, and Σ gap².
    """
    n, q = features.shape
    p = first.size - 1
    low = np.uint64(0xFFFF)
    total = 0.0
    for u in range(q):
        for v in range(q):
            total += gap[u, v] * gap[u, v]
    done = 0
    other = np.empty(q)
    pull = np.empty(q)
    for t in range(words.size):
        if total <= goal:
            break
        word = words[t]
        a = np.int64(((word >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
        g = cluster[a]
        size = start[g + 1] - start[g]
        # 16 bits are too few for a very large cluster: those borrow from the row's.
        b = start[g] + (
            np.int64((((word >> np.uint64(16)) & low) * np.uint64(size)) >> np.uint64(16))
            if size < 4096
            else np.int64((word * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(24)) % np.uint64(size))
        )
        j = np.int64(((word & low) * np.uint64(p)) >> np.uint64(16))
        if codes[a, j] == codes[b, j]:
            continue
        lo, hi = first[j], first[j + 1]
        if lo == hi:
            continue
        for v in range(q):
            pull[v] = 0.0
        steps = 0.0
        for u in range(lo, hi):
            d = (np.float64(features[a, u]) - np.float64(features[b, u])) / n
            if d != 0.0:
                steps += d * d
                for v in range(q):
                    pull[v] += d * gap[u, v]
        if steps == 0.0:
            continue
        # Σ_uv x(2 gap + x) with x = d_u g_v; gap is 0 within the column, whose own g must not count.
        change, across = 0.0, 0.0
        for v in range(q):
            other[v] = np.float64(features[b, v]) - np.float64(features[a, v])
        for v in range(lo, hi):
            other[v] = 0.0
        for v in range(q):
            change += other[v] * pull[v]
            across += other[v] * other[v]
        change = 2.0 * change + steps * across
        if change >= 0.0:
            continue
        for u in range(lo, hi):
            d = (np.float64(features[a, u]) - np.float64(features[b, u])) / n
            if d != 0.0:
                for v in range(q):
                    gap[u, v] += d * other[v]
                for v in range(q):
                    if v < lo or v >= hi:
                        gap[v, u] = gap[u, v]
        for u in range(lo, hi):
            features[a, u], features[b, u] = features[b, u], features[a, u]
        codes[a, j], codes[b, j] = codes[b, j], codes[a, j]
        total += 2.0 * change
        done += 1
    return done, total


@nb.njit(nogil=True, cache=True)
def constant_cells(codes: CodeArray, start: IntArray, constant: npt.NDArray[np.bool_]) -> None:
    """Which clusters have one and the same code of a column."""
    for g in range(start.size - 1):
        same = True
        for i in range(start[g] + 1, start[g + 1]):
            if codes[i] != codes[start[g]]:
                same = False
                break
        constant[g] = same


_FEW = 64  # members of a cluster up to which every row is compared with every record


@nb.njit(nogil=True, cache=True)
def whole_records(
    own: CodeArray, dealt: CodeArray, start: IntArray, rare: npt.NDArray[np.bool_], at: IntArray
) -> IntArray:
    """By cluster, the dealt rows that are a whole record of it; those with three or more rare values of one.

    ``rare`` has the levels of all columns one after another, column j's from ``at[j]`` on. In a large cluster
    a row is compared with the records alone that share its hash, or one of its rare values.
    """
    p = own.shape[1]
    out = np.zeros((start.size - 1, 2), np.int64)
    for g in range(start.size - 1):
        low, high = start[g], start[g + 1]
        if high - low > _FEW:
            out[g, 0], out[g, 1] = _whole_in_large(own[low:high], dealt[low:high], rare, at)
            continue
        for r in range(low, high):
            is_whole, is_three = False, False
            for i in range(low, high):
                same, shared = 0, 0
                for j in range(p):
                    if own[i, j] == dealt[r, j]:
                        same += 1
                        if rare[at[j] + dealt[r, j]]:
                            shared += 1
                is_whole |= same == p
                is_three |= shared >= 3
            out[g, 0] += is_whole
            out[g, 1] += is_three
    return out


@nb.njit(nogil=True, cache=True)
def _whole_in_large(
    own: CodeArray, dealt: CodeArray, rare: npt.NDArray[np.bool_], at: IntArray
) -> tuple[int, int]:
    """The same of one cluster, by two tables of open addresses: records; rare values and whose they are."""
    n, p = own.shape
    held = 0
    for i in range(n):
        for j in range(p):
            held += rare[at[j] + own[i, j]]
    rows = np.full(_slots(n), -1, np.int64)
    values = np.full(_slots(held), -1, np.int64)
    for i in range(n):
        spot = _place_of(rows, own, own[i])
        rows[spot] = i  # of equal records one stands for all
        for j in range(p):
            if rare[at[j] + own[i, j]]:
                spot = _mixed(own[i, j : j + 1], j) & (values.size - 1)
                while values[spot] >= 0:
                    spot = (spot + 1) & (values.size - 1)
                values[spot] = i * p + j
    whole, three = 0, 0
    for r in range(n):
        whole += rows[_place_of(rows, own, dealt[r])] >= 0
        three += _three_of_one(own, dealt[r], rare, at, values)
    return whole, three


@nb.njit(nogil=True, cache=True)
def _three_of_one(own, row, rare, at, values):  # type: ignore[no-untyped-def]
    """Whether a row has three rare values of one record."""
    p = row.size
    for j in range(p):
        if not rare[at[j] + row[j]]:
            continue
        spot = _mixed(row[j : j + 1], j) & (values.size - 1)
        while values[spot] >= 0:
            i, k = values[spot] // p, values[spot] % p
            if k == j and own[i, j] == row[j]:
                shared = 0
                for u in range(p):
                    shared += own[i, u] == row[u] and rare[at[u] + row[u]]
                if shared >= 3:
                    return True
            spot = (spot + 1) & (values.size - 1)
    return False


@nb.njit(nogil=True, cache=True)
def _slots(n):  # type: ignore[no-untyped-def]
    """A power of two with room for n entries, at most half full."""
    size = 2
    while size < 2 * n:
        size *= 2
    return size


@nb.njit(nogil=True, cache=True)
def _place_of(rows, own, row):  # type: ignore[no-untyped-def]
    """Where a record like this stands in the table, or would stand."""
    spot = _mixed(row, 0) & (rows.size - 1)
    while rows[spot] >= 0:
        same = True
        for j in range(row.size):
            same &= own[rows[spot], j] == row[j]
        if same:
            break
        spot = (spot + 1) & (rows.size - 1)
    return spot


@nb.njit(nogil=True, cache=True)
def _mixed(codes, salt):  # type: ignore[no-untyped-def]
    """A hash of some codes, at least 0."""
    word = np.uint64(salt + 1) * np.uint64(0x9E3779B97F4A7C15)
    for j in range(codes.size):
        word = (word ^ np.uint64(codes[j] + 1)) * np.uint64(0xBF58476D1CE4E5B9)
        word ^= word >> np.uint64(29)
    return np.int64(word >> np.uint64(2))
