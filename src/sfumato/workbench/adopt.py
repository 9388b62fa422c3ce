"""Taking another plan's steps over: the person's roles, limits, measures and comments stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.workbench import edits


def with_steps(text: str, steps: Sequence[Mapping[str, Any]], drop: Sequence[str] = ()) -> str:
    """The text with these steps instead of its own, and these columns left out of the release."""
    out = edits.clear(text, "step")
    for step in steps:
        out = edits.add(out, "step", step)
    for column in drop:
        out = edits.set_drop(out, column, True)
    return out
