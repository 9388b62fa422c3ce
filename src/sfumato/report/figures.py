"""A step's figures as tables: single numbers, numbers by column, and tables of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_ROWS = 40


def arranged(figures: Mapping[str, Any]) -> dict[str, Any]:
    """``single`` (name → value), ``by`` (tables with a row a column of the file), ``tables`` (lists of rows).

    >>> arranged({"n": 3, "rate": {"A": 1, "B": 2}, "ranks": {"A": 5, "B": 6}})["by"]
    [{'columns': ['', 'rate', 'ranks'], 'rows': [['A', 1, 5], ['B', 2, 6]], 'all': 2}]
    """
    single: dict[str, Any] = {}
    alike: dict[tuple[str, ...], dict[str, Any]] = {}
    tables: list[dict[str, Any]] = []
    for name, value in figures.items():
        word = name.replace("_", " ")
        if (
            isinstance(value, Mapping)
            and value
            and not any(isinstance(v, (Mapping, list)) for v in value.values())
        ):
            alike.setdefault(tuple(value), {})[word] = value
        elif isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
            heads = list(dict.fromkeys(k for row in value for k in row))
            rows = [[row.get(h) for h in heads] for row in value[:MOST_ROWS]]
            tables.append({"name": word, "columns": heads, "rows": rows, "all": len(value)})
        else:
            single[word] = value
    by = [
        {
            "columns": ["", *found],
            "rows": [[key, *(values[key] for values in found.values())] for key in keys[:MOST_ROWS]],
            "all": len(keys),
        }
        for keys, found in alike.items()
    ]
    return {"single": single, "by": by, "tables": tables}
