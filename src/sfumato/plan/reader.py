"""Reads a plan's text and finds everything that is wrong with it, all at once, with lines.

>>> print(read_parts("[rolls]\\nkeys = []").problems[0])
line 1: a plan has no 'rolls' (did you mean 'roles'?)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final

from sfumato import registry
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Measure
from sfumato.contract.parameters import Declared, flat_names
from sfumato.data.schema import ROLES, Schema, as_variable
from sfumato.errors import (
    ParameterError,
    PlanError,
    Problem,
    SchemaError,
    SfumatoError,
    did_you_mean,
    nearest,
)
from sfumato.plan import source as plan_source
from sfumato.plan.audience import AUDIENCES, BATTERY, FIGURES
from sfumato.plan.parts import FORMAT, OFF, RELEASE_FORMATS, Limit, ReleaseOptions, limits_of

TOP_KEYS: Final = (
    "format",
    "title",
    "for",
    "data",
    "read",
    "roles",
    "variables",
    "step",
    "measure",
    "limits",
    "release",
)


@dataclass(frozen=True)
class Parts:
    """What of a plan's text could be read, where its parts stand, and everything wrong with the text."""

    content: Mapping[str, Any] | None
    """The arguments of a Plan; None where the text isn't TOML."""
    lines: Mapping[plan_source.Path, int]
    """The line of each part, steps and measures numbered as in ``content``."""
    problems: list[Problem]
    named: Mapping[plan_source.Path, Sequence[str]] = field(default_factory=dict)
    """The columns that unreadable steps and measures name, by parameter (numbered as in the text)."""


def read_parts(text: str) -> Parts:
    """Those parts of a plan's text that can be understood (no data are read).

    >>> read = read_parts('title = 3\\n[[step]]\\nmask = "truncate"\\ncolumn = "ZIP"\\ndigits = 2')
    >>> read.content["steps"][0].column, read.lines["step", 0]
    ('ZIP', 2)
    """
    try:
        content = plan_source.parse(text)
    except PlanError as problem:
        return Parts(None, {}, list(problem.problems))
    lines = plan_source.lines_of(text)
    problems: list[Problem] = []

    def wrong(path: plan_source.Path, message: str, hint: str | None = None, severity: str = "error") -> None:
        problems.append(Problem(plan_source.line_of(lines, path), message, hint, severity))

    for key in content:
        if key not in TOP_KEYS:
            wrong((key,), f"a plan has no {key!r}", did_you_mean(key, TOP_KEYS))
    if content.get("format", FORMAT) != FORMAT:
        wrong(("format",), f"this sfumato reads plans of format {FORMAT}, not {content['format']!r}")
    for key, kind, word in (
        ("title", str, "text"),
        ("data", str, "a file's name"),
        ("read", dict, "a table"),
        ("roles", dict, "a table"),
        ("variables", dict, "a table"),
        ("step", list, "[[step]] tables"),
        ("measure", list, "[[measure]] tables"),
        ("limits", dict, "a table"),
        ("release", dict, "a table"),
    ):
        if key in content and not isinstance(content[key], kind):
            wrong((key,), f"`{key}` must be {word}, not {content[key]!r}")
            del content[key]

    whom = content.get("for")
    if whom is not None and not (isinstance(whom, str) and whom in AUDIENCES):
        wrong(("for",), f"there are no limits for {whom!r}", did_you_mean(str(whom), AUDIENCES))
        whom = None
    schema = _read_schema(content, wrong)
    off = _read_switches(content.get("step", []), wrong)
    steps = _read_declared(content.get("step", []), "step", "mask", registry.masks(), wrong)
    steps = {at: one for at, one in steps.items() if at not in off}
    measures = _read_declared(content.get("measure", []), "measure", "measure", registry.measures(), wrong)
    limits = _read_limits(content.get("limits", {}), list(measures.values()), wrong)
    release = _read_release(content.get("release", {}), wrong)
    arguments = {
        "steps": tuple(s for s in steps.values() if isinstance(s, Mask)),
        "measures": tuple(m for m in measures.values() if isinstance(m, Measure)),
        "data_path": content.get("data"),
        "read_options": content.get("read", {}),
        "schema": schema,
        "limits": tuple(limits),
        "release": release,
        "title": content.get("title"),
        "audience": whom,
    }
    places: dict[tuple[str | int, ...], int] = {("step", at): k for k, at in enumerate(steps)}
    places.update({("measure", at): k for k, at in enumerate(measures)})
    moved = {
        (path[0], places[path[:2]], *path[2:]) if path[:2] in places else path: line
        for path, line in lines.items()
        if path[:2] in places or path[0] not in ("step", "measure") or len(path) < 2
    }
    unread: dict[plan_source.Path, Sequence[str]] = {
        (kind, at, key): flat_names(value)
        for kind, word, there, read in (
            ("step", "mask", registry.masks(), {*steps, *off}),
            ("measure", "measure", registry.measures(), set(measures)),
        )
        for at, table in enumerate(content.get(kind, []))
        if at not in read and isinstance(table, Mapping)
        for key, value in table.items()
        if (cls := _meant(table.get(word), there)) is not None
        and key in cls.parameters()
        and cls.parameters()[key].metadata.get("columns")
    }
    return Parts(arguments, moved, sorted(problems), unread)


