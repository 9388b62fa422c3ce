"""Names and values as text that can't deceive: what turns or hides text is spelt out.

>>> shown("a\\u202etxt.exe"), shown("  "), shown("INCOME")
('a[U+202E]txt.exe', '[2 blanks]', 'INCOME')
"""

from __future__ import annotations

import unicodedata
from typing import Any


def shown(value: Any) -> str:
    """A name or value for a page; escaping is the template's."""
    if value is None:
        return "missing"
    text = str(value)
    if not text:
        return "[empty]"
    if not text.strip():
        return f"[{len(text)} blank{'s' if len(text) != 1 else ''}]"
    return "".join(f"[U+{ord(c):04X}]" if _odd(c) else c for c in text)


def shown_lines(text: str) -> str:
    """A text of several lines, such as a plan."""
    return "\n".join(shown(line) if line.strip() else "" for line in text.split("\n"))


def sentence(text: str) -> str:
    """A message as a sentence: many begin in the middle of one.

    >>> sentence("the file has 10 records"), sentence("Stopped.")
    ('The file has 10 records.', 'Stopped.')
    """
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…", "?")) else ".")


def _odd(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
