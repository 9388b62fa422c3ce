"""What the measures of key combinations share: which keys, which key sets, and their table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from sfumato.cells import CellTable, combinations_up_to
from sfumato.cells.cells import Cells, Missing
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema
from sfumato.errors import Problem, did_you_mean

MAX_SETS: Final = 200_000
MISSING_DOC: Final = (
    'How a missing key value is counted: "matches_anything" (as mu-ARGUS and sdcMicro do) or as a '
    '"category" of its own.'
)

PARTIAL_DOC: Final = (
    "How much a match counts that rests on another record's missing key value: 1 as any other (the "
    "default), 0 not at all (sdcMicro's alpha)."
)


def chosen_keys(keys: Sequence[str], key_sets: Sequence[Sequence[str]], schema: Schema) -> tuple[str, ...]:
    """The keys given; else those that the key sets name; else the schema's."""
    if keys:
        return tuple(keys)
    if key_sets:
        return tuple(dict.fromkeys(k for s in key_sets for k in s))
    return schema.keys


def chosen_sets(
    keys: Sequence[str], key_sets: Sequence[Sequence[str]], max_dimension: int | None
) -> list[tuple[str, ...]]:
    """The key sets given; else all combinations up to a dimension; else the one of all keys."""
    if key_sets:
        return [tuple(s) for s in key_sets]
    if max_dimension is not None:
        return combinations_up_to(keys, max_dimension)
    return [tuple(keys)]


def check_keys(
    keys: Sequence[str], key_sets: Sequence[Sequence[str]], schema: Schema, types: Mapping[str, Any]
) -> list[Problem]:
    """What is wrong with keys and key sets: none at all, a name that isn't a key, a name twice."""
    out: list[Problem] = []
    if not chosen_keys(keys, key_sets, schema):
        return [Problem(0, "no key was named", "give `keys`, or name them under [roles] keys")]
    known = set(keys) if keys else {*schema.keys, *schema.geography}
    for key_set in key_sets:
        if not key_set:
            out.append(Problem(0, "`key_sets` has an empty key set", parameter="key_sets"))
        if len(set(key_set)) < len(key_set):
            out.append(Problem(0, f"the key set {' × '.join(key_set)} names a key twice"))
        strange = [k for k in key_set if k in types and known and k not in known]
        out += [
            Problem(
                0,
                f"the key set {' × '.join(key_set)} names {k!r}, which isn't a key",
                f"{did_you_mean(k, sorted(known))}; or add it to the keys",
            )
            for k in strange
        ]
    return out


def check_sensitive(keys: Sequence[str], sensitive: Sequence[str], schema: Schema) -> list[Problem]:
    """What is wrong with the sensitive columns: none at all, or one that is a key too."""
    names = sensitive or schema.sensitive
    if not names:
        return [Problem(0, "no sensitive column was named", "give `sensitive`, or name them as a role")]
    both = set(keys or schema.keys) & set(names)
    return [Problem(0, f"{name} can't be a key and a sensitive column at once") for name in sorted(both)]


def check_dimension(keys: Sequence[str], max_dimension: int | None) -> list[Problem]:
    """Too many combinations to be of use to anybody."""
    top = min(max_dimension or 0, len(keys))
    many = sum(math.comb(len(keys), d) for d in range(1, top + 1))
    if many <= MAX_SETS:
        return []
    return [
        Problem(
            0,
            f"{len(keys)} keys have {many:,} combinations of up to {max_dimension}, more than {MAX_SETS:,}",
            "an intruder knows few keys at once: lower `max_dimension`, or name the key sets",
        )
    ]


def key_table(data: Microdata, keys: Sequence[str], missing: str, weight: str | None = None) -> CellTable:
    convention: Missing = "category" if missing == "category" else "matches_anything"
    return CellTable.of(data, keys, weight=weight, missing=convention)


def key_notes(table: Cells) -> list[str]:
    """What to know of the keys before quoting a count."""
    out = []
    for j, key in enumerate(table.keys):
        levels = len(table.levels[key])
        if levels <= 1 and not table.has_missing[j]:
            out.append(f"{key} is constant: it tells an intruder nothing and changes no count")
        elif levels > table.records / 2 and levels > 100:
            out.append(f"{key} has {levels:,} levels in {table.records:,} records: nearly an identifier")
    if any(table.has_missing):
        out.append(f"missing key values: {table.missing.replace('_', ' ')}")
    return out


def default_levels(keys: Sequence[str], geography: Sequence[str], most: int = 64) -> list[tuple[str, ...]]:
    """The class levels of Table 7: the geography with every set of the other keys, the finest first.

    Where there are more than ``most`` such sets, only those with one or two other keys, and all.

    >>> len(default_levels(["REGION", "BEDROOMS", "BATHS", "YR_BLT"], ["REGION"]))
    7
    """
    fixed = tuple(k for k in keys if k in geography)
    others = [k for k in keys if k not in geography]
    if not others:
        return [fixed]
    sizes: Sequence[int] = range(len(others), 0, -1)
    if 2 ** len(others) - 1 > most:
        sizes = [len(others), 2, 1]
    return [fixed + part for size in sizes for part in combinations(others, size)]
