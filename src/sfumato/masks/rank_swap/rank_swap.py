"""Rank swapping under control (Greenberg 1987, Moore 1996)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from sfumato.contract.disclosure import Exchanged, Fact, Travelled
from sfumato.contract.engine import Locality
from sfumato.contract.guarantees import Guarantee, SameTable, SumRule
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.per_household import PerHousehold
from sfumato.data.microdata import BoolArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import MaskError, Problem
from sfumato.masks.rank_swap import sums
from sfumato.masks.rank_swap.guarantees import Compared, Look, RankDisplacement, SameValues, StaysPut
from sfumato.masks.rank_swap.on_file import OnFile
from sfumato.masks.rank_swap.swap import Swap
from sfumato.masks.rank_swap.targets import KINDS, Target


@dataclass(frozen=True, kw_only=True)
class RankSwap(PerHousehold):
    """Swap each value with another whose rank is near, as far as a stated target allows.

    The N values of a column that may move (not missing, imputed, top- or bottom-coded) are sorted,
    equal values in random order. The lowest unswapped rank j takes a partner uniformly among the
    unswapped ranks of its window, j+1 … j+W; the two records exchange their values; and so on
    (Moore's section VII). One of three targets sets the window:

    - ``window_percent`` P: W = max(1, ⌊P·N/100⌋).
    - ``correlation`` R0: the factor by which the correlation of two swapped columns shrinks. Each
      column's own target is R(a,a′) = √R0 (Corollary 2).
    - ``mean_change`` K0: the mean of |a′−a|/a over positive values.

    ``interval="calibrated"`` bounds a swap with R0 twice: by a window of W ranks, where
    W/N = √((1−√R0)/(6·0.39196)), which keeps the correlation of the ranks at √R0 whatever the column,
    and by a distance c of value, which keeps that of the values at √R0 too. Since a′ is a permutation
    of a, R(a,a′) = 1 − Σ(a′−a)²/(2 N Var a), and one pass over the sorted values gives the expected
    sum, from which c follows. What chance leaves is mended by re-pairing a few pairs within both
    bounds (``adjust``). Values with fewer than ``min_candidates`` others within both are refused,
    coded or exchanged in groups (``far_values``).

    ``interval="ranks"`` has the window alone, calibrated on the column's own distribution: on heavy
    tails it shrinks to a few ranks. K0 always has it. ``interval="theorem"`` takes Theorems 3 and 4 as
    printed, which assume evenly spread values: P/100 = √(2 Var(a)(1−R0))/(a_top−a_bot) and
    √(8/3)·K0·mean(a)/(a_top−a_bot).

    Reference: Moore, R. A. (1996). Controlled data-swapping techniques for masking public use
    microdata sets. US Bureau of the Census, Statistical Research Division RR 96-04.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"INCOME": [10, 40, 20, 30]}))
    >>> sf.RankSwap(columns=["INCOME"], window_percent=25).mask(data, seed=1).frame["INCOME"].to_list()
    [20, 30, 10, 40]
    """

    name: ClassVar[str] = "rank_swap"
    reference: ClassVar[str] = "Moore (1996)"

    columns: tuple[str, ...] = parameter(doc="The columns to swap.", columns="sensitive", public=True)
    window_percent: float | Mapping[str, float] | None = parameter(
        None,
        doc="P: how many percent of its ranks a column's window spans (one number, or one a column).",
        at_least=0,
        at_most=100,
        columns=True,
        public=True,
    )
    correlation: float | Mapping[str, float] | None = parameter(
        None,
        doc="R0: the factor by which the correlation of two swapped columns may shrink.",
        above=0,
        below=1,
        columns=True,
        public=True,
    )
    mean_change: float | Mapping[str, float] | None = parameter(
        None,
        doc="K0: the mean absolute change of a value, relative to the value (0.1 is 10 percent).",
        above=0,
        columns=True,
        public=True,
    )
    interval: Literal["calibrated", "ranks", "theorem"] = parameter(
        "calibrated",
        doc="How R0 bounds the swap: in ranks and in value, in ranks alone, or by Moore's theorems.",
        public=True,
    )
    far_values: Literal["refuse", "code", "group"] = parameter(
        "refuse",
        doc="What is done with values that have too few others within both bounds: nothing is released, they "
        "take a top or bottom code, or they are exchanged among themselves.",
        public=True,
    )
    min_candidates: int = parameter(
        5, doc="How many others a value must have within both bounds.", at_least=2
    )
    within: tuple[str, ...] = parameter(
        (), doc="Nothing crosses the strata of these columns.", columns=True, public=True
    )
    together: bool = parameter(
        False, doc="Whether the columns travel together, as one string of values, or one by one.", public=True
    )
    rank_by: Literal["first", "principal"] = parameter(
        "first",
        doc="What `together` ranks by: the first column, or the first principal component.",
        public=True,
    )
    partner: Literal["uniform", "geometric"] = parameter(
        "uniform",
        doc="A partner uniformly in the window (Moore), or at a geometric distance without a bound.",
        public=True,
    )
    order_by: Mapping[str, str] = parameter(
        {},
        doc='For categories: the column whose mean puts them in order (`{RACE = "SALARY"}`).',
        columns=True,
        public=True,
    )
    keep_zeros: bool = parameter(
        False, doc="Whether zeros stay, so that it is kept who has none.", public=True
    )
    leftover: Literal["stay", "cycle"] = parameter(
        "stay",
        doc="An odd record, drawn at random, stays, or joins a near pair in a cycle of three.",
        public=True,
    )
    sum_rule: Literal["rebuild", "scale"] = parameter(
        "rebuild",
        doc="Where columns add up: swap components and add up again, or swap the total and scale them.",
        public=True,
    )
    adjust: bool = parameter(
        True,
        doc="Whether a calibrated swap is re-paired within its bounds until it is on target.",
        public=True,
    )
    log_pairs: bool = parameter(
        False, doc="Whether the confidential log lists every record's source.", public=True
    )

    # -- what it says of itself -------------------------------------------------------------------

    def _check(self) -> Sequence[Fault]:
        if not self.columns:
            return [("`columns` must name at least one column", None, "columns")]
        out: list[Fault] = []
        twice = sorted({c for c in self.columns if self.columns.count(c) > 1})
        out += [(f"`columns` names {c} twice", None, "columns") for c in twice]
        out += [
            (f"{c} can't be swapped within itself", "take it out of `within`")
            for c in self.columns
            if c in self.within
        ]
        given = {name: getattr(self, name) for name in KINDS if getattr(self, name) is not None}
        numbers = [name for name, value in given.items() if not isinstance(value, Mapping)]
        if numbers and len(given) > 1:
            out.append(
                (
                    f"`{'` and `'.join(given)}` can't both rule every column",
                    "give one number, or a table for some columns each",
                    "` and `".join(given),
                )
            )
            return out
        for name, value in given.items():
            if isinstance(value, Mapping):
                out += [
                    (f"`{name}` names {c}, which isn't in `columns`", None, name)
                    for c in value
                    if c not in self.columns
                ]
        for column in self.columns:
            ruling = [n for n, v in given.items() if not isinstance(v, Mapping) or column in v]
            if not ruling:
                out.append(
                    (
                        f"{column} has no target",
                        "give one of `window_percent`, `correlation` (R0) and `mean_change` (K0)",
                    )
                )
            elif len(ruling) > 1:
                out.append(
                    (
                        f"{column} has {len(ruling)} targets: `{'` and `'.join(ruling)}`",
                        "keep one",
                        "` and `".join(ruling),
                    )
                )
        if self.together and len({self.target(c) for c in self.columns if not out}) > 1:
            out.append(("columns that travel together share one target", "give one number"))
        out += [
            (f"`order_by` names {c}, which isn't in `columns`", None, "order_by")
            for c in self.order_by
            if c not in self.columns
        ]
        return out

    def target(self, column: str) -> Target:
        """What was asked of a column."""
        for name in KINDS:
            value = getattr(self, name)
            if isinstance(value, Mapping):
                value = value.get(column)
            if value is not None:
                return Target(name, float(value))
        raise MaskError(f"rank_swap: {column} has no target")

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        for column, by in self.order_by.items():
            if by not in types:
                out.append(
                    Problem(
                        0,
                        f"`order_by` names the column {by!r}, which the data don't have",
                        parameter="order_by",
                    )
                )
            elif not (types[by].is_numeric() or types[by].is_temporal()):
                out.append(
                    Problem(
                        0,
                        f"`order_by` needs numbers to order {column} by, but {by} holds {types[by]}",
                        parameter="order_by",
                    )
                )
        if self.together and self.rank_by == "principal" and self.mean_change is not None:
            out.append(
                Problem(
                    0,
                    "`mean_change` needs a column, not a component",
                    "use `correlation`",
                    parameter="mean_change",
                )
            )
        for column in self.columns:
            dtype = types.get(column)
            if dtype is None or (self.together and self.rank_by == "first" and column != self.columns[0]):
                continue  # a column that only travels along needs no order
            numeric = dtype.is_numeric() and column not in self.order_by and not schema[column].order
            ordered = (
                dtype.is_numeric()
                or dtype.is_temporal()
                or dtype in (pl.Boolean, pl.Enum)
                or column in self.order_by
                or bool(schema[column].order)
            )
            if not ordered:
                out.append(
                    Problem(
                        0,
                        f"{column} holds categories without an order",
                        f"give variables.{column}.order, or `order_by` a column whose mean orders them",
                    )
                )
            elif not numeric and self.target(column).kind == "mean_change":
                out.append(
                    Problem(
                        0,
                        f"`mean_change` needs a scale with a true zero, which {column} ({dtype}) lacks",
                        "use `correlation` or `window_percent`",
                        parameter="mean_change",
                    )
                )
            if self.together and self.rank_by == "principal" and not numeric:
                out.append(
                    Problem(
                        0,
                        f'rank_by = "principal" needs numbers, but {column} holds {dtype}',
                        'use rank_by = "first"',
                    )
                )
        if not out:
            out += self._check_sums(schema, types)
        return out

    def _check_sums(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        try:
            plan = sums.plan_sums(schema, self.columns, self.sum_rule, self.together)
        except MaskError as problem:
            return [Problem(0, problem.message.removeprefix("rank_swap: "), problem.hint)]
        out = []
        for column in plan.mended:
            if column in self.within:
                out.append(
                    Problem(
                        0,
                        f"{column} follows a sum rule of swapped columns, so it can't be in `within`",
                        parameter="within",
                    )
                )
            elif column not in self.columns:
                out.append(
                    Problem(
                        0,
                        f"{column} changes too, since it belongs to a sum of swapped columns",
                        severity="warning",
                    )
                )
        out += [
            Problem(0, f"{c} is part of a sum rule, but holds {types[c]}")
            for total, parts in plan.rules
            for c in (total, *parts)
            if not types[c].is_numeric()
        ]
        return out

    def sum_plan(self, data: Microdata) -> sums.SumPlan:
        """Which columns are swapped and which follow by a sum rule."""
        return sums.plan_sums(data.schema, self.columns, self.sum_rule, self.together)

    def windows(self, data: Microdata) -> dict[str, float]:
        """The window of each column whose own ranks are swapped, in percent of the values that may move.

        A swap keeps each column's values, so whoever knows the mask's parameters can work this out
        from the released file as well: the attack of somebody who knows the method starts here.
        """
        here = OnFile(self, data)
        if self.together:
            return (
                {}
                if self.rank_by == "principal"
                else {self.columns[0]: here.solution(self.columns[0]).percent}
            )
        return {column: here.solution(column).percent for column in here.plan.swapped}

    def reaches(self, data: Microdata) -> dict[str, float]:
        """The distance of value that bounds each column's swap, where one does."""
        here = OnFile(self, data)
        out = {}
        for column in self.windows(data):
            bounded = here.solution(column).bounded
            if bounded is not None and math.isfinite(bounded.bounds.distance):
                out[column] = bounded.bounds.distance
        return out

    def own_list(self, data: Microdata) -> Microdata:
        return OnFile(self, data).with_codes()

    @property
    def locality(self) -> Locality:
        return "column"

    def apart(self, data: Microdata) -> Sequence[Mask]:
        return (self,) if self.together or self.order_by else self.by_column(data)

    def changes(self, data: Microdata) -> Sequence[str]:
        plan = self.sum_plan(data)
        return tuple(dict.fromkeys([*plan.swapped, *plan.mended]))

    def needs(self, data: Microdata) -> Sequence[str]:
        rules = [c for total, parts in self.sum_plan(data).rules for c in (total, *parts)]
        flags = [data.schema[c].imputed for c in (*self.changes(data), *rules)]
        others = [*rules, *self.order_by.values(), *(f for f in flags if f)]
        return tuple(dict.fromkeys([*super().needs(data), *others]))

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        # A swap keeps each column's values, so he who knows its parameters works out the windows. A
        # total is made anew from its swapped parts: its own ranks weren't swapped.
        windows = {c: w for c, w in self.windows(data).items() if w > 0}
        columns = tuple(windows)
        out: list[Fact] = []
        if windows:
            reach = {c: r for c, r in self.reaches(data).items() if c in windows}
            out.append(
                Exchanged(
                    columns=columns, within=self.within, window_percent=windows, reach=reach, law=self.partner
                )
            )
        if self.together and len(self.columns) > 1:
            out.append(Travelled(columns=self.columns, within=self.within))
        return out

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        plan = self.sum_plan(data)
        swapped = tuple(plan.swapped)
        look = Look(swapped, self.within, self._compared)
        bounded = self.correlation is not None and self.interval == "calibrated" and self.partner == "uniform"
        out: list[Guarantee] = [SameValues(look, bounded and self.far_values == "code")]
        if self.together and len(swapped) > 1:
            out.append(SameTable((*swapped, *self.within)))
        if self.partner == "uniform":
            out.append(RankDisplacement(look, self._window_word(bounded)))
        zeros = " and zeros" if self.keep_zeros else ""
        out.append(
            StaysPut(swapped, self._may_move, f"missing, imputed, top- and bottom-coded values{zeros}")
        )
        return [*out, *(SumRule(total, parts) for total, parts in plan.rules)]

    def _window_word(self, bounded: bool) -> str:
        if isinstance(self.window_percent, (int, float)):
            return f"{self.window_percent:g} percent of the ranks that may move"
        far = " (a far value: than its group)" if bounded and self.far_values != "refuse" else ""
        return f"its window of ranks and its distance of value{far}" if bounded else "its window of ranks"

    # -- what it does -----------------------------------------------------------------------------

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        return Swap(self, data).carry_out(draws, notes)

    def _may_move(self, data: Microdata, column: str) -> BoolArray | None:
        here = OnFile(self, data)
        return (
            None if here.may_all_move(column) and not data.dtype(column).is_float() else here.may_move(column)
        )

    def _compared(self, before: Microdata, after: Microdata, column: str) -> Compared:
        return OnFile(self, before).compared(after, column)
