"""One draw a household: a mask that moves what its members share gives all of them one value."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from sfumato.contract.context import Context
from sfumato.contract.engine import Locality
from sfumato.contract.guarantees import Check, Guarantee, SameRecords, Untouched
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import parameter
from sfumato.contract.verify import verified
from sfumato.data.microdata import IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import GuaranteeError, MaskError, counted


@dataclass(frozen=True, kw_only=True)
class PerHousehold(Mask):
    """A mask that can treat a household as one record.

    >>> import polars as pl, sfumato as sf
    >>> homes = pl.DataFrame({"HOME": [1, 1, 2, 3, 3, 4], "RENT": [500, 500, 700, 450, 450, 900]})
    >>> masked = sf.RandomSwap(columns=["RENT"], rate_percent=100, household="HOME").mask(homes, seed=1)
    >>> masked.frame.group_by("HOME").agg(pl.col("RENT").n_unique())["RENT"].max()
    1
    """

    household: str | None = parameter(
        None,
        doc="A column of households whose members share what is masked: one draw a household, its value "
        "given to all members.",
        columns=True,
        public=True,
    )

    @property
    def locality(self) -> Locality:
        """Who gives a household one value must see its members together."""
        return super().locality if self.household is None else "file"

    def carry_out(
        self, data: Microdata, draws: Draws, context: Context | None = None
    ) -> tuple[Microdata, Notes, list[Check]]:
        if context is not None:
            return self.given(context).carry_out(data, draws)
        if self.household is None or not len(data) or self.household not in data.columns:
            return super().carry_out(data, draws)
        of, many = data.households(self.household)
        first = np.empty(many, np.int64)
        first[of[::-1]] = np.arange(len(of))[::-1]
        step = replace(self, household=None).given(self.context)
        touched = step.touches(data)
        used = [c for c in dict.fromkeys([*step.needs(data), *touched]) if c in data.columns]
        for column in used:
            _refuse_unshared(self.name, self.household, data, column, of, first)
        small = data.with_frame(data.frame[first])
        masked, notes, checks = step.carry_out(small, draws)
        new = [
            masked.column(c).gather(pl.Series(of))
            for c in masked.columns
            if c in touched or c not in data.columns
        ]
        out = data.with_columns(new)
        if notes.log is not None and "record" in notes.log.columns:
            at = notes.log["record"].to_numpy()
            notes.log = notes.log.with_columns(pl.Series("record", first[at]).cast(notes.log["record"].dtype))
        added = tuple(c for c in touched if c not in data.columns)
        promised: list[Guarantee] = [
            SameRecords(added), Untouched(touched), OneValue(tuple(touched), self.household),
        ]  # fmt: skip
        seen = verified(data, out, promised, touched)
        notes.touched = seen.touched  # in records, where the step counted households
        failed = [c for c in seen.checks if not c.ok]
        if failed:
            raise GuaranteeError("\n".join(f"{self.name} broke its guarantee: {c.detail}" for c in failed))
        return out, notes, [*checks, *seen.checks]


def _refuse_unshared(
    name: str, household: str, data: Microdata, column: str, of: IntArray, first: IntArray
) -> None:
    codes, _ = data.codes([column])
    apart = len(np.unique(of[codes[first][of] != codes]))
    if apart:
        raise MaskError(
            f"{name}: members of one household disagree on {column} in {counted(apart, 'household')}, so it "
            "can't have one draw a household",
            hint=f"take {column} into a step without `household`, or mend it where {household} shares it",
        )


@dataclass(frozen=True)
class OneValue(Guarantee):
    """Members of a household have one value of each of these columns."""

    columns: tuple[str, ...]
    household: str

    def describe(self) -> str:
        return f"all members of a household ({self.household}) have one value of {', '.join(self.columns)}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        of, many = after.households(self.household)
        for column in self.columns:
            codes, _ = after.codes([column])
            first = np.empty(many, np.int64)
            first[of] = codes
            if (first[of] != codes).any():
                return f"members of a household differ in {column}"
        return None
