"""Keys (what others could know of a person) and sensitive columns (what nobody should learn).

A key has few enough values to be shared, and is known by its name, by its values (sexes, marital
states, schooling, ages, years of birth, countries) or by the words of its codes. Codes are not
amounts: whole numbers of few levels, with labels, or of one length that nobody rounded.
"""

from __future__ import annotations

import re
from typing import Final

from sfumato.plan.suggest import lexicon, words
from sfumato.plan.suggest.facts import Facts
from sfumato.plan.suggest.look import Look
from sfumato.plan.suggest.nesting import is_band

_FEW: Final = 30
_MANY: Final = 30
_MOST_VALUES: Final = 1_000
_FEWEST_KEYS: Final = 3
_FILL_UP_TO: Final = 4
_LEAST_HOURS: Final = 8


def find_keys(look: Look, geography: tuple[str, ...], nested: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The keys in the file's order; of columns that nest, the finest alone."""
    coarser = {c for coarse in nested.values() for c in coarse} | set(geography[:-1])
    found: dict[str, str] = {}
    for c in look.free():
        reason = _why_key(look, c) if c not in coarser else None
        if reason is None and not words.is_private(look.label(c)):
            above = [k for k in nested.get(c, ()) if _why_key(look, k) or not is_band(look, k, c)]
            reason = f"codes that lie in those of {', '.join(above)}" if above else None
        if reason is not None:
            found[c] = reason
    for c in (*geography[-1:], *look.other_areas):
        if c not in coarser:
            found.setdefault(c, "")
    if len(found) < _FEWEST_KEYS:
        others = [c for c in look.free() if c not in found and c not in coarser and _few(look, c)]
        for c in others[: _FILL_UP_TO - len(found)]:
            found[c] = f"it has few values ({look.facts[c].distinct}), so that it may be known"
    for c, reason in found.items():
        if reason:
            look.say(c, reason)
    return tuple(c for c in look.data.columns if c in found)


def _few(look: Look, column: str) -> bool:
    facts = look.facts[column]
    return (
        2 <= facts.distinct <= _FEW and facts.is_code and facts.distinct <= look.sample.height / 4
        and not words.is_private(look.label(column)) and not facts.is_date
    )  # fmt: skip


def _why_key(look: Look, column: str) -> str | None:
    facts, n = look.facts[column], look.facts[column].distinct
    topic = words.key_topic(column) or (words.key_topic(facts.own.label) if facts.own.label else None)
    if n < 2 or not facts.filled:
        return None
    by_day = facts.looks_like_day or facts.dtype.is_temporal()
    if n > max(look.sample.height / 2, 2) and not (topic in ("age", "birth") and by_day):
        return None
    if topic is None and not words.is_money(column):
        topic = _prefixed(facts)
    if topic in ("age", "birth") and (facts.is_number or facts.is_date or facts.is_text):
        if words.is_money(column) and not facts.whole:
            return None
        return f"{topic}, known from outside; {n:,} values"
    by_value = _topic_of_values(facts)
    if words.is_money(column) and by_value in (None, "age", "a year"):
        return None
    if words.is_private(column) and not words.is_money(column) and topic in (None, "other"):
        return None
    if words.is_hours(column) and facts.is_number:
        return None
    if topic is not None and n <= _MOST_VALUES and (facts.is_code or n <= _FEW or topic == "housing"):
        if facts.is_number and _measured(facts) and topic in ("work", "family", "other", "housing"):
            return None
        return f"{topic}, known from outside, by its name; {n:,} values"
    if by_value is not None:
        return f"{by_value}, by its values; {n:,} of them"
    return None


def _prefixed(facts: Facts) -> str | None:
    """What a name says behind a survey's own prefix, where the values bear it out."""
    topic = words.prefixed_topic(facts.name)
    if topic is None or not facts.is_code or facts.own.labels:
        return None
    if topic == "age":
        v = facts.counted[0]
        return topic if facts.whole and len(v) >= 20 and 0 <= v[0] <= 25 and 40 <= v[-1] <= 120 else None
    return topic if facts.distinct <= (4 if topic == "sex" else 60) else None


def _measured(facts: Facts) -> bool:
    """Numbers that measure rather than code: fractions, or a wide skewed range of many values."""
    if not facts.whole:
        return facts.distinct > _FEW
    low, high = facts.digits
    coded = looks_coded(facts) or _only_code(facts.name, facts) or low == high >= 2
    return facts.distinct > 200 and not coded


def looks_coded(facts: Facts) -> bool:
    """Whether whole numbers are codes: labelled, few, or all of one length and not rounded."""
    if facts.own.labels:
        return True
    if not facts.whole:
        return False
    low, high = facts.digits
    one_length = low == high >= 3 and facts.round_share < 0.4 and facts.distinct < facts.filled / 3
    return one_length and not facts.looks_like_year


def _topic_of_values(facts: Facts) -> str | None:
    """What the values themselves tell: sexes, marital states, schooling, origin, work, countries, ages."""
    if facts.looks_like_age:
        return "age"
    if facts.looks_like_year and facts.distinct >= 15:
        return "a year"
    said = facts.said
    if not said or facts.distinct > 300:
        return None
    there = set(said)
    if 2 <= len(there) <= 4 and any(set(pair.split()) <= there for pair in lexicon.SEXES):
        return "sex"
    if len(there) < 3:
        return None
    for topic, pattern, share in (
        ("marital status", lexicon.MARITAL, 0.5),
        ("race or origin", lexicon.RACES, 0.5),
        ("education", lexicon.SCHOOLING, 0.5),
        ("work", lexicon.WORKING, 0.5),
    ):
        if facts.matches(pattern) >= share:
            return topic
    if len(there & lexicon.COUNTRIES) >= max(3, 0.3 * len(there)):
        return "country"
    codes = facts.is_text and all(len(t) == 2 for t in there)
    if codes and len(there) >= 5 and len(there & lexicon.COUNTRY_CODES) > 0.9 * len(there):
        return "country"
    return None


def find_sensitive(
    look: Look, geography: tuple[str, ...], nested: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Amounts, continuous numbers, and private codes; of columns that nest, the finest alone."""
    out = []
    coarser = {c for coarse in nested.values() for c in coarse}
    for c in look.free():
        reason = _why_sensitive(look, c)
        if reason is not None and c not in geography and c not in coarser:
            look.say(c, reason, take=True)
            out.append(c)
    return tuple(out)


def _why_sensitive(look: Look, column: str) -> str | None:
    facts = look.facts[column]
    n = facts.distinct
    money = words.is_money(column) or bool(facts.own.label and words.is_money(facts.own.label))
    private = words.is_private(column) and not money
    if n < 2 or facts.is_date:
        return None
    if facts.is_number and not facts.own.labels:
        if money and n >= 5:
            return f"an amount, by its name; {n:,} values"
        if private and n > _FEW:
            return f"a private number, by its name; {n:,} values"
        if words.is_hours(column) and n >= _LEAST_HOURS:
            return f"a length of time, by its name; {n:,} values"
        if n > _MANY and not looks_coded(facts) and not _only_code(column, facts):
            return f"a continuous number: {n:,} values"
        if not facts.whole and n > 12:
            return f"a number with fractions: {n:,} values"
    if facts.is_text and facts.distinct >= 5 and _diagnoses(facts):
        return "diagnoses, by the form of its codes"
    if (private or money) and facts.is_code and n <= 200 and n <= look.sample.height / 2:
        return "private, by its name"
    return None


_ICD: Final = re.compile(r"[A-TV-Z]\d{2}(\.?\d{1,2})?")


def _diagnoses(facts: Facts) -> bool:
    """Codes of the international classification of diseases: a letter, two digits, perhaps more."""
    texts = facts.texts.to_list()
    letters = {t[:1] for t in texts}
    return sum(bool(_ICD.fullmatch(t)) for t in texts) > 0.9 * len(texts) and len(letters) >= 3


def _only_code(column: str, facts: Facts) -> bool:
    coded = words.plain(column).endswith(("code", "codes", "_kod", "codigo", "codice", "_cod"))
    return facts.whole and (coded or words.is_area(column))
