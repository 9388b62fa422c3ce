"""What a careful person would want to know of a run before signing: what was not masked.

Guarantees say what a step keeps, measures what an intruder finds; neither says that nobody thought of
a column. These cautions go to the person who runs a plan and to the internal report, never to public.

>>> import polars as pl, sfumato as sf
>>> data = sf.Microdata(pl.DataFrame({"PAY": [1, 2]}), sf.Schema(sensitive=["PAY"]))
>>> sf.Plan().run(data).warnings
['PAY is sensitive, and is released as it is']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from sfumato.microdata import Microdata

_LOOK: Final = 200_000
_LEAST: Final = 20


def cautions(masked: Microdata, touched: Mapping[str, Mapping[str, int]], drop: Sequence[str]) -> list[str]:
    """Sentences on steps that changed nothing and on columns that would be released as they are.

    ``touched`` has, for each step, how many records of each column it changed; ``drop`` are the
    columns that are not released.
    """
    out = []
    changed = {c for counts in touched.values() for c, n in counts.items() if n}
    gone = [label for label, counts in touched.items() if not any(counts.values())]
    if touched and not changed:
        out.append("no step changed any value: the release would hold the original records")
    else:
        out += [f"step {label} changed nothing" for label in gone]
    schema = masked.schema
    apart = {schema.id, schema.household, schema.weight, *drop, *changed}
    for column in masked.columns:
        if column in apart:
            continue
        if column in schema.sensitive:
            out.append(f"{column} is sensitive, and is released as it is")
        elif _nearly_unique(masked, column):
            out.append(
                f"{column} is released as it is, and nearly every record has its own value: whoever knows it "
                "finds the person (recode it, mask it, or name it in `drop` under [release])"
            )
    return out


def _nearly_unique(data: Microdata, column: str) -> bool:
    """Whether more than half of the (first) records that have a value share it with nobody before them."""
    known = data.column(column).head(_LOOK).drop_nulls()
    dtype = known.dtype
    named = dtype in (pl.String, pl.Categorical, pl.Enum, pl.Date, pl.Datetime) or dtype.is_numeric()
    return named and len(known) >= _LEAST and 2 * known.n_unique() > len(known)
