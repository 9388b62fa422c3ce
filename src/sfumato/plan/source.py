"""The text of a plan: read, written, and which line says what.

>>> text = '[roles]\\nkeys = ["AGE"]   # known to neighbours\\n'
>>> lines_of(text)[("roles", "keys")]
2
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path as File
from typing import Any, TypeAlias

import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError

from sfumato.errors import InputError, PlanError, Problem, as_path

Path: TypeAlias = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)(.+?)(\]\]?)\s*(#.*)?$")


def read_text(path: File) -> str:
    """The text of a plan's file; what can't be read is said in a sentence."""
    try:
        return as_path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} isn't UTF-8 text", hint="save the plan as UTF-8") from None
    except OSError as problem:
        raise InputError(
            f"the plan {path} can't be read: {problem.strerror}",
            hint="`sfumato init FILE` writes a first plan for a data file",
        ) from None


def parse(text: str) -> dict[str, Any]:
    """The plan as plain values; a syntax error is a PlanError with its line."""
    try:
        content = tomlkit.parse(text).unwrap()
    except ParseError as problem:
        message = str(problem).split(" at line ")[0]
        hint = None
        if not any(re.match(r"\s*(#|\[|[\w.\"']+\s*=)", line) for line in text.splitlines()[:50]):
            hint = "a plan is a TOML file; `sfumato init FILE` writes one for a data file"
        raise PlanError([Problem(problem.line, f"this isn't TOML: {message}", hint)]) from None
    except (TOMLKitError, ValueError, RecursionError) as problem:
        raise PlanError([Problem(_line_by_tomllib(text), f"this isn't TOML: {problem}")]) from None
    return content


def _line_by_tomllib(text: str) -> int:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        found = re.search(r"at line (\d+)", str(problem))
        return int(found.group(1)) if found else 0
    except (RecursionError, ValueError):
        pass
    return 0


def lines_of(text: str) -> dict[Path, int]:
    """The line (from 1) of every table and key: ``("step", 0, "columns") → 12``."""
    out: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    depth, closing = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        if closing or depth:  # inside a value that runs over several lines
            depth, closing = _after(line, depth, closing)
            continue
        header = _HEADER.match(line)
        if header and len(header.group(1)) == len(header.group(3)):
            names = _key_path(header.group(2))
            if names is None:
                continue
            if len(header.group(1)) == 2:
                parent = _resolve(names[:-1], counts)
                place = (*parent, names[-1])
                counts[place] = counts.get(place, -1) + 1
                table = (*place, counts[place])
            else:
                table = _resolve(names, counts)
            out.setdefault(table, number)
            continue
        before, equals, value = _split_assignment(line)
        if not equals:
            continue
        names = _key_path(before)
        if names is None:
            continue
        path = (*table, *names)
        for size in range(len(table) + 1, len(path) + 1):
            out.setdefault(path[:size], number)
        depth, closing = _after(value, 0, "")
    return out


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of a path, or of the nearest table around it; 0 where none is known."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return 0


def dump(content: Mapping[str, Any]) -> str:
    """Plain values as TOML, in the order of a plan."""
    document = tomlkit.document()
    for key, value in content.items():
        if isinstance(value, Mapping):
            document[key] = _table(value)
        elif isinstance(value, Sequence) and value and isinstance(value[0], Mapping):
            tables = tomlkit.aot()
            for one in value:
                tables.append(_table(one))
            document[key] = tables
        else:
            document[key] = value
    return document.as_string()


def _table(content: Mapping[str, Any]) -> tomlkit.items.Table:
    table = tomlkit.table()
    for key, value in content.items():
        if value is not None:
            table[key] = value
    return table


def _key_path(text: str) -> tuple[str, ...] | None:
    """``a."b.c".d`` → ("a", "b.c", "d"), by TOML's own rules."""
    try:
        content: Any = tomllib.loads(f"{text.strip()} = 0")
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    names = []
    while isinstance(content, dict):
        ((name, content),) = content.items()
        names.append(name)
    return tuple(names)


def _resolve(names: Sequence[str], counts: Mapping[Path, int]) -> Path:
    """A header's names with the running number of every table array on the way."""
    path: Path = ()
    for name in names:
        path = (*path, name)
        if path in counts:
            path = (*path, counts[path])
    return path


def _split_assignment(line: str) -> tuple[str, str, str]:
    """The key, "=", and the value of a line; quotes in keys are respected."""
    quote = ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#":
            break
        elif letter == "=":
            return line[:at], "=", line[at + 1 :]
    return line, "", ""


def _after(text: str, depth: int, closing: str) -> tuple[int, str]:
    """How deep in brackets and in which multi-line string we are after this piece of a value."""
    at = 0
    while at < len(text):
        if closing:
            end = text.find(closing, at)
            if end < 0:
                return depth, closing
            at, closing = end + 3, ""
            continue
        three = text[at : at + 3]
        letter = text[at]
        if three in ('"""', "'''"):
            at, closing = at + 3, three
        elif letter in "\"'":
            at += 1
            while at < len(text) and text[at] != letter:
                at += 2 if letter == '"' and text[at] == "\\" else 1
            at += 1
        elif letter == "#":
            break
        else:
            depth += (letter in "[{") - (letter in "]}")
            at += 1
    return max(depth, 0), closing
