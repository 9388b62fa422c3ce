"""Kernels of a deal in blocks: what belongs together moves together, and edit rules hold.

Row r has a code in each of W columns (−1 where it has none). A *move* exchanges a run of columns between two
rows of one *pool*. An edit is a clause of literals, kept where one of them is true; a literal compares
the numbers of two columns (or of one with a constant).
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

LESS, AT_MOST, EQUAL, UNEQUAL, MORE, AT_LEAST = 0, 1, 2, 3, 4, 5
_LOW = np.uint64(0xFFFF)


@nb.njit(nogil=True, cache=True)
def _number(codes: CodeArray, row: int, column: int, numbers: FloatArray, at: IntArray) -> float:
    code = codes[row, column]
    return numbers[at[column] + code] if code >= 0 else np.nan


@nb.njit(nogil=True, cache=True)
def _true(
    codes: CodeArray, row: int, literal: IntArray, constant: float, numbers: FloatArray, at: IntArray
) -> bool:
    """A literal (column, other column or −1, relation, what it is where a number is missing)."""
    x = _number(codes, row, literal[0], numbers, at)
    y = constant if literal[1] < 0 else _number(codes, row, literal[1], numbers, at) + constant
    if np.isnan(x) or np.isnan(y):
        return bool(literal[3] != 0)
    if literal[2] == LESS:
        return x < y
    if literal[2] == AT_MOST:
        return x <= y
    if literal[2] == EQUAL:
        return x == y
    if literal[2] == MORE:
        return x > y
    if literal[2] == AT_LEAST:
        return x >= y
    return x != y


@nb.njit(nogil=True, cache=True)
def broken(
    codes: CodeArray, row: int, which: IntArray, clause: IntArray, literals: IntArray, constants: FloatArray,
    numbers: FloatArray, at: IntArray,
) -> int:  # fmt: skip
    """How many of these clauses a row breaks; clause c has literals ``clause[c]`` … ``clause[c + 1]``."""
    out = 0
    for c in which:
        kept = False
        for z in range(clause[c], clause[c + 1]):
            if _true(codes, row, literals[z], constants[z], numbers, at):
                kept = True
                break
        if not kept:
            out += 1
    return out


@nb.njit(nogil=True, cache=True)
def count_broken(
    codes: CodeArray, clause: IntArray, literals: IntArray, constants: FloatArray, numbers: FloatArray,
    at: IntArray,
) -> IntArray:  # fmt: skip
    """How many clauses each row breaks."""
    every = np.arange(clause.size - 1)
    out = np.empty(codes.shape[0], np.int64)
    for r in range(codes.shape[0]):
        out[r] = broken(codes, r, every, clause, literals, constants, numbers, at)
    return out


@nb.njit(nogil=True, cache=True, inline="always")
def _swap(codes: CodeArray, a: int, b: int, begin: int, end: int) -> None:
    for c in range(begin, end):
        codes[a, c], codes[b, c] = codes[b, c], codes[a, c]


@nb.njit(nogil=True, cache=True)
def mend(
    codes: CodeArray, moves: IntArray, pool: IntArray, start: IntArray, members: IntArray, clause: IntArray,
    literals: IntArray, constants: FloatArray, numbers: FloatArray, at: IntArray, words: WordArray,
) -> IntArray:  # fmt: skip
    """Random exchanges for rows that break clauses, kept unless more are broken after; rows still broken.

    ``moves`` has the moves that may be tried (begin, end of columns, pool); one word a try.
    """
    every = np.arange(clause.size - 1)
    count = count_broken(codes, clause, literals, constants, numbers, at)
    t = 0
    while t < words.size and count.sum() > 0:
        for a in range(count.size):
            if count[a] == 0:
                continue
            if t >= words.size:
                break
            word = words[t]
            t += 1
            m = np.int64(((word & _LOW) * np.uint64(moves.shape[0])) >> np.uint64(16))
            p = moves[m, 2]
            g = pool[a, p]
            size = start[p, g + 1] - start[p, g]
            b = int(members[start[p, g] + np.int64((word >> np.uint64(16)) % np.uint64(size)), p])
            if a == b:
                continue
            _swap(codes, a, b, int(moves[m, 0]), int(moves[m, 1]))
            x = broken(codes, a, every, clause, literals, constants, numbers, at)
            y = broken(codes, b, every, clause, literals, constants, numbers, at)
            if x + y > count[a] + count[b]:
                _swap(codes, a, b, int(moves[m, 0]), int(moves[m, 1]))
            else:
                count[a], count[b] = x, y
    return np.flatnonzero(count > 0)


@nb.njit(nogil=True, cache=True)
def repair_blocks(
    features: FeatureArray, first: IntArray, codes: CodeArray, moves: IntArray, kind: CodeArray,
    kind_at: IntArray, pool: IntArray, start: IntArray, members: IntArray, frozen: npt.NDArray[np.bool_],
    touched: IntArray, touched_at: IntArray, clause: IntArray, literals: IntArray, constants: FloatArray,
    numbers: FloatArray, at: IntArray, gap: FloatArray, on: npt.NDArray[np.bool_], main: IntArray,
    weight: FloatArray, heavy: FloatArray, words: WordArray, goal: float,
) -> tuple[int, int, float]:  # fmt: skip
    """Exchange blocks between two rows of a pool wherever Σ gap² falls and no clause breaks that held.

    As :func:`sfumato.kernels.shuffle.repair`, with a run of columns in place of one. A move is (begin, end
    of columns, pool, whether it must keep to one kind): with the last, both codes must be of one kind
    (``kind``: 0 and not 0, say), so that one column of a block can move by itself and leave its
    pattern. Clauses that a move touches are ``touched[touched_at[m]]`` … ``frozen`` rows stay as they are
    in moves that touch clauses. Where ``on`` isn't empty, it says which products of
    features count (``gap`` is 0 elsewhere). ``heavy`` has the gaps of weighted mean products of the
    features ``main``: with row weights w, an exchange changes them by (f_a − f_b)(w_b g_b − w_a g_a)/n; it
    is empty where there are no weights. Returns exchanges, those refused because of a clause, and Σ gap²
    (weighted ones included).
    """
    n, q = features.shape
    total = 0.0
    for u in range(q):
        for v in range(q):
            total += gap[u, v] * gap[u, v]
    for x in range(main.size):
        for y in range(main.size):
            total += heavy[x, y] * heavy[x, y]
    done, refused = 0, 0
    other = np.empty(q)
    pull = np.empty(q)
    weighted = np.empty(main.size)
    for t in range(words.size):
        if total <= goal:
            break
        word = words[t]
        a = int(((word >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
        m = np.int64(((word & _LOW) * np.uint64(moves.shape[0])) >> np.uint64(16))
        begin, end, p = int(moves[m, 0]), int(moves[m, 1]), moves[m, 2]
        lo, hi = first[begin], first[end]
        if lo == hi:
            continue
        g = pool[a, p]
        size = start[p, g + 1] - start[p, g]
        b = members[
            start[p, g]
            + np.int64(((word * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)) % np.uint64(size)),
            p,
        ]
        if a == b:
            continue
        if moves[m, 3]:
            x, y = codes[a, begin], codes[b, begin]
            if x < 0 or y < 0 or kind[kind_at[begin] + x] != kind[kind_at[begin] + y]:
                continue
        tied = touched_at[m + 1] > touched_at[m]
        if tied and (frozen[a] or frozen[b]):
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
        change, across = 0.0, 0.0
        for v in range(q):
            other[v] = np.float64(features[b, v]) - np.float64(features[a, v])
        for v in range(lo, hi):
            other[v] = 0.0
        for v in range(q):
            change += other[v] * pull[v]
            across += other[v] * other[v]
        change = 2.0 * change + steps * across
        if on.size:
            for u in range(lo, hi):  # the products that don't count
                d = (np.float64(features[a, u]) - np.float64(features[b, u])) / n
                spare = 0.0
                for v in range(q):
                    if not on[u, v]:
                        spare += other[v] * other[v]
                change -= d * d * spare
        if main.size:
            for y in range(main.size):
                v = main[y]
                weighted[y] = weight[b] * features[b, v] - weight[a] * features[a, v]
                if lo <= v < hi:
                    weighted[y] = 0.0
            for x in range(main.size):
                u = main[x]
                if lo <= u < hi:
                    d = (np.float64(features[a, u]) - np.float64(features[b, u])) / n
                    for y in range(main.size):
                        z = d * weighted[y]
                        change += z * (2.0 * heavy[x, y] + z)
        if change >= 0.0:
            continue
        if tied:
            which = touched[touched_at[m] : touched_at[m + 1]]
            was = broken(codes, a, which, clause, literals, constants, numbers, at) + broken(
                codes, b, which, clause, literals, constants, numbers, at
            )
            _swap(codes, a, b, begin, end)
            now = broken(codes, a, which, clause, literals, constants, numbers, at) + broken(
                codes, b, which, clause, literals, constants, numbers, at
            )
            if now > was:
                _swap(codes, a, b, begin, end)
                refused += 1
                continue
        else:
            _swap(codes, a, b, begin, end)
        for u in range(lo, hi):
            d = (np.float64(features[a, u]) - np.float64(features[b, u])) / n
            if d != 0.0:
                for v in range(q):
                    if on.size == 0 or on[u, v]:
                        gap[u, v] += d * other[v]
                for v in range(q):
                    if v < lo or v >= hi:
                        gap[v, u] = gap[u, v]
        for x in range(main.size):
            u = main[x]
            if lo <= u < hi:
                d = (np.float64(features[a, u]) - np.float64(features[b, u])) / n
                for y in range(main.size):
                    if main[y] < lo or main[y] >= hi:
                        heavy[x, y] += d * weighted[y]
                        heavy[y, x] = heavy[x, y]
        for u in range(lo, hi):
            features[a, u], features[b, u] = features[b, u], features[a, u]
        total += 2.0 * change
        done += 1
    return done, refused, total


@nb.njit(nogil=True, cache=True)
def alike_groups(values: FloatArray, begin: IntArray, least: int, group: IntArray) -> int:
    """Groups of ``least`` alike rows or more, in each run of rows begin[g] … begin[g + 1]; how many.

    Rows stand in an order that their values decide; from the first left, the nearest join (least sum of
    absolute differences from their mean, of equal ones the earlier), until fewer than 2 · least are left.
    """
    width = values.shape[1]
    number = 0
    mean = np.empty(width)
    for g in range(begin.size - 1):
        lo, hi = begin[g], begin[g + 1]
        taken = np.zeros(hi - lo, np.bool_)
        left = hi - lo
        while left > 0:
            want = least if left >= 2 * least else left
            z = 0
            while taken[z]:
                z += 1
            taken[z] = True
            group[lo + z] = number
            for u in range(width):
                mean[u] = values[lo + z, u]
            held = 1
            while held < want:
                best, at = np.inf, -1
                for y in range(hi - lo):
                    if not taken[y]:
                        far = 0.0
                        for u in range(width):
                            far += abs(values[lo + y, u] - mean[u])
                        if far < best:
                            best, at = far, y
                taken[at] = True
                group[lo + at] = number
                held += 1
                for u in range(width):
                    mean[u] += (values[lo + at, u] - mean[u]) / held
            left -= want
            number += 1
    return number
