"""Changes of a plan's text: each takes a text and gives a text, and leaves the person's comments alone.

A step is a block of lines: the comments right above its header belong to it. What a change means is also
made on the plain values; where the text doesn't come out at exactly that (a way of writing TOML that wasn't
thought of), the text is written anew from the values, comments lost, meaning kept.

>>> text = '[roles]\\nkeys = ["AGE"]   # known to neighbours\\n'
>>> print(set_role(text, "SEX", "keys"), end="")
[roles]
keys = ["AGE", "SEX"]   # known to neighbours
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tomlkit

from sfumato.data.schema import LIST_ROLES, ROLES, SINGLE_ROLES
from sfumato.errors import ParameterError
from sfumato.plan import source as plan_source
from sfumato.plan.parts import OFF
from sfumato.plan.reader import TOP_KEYS


def set_role(text: str, column: str, role: str | None) -> str:
    """A column gets a role, and loses those that it had; None: no role."""
    if role is not None and role not in ROLES:
        raise ParameterError(f"there is no role {role!r}")

    def change(content: Any) -> None:
        roles = _table(content, "roles")
        for name in list(roles):
            held = roles[name]
            if name in LIST_ROLES and isinstance(held, list):
                if column in held and name != role:
                    del held[held.index(column)]
                    if not held:
                        del roles[name]
            elif held == column and name != role:
                del roles[name]
        if role in SINGLE_ROLES:
            roles[role] = column
        elif role is not None:
            held = roles.get(role)
            if held is None:
                roles[role] = [column]
            elif isinstance(held, str):
                roles[role] = [held] if held == column else [held, column]
            elif column not in held:
                held.append(column)

    return _edited(text, change)


def set_detail(text: str, column: str, detail: str, value: Any | None) -> str:
    """A detail of a column (its kind, its top code …); None takes it away."""

    def change(content: Any) -> None:
        variables = _table(content, "variables")
        if column not in variables:
            variables[column] = {} if isinstance(content, dict) and type(content) is dict else tomlkit.table()
        _set(variables[column], detail, value)
        if not variables[column]:
            del variables[column]
        if not variables:
            del content["variables"]

    return _edited(text, change)


def set_drop(text: str, column: str, dropped: bool) -> str:
    """Whether a column stays behind when the file is released."""

    def change(content: Any) -> None:
        release = _table(content, "release")
        held = release.get("drop", [])
        names = [held] if isinstance(held, str) else [str(c) for c in held]
        if dropped == (column in names):
            return
        if isinstance(held, list) and names:
            if dropped:
                held.append(column)
            else:
                del held[names.index(column)]
            if not held:
                del release["drop"]
        else:
            _set(release, "drop", [*names, column] if dropped else None)
        if not release:
            del content["release"]

    return _edited(text, change)


def set_limit(text: str, measure: str, figure: str, bound: str, value: float | None) -> str:
    """A limit: ``bound`` is at_most or at_least; None takes it away."""

    def change(content: Any) -> None:
        limits = _table(content, "limits")
        limits.pop(f"{measure}.{figure}", None)  # the quoted way of writing it
        if value is None:
            held = limits.get(measure, {})
            held.pop(figure, None)
            if not held:
                limits.pop(measure, None)
        else:
            if measure not in limits:
                limits[measure] = {} if type(content) is dict else tomlkit.table(is_super_table=True)
            made: Any = {bound: value}
            if type(content) is not dict:
                made = tomlkit.inline_table()
                made[bound] = value
            limits[measure][figure] = made
        if not limits:
            del content["limits"]

    return _edited(text, change)


# -- steps and measures ---------------------------------------------------------------------------------


def tables(text: str, kind: str) -> list[dict[str, Any]]:
    """The ``[[step]]`` (or measure) tables of a text, those switched off too."""
    found = plan_source.parse(text).get(kind, [])
    return [dict(t) for t in found] if isinstance(found, list) else []


def set_parameters(text: str, kind: str, at: int, values: Mapping[str, Any]) -> str:
    """Parameters of one step or measure; None takes one away."""

    held = tables(text, kind)[at]
    old = {name: value for name, value in values.items() if name in held}

    def change(content: Any) -> None:
        for name, value in old.items():
            _set(content[kind][at], name, value)

    text = _edited(text, change) if old else text
    for name, value in values.items():
        if name not in held and value is not None:
            text = _with_new(text, kind, at, name, value)
    return text


def _with_new(text: str, kind: str, at: int, name: str, value: Any) -> str:
    """A parameter more, right below the table's last one: what follows may be a comment on the next table."""
    written = plan_source.dump({name: value}).strip("\n").split("\n")

    def lines(old: list[str]) -> list[str]:
        start, end = _blocks("\n".join(old), kind)[at]
        headers = [n for n in _headers("\n".join(old)) if start <= n < end]
        place = headers[1] if len(headers) > 1 else end
        while place > start and (not old[place - 1].strip() or old[place - 1].lstrip().startswith("#")):
            place -= 1
        return [*old[:place], *written, *old[place:]]

    def change(content: dict[str, Any]) -> None:
        content[kind][at][name] = value

    return _moved(text, lines, change)


