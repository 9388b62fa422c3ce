"""Every promise of a step, judged on the file before it and the file after it in one pass over both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.contract.guarantees import ByBlocks, Check, Guarantee
from sfumato.data.differences import changed, same_memory
from sfumato.data.edit_check import broken, edits_of
from sfumato.data.edits import Edit
from sfumato.data.microdata import Microdata
from sfumato.data.usable import below_zero, negatives


@dataclass(frozen=True)
class Verified:
    """What a look at both files says: each promise, in how many records a column changed, odd signs."""

    checks: list[Check]
    touched: dict[str, int]
    below_zero: list[str]


@dataclass(frozen=True)
class _Part:
    promises: list[Any]
    changed: dict[str, int]
    negative: dict[str, tuple[int, int]]


def verified(
    before: Microdata, after: Microdata, promised: Sequence[Guarantee], touched: Sequence[str]
) -> Verified:
    """The outcome of every promise on two files with the same records; ``touched`` are the columns that may
    differ."""
    blocks = [g for g in promised if isinstance(g, ByBlocks)]
    both = [c for c in touched if c in before.columns and c in after.columns]

    def look(one: Microdata, two: Microdata, _start: int) -> _Part:
        signs = {c: negatives(one, two, c) for c in both}
        return _Part(
            [g.partial(one, two) for g in blocks],
            {c: _changed(one, two, c) for c in both},
            {c: pair for c, pair in signs.items() if pair is not None},
        )

    same = len(before) == len(after)
    columns = list(dict.fromkeys([*both, *(c for g in blocks for c in g.looks_at())]))
    parts = before.compare(after, look, columns) if same and columns else []
    checks = []
    for guarantee in promised:
        if isinstance(guarantee, ByBlocks) and same:
            problem = guarantee.judged([p.promises[blocks.index(guarantee)] for p in parts])
            checks.append(Check(guarantee.describe(), problem is None, problem or ""))
        else:
            checks.append(guarantee.check(before, after))
    counts = {
        c: sum(p.changed[c] for p in parts) if c in both else len(after)
        for c in touched
        if c in after.columns
    }
    said = []
    for column in both:
        pairs = [p.negative[column] for p in parts if column in p.negative]
        word = below_zero(column, sum(was for was, _ in pairs), sum(now for _, now in pairs))
        said += [word] if word is not None else []
    return Verified(checks, counts, said)


def _changed(before: Microdata, after: Microdata, column: str) -> int:
    one, two = before.column(column), after.column(column)
    return 0 if same_memory(one, two) else changed(one, two)


def broken_edits(before: Microdata, after: Microdata, touched: Sequence[str]) -> list[str]:
    """A sentence on every declared edit that more records break than before."""
    out = []
    for edit in edits_of(before.schema):
        if edit.columns & set(touched) and edit.columns <= set(after.columns):
            was, now = (_count(edit, data) for data in (before, after))
            if now > was:
                out.append(f"the edit {edit} is broken in {now:,} records, before in {was:,}")
    return out


def _count(edit: Edit, data: Microdata) -> int:
    if edit.members > 1:  # between members of a household, who may stand anywhere
        return int(broken(edit, data).sum())
    return sum(data.aggregate(lambda block, _: int(broken(edit, block).sum()), sorted(edit.columns)))
