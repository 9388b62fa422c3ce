"""Distances between strata by propensity scores, and the pairing of strata by them.

All pairs are fitted where there are few. Where there are many, the closed form of the linear
probability model, U = k·kD²/(1 + kD²) with k = c(1−c) and D² the Mahalanobis distance of the means by
the pooled within covariance, bounds U from below (nearly: a slack sees to the rest), and only pairs whose
bound could still beat what is fitted are fitted. On real, skewed columns its order is poor (rank
correlation with U 0.5 to 0.9), so that it never decides.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.masks.group_swap.matching import lazy_matching
from sfumato.parallel import in_threads, threads

Pair = tuple[int, int]
RIDGE = 1e-6
"""The penalty on squared coefficients of standardised terms: it only keeps fits defined."""
TOLERANCE = 1e-13
"""Of the objective: U is then right to about 1e-8."""
NODES = 20_000
"""The matching's search for whole solutions stops after so many nodes."""
SLACK = 0.1
"""A lazily chosen pair must beat every unfitted pair's closed form by this share."""


@dataclass(frozen=True)
class PairFit:
    """The propensity model of a pair: ``scores`` are P(second | x), the first stratum's records first."""

    scores: FloatArray
    u: float
    share: float
    separated: bool

    @property
    def capacity(self) -> float:
        """Σ e(1−e) = N[c(1−c) − U]: how many records can go each way with balanced totals."""
        return float((self.scores * (1.0 - self.scores)).sum())


def fit_pair(first: FloatArray, second: FloatArray, *, tolerance: float = 1e-10) -> PairFit:
    """Fit the propensity model of two strata, each given as terms × records."""
    from sfumato.kernels.logistic import fit_logistic

    n0, n1 = first.shape[1], second.shape[1]
    X = np.concatenate([first, second], axis=1).T  # Fortran order: columns are contiguous
    y = np.r_[np.zeros(n0), np.ones(n1)]
    fit = fit_logistic(X, y, tolerance=tolerance)
    c = n1 / (n0 + n1)
    # The ridge only pulls p towards c, so U can pass c(1−c) by rounding alone.
    u = min(fit.distance(y), c * (1 - c))
    return PairFit(fit.probabilities, u, c, not fit.converged or u > 0.99 * c * (1 - c))


Moments = tuple[FloatArray, FloatArray]
"""Each stratum's means, and its sums of squares and products about them."""


