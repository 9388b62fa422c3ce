"""Columns that lead to a person by themselves and would be released: a plan must say so, or drop them.

>>> import polars as pl, sfumato as sf
>>> mails = sf.Microdata(pl.DataFrame({"WHO": [f"{n}@example.org" for n in range(30)]}))
>>> print(would_identify(mails, sf.Plan().release)[0].message)
WHO would be released, and holds e-mail addresses
"""

from __future__ import annotations

from typing import Final

from sfumato.data.microdata import Microdata
from sfumato.errors import Problem
from sfumato.plan.parts import ReleaseOptions
from sfumato.plan.suggest import words
from sfumato.plan.suggest.facts import Facts
from sfumato.plan.suggest.identifiers import direct

_LOOK: Final = 20_000
_HINT: Final = (
    "name it in `drop` under [release]; where it must be released, name it in `identifiers` there, "
    "which says so"
)


def would_identify(data: Microdata, release: ReleaseOptions) -> list[Problem]:
    """An error for each column of the data that names somebody and is neither dropped nor allowed.

    The id and the household are numbered anew and aren't judged; neither is a number that has a role.
    """
    schema = data.schema
    numbered = {schema.id, schema.household} if release.new_ids else set()
    out = []
    first = data.slice(0, _LOOK)
    for column in data.columns:
        if column in numbered or column in release.drop or column in release.identifiers:
            continue
        series = first.column(column)
        facts = Facts(series, schema[column])
        reason = direct(facts)
        if reason is None or "until you decide" in reason:
            continue
        if facts.is_number and (schema.role_of(column) or not _says_so(column, facts)):
            continue
        out.append(Problem(0, f"{column} would be released, and holds {_bare(reason)}", _HINT))
    return out


def _says_so(column: str, facts: Facts) -> bool:
    """Numbers are refused only where their name says what they are, or where they are long."""
    named = (words.ID, words.NATIONAL, words.CONTACT, words.COORDINATE)
    return any(words.has(column, v) for v in named) or facts.digits[1] >= 8


def _bare(reason: str) -> str:
    return "ids" if reason.startswith("an id") else reason
