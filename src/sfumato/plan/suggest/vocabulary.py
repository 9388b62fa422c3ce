"""The word lists of ``vocabulary.toml``, read once."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources


@cache
def load(name: str = "vocabulary.toml") -> dict[str, dict[str, str]]:
    """``names`` (words in column names), ``codebooks`` (names of well-known surveys), ``values``; or the
    books of ``surveys.toml``."""
    text = resources.files("sfumato.plan.suggest").joinpath(name).read_text(encoding="utf-8")
    return tomllib.loads(text)


def phrases(text: str) -> list[str]:
    """What stands between the bars, line ends aside."""
    return [" ".join(part.split()) for part in text.split("|")]
