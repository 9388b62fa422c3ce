"""Metadata of mu-ARGUS: .rda files (what the columns of a text file are) and .cdl code lists.

An .rda file describes variables one after another: a line with the name, the first position, the
length and the missing codes, then indented lines of tags. With ``<SEPARATOR>`` at the top the data
are delimited, and the position is left out.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sfumato.errors import InputError

_TAG: Final = re.compile(r"^<(?P<name>[A-Za-z_]+)>\s*(?P<value>.*)$")


@dataclass
class Column:
    """One variable of an .rda file; ``start`` counts from 1 and is 0 in free format."""

    name: str
    start: int
    length: int
    missing: tuple[str, ...] = ()
    numeric: bool = False
    decimals: int = 0
    weight: bool = False
    household_id: bool = False
    household: bool = False
    recodable: bool = False
    truncable: bool = False
    id_level: int = 0
    suppress_weight: int | None = None
    codelist: str | None = None
    implied: int = 0
    """Decimals that aren't written: 1234 with two of them is 12.34 (SPSS, SAS, DDI)."""
    text: bool = False
    """Whether the layout says that it is text, whatever stands there."""

    @property
    def end(self) -> int:
        return self.start - 1 + self.length


@dataclass
class Metadata:
    """A whole .rda file."""

    columns: list[Column] = field(default_factory=list)
    separator: str | None = None


def beside(data: Path, metadata: str | Path | None = None) -> Path:
    """The metadata of a data file: the one that is named, else .rda (or .rds) of the same stem."""
    if metadata is not None:
        found = Path(metadata)
        if not found.is_file():
            raise InputError(f"{found}: there is no such metadata file")
        return found
    beside_it = layout_beside(data)
    if beside_it is None:
        raise InputError(
            f"{data} is fixed-width text, and its metadata {data.with_suffix('.rda').name} aren't beside it",
            hint=LAYOUT_HINT,
        )
    return beside_it


LAYOUT_HINT: Final = (
    "put its layout beside it (mu-ARGUS .rda, SPSS .sps, SAS .sas, Stata .dct or .do, or DDI .xml of the "
    'same name), or say metadata = "…" under [read] in a plan'
)
LAYOUTS: Final = (".rda", ".rds", ".sps", ".sas", ".dct", ".do", ".xml")
"""What may describe a text file, the first of the same stem before others."""


def layout_beside(data: Path) -> Path | None:
    """The file of the same stem that describes the columns of a text file, if there is one."""
    try:
        there = {p.name.casefold(): p for p in data.parent.iterdir() if p.is_file()}
    except OSError:
        return None
    return next((there[n] for s in LAYOUTS if (n := f"{data.stem}{s}".casefold()) in there), None)


def read_rda(file: Path) -> Metadata:
    """Read an .rda file; a line that isn't understood is an error with its number."""
    out = Metadata()
    for number, raw in enumerate(text_of(file).splitlines(), 1):
        line = raw.strip().strip("\x1a")
        if not line:
            continue
        try:
            tag = _TAG.match(line)
            if tag is None:
                out.columns.append(_column(line, free=out.separator is not None))
            elif tag["name"].upper() == "SEPARATOR":
                out.separator = _unquoted(tag["value"]) or ","
            elif not out.columns:
                raise ValueError(f"<{tag['name']}> comes before any variable")
            else:
                _apply(out.columns[-1], tag["name"].upper(), tag["value"].strip())
        except ValueError as problem:
            raise InputError(f"{file}: line {number:,} isn't understood: {problem}") from None
    if not out.columns:
        raise InputError(f"{file} describes no variable", hint="is it an .rda file of mu-ARGUS?")
    if out.separator is not None and len(out.separator) != 1:
        raise InputError(f"{file}: the separator must be one character, not {out.separator!r}")
    return out


