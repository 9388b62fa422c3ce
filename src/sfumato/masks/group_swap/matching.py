"""Minimum-weight perfect matching of many strata with few fits: a pair is fitted once a solution wants it.

The linear programme of the matching takes a pair at its distance where it is fitted and at a lower bound
(the closed form, less a slack) where it isn't. Pairs come into the programme when their value lies below
the prices of their two ends; fractional solutions are cut off at their odd components (Edmonds' odd-set
inequalities). The unfitted pairs of a solution are fitted and it is solved again. A whole solution of
fitted pairs is optimal among all pairs, as far as the bound holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.errors import MaskError

Pair = tuple[int, int]
EPSILON = 1e-7
NEAREST = 6
"""Each stratum's pairs in the first programme, by their bound."""
ROUNDS = 1000
FEW_ROUNDS = 40
"""Rounds beyond one a stratum; where all distances are alike (strata of one record), none would end it."""


class _Programme:
    """Cover every node once, and x(E(S)) ≤ (|S| − 1)/2 for each node set S of ``cuts``."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.cuts: dict[frozenset[int], BoolArray] = {}
        """Node set → which nodes are in it."""

    def solve(self, ends: IntArray, costs: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The solution, the nodes' prices, the cuts' prices (none above 0)."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array

        edges = np.arange(len(ends))
        cover: Any = csr_array(
            (np.ones(2 * len(ends)), (ends.ravel(), np.repeat(edges, 2))), shape=(self.nodes, len(ends))
        )
        limits: Any = None
        sizes = np.array([(len(s) - 1) // 2 for s in self.cuts], dtype=np.float64)
        if self.cuts:
            limits = csr_array(self.inside(np.stack(list(self.cuts.values())), ends).astype(np.float64))
        found = linprog(
            costs,
            A_ub=limits,
            b_ub=sizes if self.cuts else None,
            A_eq=cover,
            b_eq=np.ones(self.nodes),
            bounds=(0, None),
            method="highs",
        )
        if found.x is None:
            raise MaskError(f"the matching of strata failed: {found.message}", hint='pairing = "greedy"')
        cut_prices = np.asarray(found.ineqlin.marginals) if self.cuts else sizes
        return np.asarray(found.x), np.asarray(found.eqlin.marginals), cut_prices

    def inside(self, member: BoolArray, ends: IntArray) -> BoolArray:
        """Which pairs have both ends in a set (or in each of several)."""
        return np.asarray(member[..., ends[:, 0]] & member[..., ends[:, 1]])

    def cut(self, ends: IntArray, x: FloatArray) -> bool:
        """Cut off a fractional solution at its odd components; False where there is nothing to cut."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        loose = (x > EPSILON) & (x < 1 - EPSILON)
        if not loose.any():
            return False
        a, b = ends[loose].T
        graph = csr_array((np.ones(len(a)), (a, b)), shape=(self.nodes, self.nodes))
        _, of = connected_components(graph, directed=False)
        added = False
        for c in np.unique(of[a]):
            member = np.asarray(of == c)
            nodes = frozenset(np.flatnonzero(member).tolist())
            if len(nodes) % 2 and nodes not in self.cuts:
                within = float(x[self.inside(member, ends)].sum())
                if within > (len(nodes) - 1) // 2 + EPSILON:
                    self.cuts[nodes] = member
                    added = True
        return added


def lazy_matching(
    distance: Callable[[Pair], float],
    fit: Callable[[Iterable[Pair]], None],
    members: IntArray,
    at: IntArray,
    to: IntArray,
    bound: FloatArray,
) -> tuple[list[Pair], bool]:
    """The pairs, and whether they are optimal as far as ``bound`` holds (else all pairs fitted).

    ``at`` and ``to`` are all pairs of ``members``, which are sorted. With an odd number, a stratum may
    stay alone at the price of its nearest's distance.
    """
    one, two = np.searchsorted(members, at), np.searchsorted(members, to)
    size, odd = len(members), len(members) % 2
    value = np.array(bound, dtype=np.float64)
    fitted = np.zeros(len(at), dtype=np.bool_)
    inside = _first_columns(one, two, bound, size)
    programme = _Programme(size + odd)
    every = np.stack([one, two], axis=1)
    place = np.full((size, size), -1)
    place[one, two] = np.arange(len(one))

    def pairs(which: IntArray) -> list[Pair]:
        return [(int(a), int(b)) for a, b in zip(at[which], to[which], strict=True)]

    for _ in range(min(ROUNDS, FEW_ROUNDS + size)):
        columns = np.flatnonzero(inside)
        ends, costs = every[columns], value[columns]
        nearest = _nearest_of_each(one, two, value, size) if odd else np.empty(0, dtype=np.int64)
        if odd:
            ends = np.concatenate([ends, np.stack([np.arange(size), np.full(size, size)], axis=1)])
            costs = np.r_[costs, value[nearest]]
        x, prices, cut_prices = programme.solve(ends, costs)
        if programme.cut(ends, x):
            continue
        worth = prices[one] + prices[two] - value
        for member, price in zip(programme.cuts.values(), cut_prices, strict=True):
            if price < 0:
                nodes = np.flatnonzero(member[:size])
                within = place[np.ix_(nodes, nodes)]
                worth[within[within >= 0]] += price
        new = (worth > 1e-10) & ~inside
        if new.any():
            inside |= new
            continue
        wanted = columns[x[: len(columns)] > EPSILON]
        if odd:
            wanted = np.r_[wanted, nearest[x[len(columns) :] > EPSILON]]
        open_ = np.unique(wanted[~fitted[wanted]])
        if len(open_):
            fit(pairs(open_))
            fitted[open_] = True
            value[open_] = [distance(p) for p in pairs(open_)]
            continue
        if ((x > EPSILON) & (x < 1 - EPSILON)).any():
            break
        return pairs(columns[x[: len(columns)] > 0.5]), True
    return pairs(np.flatnonzero(fitted)), False


def _first_columns(one: IntArray, two: IntArray, bound: FloatArray, size: int) -> BoolArray:
    """Each stratum's nearest by the bound, and neighbours in order, so that there is a matching."""
    square = np.full((size, size), np.inf)
    square[one, two] = square[two, one] = bound
    near = np.argsort(square, axis=1, kind="stable")[:, : min(NEAREST, size - 1)]
    wanted = np.zeros((size, size), dtype=np.bool_)
    wanted[np.arange(size)[:, None], near] = True
    pairs = np.arange(size - 1)
    wanted[pairs, pairs + 1] = True
    return np.asarray((wanted | wanted.T)[one, two])


def _nearest_of_each(one: IntArray, two: IntArray, value: FloatArray, size: int) -> IntArray:
    order = np.argsort(-value, kind="stable")
    out, second = np.full(size, -1), np.full(size, -1)
    out[one[order]] = order  # of several, the last one written stays: the nearest
    second[two[order]] = order
    least = np.where(out >= 0, value[out], np.inf)
    other = np.where(second >= 0, value[second], np.inf)
    return np.where(least <= other, out, second)
