"""Declared parameters: masks and measures are frozen dataclasses whose fields say what they accept.

The declaration is the only place where a limit is written: the check, its message, the plan's JSON
Schema, the docs page and the workbench's form all come from it.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, ClassVar, TypeAlias

from sfumato.data.plain import plain
from sfumato.errors import ParameterError, Problem, did_you_mean, refuse_unknown

_MISSING = dataclasses.MISSING
Fault: TypeAlias = tuple[str, str | None] | tuple[str, str | None, str]
"""What is wrong with parameters: message, hint, and the parameter it is about where it is about one."""
_LIKE_A_SHARE = 0.25  # a percentage below this may be a share by mistake


def parameter(
    default: Any = _MISSING,
    *,
    doc: str,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Sequence[Any] | None = None,
    columns: bool | str = False,
    numeric: bool = False,
    file: bool = False,
    public: bool = False,
) -> Any:
    """A field of a mask or measure, with its limits.

    ``columns`` says that the value names a column (or several); a string gives the role that fills
    it in where it is left out (``columns="keys"``). ``numeric`` says that those columns must hold
    numbers. ``file`` says that the value is the path of a file or folder (or several), from the plan's
    folder. ``public`` says that the value may be published where a plan publishes parameters: it names no
    record, holds no value of the file and no path; what isn't declared so is withheld. A mutable default is
    made a tuple or dict of its own.
    """
    metadata = {
        "doc": doc,
        "at_least": at_least,
        "at_most": at_most,
        "above": above,
        "below": below,
        "choices": tuple(choices) if choices is not None else None,
        "columns": columns,
        "numeric": numeric,
        "file": file,
        "public": public,
    }
    if isinstance(default, (list, tuple)):
        frozen = tuple(default)
        return dataclasses.field(default=frozen, metadata=metadata)
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declared:
    """The base of everything that a plan can name: parameters checked from their declarations."""

    name: ClassVar[str] = ""
    """The name in a plan (``mask = "rank_swap"``)."""

    id: str | None = parameter(None, doc="A name of its own, where a plan uses this more than once.")

    def __new__(cls, *_: Any, **words: Any) -> typing.Self:
        refuse_unknown(cls.__name__, words, [f.name for f in dataclasses.fields(cls)])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        problems = [p for f in dataclasses.fields(self) for p in self._check_field(f)]
        if not problems:
            problems = [*self._check()]
        if problems:
            raise ParameterError(
                "; ".join(f"{self.name or type(self).__name__}: {message}" for message, *_ in problems),
                hint="; ".join(dict.fromkeys(hint for _, hint, *_ in problems if hint)) or None,
                parameter=next((fault[2] for fault in problems if len(fault) == 3), None),
            )

    def _check(self) -> Sequence[Fault]:
        """Checks that span several parameters. Override where needed."""
        return ()

    def _check_field(self, f: dataclasses.Field[Any]) -> list[Fault]:
        value = getattr(self, f.name)
        hint_type = self.parameter_types()[f.name]
        value, problem = _coerce(value, hint_type)
        if problem:
            return [(f"`{f.name}` must be {problem}, not {value!r}", _unit_hint(f.name, value), f.name)]
        object.__setattr__(self, f.name, value)
        meta = f.metadata
        out: list[Fault] = []
        if meta.get("choices") and value is not None:
            out += [
                (f"`{f.name}` can't be {one!r}", did_you_mean(one, meta["choices"]), f.name)
                for one in (value if isinstance(value, tuple) else (value,))
                if isinstance(one, str) and one not in meta["choices"]
            ]
        out += [(f"`{f.name}` {text}", None, f.name) for text in _limits(value, meta)]
        return out

    @classmethod
    def parameter_types(cls) -> dict[str, Any]:
        cached = cls.__dict__.get("_parameter_types")
        if cached is None:
            cached = typing.get_type_hints(cls)
            cls._parameter_types = cached  # type: ignore[attr-defined]
        return dict(cached)

    @classmethod
    def parameters(cls) -> dict[str, dataclasses.Field[Any]]:
        """The declared parameters, by name."""
        return {f.name: f for f in dataclasses.fields(cls)}

    @classmethod
    def summary(cls) -> str:
        """The first sentence of the docstring."""
        return (cls.__doc__ or "").strip().split("\n")[0]

    def to_dict(self) -> dict[str, Any]:
        """The parameters that differ from their defaults, as plain values (the form a plan has)."""
        out: dict[str, Any] = {}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            default = f.default if f.default_factory is _MISSING else f.default_factory()
            if value != default:
                out[f.name] = plain(value)
        return out

    def as_table(self) -> dict[str, Any]:
        """The table that names it inside another's parameters."""
        return {"measure" if hasattr(self, "direction") else "mask": self.name, **self.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> typing.Self:
        """Made from a plan's table; unknown names are errors with the nearest right one."""
        known = cls.parameters()
        for key in content:
            if key not in known:
                raise ParameterError(
                    f"{cls.name}: there is no parameter {key!r}",
                    hint=did_you_mean(str(key), known),
                    parameter=str(key),
                )
        needed = [
            n
            for n, f in known.items()
            if f.default is _MISSING and f.default_factory is _MISSING and n not in content
        ]
        if needed:
            raise ParameterError(f"{cls.name}: `{'`, `'.join(needed)}` must be given")
        return cls(**content)

    def named_columns(self) -> dict[str, str]:
        """Every column that a parameter names → the parameter."""
        out: dict[str, str] = {}
        for f in dataclasses.fields(self):
            if f.metadata.get("columns"):
                value = getattr(self, f.name)
                for column in flat_names(value):
                    out.setdefault(column, f.name)
        return out

    def check_units(self) -> list[Problem]:
        """A caution for every percentage that looks like a share: 0.05 where 5 may be meant."""
        out = []
        for name in self.parameters():
            value = getattr(self, name)
            if name.endswith("_percent") and isinstance(value, (int, float)) and 0 < value < _LIKE_A_SHARE:
                message = f"`{name}` is {value:g} percent, less than a quarter of one percent"
                hint = f"percentages run from 0 to 100: for {100 * value:g}% write {100 * value:g}"
                out.append(Problem(0, message, hint, "warning", parameter=name))
        return out

    def check_columns(self, types_: Mapping[str, Any]) -> list[Problem]:
        """What is wrong with the columns named, given the columns there are and their types."""
        out = []
        for f in dataclasses.fields(self):
            if not f.metadata.get("columns"):
                continue
            for column in flat_names(getattr(self, f.name)):
                if column not in types_:
                    out.append(
                        Problem(
                            0,
                            f"`{f.name}` names the column {column!r}, which the data don't have",
                            did_you_mean(column, types_),
                            parameter=f.name,
                        )
                    )
                elif f.metadata.get("numeric") and not (
                    types_[column].is_numeric() or types_[column].is_temporal()
                ):
                    held = held_type(types_[column])
                    out.append(
                        Problem(0, f"`{f.name}` needs numbers, but {column!r} holds {held}", parameter=f.name)
                    )
        return out


def _unit_hint(name: str, value: Any) -> str | None:
    """What to write for "5%"."""
    number = value.strip().removesuffix("%").strip() if isinstance(value, str) else ""
    if not number.replace(".", "", 1).isdigit():
        return None
    if value.strip().endswith("%") and not name.endswith("_percent"):
        return f"write {float(number) / 100:g}, without quotes"
    return f"write {number}, without quotes"


def held_type(dtype: Any) -> str:
    """The name of a type; an Enum's full name would list its categories."""
    return str(dtype).partition("(categories")[0]


def flat_names(value: Any) -> list[str]:
    """The column names in a parameter's value: one, a list, a list of lists, or the keys of a dict."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [n for n in value if isinstance(n, str)]
    if isinstance(value, Sequence):
        return [n for part in value for n in flat_names(part)]
    return []


def _limits(value: Any, meta: Mapping[str, Any]) -> list[str]:
    if isinstance(value, tuple):
        return [text for one in value for text in _limits(one, meta)]
    if isinstance(value, Mapping):
        return [text for one in value.values() for text in _limits(one, meta)]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return []
    out = []
    if isinstance(value, float) and not math.isfinite(value):
        out.append(f"must be finite, not {value}")
    fails = {"at_least": operator.lt, "at_most": operator.gt, "above": operator.le, "below": operator.ge}
    for limit, outside in fails.items():
        bound = meta.get(limit)
        if bound is not None and outside(value, bound):
            out.append(f"must be {limit.replace('_', ' ')} {bound:g}, not {value:g}")
    return out


_WORDS: dict[Any, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _coerce(value: Any, hint: Any) -> tuple[Any, str]:
    """The value in the declared type (lists become tuples, one name a tuple of one), or a problem."""
    origin = typing.get_origin(hint)
    if hint is Any:
        return value, ""
    if origin in (types.UnionType, typing.Union):
        problems = []
        # Exact fits first, so that an int stays an int in `int | float`, and "a" a string in
        # `str | tuple[str, ...]`.
        for option in sorted(typing.get_args(hint), key=lambda o: _fit(value, o)):
            got, problem = _coerce(value, option)
            if not problem:
                return got, ""
            problems.append(problem)
        return value, " or ".join(dict.fromkeys(problems))
    if origin is typing.Literal:
        args = typing.get_args(hint)
        if value in args and isinstance(value, str):
            return value, ""
        return value, f"one of {', '.join(repr(a) for a in args)}"
    if hint is type(None):
        return value, "" if value is None else "left out"
    if origin is tuple:
        inner = typing.get_args(hint)
        items = (value,) if isinstance(value, (str, int, float, Mapping)) else value
        if not isinstance(items, Sequence):
            return value, "a list"
        fixed = inner[-1] is not Ellipsis
        if fixed and len(items) != len(inner):
            return value, f"a list of {len(inner)}"
        out = []
        for place, item in enumerate(items):
            got, problem = _coerce(item, inner[place] if fixed else inner[0])
            if problem:
                return value, f"a list, each {problem}"
            out.append(got)
        return tuple(out), ""
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return value, "a table"
        inner = typing.get_args(hint)
        result = {}
        for key, item in value.items():
            got, problem = _coerce(item, inner[1])
            if problem:
                return value, f"a table whose values are each {problem}"
            result[key] = got
        return result, ""
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            try:
                if hasattr(value, "item") and isinstance(value.item(), (int, float)):
                    return float(value), ""
            except (ValueError, TypeError):
                pass
            return value, _WORDS[float]
        return value, ""
    if hint is int:
        if hasattr(value, "item") and not isinstance(value, (int, float)):
            value = value.item()
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return value, _WORDS[int]
        return value, ""
    if hint is str and isinstance(value, PurePath):
        return str(value), ""
    if isinstance(hint, type):
        if isinstance(value, hint):
            return value, ""
        return value, _WORDS.get(hint, f"a {hint.__name__}")
    return value, ""


def _fit(value: Any, option: Any) -> int:
    origin = typing.get_origin(option) or option
    if option is type(None):
        return 0 if value is None else 3
    if isinstance(origin, type):
        if type(value) is origin or (origin is tuple and isinstance(value, list)):
            return 0
        return 1 if isinstance(value, origin) else 2
    return 1