def switch(text: str, at: int, on: bool) -> str:
    """A step switched on or off; its table stays."""
    return set_parameters(text, "step", at, {OFF: None if on else True})


def add(text: str, kind: str, table: Mapping[str, Any], at: int | None = None) -> str:
    """One more step or measure, before the at-th (by default last)."""
    block = plan_source.dump({kind: [dict(table)]}).strip("\n").split("\n")

    def lines(old: list[str]) -> list[str]:
        blocks = _blocks("\n".join(old), kind)
        if at is not None and at < len(blocks):
            place = blocks[at][0]
        elif blocks:
            place = blocks[-1][1]
        else:
            place = _place_of_first("\n".join(old), kind)
        before, after = old[:place], old[place:]
        while before and not before[-1].strip():
            before.pop()
        while after and not after[0].strip():
            after.pop(0)
        return [*before, *([""] if before else []), *block, *([""] if after else []), *after]

    def change(content: dict[str, Any]) -> None:
        held = content.setdefault(kind, [])
        held.insert(len(held) if at is None else at, dict(table))

    return _moved(text, lines, change)


def remove(text: str, kind: str, at: int) -> str:
    """The text without its at-th step or measure, and the comments right above it."""

    def lines(old: list[str]) -> list[str]:
        start, end = _blocks("\n".join(old), kind)[at]
        return [*old[:start], *old[end:]]

    def change(content: dict[str, Any]) -> None:
        del content[kind][at]
        if not content[kind]:
            del content[kind]

    return _moved(text, lines, change)


def move(text: str, at: int, to: int) -> str:
    """A step at another place of the order, with its comments."""

    def lines(old: list[str]) -> list[str]:
        blocks = _blocks("\n".join(old), "step")
        order = list(range(len(blocks)))
        order.insert(to, order.pop(at))
        parts = [_closed(old[start:end]) for start, end in blocks]
        out, last = [], 0
        for place, (start, end) in enumerate(blocks):
            out += [*old[last:start], *parts[order[place]]]
            last = end
        return [*out, *old[last:]]

    def change(content: dict[str, Any]) -> None:
        held = content["step"]
        held.insert(to, held.pop(at))

    if at == to:
        return text
    return _moved(text, lines, change)


def clear(text: str, kind: str) -> str:
    """The text without its steps (or measures)."""
    for at in reversed(range(len(tables(text, kind)))):
        text = remove(text, kind, at)
    return text


def new_id(text: str, kind: str, wanted: str) -> str:
    """An id that no step (or measure) of the text has."""
    word = {"step": "mask", "measure": "measure"}[kind]
    taken = {str(t.get("id") or t.get(word)) for t in tables(text, kind)}
    plain = re.sub(r"\W+", "_", wanted.casefold(), flags=re.ASCII).strip("_") or word
    out, number = plain, 2
    while out in taken:
        out, number = f"{plain}_{number}", number + 1
    return out


