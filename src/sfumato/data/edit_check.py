"""Which records, or households, break an edit."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import polars as pl

from sfumato.data.edits import Edit, Literal, Place, parsed
from sfumato.data.microdata import BoolArray, Microdata
from sfumato.data.schema import Schema

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def edits_of(schema: Schema) -> list[Edit]:
    """Every edit that the schema declares."""
    return [parsed(text) for variable in schema.variables.values() for text in variable.edits]


def broken(edit: Edit, data: Microdata) -> BoolArray:
    """The records that break an edit; of one between members, whose household breaks it.

    >>> frame = pl.DataFrame({"H": [1, 1, 2, 2], "R": [1, 3, 1, 3], "AGE": [40, 20, 40, 35]})
    >>> data = Microdata(frame, Schema(household="H"))
    >>> broken(parsed("AGE[R == 3] <= AGE[R == 1] - 12"), data).tolist()
    [False, False, True, True]
    """
    n = len(data)
    if edit.members == 1:
        kept = np.logical_or.reduce([_true(z, data, {0: np.arange(n)}) for z in edit.literals])
        return np.asarray(~kept)
    home = data.schema.household
    assert home is not None
    of, _ = data.households(home)
    one = pl.DataFrame({"home": of, "m0": np.arange(n)})
    pairs = one
    for m in range(1, edit.members):
        pairs = pairs.join(one.rename({"m0": f"m{m}"}), on="home")
        for other in range(m):
            pairs = pairs.filter(pl.col(f"m{m}") != pl.col(f"m{other}"))
    rows = {m: pairs[f"m{m}"].to_numpy() for m in range(edit.members)}
    bad = ~np.logical_or.reduce([_true(z, data, rows) for z in edit.literals])
    return np.isin(of, pairs["home"].to_numpy()[bad])


def _true(literal: Literal, data: Microdata, rows: dict[int, Any]) -> BoolArray:
    """Where a literal is true; what is missing makes it true."""
    text = isinstance(literal.constant, str)
    left, gone = _values(literal.left, data, rows, text)
    if literal.right is None:
        right = literal.constant
    else:
        other, more = _values(literal.right, data, rows, False)
        right, gone = other + literal.constant, gone | more
    with np.errstate(invalid="ignore"):
        return np.asarray(_COMPARE[literal.relation](left, right) | gone, dtype=np.bool_)


def _values(place: Place, data: Microdata, rows: dict[int, Any], text: bool) -> tuple[Any, BoolArray]:
    column, member = place
    at = rows[member]
    gone = data.missing(column)[at]
    if text:
        return data.column(column).cast(pl.String).fill_null("").to_numpy()[at].astype(str), gone
    return _numbers(data, column)[at], gone


def _numbers(data: Microdata, column: str) -> Any:
    """A column's numbers; codes that are written as text count as numbers where all are."""
    if data.dtype(column).is_numeric() or data.dtype(column).is_temporal():
        return data.numbers(column)
    return data.column(column).cast(pl.String).cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
