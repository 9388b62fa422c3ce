"""Taking another plan's steps over: the person's roles, limits, measures and comments stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sfumato.plan import source as plan_source
from sfumato.workbench import edits
from sfumato.workbench.session import plan_hash


@lru_cache(maxsize=4096)
def work_hash(text: str) -> str:
    """What a plan does to a file, whatever it is measured by and held to: the place of a point on the map."""
    judged = ("title", "limits", "measure")
    return plan_hash(plan_source.dump({k: v for k, v in plan_source.parse(text).items() if k not in judged}))


def with_steps(text: str, steps: Sequence[Mapping[str, Any]], drop: Sequence[str] = ()) -> str:
    """The text with these steps instead of its own, and these columns left out of the release."""
    out = edits.clear(text, "step")
    for step in steps:
        out = edits.add(out, "step", step)
    for column in drop:
        out = edits.set_drop(out, column, True)
    return out
