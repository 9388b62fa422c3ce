"""The intruder who looks for the whole string of values, wherever it went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.contract.disclosure import Travelled, of_kind
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.results import wilson


@dataclass(frozen=True, kw_only=True)
class StringAttack(Attack):
    """Find a person's string of values in the release, whichever record carries it now.

    A mask that moves several columns together releases every original string as it was. Whoever
    knows some of its values finds the string and reads the others; that its record holds another
    person's keys doesn't matter. With c_i the number of released records that agree with person i on
    the ``known`` columns, the rate is (1/n) Σ_i s_i / c_i, where s_i says whether person i's whole
    string is among them: the chance that a draw among these records is the string. Strings that
    several persons share count by their number.

    Values that other steps changed afterwards don't agree any more; the rate is then that of the
    strings which are still whole.

    Reference: Kim and Winkler (1995), Masking microdata files, section 2.3, for swaps of strings;
    the distinction of slot and string is ours.

    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"PAY": [5, 7, 9, 4], "RENT": [1, 2, 3, 4]})
    >>> moved = people[[1, 0, 3, 2]]
    >>> sf.StringAttack(columns=["PAY", "RENT"], known=["PAY"]).measure(people, moved).rate
    1.0
    """

    name: ClassVar[str] = "string_attack"
    reference: ClassVar[str] = "Kim and Winkler (1995), section 2.3"
    compares_all: ClassVar[bool] = False

    columns: tuple[str, ...] = parameter(
        (), doc="The columns that moved together; the sensitive ones by default.", columns="sensitive"
    )
    known: tuple[str, ...] = parameter(
        (), doc="Those of the columns that the intruder knows; all by default.", columns=True
    )
    block_on: tuple[str, ...] = parameter(
        (), doc="Columns that stayed with the string, such as its strata.", columns=True
    )

    @classmethod
    def against(cls, step: Mask, data: Microdata, intruder: Intruder) -> Sequence[Attack]:
        return [
            cls(columns=fact.columns, block_on=fact.within)
            for fact in of_kind(Travelled, step.discloses(data))
        ]

    def _check(self) -> Sequence[tuple[str, str | None]]:
        strange = [c for c in self.known if self.columns and c not in self.columns]
        return [(f"`known` names {strange[0]}, which isn't in `columns`", None)] if strange else ()

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        columns = self.columns or tuple(c for c in original.schema.sensitive if c in masked.columns)
        if not columns:
            raise MeasureError("there is no string to look for", hint="name its columns in `columns`")
        n, N = len(original), len(masked)
        if not n or not N:
            raise MeasureError("there is no record to look for")
        seen = tuple(dict.fromkeys([*(self.known or columns), *self.block_on]))
        whole = tuple(dict.fromkeys([*columns, *self.block_on]))
        candidates = _carriers(original, masked, seen)
        carriers = _carriers(original, masked, whole)
        chance = np.divide(carriers > 0, candidates, out=np.zeros(n), where=candidates > 0)
        rate = float(chance.mean())
        alone = float((np.where(carriers > 0, candidates, 0) == 1).mean())
        twins = _carriers(original, original, whole)
        return Result(
            value=rate,
            unit="share of strings found",
            interval=wilson(rate * n, n),
            notes=(
                f"the intruder has the original values of {', '.join(seen)} for every record and looks for "
                f"the string of {', '.join(columns)}, whichever record carries it",
                "whose values are found counts, not whose record: its other columns may be somebody else's",
            ),
            figures={
                "rate": rate,
                "correct": rate * n,
                "baseline": float((carriers > 0).mean()) / N,
                "attacked": n,
                "certain_rate": alone,
                "strings_whole": float((carriers > 0).mean()),
                "strings_unique": float((twins == 1).mean()),
            },
        )


def _carriers(original: Microdata, masked: Microdata, columns: Sequence[str]) -> np.ndarray:
    """How many released records have the values that each original record has."""
    one, two, size = joint_codes(original, masked, columns)
    return np.bincount(two, minlength=size)[one]
