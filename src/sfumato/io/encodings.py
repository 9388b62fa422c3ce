"""Text files as UTF-8: byte order marks, old encodings, compression, line ends.

A file without a mark that isn't UTF-8 is read as Windows-1252 (a superset of what Latin-1 files hold
in practice), and a warning says so and where the first such character stands.
"""

from __future__ import annotations

import codecs
import gzip
import warnings
import zlib
from pathlib import Path
from typing import Final

from sfumato.errors import InputError, SfumatoWarning

_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HEAD: Final = 1 << 16
_GZIP: Final = b"\x1f\x8b"


def as_utf8(file: Path, encoding: str | None) -> Path | bytes:
    """The path itself where Polars can read the file as it is, else the content as UTF-8 bytes.

    A file that has no mark and no stated encoding is taken for UTF-8 here; whoever reads it and
    finds that it isn't calls :func:`from_legacy`.
    """
    with file.open("rb") as handle:
        head = handle.read(_HEAD)
    content: bytes | None = None
    if head.startswith(_GZIP):
        content = unpacked(file)
        head = content[:_HEAD]
    marked = _of_mark(head)
    if encoding is not None:
        name = _known(encoding)
        if marked is not None and name in ("utf-8", "utf-16", "utf-32") and marked.startswith(name):
            name = marked
        if name != "utf-8":
            content = decoded(file, file.read_bytes() if content is None else content, name)
    elif marked is not None and marked != "utf-8-sig":
        content = decoded(file, file.read_bytes() if content is None else content, marked)
    if content is None and b"\r" in head and b"\n" not in head:
        content = file.read_bytes()
    if content is not None:
        content = content.removeprefix(codecs.BOM_UTF8)
        if b"\n" not in content[:_HEAD] and b"\r" in content[:_HEAD]:
            content = content.replace(b"\r", b"\n")  # line ends of the old Macintosh
        head = content[:_HEAD]
    if b"\0" in head:
        raise InputError(f"{file} isn't a text file", hint="its suffix may be wrong")
    return file if content is None else content


def unpacked(file: Path) -> bytes:
    """The content of a gzip file."""
    try:
        content = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as problem:
        raise InputError(f"{file} can't be unpacked: {problem}", hint="it may be cut short") from None
    if not content:
        raise InputError(f"{file} is empty")
    return content


def from_legacy(file: Path, source: Path | bytes) -> bytes:
    """The content of a file that isn't UTF-8, read as Windows-1252 (or Latin-1), with a warning."""
    raw = source if isinstance(source, bytes) else source.read_bytes()
    line = _line_of_first_bad(raw)
    try:
        text, name = raw.decode("cp1252"), "Windows-1252"
    except UnicodeDecodeError:
        text, name = raw.decode("latin-1"), "Latin-1"
    warnings.warn(
        f"{file} isn't UTF-8 (first in line {line:,}); it was read as {name}. "
        'If that is wrong, say encoding = "…" under [read] in the plan, or pass encoding=…',
        SfumatoWarning,
        stacklevel=2,
    )
    return text.encode()


def is_utf8(source: Path | bytes) -> bool:
    raw = source if isinstance(source, bytes) else source.read_bytes()
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def decoded(file: Path, raw: bytes, encoding: str) -> bytes:
    """Bytes of a named encoding as UTF-8; where they aren't of it, the error says in which line."""
    try:
        return raw.decode(encoding).encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as problem:
        line = raw[: problem.start].count(b"\n") + 1 if isinstance(problem, UnicodeDecodeError) else 1
        raise InputError(
            f"{file} isn't {encoding}: its line {line:,} holds bytes that {encoding} doesn't have",
            hint='pass another encoding, e.g. encoding="cp1252"; without one it is found out',
        ) from None


def refuse_other_than_utf8(file: Path, source: Path | bytes) -> None:
    """The error for a file that was said to be UTF-8 and isn't."""
    decoded(file, source if isinstance(source, bytes) else source.read_bytes(), "utf-8")


def _line_of_first_bad(raw: bytes) -> int:
    try:
        raw.decode()
    except UnicodeDecodeError as problem:
        return raw[: problem.start].count(b"\n") + 1
    return 1


def _of_mark(head: bytes) -> str | None:
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    # UTF-16 without a mark: Latin letters make every other byte zero.
    if len(head) >= 8 and head.count(b"\0") >= len(head) // 4:
        even, odd = head[0::2].count(b"\0"), head[1::2].count(b"\0")
        if odd > 3 * even:
            return "utf-16-le"
        if even > 3 * odd:
            return "utf-16-be"
    return None


def _known(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError):
        raise InputError(
            f"there is no encoding {encoding!r}", hint='for example "utf-8", "cp1252", "latin-1", "utf-16"'
        ) from None
