"""The intruder who knows who lives together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from sfumato.contract.known import is_number
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.risk.agreement import AgreementAttack

_OF = "{} of the household"
_SUM = "sum of " + _OF
_SIZE = "size of the household"


@dataclass(frozen=True, kw_only=True)
class HouseholdAttack(AgreementAttack):
    """Re-identify persons by whom they live with: what a household's members have between them.

    Many are a woman of 34; few live with a man of 61 and children of 3 and 8. Where the release says who
    belongs to a household, the intruder also compares the values that its members have in every known column,
    the sum of numbers, and how many members there are. Each of these weighs as
    in :class:`AgreementAttack`, with its own probability of having stayed, learnt from the release. A swap
    that moves households to another area leaves all of it as it was.

    Reference: the weights are those of ``AgreementAttack``; households by their members as in Eurostat's
    household risk (Franconi and Polettini 2004, LNCS 3050, 262-272).

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(0)
    >>> people = pl.DataFrame({"HOME": np.arange(300) // 3, "AGE": rng.integers(0, 12, 300)})
    >>> data = sf.Microdata(people, sf.Schema(household="HOME", keys=["AGE"]))
    >>> sf.AgreementAttack(known=["AGE"]).measure(data, data).rate < 0.1
    True
    >>> sf.HouseholdAttack(known=["AGE"]).measure(data, data).rate > 0.5
    True
    """

    name: ClassVar[str] = "household_attack"
    reference: ClassVar[str] = "after Franconi and Polettini (2004)"

    household: str | None = parameter(
        None, doc="The column that says who lives together; by default the schema's.", columns="household"
    )

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        home = original.schema.household
        if home is None or home not in original.columns or home not in masked.columns:
            return ()
        return [cls(known=intruder.values, block_on=intruder.block_on)] if intruder.values else ()

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        home = self.household or original.schema.household
        if home is None or any(home not in d.columns for d in (original, masked)):
            raise MeasureError(
                "the files don't say who lives together", hint="name the column in `household`"
            )
        columns = list(dict.fromkeys([*self._known(original, masked), *self.block_on]))
        numbers = [c for c in columns if is_number(original, c) and is_number(masked, c)]
        return super()._measure(
            _with_homes(original, home, columns, numbers),
            _with_homes(masked, home, columns, numbers),
            draws,
        )

    def _known(self, original: Microdata, masked: Microdata) -> tuple[str, ...]:
        known = super()._known(original, masked)
        added = [c for c in original.columns if c == _SIZE or c.endswith(_OF.format(""))]
        return (*known, *(c for c in added if c not in known))


def _with_homes(data: Microdata, home: str, columns: Sequence[str], numbers: Sequence[str]) -> Microdata:
    """The file with what each person's household has between its members."""
    frame = pl.DataFrame({"home": data.households(home)[0]}).with_columns(
        data.column(c).to_physical() if c in numbers else data.column(c).cast(pl.String) for c in columns
    )
    held = [
        pl.col(c).cast(pl.String).fill_null("").sort().implode().list.join("\x1f").over("home")
        .alias(_OF.format(c))
        for c in columns
    ]  # fmt: skip
    sums = [pl.col(c).cast(pl.Float64).sum().over("home").alias(_SUM.format(c)) for c in numbers]
    new = frame.select(*held, *sums, pl.len().over("home").cast(pl.String).alias(_SIZE))
    return data.with_columns(new.get_columns())
