"""Truncation: digits cut off the right end of a code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from sfumato.contract.disclosure import Fact
from sfumato.contract.guarantees import Guarantee
from sfumato.contract.mask import Notes, RowsMask
from sfumato.contract.parameters import held_type, parameter
from sfumato.data.microdata import Microdata
from sfumato.data.recoding import without_last
from sfumato.data.schema import Schema, Variable
from sfumato.draws import Draws, as_seed
from sfumato.errors import MaskError, Problem
from sfumato.masks.recode.coarser import (
    SHOWN,
    Coarser,
    distinct_values,
    looked_up,
    missing_in,
    recoded_schema,
)


@dataclass(frozen=True, kw_only=True)
class Truncate(RowsMask):
    """Cut digits off the right end of every code.

    12345 with ``digits=2`` becomes 123, in text and in whole numbers alike (towards zero); a
    hierarchical code (region, occupation, industry) thus moves up its hierarchy. Missing values stay.
    A text that has no more characters than are cut off is an error that names it.

    Reference: Hundepool, A. et al. (2012). Statistical Disclosure Control, section 3.6.2. Wiley.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"ZIP": ["20233", "20740", None]}))
    >>> sf.Truncate(column="ZIP", digits=2).mask(data).frame["ZIP"].to_list()
    ['202', '207', None]
    """

    name: ClassVar[str] = "truncate"
    draws_nothing: ClassVar[bool] = True
    by_value: ClassVar[bool] = True
    reference: ClassVar[str] = "Hundepool et al. (2012), section 3.6.2"

    column: str = parameter(doc="The column to truncate.", columns=True, public=True)
    digits: int = parameter(
        doc="How many digits or characters are cut off.", at_least=0, at_most=18, public=True
    )

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        dtype = types.get(self.column)
        if dtype is not None and not (dtype.is_integer() or dtype in (pl.String, pl.Categorical)):
            out.append(
                Problem(
                    0,
                    f"{self.column} holds {held_type(dtype)}, which has no digits to cut",
                    f"use `recode` with a `{'width' if dtype.is_numeric() else 'mapping'}`"
                    if not dtype.is_temporal()
                    else "use `recode` with a `period`",
                )
            )
        return out

    def changes(self, data: Microdata) -> Sequence[str]:
        return (self.column,)

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        return ()  # whoever reads the release does the same to his own list

    def own_list(self, data: Microdata) -> Microdata:
        return self._apply(data, as_seed(0).draws(self.name), Notes())

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        return [Coarser(self.column)]

    def class_of(
        self, values: pl.Series, variable: Variable | None = None, *, show: bool = True
    ) -> pl.Series:
        """The truncated code of each value; nulls and missing codes stay."""
        variable = variable or Variable()
        missing = missing_in(values, variable)
        if not values.dtype.is_integer():
            names = values.cast(pl.String)
            short = (
                names.filter(~missing & (names.str.len_chars() <= self.digits)).drop_nulls().unique().sort()
            )
            if len(short) and self.digits:
                named = f": {', '.join(short.head(SHOWN))}" if show else ""
                raise MaskError(
                    f"truncate: {len(short):,} codes of {self.column} have no more than {self.digits} "
                    f"characters{named}",
                    hint="cut off fewer, or recode these first",
                )
        cut = without_last(values, self.digits)
        for name in (
            cut.filter(~missing).cast(pl.String if not values.dtype.is_integer() else values.dtype).unique()
        ):
            if name is not None and self.digits and variable.is_missing_code(name):
                raise MaskError(f"truncate: {name!r}, a missing code of {self.column}, would be made")
        return values.zip_with(missing, cut) if missing.any() else cut.rename(values.name)

    def _fit(self, data: Microdata, draws: Draws, notes: Notes) -> tuple[pl.Series, pl.Series]:
        distinct = distinct_values(data, self.column)
        show = data.schema.role_of(self.column) != "sensitive"
        cut = self.class_of(distinct, data.schema[self.column], show=show)
        notes.figure("values_before", distinct.drop_nulls().len())
        notes.figure("classes_after", cut.drop_nulls().n_unique())
        return distinct, cut

    def _rows(self, chunk: Microdata, start: int, state: Any, draws: Draws) -> Microdata:
        return chunk.with_columns({self.column: looked_up(chunk.column(self.column), *state)})

    def _schema(self, data: Microdata, state: Any) -> Schema:
        if not self.digits:
            return data.schema
        return recoded_schema(data.schema, self.column, {"labels": {}, "order": ()})
