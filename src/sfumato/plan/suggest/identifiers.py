"""Columns that lead to a person or a firm by themselves: names, numbers, contacts, remarks.

Values decide: e-mail addresses and telephone numbers by their form, people by given names, record
numbers by being unique and spread as nobody's money is, remarks by their length. A column's name
helps where values leave a doubt.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sfumato.plan.suggest import lexicon, words
from sfumato.plan.suggest.facts import Facts

_LEAST: Final = 20
_FEW: Final = 12


def direct(facts: Facts) -> str | None:
    """Why a column must not be released, None where nothing is seen against it.

    >>> import polars as pl
    >>> from sfumato.data.schema import Variable
    >>> mails = pl.Series("kontakt", [f"{n}@example.org" for n in range(30)])
    >>> direct(Facts(mails, Variable()))
    'e-mail addresses'
    """
    if facts.filled < 2 or facts.distinct < 2:
        return None
    if facts.is_text and not facts.broken_by:
        return _text(facts) if not facts.date_texts else None
    if facts.is_number:
        return _number(facts)
    return None


def _text(facts: Facts) -> str | None:
    name, many = facts.name, facts.distinct
    if facts.emails > 0.5:
        return "e-mail addresses"
    if facts.phones > 0.8 and many > _FEW and facts.share_distinct > 0.3:
        return "numbers such as telephones have, or national numbers"
    if words.has(name, words.NATIONAL) and many > _FEW and facts.longest_digits > 0.3:
        return "national or tax numbers, by their name and form"
    if facts.longest_digits > 0.9 and facts.share_distinct > 0.5 and many > _FEW:
        return "long numbers, nearly each of them once"
    contacts = max(facts.emails, facts.phones)
    if contacts > 0.01 and contacts * len(facts.texts) >= 2 and facts.words_each > 1:
        return "texts among which are telephone numbers or e-mail addresses"
    area = words.is_area(name)
    if (
        facts.given_names > 0.4
        and facts.letters > 0.6
        and many > (4 if facts.given_names > 0.6 else _FEW)
        and not area
    ):
        return "names of people: most hold a usual given name"
    remarks = words.has(name, words.COMMENT) and not facts.own.labels
    several = facts.people * len(facts.texts) >= (1 if remarks else 2) and facts.people > 0.005
    if several and facts.words_each >= 1.5 and not area and not facts.own.labels:
        return "texts in which people are named"
    nearly = facts.filled >= _LEAST and facts.share_distinct > (0.9 if area else 0.5)
    if area:
        return _NEARLY if nearly else None
    firms = sum(bool(lexicon.NOT_A_PERSON.intersection(t.split())) for t in facts.plain_texts)
    if firms > 0.1 * len(facts.texts) and many > 30 and facts.words_each >= 1.5:
        return "names of firms or bodies"
    if remarks and (facts.words_each >= 1.5 or many > _FEW) and not _place_or_work(name):
        return "remarks, which may name anybody"
    if words.has(name, words.PERSON_NAMES) and facts.letters > 0.6 and not facts.own.labels:
        return "names of people, by the column's name"
    label = f"{name} {facts.own.label or ''}"
    said = next((w for w, v in _VOCABULARY.items() if words.has(label, v)), None)
    if (
        said is not None
        and (many > _FEW or facts.share_distinct > 0.5)
        and not facts.own.labels
        and not _place_or_work(name)
    ):
        return f"{said}, by the column's name"
    if facts.words_each >= 4 and many > 30 and facts.share_distinct > 0.2:
        return "free text"
    return _NEARLY if nearly else None


_NEARLY: Final = "nearly every record has its own value: dropped until you decide"
_VOCABULARY: Final = {
    "names": words.NAMES, "addresses or contacts": words.CONTACT, "national numbers": words.NATIONAL,
}  # fmt: skip


def beside_names(facts: Facts) -> bool:
    """Whether a text is somebody's name where another column holds people's names: ``nom`` beside ``prenom``,
    however few there are of it."""
    return (
        facts.is_text and facts.distinct > 1 and facts.letters > 0.6 and not facts.own.labels
        and words.plain(facts.name) in words.NAMES and not _place_or_work(facts.name)
    )  # fmt: skip


def _place_or_work(name: str) -> bool:
    """``state name``, ``nom de la commune``, ``occupation description`` name no person."""
    return words.is_area(name) or words.key_topic(name) is not None


def _number(facts: Facts) -> str | None:
    """Whole numbers that tell records apart: unique or nearly, and not spread as amounts are."""
    v = facts.counted[0]
    if (
        words.has(facts.name, words.COORDINATE)
        and facts.decimals >= 2
        and len(v) > _FEW
        and abs(v).max() <= 180
    ):
        return "coordinates, by their name: they lead to a door"
    if not facts.whole or len(v) < 2 or v[0] < 0 or facts.own.labels or facts.looks_like_day:
        return None
    name = facts.name
    low, high = facts.digits
    national = words.has(name, words.NATIONAL) and high >= 7
    contact = words.has(name, words.CONTACT) and high >= 7
    if (national or contact) and facts.share_distinct > 0.5:
        return "national numbers, telephones or accounts, by their name and length"
    if words.is_money(name) and not words.has(name, words.ID):
        return None
    if words.is_weight(name) or facts.looks_like_year or facts.decimals:
        return None
    if facts.filled < _LEAST or facts.share_distinct < 0.95:
        return None
    # Amounts are skewed, heaped at round numbers, and have few digits here and many there.
    dense = (v[-1] - v[0] + 1) / len(v)
    named = words.has(name, words.ID)
    alone = facts.distinct == facts.filled and facts.filled == facts.n
    if dense < 1.5 and len(v) >= _LEAST and alone:
        return "an id: its values run from first to last nearly without a gap"
    if named and alone and facts.round_share < 0.5:
        return "an id: no two records share it"
    if low == high >= 5 and facts.round_share < 0.35 and facts.zeros == 0 and _unlike_amounts(facts):
        return f"numbers of {high} digits, nearly each of them once, spread as ids are"
    if alone and facts.ascending and facts.round_share < 0.35 and facts.even_spread < 0.3 and high >= 3:
        return "an id: no two records share it, and the records stand in its order"
    if alone and high >= 5 and facts.even_spread < 0.05 and facts.round_share < 0.35:
        return "an id: no two records share it, and its values are spread evenly"
    return None


def _unlike_amounts(facts: Facts) -> bool:
    """Spread evenly, or in blocks (areas, years) that begin with the same digits; or very long."""
    v = facts.numbers
    if facts.digits[1] >= 9 or facts.even_spread < 0.15:
        return True
    heads = np.floor(v / 10.0 ** max(facts.digits[1] - 3, 1))
    return len(np.unique(heads)) < 0.2 * min(len(v), 900)
