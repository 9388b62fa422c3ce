"""A table in plain text, as the terminal and the text report show it."""

from __future__ import annotations

from collections.abc import Sequence


def grid(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool] | None = None,
    indent: str = "  ",
) -> list[str]:
    """Lines with aligned columns; all but the first stand to the right unless ``right`` says otherwise.

    A row with fewer cells than heads ends in a remark, which may run on.

    >>> print("\\n".join(grid(["key", "levels"], [["AGE", "80"], ["SEX", "2"], ["all two"]], indent="")))
    key  levels
    AGE      80
    SEX       2
    all two
    """
    sides = [j > 0 for j in range(len(heads))] if right is None else list(right)
    aligned = [list(heads), *(r if len(r) == len(heads) else r[:-1] for r in rows)]
    widths = [max(len(row[j]) for row in aligned if j < len(row)) for j in range(len(heads))]
    out = []
    for row in [list(heads), *rows]:
        words = [w.rjust(n) if r else w.ljust(n) for w, n, r in zip(row, widths, sides, strict=False)]
        if len(row) < len(heads):
            words[-1] = row[-1]
        out.append((indent + "  ".join(words)).rstrip())
    return out
