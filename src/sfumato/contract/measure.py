"""Measures: they look at an original and a masked file and return a :class:`Result`.

Risk measures and attacks live in ``risk/``, utility measures in ``utility/``; both are this.

>>> import sfumato as sf
>>> loss = sf.measure(original, masked, sf.InformationLoss(columns=["INCOME"]))   # doctest: +SKIP
>>> loss[0].s0, loss["information_loss"].s0                                       # doctest: +SKIP
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.cells.generalise.models import Model
from sfumato.contract.context import Told
from sfumato.contract.known import default_known
from sfumato.contract.mask import Mask
from sfumato.contract.own_list import own_list
from sfumato.contract.parameters import flat_names
from sfumato.contract.per_record import household_figures
from sfumato.contract.result import Result, Results
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.data.schema import Schema
from sfumato.data.usable import computing, refuse_unusable
from sfumato.draws import Draws, Seed, as_seed
from sfumato.errors import MeasureError, ParameterError, Problem, suggesting


@dataclass(frozen=True, kw_only=True)
class Measure(Told):
    """The base of every measure. Direction and bounds are data, not prose."""

    direction: ClassVar[Literal["lower", "higher"]] = "lower"
    """Whether lower or higher values are better for those who use this measure."""
    bounds: ClassVar[tuple[float, float]] = (float("-inf"), float("inf"))
    side: ClassVar[Literal["risk", "utility"]] = "utility"
    files: ClassVar[Literal["both", "one"]] = "both"
    """"one": only one file is looked at (the masked one, or the only one given)."""
    reference: ClassVar[str] = ""
    public_figures: ClassVar[tuple[str, ...]] = ()
    """The figures that may be published beside the value: they name no record, area or parameter."""

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        """What is wrong with this measure, from the schema and the column types alone."""
        return self.check_columns(types)

    def before(self, original: Microdata, masked: Microdata) -> tuple[float, str] | None:
        """The figure before masking and what it is; None where nothing sensible can be said cheaply."""
        return None

    # -- over the runs of an experiment ---------------------------------------------------------------

    def prepared(self, original: Microdata) -> Measure:
        """This measure with what the original alone gives kept, for many masked files of it."""
        return self

    def figures(self, original: Microdata, masked: Microdata) -> list[tuple[str, float]]:
        """The numbers that an experiment keeps of a run, by name."""
        result = self.measure(original, masked)
        return numbers({"value": result.value, **result.figures})

    def table_of_runs(self, name: str, frame: pl.DataFrame) -> pl.DataFrame | None:
        """A table of an experiment's runs from its frame, for measures that have one."""
        return None

    @abstractmethod
    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        """The measure itself. Record i of one file is record i of the other. A measure of one file
        gets that file twice."""

    def _completed(self, result: Result, masked: Microdata) -> Result:
        """What is added to every result of a kind."""
        return result

    def measure(
        self,
        original: Any,
        masked: Any = None,
        *,
        seed: Seed | int | None = 0,
        steps: Sequence[Mask] = (),
    ) -> Result:
        """The result on an original and a masked file (or on one, where one is enough).

        ``steps`` are those that made the masked file, where they are known: attacks recode the
        intruder's own list by them.
        """
        first = as_microdata(original)
        second = first if masked is None else as_microdata(masked)
        if masked is None and self.files == "both":
            raise MeasureError(
                f"{self.name} compares two files",
                hint=f"sf.measure(original, masked, {type(self).__name__}(…))",
            )
        if self.files == "one":
            first = second
        for data, which in ((first, "original"), (second, "masked")):
            problems = [p for p in self.check(data.schema, data._types) if p.severity == "error"]
            if problems:
                where = "" if first is second else f" (in the {which} file)"
                raise MeasureError(
                    "; ".join(f"{self.name}{where}: {p.message}" for p in problems),
                    hint="; ".join(dict.fromkeys(p.hint for p in problems if p.hint)) or None,
                )
        named = list(self.named_columns())
        for data in (first, second):
            refuse_unusable(data, named, MeasureError, self.name)
        with computing(second, named or second.columns, MeasureError, self.name):
            result = self._measure(first, second, as_seed(seed).draws(f"measure {self.id or self.name}"))
            result = self._completed(result, second)
        return dataclasses.replace(
            result,
            name=self.id or self.name,
            measure=self.name,
            direction=self.direction,
            bounds=self.bounds,
        )


