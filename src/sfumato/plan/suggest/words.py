"""What column names say: words of surveys, censuses and registers, in the languages of Europe.

A name is a hint, never a proof: :mod:`sfumato.plan.suggest.roles` looks at the values as well. Accents
and case don't count (``Straße``, ``STRASSE`` and ``strasse`` are one word). A word list has whole words,
beginnings (``educ-``) and endings (``-einkommen``); beginnings have four letters and endings five at
least, so that ``PARENT`` isn't a rent.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sfumato.plan.suggest import codebooks, vocabulary

_PARTS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_]+", re.UNICODE)
_LETTERS: Final = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i"})


def plain(text: str) -> str:
    """Lower case without accents.

    >>> plain("Wykształcenie"), plain("AÑO"), plain("Straße")
    ('wyksztalcenie', 'ano', 'strasse')
    """
    return _bare(text.casefold().translate(_LETTERS))


def _bare(text: str) -> str:
    """Without accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """The words of a column name; the whole name, and neighbours joined, are among them.

    >>> words("eqIncome"), words("marital-status")
    (('eqincome', 'eq', 'income'), ('marital-status', 'maritalstatus', 'marital', 'status'))
    >>> words("Családi állapot")
    ('csaladi allapot', 'csaladiallapot', 'csaladi', 'allapot')
    """
    parts = [plain(p) for p in _PARTS.findall(_bare(name))]
    joined = ["".join(pair) for pair in itertools.pairwise(parts)]
    return tuple(dict.fromkeys([plain(name), *joined, *parts]))


@dataclass(frozen=True)
class Words:
    """A list of words: whole ones, beginnings and endings."""

    whole: frozenset[str]
    beginnings: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Words:
        """``"age educ- -einkommen"``: a whole word, a beginning and an ending."""
        listed = text.split()
        return cls(
            frozenset(w for w in listed if not w.startswith("-") and not w.endswith("-")),
            tuple(w[:-1] for w in listed if w.endswith("-")),
            tuple(w[1:] for w in listed if w.startswith("-")),
        )

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and (
            word in self.whole
            or (len(word) > 3 and word.startswith(self.beginnings))
            or (len(word) > 4 and word.endswith(self.endings))
        )

    def begins(self, word: str) -> bool:
        """Whether a whole word of four letters or more stands before one or two further letters: EDADSP."""
        return any(len(word) - cut > 3 and word[:-cut] in self.whole for cut in (1, 2))

    def found(self, names: Iterable[str]) -> bool:
        return any(w in self for w in names)


def _listed(topic: str) -> Words:
    return Words.of(vocabulary.load()["names"][topic])


ID: Final = _listed("id")
NATIONAL: Final = _listed("national")
PERSON_NAMES: Final = _listed("person_names")
NAMES: Final = _listed("names")
CONTACT: Final = _listed("contact")
COORDINATE: Final = _listed("coordinate")
COMMENT: Final = _listed("comment")
HOUSEHOLD: Final = _listed("household")
WEIGHT: Final = _listed("weight")
NOT_A_WEIGHT: Final = _listed("not_a_weight")
AREA: Final = _listed("area")
LIVING_IN: Final = _listed("living_in")
URBAN: Final = _listed("urban")
PLACE_NAME: Final = _listed("place_name")
WAVE: Final = _listed("wave")
DESIGN: Final = _listed("design")
COUNT: Final = _listed("count")
AGE: Final = _listed("age")
BIRTH: Final = _listed("birth")
SEX: Final = _listed("sex")
RACE: Final = _listed("race")
CITIZEN: Final = _listed("citizen")
MARITAL: Final = _listed("marital")
EDUCATION: Final = _listed("education")
WORK: Final = _listed("work")
FAMILY_ROLE: Final = _listed("family_role")
LANGUAGE: Final = _listed("language")
HOUSING: Final = _listed("housing")
OTHER_KEY: Final = _listed("other_key")
MONEY: Final = _listed("money")
PRIVATE: Final = _listed("private")
HOURS: Final = _listed("hours")
MEASURE: Final = _listed("measure")
CODE_OF: Final = _listed("code_of")
ORDERED: Final = _listed("ordered")
PERSONS: Final = _listed("persons")
GROUPS: Final = Words.of("social caste tribe community")

