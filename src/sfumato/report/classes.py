"""The numbers behind the picture of a categorical column."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sfumato.data.microdata import BoolArray, Microdata

MOST_CLASSES = 12
LEAST_COUNT = 5
MISSING = "(missing)"


def categories(
    original: Microdata, masked: Microdata, column: str, *, public: bool, paired: bool = True
) -> dict[str, Any] | None:
    """Shares of the commonest categories before and after, and how many records left each.

    The public part has the masked file's shares only. Where a recode has left no category of old, so
    has the internal one: there is nothing to lay side by side. ``None`` where every category is rare.
    """
    z = _words(masked, column)
    after = _shares(z)
    known = not public
    before: dict[str, float] = {}
    if known:
        x = _words(original, column)
        before = _shares(x)
        known = bool((set(x.unique()) - {MISSING}) & (set(z.unique()) - {MISSING}))
    seen = dict(after)
    if known:
        seen = {c: max(after.get(c, 0.0), before.get(c, 0.0)) for c in after | before}
    if not seen or (max(seen.values()) < 0.02 and len(seen) > MOST_CLASSES):
        return None
    shown = sorted(seen, key=lambda c: -seen[c])
    if len(shown) > MOST_CLASSES:
        shown = shown[: MOST_CLASSES - 1]
    order = {c: at for at, c in enumerate(_order(masked, column))}
    shown.sort(key=lambda c: (c == MISSING, order.get(c, len(order)), c))
    moved: BoolArray = (x != z).to_numpy() if known and paired else np.zeros(0, dtype=np.bool_)
    rows = []
    for name in shown:
        row: dict[str, Any] = {"name": name, "after": after.get(name, 0.0)}
        if known:
            held = (x == name).to_numpy()
            few = 0 < held.sum() < LEAST_COUNT
            row["before"] = None if few else before.get(name, 0.0)
            row["left"] = float(moved[held].mean()) if paired and held.sum() >= LEAST_COUNT else None
        rows.append(row)
    if len(shown) < len(seen):
        rest = [c for c in seen if c not in set(shown)]
        row = {"name": f"{len(rest):,} others", "after": sum(after.get(c, 0.0) for c in rest)}
        if known:
            row |= {"before": sum(before.get(c, 0.0) for c in rest), "left": None}
        rows.append(row)
    out: dict[str, Any] = {
        "name": column,
        "label": masked.schema[column].label,
        "rows": rows,
        "before_known": known,
        "values": len([c for c in after if c != MISSING]),
    }
    if known and paired:
        out["changed"] = float(moved.mean())
    return out


def _words(data: Microdata, column: str) -> pl.Series:
    """The categories as text, with the label of a code behind it; all kinds of missing are one."""
    labels = {str(code): text for code, text in (data.schema[column].labels or {}).items()}
    words = data.column(column).cast(pl.String)
    if labels:
        named = {c: f"{c} {labels[c]}" for c in words.unique().drop_nulls() if c in labels}
        words = words.replace(named)
    return pl.select(
        pl.when(pl.lit(pl.Series(data.missing(column)))).then(pl.lit(MISSING)).otherwise(words)
    ).to_series()


def _shares(words: pl.Series) -> dict[str, float]:
    counts = words.value_counts()
    name = counts.columns[0]
    return {r[name]: r["count"] / len(words) for r in counts.to_dicts()}


def _order(data: Microdata, column: str) -> list[str]:
    """Categories in the schema's order, else of numbers by size, else by name."""
    said = data.schema[column].order
    values = list(said) if said else data.column(column).drop_nulls().unique().sort().to_list()
    labels = {str(code): text for code, text in (data.schema[column].labels or {}).items()}
    return [f"{v} {labels[str(v)]}" if str(v) in labels else str(v) for v in values]
