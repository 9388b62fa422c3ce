"""The details of each column: its kind, missing, top and bottom codes, its unit, its sums and ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from sfumato.data.schema import Schema
from sfumato.plan.suggest import lexicon, words
from sfumato.plan.suggest.codes import codes_of, unit_of
from sfumato.plan.suggest.ends import is_top_code
from sfumato.plan.suggest.look import Look
from sfumato.plan.suggest.partial import find_partial_sums
from sfumato.plan.suggest.ratios import find_ratios
from sfumato.plan.suggest.sums import find_sums
from sfumato.stats.relations import relations

_MOST_TEXTS: Final = 1_000
_MANY_NUMBERS: Final = 60
_FEW: Final = 12
_OFFERED: Final = 10
_ORDERED: Final = ("age", "birth", "household size")


def with_codes(look: Look, schema: Schema) -> Schema:
    """Kinds of the keys, codes of every column, units of the amounts."""
    skip = {schema.id, schema.household, schema.weight, *look.design.get("replicate weights", ())}
    for column in look.data.columns:
        if column in skip:
            continue
        details = _details(look, schema, column)
        if details:
            schema = schema.with_variable(column, **details)
    coded = look.data.with_schema(schema)
    for column in schema.sensitive:
        unit = unit_of(coded, column) if schema[column].unit is None else None
        if unit is not None:
            plain = int(unit) if unit.is_integer() else unit
            schema = schema.with_variable(column, unit=plain)
            look.say(column, f"all values are multiples of {plain:g}")
    return schema


def _details(look: Look, schema: Schema, column: str) -> dict[str, Any]:
    own, facts = schema[column], look.facts[column]
    out: dict[str, Any] = {}
    dtype = look.data.dtype(column)
    if own.kind is None and facts.is_number and column in (*schema.keys, *schema.geography):
        ordered = (
            words.has(column, words.ORDERED)
            or words.key_topic(column) in _ORDERED
            or facts.looks_like_age
            or facts.looks_like_year
        )
        out["kind"] = "ordinal" if ordered and not own.labels else "categorical"
    elif own.kind is None and column in schema.sensitive and facts.whole and facts.distinct <= 12:
        out["kind"] = "categorical"
    words_in_numbers = (
        [m for m in own.missing if isinstance(m, str)] if dtype.is_numeric() else facts.broken_by
    )
    if words_in_numbers:
        said = ", ".join(repr(t) for t in words_in_numbers)
        look.say(column, f"numbers, but for {said}: missing or not applicable, and nothing in the release")
        if not own.missing:
            out["missing"] = facts.broken_by
    elif dtype.is_numeric():
        out |= _numeric_codes(look, schema, column)
    elif facts.is_text and not own.missing and facts.distinct <= _MOST_TEXTS:
        gone = missing_texts(facts.known.cast(pl.String).unique().sort().to_list())
        if gone:
            out["missing"] = gone
            look.say(column, f"looks missing: {', '.join(repr(t) for t in gone)}")
    return out


def missing_texts(texts: list[str]) -> tuple[str, ...]:
    """Those texts that stand for nothing, where others are left.

    NA among two-letter codes is a code: Naples, Namibia.

    >>> missing_texts(["no", "nie dotyczy", "yes", "?"]), missing_texts(["MI", "NA", "RM", "TO"])
    (('nie dotyczy', '?'), ())
    """
    gone = [t for t in texts if lexicon.is_missing_text(words.plain(t))]
    gone += [t for t in (*_nines(texts), *_word_among_digits(texts)) if t not in gone]
    rest = [t for t in texts if t not in gone]
    if not rest:
        return ()
    size = len(rest[0].strip())
    coded = len(rest) >= 3 and all(
        len(t.strip()) == size and t.strip().isupper() and t.isalpha() for t in rest
    )
    if coded:
        gone = [t for t in gone if not (t.isalpha() and t.isupper() and len(t) == size)]
    return tuple(gone)


def _word_among_digits(texts: list[str]) -> list[str]:
    """The only letters among codes of digits of one length: not in universe, not stated.

    >>> codes = ["01", "02", "03", "04", "05"]
    >>> _word_among_digits([*codes, "N"]), _word_among_digits([*codes, "2A"])
    (['N'], [])
    """
    strange = [t for t in texts if not t.strip().isdigit()]
    sizes = {len(t.strip()) for t in texts if t.strip().isdigit()}
    if len(strange) != 1 or len(sizes) != 1 or len(texts) < 6 or max(sizes) < 2:
        return []
    word = strange[0].strip()
    return strange if word.isalpha() and len(word) <= 3 and word.isascii() else []


def _nines(texts: list[str]) -> list[str]:
    """Nines among letters (A, B, 9), or far above other digits (000, 001, 999): nothing is known.

    >>> _nines(["H", "L", "M", "9"]), _nines(["000", "001", "003", "999"]), _nines(["7", "8", "9"])
    (['9'], ['999'], [])
    """
    bare = [t.strip() for t in texts]
    nines = [t for t, b in zip(texts, bare, strict=True) if b and set(b) == {"9"}]
    others = [b for b in bare if b and set(b) != {"9"}]
    if len(nines) != 1 or len(others) < 2:
        return []
    if all(b.isalpha() for b in others):
        return nines
    size = len(nines[0].strip())
    if size < 2 or not all(b.isdigit() and len(b) == size for b in others):
        return []
    return nines if max(int(b) for b in others) < 0.9 * 10**size else []


def _numeric_codes(look: Look, schema: Schema, column: str) -> dict[str, Any]:
    own = schema[column]
    out: dict[str, Any] = {}
    if own.missing and own.top is not None and own.bottom is not None:
        return out
    age = words.key_topic(column) == "age" or look.facts[column].looks_like_age
    codes = codes_of(look.sample[column], dict(own.labels), age=age)
    missing, top = list(codes.missing), codes.top
    if top is not None and not age and schema.household not in (None, column):
        # What a household's records (or implicates) repeat is one value, not a heap.
        once = look.sample.select([schema.household, column]).unique(maintain_order=True)[column]
        top = codes_of(once, dict(own.labels)).top
    if words.key_topic(column) == "language or religion" or words.has(column, words.GROUPS):
        missing = [(c, why) for c, why in missing if c != 9 or "stands apart" not in why]  # all others
    high = [c for c, why in missing if "stands apart above" in why]
    if high and is_top_code(look, column, [float(c) for c in high]):
        missing = [(c, why) for c, why in missing if c not in high]
        top = (float(min(high)), f"{float(min(high)):g} stands above all other values, with records that are "
               "high in other columns too")  # fmt: skip
    if missing and not own.missing and _some_left(look, column, [c for c, _ in missing]):
        out["missing"] = tuple(c for c, _ in missing)
        for _, reason in missing:
            look.say(column, f"looks missing: {reason}")
    measured = column in schema.sensitive or age
    for end, found in (("top", top), ("bottom", codes.bottom)):
        if found is not None and getattr(own, end) is None and not own.labels and measured:
            out[end] = int(found[0]) if float(found[0]).is_integer() else found[0]
            look.say(column, f"{end} code: {found[1]}")
    return out


def say_relations(look: Look, schema: Schema) -> None:
    """Offer equalities and orders between numbers that nobody declared, as comments."""
    data = look.data.with_schema(schema)
    skip = {schema.id, schema.household, schema.weight, *schema.geography}
    numeric = [c for c in data.columns if data.is_numeric(c) and c not in skip and not schema[c].labels]
    if len(numeric) > _MANY_NUMBERS:
        return
    tied = [frozenset((t, *parts)) for t, parts in (schema.sums | schema.ratios).items()]
    for one in relations(data, numeric, tied)[:_OFFERED]:
        look.say(one.small, f"{one}; {one.hint}")


def _some_left(look: Look, column: str, codes: Sequence[Any]) -> bool:
    left = look.sample[column].drop_nulls()
    return bool((~left.is_in(list(codes))).any()) if len(left) else False


def with_rules(look: Look, schema: Schema, drop: Sequence[str]) -> Schema:
    """Sums and ratios among the numbers."""
    data = look.data.with_schema(schema)
    replicates = look.design.get("replicate weights", ())
    skip = {schema.id, schema.household, schema.weight, *schema.geography, *drop, *replicates}
    numeric = [c for c in data.columns if data.is_numeric(c) and c not in skip and not schema[c].labels]
    if len(numeric) > _MANY_NUMBERS:  # then answers of a few codes aren't tried as parts
        numeric = [c for c in numeric if look.facts[c].distinct > _FEW]
    exact = {t: p for t, p in find_sums(data, numeric).items() if not schema[t].sum_of}
    for total, parts in exact.items():
        schema = schema.with_variable(total, sum_of=parts)
        look.say(total, f"the exact sum of {', '.join(parts)} in every record that has them all")
    rest = [c for c in numeric if c not in exact]
    tied = {c for t, parts in exact.items() for c in parts}
    for total, found in find_partial_sums(data, numeric, [*exact, *schema.sums]).items():
        if total in tied and any(total in exact.get(p, ()) or p in exact for p in found.parts):
            continue
        schema = schema.with_variable(total, sum_of=found.parts, residual=True)
        share = f"{min(found.share, 0.9999):.2%}"  # never all: then it is an exact sum
        said = f"the sum of {', '.join(found.parts)} in {share} of the records"
        look.say(total, f"{said}; what is left over is kept as a residual")
    free = [c for c in rest if c not in schema.sums]
    for column, one in find_ratios(look.data.with_schema(schema), free, numeric).items():
        if not schema[column].ratio_of:
            ratio = one.ratio
            rule = {"ratio_of": ratio.parts, "times": None if ratio.times == 1 else ratio.times}
            # A share of 1 is no top code.
            schema = schema.with_variable(column, **rule, unit=ratio.unit, top=None, bottom=None)
            look.say(
                column, f"{ratio} in {one.share:.1%} of the records: it follows them when they are masked"
            )
    # What is added up or divided by is a number, whatever its name says (employees are no occupation).
    for part in {p for parts in (*schema.sums.values(), *schema.ratios.values()) for p in parts}:
        if schema[part].kind == "categorical" and look.data.schema[part].kind is None:
            schema = schema.with_variable(part, kind="ordinal" if part in schema.keys else None)
    return schema
