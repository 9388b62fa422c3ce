"""Where the columns of a fixed-width file stand: read from an SPSS, SAS, Stata or DDI file beside it.

Of a program only the statements that describe the data are read: positions, decimals, labels and missing
values. Nothing in it is run.

| suffix | read |
|---|---|
| .sps | ``DATA LIST``, ``VARIABLE LABELS``, ``VALUE LABELS``, ``MISSING VALUES`` |
| .sas | ``INPUT`` with columns or ``@`` pointers, ``LABEL`` |
| .dct, .do | ``infix`` or ``infile`` dictionaries, ``label variable``, ``label define`` and ``values`` |
| .xml | DDI codebook: ``var`` with ``location``, ``labl``, ``catgry`` |
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sfumato.errors import InputError
from sfumato.io.argus import Column, text_of

_QUOTED: Final = r"""("(?:[^"]|"")*"|'(?:[^']|'')*')"""
_NAME: Final = r"[A-Za-z_@#$][\w@#$.]*"


@dataclass
class Layout:
    """The columns of a text file in order, with the labels of variables and of codes."""

    columns: list[Column] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def named(self, name: str) -> Column | None:
        """The column of that name; the packages don't tell capitals apart."""
        return next((c for c in self.columns if c.name.casefold() == name.casefold()), None)


def read_layout(file: Path) -> Layout:
    """The layout that a program or codebook describes; an error where it describes none."""
    reader = READERS.get(file.suffix.casefold())
    if reader is None:
        raise InputError(
            f"{file} isn't a layout that sfumato knows", hint=f"it knows .rda, {', '.join(READERS)}"
        )
    layout = reader(text_of(file))
    if not layout.columns:
        raise InputError(
            f"{file} says of no variable where it stands", hint="is it the file that reads the data?"
        )
    for c in layout.columns:
        if c.length < 1 or c.start < 1 or c.end > 1_000_000:
            raise InputError(f"{file}: the columns of {c.name} ({c.start}-{c.end}) can't be right")
    return layout


def _unquoted(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0]).strip()


def _place(name: str, first: str, last: str | None, *, text: bool, decimals: str | None = None) -> Column:
    start = int(first)
    length = int(last or first) - start + 1
    implied = int(decimals) if decimals and not text else 0
    return Column(name, start, length, numeric=False, implied=implied, text=text)


# -- SPSS -----------------------------------------------------------------------------------------


def _spss(text: str) -> Layout:
    out = Layout()
    text = re.sub(r"(?m)^\s*\*[^.]*\.\s*$", "", text)
    for command in re.split(r"\.\s*(?:\r?\n|$)", text):
        body = command.strip()
        lower = " ".join(body[:60].split()).casefold()
        if lower.startswith("data list"):
            _spss_positions(body, out)
        elif lower.startswith(("variable label", "var label")):
            for m in re.finditer(rf"/?\s*({_NAME})\s+{_QUOTED}", _after(body, 2)):
                out.labels[m[1]] = _unquoted(m[2])
        elif lower.startswith(("value label", "add value label")):
            for part in re.split(r"/(?=(?:[^\"']|\"[^\"]*\"|'[^']*')*$)", _after(body, 2)):
                names = re.match(rf"\s*((?:{_NAME}[\s,]+)+)", part)
                pairs = {
                    _bare(m[1]): _unquoted(m[2])
                    for m in re.finditer(rf"(-?[\d.]+|{_QUOTED[1:-1]})\s+{_QUOTED}", part)
                }
                for name in names[1].replace(",", " ").split() if names else ():
                    out.codes.setdefault(name, {}).update(pairs)
        elif lower.startswith("missing value"):
            for m in re.finditer(rf"((?:{_NAME}[\s,]+)+)\(([^)]*)\)", _after(body, 2)):
                codes = tuple(_bare(c) for c in re.findall(r"-?[\d.]+|'[^']*'|\"[^\"]*\"", m[2]))
                if "thru" not in m[2].casefold():
                    for name in m[1].replace(",", " ").split():
                        _missing(out, name, codes)
    return out


def _after(text: str, words: int) -> str:
    return re.split(r"\s+", text, maxsplit=words)[-1]


def _bare(code: str) -> str:
    return code[1:-1] if code[:1] in "'\"" else code


def _spss_positions(body: str, out: Layout) -> None:
    records = re.search(r"records\s*=\s*(\d+)", body, re.IGNORECASE)
    if (records and int(records[1]) > 1) or re.search(r"/\s*2\b", body):
        raise InputError("a record of several lines isn't read", hint="join its lines first")
    _, _, listed = body.partition("/")
    pattern = (
        rf"({_NAME})(?:\s+to\s+({_NAME}))?\s+(\d+)(?:\s*-\s*(\d+))?(?:\s*\(\s*([A-Za-z]*)\s*,?\s*(\d*)\s*\))?"
    )
    for m in re.finditer(pattern, re.sub(r"^\s*1\s", " ", listed), re.IGNORECASE):
        kind = (m[5] or "").casefold()
        names = _spss_names(m[1], m[2])
        first, last = int(m[3]), int(m[4] or m[3])
        width = (last - first + 1) // len(names)
        for at, name in enumerate(names):
            begin = first + at * width
            out.columns.append(
                _place(name, str(begin), str(begin + width - 1), text=kind == "a", decimals=m[6])
            )


def _spss_names(first: str, last: str | None) -> list[str]:
    if last is None:
        return [first]
    one, two = re.match(r"(.*?)(\d+)$", first), re.match(r"(.*?)(\d+)$", last)
    if one is None or two is None:
        raise InputError(f"{first} TO {last} can't be counted", hint="name each variable with its columns")
    return [f"{one[1]}{str(k).zfill(len(one[2]))}" for k in range(int(one[2]), int(two[2]) + 1)]


