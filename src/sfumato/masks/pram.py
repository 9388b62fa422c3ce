"""PRAM: each category is replaced at random, with known probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact, Kept
from sfumato.contract.guarantees import ByBlocks, Guarantee, strata_of
from sfumato.contract.mask import Notes, RowsMask
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.per_household import PerHousehold
from sfumato.data.differences import changed
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MaskError, did_you_mean

_MOST_LEVELS = 5_000  # of a matrix given by hand: 200 MB


@dataclass(frozen=True, kw_only=True)
class Pram(PerHousehold, RowsMask):
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

    def _fit(self, data: Microdata, draws: Draws, notes: Notes) -> dict[str, dict[Any, Stratum]]:
        """The transitions of each column in each stratum, by the counts of what may move there."""
        return {column: self._fit_column(data, column, notes) for column in self.columns}

    def _fit_column(self, data: Microdata, column: str, notes: Notes) -> dict[Any, Stratum]:
        names = [*self.within, column]

        def counted(block: Microdata, _start: int) -> pl.DataFrame:
            chosen = block.select(names).filter(pl.Series(block.eligible(column)))
            return chosen.group_by(names).len()

        parts = data.aggregate(counted, names)
        table = pl.concat(parts).group_by(names).agg(pl.col("len").sum().cast(pl.Int64))
        out: dict[Any, Stratum] = {}
        expected = 0.0
        for stratum, rows in strata_of(Microdata(table), self.within) if table.height else ():
            here = table if isinstance(rows, slice) else table[rows]
            text = here[column].dtype in (pl.Categorical, pl.Enum)
            here = (
                here.with_columns(pl.col(column).cast(pl.String)).sort(column) if text else here.sort(column)
            )
            counts = here["len"].to_numpy()
            flows = self._flows(column, here[column], counts)
            out[stratum] = Stratum(here[column], flows)
            expected += float((counts * flows.stay).sum())
        if len(out) == 1 and len(next(iter(out.values())).levels) <= 40:
            only = next(iter(out.values()))
            notes.figure("transition", only.flows.matrix().round(12).tolist(), column)
            notes.figure("levels", only.levels.to_list(), column)
        notes.figure("kept_share_expected", expected / max(int(table["len"].sum()), 1), column)
        return out

    def _rows(
        self, chunk: Microdata, start: int, state: dict[str, dict[Any, Stratum]], draws: Draws
    ) -> Microdata:
        new: dict[str, pl.Series] = {}
        strata = list(strata_of(chunk, self.within)) if len(chunk) else []
        for column in self.columns:
            series, chosen = chunk.column(column), chunk.eligible(column)
            uniform = draws.stream(column, purpose="pram").uniform(start, len(chunk))
            text = series.dtype in (pl.Categorical, pl.Enum)
            after = series.cast(pl.String) if text else series.clone()
            values = after
            for stratum, rows in strata:
                moving = np.flatnonzero(chosen) if isinstance(rows, slice) else rows[chosen[rows]]
                if not len(moving):
                    continue
                known = state[column][stratum]
                local = known.places(values.gather(moving))
                drawn = known.flows.drawn(local, uniform[moving])
                moved = drawn != local
                if moved.any():
                    fresh = known.levels.gather(drawn[moved]).cast(after.dtype)
                    after = after.clone().scatter(moving[moved], fresh)
            new[column] = (after.cast(series.dtype) if text else after).rename(column)
        return chunk.with_columns(new)

    def _note_result(self, data: Microdata, masked: Microdata, state: Any, notes: Notes) -> None:
        def partial(before: Microdata, after: Microdata, _start: int) -> dict[str, tuple[int, int]]:
            return {
                c: (changed(before.column(c), after.column(c)), int(before.eligible(c).sum()))
                for c in self.columns
            }

        parts = data.compare(masked, partial, self.columns)
        for column in self.columns:
            moved, n = (sum(p[column][k] for p in parts) for k in (0, 1))
            notes.figure("changed", moved, column)
            notes.figure("kept_share", 1 - moved / max(n, 1), column)

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
class Stratum:
    """The categories that may move in a stratum, in their order, and where they go."""

    levels: pl.Series
    flows: Flows | Matrix

    def places(self, values: pl.Series) -> IntArray:
        """Each value's place among the levels; all of them are there."""
        table = pl.DataFrame({"v": self.levels, "place": np.arange(len(self.levels))})
        found = pl.DataFrame({"v": values}).join(table, on="v", how="left", maintain_order="left")
        return found["place"].to_numpy().astype(np.int64)


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
class KnownValues(ByBlocks):
    """Every value occurred before in the same stratum, and missing values stay where they were."""

    columns: tuple[str, ...]
    within: tuple[str, ...]

    def describe(self) -> str:
        where = f" in its stratum of {', '.join(self.within)}" if self.within else ""
        return f"every value of {', '.join(self.columns)} occurred{where} before, missing values stay"

    def looks_at(self) -> Sequence[str]:
        return (*self.within, *self.columns)

    def partial(
        self, before: Microdata, after: Microdata
    ) -> dict[str, tuple[bool, pl.DataFrame, pl.DataFrame]]:
        """Of each column: whether missing values moved, what occurs, and how often what occurs afterwards."""
        out = {}
        for column in self.columns:
            names = [*self.within, column]
            moved = bool((before.missing(column) != after.missing(column)).any())
            out[column] = (moved, before.select(names).unique(), after.select(names).group_by(names).len())
        return out

    def judged(self, parts: Sequence[dict[str, tuple[bool, pl.DataFrame, pl.DataFrame]]]) -> str | None:
        for column in self.columns if parts else ():
            if any(p[column][0] for p in parts):
                return f"missing values of {column} moved"
            one = pl.concat([p[column][1] for p in parts])
            two = pl.concat([p[column][2] for p in parts])
            names = [*self.within, column]
            strange = int(two.join(one.unique(), on=names, how="anti", nulls_equal=True)["len"].sum())
            if strange:
                return f"{strange:,} records have a value of {column} that didn't occur in their stratum"
        return None
