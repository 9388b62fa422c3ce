"""The census deck: synthetic households and persons, of any number, in nested geography.

Every draw has the household's number as its address, so a chunk is the same records whatever chunks
there are around it.

>>> one = households(1_000, start=5_000).frame
>>> one.equals(households(3_000, start=4_000).frame.slice(1_000, 1_000))
True
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.data.schema import Code, Schema, Variable
from sfumato.draws import Draws, Seed
from sfumato.errors import ParameterError, suggesting

GEOGRAPHY: Final = ("STATE", "COUNTY", "TRACT", "BLOCK")
RACES: Final = ("WHITE", "BLACK", "INDIAN", "ASIAN", "OTHER")
KEYS_1990: Final = (
    "STATE",
    *(f"N_{race}" for race in RACES),
    "N_HISPANIC",
    "N_NONHISPANIC",
    "N_OVER18",
    "N_FAMILIES",
    "TRAILER",
)
"""The eleven keys of the 1990 confidentiality edit (Moore 1996, section II), in the paper's order."""

_SLOTS: Final = 7  # the largest household
_TRACT: Final = 400  # households in a tract
_BLOCKS: Final = 30  # blocks in a tract, a few of them empty
_UNIT: Final = 5  # tracts that follow each other in one county
_UNITS: Final = 3  # such runs in a county: 6,000 households
_CYCLE: Final = 128  # runs after which the states repeat
_SIZE_SHARES: Final = (0.25, 0.32, 0.17, 0.155, 0.065, 0.025, 0.015)

_PLACE: Final = {
    "STATE": Variable(kind="categorical", label="State"),
    "COUNTY": Variable(kind="categorical", label="County (state and county number)"),
    "TRACT": Variable(kind="categorical", label="Tract (county and tract number)"),
    "BLOCK": Variable(kind="categorical", label="Block (tract and block number)"),
}
_YES_NO: Final[dict[Code, str]] = {0: "No", 1: "Yes"}

HOUSEHOLD_SCHEMA: Final = Schema(
    id="HHID",
    keys=KEYS_1990,
    sensitive=("INCOME", "HOME_VAL", "RENT"),
    geography=GEOGRAPHY,
    household="HHID",
    variables={
        "HHID": Variable(kind="categorical", label="Household"),
        **_PLACE,
        "SIZE": Variable(
            kind="ordinal", label="Persons in the household", sum_of=tuple(f"N_{race}" for race in RACES)
        ),
        **{f"N_{race}": Variable(kind="ordinal", label=f"Persons of race {race.lower()}") for race in RACES},
        "N_HISPANIC": Variable(kind="ordinal", label="Hispanic persons"),
        "N_NONHISPANIC": Variable(kind="ordinal", label="Non-Hispanic persons"),
        "N_OVER18": Variable(kind="ordinal", label="Persons over 18"),
        "N_FAMILIES": Variable(kind="ordinal", label="Family units at the address"),
        "TRAILER": Variable(kind="categorical", label="Trailer or mobile home", labels=_YES_NO),
        "TENURE": Variable(kind="categorical", label="Tenure", labels={1: "Owned", 2: "Rented"}),
        "INCOME": Variable(kind="continuous", unit=1, label="Household income, dollars"),
        "HOME_VAL": Variable(kind="continuous", unit=1, label="Value of an owned home, dollars"),
        "RENT": Variable(kind="continuous", unit=1, label="Monthly rent of a rented home, dollars"),
    },
)

PERSON_SCHEMA: Final = Schema(
    id="PID",
    keys=("AGE", "SEX", "RACE", "HISPANIC"),
    sensitive=("EARNINGS",),
    geography=GEOGRAPHY,
    household="HHID",
    variables={
        "PID": Variable(kind="categorical", label="Person"),
        "HHID": Variable(kind="categorical", label="Household"),
        **_PLACE,
        "RELATION": Variable(
            kind="categorical",
            label="Relation to the first person",
            labels={1: "First person", 2: "Partner", 3: "Child", 4: "Other relative", 5: "Not related"},
        ),
        "AGE": Variable(kind="ordinal", label="Age"),
        "SEX": Variable(kind="categorical", label="Sex", labels={1: "Male", 2: "Female"}),
        "RACE": Variable(
            kind="categorical", label="Race", labels={i + 1: race.title() for i, race in enumerate(RACES)}
        ),
        "HISPANIC": Variable(kind="categorical", label="Hispanic origin", labels=_YES_NO),
        "EARNINGS": Variable(kind="continuous", unit=1, label="Earnings, dollars"),
    },
)