_KEY_TOPICS: Final[dict[str, Words]] = {
    "sex": SEX, "age": AGE, "birth": BIRTH, "race or origin": RACE, "citizenship or country": CITIZEN,
    "marital status": MARITAL, "education": EDUCATION, "work": WORK, "family": FAMILY_ROLE,
    "language or religion": LANGUAGE, "housing": HOUSING, "town or country": URBAN, "other": OTHER_KEY,
}  # fmt: skip


def has(name: str, vocabulary: Words) -> bool:
    return vocabulary.found(words(name))


def key_topic(text: str) -> str | None:
    """What others could know of a person, by a column's name.

    >>> key_topic("Wykształcenie"), key_topic("ESTADO_CIVIL"), key_topic("bogus")
    ('education', 'marital status', None)
    """
    said = words(text)
    found = codebooks.topic(said)
    if found is not None:
        return found if found in _KEY_TOPICS or found == "household size" else None
    for topic, listed in _KEY_TOPICS.items():
        if listed.found(said):
            return topic
    for topic, listed in _KEY_TOPICS.items():
        if any(listed.begins(w) for w in said):
            return topic
    if COUNT.found(said) and (HOUSEHOLD.found(said) or FAMILY_ROLE.found(said) or PERSONS.found(said)):
        return "household size"
    return None


def prefixed_topic(name: str) -> str | None:
    """What stands behind one to four letters of a survey's own: ``TAGE``, ``EEDUC``, ``PTDTRACE``. A weak
    hint: ``WAGE`` is no age, so that values must bear it out.

    >>> prefixed_topic("TESEX"), prefixed_topic("EEDUC"), prefixed_topic("BALANCE")
    ('sex', 'education', None)
    """
    bare = plain(name).rstrip("0123456789_")
    if not bare.isalpha():
        return None
    for cut in (1, 2, 3, 4):
        rest = bare[cut:]
        for topic, listed in _PREFIXED.items():
            if rest in listed or (len(rest) > 3 and rest.startswith(tuple(w for w in listed if len(w) > 3))):
                return topic
    return None


_PREFIXED: Final[dict[str, tuple[str, ...]]] = {
    "sex": ("sex", "sexe", "sexo", "gender"), "age": ("age",),
    "race or origin": ("race", "raceth", "hisp", "hispan"),
    "marital status": ("maritl", "marital", "marst", "marstat"), "education": ("educ",),
    "citizenship or country": ("citizen", "natvty", "citshp"), "work": ("occup", "industry"),
}  # fmt: skip


def is_money(name: str) -> bool:
    """Whether a name speaks of money: by its words, or by the names that surveys give to amounts."""
    said = words(name)
    known = codebooks.topic(said)
    if known is not None:
        return known == "money"
    lower = said[0]
    silc = re.match(r"^[ph]y\d{3}[ng]?$", lower)
    tail = len(lower) > 4 and lower.endswith(("val", "inc", "amt"))
    return bool(silc) or tail or MONEY.found(said)


def is_private(name: str) -> bool:
    """Whether a name speaks of money, health, opinions, offences or what else is nobody's business."""
    said = words(name)
    known = codebooks.topic(said)
    if known is not None:
        return known in ("money", "private")
    return is_money(name) or PRIVATE.found(said)


def is_hours(name: str) -> bool:
    """Whether a name speaks of hours, weeks, days or another length of time."""
    said = words(name)
    known = codebooks.topic(said)
    return known == "hours" if known is not None else HOURS.found(said)


def is_weight(name: str) -> bool:
    said = words(name)
    known = codebooks.topic(said)
    if known is not None:
        return known == "weight"
    lower = said[0]
    if NOT_A_WEIGHT.found(said):
        return False
    return WEIGHT.found(said) or "weight" in lower or "wgt" in lower or bool(re.match(r"^w\d{1,3}$", lower))


def is_area(name: str) -> bool:
    said = words(name)
    known = codebooks.topic(said)
    if known is not None:
        return known == "area"
    return AREA.found(said)
