"""The dialect of a delimited file: its delimiter, its decimal sign, its encoding.

A release keeps the first two; it is written in UTF-8, and its dictionary says where that is a change.

>>> import pathlib, tempfile
>>> file = pathlib.Path(tempfile.mkdtemp()) / "p.csv"
>>> _ = file.write_text("a;b\\n1,5;2\\n2,25;3\\n")
>>> spoken(file)
Spoken(delimiter=';', decimal=',', encoding='UTF-8')
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sfumato.errors import SfumatoError
from sfumato.io.delimited import sniff
from sfumato.io.encodings import is_utf8, unpacked
from sfumato.io.formats import format_of

_HEAD: Final = 1 << 18
_COMMA: Final = re.compile(r"[+-]?\d+,\d+")
_POINT: Final = re.compile(r"[+-]?\d+\.\d+")


@dataclass(frozen=True)
class Spoken:
    """How a delimited file is written."""

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "UTF-8"


def spoken(file: Path, options: Mapping[str, Any] | None = None) -> Spoken | None:
    """The dialect of a file as it was read with these options; None where it isn't delimited text."""
    said = dict(options or {})
    try:
        if format_of(file, "fixed_width" if "metadata" in said else None).name not in ("csv", "tsv"):
            return None
        head, encoding = _head(file, said.get("encoding"))
    except (SfumatoError, OSError, LookupError):
        return None
    tabs = {".tsv", ".tab"} & {s.casefold() for s in file.suffixes}
    delimiter = said.get("delimiter") or sniff(head, said.get("quote", '"'), tabs=bool(tabs))
    decimal = said.get("decimal") or _decimal(head, delimiter)
    return Spoken(delimiter, decimal, encoding)


def _head(file: Path, encoding: str | None) -> tuple[str, str]:
    with file.open("rb") as handle:
        raw = handle.read(_HEAD)
    if raw.startswith(b"\x1f\x8b"):
        raw = unpacked(file)[:_HEAD]
    if encoding is not None:
        return raw.decode(encoding, errors="replace"), codecs.lookup(encoding).name.upper()
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", errors="replace"), "UTF-16"
    if is_utf8(file) or is_utf8(raw[: raw.rfind(b"\n") + 1]):
        return raw.decode("utf-8-sig", errors="replace"), "UTF-8"
    return raw.decode("cp1252", errors="replace"), "Windows-1252"


def _decimal(head: str, delimiter: str) -> str:
    """A comma where numbers have one and none has a point."""
    if delimiter == ",":
        return "."
    commas = points = 0
    for record in csv.reader(io.StringIO(head[: head.rfind("\n") + 1], newline=""), delimiter=delimiter):
        for value in record:
            commas += bool(_COMMA.fullmatch(value.strip()))
            points += bool(_POINT.fullmatch(value.strip()))
    return "," if commas > points else "."
