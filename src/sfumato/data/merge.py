"""Schemas laid over each other: what a person says of a file, over what the file says of itself."""

from __future__ import annotations

import polars as pl

from sfumato.data.schema import ROLES, Schema


def merged(own: Schema, given: Schema | None) -> Schema:
    """The file's own schema with another laid over it: roles replaced, details of variables added.

    >>> own = Schema(keys=["AGE"], variables={"PAY": {"bottom": 10, "unit": 1}})
    >>> both = merged(own, Schema(sensitive=["PAY"], variables={"PAY": {"bottom": 0}}))
    >>> both.keys, both.sensitive, both["PAY"].bottom, both["PAY"].unit
    (('AGE',), ('PAY',), 0, 1)
    """
    if given is None:
        return own
    schema = own.with_roles(**{role: getattr(given, role) for role in ROLES if getattr(given, role)})
    for name, variable in given.variables.items():
        schema = schema.with_variable(name, **variable.said())
    return schema


def numbers_with_words(frame: pl.DataFrame | pl.LazyFrame, schema: Schema) -> pl.DataFrame | pl.LazyFrame:
    """Columns that the schema calls continuous and that are text only for words that mean missing ("N",
    "not stated") or for zeros before the number ("0125"), as numbers with nulls for those words; a column
    with other text is left as it is."""
    types = frame.collect_schema()
    for name, variable in schema.variables.items():
        gone = [m for m in variable.missing if isinstance(m, str)]
        if variable.kind != "continuous" or types.get(name) != pl.String:
            continue
        text = pl.when(~pl.col(name).is_in(gone)).then(pl.col(name).str.strip_chars())
        type_ = pl.Float64 if gone else pl.Int64
        number = text.str.replace(",", ".", literal=True).cast(type_, strict=False)
        lost = frame.lazy().select((number.is_null() & text.is_not_null()).any()).collect().item()
        if not lost:
            frame = frame.with_columns(number.alias(name))
    return frame