def numbers(figures: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Those figures that are numbers."""
    return [
        (name, float(value))
        for name, value in figures.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]


@dataclass(frozen=True, kw_only=True)
class RiskMeasure(Measure):
    """A measure of how much an intruder can learn: lower is safer."""

    side: ClassVar[Literal["risk", "utility"]] = "risk"
    direction: ClassVar[Literal["lower", "higher"]] = "lower"
    assumes: ClassVar[str] = ""
    """What it takes the file and the intruder to be, in a sentence: sample or population, what is known."""
    setting: ClassVar[Literal["file", "population", "attribute", "values"]] = "file"
    """What it counts in: the file itself (the person is known to be in it); the population behind it; the
    sensitive values of those who share their keys; masked numbers."""
    per_record: ClassVar[str] = ""
    """The confidential figure that holds every record's risk (0 to 1) or flag, where there is one."""

    @classmethod
    def usual(cls, schema: Schema) -> Sequence[RiskMeasure]:
        """The instances worth showing of any file with such roles (``sfumato risk`` asks every class)."""
        return ()

    def as_condition(self, data: Microdata) -> Model | None:
        """The condition on groups of records with the same keys whose violations ``value`` counts, so that
        a recode can be searched for that meets it; None where there is no such condition."""
        return None

    def _completed(self, result: Result, masked: Microdata) -> Result:
        """Every measure that looks at single records also says what it means for their households."""
        household = masked.schema.household
        if not self.per_record or household is None or self.per_record not in result.confidential:
            return result
        found = household_figures(
            np.asarray(result.confidential[self.per_record], np.float64), masked, household
        )
        return dataclasses.replace(result, figures={**result.figures, **found})

    def before(self, original: Microdata, masked: Microdata) -> tuple[float, str] | None:
        if self.files == "one":
            return self.measure(original).value, "the same measure of the file as collected"
        return None


FOUND = "found"
"""What an attack on everybody keeps of each record of the original: how likely it was rightly linked."""


@dataclass(frozen=True, kw_only=True)
class Attack(RiskMeasure):
    """An intruder who has some original values and looks for the persons in the masked file.

    ``value`` is the rate of right re-identifications among all records attacked; the result also
    has ``rate`` (the same), ``correct`` (their number), ``baseline`` (the rate by chance) and an
    interval, and says in its notes what the intruder was assumed to know. His own list is first
    made comparable with the release (``contract.own_list``).

    Two class methods say where an attack belongs; the battery asks every attack that is registered,
    so that a package with a mask of its own brings the attack on it.
    """

    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    public_figures: ClassVar[tuple[str, ...]] = ("rate", "baseline")

    def knows(self, original: Microdata, masked: Microdata) -> list[str]:
        """The columns that the intruder has: those named, else the default of all attacks."""
        named = flat_names(getattr(self, "known", ()) or getattr(self, "columns", ()) or ())
        blocks = flat_names(getattr(self, "block_on", ()) or ())
        return list(dict.fromkeys([*blocks, *(named or default_known(original, masked))]))

    def before(self, original: Microdata, masked: Microdata) -> tuple[float, str] | None:
        """The attack on an exact copy: a record is found up to those identical in what he knows, so the
        share found is the number of different combinations ÷ records. One pass; running each attack
        again would double the time of a run."""
        there = [c for c in self.knows(original, masked) if c in original.columns]
        if not there or not len(original):
            return None
        classes = original.select(there).hash_rows(seed=1).n_unique()
        return classes / len(original), (
            "the share that is found in an exact copy of the file: different combinations of these "
            "columns ÷ records"
        )

    finds: ClassVar[Literal["records", "targets", "values", "members"]] = "records"
    """What the rate counts: persons found among all records, or among some targets; values learnt; who
    is in the file. Only rates of one kind can be compared."""
    compares_all: ClassVar[bool] = True
    """Whether it compares every pair within a block, so that blocks too large are a reason to leave it."""
    masks_again: ClassVar[bool] = False
    """Whether it masks a part of the original by the steps, to compare with people who were held back."""

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        """The instances worth trying on these files, whatever was done to them."""
        return ()

    @classmethod
    def against(cls, step: Mask, data: Microdata, intruder: Intruder) -> Sequence[Attack]:
        """The instances of somebody who knows this step: by what it discloses on the data it was given."""
        return ()

    def measure(
        self,
        original: Any,
        masked: Any = None,
        *,
        seed: Seed | int | None = 0,
        steps: Sequence[Mask] = (),
    ) -> Result:
        """The result on an original and a masked file; the original is recoded as the release is."""
        if original is not None and masked is not None:
            first, second = as_microdata(original), as_microdata(masked)
            for data in (first, second):
                refuse_unusable(data, list(self.named_columns()), MeasureError, self.name)
            with computing(second, list(self.named_columns()) or second.columns, MeasureError, self.name):
                original, masked = own_list(first, second, steps), second
            return _of_households(super().measure(original, masked, seed=seed), first)
        return super().measure(original, masked, seed=seed)


def _of_households(result: Result, original: Microdata) -> Result:
    """An attack's result with what it means for households: one is found if a member is."""
    household, found = original.schema.household, result.confidential.get(FOUND)
    if household is None or household not in original.columns or found is None:
        return result
    if len(found) != len(original):  # an attack on households themselves, or on a part of the records
        return result
    figures = household_figures(np.asarray(found, np.float64), original, household)
    return dataclasses.replace(result, figures={**figures, **result.figures})


@dataclass(frozen=True, kw_only=True)
class Intruder:
    """What the intruder of a battery knows of everybody."""

    values: tuple[str, ...]
    """Columns that he compares: sensitive ones, and keys that a mask may have changed."""
    numbers: tuple[str, ...]
    """Those of the values that are compared as numbers."""
    block_on: tuple[str, ...] = ()
    """Columns that nothing changed: he looks only among records that agree on them."""
    share_known: float = 0.1
    """The share of true pairs that one who learns from them has."""


@dataclass(frozen=True, kw_only=True)
class UtilityMeasure(Measure):
    """A measure of how far an analysis of the masked file is from one of the original."""

    side: ClassVar[Literal["risk", "utility"]] = "utility"


@suggesting
def measure(original: Any, *rest: Any, seed: Seed | int | None = 0) -> Results:
    """``measure(original, masked, *measures)``; of one file, ``measure(data, *measures)``.

    The seed matters only to measures that draw (shuffled ties, permutations, subsets); it isn't a
    secret, and the same seed gives the same result.
    """
    if not rest:
        raise MeasureError("no measure was given", hint="sf.measure(original, masked, sf.InformationLoss())")
    masked: Any = None
    if not isinstance(rest[0], Measure):
        masked, *rest = rest  # type: ignore[assignment]
    for one in rest:
        if not isinstance(one, Measure):
            hint = f"write {one.__name__}()" if isinstance(one, type) else "pass measures after the two files"
            raise MeasureError(f"{one!r} isn't a measure", hint=hint)
    if not rest:
        raise MeasureError("no measure was given", hint="sf.measure(original, masked, sf.InformationLoss())")
    first = as_microdata(original)
    second = None if masked is None else as_microdata(masked)
    return Results(
        [one.measure(first, second, seed=seed) for one in rest],
        lambda: {} if second is None else before_of(rest, first, second),
    )


def before_of(
    measures: Sequence[Measure], original: Microdata, masked: Microdata
) -> dict[str, tuple[float, str]]:
    """By a measure's name: its figure before masking and what that is, where something can be said."""
    found = {one.id or one.name: one.before(original, masked) for one in measures}
    return {name: earlier for name, earlier in found.items() if earlier is not None}


_find: Callable[[str], type[Measure]] | None = None


def find_measures_by(find: Callable[[str], type[Measure]]) -> None:
    """Say how a measure is found by its name; the registry does, which stands above this room."""
    global _find
    _find = find


def measure_from(given: Any, place: str) -> Measure:
    """The measure that a parameter names: a measure, its name, or a table ``{ measure = "name", … }``.

    The table may also use the parameter's own word, ``attack = { attack = "linkage", … }``.
    """
    if isinstance(given, Measure):
        return given
    if isinstance(given, str):
        given = {"measure": given}
    if not isinstance(given, Mapping):
        raise ParameterError(f"`{place}` must be a measure, its name or a table, not {given!r}")
    words = [w for w in dict.fromkeys((place, "measure")) if w in given]
    if len(words) != 1 or not isinstance(given[words[0]], str):
        raise ParameterError(
            f"the table `{place}` must name its measure", hint=f'{place} = {{ {place} = "linkage", … }}'
        )
    if _find is None:
        raise ParameterError(
            f"`{place}` names {given[words[0]]!r}, and no measure can be found by its name yet",
            hint="import sfumato.registry first, or pass the measure itself",
        )
    return _find(given[words[0]]).from_dict({k: v for k, v in given.items() if k != words[0]})
