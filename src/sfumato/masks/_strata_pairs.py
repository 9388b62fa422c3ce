"""Distances between strata by propensity scores, and the pairing of strata by them.

All pairs are fitted where there are few. Where there are many, the closed form of the linear
probability model, U = k·kD²/(1 + kD²) with k = c(1−c) and D² the Mahalanobis distance of the means by
the pooled within covariance, orders the pairs, and only those near the front are fitted. On real, skewed
columns its order is poor (rank correlation with U 0.5 to 0.9), so that it only proposes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from sfumato.masks.base import in_threads
from sfumato.microdata import FloatArray, IntArray

Pair = tuple[int, int]
NEIGHBOURS = 10
"""Each stratum's candidates for the matching, by the closed form."""
CLIP = 3.0
"""Standard deviations at which terms are cut to rank neighbours: far values mislead the closed form."""
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


@dataclass
class Distances:
    """Distances of strata, fitted when asked for. ``strata[s]`` is stratum s's terms × records."""

    strata: list[FloatArray]
    centre: Literal["share", "half"] = "share"
    values: dict[Pair, float] = field(default_factory=dict)
    u: dict[Pair, float] = field(default_factory=dict)
    fits: int = 0

    def adjusted(self, u: float, share: float) -> float:
        return u + (share - 0.5) ** 2 if self.centre == "half" else u

    def fit(self, pairs: Iterable[Pair]) -> None:
        """Fit all these pairs that aren't yet."""
        new = [p for p in dict.fromkeys(pairs) if p not in self.values]

        def one(pair: Pair) -> tuple[float, float]:
            # Newton's error squares with the step after the tolerance is met: U is right to 1e-8.
            found = fit_pair(self.strata[pair[0]], self.strata[pair[1]], tolerance=1e-6)
            return found.u, self.adjusted(found.u, found.share)

        for pair, (u, d) in zip(new, in_threads(one, new), strict=True):
            self.u[pair], self.values[pair] = u, d
        self.fits += len(new)

    def __getitem__(self, pair: Pair) -> float:
        self.fit([pair])
        return self.values[pair]


def linear_distances(
    strata: list[FloatArray], members: IntArray, centre: Literal["share", "half"], clip: float = np.inf
) -> tuple[IntArray, IntArray, FloatArray]:
    """The closed form for every pair of ``members``: first, second, distance.

    Of the terms as they are it hardly ever passes U (never by more than 3% on the files we tried), as
    lazy pairing needs. Of clipped terms it ranks pairs of skewed strata better.
    """
    n = np.array([strata[s].shape[1] for s in members], dtype=np.float64)
    moments = in_threads(lambda s: _moments(strata[s], clip), members)
    means, scatter = np.array([m for m, _ in moments]), np.array([v for _, v in moments])
    at, to = np.triu_indices(len(members), 1)
    out = np.empty(len(at))
    p = means.shape[1]
    block = max(1, 20_000_000 // (p * p * 8))
    ridge = 1e-9 * np.eye(p)

    def part(start: int) -> None:
        a, b = at[start : start + block], to[start : start + block]
        total = n[a] + n[b]
        c = n[b] / total
        within = (scatter[a] + scatter[b]) / total[:, None, None] + ridge
        d = means[b] - means[a]
        mahalanobis = np.einsum("ij,ij->i", d, np.linalg.solve(within, d[:, :, None])[:, :, 0])
        k = c * (1 - c)
        u = k * (k * mahalanobis / (1 + k * mahalanobis))
        out[start : start + block] = u + (c - 0.5) ** 2 if centre == "half" else u

    in_threads(part, range(0, len(at), block))
    return members[at], members[to], out


def _moments(x: FloatArray, clip: float) -> tuple[FloatArray, FloatArray]:
    cut = np.clip(x, -clip, clip)
    mean = cut.mean(axis=1)
    cut -= mean[:, None]
    return mean, np.asarray(cut @ cut.T)


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
    at, to, linear = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    if fast:
        at, to, low = linear_distances(distances.strata, members, distances.centre)
        linear = linear_distances(distances.strata, members, distances.centre, CLIP)[2]
        pairs = lazy_greedy(distances, at, to, low, len(members))
        if method == "matching":
            near = _nearest_pairs(at, to, linear, members)
            distances.fit([*near, *pairs])
            pairs = matching(distances, members, [*near, *pairs])
    else:
        every = [(int(a), int(b)) for i, a in enumerate(members) for b in members[i + 1 :]]
        distances.fit(every)
        pairs = greedy(distances, every) if method == "greedy" else matching(distances, members, every)
    left = set(members.tolist()) - {s for pair in pairs for s in pair}
    for s in sorted(left):
        pairs.append(_nearest(distances, s, members, at, to, linear))
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
        options={"node_limit": 20_000, "mip_rel_gap": 0.0},
    )
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


def _nearest_pairs(at: IntArray, to: IntArray, linear: FloatArray, members: IntArray) -> list[Pair]:
    """Each stratum with its nearest others by the closed form."""
    size = len(members)
    keep = min(NEIGHBOURS, size - 1)
    place = np.searchsorted(members, np.stack([at, to]))
    square = np.full((size, size), np.inf)
    square[place[0], place[1]] = square[place[1], place[0]] = linear
    near = np.argpartition(square, keep - 1, axis=1)[:, :keep]
    rows = np.repeat(np.arange(size), keep)
    low, high = np.minimum(rows, near.ravel()), np.maximum(rows, near.ravel())
    return sorted({(int(members[a]), int(members[b])) for a, b in zip(low, high, strict=True)})


def _nearest(
    distances: Distances, s: int, members: IntArray, at: IntArray, to: IntArray, linear: FloatArray
) -> Pair:
    """The pair of an odd stratum: the nearest of all, or of its nearest by the closed form."""
    if len(linear):
        mine = np.flatnonzero((at == s) | (to == s))
        mine = mine[np.argsort(linear[mine], kind="stable")][:NEIGHBOURS]
        options = [(int(at[i]), int(to[i])) for i in mine]
    else:
        options = [(min(s, int(t)), max(s, int(t))) for t in members if t != s]
    return min(options, key=lambda p: (distances[p], p))