@suggesting
def households(n: int, *, seed: int = 1990, start: int = 0) -> Microdata:
    """Census households start … start+n−1: nested geography, the eleven keys of the 1990 edit, amounts.

    Household i is the same for the same seed, whatever ``n`` and ``start`` are. Tracts have 400
    households in up to 30 blocks of very unequal size, many with one to three households.

    Reference: Moore, R. A. (1996). Preliminary recommendations for disclosure limitation for the 2000
    census: improving the 1990 confidentiality edit procedure. SRD RR96/06, U.S. Bureau of the Census.
    """
    made = _Made(_draws(seed), *_checked(n, start))
    return Microdata(pl.DataFrame(made.households()), HOUSEHOLD_SCHEMA)


def persons(n: int, *, seed: int = 1990, start: int = 0) -> Microdata:
    """The persons of households start … start+n−1 (see :func:`households`), household by household."""
    made = _Made(_draws(seed), *_checked(n, start))
    return Microdata(pl.DataFrame(made.persons()), PERSON_SCHEMA)


def household_chunks(
    n: int, *, seed: int = 1990, start: int = 0, chunk: int = 1_000_000, of_persons: bool = False
) -> Iterator[Microdata]:
    """:func:`households` (or :func:`persons`) in chunks of so many households."""
    if chunk < 1:
        raise ParameterError(f"a chunk needs at least one household, not {chunk}")
    n, start = _checked(n, start)
    make = persons if of_persons else households
    for first in range(start, start + n, chunk):
        yield make(min(chunk, start + n - first), seed=seed, start=first)


