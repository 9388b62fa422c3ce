"""The enhanced confidentiality edit that Moore recommended for the 2000 Census."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.cells.keys import default_levels
from sfumato.contract.disclosure import Fact, Kept, Travelled
from sfumato.contract.engine import Locality
from sfumato.contract.guarantees import Guarantee, SameTable
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import Fault, parameter
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import MaskError, Problem, did_you_mean
from sfumato.masks.edits import classes as _classes
from sfumato.masks.edits import key_order as _key_order
from sfumato.masks.edits.geography import below, geography_problems
from sfumato.masks.edits.neighbour_swap import Pairs, Swapper, standardised
from sfumato.masks.edits.trials import Trials

ORDERS = ("near_optimal", "search")
_WARNING = (
    "swapping the first key that makes a record rare protects least: an intruder who knows the other "
    "keys still finds the record, with its true values (Moore 1996, section X)"
)


@dataclass(frozen=True, kw_only=True)
class ConfidentialityEdit2000(Mask):
    """Swap one record of every key combination that fewer than ``tolerance`` records share.

    The file is read sorted by the keys; each combination below tolerance swaps one record's
    information with a record of the next combination, which is then safe too. What is swapped:
    the geography (method 1, the paper's advice), all sensitive values (method 2), or the first key
    at which the combination falls below tolerance (method 3). The partner must differ in what is
    swapped; where the neighbours don't, the rest of the stratum is searched.

    The order of the keys decides how similar neighbours are. ``order="near_optimal"`` is the
    paper's: the key whose classes have the smallest largest standard deviation of ``order_by`` goes
    last, and so on. ``order="search"`` minimises the average PERCENTAGE BIAS over ``levels``, never
    worse than near_optimal. A list is used as it is.

    With ``window`` above 1 the partner is the record with the most similar ``similar`` values among
    that many neighbours; on the housing deck 16 halves the PERCENTAGE BIAS. ``sample_percent`` swaps
    only a share of the combinations below tolerance (Corollary A.4); ``f`` lets the edit choose that
    share itself, by Theorem A.3 and then by trial, so that PERCENTAGE BIAS < 100·√(2f+f²)·s/mean.

    Reference: Moore, R. A. (1996). Preliminary recommendations for disclosure limitation for the
    2000 Census. SRD RR96/06, U.S. Bureau of the Census, sections VIII to XIII and appendix A.

    >>> import sfumato as sf
    >>> edit = sf.ConfidentialityEdit2000(tolerance=2, order_by="INCOME")
    >>> masked, notes, _ = edit.carry_out(sf.decks.housing(), sf.Seed.from_int(1).draws("edit"))
    >>> notes.figures["order"]
    ['BATHS', 'BEDROOMS', 'YR_BLT', 'REGION']
    >>> notes.figures["classes_below_tolerance"], notes.figures["records_changed"]
    (473, 582)
    """

    name: ClassVar[str] = "confidentiality_edit_2000"
    reference: ClassVar[str] = "Moore (1996), SRD RR96/06, section VIII"

    keys: tuple[str, ...] = parameter(
        (), doc="The keys that an intruder may know; by default the schema's.", columns="keys", public=True
    )
    swap: Literal["geography", "sensitive", "first_key"] = parameter(
        "geography", doc="What two records exchange: methods 1, 2 and 3 of the paper.", public=True
    )
    tolerance: int = parameter(
        3, doc="Combinations that fewer records than this share are swapped.", at_least=1, public=True
    )
    order: str | tuple[str, ...] = parameter(
        "near_optimal",
        doc='How the keys are sorted: "near_optimal", "search", or the keys, first to last.',
    )
    order_by: str | None = parameter(
        None,
        doc="The continuous variable that decides the order and the limit on the bias; by default "
        "the first sensitive one.",
        columns=True,
        numeric=True,
        public=True,
    )
    sample_percent: float = parameter(
        100.0,
        doc="How many percent of the combinations below tolerance are swapped.",
        at_least=0,
        at_most=100,
        public=True,
    )
    geography: tuple[str, ...] = parameter(
        (),
        doc="The codes that method 1 exchanges; by default the schema's geography, without its first "
        "level where it has several.",
        columns="geography",
        public=True,
    )
    sensitive: tuple[str, ...] = parameter(
        (),
        doc="The values that method 2 exchanges; by default the schema's sensitive ones.",
        columns="sensitive",
        public=True,
    )
    within: tuple[str, ...] | None = parameter(
        None,
        doc="Nothing crosses the strata of these columns; by default the first level of a geography "
        "that has several (the state).",
        columns=True,
        public=True,
    )
    window: int = parameter(
        1,
        doc="Among how many neighbouring records the most similar partner is chosen.",
        at_least=1,
        at_most=10_000,
        public=True,
    )
    similar: tuple[str, ...] = parameter(
        (),
        doc="The columns in which a partner should be similar; by default the sensitive ones.",
        columns=True,
        numeric=True,
        public=True,
    )
    f: float | None = parameter(
        None,
        doc="Tune the share of combinations so that swapping adds at most this share to the standard "
        "deviation of `order_by` (0.01: one percent).",
        above=0,
        public=True,
    )
    p: float = parameter(
        10.0,
        doc="The least mean distortion of a swapped record in percent; below it, a warning.",
        at_least=0,
        public=True,
    )
    levels: tuple[tuple[str, ...], ...] = parameter(
        (),
        doc="Sets of keys whose average PERCENTAGE BIAS a search minimises; by default the geography "
        "with every set of other keys, as in Table 7.",
        columns=True,
        public=True,
    )
    search_orders: int = parameter(
        720,
        doc="How many orders a search may try: all of them if there are no more.",
        at_least=1,
        public=True,
    )

    # -- what it works on -------------------------------------------------------------------------

    def _within(self, schema: Schema) -> tuple[str, ...]:
        if self.within is not None:
            return self.within
        levels = schema.geography
        if self.geography:
            first = next((i for i, g in enumerate(levels) if g in self.geography), 0)
            return levels[:first]
        return levels[:1] if len(levels) > 1 else ()

    def _areas(self, schema: Schema) -> tuple[str, ...]:
        return self.geography or below(schema, self._within(schema))

    def _keys(self, schema: Schema) -> tuple[str, ...]:
        within = self._within(schema)
        return tuple(k for k in self.keys or schema.keys if k not in within)

    def _sensitive(self, schema: Schema) -> tuple[str, ...]:
        return self.sensitive or schema.sensitive

    def _order_by(self, schema: Schema) -> str | None:
        if self.order_by is not None:
            return self.order_by
        listed = self._sensitive(schema)
        return listed[0] if listed else None

    def _swapped(self, schema: Schema) -> tuple[str, ...]:
        if self.swap == "geography":
            return self._areas(schema)
        return self._sensitive(schema) if self.swap == "sensitive" else self._keys(schema)

    def _check(self) -> Sequence[Fault]:
        out: list[Fault] = []
        if isinstance(self.order, str) and self.order not in ORDERS and self.order not in self.keys:
            out.append((f"`order` can't be {self.order!r}", did_you_mean(self.order, ORDERS), "order"))
        if not isinstance(self.order, str) and len(set(self.order)) < len(self.order):
            out.append(("`order` names a key twice", None, "order"))
        return out

    def _listed(self, schema: Schema) -> tuple[str, ...] | None:
        """The order as given, without strata; None where it is to be found."""
        if self.order in ORDERS:
            return None
        given = (self.order,) if isinstance(self.order, str) else self.order
        return tuple(k for k in given if k not in self._within(schema))

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        keys = self._keys(schema)
        if not keys:
            out.append(Problem(0, "there are no keys", "name them with `keys`, or give the schema keys"))
        listed = self._listed(schema)
        if listed is not None and set(listed) != set(keys):
            odd = sorted(set(listed) ^ set(keys))
            out.append(
                Problem(
                    0,
                    f"`order` must list the keys, each once; {odd[0]!r} is in only one of them",
                    parameter="order",
                )
            )
        by = self._order_by(schema)
        if by is None and (listed is None or self.f is not None):
            what = f"order={self.order!r}" if listed is None else "`f`"
            out.append(
                Problem(
                    0, f"{what} needs a continuous variable", "name it with `order_by`, or list the order"
                )
            )
        if by is not None and by in types and not types[by].is_numeric():
            out.append(
                Problem(0, f"`order_by` needs numbers, but {by!r} holds {types[by]}", parameter="order_by")
            )
        if not self._swapped(schema) and keys:
            hint = f"name it with `{self.swap}`, or give the schema the role"
            out.append(Problem(0, f"there is nothing to swap: the data have no {self.swap} columns", hint))
        if self.swap == "geography":
            out += geography_problems(schema, self._areas(schema), self._within(schema))
        for column in self._sensitive(schema) if self.swap == "sensitive" else ():
            if column in types and not (types[column].is_numeric() or types[column].is_temporal()):
                out.append(
                    Problem(
                        0,
                        f"`sensitive` needs numbers, but {column!r} holds {types[column]}",
                        parameter="sensitive",
                    )
                )
        if self.swap == "first_key":
            out.append(Problem(0, _WARNING, 'use swap = "geography"', "warning"))
        if self.swap == "sensitive" and self.window > 1:
            out.append(
                Problem(
                    0,
                    "similar partners exchange similar values, which protects less",
                    'use window = 1 with swap = "sensitive", or look at the lower end of the range',
                    "warning",
                )
            )
        for level in self.levels:
            odd = [k for k in level if k not in keys]
            if odd:
                out.append(
                    Problem(
                        0,
                        f"`levels` names {odd[0]!r}, which isn't a key",
                        did_you_mean(odd[0], keys),
                        parameter="levels",
                    )
                )
        return out

    def needs(self, data: Microdata) -> Sequence[str]:
        schema = data.schema
        by = self._order_by(schema)
        # The levels that aren't swapped decide by default what the strata are.
        used = [*schema.geography, *self._within(schema), *self._keys(schema), *self._swapped(schema)]
        used += [*([by] if by else []), *(self._sensitive(schema) if self.window > 1 else [])]
        return tuple(dict.fromkeys([*self.named_columns(), *used]))

    @property
    def locality(self) -> Locality:
        return "keys"

    def changes(self, data: Microdata) -> Sequence[str]:
        return self._swapped(data.schema)

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        swapped = self._swapped(data.schema)
        whole = self.swap == "sensitive" and len(swapped) > 1
        return [Kept(columns=swapped), *([Travelled(columns=swapped)] if whole else [])]

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        within, swapped = self._within(data.schema), self._swapped(data.schema)
        if self.swap == "geography":
            return [SameTable((*within, *swapped))]
        return [SameTable((*within, column)) for column in swapped]

    # -- what it does -----------------------------------------------------------------------------

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        schema = data.schema
        self._check_records(data)
        classes = _key_order.key_classes(
            data, self._listed(schema) or self._keys(schema), self._within(schema)
        )
        by = self._order_by(schema)
        x = data.numbers(by) if by is not None else None
        swapper = self._swapper(data, classes, draws)
        failing = int(swapper.failing.sum())
        notes.figure("classes", len(classes))
        notes.figure("classes_below_tolerance", failing)
        notes.figure("records_below_tolerance", int(classes.counts[swapper.failing].sum()))
        if failing and classes.counts[swapper.failing].sum() > len(data) / 2:
            notes.warn(
                f"{100 * classes.counts[swapper.failing].sum() / len(data):.0f}% of the records are below "
                "tolerance: the keys are too fine to publish; recode them first"
            )
        if self.swap == "first_key":
            notes.warn(_WARNING)
        trials = Trials(swapper, x, self.window, self.sample_percent / 100, draws, notes)
        levels = list(self.levels) or default_levels(classes.keys, self._areas(schema))
        how = self.order if isinstance(self.order, str) and self.order in ORDERS else "given"
        order = trials.find_order(how, levels, self.search_orders)
        share, pairs = trials.tuned(order, self.f, self.p)
        trials.report(data, order, share, pairs, self.f, self.p)
        return self._exchange(data, pairs)

    def _check_records(self, data: Microdata) -> None:
        house = data.schema.household
        if house is not None and not _classes.units(data, house).single and self.swap == "geography":
            raise MaskError(
                f"{self.name}: the file has several records of one {house}, which would be torn apart",
                hint="use one record per household, or ConfidentialityEdit1990 or RecordSwap",
            )

    def _swapper(self, data: Microdata, classes: _key_order.KeyClasses, draws: Draws) -> Swapper:
        from sfumato.kernels import edits

        schema, n = data.schema, len(data)
        area, values, likeness = np.zeros(0, np.int64), np.zeros((0, 0)), np.zeros((0, 0))
        mode = {"geography": edits.GEOGRAPHY, "sensitive": edits.SENSITIVE}.get(self.swap, edits.FIRST_KEY)
        if mode == edits.GEOGRAPHY:
            columns = self._areas(schema)
            area = _classes.classes(data, columns)[0]
            gone = _classes.missing_any(data, columns)
            if gone.any():
                area = np.where(gone, -1, area)
        elif mode == edits.SENSITIVE:
            values = np.ascontiguousarray(data.matrix(self._sensitive(schema)))
        columns = self.similar or tuple(c for c in self._sensitive(schema) if data.is_numeric(c))
        if self.window > 1 and columns:
            likeness = np.empty((n, len(columns)))
            for j, column in enumerate(columns):
                likeness[:, j] = standardised(data.numbers(column))
        elif self.window > 1:
            raise MaskError(
                f"{self.name}: a window needs numbers to be similar in", hint="name them with `similar`"
            )
        rng = draws.stream(purpose="representatives").generator()
        offset = (rng.random(len(classes)) * classes.counts).astype(np.int64)
        failing = int((classes.counts < self.tolerance).sum())
        priority = draws.stream(purpose="sample").permutation(failing)
        return Swapper(classes, self.tolerance, mode, area, values, likeness, offset, priority)

    def _exchange(self, data: Microdata, pairs: Pairs) -> Microdata:
        swapped = np.flatnonzero(pairs.partner >= 0)
        new = {}
        for column in self._swapped(data.schema):
            rows = swapped
            if self.swap == "first_key":
                # The classes number the keys in their own order.
                key = (self._listed(data.schema) or self._keys(data.schema)).index(column)
                rows = swapped[pairs.via[swapped] == key]
            elif self.swap == "sensitive":
                there = ~data.missing(column)
                rows = swapped[there[swapped] & there[pairs.partner[swapped]]]
            if not len(rows):
                continue
            source = np.arange(len(data))
            source[rows] = pairs.partner[rows]
            new[column] = data.column(column).gather(pl.Series(source.astype(np.uint64)))
        return data.with_columns(new) if new else data
