"""PRAM: each category is replaced at random, with known probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact, Kept
from sfumato.contract.guarantees import Guarantee
from sfumato.contract.mask import Notes
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.per_household import PerHousehold
from sfumato.data.codes import code_column
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MaskError, did_you_mean

_MOST_LEVELS = 5_000  # of a matrix given by hand: 200 MB


@dataclass(frozen=True, kw_only=True)
class Pram(PerHousehold):
    """Change each value at random by a transition matrix (post-randomisation method).

    With ``keep_probability`` d, a value stays with probability d. By default the matrix R is
    invariant: with t the counts of the categories in the stratum, t R = t, so that expected counts
    are the counts; the flow from k to l equals the flow back, t_k R_kl = t_l R_lk. A category that
    more than half of the records have can't be left that often, and stays with a higher
    probability. With ``invariant=False`` what isn't kept goes to the other categories in
    proportion to their counts.

    A ``matrix`` gives the probabilities by hand: ``{from: {to: probability}}``, or one such table
    for each column. It is used as it is; with ``invariant=True`` it is followed by the second
    stage of Kooiman et al., which makes it invariant. In a stratum, what would go to a category
    that doesn't occur there stays instead: no value is made that isn't in the stratum.

    Reference: Gouweleeuw, J. M. et al. (1998). Post randomisation for statistical disclosure control:
    theory and implementation. Journal of Official Statistics 14, 463-478.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AREA": ["n", "s"] * 500}))
    >>> masked = sf.Pram(columns=["AREA"], keep_probability=0.8).mask(data, seed=1)
    >>> sorted(masked.frame["AREA"].unique())
    ['n', 's']
    """

    name: ClassVar[str] = "pram"
    reference: ClassVar[str] = "Gouweleeuw et al. (1998)"

    columns: tuple[str, ...] = parameter(doc="The columns to randomise.", columns=True, public=True)
    keep_probability: float | None = parameter(
        None, doc="The chance that a value stays.", at_least=0, at_most=1, public=True
    )
    matrix: dict[str, Any] | None = parameter(  # noqa: RUF009
        None, doc="The probabilities, {from: {to: probability}}."
    )
    within: tuple[str, ...] = parameter(
        (), doc="Nothing crosses the strata of these columns.", columns=True, public=True
    )
    invariant: bool | None = parameter(
        None,
        doc="Whether expected counts are kept; yes with keep_probability, no with a matrix.",
        public=True,
    )

    def _check(self) -> Sequence[Fault]:
        if not self.columns:
            return [("`columns` must name at least one column", None, "columns")]
        if (self.keep_probability is None) == (self.matrix is None):
            return [("give one of `keep_probability` and `matrix`", None, "keep_probability")]
        both = [c for c in self.columns if c in self.within]
        if both:
            return [(f"{both[0]} can't be randomised within itself", "take it out of `within`")]
        out: list[Fault] = []
        for column in self.columns if self.matrix is not None else ():
            out += _matrix_problems(self._table(column), column)
        return out

    def _table(self, column: str) -> Mapping[str, Any]:
        """The transition table of one column."""
        matrix = self.matrix or {}
        named = all(c in matrix for c in self.columns)
        table: Any = matrix[column] if named else matrix
        return table if isinstance(table, Mapping) else {}

    def changes(self, data: Microdata) -> Sequence[str]:
        return self.columns

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        stays = {} if self.keep_probability is None else dict.fromkeys(self.columns, self.keep_probability)
        return [Kept(columns=self.columns, within=self.within, keep=stays)]

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        return [KnownValues(self.columns, self.within)]

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        strata, n_strata = data.codes(self.within)
        new: dict[str, pl.Series] = {}
        for column in self.columns:
            codes, levels = code_column(data, column)
            chosen = data.eligible(column)
            uniform = draws.stream(column, purpose="pram").uniform(0, len(data))
            after = codes.astype(np.int64)
            expected = 0.0
            order = np.argsort(strata, kind="stable")
            bounds = np.searchsorted(strata[order], np.arange(n_strata + 1))
            for stratum in range(n_strata):
                rows = order[bounds[stratum] : bounds[stratum + 1]]
                rows = rows[chosen[rows]]
                if not len(rows):
                    continue
                here, local = np.unique(codes[rows], return_inverse=True)
                counts = np.bincount(local)
                flows = self._flows(column, levels.gather(here), counts)
                expected += float((counts * flows.stay).sum())
                after[rows] = here[flows.drawn(local, uniform[rows])]
                if n_strata == 1 and len(here) <= 40:
                    notes.figure("transition", flows.matrix().round(12).tolist(), column)
                    notes.figure("levels", levels.gather(here).to_list(), column)
            moved = after != codes
            new[column] = _gathered(data.column(column), levels, after, moved)
            n = max(int(chosen.sum()), 1)
            notes.figure("changed", int(moved.sum()), column)
            notes.figure("kept_share_expected", expected / n, column)
            notes.figure("kept_share", 1 - int(moved.sum()) / n, column)
        return data.with_columns(new)

    def _flows(self, column: str, levels: pl.Series, counts: IntArray) -> Flows | Matrix:
        """The transitions of one stratum, over the levels that occur in it."""
        if self.keep_probability is not None:
            if self.invariant is False:
                return proportional(counts, self.keep_probability)
            return invariant(counts, self.keep_probability)
        if len(levels) > _MOST_LEVELS:
            raise MaskError(
                f"pram: `matrix` of {column} would have {len(levels):,} rows and columns",
                hint="recode it into fewer categories, or give `keep_probability`, which needs no matrix",
            )
        plain = self._given(column, levels)
        return Matrix(two_stage(plain, counts) if self.invariant else plain)

    def _given(self, column: str, levels: pl.Series) -> FloatArray:
        table = self._table(column)
        names = [str(v) for v in levels.to_list()]
        place = {name: i for i, name in enumerate(names)}
        out = np.zeros((len(names), len(names)))
        for start, row in table.items():
            if str(start) not in place:
                continue
            for end, chance in row.items():
                if str(end) in place:
                    out[place[str(start)], place[str(end)]] = float(chance)
        if not set(map(str, table)) & set(names):
            raise MaskError(
                f"pram: `matrix` names no value of {column}", hint=did_you_mean(str(next(iter(table))), names)
            )
        # What would go to a category that isn't here stays; so do categories without a row.
        out[np.diag_indices(len(names))] += 1 - out.sum(axis=1)
        return out


@dataclass(frozen=True)
class Matrix:
    """Transition probabilities as they stand: rows are from, columns to."""

    probabilities: FloatArray

    @property
    def stay(self) -> FloatArray:
        return np.diag(self.probabilities)

    def matrix(self) -> FloatArray:
        return self.probabilities

    def drawn(self, start: IntArray, uniform: FloatArray) -> IntArray:
        """The category that each record ends in, by the inverse distribution function of its row."""
        edges = np.cumsum(self.probabilities, axis=1)
        edges[:, -1] = 1.0
        out = np.empty(len(start), np.int64)
        for level in np.unique(start):
            here = start == level
            out[here] = np.searchsorted(edges[level], uniform[here], side="right")
        return np.asarray(np.minimum(out, len(edges) - 1))


@dataclass(frozen=True)
class Flows:
    """Transitions without a matrix: who leaves k goes to l ≠ k with probability ∝ ``weights[l]``.

    With ``hub`` every other category exchanges with that one only. k numbers say it all, where a matrix
    of ten thousand categories would take 800 MB.
    """

    weights: FloatArray
    stay: FloatArray
    hub: int | None = None

    def drawn(self, start: IntArray, uniform: FloatArray) -> IntArray:
        """The category that each record ends in, by the inverse distribution function of its row: the
        categories before its own, itself, those after it."""
        if self.hub is not None:
            return self._by_hub(start, uniform)
        total = np.concatenate([[0.0], np.cumsum(self.weights)])
        rest = total[-1] - self.weights[start]
        leave = 1.0 - self.stay[start]
        with np.errstate(divide="ignore", invalid="ignore"):
            before = np.where(rest > 0, leave * total[start] / rest, 0.0)
            low, high = uniform < before, uniform >= before + self.stay[start]
            at = np.where(low, uniform, uniform - self.stay[start]) * rest / leave
        at = np.where(high, at + self.weights[start], at)
        moved = np.searchsorted(total[1:], at, side="right")
        moved = np.where(low, np.minimum(moved, start - 1), np.maximum(moved, start + 1))
        moved = np.clip(moved, 0, len(self.weights) - 1)
        # A hair beyond the last edge, or nobody to go to: it stays.
        goes = (low | high) & (moved != start) & (self.weights[moved] > 0)
        return np.asarray(np.where(goes, moved, start))

    def _by_hub(self, start: IntArray, uniform: FloatArray) -> IntArray:
        """Others go to the hub, and what leaves the hub goes to the others by their weights."""
        hub = self.hub
        assert hub is not None
        weights = self.weights.copy()
        weights[hub] = 0.0
        from_hub = Flows(weights, self.stay).drawn(start, uniform)
        stay = self.stay[start]
        leaves = np.where(start > hub, uniform < 1.0 - stay, uniform >= stay)
        return np.asarray(np.where(start == hub, from_hub, np.where(leaves, hub, start)))

    def matrix(self) -> FloatArray:
        """The probabilities written out: rows are from, columns to."""
        k = len(self.weights)
        if self.hub is None:
            out = np.tile(self.weights, (k, 1))
        else:
            out = np.zeros((k, k))
            out[self.hub] = self.weights
            out[:, self.hub] = 1.0
        out[np.diag_indices(k)] = 0.0
        rest = out.sum(axis=1)
        out *= np.divide(1.0 - self.stay, rest, out=np.zeros(k), where=rest > 0)[:, None]
        out[np.diag_indices(k)] = 1.0 - out.sum(axis=1)
        return np.asarray(out)


def proportional(counts: IntArray, keep: float) -> Flows:
    """Diagonal ``keep``; the rest to the other categories in proportion to their counts."""
    stay = np.full(len(counts), keep if len(counts) > 1 else 1.0)
    return Flows(counts.astype(np.float64), stay)


def invariant(counts: IntArray, keep: float) -> Flows:
    """Reversible transitions with t R = t whose diagonal is ``keep`` wherever that is possible.

    Flows S_kl = x_k x_l (k ≠ l) are symmetric; x is found so that row k sums to (1 − keep) t_k. That
    needs the largest of those sums to be at most the sum of the others; else it is lowered to it.
    """
    k = len(counts)
    if k == 1 or keep >= 1:
        return Flows(counts.astype(np.float64), np.ones(k))
    share = counts / counts.sum()
    leave = (1 - keep) * share
    top = int(np.argmax(leave))
    rest = float(leave.sum() - leave[top])
    if leave[top] >= rest * (1 - 1e-9):
        # The largest category exchanges with the others only.
        stay = np.full(k, keep)
        stay[top] = 1.0 - rest / share[top]
        return Flows(leave, stay, top)
    x = _exchange(leave, top)
    return Flows(x, 1.0 - x * (x.sum() - x) / share)


def _exchange(leave: FloatArray, top: int) -> FloatArray:
    """x with x_k (Σx − x_k) = leave_k: roots of quadratics at a given Σx, and bisection on Σx.

    All take the lower root; where those can't add up to Σx at its least value, the largest category
    takes the upper one.
    """

    def roots(total: float, upper: bool) -> FloatArray:
        depth = np.sqrt(np.maximum(total * total / 4 - leave, 0.0))
        x = leave / (total / 2 + depth)
        if upper:
            x[top] = total / 2 + depth[top]
        return np.asarray(x)

    low = 2 * float(np.sqrt(leave.max()))
    upper = bool(roots(low, False).sum() < low)
    high = low + 1.0
    while (roots(high, upper).sum() > high) != upper:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if (roots(middle, upper).sum() > middle) == upper:
            high = middle
        else:
            low = middle
    return roots((low + high) / 2, upper)


def two_stage(plain: FloatArray, counts: IntArray) -> FloatArray:
    """R = P Q with Q_kj = P_jk t_j / Σ_l P_lk t_l: after P, back by Bayes' rule, so that t R = t."""
    joint = plain * counts[:, None]
    arrived = joint.sum(axis=0)
    back = np.divide(joint, arrived, out=np.zeros_like(joint), where=arrived > 0).T
    return np.asarray(plain @ back)


