"""What sfumato says when something is wrong: what, where, and what to do."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar


class SfumatoError(Exception):
    """The base of every error that a person may see.

    ``message`` says what was wrong and where, ``hint`` what to do about it, ``parameter`` which parameter
    (or role, or detail of a variable) it is about, ``step`` which step of a plan (from 0) met it. No
    message carries a secret: neither the seed, nor an original value of a sensitive column.
    """

    step: int | None = None

    def __init__(self, message: str, *, hint: str | None = None, parameter: str | None = None) -> None:
        self.message = message
        self.hint = hint
        self.parameter = parameter
        super().__init__(message)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"


class InputError(SfumatoError):
    """A file or frame that can't be used as it is."""


class SchemaError(SfumatoError):
    """A role, code or rule that doesn't fit the data."""


class ParameterError(SfumatoError):
    """A parameter of a mask or measure outside what it accepts."""


class KeywordError(ParameterError, TypeError):
    """A keyword that a function or class doesn't take."""


class MaskError(SfumatoError):
    """A mask that can't do what was asked of it on these data."""


class MeasureError(SfumatoError):
    """A measure that is undefined on these data."""


class GuaranteeError(SfumatoError):
    """A guarantee that doesn't hold on the masked file: nothing may be released."""


class ReleaseError(SfumatoError):
    """A release that can't be written, or that failed its own check when read back."""


class EngineError(SfumatoError):
    """An engine that isn't there, can't be reached, or lost what it was working with."""


class SeedError(SfumatoError):
    """A seed that can't be read."""


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in a plan, with its line (0 where none is known)."""

    line: int
    message: str
    hint: str | None = None
    severity: str = "error"
    parameter: str | None = None
    """The parameter (or role, or detail) that it is about: its line is where the plan says it."""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        word = "" if self.severity == "error" else f"{self.severity}: "
        tail = f" ({self.hint})" if self.hint else ""
        return f"{where}{word}{self.message}{tail}"


class PlanError(SfumatoError):
    """Everything that is wrong with a plan, all at once."""

    def __init__(self, problems: Sequence[Problem], *, path: str | None = None) -> None:
        self.problems = sorted(problems)
        self.path = path
        many = f"{len(self.problems)} mistakes" if len(self.problems) != 1 else "1 mistake"
        head = f"{path or 'the plan'} has {many}:"
        super().__init__("\n".join([head, *(f"  {p}" for p in self.problems)]))


class SfumatoWarning(UserWarning):
    """Something that works, but that a careful person would want to know."""


def nearest(name: str, options: Iterable[str]) -> str | None:
    """The option that ``name`` was probably meant to be.

    >>> nearest("rank_swop", ["rank_swap", "random_swap"])
    'rank_swap'
    """
    options = list(options)
    folded = {str(o).casefold(): str(o) for o in options}
    if str(name).casefold() in folded:
        return folded[str(name).casefold()]
    found = difflib.get_close_matches(str(name).casefold(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def as_path(name: str | os.PathLike[str]) -> Path:
    """A file's name as a path, or an error where no file can be called so.

    >>> as_path("people.csv").name
    'people.csv'
    """
    if "\0" in os.fspath(name):
        shown = os.fspath(name).replace("\0", "\N{REPLACEMENT CHARACTER}")
        raise InputError(f"no file can be called {shown!r}: there is a NUL character in it")
    return Path(name)


def counted(n: int, thing: str) -> str:
    """A number of things, as one says it.

    >>> counted(1, "record"), counted(1200, "record")
    ('1 record', '1,200 records')
    """
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


def did_you_mean(name: str, options: Iterable[str], *, show: int = 12) -> str:
    """A hint: the nearest right name, else the names there are."""
    options = [str(o) for o in options]
    close = nearest(name, options)
    if close is not None:
        return f"did you mean {close!r}?"
    listed = ", ".join(options[:show]) + (f", … ({len(options)} in all)" if len(options) > show else "")
    return f"there is: {listed}" if options else "there are none"


def refuse_unknown(of: str, words: Iterable[str], there: Sequence[str]) -> None:
    """An error that names the right keyword where one isn't taken."""
    for word in words:
        if word not in there:
            raise KeywordError(f"{of} takes no {word!r}", hint=did_you_mean(word, there), parameter=word)


_Called = TypeVar("_Called", bound=Callable[..., Any])


def suggesting(called: _Called) -> _Called:
    """A function or class whose mistyped keyword is answered with the right one.

    >>> @suggesting
    ... def swap(*, rate_percent): ...
    >>> swap(rate_precent=5)
    Traceback (most recent call last):
    sfumato.errors.KeywordError: swap takes no 'rate_precent'
      hint: did you mean 'rate_percent'?
    """
    inner = called.__init__ if isinstance(called, type) else called  # type: ignore[misc]
    parameters = inspect.signature(inner).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return called
    there = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    there = [name for name in there if name != "self"]

    @functools.wraps(inner)
    def checked(*args: Any, **words: Any) -> Any:
        refuse_unknown(called.__name__, words, there)
        return inner(*args, **words)

    if isinstance(called, type):
        called.__init__ = checked  # type: ignore[misc]
        return called
    return checked  # type: ignore[return-value]
