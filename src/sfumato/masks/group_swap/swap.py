"""Who moves: how many records of each pair of strata, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl

from sfumato.data.microdata import FloatArray, IntArray
from sfumato.draws import Draws
from sfumato.errors import GuaranteeError
from sfumato.masks.group_swap.pairs import Pair, PairFit, fit_pair


@dataclass(frozen=True)
class PairPlan:
    """One pair of strata: its distance, how many records go each way, and its scores.

    ``fit`` is None for a pair with a stratum of an earlier pair, whose scores are those of the
    membership after that pair's swap.
    """

    pair: Pair
    u: float
    distance: float
    capacity: float
    count: int
    fit: PairFit | None


@dataclass(frozen=True)
class SwapPlan:
    """All that is decided before anything is drawn.

    ``rows`` are the records that take part, stratum by stratum; ``starts`` where each stratum begins
    among them; ``terms`` the model's terms × these records.
    """

    records: int
    rows: IntArray
    starts: IntArray
    terms: FloatArray
    labels: list[str]
    pairs: list[PairPlan]
    conditional: bool
    balanced: bool
    move_again: bool
    fits: int = 0
    cut_short: int = 0
    warnings: list[str] = field(default_factory=list)
    term_names: tuple[str, ...] = ()
    u_p: dict[Pair, float] = field(default_factory=dict)
    """Of every pair that was fitted."""
    columns: list[list[str]] = field(default_factory=list)
    """Of each of ``pairs``, the stratum columns in which the two differ."""

    def distances(self, centre: Literal["share", "half"]) -> pl.DataFrame:
        """Every fitted pair, nearest first."""
        chosen = {p.pair for p in self.pairs}
        rows = []
        for (a, b), u in self.u_p.items():
            n0, n1 = (int(self.starts[s + 1] - self.starts[s]) for s in (a, b))
            n, c = n0 + n1, n1 / (n0 + n1)
            rows.append(
                {
                    "first": self.labels[a],
                    "second": self.labels[b],
                    "records": n,
                    "share": c,
                    "u_p": u,
                    "distance": u + (c - 0.5) ** 2 if centre == "half" else u,
                    "capacity": n * (c * (1 - c) - u),
                    "chosen": (a, b) in chosen,
                }
            )
        return pl.DataFrame(rows).sort("distance", "first", "second")

    def draw(self, draws: Draws) -> tuple[IntArray, int]:
        """The new stratum of each record in ``rows``, and how many moves were made."""
        sizes = np.diff(self.starts)
        old = np.repeat(np.arange(len(sizes)), sizes)
        now = old.copy()
        moved = np.zeros(len(old), dtype=np.bool_)
        uniform: dict[str, FloatArray] = {}
        moves = 0
        for plan in self.pairs:
            if plan.count == 0:
                continue
            a, b = plan.pair
            if plan.fit is not None:
                first, second = (np.arange(self.starts[s], self.starts[s + 1]) for s in plan.pair)
                scores = plan.fit.scores
            else:
                # Both strata as they are now; the draws of a second round have a stream of their own.
                first, second = np.flatnonzero(now == a), np.flatnonzero(now == b)
                scores = (
                    fit_pair(self.terms[:, first], self.terms[:, second]).scores
                    if self.conditional
                    else np.full(len(first) + len(second), 0.5)
                )
            e_first, e_second = scores[: len(first)], 1.0 - scores[len(first) :]
            if not self.conditional:
                e_first, e_second = np.ones(len(first)), np.ones(len(second))
            if plan.fit is None and not self.move_again:
                stay_first, stay_second = ~moved[first], ~moved[second]
                first, e_first = first[stay_first], e_first[stay_first]
                second, e_second = second[stay_second], e_second[stay_second]
            k = min(plan.count, len(first), len(second))
            if self.balanced:
                label = f"{self.labels[a]} | {self.labels[b]}"
                rng = draws.stream(stratum=label, purpose="balanced").generator()
                out, back = balanced(e_first, e_second, k, self.terms[:, first], self.terms[:, second], rng)
            else:
                purpose = "first" if plan.fit is not None else "again"
                if purpose not in uniform:
                    uniform[purpose] = draws.stream(purpose=purpose).uniform(0, self.records)[self.rows]
                out = successive(e_first, k, uniform[purpose][first])
                back = successive(e_second, k, uniform[purpose][second])
            gone, come = first[out], second[back]
            if len(np.unique(gone)) != k or len(np.unique(come)) != k:
                raise GuaranteeError(
                    f"{len(gone):,} and {len(come):,} records were drawn instead of {k:,} each way",
                    hint="this is a defect; nothing was released",
                )
            now[gone], now[come] = b, a
            moved[gone] = moved[come] = True
            moves += 2 * k
        return now, moves


def successive(weights: FloatArray, k: int, uniform: FloatArray) -> IntArray:
    """k draws without replacement, each with probability proportional to the weight among those left.

    Exponential clocks with rates w: the first k to ring are such a sample (Efraimidis and Spirakis).
    """
    if k <= 0:
        return np.empty(0, dtype=np.int64)
    rings = -np.log(uniform) / np.maximum(weights, 1e-300)
    return np.asarray(np.sort(np.argpartition(rings, k - 1)[:k]))


def inclusion(weights: FloatArray, k: int) -> FloatArray:
    """Inclusion probabilities proportional to the weights, summing to k, none above 1."""
    w = np.maximum(np.asarray(weights, dtype=np.float64), 1e-12)
    sure = np.zeros(len(w), dtype=np.bool_)
    while True:
        rest = ~sure
        left = k - int(sure.sum())
        pi = np.where(sure, 1.0, 0.0)
        if left <= 0 or not rest.any():
            return pi
        pi[rest] = left * w[rest] / w[rest].sum()
        over = rest & (pi > 1.0)
        if not over.any():
            return pi
        sure |= over


def balanced(
    e_first: FloatArray,
    e_second: FloatArray,
    k: int,
    first: FloatArray,
    second: FloatArray,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """k records of each stratum, drawn jointly so that equal totals of every term go both ways.

    The cube method with inclusion probabilities proportional to the propensity. The two sizes are the
    first constraints, so they hold exactly; then the terms in their order.
    """
    from sfumato.kernels.cube import cube

    n0, n1 = len(e_first), len(e_second)
    pi = np.r_[inclusion(e_first, k), inclusion(e_second, k)]
    z = np.concatenate([first, second], axis=1)
    z = z - z.mean(axis=1, keepdims=True)
    scale = z.std(axis=1)
    z = z[scale > 1e-12] / scale[scale > 1e-12][:, None]
    sign = np.r_[np.ones(n0), -np.ones(n1)]
    matrix = np.ascontiguousarray(np.vstack([sign > 0, sign < 0, sign * z]).T.astype(np.float64))
    chosen = cube(pi, matrix, rng.permutation(n0 + n1), rng) > 0.5
    return np.flatnonzero(chosen[:n0]), np.flatnonzero(chosen[n0:])


def allocate(
    wanted: Sequence[int], capacities: Sequence[float], most: Sequence[int], how: Literal["equal", "capacity"]
) -> list[int]:
    """How many records of each pair go each way: as wanted, or the same total in proportion to capacity."""
    if how == "equal" or not len(wanted):
        return [min(w, m) for w, m in zip(wanted, most, strict=True)]
    total, limit = sum(wanted), np.asarray(most, dtype=np.int64)
    share = np.maximum(np.asarray(capacities, dtype=np.float64), 1e-12)
    out = np.zeros(len(limit), dtype=np.int64)
    while (left := total - int(out.sum())) > 0 and (open_ := out < limit).any():
        ideal = np.where(open_, left * share / share[open_].sum(), 0.0)
        whole = np.floor(ideal).astype(np.int64)
        out += np.minimum(whole, limit - out)
        # What rounding leaves goes to the largest remainders (ties: the first pair).
        for i in np.argsort(whole - ideal, kind="stable")[: left - int(whole.sum())]:
            out[i] += int(open_[i] and out[i] < limit[i])
    return [int(v) for v in out]