def _gathered(series: pl.Series, levels: pl.Series, codes: IntArray, moved: BoolArray) -> pl.Series:
    rows = np.flatnonzero(moved)
    if not len(rows):
        return series
    fresh = levels.gather(codes[rows])
    if series.dtype in (pl.Categorical, pl.Enum):
        return series.cast(pl.String).scatter(rows, fresh).cast(series.dtype).rename(series.name)
    return series.clone().scatter(rows, fresh.cast(series.dtype)).rename(series.name)


def _matrix_problems(table: Mapping[str, Any], column: str) -> list[Fault]:
    if not table:
        return [(f"`matrix` has no table for {column}", "write {from: {to: probability}}")]
    out: list[Fault] = []
    for start, row in table.items():
        if not isinstance(row, Mapping) or not all(isinstance(p, (int, float)) for p in row.values()):
            out.append((f"the row {start!r} of `matrix` must map each category to a probability", None))
            continue
        if any(not 0 <= p <= 1 for p in row.values()):
            out.append((f"the row {start!r} of `matrix` has a probability outside 0 to 1", None))
        elif abs(sum(row.values()) - 1) > 1e-9:
            out.append((f"the row {start!r} of `matrix` sums to {sum(row.values()):g}, not to 1", None))
    return out


@dataclass(frozen=True)
class KnownValues(Guarantee):
    """Every value occurred before in the same stratum, and missing values stay where they were."""

    columns: tuple[str, ...]
    within: tuple[str, ...]

    def describe(self) -> str:
        where = f" in its stratum of {', '.join(self.within)}" if self.within else ""
        return f"every value of {', '.join(self.columns)} occurred{where} before, missing values stay"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        for column in self.columns:
            if (before.missing(column) != after.missing(column)).any():
                return f"missing values of {column} moved"
            names = [*self.within, column]
            one = before.select(names).unique()
            strange = after.select(names).join(one, on=names, how="anti", nulls_equal=True).height
            if strange:
                return f"{strange:,} records have a value of {column} that didn't occur in their stratum"
        return None
