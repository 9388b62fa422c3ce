"""A form as it was sent, what a change comes to, and the one way by which a plan changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from sfumato.errors import InputError, ParameterError, PlanError
from sfumato.workbench.bench import Workbench


class Sent:
    """A form as it was sent."""

    def __init__(self, body: str) -> None:
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=20_000)
        # A browser sends every line end as two signs; a column's name may hold one of them.
        self.pairs = [(k, v.replace("\r\n", "\n")) for k, v in pairs]

    def get(self, key: str, default: Any = None) -> Any:
        held = self.getlist(key)
        return held[-1] if held else default

    def getlist(self, key: str) -> list[Any]:
        return [v for k, v in self.pairs if k == key]

    def number(self, key: str) -> int:
        try:
            return int(self.get(key, ""))
        except ValueError:
            raise ParameterError("This form isn't one of the workbench's.") from None


@dataclass(frozen=True)
class Done:
    """What a change came to: where to go, and what to say there."""

    to: str = ""
    toast: str = ""
    undo: bool = False
    error: str = ""
    hint: str = ""
    more: dict[str, Any] | None = None


def change_plan(
    bench: Workbench, form: Sent, text: str, name: str, *, to: str = "", control: str = ""
) -> Done:
    """Put the text in the plan's place; what can't be read is said, and the plan stays."""
    before = bench.view()
    count = before.unsafe if before is not None else None
    seen = form.get("epoch")
    try:
        changed = bench.now.change(
            text,
            name,
            control=control,
            tab=form.get("tab", ""),
            seen=int(seen) if seen and seen.isdigit() else None,
        )
    except PlanError as problem:
        first = problem.problems[0]
        return Done(to, error=f"{capital(first.message)}. The plan is as it was.", hint=first.hint or "")
    if not changed:
        return Done(to)
    after = bench.view()
    words = f"{capital(name)}."
    if count is not None and after is not None and after.unsafe != count:
        words += f" {count:,} → {after.unsafe:,} unsafe records."
    return Done(to, toast=words, undo=True)


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def number_of(said: str, what: str) -> float:
    try:
        value = float(said.replace(",", "").replace("_", ""))
    except ValueError:
        raise ParameterError(
            f"{said[:40]!r} isn't a number, and {what} is one. The plan is as it was."
        ) from None
    if not math.isfinite(value):
        raise ParameterError(f"{capital(what)} must be finite. The plan is as it was.")
    return int(value) if value.is_integer() else value


def column_of(bench: Workbench, form: Sent) -> str:
    """The column that a form means, by its place: names never stand in a page's attributes."""
    data = bench.opened.file if bench.opened is not None else None
    if data is None:
        raise InputError("The file isn't read yet.")
    at = form.number("column")
    if not 0 <= at < len(data.columns):
        raise ParameterError("There is no such column.")
    return data.columns[at]
