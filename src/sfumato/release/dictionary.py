"""The data dictionary of a release: what each of its columns is."""

from __future__ import annotations

from typing import Any

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.data.schema import Range, Schema


def dictionary(schema: Schema, data: Microdata, columns: list[str], records: int) -> dict[str, Any]:
    """The data dictionary: what each released column is."""
    out = []
    for column in columns:
        variable = schema[column]
        dtype = data.dtype(column)
        # The name of an Enum lists its categories, also those that no record has any more.
        said = "String" if dtype in (pl.Categorical, pl.Enum) else str(dtype)
        entry: dict[str, Any] = {"name": column, "type": said, "kind": data.kind(column)}
        if variable.label:
            entry["label"] = variable.label
        if column in (schema.id, schema.household):
            entry["note"] = "numbered anew for this release"
        for name in ("top", "bottom", "unit"):
            if getattr(variable, name) is not None:
                entry[f"{name}_code" if name != "unit" else name] = getattr(variable, name)
        if variable.missing:
            entry["missing"] = [m.to_dict() if isinstance(m, Range) else m for m in variable.missing]
        if variable.sum_of:
            entry["sum_of"] = list(variable.sum_of)
        if variable.ratio_of:
            entry["ratio_of"] = list(variable.ratio_of)
            entry["times"] = variable.times or 1
        if variable.order:
            entry["order"] = list(variable.order)
        if variable.labels:
            entry["codes"] = {str(code): text for code, text in variable.labels.items()}
        out.append(entry)
    roles = {r: v for r, v in schema.to_dict()["roles"].items() if r in ("weight", "geography", "strata")}
    return {"records": records, "roles": roles, "columns": out}
