"""Cluster shuffle: each column's values dealt out anew among records that are alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import polars as pl

from sfumato.contract.disclosure import Fact, Grouped
from sfumato.contract.guarantees import Guarantee
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import Fault, parameter
from sfumato.data.edit_check import edits_of
from sfumato.data.following import following
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import InputError, MaskError, Problem
from sfumato.masks.cluster_shuffle.register import logs_in, overlap
from sfumato.stats.partition import coded_columns
from sfumato.stats.relations import relations

_OFFERED: Final = 10


@dataclass(frozen=True, kw_only=True)
class ClusterShuffle(Mask):
    """Deal each column's values out anew among records that are alike.

    1. *Clusters* of k (``smallest``) or more records that are alike, within strata. They depend on the
       values alone, and never look at ``blind`` columns (the sensitive ones, unless told otherwise).
    2. *Blur*: a number that fewer than ``blur`` records hold becomes the mean of neighbours.
    3. *Deal*: in each cluster every column's values are put in the order of normal draws that share the
       pooled within-cluster correlation R of normal scores.
    4. *Repair* (``keep``): two values of one column and one cluster change places as long as
       Σ (m′ − m)² falls, with m the mean products of two columns' features in the original and m′ those
       dealt. Features are value and normal score (``moments``), four cuts of the ranks more (``pairs``),
       being 0, missing, or at a category's level.
    5. The rows of a cluster are put in random order; totals are added up again.

    The release depends on the data only through T = (each cluster's values of each column; R; the kept
    moments), and T doesn't change when records of a cluster change places. What that promises, in words
    that are strictly true: records are grouped, at least k to a group, and exchanging whole records
    within a group doesn't change the release; an intruder who knows everything but the seed finds the
    row of a person with probability 1/(size of the group). For columns that the groups don't look at,
    and with ``keep = "none"``, the release shows which values occur in a group, not who holds which. It
    doesn't hide that a person or a value is in the file, values that a group shares, or anything from
    somebody who compares two releases.

    Reference: Soria-Comas, J., Domingo-Ferrer, J. (2012). Probabilistic k-anonymity through microaggregation
    and data swapping. FUZZ-IEEE, 1-8 (swapping within clusters); Muralidhar, K., Sarathy, R. (2006). Data
    shuffling. Management Science 52, 658-670 (dealing by ranks of correlated draws).

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [30, 31, 60, 61], "WAGE": [10, 20, 80, 90]}))
    >>> masked = sf.ClusterShuffle(columns=["AGE", "WAGE"], smallest=2, blur=0).mask(data, seed=1)
    >>> sorted(masked.frame["AGE"][:2]), sorted(masked.frame["WAGE"][2:])
    ([30, 31], [80, 90])
    """

    name: ClassVar[str] = "cluster_shuffle"
    reference: ClassVar[str] = "Soria-Comas, Domingo-Ferrer (2012); Muralidhar, Sarathy (2006)"
    moves_missing: ClassVar[bool] = True
    needs_shuffle: ClassVar[bool] = True

    columns: tuple[str, ...] = parameter(
        doc="The columns to shuffle, keys included.", columns=True, public=True
    )
    smallest: int = parameter(20, doc="k: how many records a cluster has at least.", at_least=2, public=True)
    keep: Literal["moments", "pairs", "none"] = parameter(
        "moments", doc="What a repair brings back: cross moments, those of cuts too, or nothing.", public=True
    )
    blind: tuple[str, ...] | None = parameter(
        None,
        doc="Columns that clusters don't look at; the sensitive ones where left out, [] for none.",
        columns=True,
        public=True,
    )
    within: tuple[str, ...] = parameter(
        (), doc="Nothing crosses the strata of these columns.", columns=True, public=True
    )
    unit: str | None = parameter(
        None,
        doc="The column that says whose records belong together; no unit has more than 1/k of a cluster.",
        columns=True,
        public=True,
    )
    blur: int = parameter(
        3,
        doc="A number held by fewer records becomes a mean of neighbours; 0 leaves all.",
        at_least=0,
        public=True,
    )
    spread: int = parameter(
        1,
        doc="How many different values a cluster has at least in each sensitive column.",
        at_least=1,
        public=True,
    )
    span_percent: float = parameter(
        0,
        doc="How many percent of a sensitive number's ranks a cluster's values span at least.",
        at_least=0,
        below=100,
        public=True,
    )
    sum_rule: Literal["residual", "rebuild"] = parameter(
        "residual",
        doc="What a total has beyond its parts is dealt like a part, or left away: the total is their sum.",
        public=True,
    )
    certain_percent: float = parameter(
        10,
        doc="How many percent of those with an unusual value of a sensitive column may share it with their "
        "whole cluster; above it the run is refused.",
        at_least=0,
        at_most=100,
        public=True,
    )

    members: Literal["together", "apart"] = parameter(
        "together",
        doc="Whether a household is dealt whole, in blocks; apart only where the release drops its number.",
        public=True,
    )
    age: str | None = parameter(
        None, doc="The members' ages, where `unit` is the household; by its name.", columns=True, public=True
    )
    sex: str | None = parameter(
        None, doc="The members' sexes, where `unit` is the household; by its name.", columns=True, public=True
    )
    relation: str | None = parameter(
        None,
        doc="What members are to the reference person; by its name, else guessed from ages and sexes.",
        columns=True,
        public=True,
    )
    adult_age: int = parameter(
        16, doc="From this age on, a member of a household counts as an adult.", at_least=1, public=True
    )
    rare_shapes: Literal["refuse", "accept"] = parameter(
        "refuse",
        doc="What to do where fewer than three households have a shape (partner, numbers of others).",
        public=True,
    )

    earlier: tuple[str, ...] = parameter(
        (), doc="Folders of earlier releases of the same people, which this one must not undo.", file=True
    )
    again: bool = parameter(
        False, doc="Whether to release the same people again though both releases together say more."
    )

    # -- what it says of itself -------------------------------------------------------------------

    def _check(self) -> Sequence[Fault]:
        if not self.columns:
            return [("`columns` must name at least one column", None, "columns")]
        out: list[Fault] = []
        twice = sorted({c for c in self.columns if self.columns.count(c) > 1})
        out += [(f"`columns` names {c} twice", None, "columns") for c in twice]
        out += [
            (f"{c} can't be shuffled within itself", "take it out of `within`", "within")
            for c in self.columns
            if c in self.within
        ]
        if self.unit in self.columns:
            out.append(
                (f"{self.unit} says whose records belong together", "take it out of `columns`", "unit")
            )
        if self.blur == 1:
            out.append(("`blur` is 0 (none) or at least 2", None, "blur"))
        return out

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        if out:
            return out
        told = following(schema, self.columns)
        changed = set(told.changed)
        for name in (schema.id, schema.household):
            if name in changed:
                out.append(Problem(0, f"{name} names people or households, and can't be shuffled"))
        known = dict.fromkeys([*schema.keys, *schema.geography])
        unhidden = [c for c in known if c not in changed and c not in self.within]
        if unhidden:
            message = f"{', '.join(unhidden)} stays where it is, so whoever knows it finds the row"
            out.append(Problem(0, message, "name it in `columns` or in `within`", "warning"))
        if schema.weight is not None and schema.weight not in changed and schema.weight not in self.within:
            message = f"the weight {schema.weight} stays where it is, so whoever knows it finds the row"
            out.append(Problem(0, message, "name it in `columns` or in `within`", "warning"))
        dealt = set(told.dealt)
        if dealt and dealt <= set(self.blind_columns(schema)):
            message = "clusters look at no column, so that each stratum is one cluster"
            hint = "`blind = []` lets them look at all; name in `blind` what they must not see"
            out.append(Problem(0, message, hint, "warning"))
        return out

    def foresees(self, data: Microdata) -> list[Problem]:
        told = following(data.schema, self.columns)
        tied = [frozenset(rule.members) for rule in told.rules]
        tied += [frozenset(e.columns) for e in edits_of(data.schema)]
        return [
            Problem(0, f"{one}, which isn't declared: it will hold less often", one.hint, "warning")
            for one in relations(data, told.dealt, tied)[:_OFFERED]
        ]

    def by_household(self, schema: Schema) -> bool:
        """Whether households are dealt whole, in blocks: where the unit is the schema's household."""
        return self.unit is not None and self.unit == schema.household and self.members == "together"

    def blind_columns(self, schema: Schema) -> tuple[str, ...]:
        """The columns that clusters don't look at."""
        return schema.sensitive if self.blind is None else self.blind

    def changes(self, data: Microdata) -> Sequence[str]:
        return following(data.schema, self.columns).changed

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        told = following(data.schema, self.columns)
        return (
            Grouped(
                columns=told.dealt,
                within=self.within,
                smallest=self.smallest,
                deals=True,
                blind=tuple(c for c in self.blind_columns(data.schema) if c in told.dealt),
                blur=self.blur,
                unit=self.unit,
                spread=self.spread,
                span_percent=self.span_percent,
                whole=self.by_household(data.schema),
                again=self.again,
            ),
        )

    def own_list(self, data: Microdata) -> Microdata:
        """The list with rare numbers averaged, as they are in the release."""
        told = following(data.schema, [c for c in self.columns if c in data.columns])
        if (
            self.blur < 2
            or self.by_household(data.schema)
            or any(c not in data.columns for c in told.changed)
        ):
            return data
        new = {
            c.name: c.values[c.name].gather(pl.Series(c.codes.astype("uint32")))
            for c in coded_columns(data, told, self.blur)
        }
        return data.with_columns(new)

    def logged(self, data: Microdata, log: pl.DataFrame) -> Sequence[Guarantee]:
        from sfumato.masks.cluster_shuffle.household_promises import household_promises
        from sfumato.masks.cluster_shuffle.promises import promises

        made = household_promises if self.by_household(data.schema) else promises
        return made(self, data, log)

    def clashes(self, log: pl.DataFrame, earlier: pl.DataFrame) -> str | None:
        found = overlap(log, earlier)
        return str(found) if found.harms(self.smallest) and not self.again else None

    # -- what it does -----------------------------------------------------------------------------

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        from sfumato.masks.cluster_shuffle.household import shuffled_households
        from sfumato.masks.cluster_shuffle.shuffle import shuffled

        if 2 * self.smallest > len(data):
            raise MaskError(
                f"cluster_shuffle: clusters of {self.smallest} need at least {2 * self.smallest:,} records, "
                f"and the file has {len(data):,}",
                hint="lower `smallest`, or release nothing of so small a file",
            )
        try:
            work = shuffled_households if self.by_household(data.schema) else shuffled
            masked = work(self, data, draws, notes)
            self._look_back(notes)
        except InputError as problem:
            raise MaskError(f"cluster_shuffle: {problem.message}", hint=problem.hint) from None
        return masked

    def _look_back(self, notes: Notes) -> None:
        """What this release and the earlier ones say together, if there are any."""
        for place in self.earlier:
            for log in logs_in(self.file(place)):
                assert notes.log is not None
                found = overlap(notes.log, log)
                notes.figure("with_earlier", dataclasses.asdict(found), place)
                if found.harms(self.smallest):
                    if not self.again:
                        raise MaskError(
                            f"cluster_shuffle: {found}",
                            hint="release the same records in the same clusters, or ask for it: again = true",
                        )
                    notes.warn(str(found))
