"""What every coarser code shares: the promise, the lookup of distinct values, the schema afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from sfumato.contract.guarantees import ByBlocks
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema, Variable

SHOWN: Final = 12
"""So many values are named in a message."""


@dataclass(frozen=True)
class Coarser(ByBlocks):
    """Records that agreed on the column still agree, and missing values are still missing."""

    column: str

    def describe(self) -> str:
        return f"equal values of {self.column} stay equal, and missing ones stay missing"

    def looks_at(self) -> Sequence[str]:
        return (self.column,)

    def partial(self, before: Microdata, after: Microdata) -> tuple[pl.DataFrame, int]:
        """Which value became which, and how many missing values aren't any more."""
        pairs = pl.DataFrame({"before": before.column(self.column), "after": after.column(self.column)})
        lost = int((before.missing(self.column) & ~after.missing(self.column)).sum())
        return pairs.unique(), lost

    def judged(self, parts: Sequence[tuple[pl.DataFrame, int]]) -> str | None:
        if not parts:
            return None
        pairs = pl.concat([p for p, _ in parts]).unique()
        split = pairs.group_by("before").len("n").filter(pl.col("n") > 1).height
        if split:
            return f"{split:,} values of {self.column} were split over several classes"
        lost = sum(n for _, n in parts)
        return f"{lost:,} missing values of {self.column} became something else" if lost else None


def distinct_values(data: Microdata, column: str) -> pl.Series:
    """The distinct values of a column, in no order; block by block."""
    parts = data.aggregate(lambda block, _: block.column(column).unique(), [column])
    return pl.concat(parts).unique() if parts else pl.Series(column, dtype=data.dtype(column))


def missing_in(values: pl.Series, variable: Variable) -> pl.Series:
    """Which values are null, NaN or missing codes."""
    lone = Microdata(pl.DataFrame({"v": values}), Schema(variables={"v": Variable(missing=variable.missing)}))
    return pl.Series(lone.missing("v"))


def as_type(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """The values themselves in the type of the classes; NaN has no text and becomes null."""
    if values.dtype == dtype:
        return values
    if values.dtype.is_float() and dtype == pl.String:
        values = values.fill_nan(None)
        whole = (values.drop_nulls() == values.drop_nulls().round(0)).all()
        return values.cast(pl.Int64, strict=False).cast(dtype) if whole else values.cast(dtype)
    return values.cast(dtype)


def looked_up(values: pl.Series, distinct: pl.Series, classes: pl.Series) -> pl.Series:
    """The classes of a whole column, from those of its distinct values."""
    if not len(distinct):
        return values.cast(classes.dtype)
    found: pl.Series = values.replace_strict(distinct, classes, return_dtype=classes.dtype)
    return found


def recoded_schema(schema: Schema, column: str, details: Mapping[str, Any]) -> Schema:
    """The schema after a column's codes have changed: what was said of the old codes is dropped."""
    if not details:
        return schema
    stale = {"top": None, "bottom": None, "unit": None, "sum_of": (), "hierarchy": None}
    variables = {
        name: replace(v, sum_of=()) if column in v.sum_of else v for name, v in schema.variables.items()
    }
    return replace(schema, variables=variables).with_variable(column, **{**stale, **details})
