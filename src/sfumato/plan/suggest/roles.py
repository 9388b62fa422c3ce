"""Suggest a schema from the data: roles, codes, sums, ratios. A person edits it afterwards.

>>> import sfumato as sf
>>> found = suggest(sf.decks.housing().with_schema(sf.Schema()))
>>> found.schema.id, found.schema.geography, found.schema.sensitive[:2]
('IDNUM', ('REGION',), ('INCOME', 'HOME_VAL'))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from sfumato.data.microdata import Microdata, as_microdata
from sfumato.data.schema import Schema
from sfumato.plan.suggest import codebooks, words
from sfumato.plan.suggest.areas import find_geography
from sfumato.plan.suggest.design import find_household, find_weight, note_parts, note_person_number
from sfumato.plan.suggest.details import say_relations, with_codes, with_rules
from sfumato.plan.suggest.draft import plan_text
from sfumato.plan.suggest.facts import Facts
from sfumato.plan.suggest.identifiers import beside_names, direct
from sfumato.plan.suggest.keys import find_keys, find_sensitive
from sfumato.plan.suggest.look import Look
from sfumato.plan.suggest.nesting import find_nested
from sfumato.plan.suggest.suggestion import Suggestion

__all__ = ["Suggestion", "plan_text", "suggest"]

_MANY = 30


def suggest(data: Any) -> Suggestion:
    """Look at the data and suggest what each column is.

    Values and names decide together. Most is judged on a sample of at most 50,000 records in ten
    stretches of the file; what must not be claimed wrongly (uniqueness, nesting, sums, ratios, units)
    is checked on all records. What the file's own metadata say is kept.
    """
    microdata = _numbers_read(as_microdata(data))
    with codebooks.opened(microdata.columns):
        return _suggested(microdata)


def _suggested(microdata: Microdata) -> Suggestion:
    look, own = Look(microdata), microdata.schema
    for role in ("id", "household", "weight"):
        if getattr(own, role):
            look.say(getattr(own, role), f"the file's own metadata say that it is the {role}", take=True)
    for key in own.keys:
        look.say(key, "the file's own metadata say that it identifies people", take=True)
    weight = own.weight or find_weight(look)
    household = own.household or find_household(look, weight)
    identity, drop = _identifiers(look, own, household)
    note_person_number(look, household)
    look.taken -= set(own.keys)
    geography = own.geography or find_geography(look)
    note_parts(look, identity)
    nested = find_nested(look, geography, household)
    keys = own.keys or find_keys(look, geography, nested)
    look.taken.update(keys)
    sensitive = own.sensitive or find_sensitive(look, geography, nested)
    schema = Schema(
        id=identity, keys=keys, sensitive=sensitive, geography=geography, household=household, weight=weight,
        strata=own.strata, variables=own.variables,
    )  # fmt: skip
    schema = with_codes(look, schema)
    schema = with_rules(look, schema, drop)
    for fine, coarse in nested.items():
        if not schema[fine].lies_in:
            schema = schema.with_variable(fine, lies_in=coarse)
    say_relations(look, schema)
    gone, plain = _left_over(look, schema, drop, nested)
    drop = (*drop, *gone)
    return Suggestion(
        schema=schema,
        reasons={c: tuple(look.reasons[c]) for c in microdata.columns if c in look.reasons},
        drop=drop,
        types=dict(microdata._types),
        records=len(microdata),
        distinct={c: f.distinct for c, f in look.facts.items()},
        notes=tuple(look.notes),
        design={part: tuple(columns) for part, columns in look.design.items()},
        nested=nested,
        no_role=tuple(plain),
        data=microdata.with_schema(schema),
    )


def _numbers_read(data: Microdata) -> Microdata:
    """Columns of many numbers that a few words break ("N") or that zeros fill up, read as the plan will read
    them."""
    for c in data.columns:
        if data.dtype(c) != pl.String or data.schema[c].missing:
            continue
        facts = Facts(data.frame[c], data.schema[c])
        if facts.broken_by and facts.distinct > _MANY:
            text = pl.col(c).str.strip_chars().str.replace(",", ".", literal=True)
            data = data.with_frame(data.frame.with_columns(text.cast(pl.Float64, strict=False)))
            data = data.with_variable(c, kind="continuous", missing=facts.broken_by)
        elif facts.padded and facts.distinct > _MANY:
            number = pl.col(c).str.strip_chars().cast(pl.Int64, strict=False)
            data = data.with_frame(data.frame.with_columns(number)).with_variable(c, kind="continuous")
    return data


def _identifiers(look: Look, own: Schema, household: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The record's id, and everything that must not be released."""
    found: dict[str, str] = {}
    for c in look.free():
        reason = direct(look.facts[c])
        if reason is not None:
            found[c] = reason
    people = next((c for c, why in found.items() if why.startswith("names of people")), None)
    for c in look.free():
        if people is not None and c not in found and beside_names(look.facts[c]):
            found[c] = f"names, by the column's name and beside {people}"
    for c in look.free():
        if c not in found and _panel_id(look, c, household):
            found[c] = "an id of a person or unit with several records"
    for c in look.free():
        if c not in found and (name := _stands_for(look, c, list(found))):
            found[c] = f"a number for each {name}: whoever knows one knows the other"
    identity = own.id or _identity(look, found)
    for c, reason in found.items():
        look.say(c, reason, take=True)
    listed = [c for c in look.data.columns if c in found or c == identity]
    return identity, tuple(sorted(listed, key=lambda c: c != identity))


