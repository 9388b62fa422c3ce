"""What follows when a step changes a column that a rule ties to others: the one place for every mask.

A part was changed: the total is added up again, so that it gives nobody the old part back. A member
was suppressed: a second one in the same record has to go with it (complementary suppression). A total
that is masked by itself can't be kept secret, since its parts add up to it: :func:`alone` says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.data.rules import Rule, SumOf, judgeable, rules_of, strict, undefined, values_of
from sfumato.data.schema import Schema
from sfumato.errors import MaskError

_EXACT = 2**53


def followers(schema: Schema, columns: Sequence[str], *, blanks: bool = False) -> tuple[str, ...]:
    """The columns, beyond these, that change when these do; with ``blanks``, that may be suppressed.

    >>> schema = Schema(variables={"ALL": {"sum_of": ["SUB", "C"]}, "SUB": {"sum_of": ["A", "B"]}})
    >>> followers(schema, ["A"]), followers(schema, ["A"], blanks=True)
    (('SUB', 'ALL'), ('SUB', 'ALL', 'B', 'C'))
    """
    changed = dict.fromkeys(columns)
    rules = rules_of(schema)
    for rule in rules:
        if any(p in changed for p in rule.parts):
            changed[rule.result] = None
    size = 0
    while blanks and size != len(changed):
        size = len(changed)
        for rule in rules:
            if any(m in changed for m in rule.members):
                changed |= dict.fromkeys(rule.members)
    return tuple(c for c in changed if c not in columns)


def alone(schema: Schema, columns: Sequence[str], dropped: Sequence[str] = ()) -> list[Rule]:
    """The rules whose result is among these columns, but none of its parts: they would give it back."""
    changed = {*columns, *followers(schema, columns)}
    return [
        rule
        for rule in rules_of(schema)
        if rule.result in columns
        and not rule.residual
        and not changed & set(rule.parts)
        and not set(rule.members) & set(dropped)
    ]


def loose_rules(data: Microdata) -> frozenset[str]:
    """The results that hold more than their parts in some record of the file (or were declared to)."""
    rules = [r for r in rules_of(data.schema) if judgeable(data, r)]
    return frozenset(r.result for r in rules if not strict(data, r))


def followed_schema(before: Microdata, after: Microdata) -> Schema:
    """The schema after a step: a rule one of whose members is no number any more is forgotten."""
    schema = after.schema
    for rule in rules_of(before.schema):
        if judgeable(before, rule) and not judgeable(after, rule) and rule.result in after.columns:
            schema = schema.with_variable(rule.result, sum_of=(), ratio_of=(), times=None)
    return schema


def follow(
    before: Microdata,
    after: Microdata,
    named: Sequence[str],
    *,
    blanks: bool = True,
    loose: frozenset[str] | None = None,
) -> tuple[Microdata, dict[str, int]]:
    """The masked data with every rule kept, and in how many records each column had to follow.

    ``named`` are the columns that the step masks by its own method. Where a rule held in a record, its
    result is computed again from the masked parts; where it didn't (a residual, something missing), the
    result moves as its parts did. A rule one of whose members is no number any more is forgotten. ``blanks``:
    a missing value may be a suppressed one; else it is another record's, and gives nothing back. Of a part
    of a file, ``loose`` says what :func:`loose_rules` found in the whole.
    """
    kept = [r for r in rules_of(before.schema) if judgeable(before, r) and judgeable(after, r)]
    if not kept and not rules_of(before.schema):
        return after, {}
    after = after.with_schema(followed_schema(before, after))
    counts: dict[str, int] = {}
    for rule in kept:
        moved = _changed(before, after, rule.parts)
        if moved.any():
            is_loose = not strict(before, rule) if loose is None else rule.result in loose
            after = _computed(rule, before, after, named, counts, moved, loose=is_loose)
    for _ in kept if blanks else ():
        done = dict(counts)
        for rule in kept:
            after = _complement(rule, before, after, named, counts)
        if counts == done:
            break
    return after, counts


def _changed(before: Microdata, after: Microdata, columns: Sequence[str]) -> BoolArray:
    out = np.zeros(len(before), dtype=np.bool_)
    for column in columns:
        one, two = before.column(column), after.column(column)
        if one.dtype != two.dtype:
            one, two = one.cast(pl.Float64), two.cast(pl.Float64)
        out |= one.ne_missing(two).to_numpy()
    return out


def _computed(
    rule: Rule,
    before: Microdata,
    after: Microdata,
    named: Sequence[str],
    counts: dict[str, int],
    moved: BoolArray,
    *,
    loose: bool,
) -> Microdata:
    """The result computed again in the records where a part changed."""
    if loose and rule.result in named:
        return after  # the step has its own way with a total that holds more than its parts
    old, new = values_of(before, rule.members), values_of(after, rule.members)
    held = rule.holds(old)
    there = np.logical_and.reduce([np.isfinite(new[m]) for m in rule.members])
    # Also where the step changed the result alone: its parts would give it back.
    rows = held & there & ~rule.holds(new)
    result = rule.solve(rule.result, new)
    if loose and isinstance(rule, SumOf):
        # A total beyond its parts moves as much as they do.
        rest = moved & ~held & there & before.eligible(rule.result)
        shift = rule.solve(rule.result, new) - rule.solve(rule.result, old)
        result = np.where(rest, old[rule.result] + shift, result)
        rows |= rest
    # A ratio that has lost its denominator has no value; one that has got one has a value now. Else the
    # gaps would tell whose denominator was zero.
    was_none = undefined(rule, old) & ~np.isfinite(old[rule.result])
    none = (held | was_none) & moved & undefined(rule, new) & np.isfinite(new[rule.result])
    rows |= was_none & moved & np.logical_and.reduce([np.isfinite(new[p]) for p in rule.parts])
    rows &= np.isfinite(result)
    if not (rows | none).any():
        return after
    counts[rule.result] = counts.get(rule.result, 0) + int((rows | none).sum())
    series = after.column(rule.result)
    if rows.any():
        series = _in_type(series, rows, result, rule)
    return after.with_columns({rule.result: _blanked(series, none) if none.any() else series})


def _blanked(series: pl.Series, rows: BoolArray) -> pl.Series:
    blank = pl.select(pl.when(pl.Series(rows)).then(None).otherwise(pl.lit(series))).to_series()
    return blank.rename(series.name)


def _in_type(series: pl.Series, rows: BoolArray, values: FloatArray, rule: Rule) -> pl.Series:
    dtype, fresh = series.dtype, values[rows]
    if dtype.is_integer():
        fresh = np.rint(fresh)
        if np.abs(fresh).max(initial=0) > _EXACT:
            raise MaskError(
                f"{rule} has whole numbers beyond 2^53, which can't be added up exactly",
                hint="is one of them an identifier? else take the rule out of the schema and drop a member",
            )
    try:
        new = (
            pl.Series(fresh).cast(pl.Int64).cast(dtype)
            if dtype.is_integer()
            else pl.Series(fresh).cast(dtype)
        )
    except pl.exceptions.InvalidOperationError:
        raise MaskError(
            f"{rule.result} is {dtype}, which can't hold {rule} of the masked values",
            hint=f"read {rule.result} as a wider type",
        ) from None
    if dtype.is_float() and not np.isfinite(new.to_numpy()).all():
        raise MaskError(
            f"{rule.result} is {dtype}, which can't hold {rule} of the masked values",
            hint=f"read {rule.result} as a wider type",
        )
    return series.clone().scatter(np.flatnonzero(rows).astype(np.uint64), new).rename(series.name)


def _complement(
    rule: Rule, before: Microdata, after: Microdata, named: Sequence[str], counts: dict[str, int]
) -> Microdata:
    """Suppress a second member where one alone was: else the others give it back."""
    gone = {m: after.missing(m) for m in rule.members}
    single = np.sum(list(gone.values()), axis=0) == 1
    if not single.any():
        return after
    single &= rule.holds(values_of(before, rule.members))
    single &= ~undefined(rule, values_of(after, rule.members))
    free = [m for m in rule.members if m not in named]
    order = [rule.result] if rule.result in free else []
    order += [p for p in reversed(rule.parts) if p in free]
    order += [m for m in (rule.result, *reversed(rule.parts)) if m not in order]
    for member in order:
        rows = single & ~gone[member]
        if not rows.any():
            continue
        after = after.with_columns({member: _blanked(after.column(member), rows)})
        counts[member] = counts.get(member, 0) + int(rows.sum())
        single &= ~rows
    return after
