"""For whom a file is made: the limits that a public and a research file must meet, and where each comes from.

>>> PUBLIC.rate, RESEARCH.rate
(0.05, 0.1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from sfumato.errors import ParameterError, did_you_mean
from sfumato.plan.parts import Limit

BATTERY: Final = "battery"
"""What limits on the whole battery of attacks are named after: ``battery.rate = { at_most = 0.05 }``."""

FIGURES: Final[Mapping[str, str]] = {
    "rate": "the share of the persons that the strongest attack of the battery finds",
    "gain": "what the release tells of a person's values beyond what it tells of people",
    "group": "the least number of records among whom a person's values were dealt, or who share all keys",
    "area": "the persons for whom the smallest released area stands, by the weights",
}


@dataclass(frozen=True)
class Audience:
    """Limits, the intruder they are meant for, and the source of each."""

    name: str
    group: int
    """The least group: records that share all keys, or among whom everything was dealt."""
    rate: float
    """The strongest link rate."""
    gain: float
    """The largest attribute gain."""
    area: int | None
    """Persons in the smallest geographic area, where the population is known."""
    scenario: str
    numbers_known: int | None
    """How many of the numbers the intruder knows; None: all."""
    sources: Mapping[str, str] = field(default_factory=dict)

    def limits(self, *, areas: bool = False) -> tuple[Limit, ...]:
        """These limits, as a plan writes them; that on ``areas`` where the file can tell their people."""
        out = (
            Limit(BATTERY, "rate", at_most=self.rate),
            Limit(BATTERY, "gain", at_most=self.gain),
            Limit(BATTERY, "group", at_least=self.group),
        )
        return (*out, Limit(BATTERY, "area", at_least=self.area)) if areas and self.area else out

    def with_limits(self, *, rate: float | None = None, group: int | None = None) -> Audience:
        """The same with stricter or laxer numbers of one's own, which are then the source."""
        out = self
        if rate is not None:
            if not 0 < rate < 1:
                raise ParameterError(f"the largest risk must be between 0 and 1, not {rate:g}")
            out = replace(out, rate=rate, sources={**out.sources, "rate": "set by you"})
        if group is not None:
            if group < 2:
                raise ParameterError(f"k must be at least 2, not {group}")
            out = replace(out, group=group, sources={**out.sources, "group": "set by you"})
        return out


_OURS: Final = "ours: no published rule gives a number"

PUBLIC: Final = Audience(
    "public",
    group=10,
    rate=0.05,
    gain=0.10,
    area=200_000,
    scenario=(
        "anybody, for instance a neighbour, a colleague or a company with customer data, who knows every key "
        "and every number of a person exactly, and that the person is in the file"
    ),
    numbers_known=None,
    sources={
        "group": "11 for US public files, 20 for some Canadian and US ones, 3 for open humanitarian data "
        "(El Emam 2013, Guide to the De-Identification of Personal Health Information; Centre for "
        "Humanitarian Data); 10 is ours among them",
        "rate": "0.04 to 0.05, the Canadian hospital discharge public file (El Emam et al. 2011)",
        "gain": _OURS,
        "area": "200,000 persons, public files of Statistics Netherlands; 20,000 for three-digit zip codes, "
        "HIPAA",
    },
)
RESEARCH: Final = Audience(
    "research",
    group=3,
    rate=0.10,
    gain=0.25,
    area=None,
    scenario=(
        "a researcher under contract who comes upon somebody he knows: every key and three of the numbers, "
        "and that the person is in the file"
    ),
    numbers_known=3,
    sources={
        "group": "3 and 5 for trusted users (El Emam 2013)",
        "rate": "0.09, EMA policy 0070 and Health Canada, rounded",
        "gain": _OURS,
    },
)
AUDIENCES: Final = {a.name: a for a in (PUBLIC, RESEARCH)}


def audience(name: str | Audience) -> Audience:
    """The audience of this name."""
    if isinstance(name, Audience):
        return name
    if name not in AUDIENCES:
        raise ParameterError(f"there are no limits for {name!r}", hint=did_you_mean(str(name), AUDIENCES))
    return AUDIENCES[name]
