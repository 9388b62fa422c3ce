"""Schemas laid over each other: what a person says of a file, over what the file says of itself."""

from __future__ import annotations

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