def _column(line: str, *, free: bool) -> Column:
    parts = _words(line)
    at = 1 if free else 2
    if len(parts) < at + 1:
        raise ValueError("a variable needs a name, " + ("a length" if free else "a position and a length"))
    try:
        numbers = [int(p) for p in parts[1 : at + 1]]
    except ValueError:
        raise ValueError("the position and length of a variable must be whole numbers") from None
    start, length = (0, numbers[0]) if free else (numbers[0], numbers[1])
    if length < 1 or (not free and start < 1):
        raise ValueError("positions and lengths begin at 1")
    if max(start, length) > 1_000_000:
        raise ValueError("a position or length above a million")
    return Column(parts[0], start, length, tuple(parts[at + 1 :]))


def _apply(column: Column, tag: str, value: str) -> None:
    match tag:  # tags of other versions are left alone
        case "NUMERIC":
            column.numeric = True
        case "DECIMALS":
            column.decimals = _whole(tag, value)
        case "WEIGHT":
            column.weight = True
        case "HOUSE_ID":
            column.household_id = True
        case "HOUSEHOLD":
            column.household = True
        case "RECODABLE":
            column.recodable = True
        case "TRUNCABLE":
            column.truncable = True
        case "IDLEVEL":
            column.id_level = _whole(tag, value)
        case "SUPPRESSWEIGHT" | "SUPPRESSPRIORITY":
            column.suppress_weight = _whole(tag, value)
        case "CODELIST":
            column.codelist = _unquoted(value)


def _whole(tag: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,9}", value):
        raise ValueError(f"<{tag}> needs a whole number")
    return int(value)


def _words(line: str) -> list[str]:
    """Words, some of them in quotes."""
    reader = shlex.shlex(line, posix=True)
    reader.whitespace_split, reader.commenters, reader.escape, reader.quotes = True, "", "", '"'
    return list(reader)


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1]
    return value


def read_codelist(file: Path) -> dict[str, str]:
    """The labels of a .cdl file: a code, a comma and a label on each line.

    The first label of a code counts.
    """
    out: dict[str, str] = {}
    for record in csv.reader(text_of(file).splitlines(), skipinitialspace=True):
        if len(record) >= 2 and record[0].strip():
            out.setdefault(record[0].strip(), ",".join(record[1:]).strip())
    return out


def codelists(metadata: Metadata, folder: Path) -> dict[str, dict[str, str]]:
    """Each variable's labels, from the code lists that lie beside the metadata.

    Names are compared without case, since they come from Windows; a list that isn't there is left
    out (labels are a help, not a need), and a path never leads out of the folder.
    """
    wanted = {c.name: Path(c.codelist.replace("\\", "/")).name for c in metadata.columns if c.codelist}
    if not wanted:
        return {}
    try:
        there = {p.name.casefold(): p for p in folder.iterdir()}
    except OSError:
        return {}
    return {
        name: read_codelist(there[file.casefold()])
        for name, file in wanted.items()
        if file.casefold() in there and there[file.casefold()].is_file()
    }


def write_rda(metadata: Metadata) -> str:
    """The text of an .rda file."""
    lines = []
    if metadata.separator is not None:
        lines.append(f'<SEPARATOR> "{metadata.separator}"')
    for c in metadata.columns:
        place = f"{c.length}" if metadata.separator is not None else f"{c.start} {c.length}"
        codes = "".join(f' "{m}"' for m in c.missing)
        lines.append(f"{c.name} {place}{codes}")
        tags: Sequence[tuple[bool, str]] = (
            (c.household_id, "<HOUSE_ID>"),
            (c.recodable, "<RECODABLE>"),
            (c.numeric, "<NUMERIC>"),
            (c.decimals > 0, f"<DECIMALS> {c.decimals}"),
            (c.weight, "<WEIGHT>"),
            (c.recodable, f"<IDLEVEL> {c.id_level}"),
            (c.codelist is not None, f'<CODELIST> "{c.codelist}"'),
            (c.truncable, "<TRUNCABLE>"),
            (c.household, "<HOUSEHOLD>"),
        )
        lines += [f"    {tag}" for on, tag in tags if on]
    return "\r\n".join(lines) + "\r\n"


def text_of(file: Path) -> str:
    """The text of a description, which is never large."""
    raw = file.read_bytes()
    if len(raw) > 1 << 26 or b"\0" in raw[:4096]:
        raise InputError(f"{file} isn't a text file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