def _missing(out: Layout, name: str, codes: tuple[str, ...]) -> None:
    column = out.named(name)
    if column is not None:
        column.missing = codes


# -- SAS ------------------------------------------------------------------------------------------


def _sas(text: str) -> Layout:
    out = Layout()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    statement = re.search(r"\binput\b(.*?);", text, re.IGNORECASE | re.DOTALL)
    if statement is None:
        return out
    if re.search(r"#\s*2\b", statement[1]) or re.search(r"(?m)^\s*/", statement[1]):
        raise InputError("a record of several lines isn't read", hint="join its lines first")
    pointed = rf"@\s*(\d+)\s+({_NAME})\s+(\$?)(?:[A-Za-z]*)(\d+)\.(\d*)"
    ranged = rf"({_NAME})\s+(\$?)\s*(\d+)\s*-\s*(\d+)(?:\s+\.(\d+))?"
    for m in re.finditer(pointed, statement[1]):
        last = int(m[1]) + int(m[4]) - 1
        out.columns.append(_place(m[2], m[1], str(last), text=bool(m[3]), decimals=m[5]))
    if not out.columns:
        for m in re.finditer(ranged, statement[1]):
            out.columns.append(_place(m[1], m[3], m[4], text=bool(m[2]), decimals=m[5]))
    for label in re.finditer(r"\blabel\b(.*?);", text, re.IGNORECASE | re.DOTALL):
        for m in re.finditer(rf"({_NAME})\s*=\s*{_QUOTED}", label[1]):
            out.labels[m[1]] = _unquoted(m[2])
    return out


# -- Stata ----------------------------------------------------------------------------------------


def _stata(text: str) -> Layout:
    out = Layout()
    text = re.sub(r"/\*.*?\*/|(?m:^\s*\*.*$)|///?.*$", " ", text, flags=re.MULTILINE)
    kinds = r"(byte|int|long|float|double|str\d*)?"
    infile = rf"_column\(\s*(\d+)\s*\)\s+{kinds}\s*({_NAME})\s+%(\d+)(?:\.(\d+))?([a-z]+)\s*({_QUOTED})?"
    for m in re.finditer(infile, text):
        last = int(m[1]) + int(m[4]) - 1
        is_text = (m[2] or "").startswith("str") or m[6] == "s"
        out.columns.append(_place(m[3], m[1], str(last), text=is_text))
        if m[7]:
            out.labels[m[3]] = _unquoted(m[7])
    if not out.columns:
        block = re.search(
            r"\binfix\b(?:\s+dictionary)?(.*?)(?:\busing\b\s+\S+\s*(?:\{(.*?)\}|$|\n)|\Z)", text, re.DOTALL
        )
        inner = (block[2] or block[1]) if block else ""
        for m in re.finditer(rf"{kinds}\s+({_NAME})\s+(\d+)(?:\s*-\s*(\d+))?", inner):
            out.columns.append(_place(m[2], m[3], m[4], text=(m[1] or "").startswith("str")))
    for m in re.finditer(rf"replace\s+({_NAME})\s*=\s*\1\s*/\s*(10+)\b", text):
        column = out.named(m[1])
        if column is not None:
            column.implied = len(m[2]) - 1
    for m in re.finditer(rf"label\s+var(?:iable)?\s+({_NAME})\s+`?{_QUOTED}", text):
        out.labels[m[1]] = _unquoted(m[2])
    lists: dict[str, dict[str, str]] = {}
    for m in re.finditer(rf"label\s+define\s+({_NAME})\s+(.*)", text):
        pairs = re.finditer(rf"(-?\d+)\s+`?{_QUOTED}", m[2])
        lists.setdefault(m[1], {}).update({p[1]: _unquoted(p[2]) for p in pairs})
    for m in re.finditer(rf"label\s+values\s+({_NAME})\s+({_NAME})", text):
        out.codes[m[1]] = lists.get(m[2], {})
    return out


# -- DDI ------------------------------------------------------------------------------------------


def _ddi(text: str) -> Layout:
    from xml.etree import ElementTree as Tree

    try:
        root = Tree.fromstring(text.encode())
    except Tree.ParseError as problem:
        raise InputError(f"the codebook isn't XML: {problem}") from None
    out = Layout()
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    for var in root.iter("var"):
        name, place = var.get("name") or var.get("ID") or "", var.find("location")
        if place is None or not place.get("StartPos"):
            continue
        start, width = int(place.get("StartPos", "1")), place.get("width")
        last = place.get("EndPos") or str(start + int(width or 1) - 1)
        form = var.find("varFormat")
        is_text = form is not None and form.get("type") == "character"
        column = _place(name, str(start), last, text=is_text, decimals=var.get("dcml"))
        label = var.findtext("labl")
        if label:
            out.labels[name] = label.strip()
        gone = []
        for category in var.iter("catgry"):
            code = (category.findtext("catValu") or "").strip()
            if code:
                out.codes.setdefault(name, {})[code] = (category.findtext("labl") or "").strip()
                gone += [code] if category.get("missing") == "Y" else []
        column.missing = tuple(gone)
        out.columns.append(column)
    return out


READERS: Final[dict[str, Callable[[str], Layout]]] = {
    ".sps": _spss, ".sas": _sas, ".dct": _stata, ".do": _stata, ".xml": _ddi,
}  # fmt: skip
"""What reads the layouts of each suffix."""
