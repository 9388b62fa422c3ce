"""Both files of an evaluation: with roles, read alike, paired where that is known; and people outside."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from sfumato.contract.own_list import as_classes
from sfumato.data.differences import changed
from sfumato.data.microdata import IntArray, Microdata, as_microdata
from sfumato.data.schema import Schema
from sfumato.errors import InputError, SfumatoError
from sfumato.foreign.pairs import by_id, have_in_common, in_place
from sfumato.foreign.reading import Reading, read_alike
from sfumato.io import read
from sfumato.plan.suggest.roles import suggest
from sfumato.risk.closest_record import compared

LEAST: Final = 20
"""Fewer matched records than this say nothing of a file."""


def data_of(given: Any, which: str) -> Microdata:
    if isinstance(given, (str, os.PathLike)):
        given = read(given)
    data = as_microdata(given)
    if not len(data):
        raise InputError(f"the {which} file has no records")
    return data


def with_roles(data: Microdata, roles: Schema | None, id: str | None) -> tuple[Microdata, list[str]]:
    """The original with somebody's roles, its own, or those that its values and names suggest."""
    notes: list[str] = []
    if roles is not None:
        data = data.with_schema(roles)
    elif not data.schema.keys and not data.schema.sensitive:
        found = suggest(data).schema
        data = data.with_schema(found)
        notes.append(
            "roles were proposed, since none were given: keys "
            f"{', '.join(dict.fromkeys([*found.keys, *found.geography])) or 'none'}; "
            f"sensitive {', '.join(found.sensitive) or 'none'}"
        )
    if id is not None and id in data.columns and data.schema.id != id:
        data = data.with_roles(id=id)
    return data, notes


def holdout_of(given: Any, reading: Reading, notes: list[str]) -> Microdata:
    """People who were never in the release, in the original's types and with all columns of the release."""
    others = read_alike(reading.original, data_of(given, "holdout")).released
    lost = [c for c in reading.shared if c not in others.columns and c != reading.original.schema.id]
    if lost:
        raise InputError(f"the holdout has no column {lost[0]!r}", hint="it needs the original's columns")
    if len(others) < LEAST:
        raise InputError(f"the holdout has {len(others)} records; at least {LEAST} are needed")
    shared = [c for c in reading.shared if c in others.columns]
    mine = reading.original.select([c for c in shared if c != reading.original.schema.id])
    if (
        mine.join(others.select(mine.columns), on=mine.columns, how="semi", nulls_equal=True).height
        > len(mine) // 2
    ):
        raise InputError(
            "most records of the original stand in the holdout too",
            hint="a holdout has people whom the release never saw",
        )
    notes.append(f"{len(others):,} people of the holdout were never in the release")
    return others


@dataclass(frozen=True)
class Files:
    """Both files, row by row the same person's where ``paired``."""

    original: Microdata
    released: Microdata
    shared: tuple[str, ...]
    paired: bool
    ordered: bool
    """Whether the release has the records in the original's order."""


def paired_files(reading: Reading, id: str | None, synthetic: bool, notes: list[str]) -> Files:
    one, two = reading.original, reading.released
    if synthetic:
        return Files(one, two, reading.shared, paired=False, ordered=False)
    mark = id or (one.schema.id if one.schema.id in two.columns else None)
    columns = [c for c in reading.shared if c != one.schema.id]
    links: IntArray | None
    if mark is not None:
        try:
            links = by_id(one, two, mark)
            said = f"{mark} says whose record is whose"
        except SfumatoError:
            if id is not None:
                raise
            links, said = in_place(one, two, columns)
    else:
        links, said = in_place(one, two, columns)
    if links is not None and mark is not None and not _true(one, two, links, columns):
        said = (
            f"the records that {mark} puts together have nothing in common: they were numbered anew, or are "
            "nobody's any more; whose record is whose isn't known"
        )
        links = None
    notes.append(said)
    if links is None:
        return Files(one, two, reading.shared, paired=False, ordered=False)
    rows = np.flatnonzero(links >= 0)
    lost, strange = len(one) - len(rows), len(two) - len(rows)
    if lost:
        notes.append(f"{lost:,} persons of the original have no released record, and aren't looked for")
    if strange:
        notes.append(f"{strange:,} released records are nobody's in the original, and aren't compared")
    if len(rows) < LEAST:
        raise InputError(f"only {len(rows)} records belong together; at least {LEAST} are needed")
    ordered = bool((np.diff(links[rows]) > 0).all())
    if ordered:
        notes.append("the records are released in their original order, which leads back to the source")
    return Files(
        one.with_frame(one.frame[rows]),
        two.with_frame(two.frame[links[rows]]),
        reading.shared,
        paired=True,
        ordered=ordered,
    )


def _true(one: Microdata, two: Microdata, links: IntArray, columns: Sequence[str]) -> bool:
    rows = np.flatnonzero(links >= 0)
    mine, theirs = one.with_frame(one.frame[rows]), two.with_frame(two.frame[links[rows]])
    return have_in_common(as_classes(mine, theirs), theirs, columns)


def left_in(files: Files, id: str | None) -> list[str]:
    """Numbers of persons and households that the file to be handed out still has as they were.

    A column that was named as the id is there for this evaluation, and is taken to be dropped.
    """
    schema = files.original.schema
    marks = [c for c in (schema.id, schema.household) if c is not None and c != id and c in files.shared]
    return [c for c in marks if _share_within(files.released.column(c), files.original.column(c)) > 0.5]


def attackable(files: Files) -> tuple[str, ...]:
    """The columns that say something of people and can be compared: not ids, not weights."""
    schema = files.original.schema
    apart = {schema.id, schema.household, schema.weight}
    out = tuple(c for c in compared(files.original, files.released) if c in files.shared and c not in apart)
    if not out:
        raise InputError("the files have no column in common that could be compared")
    return out


def touched(files: Files) -> dict[str, int]:
    """In how many records each column changed; of records that are nobody's, in all, unless a column of text
    that is nobody else's (a name) holds the original's values."""
    out = {}
    for column in files.shared:
        one, two = files.original.column(column), files.released.column(column)
        if files.paired:
            out[column] = len(two) if one.dtype != two.dtype else changed(one, two)
        else:
            text = two.dtype == pl.String and one.dtype == pl.String
            own = text and _share_within(two, one) > 0.5
            out[column] = 0 if own else len(two)
    return out


def _share_within(released: pl.Series, original: pl.Series) -> float:
    """The share of these values that the original has."""
    there = original.cast(pl.String).unique().drop_nulls().implode()
    held = released.cast(pl.String).drop_nulls().is_in(there)
    return float(held.sum()) / max(len(held), 1)
