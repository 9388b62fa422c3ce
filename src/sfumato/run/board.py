"""What a disclosure review board asks for: who could look, among how many, and which groups stand out.

Counted on the two files by the keys alone: sizes of the classes that share all keys, before and after, and
for each value of a key the share of its records that nobody shares all keys with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from sfumato.cells import CellTable
from sfumato.data.microdata import Microdata
from sfumato.plan.audience import PUBLIC, RESEARCH, audience
from sfumato.plan.parts import Limit

SIZES: Final = ((1, 1), (2, 2), (3, 4), (5, 9), (10, 19), (20, None))
MOST_GROUPS: Final = 10
LEAST: Final = 20
"""Groups of fewer records aren't listed: their shares say little, and they are few people."""


def board(
    original: Microdata,
    masked: Microdata,
    drop: Sequence[str],
    limits: Sequence[Limit],
    dealt: int | None,
    *,
    paired: bool = True,
    whom: str | None = None,
) -> dict[str, Any]:
    """Scenario, class sizes and groups, as plain values; ``dealt``: among how many everything was dealt."""
    schema = original.schema
    keys = [k for k in dict.fromkeys([*schema.keys, *schema.geography]) if k in original.columns]
    after = [k for k in keys if k in masked.columns and k not in drop]
    out: dict[str, Any] = {
        "scenario": _scenario(limits, whom),
        "keys": keys,
        "keys_released": after,
        "dealt": dealt,
        "sizes": [],
        "groups": [],
        "blanks": [],
    }
    if not keys:
        return out
    sizes = _frequencies(original, keys)
    later = _frequencies(masked, after) if after else np.full(len(masked), len(masked))
    for low, high in SIZES:
        name = f"{low}" if low == high else f"{low} to {high}" if high else f"{low} and more"
        top = np.inf if high is None else high
        row = [float(((s >= low) & (s <= top)).mean()) if len(s) else 0.0 for s in (sizes, later)]
        out["sizes"].append({"size": name, "before": row[0], "after": row[1]})
    if paired:  # else nobody knows which released record a group's are
        out["blanks"] = [
            {"key": k, "before": int(original.missing(k).sum()), "after": int(masked.missing(k).sum())}
            for k in after
            if masked.missing(k).sum() != original.missing(k).sum()
        ]
        out["groups"] = _groups(original, keys, sizes, later)
    return out


def _scenario(limits: Sequence[Limit], whom: str | None) -> str:
    rates = [x.at_most for x in limits if x.figure == "rate" and x.at_most is not None]
    who = RESEARCH if rates and min(rates) > PUBLIC.rate else PUBLIC
    if whom is not None:
        who = audience(whom)
    given = "every key and every number of everybody in the file"
    if whom is not None and who.numbers_known is not None:
        given = f"every key and the {who.numbers_known} numbers that tell the most of everybody in the file"
    return (
        f"Who could look: {who.scenario}. What he has may come from registers, customer files, social "
        f"media or his own acquaintance. The attacks below were given more than he has: {given}."
    )


def _frequencies(data: Microdata, keys: Sequence[str]) -> Any:
    table = CellTable.of(data, keys, missing="category")
    return table.at_records(table.frequencies())


def _groups(data: Microdata, keys: Sequence[str], before: Any, after: Any) -> list[dict[str, Any]]:
    """The values of single keys whose records stand alone most often, before; and after."""
    rows = []
    for key in keys:
        values = data.column(key).cast(pl.String)
        if values.n_unique() > 200:
            continue
        frame = pl.DataFrame({"v": values, "one": before == 1, "two": after == 1}).drop_nulls("v")
        part = frame.group_by("v").agg(pl.len(), pl.col("one").mean(), pl.col("two").mean())
        rows += [
            {"group": f"{key} = {v}", "records": n, "before": one, "after": two}
            for v, n, one, two in part.filter(pl.col("len") >= LEAST).sort("v").iter_rows()
        ]
    return sorted(rows, key=lambda r: -r["before"])[:MOST_GROUPS]