def _checked(n: int, start: int) -> tuple[int, int]:
    for name, value in (("n", n), ("start", start)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            raise ParameterError(f"`{name}` must be a whole number of at least 0, not {value!r}")
    return int(n), int(start)


def _draws(seed: int) -> Draws:
    return Seed.from_int(seed).draws("households deck")


def _state_table() -> tuple[IntArray, IntArray, IntArray]:
    """The state of each run of tracts in a cycle, its rank among that state's runs, and their number.

    51 states, a few large and many small: the runs are shared out in proportion to 1/(rank + 3), at
    least one each, and spread over the cycle.
    """
    weight = 1.0 / (np.arange(51) + 3.0)
    count = 1 + np.floor(weight / weight.sum() * (_CYCLE - 51)).astype(np.int64)
    count[: _CYCLE - count.sum()] += 1
    state = np.repeat(np.arange(51), count)
    # Spread each state's runs evenly: by their share of the way through the state.
    rank = np.concatenate([np.arange(c) for c in count])
    order = np.lexsort((state, (rank + 0.5) / count[state]))
    return state[order], rank[order], count


@dataclass(frozen=True)
class _Made:
    """A chunk of households; each property is drawn once, when it is needed."""

    draws: Draws
    n: int
    start: int

    def u(self, name: str) -> FloatArray:
        """A uniform draw per household."""
        return self.draws.stream(name).uniform(self.start, self.n)

    # -- where ------------------------------------------------------------------------------------

    @cached_property
    def _tracts(self) -> tuple[IntArray, IntArray]:
        """The first and the last tract of the chunk + 1, and each household's tract counted from it."""
        first = self.start // _TRACT
        number = (self.start + np.arange(self.n)) // _TRACT - first
        return np.arange(first, first + (int(number[-1]) + 1 if self.n else 0)), number

    def by_tract(self, name: str) -> FloatArray:
        """A uniform draw per tract, given to each of its households."""
        tracts, number = self._tracts
        if not len(tracts):
            return np.empty(0)
        return self.draws.stream(name, purpose="tract").uniform(int(tracts[0]), len(tracts))[number]

    @cached_property
    def geography(self) -> dict[str, IntArray]:
        tracts, number = self._tracts
        if not len(tracts):
            return {name: np.empty(0, dtype=np.int64) for name in GEOGRAPHY}
        table, rank, count = _state_table()
        run, place = tracts // _UNIT, tracts % _UNIT
        state = table[run % _CYCLE]
        nth = run // _CYCLE * count[state] + rank[run % _CYCLE]  # the state's how-manieth run
        county = (state + 1) * 10_000 + nth // _UNITS + 1
        tract = county * 100 + nth % _UNITS * _UNIT + place + 1
        # Very unequal blocks: lognormal weights, cut into the tract's households.
        weights = np.exp(
            1.3 * self.draws.stream("block").normal(int(tracts[0]) * _BLOCKS, len(tracts) * _BLOCKS)
        ).reshape(-1, _BLOCKS)
        ends = np.rint(np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True) * _TRACT).astype(
            np.int64
        )
        sizes = np.diff(ends, axis=1, prepend=0)
        block = np.repeat(np.tile(np.arange(1, _BLOCKS + 1), len(tracts)), sizes.ravel())
        skip = self.start - int(tracts[0]) * _TRACT
        block = block[skip : skip + self.n]
        return {
            "STATE": (state + 1)[number],
            "COUNTY": county[number],
            "TRACT": tract[number],
            "BLOCK": tract[number] * 1_000 + block,
        }

    # -- who --------------------------------------------------------------------------------------

    @cached_property
    def size(self) -> npt.NDArray[np.int8]:
        edges = np.cumsum(_SIZE_SHARES)[:-1]
        return (1 + np.searchsorted(edges, self.u("size"))).astype(np.int8)

    @cached_property
    def there(self) -> list[BoolArray]:
        """For each slot of a household, whether it holds a person."""
        return [self.size > slot for slot in range(_SLOTS)]

    @cached_property
    def race(self) -> list[npt.NDArray[np.int8]]:
        """The race of each slot: tracts differ in their mix, households mostly don't mix."""
        mix = self.by_tract("mix")
        white = 0.30 + 0.69 * (1 - (1 - mix) ** 2.5)
        black = white + (1 - white) * (0.15 + 0.75 * self.by_tract("mix of others"))
        rest = 1 - black
        head = self.u("race")
        edges = (white, black, black + 0.12 * rest, black + 0.62 * rest)
        first = np.zeros(self.n, dtype=np.int8)
        for edge in edges:
            first += (head >= edge).astype(np.int8)
        out = [first]
        for slot in range(1, _SLOTS):
            u = self.u(f"race {slot}")
            drawn = np.searchsorted([0.70, 0.82, 0.84, 0.92], u / 0.03).astype(np.int8)
            out.append(np.where(u < 0.03, drawn, first))
        return out

    @cached_property
    def hispanic(self) -> list[BoolArray]:
        share = 0.02 + 0.30 * self.by_tract("hispanic") ** 4
        share = np.where(self.race[0] == 4, 0.85, np.where(self.race[0] == 0, share, 0.25 * share))
        first = self.u("hispanic") < share
        return [first] + [first ^ (self.u(f"hispanic {slot}") < 0.02) for slot in range(1, _SLOTS)]

    @cached_property
    def couple(self) -> BoolArray:
        return (self.size > 1) & (self.u("couple") < np.where(self.size == 2, 0.70, 0.82))

    @cached_property
    def age(self) -> list[npt.NDArray[np.int8]]:
        knots = [0, 0.06, 0.28, 0.52, 0.70, 0.84, 0.96, 1]
        # The larger the household, the younger its first person.
        alone = np.interp(self.u("age"), knots, [18, 24, 34, 47, 61, 71, 83, 99])
        first = np.floor(np.where(self.size > 2, 18 + 0.55 * (alone - 18) + 6, alone))
        out = [first]
        for slot in range(1, _SLOTS):
            u = self.u(f"age {slot}")
            child = np.minimum(np.floor(24 * u**1.1), first - 15)
            other = np.floor(np.clip(first + 40 * (u - 0.5), 0, 99))
            grown = np.floor(np.clip(first - 2 + 12 * (u - 0.5), 16, 99))
            if slot == 1:
                age = np.where(self.couple, grown, np.where(self.size == 2, other, child))
            else:
                age = np.where(self.u(f"other {slot}") < 0.10, other, child)
            out.append(np.maximum(age, 0))
        return [age.astype(np.int8) for age in out]

    def _count(self, flags: list[BoolArray]) -> npt.NDArray[np.int8]:
        total = np.zeros(self.n, dtype=np.int8)
        for there, flag in zip(self.there, flags, strict=True):
            total += there & flag
        return total

    # -- files ------------------------------------------------------------------------------------

    def households(self) -> dict[str, Any]:
        place = self.geography
        hispanic = self._count(self.hispanic)
        counts = {f"N_{name}": self._count([r == k for r in self.race]) for k, name in enumerate(RACES)}
        rural = self.by_tract("rural")
        trailer = self.u("trailer") < 0.01 + 0.22 * rural**3
        wealth = self.draws.stream("wealth").normal(self.start, self.n) + 0.8 * (
            self.by_tract("wealth") - 0.5
        )
        families = 1 + (self.u("families") < 0.012 * self.size).astype(np.int8)
        owned = self.u("tenure") < 1 / (1 + np.exp(-(0.45 + 0.6 * wealth + 0.02 * (self.age[0] - 45.0))))
        income = np.rint(np.exp(10.2 + 0.65 * wealth + 0.12 * np.minimum(self.size, 3))).astype(np.int64)
        noise = self.draws.stream("amount").normal(self.start, self.n)
        value = np.rint(np.exp(11.2 + 0.45 * wealth + 0.35 * noise - 1.2 * trailer) / 500) * 500
        rent = np.rint(np.exp(5.9 + 0.3 * wealth + 0.3 * noise - 0.3 * trailer) / 5) * 5
        return {
            "HHID": np.arange(self.start, self.start + self.n),
            "STATE": place["STATE"].astype(np.int8),
            "COUNTY": place["COUNTY"].astype(np.int32),
            "TRACT": place["TRACT"].astype(np.int64),
            "BLOCK": place["BLOCK"],
            "SIZE": self.size,
            **counts,
            "N_HISPANIC": hispanic,
            "N_NONHISPANIC": self.size - hispanic,
            "N_OVER18": self._count([age > 18 for age in self.age]),
            "N_FAMILIES": families,
            "TRAILER": trailer.astype(np.int8),
            "TENURE": np.where(owned, 1, 2).astype(np.int8),
            "INCOME": income,
            "HOME_VAL": _where(owned, value),
            "RENT": _where(~owned, rent),
        }

    def persons(self) -> dict[str, Any]:
        slots = np.arange(_SLOTS, dtype=np.int8)
        there = slots[None, :] < self.size[:, None]
        household = np.repeat(np.arange(self.n), self.size)
        slot = np.broadcast_to(slots, there.shape)[there]

        def of_persons(arrays: list[Any]) -> Any:
            return np.stack(arrays, axis=1)[there]

        age = of_persons(self.age).astype(np.int8)
        sex = of_persons([self.u(f"sex {k}") < 0.5 for k in range(_SLOTS)])
        first = sex[np.cumsum(self.size) - self.size] if self.n else sex
        couple = self.couple[household]
        partner = (slot == 1) & couple
        sex = np.where(partner, ~first[household], sex)
        child = age <= np.repeat(self.age[0], self.size) - 15
        relation = np.select([slot == 0, partner, child], [1, 2, 3], np.where(slot % 2, 4, 5))
        z = of_persons([self.draws.stream(f"earnings {k}").normal(self.start, self.n) for k in range(_SLOTS)])
        works = of_persons([self.u(f"works {k}") for k in range(_SLOTS)])
        share = np.interp(age, [15, 16, 25, 55, 65, 75], [0, 0.2, 0.85, 0.82, 0.3, 0.03])
        earnings = np.where(works < share, np.rint(np.exp(9.7 + 0.8 * z)), 0).astype(np.int64)
        place = {name: codes[household] for name, codes in self.geography.items()}
        return {
            "PID": (self.start + household) * 10 + slot,
            "HHID": self.start + household,
            "STATE": place["STATE"].astype(np.int8),
            "COUNTY": place["COUNTY"].astype(np.int32),
            "TRACT": place["TRACT"],
            "BLOCK": place["BLOCK"],
            "RELATION": relation.astype(np.int8),
            "AGE": age,
            "SEX": np.where(sex, 1, 2).astype(np.int8),
            "RACE": (of_persons(self.race) + 1).astype(np.int8),
            "HISPANIC": of_persons(self.hispanic).astype(np.int8),
            "EARNINGS": earnings,
        }


def _where(on: BoolArray, values: FloatArray) -> pl.Series:
    """Whole numbers where they apply, null elsewhere."""
    nothing = pl.Series([None], dtype=pl.Int64).extend_constant(None, max(len(values) - 1, 0))
    return pl.Series(values).cast(pl.Int64).zip_with(pl.Series(on), nothing.head(len(values)))
