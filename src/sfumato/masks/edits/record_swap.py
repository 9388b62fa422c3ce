"""Targeted record swapping, as the ONS and Eurostat protect censuses."""

from __future__ import annotations

from collections.abc import Sequence
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
from sfumato.errors import MaskError, Problem
from sfumato.masks.edits import classes as _classes
from sfumato.masks.edits.geography import area_levels, nesting_warnings
from sfumato.masks.edits.partners import find_partners


@dataclass(frozen=True, kw_only=True)
class RecordSwap(Mask):
    """Swap the geography of risky households, and of others up to a rate, with similar ones elsewhere.

    A household is high-risk at a level of ``hierarchy`` (coarse to fine) if one of its members'
    combination of ``keys`` is shared by fewer than ``tolerance`` persons of its area of that level.
    It trades places with a household in another area of the coarsest level at which it is
    high-risk, if possible within the same area of the next coarser level, that agrees on a
    similarity profile: ``similar`` holds one or several, from strict to loose, tried in turn. Then
    others are drawn, the riskier the likelier, until ``rate_percent`` of all households have been
    swapped (a swap counts for two). All members move, with ``hierarchy`` and ``carry_along``.

    Where the high-risk households alone exceed the rate, the two demands contradict each other: the
    mask refuses and says which rate would do, unless ``on_conflict`` decides for one of them.

    Reference: Shlomo, N., Tudor, C. and Groom, P. (2010). Data swapping for protecting census
    tables. Privacy in Statistical Databases, LNCS 6344, 41-51; Eurostat (2017), Recommendations for
    the protection of 2021 census data.

    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame(
    ...     {"HH": [1, 1, 2, 2, 3, 4], "COUNTY": [1, 1, 2, 2, 1, 2], "AGE": [30, 31, 30, 31, 90, 40]}
    ... )
    >>> swap = sf.RecordSwap(
    ...     household="HH", hierarchy=["COUNTY"], keys=["AGE"], tolerance=2, rate_percent=100
    ... )
    >>> swap.mask(people, seed=1).frame["COUNTY"].to_list()
    [2, 2, 1, 1, 2, 1]
    """

    name: ClassVar[str] = "record_swap"
    reference: ClassVar[str] = "Shlomo, Tudor and Groom (2010)"

    household: str | None = parameter(
        None,
        doc="The column that says which persons form a household; by default the schema's, else every "
        "record is one.",
        columns="household",
        public=True,
    )
    hierarchy: tuple[str, ...] = parameter(
        (),
        doc="The geographic levels, coarse to fine; by default the schema's geography.",
        columns="geography",
        public=True,
    )
    similar: tuple[str, ...] | tuple[tuple[str, ...], ...] = parameter(
        (),
        doc="The household variables on which the two must agree, or a list of such profiles, from "
        "strict to loose.",
        columns=True,
        public=True,
    )
    rate_percent: float = parameter(
        5.0, doc="How many percent of the households are swapped.", at_least=0, at_most=100, public=True
    )
    tolerance: int = parameter(
        3,
        doc="A person whose keys fewer persons than this share in an area makes the household high-risk.",
        at_least=0,
        public=True,
    )
    carry_along: tuple[str, ...] = parameter(
        (),
        doc="Other columns that move with the geography (a grid cell, coordinates).",
        columns=True,
        public=True,
    )
    keys: tuple[str, ...] = parameter(
        (),
        doc="The variables that an intruder may know; by default the schema's keys.",
        columns="keys",
        public=True,
    )
    within: tuple[str, ...] = parameter(
        (), doc="Nothing crosses the strata of these columns.", columns=True, public=True
    )
    same_size: bool = parameter(
        True,
        doc="Whether partners have as many members, so that the persons of every area are as many.",
        public=True,
    )
    on_conflict: Literal["refuse", "tolerance", "rate"] = parameter(
        "refuse",
        doc="What to do if the high-risk households exceed the rate: refuse, swap them all (tolerance), "
        "or swap the riskiest only (rate).",
        public=True,
    )

    # -- what it works on -------------------------------------------------------------------------

    def _levels(self, schema: Schema) -> tuple[str, ...]:
        return self.hierarchy or tuple(g for g in schema.geography if g not in self.within)

    def _keys(self, schema: Schema) -> tuple[str, ...]:
        return tuple(k for k in self.keys or schema.keys if k not in self._levels(schema))

    def profiles(self) -> list[tuple[str, ...]]:
        """The similarity profiles, strict to loose (a single empty one where none are given)."""
        if not self.similar:
            return [()]
        if isinstance(self.similar[0], str):
            return [tuple(str(c) for c in self.similar)]
        return [tuple(p) for p in self.similar]

    def _check(self) -> Sequence[Fault]:
        out: list[Fault] = []
        for column in self.hierarchy:
            for name, others in (("within", self.within), ("carry_along", self.carry_along)):
                if column in others:
                    out.append(
                        (
                            f"{column} is in `hierarchy` and in `{name}`",
                            "take it out of one of them",
                            "hierarchy",
                        )
                    )
        moved = {*self.hierarchy, *self.carry_along}
        both = [c for profile in self.profiles() for c in profile if c in moved]
        if both:
            out.append((f"{both[0]} can't be both similar and swapped", None))
        return out

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        levels = self._levels(schema)
        if not levels:
            out.append(
                Problem(
                    0, "there is no geography to swap", "name the levels with `hierarchy`, coarse to fine"
                )
            )
        known = [g for g in schema.geography if g in levels]
        if known and known != [g for g in levels if g in schema.geography]:
            out.append(
                Problem(
                    0,
                    "`hierarchy` isn't in the order of the geography",
                    f"coarse to fine: {', '.join(known)}",
                    parameter="hierarchy",
                )
            )
        behind = [g for g in schema.geography if g not in levels and g not in self.carry_along]
        if known and behind:
            finer = schema.geography.index(behind[-1]) > schema.geography.index(known[0])
            if finer or behind[-1] not in self.within:
                hint = f"add {behind[-1]!r} to `hierarchy`" + ("" if finer else ", or to `within`")
                out.append(
                    Problem(0, f"{behind[-1]} stays while {known[0]} is swapped: they must agree", hint)
                )
        if not self._keys(schema) and self.tolerance > 1:
            why = "without keys nobody counts as high-risk: only the rate decides"
            out.append(Problem(0, why, "name them with `keys`, or give the schema keys", "warning"))
        return out

    def needs(self, data: Microdata) -> Sequence[str]:
        schema = data.schema
        house = self.household or schema.household
        used = [*self._levels(schema), *self._keys(schema), *([house] if house else [])]
        return tuple(dict.fromkeys([*self.named_columns(), *used]))

    @property
    def locality(self) -> Locality:
        return "keys"

    def by_household(self, schema: Schema) -> bool:
        return True

    def changes(self, data: Microdata) -> Sequence[str]:
        return (*self._levels(data.schema), *self.carry_along)

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        house = self.household or data.schema.household
        areas = (*self.within, *self._levels(data.schema))
        if house is not None and not self.same_size:
            # Areas may then gain or lose persons; only where each record is a household does it hold.
            return []
        profiles = self.profiles()
        common = tuple(c for c in profiles[0] if all(c in p for p in profiles) and c not in areas)
        return [SameTable((*areas, *self.carry_along)), *([SameTable((*areas, *common))] if common else [])]

    # -- what it does -----------------------------------------------------------------------------

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        schema = data.schema
        levels = self._levels(schema)
        homes = _classes.units(data, self.household or schema.household)
        own = dict.fromkeys(
            [*self.within, *levels, *self.carry_along, *(c for p in self.profiles() for c in p)]
        )
        _classes.check_same_in_unit(data, homes, list(own), self.name)
        for text in nesting_warnings(data, levels):
            notes.warn(text)
        by_record = area_levels(data, levels)
        areas = [code[homes.first] for code, _ in by_record]
        movable = ~_classes.missing_any(data, [*levels, *self.carry_along])[homes.first]
        risk, counts = self._risk(data, homes, by_record)
        job = _Job(areas, movable, self._buckets(data, homes), draws)
        n = len(homes)
        budget = round(self.rate_percent * n / 100)
        risky = risk < len(levels)
        self._note_risk(risk, risky, levels, n, budget, notes)
        for level in range(len(levels)):
            job.swap(np.flatnonzero((risk == level) & movable), level, f"risk {level}", risky)
        self._settle_conflict(job, risky, counts, budget, n, notes)
        self._fill(job, counts, budget, draws)
        self._report(data, homes, job, risky, budget, notes)
        partner = np.where(job.partner >= 0, job.partner, np.arange(n))
        source = np.arange(len(data))
        moved = job.partner[homes.of] >= 0
        source[moved] = homes.first[partner[homes.of[moved]]]
        rows = pl.Series(source.astype(np.uint64))
        return data.with_columns({c: data.column(c).gather(rows) for c in self.changes(data)})

    def _risk(
        self, data: Microdata, homes: _classes.Units, areas: list[tuple[IntArray, int]]
    ) -> tuple[IntArray, FloatArray]:
        """Each household's coarsest level of high risk, and its members' smallest count at the finest."""
        n, keys = len(homes), self._keys(data.schema)
        if not keys:
            return np.full(n, len(areas), np.int64), np.ones(n)
        strata, key = _classes.classes(data, self.within), _classes.classes(data, keys)
        finest, k = joint([strata, key, areas[-1]], len(data))
        size = np.bincount(finest, minlength=k)
        first = np.empty(k, np.int64)
        first[finest] = np.arange(len(data))
        risk = np.full(len(data), len(areas), np.int64)
        for level in range(len(areas) - 1, -1, -1):
            # Counts at a coarser level are sums over the classes of the finest one.
            parts = [(code[first], width) for code, width in (strata, key, areas[level])]
            group, m = joint(parts, k)
            small = (np.bincount(group, weights=size, minlength=m) < self.tolerance)[group]
            risk[small[finest]] = level
        smallest = size[finest].astype(np.float64)
        if homes.single:
            return risk, smallest
        of_home, least = np.full(n, len(areas), np.int64), np.full(n, np.inf)
        np.minimum.at(of_home, homes.of, risk)
        np.minimum.at(least, homes.of, smallest)
        return of_home, least

    def _buckets(self, data: Microdata, homes: _classes.Units) -> list[tuple[IntArray, int]]:
        """The households that may be partners, by profile."""
        out = []
        for profile in self.profiles():
            parts = [_classes.digits(data, c) for c in (*self.within, *profile)]
            parts = [(code[homes.first], width) for code, width in parts]
            if self.same_size and not homes.single:
                parts.append((homes.size, int(homes.size.max()) + 1))
            out.append(joint(parts, len(homes)))
        return out

    def _note_risk(
        self, risk: IntArray, risky: BoolArray, levels: Sequence[str], n: int, budget: int, notes: Notes
    ) -> None:
        notes.figure("households", n)
        for level, name in enumerate(levels):
            notes.figure("high_risk", int((risk == level).sum()), name)
        notes.figure("high_risk_households", int(risky.sum()))
        notes.figure("households_allowed_by_rate", budget)

    def _settle_conflict(
        self, job: _Job, risky: BoolArray, counts: FloatArray, budget: int, n: int, notes: Notes
    ) -> None:
        """Where the tolerance needs more swaps than the rate allows: refuse, or decide as told."""
        used = int((job.partner >= 0).sum())
        if used <= budget:
            return
        both = (
            f"the tolerance of {self.tolerance} needs {used:,} households ({100 * used / n:.2f}%) swapped, "
        )
        both += f"but the rate of {self.rate_percent:g}% allows {budget:,}"
        if self.on_conflict == "refuse":
            raise MaskError(
                f"{self.name}: {both}",
                hint=f"set rate_percent to {np.ceil(10000 * used / n) / 100:g} or more, lower the tolerance, "
                'recode the keys, or choose with on_conflict = "tolerance" or "rate"',
            )
        if self.on_conflict == "tolerance":
            notes.warn(f"{both}; as told, all high-risk households are swapped")
            return
        # The riskiest first: those at the coarsest level were paired first, then by the smallest count.
        pairs = np.flatnonzero((job.partner >= 0) & (np.arange(n) < job.partner))
        other = job.partner[pairs]
        rank = np.minimum(job.round[pairs], job.round[other]).astype(np.float64) * (n + 1)
        rank += np.minimum(counts[pairs], counts[other])
        drop = pairs[np.argsort(rank, kind="stable")[budget // 2 :]]
        drop = np.r_[drop, job.partner[drop]]
        job.partner[drop] = job.profile[drop] = -1
        left = int((risky & (job.partner < 0)).sum())
        notes.warn(f"{both}; as told, only the riskiest are swapped, and {left:,} high-risk households stay")

    def _fill(self, job: _Job, counts: FloatArray, budget: int, draws: Draws) -> None:
        """Draw others, the riskier the likelier, until the rate is reached or nobody is left."""
        free = np.flatnonzero((job.partner < 0) & job.movable & ~job.tried)
        room = budget - int((job.partner >= 0).sum())
        if room < 2 or not len(free):
            return
        # Weighted sampling without replacement: the largest of u^(1/weight), weight = 1/count.
        u = draws.stream(purpose="others").uniform(0, len(counts))[free]
        queue = free[np.argsort(-np.log(u) * counts[free], kind="stable")]
        at = 0
        while room >= 2 and at < len(queue):
            batch = queue[at : at + room // 2]
            at += len(batch)
            job.swap(batch[job.partner[batch] < 0], len(job.areas) - 1, f"rate {at}")
            room = budget - int((job.partner >= 0).sum())

    def _report(
        self, data: Microdata, homes: _classes.Units, job: _Job, risky: BoolArray, budget: int, notes: Notes
    ) -> None:
        n, swapped = len(homes), int((job.partner >= 0).sum())
        alone = np.flatnonzero(risky & (job.partner < 0))
        notes.figure("households_swapped", swapped)
        notes.figure("swapped_percent", 100 * swapped / n if n else 0.0)
        notes.figure("high_risk_swapped", int((risky & (job.partner >= 0)).sum()))
        notes.figure("high_risk_left", len(alone))
        for number in range(len(job.buckets)):
            notes.figure("households_by_profile", int((job.profile == number).sum()), str(number + 1))
        if len(alone) and self.on_conflict != "rate":
            notes.warn(
                f"{len(alone):,} high-risk households found no partner on any profile and stay; they are "
                "named in the internal log: add a looser profile, or recode the keys"
            )
        if swapped < budget - 1:
            notes.warn(
                f"{100 * swapped / n:.2f}% of the households were swapped instead of {self.rate_percent:g}%: "
                "no more partners agree on a profile"
            )
        rows = np.flatnonzero(job.partner >= 0)
        log = {
            "household": homes.names(data, rows).cast(pl.String),
            "record": homes.first[rows],
            "partner": homes.names(data, job.partner[rows]).cast(pl.String),
            "high_risk": risky[rows],
            "profile": job.profile[rows] + 1,
            "what": ["swapped"] * len(rows),
        }
        notes.add_log(pl.DataFrame(log))
        if len(alone):
            left = {"household": homes.names(data, alone).cast(pl.String), "record": homes.first[alone]}
            notes.add_log(
                pl.DataFrame({**left, "high_risk": [True] * len(alone), "what": ["unmatched"] * len(alone)})
            )


class _Job:
    """The partners found so far."""

    def __init__(
        self, areas: list[IntArray], movable: BoolArray, buckets: list[tuple[IntArray, int]], draws: Draws
    ) -> None:
        n = len(movable)
        self.areas, self.movable, self.buckets, self.draws = areas, movable, buckets, draws
        self.partner = np.full(n, -1, np.int64)
        self.profile = np.full(n, -1, np.int64)
        self.round = np.full(n, np.iinfo(np.int64).max // (4 * (n + 1)), np.int64)
        self.tried = np.zeros(n, np.bool_)
        self.near: dict[tuple[int, int], tuple[IntArray, int]] = {}

    def swap(self, seekers: IntArray, level: int, purpose: str, first: BoolArray | None = None) -> None:
        """Find partners in another area of a level: each profile in turn, near, then anywhere.

        Partners are looked for among ``first`` before they are among all.
        """
        self.tried[seekers] = True
        left = seekers[self.partner[seekers] < 0]
        for number, (bucket, n_buckets) in enumerate(self.buckets):
            for near in (True, False) if level > 0 else (False,):
                if not len(left):
                    return
                before = left
                pool, k = bucket, n_buckets
                if near:
                    pool, k = self._near(number, level)
                rng = self.draws.stream(purpose=f"{purpose}, profile {number}, near {near}").generator()
                # High-risk households help each other first: that needs the fewest swaps.
                for free in (self.movable & first, self.movable) if first is not None else (self.movable,):
                    left = find_partners(left, pool, k, self.areas[level], free, self.partner, rng)
                got = before[self.partner[before] >= 0]
                both = np.r_[got, self.partner[got]]
                new = both[self.profile[both] < 0]
                self.profile[new] = number
                self.round[new] = level

    def _near(self, number: int, level: int) -> tuple[IntArray, int]:
        """A profile's buckets within the areas of the next coarser level."""
        if (number, level) not in self.near:
            area = self.areas[level - 1]
            parts = [self.buckets[number], (area, int(area.max()) + 1)]
            self.near[number, level] = joint(parts, len(area))
        return self.near[number, level]