def _read_switches(tables: Sequence[Any], wrong: Any) -> set[int]:
    """The steps that are switched off: they stay in the text, with their mistakes told, and do nothing."""
    out = set()
    for at, table in enumerate(tables):
        said = table.get(OFF, False) if isinstance(table, Mapping) else False
        if not isinstance(said, bool):
            wrong(("step", at, OFF), f"`{OFF}` must be true or false, not {said!r}")
        elif said:
            out.add(at)
    return out


def _meant(name: Any, there: Mapping[str, type[Declared]]) -> type[Declared] | None:
    guess = nearest(name, there) if isinstance(name, str) else None
    return there[guess] if guess is not None else None


def _read_schema(content: Mapping[str, Any], wrong: Any) -> Schema | None:
    roles, variables = content.get("roles", {}), content.get("variables", {})
    good: dict[str, Any] = {}
    for role, value in roles.items():
        if role not in ROLES:
            wrong(("roles", role), f"there is no role {role!r}", did_you_mean(role, ROLES))
            continue
        try:
            Schema(**{role: value})
        except (SchemaError, TypeError) as problem:
            wrong(("roles", role), getattr(problem, "message", f"`{role}` names columns, not {value!r}"))
        else:
            good[role] = value
    described = {}
    for name, details in variables.items():
        try:
            described[name] = as_variable(name, details)
        except SchemaError as problem:
            wrong(("variables", name, problem.parameter or ""), problem.message, problem.hint)
    try:
        return Schema(**good, variables=described)
    except SchemaError as problem:
        wrong(("variables",), problem.message, problem.hint)
        return None


def _read_declared(
    tables: Sequence[Any], kind: str, word: str, there: Mapping[str, type[Declared]], wrong: Any
) -> dict[int, Declared]:
    """Those tables that can be read, by their place among all."""
    out: dict[int, Declared] = {}
    ids: dict[str, int] = {}
    for at, table in enumerate(tables):
        if not isinstance(table, Mapping):
            wrong((kind, at), f"each [[{kind}]] must be a table")
            continue
        name = table.get(word)
        if not isinstance(name, str):
            wrong((kind, at), f"this [[{kind}]] doesn't say which {word}", f'add: {word} = "…"')
            continue
        if name not in there:
            hint = did_you_mean(name, there, show=40)
            wrong((kind, at, word), f"there is no {word} {name!r}", hint)
            guess = nearest(name, there)  # what it was meant to be shows its other mistakes
            if guess is None:
                continue
            name = guess
        cls = there[name]
        content = {k: v for k, v in table.items() if k != word and not (kind == "step" and k == OFF)}
        known = cls.parameters()
        unknown = [k for k in content if k not in known]
        for key in unknown:
            wrong((kind, at, key), f"{name} has no parameter {key!r}", _parameter_hint(key, known))
            del content[key]
        unsure = unknown or name != table[word]
        if unsure and any(_required(f) and n not in content for n, f in known.items()):
            continue  # the misspelt parameter is the missing one: one mistake, not two
        try:
            one = cls.from_dict(content)
        except ParameterError as problem:
            said = (problem.parameter,) if problem.parameter in content else ()
            wrong((kind, at, *said), problem.message, problem.hint)
            continue
        except (SfumatoError, TypeError, ValueError) as problem:
            wrong((kind, at), f"{name}: {getattr(problem, 'message', problem)}")
            continue
        label = one.id or one.name
        if label in ids:
            severity = "error" if one.id else "warning"
            message = f"two {kind}s have the id {label!r}"
            wrong((kind, at), message, 'give each an id of its own: id = "…"', severity)
        ids[label] = at
        out[at] = one
    return out