@dataclass
class Distances:
    """Distances of strata, fitted when asked for. ``strata[s]`` is stratum s's terms × records.

    ``terms`` and ``starts`` are the array that the strata are parts of, where there is one.
    """

    strata: list[FloatArray]
    centre: Literal["share", "half"] = "share"
    terms: FloatArray | None = None
    starts: IntArray | None = None
    values: dict[Pair, float] = field(default_factory=dict)
    u: dict[Pair, float] = field(default_factory=dict)
    fits: int = 0
    cut_short: int = 0
    """How many matchings stopped at their limit, so that a nearer one may exist."""

    def __post_init__(self) -> None:
        self._moments: Moments | None = None

    def moments(self) -> Moments:
        if self._moments is None:
            self._moments = moments_of(self.strata)
        return self._moments

    def adjusted(self, u: float, share: float) -> float:
        return u + (share - 0.5) ** 2 if self.centre == "half" else u

    def fit(self, pairs: Iterable[Pair]) -> None:
        """Fit all these pairs that aren't yet."""
        new = [p for p in dict.fromkeys(pairs) if p not in self.values]
        if not new:
            return
        from sfumato.kernels.logistic_pairs import pair_distances

        if self.terms is None or self.starts is None:
            self.terms = np.ascontiguousarray(np.concatenate(self.strata, axis=1))
            self.starts = np.r_[0, np.cumsum([x.shape[1] for x in self.strata])]
        terms, starts = self.terms, np.asarray(self.starts, dtype=np.int64)
        means, scatter = self.moments()
        ends = np.array(new, dtype=np.int64)
        parts = max(1, min(8 * threads(), len(new) // 4))

        def part(which: int) -> tuple[FloatArray, BoolArray]:
            mine = ends[which::parts]  # every so many, so that large strata are shared out
            one, two = np.ascontiguousarray(mine[:, 0]), np.ascontiguousarray(mine[:, 1])
            return pair_distances(terms, starts, means, scatter, one, two, RIDGE, TOLERANCE)[:2]

        u, good = np.empty(len(new)), np.empty(len(new), dtype=np.bool_)
        for which, found in enumerate(in_threads(part, range(parts))):
            u[which::parts], good[which::parts] = found
        for pair, value, fine in zip(new, u.tolist(), good.tolist(), strict=True):
            a, b = pair
            exact = value if fine else fit_pair(self.strata[a], self.strata[b]).u
            n0, n1 = self.strata[a].shape[1], self.strata[b].shape[1]
            self.u[pair], self.values[pair] = exact, self.adjusted(exact, n1 / (n0 + n1))
        self.fits += len(new)

    def __getitem__(self, pair: Pair) -> float:
        self.fit([pair])
        return self.values[pair]


def linear_distances(
    strata: list[FloatArray],
    members: IntArray,
    centre: Literal["share", "half"],
    moments: Moments | None = None,
) -> tuple[IntArray, IntArray, FloatArray]:
    """The closed form for every pair of ``members``: first, second, distance.

    It hardly ever passes U (never by more than 3% on the files we tried), as lazy pairing needs.
    """
    from sfumato.kernels.logistic_pairs import linear_pairs

    sizes = np.array([x.shape[1] for x in strata], dtype=np.float64)
    means, scatter = moments if moments is not None else moments_of(strata)
    at, to = np.triu_indices(len(members), 1)
    first, second = members[at].astype(np.int64), members[to].astype(np.int64)
    parts = np.array_split(np.arange(len(first)), max(1, min(8 * threads(), len(first) // 1000)))
    found = in_threads(
        lambda i: linear_pairs(sizes, means, scatter, first[i], second[i], centre == "half", 1e-9), parts
    )
    return first, second, np.concatenate(found)


def moments_of(strata: list[FloatArray]) -> Moments:
    """The moments of every stratum."""
    found = in_threads(_moments, strata)
    return np.array([m for m, _ in found]), np.array([v for _, v in found])


def _moments(x: FloatArray) -> Moments:
    mean = x.mean(axis=1)
    centred = x - mean[:, None]
    return mean, np.asarray(centred @ centred.T)


def pair_strata(
    distances: Distances,
    members: IntArray,
    method: Literal["greedy", "matching"],
    *,
    fast: bool,
) -> list[Pair]:
    """The pairs, nearest first. An odd stratum is paired with its nearest, which then is in two pairs.

    Matching minimises the total distance, the odd stratum's included.
    """
    members = np.sort(members)
    if len(members) < 2:
        return []
    at, to, low = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    if fast:
        at, to, low = linear_distances(distances.strata, members, distances.centre, distances.moments())
        if method == "greedy":
            pairs = lazy_greedy(distances, at, to, low, len(members))
        else:
            pairs, optimal = lazy_matching(
                distances.__getitem__, distances.fit, members, at, to, low * (1 - SLACK)
            )
            if not optimal:
                distances.cut_short += 1
                first = lazy_greedy(distances, at, to, low, len(members))
                pairs = matching(distances, members, [*pairs, *first])
    else:
        every = [(int(a), int(b)) for i, a in enumerate(members) for b in members[i + 1 :]]
        distances.fit(every)
        pairs = greedy(distances, every) if method == "greedy" else matching(distances, members, every)
    left = set(members.tolist()) - {s for pair in pairs for s in pair}
    for s in sorted(left):
        pairs.append(_nearest(distances, s, members, at, to, low))
    return sorted(set(pairs), key=lambda p: (distances[p], p))


def greedy(distances: Distances, candidates: Iterable[Pair]) -> list[Pair]:
    """The nearest pair of unpaired strata, again and again (steps 1, 5 and 6 of the paper)."""
    used: set[int] = set()
    out: list[Pair] = []
    for pair in sorted(candidates, key=lambda p: (distances[p], p)):
        if used.isdisjoint(pair):
            used.update(pair)
            out.append(pair)
    return out


def lazy_greedy(
    distances: Distances, at: IntArray, to: IntArray, linear: FloatArray, size: int, slack: float = SLACK
) -> list[Pair]:
    """Greedy pairs with a fit only when it may matter.

    The fitted pair with the least distance is taken once no unfitted pair's closed form, lowered by
    ``slack``, lies below it.
    """
    order = np.argsort(linear, kind="stable")
    used: set[int] = set()
    heap: list[tuple[float, Pair]] = []
    out: list[Pair] = []
    place = 0
    while len(out) * 2 < size - 1:
        while heap and not used.isdisjoint(heap[0][1]):
            heapq.heappop(heap)
        while place < len(order) and (int(at[order[place]]) in used or int(to[order[place]]) in used):
            place += 1
        spent = place >= len(order)
        if heap and (spent or heap[0][0] <= linear[order[place]] * (1 - slack)):
            pair = heapq.heappop(heap)[1]
            used.update(pair)
            out.append(pair)
            continue
        pair = (int(at[order[place]]), int(to[order[place]]))
        place += 1
        heapq.heappush(heap, (distances[pair], pair))
    return out


def matching(distances: Distances, members: IntArray, candidates: Iterable[Pair]) -> list[Pair]:
    """The pairs with the least total distance that cover every stratum (all but one of an odd number).

    With an odd number, a stratum may stay alone at the price of its nearest candidate's distance.
    Solved as an integer programme on the candidates; where these have no perfect matching, or the
    search is cut short, the greedy pairs stand unless the programme found better ones.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    pairs = sorted(dict.fromkeys(candidates))
    start = greedy(distances, pairs)
    place = {int(s): i for i, s in enumerate(members)}
    ends = [(place[a], place[b]) for a, b in pairs]
    costs = [distances[p] for p in pairs]
    odd = len(members) % 2
    if odd:
        alone = np.full(len(members), np.inf)
        for (a, b), cost in zip(ends, list(costs), strict=True):
            alone[a], alone[b] = min(alone[a], cost), min(alone[b], cost)
        reachable = np.flatnonzero(np.isfinite(alone))
        ends += [(int(s), len(members)) for s in reachable]
        costs += alone[reachable].tolist()
    flat = np.array(ends).ravel()
    edges = np.repeat(np.arange(len(ends)), 2)
    cover = csr_array((np.ones(len(flat)), (flat, edges)), shape=(len(members) + odd, len(ends)))
    found = milp(
        np.array(costs),
        integrality=np.ones(len(ends), dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(cover, 1, 1),
        options={"node_limit": NODES, "mip_rel_gap": 0.0},
    )
    if found.status == 1:
        distances.cut_short += 1
    if found.x is None:
        return start
    chosen = [p for p, x in zip(pairs, found.x[: len(pairs)], strict=True) if x > 0.5]
    whole = len(start) * 2 >= len(members) - 1
    price = partial(_price, distances, pairs)
    return start if whole and price(start, members) < price(chosen, members) - 1e-12 else chosen


def _price(distances: Distances, candidates: list[Pair], pairs: list[Pair], members: IntArray) -> float:
    """The total distance, that of a stratum left over to its nearest candidate included."""
    left = set(members.tolist()) - {s for pair in pairs for s in pair}
    extra = sum(min((distances[p] for p in candidates if s in p), default=np.inf) for s in left)
    return sum(distances[p] for p in pairs) + extra


def _nearest(
    distances: Distances, s: int, members: IntArray, at: IntArray, to: IntArray, low: FloatArray
) -> Pair:
    """The pair of an odd stratum: the nearest of all; with the closed form, fitted only as far as needed."""
    if not len(low):
        options = [(min(s, int(t)), max(s, int(t))) for t in members if t != s]
        return min(options, key=lambda p: (distances[p], p))
    mine = np.flatnonzero((at == s) | (to == s))
    best: tuple[float, Pair] = (np.inf, (s, s))
    for i in mine[np.argsort(low[mine], kind="stable")]:
        if low[i] * (1 - SLACK) > best[0]:
            break
        pair = (int(at[i]), int(to[i]))
        best = min(best, (distances[pair], pair))
    return best[1]
