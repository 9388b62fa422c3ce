"""Names that mean nothing by themselves: the variables of well-known surveys and registers.

A few names are known wherever they stand (``vocabulary.toml``: EU-SILC, the American Community Survey …).
The others belong to a book (``surveys.toml``) and count only in a file that has several names of that book:
``v012`` is an age in a demographic and health survey, and anything elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import MappingProxyType
from typing import Final

from sfumato.plan.suggest import vocabulary

_FEWEST: Final = 4
"""Names of a book, usual words aside, that open it."""
_BY_NAME: Final = {
    name: what for what, names in vocabulary.load()["codebooks"].items() for name in names.split()
}
_NUMBERED: Final = re.compile(r"[a-z]{1,2}\d{1,3}")
_OPEN: ContextVar[Mapping[str, str]] = ContextVar("books", default=MappingProxyType({}))


@cache
def _books() -> dict[str, dict[str, str]]:
    """Each book: name → what it holds."""
    return {
        book: {name: what for what, names in topics.items() for name in names.split()}
        for book, topics in vocabulary.load("surveys.toml").items()
    }


@cache
def _telling() -> frozenset[str]:
    """Names that stand in one book alone and are no usual words."""
    usual = {w for listed in vocabulary.load()["names"].values() for w in listed.split()}
    often = Counter(name for book in _books().values() for name in book)
    return frozenset(name for name, n in often.items() if n == 1 and name not in usual)


def _weight(name: str) -> float:
    """A letter and a number (v012) say little by themselves."""
    return 0.4 if _NUMBERED.fullmatch(name) else 1.0


@contextmanager
def opened(columns: Iterable[str]) -> Iterator[None]:
    """Within it, names are read by the books that the file's columns open, the likeliest first."""
    there = {c.casefold() for c in columns}
    found = {
        name: sum(_weight(c) for c in there & book.keys() & _telling()) for name, book in _books().items()
    }
    names: dict[str, str] = {}
    for name in sorted((b for b, n in found.items() if n >= _FEWEST), key=lambda b: -found[b]):
        names = {**_books()[name], **names}
    token = _OPEN.set(names)
    try:
        yield
    finally:
        _OPEN.reset(token)


def topic(said: Iterable[str]) -> str | None:
    """What the name is in a codebook; ``said`` are its words, the whole name first.

    >>> topic(["v1028"]), topic(["rb090"]), topic(["hello"]), topic(["v012"])
    ('weight', 'sex', None, None)
    >>> with opened([f"V{n:03d}" for n in (5, 12, 13, 22, 25, 106, 133, 151, 190, 437, 501)]):
    ...     topic(["v012"])
    'age'
    """
    whole = next(iter(said), "")
    return _OPEN.get().get(whole) or _BY_NAME.get(whole)
