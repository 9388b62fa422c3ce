"""A form for any mask or measure, from its declared parameters: bounds, units, choices and one line of help.

>>> from sfumato import registry
>>> {f.name: f.kind for f in form_of(registry.mask("rank_swap"), {}, [])}["window_percent"]
'number'
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sfumato.contract.parameters import Declared
from sfumato.errors import ParameterError
from sfumato.plan import source as plan_source


class Form(Protocol):
    """What a browser sent."""

    def get(self, key: str, default: Any = None) -> Any: ...
    def getlist(self, key: str) -> list[Any]: ...


@dataclass(frozen=True)
class Field:
    """One parameter as a page asks for it."""

    name: str
    kind: str
    """columns, column, number, choice, switch, text or toml."""
    value: Any
    help: str
    label: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    whole: bool = False
    options: tuple[str, ...] = ()
    required: bool = False
    said: bool = False
    """Whether the plan gives it, or it is at its default."""
    error: str = ""
    open: bool = False
    """Whether it has no default: one of several that say the same, or what must be said."""


def form_of(
    cls: type[Declared],
    table: Mapping[str, Any],
    columns: Sequence[tuple[str, bool]],
    typed: Mapping[str, Any] | None = None,
    errors: Mapping[str, str] | None = None,
    filled: Mapping[str, Sequence[str]] | None = None,
) -> list[Field]:
    """The fields of a mask or measure; ``columns`` are names and whether each holds numbers, ``typed`` what
    was sent and refused, ``errors`` why, by parameter. ``filled`` are the columns of each role.
    """
    new = filled is not None
    out = []
    hints = cls.parameter_types()
    for name, f in cls.parameters().items():
        if name == "id":
            continue
        meta, hint = f.metadata, hints[name]
        kind, options = _kind(hint, meta)
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        default = None if required else _default(f)
        value = table.get(name, default)
        if typed is not None and name in typed:
            value = typed[name]
        if kind in ("columns", "column"):
            options = tuple(c for c, number in columns if number or not meta.get("numeric"))
            value = [value] if isinstance(value, str) else [] if value is None else list(value)
            if new and name not in (typed or {}) and isinstance(meta.get("columns"), str):
                value = [c for c in (filled or {}).get(meta["columns"], []) if c in options]
            options = tuple(dict.fromkeys([*options, *(v for v in value if isinstance(v, str))]))
        elif kind == "toml":
            value = (
                ""
                if value is None or value in ((), {}, [])
                else value
                if isinstance(value, str)
                else written(value)
            )
        elif kind == "number":
            if isinstance(value, (int, float)):
                value = f"{value:.12g}"
            value = (
                ""
                if value is None or value in ((), {})
                else value
                if isinstance(value, str)
                else written(value)
            )
        low, high = (next((meta[k] for k in ends if meta.get(k) is not None), None) for ends in _ENDS)
        out.append(
            Field(
                name,
                kind,
                value,
                str(meta.get("doc", "")),
                _label(name),
                _unit(name, meta, low, high) if kind == "number" else "",
                low,
                high,
                _whole(hint),
                options,
                required,
                name in table,
                (errors or {}).get(name, ""),
                required or (default is None and kind == "number"),
            )
        )
    return out


def _default(f: dataclasses.Field[Any]) -> Any:
    return f.default if f.default_factory is dataclasses.MISSING else f.default_factory()


_ENDS = (("at_least", "above"), ("at_most", "below"))


def parsed(cls: type[Declared], form: Form) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """What a form says: the values to set (None: the default), what was typed, and what can't be read, by
    parameter. Every parameter of the class is in the form."""
    values: dict[str, Any] = {}
    typed: dict[str, Any] = {}
    errors: dict[str, str] = {}
    hints = cls.parameter_types()
    for name, f in cls.parameters().items():
        if name == "id":
            continue
        kind, _ = _kind(hints[name], f.metadata)
        default = _default(f)
        try:
            if kind == "columns":
                value: Any = [str(v) for v in form.getlist(name) if v != ""] or None
                typed[name] = value or []
            elif kind == "switch":
                value = form.get(name) is not None
            else:
                text = str(form.get(name) or "")
                text = text if kind == "column" else text.strip()
                typed[name] = text
                value = None if not text else _read(text, kind, name)
        except ParameterError as problem:
            errors[name] = problem.message
            continue
        same = value == default or (
            isinstance(default, tuple) and value is not None and value == list(default)
        )
        values[name] = None if same else value
    return values, typed, errors


def _read(text: str, kind: str, name: str) -> Any:
    if kind == "number" and text[0] in "{[":
        kind = "toml"
    if kind == "number":
        try:
            number = float(text.replace(",", "").replace("_", ""))
        except ValueError:
            raise ParameterError(f"{text!r} isn't a number") from None
        return (
            int(number)
            if number.is_integer() and abs(number) < 2**53 and "e" not in text.casefold()
            else number
        )
    if kind == "choice":
        return {"yes": True, "no": False}.get(text, text) if text in ("yes", "no") else text
    if kind == "toml":
        try:
            return tomllib.loads(f"x = {text}")["x"]
        except (tomllib.TOMLDecodeError, RecursionError):
            if text[0] not in "[{\"'" and "\n" not in text:
                return text
            raise ParameterError(f"`{name}` can't be read; it is written as in a plan") from None
    return text


def written(value: Any) -> str:
    """A value as a plan writes it."""
    if isinstance(value, Mapping):
        parts = [f"{plan_source.dump({str(k): v}).strip()}" for k, v in value.items()]
        return "{ " + ", ".join(parts) + " }"
    return plan_source.dump({"x": value}).strip().removeprefix("x = ")


def _kind(hint: Any, meta: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    options = [hint]
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        options = [o for o in typing.get_args(hint) if o is not type(None)]
    optional = len(options) == 1 and options[0] is not hint
    if meta.get("choices") and all(o is str or typing.get_origin(o) is typing.Literal for o in options):
        return "choice", tuple(map(str, meta["choices"]))
    if len(options) == 1:
        (one,) = options
        if typing.get_origin(one) is typing.Literal:
            return "choice", tuple(map(str, typing.get_args(one)))
        if one is bool:
            return ("choice", ("yes", "no")) if optional else ("switch", ())
        if one in (int, float):
            return "number", ()
        if one is str:
            return ("column" if meta.get("columns") else "text"), ()
        if (
            typing.get_origin(one) is tuple
            and typing.get_args(one) == (str, Ellipsis)
            and meta.get("columns")
        ):
            return "columns", ()
    if any(o in (int, float) for o in options) and not any(o is str for o in options):
        return "number", ()  # a table of numbers, one a column, can be typed there too
    return "toml", ()


def _whole(hint: Any) -> bool:
    return float not in (typing.get_args(hint) or (hint,))


def _label(name: str) -> str:
    plain = name.removesuffix("_percent").replace("_", " ")
    return plain[:1].upper() + plain[1:]


def _unit(name: str, meta: Mapping[str, Any], low: float | None, high: float | None) -> str:
    unit = "%" if name.endswith("_percent") else ""
    if low is not None and high is not None:
        span = f"{low:g} to {high:g}"
    elif low is not None:
        span = f"{'above' if meta.get('above') is not None else 'from'} {low:g}"
    else:
        span = f"up to {high:g}" if high is not None else ""
    return ", ".join(p for p in (unit, span) if p)
