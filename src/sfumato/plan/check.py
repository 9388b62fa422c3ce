"""A look at the data before anything is done to them: do they fit what the schema says?

>>> import polars as pl, sfumato as sf
>>> data = sf.Microdata(pl.DataFrame({"K": [None, None]}, schema={"K": pl.Int64}), sf.Schema(keys=["K"]))
>>> print(data_problems(data)[0].message)
the key K is missing in all 2 records
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.data.rules import RatioOf, Rule, count_broken_sums, rules_of, values_of
from sfumato.errors import Problem, SchemaError, counted


def data_problems(data: Microdata) -> list[Problem]:
    """Everything in the data that the schema doesn't allow (errors) or that is odd (warnings)."""
    out: list[Problem] = []
    if not len(data):
        return [Problem(0, "the file has no records", "there is nothing to mask")]
    schema = data.schema
    keys = [*schema.keys, *schema.geography, *schema.strata]
    gone = data.aggregate(lambda block, _: {k: bool(block.missing(k).all()) for k in keys}, keys)
    for key in keys:
        if all(part[key] for part in gone):
            word = "key" if key in schema.keys else "column"
            message = f"the {word} {key} is missing in all {counted(len(data), 'record')}"
            out.append(Problem(0, message, "take it out of the roles, or mend the missing codes"))
    named = set(schema.named_columns())
    floats = [c for c in data.columns if data.dtype(c).is_float()]
    ends = data.aggregate(lambda block, start: {c: _infinite(block, c, start) for c in floats}, floats)
    for column in floats:
        n, row = sum(p[column][0] for p in ends), min(p[column][1] for p in ends)
        if n:
            message = (
                f"{column} is infinite in {counted(int(n), 'record')} (the first is record {int(row):,})"
            )
            hint = "replace the infinities by nulls or by a missing code"
            severity = "error" if column in named else "warning"
            out.append(Problem(0, message, hint, severity))
    mixed = [c for c in _numbers_said(data) if data.dtype(c) == pl.String]
    out += data.at_once(_vet_whole_columns)
    for total, components in schema.sums.items():
        if {total, *components} & set(mixed):
            continue
        try:
            off = count_broken_sums(data, total, components)
        except SchemaError as problem:
            out.append(Problem(0, problem.message, problem.hint))
            continue
        if off and not schema[total].residual:
            parts = ", ".join(components)
            message = f"{total} isn't the sum of {parts} in {off:,} of {counted(len(data), 'record')}"
            hint = f"mend the rule, or say `residual = true` under variables.{total} if a part has no column"
            out.append(Problem(0, message, hint))
    out += _vet_ratios(data, mixed)
    return out


def _vet_whole_columns(data: Microdata) -> list[Problem]:
    """Text among numbers, ids that aren't unique, weights, areas that don't nest."""
    schema = data.schema
    out = [_text_in_numbers(data, c) for c in _numbers_said(data) if data.dtype(c) == pl.String]
    if schema.id is not None:
        doubled = _doubled(data, schema.id)
        if doubled and schema.household is None and not _panel(data, schema.id):
            message = f"the id {schema.id} isn't unique: {doubled:,} records share one with another"
            out.append(Problem(0, message, "a household id goes to the role `household`", "warning"))
    if schema.weight is not None:
        out += _vet_weight(data, schema.weight)
    out += _vet_nesting(data)
    return out


def _infinite(block: Microdata, column: str, start: int) -> tuple[float, float]:
    """How many values of a block are infinite, and the number of the first of these records."""
    rows = block.column(column).is_infinite().arg_true()
    return len(rows), start + int(rows[0]) + 1 if len(rows) else math.inf


def _holds_somewhere(rule: Rule) -> Callable[[Microdata, int], bool]:
    return lambda block, _: bool(rule.holds(values_of(block, rule.members)).any())


_MOST_WAVES: Final = 60


def _panel(data: Microdata, name: str) -> bool:
    """Whether most ids have several records that another column of few values tells apart: its waves.

    A few ids that stand twice by mistake are told apart by nearly any column."""
    ids = data.column(name)
    counts = ids.value_counts()["count"].to_numpy()
    most = int(counts.max(initial=1))
    if most > _MOST_WAVES or 2 * int((counts > 1).sum()) <= counts.size:
        return False
    for column in data.columns:
        values = data.column(column)
        whole = values.dtype.is_integer() or values.dtype in (pl.String, pl.Date, pl.Boolean)
        if column == name or not whole or not most <= values.n_unique() <= _MOST_WAVES:
            continue
        if pl.DataFrame([ids, values]).n_unique() == len(data):
            return True
    return False


