"""How sums hang together: which totals change with which parts, and in which order they follow.

What a rule is and when it holds is in :mod:`sfumato.data.rules`; what a mask does about it is the mask's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def touched_rules(
    sums: Mapping[str, Sequence[str]], columns: Sequence[str]
) -> list[tuple[str, tuple[str, ...]]]:
    """The sum rules whose total changes when these columns do, a total after the totals in it.

    >>> touched_rules({"ALL": ["SUB", "C"], "SUB": ["A", "B"], "OTHER": ["D"]}, ["A"])
    [('SUB', ('A', 'B')), ('ALL', ('SUB', 'C'))]
    """
    out: list[tuple[str, tuple[str, ...]]] = []
    changed = {c for c in columns if c not in sums}
    waiting = dict(sums)
    while True:
        ready = [
            t
            for t, parts in waiting.items()
            if changed & set(parts) and not any(p in waiting and _reaches(sums, p, changed) for p in parts)
        ]
        if not ready:
            break
        for total in ready:
            out.append((total, tuple(waiting.pop(total))))
            changed.add(total)
    return out


def _reaches(sums: Mapping[str, Sequence[str]], total: str, changed: set[str]) -> bool:
    """Whether a total not yet rebuilt will have to be."""
    seen: set[str] = set()
    todo = [total]
    while todo:
        now = todo.pop()
        if now in changed:
            return True
        if now in seen:
            continue
        seen.add(now)
        todo += sums.get(now, ())
    return False


def circular(sums: Mapping[str, Sequence[str]]) -> str | None:
    """A total that is, by way of others, a part of itself; None where there is none."""
    for start in sums:
        seen: set[str] = set()
        todo = list(sums[start])
        while todo:
            now = todo.pop()
            if now == start:
                return start
            if now not in seen:
                seen.add(now)
                todo += sums.get(now, ())
    return None


def from_the_bottom(sums: Mapping[str, Sequence[str]]) -> list[str]:
    """Totals, each after those it is made of (of sums that aren't circular).

    >>> from_the_bottom({"ALL": ["SUB", "C"], "SUB": ["A", "B"]})
    ['SUB', 'ALL']
    """
    out: list[str] = []

    def visit(total: str) -> None:
        for part in sums[total]:
            if part in sums:
                visit(part)
        if total not in out:
            out.append(total)

    for total in sums:
        visit(total)
    return out


def leaves(sums: Mapping[str, Sequence[str]], total: str) -> list[str]:
    """The columns that a total is made of in the end.

    >>> leaves({"ALL": ["SUB", "C"], "SUB": ["A", "B"]}, "ALL")
    ['A', 'B', 'C']
    """
    out: list[str] = []
    for part in sums[total]:
        out += leaves(sums, part) if part in sums else [part]
    return out
