"""What a step gives away to somebody who knows the method and its parameters, but not the seed.

A mask says it (``Mask.discloses``), an attack understands it (``Attack.against``); neither knows the
other by name. A fact speaks of the file as the step left it, never of a record.

>>> from sfumato.contract.disclosure import Exchanged, of_kind
>>> import polars as pl, sfumato as sf
>>> data = sf.Microdata(pl.DataFrame({"INCOME": [10.0, 20.0, 30.0, 40.0]}))
>>> step = sf.RankSwap(columns=["INCOME"], window_percent=25)
>>> [fact.window_percent for fact in of_kind(Exchanged, step.discloses(data))]
[{'INCOME': 25.0}]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something that holds for these columns, in each stratum of ``within``."""

    columns: tuple[str, ...]
    within: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Kept(Fact):
    """A value stays as it was with some probability and is else another record's, or any other.

    ``keep`` has the probability of each column for which the method states one; the others' is to be
    learnt from the release.
    """

    keep: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Exchanged(Fact):
    """Each column's values changed places with others whose rank is near.

    ``window_percent``: how many percent of the ranks that may move a value moves at most;
    ``reach``: how far in value it moves at most, where the method bounds that as well. ``law`` names
    the distribution of the displacement: "uniform" is Moore's swap within the window, "geometric"
    has no bound and ``window_percent`` is the uniform window of the same mean square displacement.
    """

    window_percent: Mapping[str, float] = field(default_factory=dict)
    reach: Mapping[str, float] = field(default_factory=dict)
    law: str = "uniform"


@dataclass(frozen=True, kw_only=True)
class Travelled(Fact):
    """The columns' values moved as one string: every original string is still in the release."""


@dataclass(frozen=True, kw_only=True)
class NoiseAdded(Fact):
    """Noise with covariance d times the data's (or its diagonal: ``independent``) was added.

    ``form`` is "normal" or "mixture" (components of variance ``component_variance``, coloured by the
    ``root`` of the covariance); ``rescaled`` says that mean and covariance were brought back.
    """

    variance_ratio: float
    form: str = "normal"
    independent: bool = False
    rescaled: bool = False
    component_variance: float = 0.025
    root: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Grouped(Fact):
    """Records alike in these columns were put into groups of at least ``smallest``.

    ``deals`` says what happened inside a group: False where all took the group's mean, True where each
    column's values were dealt out anew among its records.
    """

    smallest: int
    deals: bool = False
    blind: tuple[str, ...] = ()
    """Columns that the groups don't look at."""
    blur: int = 0
    """Numbers of fewer records than this were averaged with their neighbours."""
    unit: str | None = None
    """Whose records stay together: no unit has more than 1/smallest of a group."""
    whole: bool = False
    """Whether the groups are of whole units, which were dealt in blocks."""
    spread: int = 1
    """How many different values of each sensitive column a group has at least."""
    span_percent: float = 0.0
    """How many percent of a sensitive number's ranks a group's values span at least."""
    again: bool = False
    """Whether the same people are released again, in other groups."""


F = TypeVar("F", bound=Fact)


def of_kind(kind: type[F], facts: Iterable[Fact]) -> list[F]:
    """Those of the facts that are of one kind."""
    return [fact for fact in facts if isinstance(fact, kind)]
