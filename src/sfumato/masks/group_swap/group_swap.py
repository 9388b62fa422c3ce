"""Conditional group swapping of strata (Oganian and Lesaja 2016)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.guarantees import Guarantee, SameTable
from sfumato.contract.mask import Notes, bound_to
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.per_household import PerHousehold
from sfumato.data.microdata import IntArray, Microdata, as_microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws, Seed, as_seed
from sfumato.errors import GuaranteeError, MaskError, Problem, did_you_mean
from sfumato.masks.group_swap import model as models
from sfumato.masks.group_swap.amounts import Amounts, some
from sfumato.masks.group_swap.notes import note_swap
from sfumato.masks.group_swap.pairs import Distances, Pair, pair_strata
from sfumato.masks.group_swap.swap import SwapPlan

FEW_STRATA = 40
"""Up to so many strata (780 pairs) every pair is fitted."""


@dataclass(frozen=True, kw_only=True)
class GroupSwap(PerHousehold):
    """Swap records between the strata that are most alike, the records that fit the other best first.

    Strata are the combinations of the ``strata`` columns. The distance of two strata is the
    propensity score measure U_p = (1/N) Σ (p̂_i − c)², p̂ the modelled probability of the second
    stratum given the covariates and c its share (``centre="half"``: c = ½); :meth:`distances` has all
    of them. Strata are paired by it; in each pair, ``n_swap`` records of each stratum, drawn with
    probability proportional to their propensity for the other, change their stratum: the columns in
    which the two strata differ. Sizes of strata and all other columns are kept.

    ``probabilities="uniform"`` is random group swapping. ``draw="balanced"`` draws both directions at
    once by the cube method, so that equal totals of every term of the model move both ways;
    ``allocation="capacity"`` shares the same total of swaps in proportion to what each pair can give:
    Σ e(1 − e) = N[c(1 − c) − U_p], beyond which no draw is balanced. A pair asked for more is warned of.

    An odd stratum is swapped with its nearest after that one's own swap, with propensities of the
    membership as it then is; only the arrivals of the same swap can't be drawn. Records with a missing
    or ineligible stratum stay. Missing covariates are filled with their mean and flagged in the model.

    References: Oganian, A. and Lesaja, G. (2016). Propensity score based conditional group swapping
    for disclosure limitation of strata-defining variables. PSD 2016, LNCS 9867, 69-80; Deville and
    Tillé (2004), Biometrika 91, 893-912, for the balanced draw.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> wage = np.arange(80.0) ** 1.5 % 97
    >>> data = sf.Microdata(pl.DataFrame({"AREA": ["n", "n", "s", "s"] * 20, "WAGE": wage}))
    >>> masked = sf.GroupSwap(strata=["AREA"], n_swap=5, covariates=["WAGE"]).mask(data, seed=1)
    >>> int((masked.frame["AREA"] != data.frame["AREA"]).sum()), int((masked.frame["AREA"] == "n").sum())
    (10, 40)
    """

    name: ClassVar[str] = "group_swap"
    reference: ClassVar[str] = "Oganian and Lesaja (2016)"

    strata: tuple[str, ...] = parameter(
        doc="The columns that define the strata.", columns="strata", public=True
    )
    n_swap: int | None = parameter(
        None, doc="How many records of each pair go each way.", at_least=0, public=True
    )
    rate_percent: float | None = parameter(
        None,
        doc="How many percent of the smaller stratum of each pair go each way (instead of `n_swap`).",
        at_least=0,
        at_most=100,
        public=True,
    )
    probabilities: Literal["conditional", "uniform"] = parameter(
        "conditional",
        doc="Draw in proportion to the propensity for the other stratum, or with equal probability.",
        choices=("conditional", "uniform"),
        public=True,
    )
    draw: Literal["successive", "balanced"] = parameter(
        "successive",
        doc="Successive draws without replacement (published), or balanced by the cube method.",
        choices=("successive", "balanced"),
        public=True,
    )
    allocation: Literal["capacity", "equal"] | None = parameter(
        None,
        doc="The same number in each pair, or the same total in proportion to capacity; by default "
        "equal for successive draws and capacity for balanced ones.",
        choices=("capacity", "equal"),
        public=True,
    )
    pairing: Literal["greedy", "matching"] = parameter(
        "matching",
        doc="The nearest pair first (published), or the pairs with the least total distance.",
        choices=("greedy", "matching"),
        public=True,
    )
    centre: Literal["share", "half"] = parameter(
        "share",
        doc="c of U_p: the second stratum's share (as printed), or ½ (which gives the published pairs).",
        choices=("share", "half"),
        public=True,
    )
    covariates: tuple[str, ...] = parameter(
        (),
        doc="The columns of the propensity model; by default all but strata, ids, weight and geography.",
        columns=True,
        public=True,
    )
    formula: str | None = parameter(
        None, doc='The terms of the propensity model, as in "SURVIVED * (AGE + FARE)".'
    )
    distance_formula: str | None = parameter(
        None, doc="Other terms for the distances of strata; by default those of the propensity model."
    )
    within: tuple[str, ...] = parameter(
        (), doc="Only strata that agree in these columns are paired.", columns=True, public=True
    )
    small_strata: Literal["refuse", "fewer", "leave"] = parameter(
        "refuse",
        doc="A stratum of fewer than `n_swap` records: refuse (by capacity: at most half moves), move "
        "at most half of it, or leave it out.",
        choices=("refuse", "fewer", "leave"),
        public=True,
    )
    move_again: bool = parameter(
        True,
        doc="Whether a record may move a second time in an odd stratum's swap (published); it may then "
        "come back to where it was.",
        public=True,
    )
    search: Literal["auto", "exact", "fast"] = parameter(
        "auto",
        doc=f"Fit every pair of strata, or only near ones; by default all up to {FEW_STRATA} strata.",
        choices=("auto", "exact", "fast"),
        public=True,
    )

    # -- what it says of itself ---------------------------------------------------------------------

    def _check(self) -> Sequence[Fault]:
        out: list[Fault] = []
        if not self.strata:
            out.append(("`strata` must name at least one column", None, "strata"))
        if (self.n_swap is None) == (self.rate_percent is None):
            out.append(("give one of `n_swap` and `rate_percent`", None, "n_swap"))
        if self.covariates and self.formula is not None:
            out.append(("give `covariates` or `formula`, not both", None, "covariates"))
        for what in ("covariates", "within"):
            both = [c for c in getattr(self, what) if c in self.strata]
            if both:
                out.append((f"{both[0]} is a stratum column", f"take it out of `{what}`"))
        from sfumato.stats.design import formula_columns, formula_problem

        for text in (self.formula, self.distance_formula):
            if text is None:
                continue
            problem = formula_problem(text)
            if problem:
                out.append((problem, None))
                continue
            both = [c for c in formula_columns(text.split("~", 1)[-1]) if c in self.strata]
            if both:
                out.append((f"{both[0]} is a stratum column", "take it out of the formula"))
        return out

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        for column in self._formula_columns():
            if column not in types:
                why = f"the formula names {column!r}, which the data don't have"
                out.append(Problem(0, why, did_you_mean(column, types)))
        finer = [
            g
            for i, g in enumerate(schema.geography)
            if g not in self.strata and any(c in self.strata for c in schema.geography[:i])
        ]
        if finer:
            why = f"{finer[0]} stays, and tells the area of a record whose stratum was swapped"
            out.append(Problem(0, why, f"add {finer[0]!r} to `strata`, or drop it", "warning"))
        if schema.household is not None and schema.household in types:
            why = "records move one by one: members of a household can come into different strata"
            out.append(Problem(0, why, None, "warning"))
        return out

    def changes(self, data: Microdata) -> Sequence[str]:
        return self.strata

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        return [SameTable((*self.within, *self.strata))]

    def needs(self, data: Microdata) -> Sequence[str]:
        model = self._formula_columns() if self.formula is not None else self._covariates(data)
        return tuple(dict.fromkeys([*self.strata, *self.within, *model, *self._formula_columns()]))

    def _formula_columns(self) -> list[str]:
        from sfumato.stats.design import formula_columns

        texts = [t for t in (self.formula, self.distance_formula) if t is not None]
        return list(dict.fromkeys(c for t in texts for c in formula_columns(t.split("~", 1)[-1])))

    def _covariates(self, data: Microdata) -> tuple[str, ...]:
        if self.covariates:
            return self.covariates
        schema = data.schema
        off = {*self.strata, *self.within, *schema.geography, schema.id, schema.household, schema.weight}
        return tuple(
            c
            for c in data.columns
            if c not in off and not data.dtype(c).is_nested() and data.dtype(c) != pl.Object
        )

    # -- what it does -------------------------------------------------------------------------------

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        if self.n_swap == 0 or self.rate_percent == 0:
            notes.figure("records_moved", 0)
            return data
        memory: list[tuple[Microdata, SwapPlan]] | None = getattr(self, "_memory", None)
        if memory is None:
            return self._carry_through(data, self.prepare(data), draws, notes)
        if not memory or memory[0][0] is not data:
            memory[:] = [(data, self.prepare(data))]
        return self._carry_through(data, memory[0][1], draws, notes)

    def prepared(self, data: Microdata) -> GroupSwap:
        """This mask with a memory: it compares and pairs the strata of the same data only once."""
        again = copy.copy(self)
        object.__setattr__(again, "_memory", [])
        return again

    def realisations(self, data: Any, count: int, *, seed: Seed | int | None = None) -> Iterator[Microdata]:
        """``count`` independent maskings, with the strata compared and paired once.

        The sizes of the strata are verified in each; the other columns are the original's own.
        """
        data = as_microdata(data)
        secret = bound_to(as_seed(seed), data)
        plan = self.prepare(data) if self.n_swap != 0 and self.rate_percent != 0 else None
        promises = self.keeps(data)
        for r in range(count):
            masked = data
            if plan is not None:
                draws = self.draws(secret.child(f"realisation {r}"), self.id or self.name)
                masked = self._carry_through(data, plan, draws, None)
            for promise in promises:
                outcome = promise.check(data, masked)
                if not outcome.ok:
                    raise GuaranteeError(f"realisation {r} broke: {outcome.guarantee}: {outcome.detail}")
            yield masked

    def distances(self, data: Any) -> pl.DataFrame:
        """U_p of every pair of strata (that agree in ``within``), nearest first, with what it follows from.

        ``first``, ``second`` (their labels), ``records`` of both, ``share`` of the second (c), ``u_p``,
        ``distance`` (by ``centre``), ``capacity``, and whether the pair is ``chosen`` for swapping.
        """
        return replace(self, search="exact").prepare(as_microdata(data)).distances(self.centre)

    def prepare(self, data: Microdata) -> SwapPlan:
        """Compare and pair the strata, and settle how many records move: nothing random."""
        eligible = np.logical_and.reduce([data.eligible(c) for c in self.strata])
        eligible &= ~np.logical_or.reduce(
            [np.zeros(len(data), np.bool_), *(data.missing(c) for c in self.within)]
        )
        part = data.with_frame(data.select([*self.within, *self.strata]).filter(pl.Series(eligible)))
        codes, k = part.codes([*self.within, *self.strata])
        order = np.argsort(codes, kind="stable")
        sizes = np.bincount(codes, minlength=k)
        starts = np.r_[0, np.cumsum(sizes)]
        rows = np.flatnonzero(eligible)[order]
        heads = part.frame.select(pl.all().gather(pl.Series(order[starts[:-1]])))
        hidden = any(c in data.schema.sensitive for c in (*self.within, *self.strata))
        labels = [f"stratum {i + 1}" for i in range(k)] if hidden else [_label(r) for r in heads.iter_rows()]
        groups, n_groups = Microdata(heads).codes(list(self.within)) if k else (np.empty(0, np.int64), 0)
        warnings: list[str] = []
        amounts = self._amounts()
        taking = amounts.taking_part(sizes, labels, warnings)
        members = [np.flatnonzero((groups == g) & taking) for g in range(n_groups)]
        alone = [labels[int(m[0])] for m in members if len(m) == 1]
        if not any(len(m) > 1 for m in members):
            raise MaskError(
                "no two strata can be swapped: a swap needs two that have enough records",
                hint="take coarser `strata`, or fewer columns in `within`",
            )
        if alone:
            warnings.append(f"{some(alone)}: alone in its class of `within`, so nothing is swapped")

        model = self._model(data, pl.Series(eligible), sizes[taking])
        warnings += model.notes
        terms = np.ascontiguousarray(model.columns[:, order])
        other = terms
        if self.distance_formula is not None:
            second = models.by_formula(data, pl.Series(eligible), self.distance_formula)
            other = np.ascontiguousarray(second.columns[:, order])
        parts = [other[:, starts[s] : starts[s + 1]] for s in range(k)]
        distances = Distances(parts, self.centre, other, starts)
        fast = self.search == "fast" or (self.search == "auto" and int(taking.sum()) > FEW_STRATA)
        found = [p for m in members for p in pair_strata(distances, m, self.pairing, fast=fast)]
        if distances.cut_short:
            warnings.append(
                "the search for the pairs with the least total distance was cut short: nearer pairs may "
                'exist (pairing = "greedy" needs no search)'
            )
        pairs = amounts.pair_plans(distances, found, terms, starts, labels, warnings)
        return SwapPlan(
            records=len(data),
            rows=rows,
            starts=starts,
            terms=terms,
            labels=labels,
            pairs=pairs,
            conditional=self.probabilities == "conditional",
            balanced=self.draw == "balanced",
            move_again=self.move_again,
            fits=distances.fits,
            cut_short=distances.cut_short,
            u_p=distances.u,
            columns=self._columns_that_differ(heads, found),
            warnings=warnings,
            term_names=model.names,
        )

    def _model(self, data: Microdata, rows: pl.Series, sizes: IntArray) -> models.StrataModel:
        if self.formula is not None:
            return models.by_formula(data, rows, self.formula)
        columns = self._covariates(data)
        if not columns:
            raise MaskError("there is no covariate to compare the strata by", hint="name `covariates`")
        # A tenth of the strata may be too small for the model; the ridge keeps their fits defined.
        return models.automatic(data, rows, columns, int(np.quantile(sizes, 0.1)))

    def _columns_that_differ(self, heads: pl.DataFrame, found: list[Pair]) -> list[list[str]]:
        """The stratum columns that a swap of each pair changes; in the others both strata agree."""
        rows = heads.select(self.strata).rows()
        return [
            [c for c, x, y in zip(self.strata, rows[a], rows[b], strict=True) if x != y] for a, b in found
        ]

    def _equal(self) -> bool:
        return (self.allocation or ("capacity" if self.draw == "balanced" else "equal")) == "equal"

    def _amounts(self) -> Amounts:
        return Amounts(
            self.n_swap,
            self.rate_percent,
            equal=self._equal(),
            small_strata=self.small_strata,
            conditional=self.probabilities == "conditional",
            by_share=self.centre == "share",
        )

    def _carry_through(self, data: Microdata, plan: SwapPlan, draws: Draws, notes: Notes | None) -> Microdata:
        now, moves = plan.draw(draws)
        sizes = np.diff(plan.starts)
        old = np.repeat(np.arange(len(sizes)), sizes)
        moved = np.flatnonzero(now != old)
        source = np.arange(len(data), dtype=np.int64)
        source[plan.rows[moved]] = plan.rows[plan.starts[now[moved]]]
        take = pl.Series(source)
        new = {c: data.column(c).gather(take) for c in self.strata}
        if notes is not None:
            note_swap(
                plan, old, now, moves, notes, matched=self.pairing == "matching", several=len(self.strata) > 1
            )
        return data.with_columns(new)


def _label(values: Sequence[Any]) -> str:
    return " × ".join(str(v) for v in values)
