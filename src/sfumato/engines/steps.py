"""A step carried out on data that an engine holds, by the operations of an engine alone.

A step that treats records by themselves is fitted in blocks and mapped over the records by their place. Any
other is done at one place with the columns that it reads, by the very code that does it in memory, and what
it changed is put back by place. Either way every record comes out as it would in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import polars as pl

from sfumato.contract.context import Context
from sfumato.contract.engine import Held
from sfumato.contract.guarantees import Check
from sfumato.contract.mask import Fitted, Mask, Notes, RowsMask
from sfumato.data.follow import follow, loose_rules
from sfumato.data.microdata import Microdata
from sfumato.data.rules import rules_of
from sfumato.data.schema import Schema
from sfumato.data.usable import computing
from sfumato.draws import Draws
from sfumato.errors import MaskError


def carry_out(
    mask: Mask, data: Microdata, draws: Draws, context: Context
) -> tuple[Microdata, Notes, list[Check]]:
    """The masked data, the notes and the outcome of every guarantee, wherever the data are."""
    if not isinstance(data, Held):
        return mask.carry_out(data, draws, context)
    mask = mask.given(context)
    mask.admit(data)
    if not len(data):
        return data, Notes(), []
    if isinstance(mask, RowsMask) and mask.locality == "rows":
        return _by_rows(mask, data, draws)
    return _at_one_place(mask, data, draws, context)


# -- records by themselves ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """Masks some records, and lets follow what rules tie to them."""

    fitted: Fitted
    makes: tuple[str, ...]
    loose: frozenset[str]

    def __call__(self, chunk: Microdata, start: int) -> pl.DataFrame:
        new = self.fitted.rows(chunk.only(self.fitted.used), start)
        schema = self.fitted.schema.restricted_to([*chunk.columns, *new.columns])
        after = Microdata(chunk.frame.with_columns(new.get_columns()), schema)
        blanks = not self.fitted.mask.moves_missing
        after, _ = follow(chunk, after, self.fitted.own, blanks=blanks, loose=self.loose)
        return after.select([c for c in self.makes if c in after.columns])


def _by_rows(mask: RowsMask, data: Held, draws: Draws) -> tuple[Microdata, Notes, list[Check]]:
    notes = Notes()
    with computing(data, mask.needs(data), MaskError, mask.name):
        fitted = mask.fit(data, draws, notes)
        touched = mask.touches(data)
        types = mask.types_after(data._types, data.schema)
        made = {c: types[c] for c in touched if c in types}
        loose = loose_rules(data) if rules_of(data.schema) else frozenset()
        work = _Rows(fitted, tuple(made), loose)
        masked = data.map_rows(work, mask.reads(data), made, fitted.schema)
        mask._note_result(data, masked, fitted.state, notes)
    checks = mask.verify(data, masked, notes)
    for column in touched:
        if column not in fitted.own and notes.touched.get(column):
            notes.figure("records_that_followed", notes.touched[column], column)
    return masked, notes, checks


# -- whole columns at one place -------------------------------------------------------------------


@dataclass(frozen=True)
class _Told:
    notes: Notes
    checks: list[Check]
    before: Schema
    after: Schema


@dataclass(frozen=True)
class _Whole:
    """Carries a step out on whole columns."""

    mask: Mask
    draws: Draws
    context: Context

    def __call__(self, data: Microdata) -> tuple[pl.DataFrame, _Told]:
        context, original = self.context, self.context.original
        if isinstance(original, Held):  # read here, where the work is done
            context = replace(context, original=Microdata(original.frame, original.schema))
        masked, notes, checks = self.mask.carry_out(data, self.draws, context)
        new = [c for c in self.mask.touches(data) if c in masked.columns]
        return masked.select(new), _Told(notes, checks, data.schema, masked.schema)


def _at_one_place(
    mask: Mask, data: Held, draws: Draws, context: Context
) -> tuple[Microdata, Notes, list[Check]]:
    notes, checks = Notes(), list[Check]()
    types = mask.types_after(data._types, data.schema)
    current = data
    parts = _parts(mask, data)
    for part in parts:
        columns = part.reads(data)
        told: _Told
        known = context
        if mask.reads_original and context.original is not None:
            there = [c for c in columns if c in context.original.columns]
            known = replace(context, original=context.original.only(there))
        elif isinstance(context.original, Held):
            known = replace(context, original=None)
        made = {c: types[c] for c in part.touches(data) if c in types}
        current, told = current.at_one_place(_Whole(part, draws, known), columns, made)
        current = current.with_schema(_with_changes(current.schema, told.before, told.after))
        notes.add(told.notes)
        checks += told.checks
    if len(parts) > 1:
        # Each part's promises were judged on its columns, and one that fails is an error: together they are
        # the step's.
        checks = [Check(g.describe(), True) for g in mask.guarantees(data)]
    return current, notes, checks


def _parts(mask: Mask, data: Held) -> Sequence[Mask]:
    """The step in parts, unless one of them reads what another changes."""
    parts = mask.apart(data)
    changed = [set(p.touches(data)) for p in parts]
    for at, part in enumerate(parts):
        others = set().union(*changed[:at], *changed[at + 1 :])
        if others & set(part.reads(data)):
            return (mask,)
    return parts


def _with_changes(schema: Schema, before: Schema, after: Schema) -> Schema:
    """A schema with what a step changed in that of its columns."""
    for column in {*before.variables, *after.variables}:
        one, two = before[column], after[column]
        differs: dict[str, Any] = {
            f.name: getattr(two, f.name) for f in fields(two) if getattr(one, f.name) != getattr(two, f.name)
        }
        if differs:
            schema = schema.with_variable(column, **differs)
    return schema
