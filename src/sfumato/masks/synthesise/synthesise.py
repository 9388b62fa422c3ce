"""Sequential synthesis: every column drawn anew from trees on the columns before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from sfumato.contract.guarantees import Guarantee
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import held_type, parameter
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.data.rules import rules_of
from sfumato.data.schema import Schema
from sfumato.data.sums import touched_rules
from sfumato.draws import Draws
from sfumato.errors import MaskError, Problem, counted
from sfumato.masks.synthesise.forest import Predictor, Synthesis, Tree, fit
from sfumato.masks.synthesise.guarantees import KnownValues, OthersStay, TotalsHold, synthesised
from sfumato.masks.synthesise.households import Homes, homes, of_first, refuse_torn
from sfumato.masks.synthesise.parts import Codes, Part, part
from sfumato.masks.synthesise.totals import Total, rest_name, total_of
from sfumato.parallel import in_threads


@dataclass(frozen=True, kw_only=True)
class Synthesise(Mask):
    """Draw the columns anew, one after another, each from a tree on the columns before it.

    The first column is drawn from its own values, the next from a tree of that column on the first,
    and so on: p(x₁)·p(x₂ | x₁)·p(x₃ | x₁, x₂) …, each factor estimated by a classification and
    regression tree whose leaves hold ``leaf`` original records or more. A row falls to its leaf by the
    values already drawn for it and takes the value of one of the leaf's records. If every column is
    synthesised, no row of the release belongs to anybody: there is nobody to link. Columns that stay
    (``predictors``) are looked at by every tree, so that their relations are kept, and such a file is only
    partly synthetic.

    Missing values, codes and zeros are values like others: they are drawn, and don't stay with their
    records. Draws are balanced: in a leaf, every record is drawn equally often, or once more. Numbers
    that fewer than ``blur`` records have are first replaced by means of neighbours in rank, since an
    exact and rare amount tells that its owner is in the file. Totals are added up again; what they hold
    beyond their parts is a column of its own. Members of a household are drawn one after another, each with
    a look at those before; what a household shares is drawn once.

    Each value is one of ``leaf`` records' at least, drawn with equal chances. So the probability that a
    row has all its p values from one record is at most leaf^−(p − 1). A row may still equal somebody's by
    having the same values as many; it isn't differential privacy, and what all people alike share can be
    read off.

    Reference: Reiter, J. P. (2005). Using CART to generate partially synthetic public use microdata. Journal
    of Official Statistics 21, 441-462; Nowok, B., Raab, G. M., Dibben, C. (2016). synthpop: bespoke creation
    of synthetic data in R. Journal of Statistical Software 74 (11).

    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"AGE": [21, 22, 23, 24, 61, 62, 63, 64], "PENSION": [0] * 4 + [900] * 4})
    >>> made = sf.Synthesise(columns=["AGE", "PENSION"], leaf=2, blur=2).mask(people, seed=1).frame
    >>> sorted(set(made.filter(pl.col("AGE") < 30)["PENSION"]))
    [0]
    """

    name: ClassVar[str] = "synthesise"
    reference: ClassVar[str] = "Reiter (2005); Nowok, Raab, Dibben (2016)"
    moves_missing: ClassVar[bool] = True

    columns: tuple[str, ...] = parameter(
        doc="The columns to synthesise, in the order in which they are drawn.", columns="sensitive"
    )
    leaf: int = parameter(
        20, doc="How many records (with households: households) a leaf has at least.", at_least=2
    )
    blur: int = parameter(
        3,
        doc="Numbers that fewer records have are replaced by means of this many neighbours; 0 for none.",
        at_least=0,
    )
    predictors: tuple[str, ...] | None = parameter(
        None,
        doc="The columns that stay and that every tree looks at; by default all that aren't synthesised, "
        "but for ids.",
        columns=True,
    )
    within: tuple[str, ...] = parameter(
        (), doc="No value crosses the strata of these columns, which have trees of their own.", columns=True
    )
    unit: str | None = parameter(
        None, doc="The column that says which records form a household; by default the schema's.",
        columns="household",
    )  # fmt: skip
    keys: tuple[str, ...] = parameter(
        (), doc="Synthesise only records whose combination of these is rare; without keys, all.", columns=True
    )
    tolerance: int = parameter(3, doc="Fewer records than this with the same `keys` are rare.", at_least=2)

    # -- what it says of itself -------------------------------------------------------------------

    def _check(self) -> Sequence[tuple[str, str | None]]:
        if not self.columns:
            return [("`columns` must name at least one column", None)]
        out: list[tuple[str, str | None]] = []
        for name, what in (("within", "within itself"), ("predictors", "with a look at itself")):
            both = [c for c in self.columns if c in (getattr(self, name) or ())]
            if both:
                out.append((f"{both[0]} can't be synthesised {what}", f"take it out of `{name}`"))
        twice = [c for c in self.columns if self.columns.count(c) > 1]
        if twice:
            out.append((f"`columns` names {twice[0]} twice", None))
        if self.blur == 1:
            out.append(("`blur` can't be 1", "0 for none, 2 or more for means of so many neighbours"))
        return out

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        for column in (*self.columns, *(self.predictors or ()), *self.within, *self.keys):
            if column in types and _unusable(types[column]):
                out.append(
                    Problem(
                        0,
                        f"{column} holds {held_type(types[column])}, which no tree can look at",
                        "leave it out",
                        parameter="columns" if column in self.columns else self.named_columns()[column],
                    )
                )
        for role in ("id", "household"):
            if getattr(schema, role) in self.columns:
                out.append(
                    Problem(
                        0,
                        f"{getattr(schema, role)} is the {role} and can't be synthesised",
                        "leave it out; a release has new ids",
                        parameter="columns",
                    )
                )
        for total, parts in schema.sums.items():
            if total in self.columns and not set(parts) & set(self.columns):
                out.append(
                    Problem(
                        0,
                        f"{total} is the sum of {' + '.join(parts)}, which stay and would tell it",
                        f"synthesise {', '.join(parts)} too, or leave {total} out",
                        parameter="columns",
                    )
                )
        return out

    def by_household(self, schema: Schema) -> bool:
        return True

    def changes(self, data: Microdata) -> Sequence[str]:
        totals = [t for t, _ in self._rules(data.schema)]
        flags = [data.schema[c].imputed for c in self.columns]
        return tuple(dict.fromkeys([*self.columns, *totals, *(f for f in flags if f)]))

    def needs(self, data: Microdata) -> Sequence[str]:
        return data.columns if self.predictors is None else super().needs(data)

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        drawn = self._drawn(data.schema)
        unit = self._unit(data.schema)
        promises: list[Guarantee] = [TotalsHold(t, parts) for t, parts in self._rules(data.schema)]
        if self.keys:
            promises.append(OthersStay(tuple(self.changes(data)), self.keys, self.tolerance, unit))
        else:
            promises.append(KnownValues(drawn, self.within, self.blur))
        return promises

    def _unit(self, schema: Schema) -> str | None:
        return self.unit or schema.household

    def _rules(self, schema: Schema) -> list[tuple[str, tuple[str, ...]]]:
        """The totals to rebuild, a total after the totals in it."""
        return touched_rules(schema.sums, self.columns)

    def _drawn(self, schema: Schema) -> tuple[str, ...]:
        """The columns that are drawn: all but totals and ratios, which follow what they are made of."""
        follow = {t for t, _ in self._rules(schema)}
        follow |= {rule.result for rule in rules_of(schema) if set(rule.parts) & {*self.columns, *follow}}
        return tuple(c for c in self.columns if c not in follow)

    def _given(self, data: Microdata) -> list[str]:
        if self.predictors is not None:
            return [c for c in self.predictors if c not in self.touches(data)]
        schema = data.schema
        out = {*self.touches(data), *self.within, schema.id, schema.household, self._unit(schema)}
        flags = {v.imputed for v in schema.variables.values()}
        there = [c for c in data.columns if c not in out | flags and not _unusable(data.dtype(c))]
        # Text that nearly everybody has to himself tells a tree nothing but who is who.
        most = len(data) / (2 * self.leaf)
        return [c for c in there if data.dtype(c) != pl.String or data.column(c).n_unique() <= max(most, 2)]

    # -- what it does -----------------------------------------------------------------------------

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        codes, n_strata = data.codes(self.within)
        strata = codes.astype(np.int32)
        found = homes(data, self._unit(data.schema))
        self._refuse_small(strata, n_strata, found)
        names = self._drawn(data.schema)
        parts = {c: part(data, c, self.blur) for c in names}
        given = [part(data, c) for c in self._given(data)]
        totals = [total_of(data, t, p) for t, p in self._rules(data.schema)]
        rests = {t.name: t.as_part(data, self.blur) for t in totals if t.needs_rest}
        parts |= {p.name: p for p in rests.values()}
        rows = np.flatnonzero(
            synthesised(data, self.keys, self.tolerance, self._unit(data.schema) if found else None)
        )
        state = self._drawn_state(parts, given, strata, n_strata, found, rows, draws, notes)
        whole = np.logical_and.reduce([state.donors[c][rows] == state.donors[names[0]][rows] for c in names])
        notes.figure("records_synthesised", len(rows))
        notes.figure("records_with_all_values_of_one_donor", int(whole.sum()))
        return data.with_columns(self._series(data, state, totals, rows))

    def _refuse_small(self, strata: Codes, n_strata: int, found: Homes | None) -> None:
        if found is not None:
            refuse_torn(strata, found, self.within)
        counted_once = strata if found is None else strata[found.first]
        sizes = np.bincount(counted_once, minlength=n_strata)
        small = sizes[sizes < self.leaf]
        if not len(small):
            return
        what = "records" if found is None else "households"
        if not self.within:
            raise MaskError(
                f"synthesise: {counted(int(small[0]), what[:-1])} can't fill a leaf of {self.leaf}",
                hint="a file this small would be copied, not synthesised",
            )
        raise MaskError(
            f"synthesise: {len(small):,} strata have fewer than leaf = {self.leaf} {what} "
            f"(the smallest has {int(small.min())})",
            hint="stratify by fewer or coarser columns, or lower `leaf`",
        )

    def _drawn_state(
        self, parts: dict[str, Part], given: list[Part], strata: Codes, n_strata: int, found: Homes | None,
        rows: IntArray, draws: Draws, notes: Notes,
    ) -> Synthesis:  # fmt: skip
        """Everything drawn once: what households share first, then the persons."""
        n = len(strata)
        every = {p.name: p for p in given}
        if found is None:
            trees = self._trees(list(parts.values()), given, [], strata, n_strata, np.ones(n), notes)
            state = Synthesis(every | parts, trees, strata, np.zeros(n, np.int64))
            state.draw(rows, draws, "draw", balanced=True)
            return state
        extra = found.parts()
        shared = [p for p in parts.values() if found.shared(p)]
        own = [p for p in parts.values() if not found.shared(p)]
        trees = self._trees(
            own, [*given, *extra, *shared], found.others(own), strata, n_strata, 1.0 / found.size, notes
        )
        state = Synthesis(every | {p.name: p for p in extra} | parts, trees, strata, found.place)
        if shared:
            first = found.first
            known = [of_first(p, first) for p in [*given, extra[0]] if found.shared(p)]
            once = [of_first(p, first) for p in shared]
            home_trees = self._trees(once, known, [], strata[first], n_strata, np.ones(len(first)), notes)
            turn = np.zeros(len(first), np.int64)
            house = Synthesis({p.name: p for p in [*known, *once]}, home_trees, strata[first], turn)
            house.draw(np.unique(found.of[rows]), draws, "household", balanced=True)
            for p in shared:
                state.give(p.name, rows, first[house.donors[p.name]][found.of[rows]])
        state.draw(rows, draws, "draw", balanced=True)
        return state

    def _trees(
        self, parts: list[Part], given: Sequence[Part], others: list[Predictor], strata: Codes,
        n_strata: int, mass: FloatArray, notes: Notes,
    ) -> dict[str, Tree]:  # fmt: skip
        """A tree for each column on the given ones, on those before it, and on other members'."""

        def grown(at: int) -> Tree:
            seen = [Predictor(p) for p in (*given, *parts[:at])]
            return fit(parts[at], [*seen, *others], strata, n_strata, mass, self.leaf)

        trees = in_threads(grown, range(len(parts)))
        for one, tree in zip(parts, trees, strict=True):
            notes.figure("leaves", len(tree.sizes), one.name)
            notes.figure("records_in_leaves_of_one_value_percent", tree.constant_percent(one), one.name)
        return {p.name: t for p, t in zip(parts, trees, strict=True)}

    def _series(
        self, data: Microdata, state: Synthesis, totals: Sequence[Total], rows: IntArray
    ) -> dict[str, pl.Series]:
        """The columns of the release."""
        drawn: BoolArray = np.zeros(len(data), np.bool_)
        drawn[rows] = True
        new: dict[str, pl.Series] = {}
        for column in self._drawn(data.schema):
            take = pl.Series(state.donors[column]).cast(pl.UInt32)
            values = state.parts[column].values.gather(take)
            # A record that stays has its own value, not the blurred one.
            new[column] = values if drawn.all() else values.zip_with(pl.Series(drawn), data.column(column))
            flag = data.schema[column].imputed
            if flag is not None and flag not in self.columns:
                new[flag] = data.column(flag).gather(take)
        for total in totals:
            donors = state.donors.get(rest_name(total.name))
            new[total.name] = total.rebuilt(data, new, donors, rows, self.blur)
        return new


def _unusable(dtype: pl.DataType) -> bool:
    return dtype.is_nested() or dtype in (pl.Null, pl.Binary, pl.Object)
