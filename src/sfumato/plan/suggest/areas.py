"""Areas, by name and by value, and the chain in which they nest from coarse to fine."""

from __future__ import annotations

import re
from typing import Final

from sfumato.plan.suggest import codebooks, lexicon, words
from sfumato.plan.suggest.facts import Facts
from sfumato.plan.suggest.look import Look

_MOST: Final = 5_000
_SHORT_LABEL: Final = 3
_COUNTRIES: Final = 260
_NUTS: Final = re.compile(r"^[A-Z]{2}[0-9A-Z]{1,3}$")
_POSTAL: Final = re.compile(
    r"^(\d{2}-\d{3}|[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|\d{4}-\d{3}|\d{4} ?[A-Z]{2}|0\d{4})$"
)


def find_geography(look: Look) -> tuple[str, ...]:
    """Areas from coarse to fine: the longest chain in which every area lies in one coarser area."""
    named = {c: why for c in look.free() if (why := _area(look, c)) is not None}
    there = sorted(named, key=lambda c: look.facts[c].distinct)
    chains: dict[str, tuple[str, ...]] = {}
    for fine in there:
        before = [chains[c] for c in chains if look.facts[c].distinct < look.facts[fine].distinct]
        before = [chain for chain in before if look.nests(chain[-1], fine)]
        chains[fine] = (*max(before, key=len, default=()), fine)
    # A code that begins anew in each coarser area (tract 1, 2, 3 of every state) names no area by itself.
    whole = {f: c for f, c in chains.items() if not any(_begins_anew(look, k, f) for k in there if k != f)}
    # Of equally long chains, the one whose last areas are the most: a sub-code repeats its few values.
    best = max((whole or chains).values(), key=lambda c: (len(c), look.facts[c[-1]].distinct), default=())
    best = _with_codes_within(look, best)
    for place, column in enumerate(best):
        where = f"; each lies in one {best[place - 1]}" if place else ""
        look.say(column, f"an area, {named.get(column, 'by how it nests')}: "
                 f"{look.facts[column].distinct:,} values{where}")  # fmt: skip
    for column in there:
        if column not in best:
            look.say(column, "an area, but its codes don't nest in the other areas")
    look.other_areas = [c for c in there if c not in best]
    return best


def _begins_anew(look: Look, coarse: str, fine: str) -> bool:
    """Whether most codes of ``fine`` occur in most areas of ``coarse``, which has fewer values."""
    many, few = look.facts[fine].distinct, look.facts[coarse].distinct
    if not 3 <= few < many or many * few > look.sample.height / 2:
        return False
    return look.sample.select([coarse, fine]).drop_nulls().n_unique() > 0.6 * many * few


def _named(look: Look, column: str) -> bool:
    """Whether the name, or a short label, speaks of an area."""
    label = look.facts[column].own.label or ""
    short = 0 < len(label.split()) <= _SHORT_LABEL and not words.has(label, words.PLACE_NAME)
    return words.is_area(column) or (short and words.is_area(label))


def _area(look: Look, column: str) -> str | None:
    facts = look.facts[column]
    named = _named(look, column)
    share = 0.9 if named else 0.5
    few = 2 <= facts.distinct <= min(_MOST, max(2, int(share * facts.n)))
    if not few or not facts.is_code or words.is_money(column) or words.is_weight(column):
        return None
    topic = words.key_topic(column)
    if words.plain(column) in words.LIVING_IN and facts.distinct <= _COUNTRIES:
        return "the country, by its name"
    if topic in ("citizenship or country", "birth", "town or country") or words.has(column, words.PLACE_NAME):
        return None
    if words.has(column, words.COUNT) and not words.has(column, words.CODE_OF) and facts.whole:
        return None
    if named and topic in (None, "housing", "other", "work", "family"):
        return "by its name"
    if topic is None and (why := _by_values(facts)):
        return why
    return None


def _by_values(facts: Facts) -> str | None:
    """Areas of which the values are known: regions by name, NUTS and postal codes."""
    said = [t.split(" ")[0] for t in facts.said]
    if len(said) >= 3 and sum(t in lexicon.AREAS for t in said) > 0.6 * len(said):
        return "by the names of its values"
    if not facts.is_text or facts.own.labels or facts.distinct < 5:
        return None
    texts = facts.texts.to_list()
    nuts = [bool(_NUTS.match(t)) and t[:2].lower() in lexicon.COUNTRY_CODES for t in texts]
    if sum(nuts) > 0.9 * len(texts) and any(ch.isdigit() for t in texts for ch in t):
        return "by its values, which are NUTS codes"
    if sum(bool(_POSTAL.match(t.strip())) for t in texts) > 0.9 * len(texts):
        return "by its values, which are postal codes"
    low = {t.strip().casefold() for t in texts}
    upper = all(len(t.strip()) == 2 and t.strip().isupper() for t in texts if t.strip())
    if (
        upper
        and len(low) >= 8
        and (
            len(low & lexicon.US_STATES) > 0.9 * len(low)
            or len(low & lexicon.ITALIAN_PROVINCES) > 0.9 * len(low)
        )
    ):
        return "by its values, which are codes of states or provinces"
    return None


def _with_codes_within(look: Look, chain: tuple[str, ...]) -> tuple[str, ...]:
    """Codes that begin with the code of the finest area and go on: areas within it, whatever their name."""
    if not chain:
        return chain
    last = chain[-1]
    for c in look.free():
        facts, coarse = look.facts[c], look.facts[last]
        if c in chain or not facts.is_code or facts.own.labels or not coarse.is_code:
            continue
        if codebooks.topic(words.words(c)) or words.has(c, words.DESIGN) or words.has(c, words.HOUSEHOLD):
            continue
        if (
            not coarse.distinct < facts.distinct <= look.sample.height / 4
            or words.key_topic(c)
            or words.is_money(c)
        ):
            continue
        if facts.is_number != coarse.is_number or coarse.distinct < 3 or not _begins_with(look, last, c):
            continue
        if look.nests(last, c):
            return (*chain, c)
    return chain


def _begins_with(look: Look, coarse: str, fine: str) -> bool:
    import polars as pl

    pairs = look.sample.select([coarse, fine]).drop_nulls().unique()
    if look.facts[fine].is_number:
        pairs = pairs.select(pl.col(coarse, fine).cast(pl.Int64, strict=False)).drop_nulls()
    text = pairs.select(pl.all().cast(pl.String))
    longer = text[fine].str.len_chars() > text[coarse].str.len_chars()
    begins = text.select(pl.col(fine).str.starts_with(pl.col(coarse))).to_series()
    return bool(len(text)) and bool((begins & longer).all())
