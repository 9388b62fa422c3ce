"""What column names say: words of surveys, censuses and registers.

A name is a hint, never a proof: :mod:`sfumato.plan.suggest.roles` looks at the values as well.
"""

from __future__ import annotations

import re
from typing import Final

_PARTS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_]+", re.UNICODE)

# EU-SILC's names are numbers; the rest is common to English-language files.
ID: Final = frozenset(
    {"id", "idnum", "ident", "identifier", "recid", "recno", "serial", "serialno", "pid", "caseid", "case",
     "control", "respid", "respondent", "passengerid", "personid", "persid", "uuid", "guid", "rowid", "ssn",
     "seqno", "rb030"}
)  # fmt: skip
DIRECT: Final = frozenset(
    {"name", "surname", "firstname", "lastname", "forename", "email", "mail", "phone", "telephone", "address",
     "street", "ssn", "passport", "iban"}
)  # fmt: skip
HOUSEHOLD: Final = frozenset(
    {"hid", "hhid", "hhnum", "hhno", "hh", "household", "famid", "family", "hseq", "db030", "serialno"}
)  # fmt: skip
WEIGHT: Final = frozenset(
    {"w", "wt", "wgt", "wght", "weight", "weights", "wgtp", "pwgtp", "perwt", "hhwt", "fnlwgt", "afnlwgt",
     "rb050", "db090"}
)  # fmt: skip
NOT_A_WEIGHT: Final = frozenset({"lbs", "lb", "kg", "pounds", "kilograms", "body", "grams"})
GEOGRAPHY: Final = frozenset(
    {"region", "division", "state", "st", "fips", "province", "county", "district", "municipality", "commune",
     "town", "city", "village", "tract", "block", "blkgroup", "blockgroup", "puma", "zip", "zipcode",
     "postcode", "postal", "nuts", "area", "db040"}
)  # fmt: skip
DESIGN: Final = frozenset(
    {"psu", "ssu", "stratum", "strata", "cluster", "person", "lineno", "line", "seq", "pos", "ffpos",
     "pernum"}
)  # fmt: skip
KEY: Final = frozenset(
    {"age", "sex", "gender", "race", "ethnic", "ethnicity", "etni", "hispanic", "marital", "marstat",
     "hhcivil", "civil", "educ", "education", "school", "occupation", "occ", "occu", "citizenship", "citizen",
     "nationality", "native", "country", "birth", "born", "religion", "language", "relat", "relationship",
     "hsize", "persons", "np", "rooms", "bedrooms", "baths", "bathrooms", "built", "blt", "yr", "year",
     "tenure", "ten", "urbrur", "urban", "rural", "workclass", "class", "industry", "employed", "employment",
     "eco", "children", "under", "pclass", "sib", "parch", "embarked", "key", "hht", "noc", "ybl", "bdsp",
     "rmsp", "veh", "hhl", "rb090", "pl030", "pb220a", "kindpers", "agehh", "agep", "schl"}
)  # fmt: skip
MONEY: Final = (
    "income", "wage", "salar", "earn", "tax", "price", "rent", "mortg", "asset", "debt", "saving", "expend",
    "expense", "cost", "fare", "pension", "dividend", "interest", "profit", "revenue", "turnover", "amount",
    "charity", "alimony", "money", "wealth", "loan", "spend", "exptotal",
)  # fmt: skip
MONEY_WORDS: Final = frozenset(
    {"inc", "val", "value", "amt", "pay", "agi", "fica", "hincp", "valp", "rntp", "mrgp", "grntp", "smocp",
     "benefit", "benefits", "unemployment", "social", "farm"}
)  # fmt: skip
PRIVATE: Final = ("disease", "diagnos", "illness", "hiv", "survived", "criminal", "offence")
AGE: Final = frozenset({"age", "agep", "agehh"})
ORDERED: Final = frozenset(
    {"age", "educ", "education", "yr", "year", "built", "blt", "rooms", "bedrooms", "baths", "hsize",
     "persons", "np", "children", "num", "under", "n"}
)  # fmt: skip
MISSING_TEXT: Final = frozenset(
    {"?", ".", "na", "n/a", "unknown", "missing", "refused", "not stated", "no answer", "don't know", "dk"}
)  # fmt: skip
_MISSING_LABEL: Final = re.compile(
    r"\b(miss(ing)?|unknown|refus\w*|no answer|not (stated|asked|ascertained)|don'?t know|DK|NA|N/A|coding "
    r"error|inapplicable|not applicable)\b",
    re.IGNORECASE,
)


def words(name: str) -> list[str]:
    """The words of a column name, in lower case; the whole name is one of them.

    >>> words("eqIncome"), words("marital-status"), words("YR_BLT")
    (['eqincome', 'eq', 'income'], ['marital-status', 'marital', 'status'], ['yr_blt', 'yr', 'blt'])
    """
    parts = [p.casefold() for p in _PARTS.findall(name)]
    joined = ["".join(parts)] if len(parts) == 2 and "".join(parts) in HOUSEHOLD else []
    return list(dict.fromkeys([name.casefold(), *joined, *parts]))


def has(name: str, vocabulary: frozenset[str]) -> bool:
    return any(w in vocabulary for w in words(name))


def is_code(name: str) -> bool:
    return name.casefold().endswith(("code", "codes"))


def is_money(name: str) -> bool:
    lower = name.casefold()
    silc = re.match(r"^[ph]y\d{3}[ng]?$", lower)
    return bool(silc) or any(m in lower for m in MONEY) or has(name, MONEY_WORDS) or _tail(name)


def _tail(name: str) -> bool:
    """CPS-like names: PTOTVAL, PEARNVAL, TAXINC."""
    lower = name.casefold()
    return len(lower) > 4 and lower.endswith(("val", "inc", "amt"))


def is_private(name: str) -> bool:
    lower = name.casefold()
    return is_money(name) or any(p in lower for p in PRIVATE)


def is_weight(name: str) -> bool:
    lower = name.casefold()
    return has(name, WEIGHT) or "weight" in lower or "wgt" in lower


def says_missing(label: str) -> bool:
    """Whether the label of a code says that the value is missing."""
    return bool(_MISSING_LABEL.search(label))