def _identity(look: Look, found: dict[str, str]) -> str | None:
    """The column that tells records apart: unique, named as an id or else the first of the unique ones."""
    ids = [c for c in found if look.facts[c].is_code and not look.facts[c].date_texts and look.unique(c)]
    ids = [c for c in ids if "nearly every record" not in found[c] or words.has(c, words.ID)]
    if not ids:
        panel = [c for c in found if "several records" in found[c] or "a number for each" in found[c]]
        return panel[0] if panel else None
    return min(
        ids, key=lambda c: (not words.has(c, words.ID), "people" in found[c], look.data.columns.index(c))
    )


def _panel_id(look: Look, column: str, household: str | None) -> bool:
    """An id that a person's records share: named as one, a few records each, the same sex in all."""
    facts = look.facts[column]
    if not facts.is_code or facts.own.labels or facts.filled < facts.n or not words.has(column, words.ID):
        return False
    if words.key_topic(column) or words.is_area(column) or words.is_money(column) or words.is_weight(column):
        return False
    if words.has(column, words.DESIGN):
        return False
    size = facts.n / max(facts.distinct, 1)
    return 1.02 < size <= 30 and facts.distinct > 50 and (not facts.is_number or facts.digits[1] >= 3)


def _stands_for(look: Look, column: str, found: Sequence[str]) -> str | None:
    """The identifying column of which each value has one value here, and the other way round."""
    facts = look.facts[column]
    if not facts.is_code or facts.distinct < 20 or facts.share_distinct > 0.95:
        return None
    if codebooks.topic(words.words(column)) in ("cluster", "strata"):
        return None
    for name in found:
        other = look.facts[name]
        alike = 0.9 * other.distinct <= facts.distinct <= 2 * other.distinct
        if alike and other.share_distinct < 0.95 and look.nests(name, column):
            return name
    return None


def _left_over(
    look: Look, schema: Schema, drop: Sequence[str], nested: dict[str, tuple[str, ...]]
) -> tuple[list[str], list[str]]:
    """Dates of no role in which nearly every record differs, which are dropped until a person decides; and
    the other columns without a role, which are named."""
    coarser = {c for coarse in nested.values() for c in coarse}
    design = {c for columns in look.design.values() for c in columns}
    single = {schema.id, schema.household, schema.weight, *drop}
    out, plain = [], []
    for column in look.data.columns:
        if column in single or schema.role_of(column) is not None:
            continue
        facts = look.facts[column]
        if look.data.dtype(column) == pl.Null:
            look.say(column, "it holds nothing at all: dropped")
            out.append(column)
        elif facts.is_date and facts.filled >= 20 and facts.share_distinct > 0.5:
            look.say(column, "no role, and nearly every record has its own value: dropped until you decide")
            out.append(column)
        elif column not in design and column not in coarser:
            plain.append(column)
    return out, plain