def _required(parameter: Field[Any]) -> bool:
    return parameter.default is MISSING and parameter.default_factory is MISSING


def _parameter_hint(key: str, known: Mapping[str, Any]) -> str:
    """Units are the commonest slip: `rate` for `rate_percent`."""
    for name in known:
        if name.startswith(f"{key}_") or key.startswith(f"{name}_"):
            return f"did you mean {name!r}?"
    return did_you_mean(key, known)


def _read_limits(content: Mapping[str, Any], measures: Sequence[Declared], wrong: Any) -> list[Limit]:
    out: list[Limit] = []
    names = {m.id or m.name for m in measures} | {m.name for m in measures}
    for name, value in content.items():
        try:
            limits = limits_of({name: value})
        except (ParameterError, TypeError) as problem:
            wrong(("limits", name), getattr(problem, "message", str(problem)))
            continue
        for limit in limits:
            place = ("limits", name, limit.figure)
            bounds = [b for b in (limit.at_most, limit.at_least) if b is not None]
            if any(isinstance(b, bool) or not isinstance(b, (int, float)) for b in bounds):
                wrong(place, f"the bounds of {limit.measure}.{limit.figure} must be numbers")
            elif limit.measure == BATTERY and limit.measure not in names:
                if limit.figure in FIGURES:
                    out.append(limit)
                else:
                    hint = did_you_mean(limit.figure, FIGURES)
                    wrong(place, f"the battery has no figure {limit.figure!r} to limit", hint)
            elif limit.measure not in names:
                hint = "add a [[measure]]" if not names else did_you_mean(limit.measure, sorted(names))
                wrong(place, f"there is a limit on {limit.measure!r}, but no such measure in the plan", hint)
            else:
                out.append(limit)
    return out


def _read_release(content: Mapping[str, Any], wrong: Any) -> ReleaseOptions:
    known = {f.name: f for f in fields(ReleaseOptions)}
    good: dict[str, Any] = {}
    for key, value in content.items():
        if key not in known:
            wrong(("release", key), f"`release` has no {key!r}", did_you_mean(key, known))
            continue
        default = known[key].default
        if isinstance(default, bool) and not isinstance(value, bool):
            wrong(("release", key), f"`{key}` must be true or false, not {value!r}")
        elif isinstance(default, str) and not isinstance(value, str):
            wrong(("release", key), f"`{key}` must be text, not {value!r}")
        elif key in ("drop", "identifiers") and not (
            isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))
        ):
            wrong(("release", key), f"`{key}` lists column names")
        elif key == "format" and value not in RELEASE_FORMATS:
            wrong(("release", key), f"a release can't be {value!r}", did_you_mean(value, RELEASE_FORMATS))
        elif key == "name" and (not value or any(c in value for c in "/\\\0") or value.startswith(".")):
            wrong(("release", key), "`name` must be a plain file name, without a folder or a leading dot")
        else:
            good[key] = value
    return ReleaseOptions(**good)