# -- how ------------------------------------------------------------------------------------------------


def _edited(text: str, change: Callable[[Any], None]) -> str:
    """The change made on the document by tomlkit, held against the same change on plain values."""
    wanted = copy.deepcopy(plan_source.parse(text))
    change(wanted)
    try:
        document = tomlkit.parse(text)
        change(document)
        new = document.as_string()
    except Exception:  # tomlkit's own trouble with rare ways of writing: the values are what counts
        new = ""
    return _as_meant(new, wanted)


def _moved(
    text: str, lines: Callable[[list[str]], list[str]], change: Callable[[dict[str, Any]], None]
) -> str:
    wanted = copy.deepcopy(plan_source.parse(text))
    change(wanted)
    try:
        new = "\n".join(lines(text.split("\n")))
    except (IndexError, ValueError):
        new = ""
    return _as_meant(new, wanted)


def _as_meant(new: str, wanted: Mapping[str, Any]) -> str:
    wanted = {k: v for k, v in wanted.items() if v not in ({}, [])}
    try:
        got = plan_source.parse(new)
    except Exception:
        got = None
    if got is not None and {k: v for k, v in got.items() if v not in ({}, [])} == wanted:
        return new if new.endswith("\n") else new + "\n"
    ordered = {k: wanted[k] for k in (*TOP_KEYS, *wanted) if k in wanted}
    return plan_source.dump(ordered)


def _table(content: Any, name: str) -> Any:
    if name not in content:
        content[name] = {} if type(content) is dict else tomlkit.table()
    return content[name]


def _set(table: Any, name: str, value: Any | None) -> None:
    """One value of a table; the comment behind the old one stays."""
    if value is None:
        if name in table:
            del table[name]
        return
    if type(table) is dict:
        table[name] = value
        return
    new, old = tomlkit.item(value), table.get(name)
    if old is not None and hasattr(old, "trivia"):
        new.trivia.comment, new.trivia.comment_ws = old.trivia.comment, old.trivia.comment_ws
        new.trivia.trail = old.trivia.trail
    table[name] = new


_HEADER = re.compile(r"^\s*\[")


def _headers(text: str) -> dict[int, plan_source.Path]:
    """Line (from 0) of each table's header → its path."""
    rows = text.split("\n")
    out: dict[int, plan_source.Path] = {}
    for path, line in plan_source.lines_of(text).items():
        if 0 < line <= len(rows) and _HEADER.match(rows[line - 1]) and line - 1 not in out:
            out[line - 1] = path
    return out


def _blocks(text: str, kind: str) -> list[tuple[int, int]]:
    """First and last-but-one line of each table of a kind, with the comments right above its header."""
    rows, headers = text.split("\n"), _headers(text)
    starts = {line: _with_comments(rows, line) for line in headers}
    out = []
    for line, path in sorted(headers.items()):
        if len(path) != 2 or path[0] != kind or not isinstance(path[1], int):
            continue
        later = [starts[n] for n, p in headers.items() if n > line and p[:2] != path]
        out.append((starts[line], min(later, default=len(rows))))
    return out


def _with_comments(rows: Sequence[str], line: int) -> int:
    while line > 0 and rows[line - 1].lstrip().startswith("#"):
        line -= 1
    return line


def _closed(block: list[str]) -> list[str]:
    """A block that ends with one empty line."""
    while block and not block[-1].strip():
        block = block[:-1]
    return [*block, ""]


def _place_of_first(text: str, kind: str) -> int:
    """Where the first table of a kind goes: before the tables that a plan has after it."""
    rows, later = text.split("\n"), TOP_KEYS[TOP_KEYS.index(kind) + 1 :]
    places = [_with_comments(rows, line) for line, path in _headers(text).items() if path[0] in later]
    return min(places, default=len(rows))
