"""The 1990 confidentiality edit, and its permutation variant with a formal reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.engine import Locality
from sfumato.contract.guarantees import Guarantee, SameTable
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import Fault, parameter
from sfumato.data.codes import joint
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem
from sfumato.masks.edits import classes as _classes
from sfumato.masks.edits.geography import below, geography_problems, nesting_warnings
from sfumato.masks.edits.partners import find_partners
from sfumato.stats.swap_epsilon import epsilon_per_record, in_words, invariants, permutation_epsilon


@dataclass(frozen=True, kw_only=True)
class ConfidentialityEdit1990(Mask):
    """Swap the geography of a sample of households with households that have the same keys elsewhere.

    Within each stratum of ``within`` (the state) ``rate_percent`` of the households are drawn, and
    ``small_area_rate_percent`` of those in areas of fewer than ``small_area_size`` households. Each
    looks for a partner that agrees on ``match_on`` and lies in another area, first in the sample,
    then among the rest; the two exchange their codes below state (``swap``). No household is used
    twice, and all persons of a household move together. Every count of ``match_on`` by area stays.
    Households that found nobody stay and are named in the internal log.

    It is the same as blanking the geography of the sample and of its donors and imputing each from
    the other, which is how it may be described to those who know hot-deck imputation.

    ``selection="independent"`` selects each household with its rate independently and permutes the
    areas of the selected uniformly among those with the same keys (a household may get its own
    area back). That is differentially private subject to its invariants; the notes give ε.

    Reference: Moore, R. A. (1996). Preliminary recommendations for disclosure limitation for the
    2000 Census. SRD RR96/06, U.S. Bureau of the Census, section II; Griffin, Navarro and
    Flores-Baez (1989). Disclosure avoidance for the 1990 Census.

    >>> import polars as pl, sfumato as sf
    >>> homes = pl.DataFrame({"STATE": ["NJ", "NJ"], "WHITES": [9, 9], "PLACE": ["Princeton", "Trenton"]})
    >>> edit = sf.ConfidentialityEdit1990(
    ...     match_on=["WHITES"], swap=["PLACE"], within=["STATE"], rate_percent=100
    ... )
    >>> edit.mask(homes, seed=1).frame["PLACE"].to_list()
    ['Trenton', 'Princeton']
    """

    name: ClassVar[str] = "confidentiality_edit_1990"
    reference: ClassVar[str] = "Moore (1996), SRD RR96/06, section II"

    match_on: tuple[str, ...] = parameter(
        (),
        doc="The keys on which the two households must agree; by default the schema's keys (for a "
        "census the eleven of the 1990 edit), without the geography.",
        columns="keys",
        public=True,
    )
    swap: tuple[str, ...] = parameter(
        (),
        doc="The geographic codes to exchange, coarse to fine; by default the schema's geography "
        "below its first level.",
        columns="geography",
        public=True,
    )
    within: tuple[str, ...] | None = parameter(
        None,
        doc="Nothing crosses the strata of these columns; by default the levels of the schema's "
        "geography above those swapped (the state).",
        columns=True,
        public=True,
    )
    rate_percent: float = parameter(
        1.0,
        doc="How many percent of the households are drawn into the sample.",
        at_least=0,
        at_most=100,
        public=True,
    )
    small_area: str | None = parameter(
        None,
        doc="The level whose areas count as small; by default the finest level that is swapped.",
        columns=True,
        public=True,
    )
    small_area_size: int | None = parameter(
        None, doc="Areas of fewer households than this are drawn at their own rate.", at_least=1, public=True
    )
    small_area_rate_percent: float | None = parameter(
        None,
        doc="How many percent of the households in small areas are drawn.",
        at_least=0,
        at_most=100,
        public=True,
    )
    elsewhere: str | None = parameter(
        None,
        doc="The level at which the partner's area must differ; by default the finest one swapped.",
        columns=True,
        public=True,
    )
    household: str | None = parameter(
        None,
        doc="The column that says which persons form a household; by default the schema's.",
        columns="household",
        public=True,
    )
    selection: Literal["sample", "independent"] = parameter(
        "sample",
        doc="How the households are drawn: a sample of fixed size whose members are paired, or each "
        "independently, the selected being permuted within the stratum (differentially private).",
        public=True,
    )

    # -- what it works on -------------------------------------------------------------------------

    def _swap(self, schema: Schema) -> tuple[str, ...]:
        return self.swap or below(schema, self.within)

    def _within(self, schema: Schema) -> tuple[str, ...]:
        if self.within is not None:
            return self.within
        swapped = self._swap(schema)
        first = next((i for i, g in enumerate(schema.geography) if g in swapped), 0)
        return tuple(g for g in schema.geography[:first] if g not in self.match_on)

    def _keys(self, schema: Schema) -> tuple[str, ...]:
        if self.match_on:
            return self.match_on
        taken = {*self._swap(schema), *self._within(schema), *schema.geography}
        return tuple(k for k in schema.keys if k not in taken)

    def _check(self) -> Sequence[Fault]:
        out: list[Fault] = []
        both = [c for c in self.swap if c in self.match_on or c in (self.within or ())]
        if both:
            out.append((f"{both[0]} can't be both swapped and kept", "take it out of one of the lists"))
        if (self.small_area_rate_percent is None) != (self.small_area_size is None):
            out.append(
                (
                    "`small_area_size` and `small_area_rate_percent` go together",
                    "give both or neither",
                    "small_area_size",
                )
            )
        elif self.small_area is not None and self.small_area_size is None:
            out.append(
                ("`small_area` needs `small_area_size` and `small_area_rate_percent`", None, "small_area")
            )
        if self.selection == "independent" and self.elsewhere is not None:
            out.append(
                (
                    '`elsewhere` can\'t be used with selection="independent"',
                    "a uniform permutation may give an area back; that is part of its protection",
                    "elsewhere",
                )
            )
        return out

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        swapped, keys = self._swap(schema), self._keys(schema)
        if not swapped:
            hint = "name the columns with `swap`, or give the schema a geography of two levels or more"
            out.append(Problem(0, "there is no geography to swap", hint))
        if not keys:
            out.append(
                Problem(
                    0,
                    "no keys to match on: any two households of a stratum may trade places",
                    "name them with `match_on`, or give the schema keys",
                    "warning",
                )
            )
        out += geography_problems(schema, swapped, self._within(schema))
        for name in ("elsewhere", "small_area"):
            level = getattr(self, name)
            if level is not None and level not in swapped and swapped:
                out.append(
                    Problem(
                        0,
                        f"`{name}` must be one of the levels that are swapped, not {level!r}",
                        parameter=name,
                    )
                )
        if self.selection == "independent" and self.rate_percent < 50:
            least = permutation_epsilon(2, self.rate_percent / 100)
            out.append(
                Problem(
                    0,
                    f"at {self.rate_percent:g}% ε is {least:.3g} or more: a weak formal promise",
                    "raise `rate_percent`; sfumato.stats.swap_epsilon.rate_for_epsilon says how far",
                    "warning",
                )
            )
        return out

    def needs(self, data: Microdata) -> Sequence[str]:
        schema = data.schema
        house = self.household or schema.household
        used = [*self._keys(schema), *self._within(schema), *self._swap(schema), *([house] if house else [])]
        return tuple(dict.fromkeys([*self.named_columns(), *used]))

    @property
    def locality(self) -> Locality:
        return "keys"

    def by_household(self, schema: Schema) -> bool:
        return True

    def changes(self, data: Microdata) -> Sequence[str]:
        return self._swap(data.schema)

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        schema = data.schema
        areas = (*self._within(schema), *self._swap(schema))
        return [SameTable((*areas, *self._keys(schema)))]

    # -- what it does -----------------------------------------------------------------------------

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        schema = data.schema
        keys, swapped, within = self._keys(schema), self._swap(schema), self._within(schema)
        homes = _classes.units(data, self.household or schema.household)
        _classes.check_same_in_unit(data, homes, [*within, *keys, *swapped], self.name)
        for text in nesting_warnings(data, swapped):
            notes.warn(text)
        first, n = homes.first, len(homes)

        def of_homes(columns: Sequence[str]) -> tuple[IntArray, int]:
            code, width = joint([_classes.digits(data, c) for c in columns], len(data))
            return (code if homes.single else code[first]), width

        parts = [of_homes(within), of_homes(keys)]
        if not homes.single:
            # Households of one size only, so that the count of persons in every area stays too.
            parts.append((homes.size, int(homes.size.max(initial=0)) + 1))
        bucket, n_buckets = joint(parts, n)
        area, _ = of_homes(swapped)
        movable = ~_classes.missing_any(data, swapped)[first]
        share = self._shares(n, swapped, within, of_homes)
        notes.figure("households", n)
        if not movable.all():
            notes.figure("households_without_geography", int(n - movable.sum()))
        if self.selection == "independent":
            source = self._permute(bucket, n_buckets, movable, share, draws, notes, (keys, swapped, within))
            moved = area[source] != area
            notes.figure("households_with_another_area", int(moved.sum()))
            notes.add_log(_log(data, homes, np.flatnonzero(moved), source, "permuted"))
        else:
            if self.elsewhere is not None:
                level = swapped[: swapped.index(self.elsewhere) + 1]
                area, _ = of_homes(level)
            source = self._pair(data, homes, parts[0], bucket, n_buckets, area, movable, share, draws, notes)
        # Each record takes the geography of the first record of the household it trades with.
        take = first[source] if homes.single else first[source[homes.of]]
        stays = source[homes.of] == homes.of
        rows = pl.Series(np.where(stays, np.arange(len(data)), take).astype(np.uint64))
        return data.with_columns({c: data.column(c).gather(rows) for c in swapped})

    def _shares(
        self,
        n: int,
        swapped: Sequence[str],
        within: Sequence[str],
        of_homes: Callable[[Sequence[str]], tuple[IntArray, int]],
    ) -> FloatArray:
        """Each household's rate, as a share."""
        share = np.full(n, self.rate_percent / 100.0)
        if self.small_area_size is not None and self.small_area_rate_percent is not None:
            level = swapped[: swapped.index(self.small_area) + 1] if self.small_area else swapped
            code, width = of_homes([*within, *level])
            small = np.bincount(code, minlength=width) < self.small_area_size
            share[small[code]] = self.small_area_rate_percent / 100.0
        return share

    def _pair(
        self,
        data: Microdata,
        homes: _classes.Units,
        strata: tuple[IntArray, int],
        bucket: IntArray,
        n_buckets: int,
        area: IntArray,
        movable: BoolArray,
        share: FloatArray,
        draws: Draws,
        notes: Notes,
    ) -> IntArray:
        """Draw the sample, find partners in it and then outside; who trades with whom."""
        from sfumato.kernels import edits

        n = len(homes)
        sampled = np.zeros(n, np.bool_)
        some = np.flatnonzero(movable)
        rates, rate_of = np.unique(share[some], return_inverse=True)
        group, n_groups = joint([(strata[0][some], strata[1]), (rate_of, len(rates))], len(some))
        starts, places = edits.by_class(group, n_groups)
        group_share = np.zeros(n_groups)
        group_share[group] = share[some]
        edits.draw_sample(
            starts, some[places], group_share, draws.stream(purpose="sample").generator(), sampled
        )

        partner = np.full(n, -1, np.int64)
        seekers = np.flatnonzero(sampled)
        left = find_partners(
            seekers, bucket, n_buckets, area, sampled, partner, draws.stream(purpose="inside").generator()
        )
        inside = len(seekers) - len(left)
        left = find_partners(
            left,
            bucket,
            n_buckets,
            area,
            movable & ~sampled,
            partner,
            draws.stream(purpose="outside").generator(),
        )
        matched = len(seekers) - len(left)
        notes.figure("sampled", len(seekers))
        notes.figure("matched_in_sample", inside)
        notes.figure("matched_outside", matched - inside)
        notes.figure("unmatched", len(left))
        notes.figure("matched_percent", 100.0 * matched / len(seekers) if len(seekers) else None)
        notes.figure("households_swapped", int((partner >= 0).sum()))
        self._explain(left, strata[0], area, bucket, seekers, notes)
        notes.add_log(_log(data, homes, np.flatnonzero(partner >= 0), partner, "swapped"))
        if len(left):
            notes.add_log(_log(data, homes, np.sort(left), None, "unmatched"))
        return np.where(partner >= 0, partner, np.arange(n))

    def _explain(
        self,
        left: IntArray,
        strata: IntArray,
        area: IntArray,
        bucket: IntArray,
        seekers: IntArray,
        notes: Notes,
    ) -> None:
        """Say why households stayed alone, where the reason is one that can be mended."""
        if not len(left):
            return
        low, high = np.full(strata.max() + 1, area.max() + 1), np.full(strata.max() + 1, -1)
        np.minimum.at(low, strata, area)
        np.maximum.at(high, strata, area)
        lonely = np.unique(strata[left][(low == high)[strata[left]]])
        if len(lonely):
            notes.warn(
                f"{len(lonely):,} strata have a single area, so nobody in them has anywhere to go; "
                "take a coarser `within` or a finer level to swap"
            )
        if len(left) == len(seekers):
            alone = int((np.bincount(bucket)[bucket[left]] == 1).sum())
            why = (
                "no two households share their keys"
                if alone == len(left)
                else "nobody has a partner elsewhere"
            )
            notes.warn(
                f"none of the {len(left):,} sampled households was matched: {why}; recode the keys first"
            )
        elif len(left) > 0.05 * len(seekers):
            notes.warn(
                f"{len(left):,} of {len(seekers):,} sampled households found no partner "
                f"({100 * len(left) / len(seekers):.1f}%; 0.3% in 1990); coarser keys would help"
            )

    def _permute(
        self,
        bucket: IntArray,
        n_buckets: int,
        movable: BoolArray,
        share: FloatArray,
        draws: Draws,
        notes: Notes,
        columns: tuple[Sequence[str], Sequence[str], Sequence[str]],
    ) -> IntArray:
        """Select independently, permute the selected uniformly; ε from the strata's sizes and rates."""
        from sfumato.kernels import edits

        n = len(bucket)
        chosen = (draws.stream(purpose="select").uniform(0, n) < share) & movable
        some = np.flatnonzero(movable)
        starts, places = edits.by_class(bucket[some], n_buckets)
        source = np.arange(n, dtype=np.int64)
        edits.permute_selected(
            starts, some[places], chosen, draws.stream(purpose="permute").generator(), source
        )
        size = np.diff(starts)
        lowest = np.ones(n_buckets)
        np.minimum.at(lowest, bucket[some], share[some])
        # ε grows with the size and falls with the rate: one look per rate at its largest stratum.
        worst, worst_size, worst_rate = 0.0, int(size.max(initial=0)), 1.0
        for rate in np.unique(lowest[size > 1]):
            largest = int(size[(lowest == rate) & (size > 1)].max())
            epsilon = permutation_epsilon(largest, float(rate))
            if epsilon >= worst:
                worst, worst_size, worst_rate = epsilon, largest, float(rate)
        keys, swapped, within = columns
        notes.figure("selected", int(chosen.sum()))
        notes.figure("epsilon", worst)
        notes.figure("epsilon_per_record", epsilon_per_record(worst_size, worst_rate))
        notes.figure("largest_stratum", worst_size)
        notes.figure("strata_of_one", int((size == 1).sum()))
        notes.figure("epsilon_in_words", in_words(worst, worst_size, "household"))
        notes.figure("invariants", invariants(keys, swapped, within, "household"))
        return source


def _log(
    data: Microdata, homes: _classes.Units, which: IntArray, other: IntArray | None, what: str
) -> pl.DataFrame:
    """The confidential list: who was swapped with whom, and who found nobody."""
    named = homes.names(data, which).cast(pl.String)
    with_ = None if other is None else homes.names(data, other[which]).cast(pl.String)
    return pl.DataFrame(
        {
            "household": named,
            "record": homes.first[which],
            "partner": with_ if with_ is not None else pl.Series([None] * len(which), dtype=pl.String),
            "what": [what] * len(which),
        }
    )