def _doubled(data: Microdata, name: str) -> int:
    """How many records share an id with an earlier one. Ids that rise through the file are told apart in
    passing: a table of all of them may take more memory than the rest of the run."""

    def rising(block: Microdata, _start: int) -> tuple[Any, Any] | None:
        ids = block.column(name)
        plain = ids.dtype.is_integer() or ids.dtype == pl.String
        if not plain or ids.null_count() or not (ids.slice(1) > ids.slice(0, len(ids) - 1)).all():
            return None
        return ids[0], ids[-1]

    ends = data.aggregate(rising, [name])
    rise = [e for e in ends if e is not None]
    if len(rise) == len(ends) and all(one[1] < two[0] for one, two in itertools.pairwise(rise)):
        return 0
    ids = data.column(name)
    if ids.dtype.is_integer() and not ids.null_count():
        ordered = np.sort(ids.to_numpy())
        return int(np.count_nonzero(ordered[1:] == ordered[:-1]))
    return len(data) - ids.n_unique()


def _vet_ratios(data: Microdata, mixed: list[str]) -> list[Problem]:
    """A ratio that holds nowhere is a mistake; one that holds in some records is kept in those."""
    out = []
    for rule in rules_of(data.schema):
        if not isinstance(rule, RatioOf) or set(rule.members) & set(mixed):
            continue
        try:
            holds = data.aggregate(_holds_somewhere(rule), rule.members)
        except SchemaError as problem:
            out.append(Problem(0, problem.message, problem.hint))
            continue
        if not any(holds):
            hint = (
                f"mend `ratio_of` (or `times`) under variables.{rule.result}, or say to which `unit` it is "
                "rounded"
            )
            out.append(Problem(0, f"{rule} holds in no record", hint))
    return out


def _numbers_said(data: Microdata) -> list[str]:
    """The columns that the schema takes for numbers: by their kind, a unit, numeric codes or a sum."""
    schema = data.schema
    tied = {c for total, parts in schema.sums.items() for c in (total, *parts)}
    out = []
    for column in data.columns:
        variable = schema[column]
        coded = any(getattr(variable, name) is not None for name in ("unit", "top", "bottom"))
        if variable.kind == "continuous" or coded or column in tied:
            out.append(column)
    return out


def _text_in_numbers(data: Microdata, column: str) -> Problem:
    text = data.column(column)
    # A file with decimal commas keeps them where one word made the whole column text.
    numbers = text.str.strip_chars().str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    bad = (numbers.is_null() & text.is_not_null() & ~pl.Series(data.missing(column))).arg_true()
    rows = ", ".join(f"{int(r) + 1:,}" for r in bad[:5])
    more = f" and {len(bad) - 5:,} more" if len(bad) > 5 else ""
    message = (
        f"{column} should hold numbers, but has text in {counted(len(bad), 'record')} (records {rows}{more})"
    )
    return Problem(0, message, "mend these records, or say which codes mean missing")


def _vet_weight(data: Microdata, weight: str) -> list[Problem]:
    if not data.is_numeric(weight):
        return [Problem(0, f"the weight {weight} isn't a number")]
    values = data.numbers(weight)
    gone, negative = int(np.isnan(values).sum()), int((values < 0).sum())
    out = []
    if gone:
        out.append(Problem(0, f"the weight {weight} is missing in {counted(gone, 'record')}"))
    if negative:
        out.append(Problem(0, f"the weight {weight} is negative in {counted(negative, 'record')}"))
    return out


def _pairs(coarse: str, fine: str) -> Callable[[Microdata, int], pl.DataFrame]:
    """The codes of two levels that occur together, where both are known."""

    def look(block: Microdata, _start: int) -> pl.DataFrame:
        there = pl.Series(~(block.missing(coarse) | block.missing(fine)))
        return block.select([coarse, fine]).filter(there).drop_nulls().unique()

    return look


def _vet_nesting(data: Microdata) -> list[Problem]:
    """Each finer code must lie in one coarser code, of areas and where ``lies_in`` says so."""
    out = []
    areas_ = data.schema.geography
    pairs = list(itertools.pairwise(areas_))
    pairs += [(w, c) for c, v in data.schema.variables.items() for w in v.lies_in]
    for coarse, fine in pairs:
        if coarse not in data.columns or fine not in data.columns:
            continue
        what = "geography" if fine in areas_ and coarse in areas_ else "hierarchy"
        areas = pl.concat(data.aggregate(_pairs(coarse, fine), [coarse, fine])).unique()
        split = areas.group_by(fine).agg(pl.col(coarse).sort()).filter(pl.col(coarse).list.len() > 1)
        if split.height:
            value, parents = split.sort(fine).row(0)
            where = ", ".join(str(p) for p in parents[:3])
            message = (
                f"the {what} doesn't nest: {split.height:,} values of {fine} lie in several of {coarse} "
                f"(for example {value} in {where})"
            )
            hint = f"make the codes of {fine} unique, for instance by putting {coarse} in front of them"
            out.append(Problem(0, message, hint))
    return out
