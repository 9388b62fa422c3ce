"""What a careful person would want to know of a run before signing: what was not masked.

Guarantees say what a step keeps, measures what an intruder finds; neither says that nobody thought of
a column. These cautions go to the person who runs a plan and to the internal report, never to public.

>>> import polars as pl, sfumato as sf
>>> data = sf.Microdata(pl.DataFrame({"PAY": [1, 2]}), sf.Schema(sensitive=["PAY"]))
>>> sf.Plan().run(data).warnings
['PAY is sensitive, and is released as it is']
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from sfumato.data.microdata import Microdata

_LOOK: Final = 200_000
_LEAST: Final = 20


def left_unmasked(
    masked: Microdata,
    touched: Mapping[str, Mapping[str, int]],
    drop: Sequence[str],
    original: Microdata | None = None,
) -> list[str]:
    """Sentences on steps that changed nothing and on columns that would be released as they are.

    ``touched`` has, for each step, how many records of each column it changed; ``drop`` are the
    columns that are not released. With the ``original``, also on columns of whole households that
    were masked record by record: members who now disagree show what was changed.
    """
    out = []
    changed = {c for counts in touched.values() for c, n in counts.items() if n}
    gone = [label for label, counts in touched.items() if not any(counts.values())]
    if touched and not changed:
        out.append("no step changed any value: the release would hold the original records")
    else:
        out += [f"step {label} changed nothing" for label in gone]
    schema = masked.schema
    if original is not None and schema.household is not None:
        torn = _torn(original, masked, [c for c in masked.columns if c in changed and c not in drop])
        if torn:
            names = ", ".join(torn[:5]) + (f" and {len(torn) - 5} more" if len(torn) > 5 else "")
            out.append(
                f"{names}: members of one household had the same value and don't any more, which shows who "
                "was changed (mask one record per household, and give its value to all)"
            )
    bare = as_collected(masked, changed, drop)
    for column in masked.columns:
        if column in bare.sensitive:
            out.append(f"{column} is sensitive, and is released as it is")
        elif column in bare.own_value:
            out.append(
                f"{column} is released as it is, and nearly every record has its own value: whoever knows it "
                "finds the person (recode it, mask it, or name it in `drop` under [release])"
            )
    return out


@dataclass(frozen=True)
class AsCollected:
    """Columns that would be released as they were."""

    sensitive: tuple[str, ...]
    own_value: tuple[str, ...]
    """Those in which nearly every record has a value of its own."""


def as_collected(masked: Microdata, changed: Collection[str], drop: Sequence[str]) -> AsCollected:
    """The sensitive and the nearly unique columns that no step changed and that aren't dropped."""
    schema = masked.schema
    apart = {schema.id, schema.household, schema.weight, *drop, *changed}
    left = [c for c in masked.columns if c not in apart]
    sensitive = tuple(c for c in left if c in schema.sensitive)
    own = tuple(c for c in left if c not in sensitive and _nearly_unique(masked, c))
    return AsCollected(sensitive, own)


def _torn(original: Microdata, masked: Microdata, columns: Sequence[str]) -> list[str]:
    """The columns that all members of every household shared before, and don't any more."""
    household = original.schema.household
    if household is None or household not in original.columns or not len(original):
        return []
    codes, size = original.households(household)
    if size == len(original):
        return []
    first = np.empty(size, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    head = pl.Series(first[codes])

    def shared(data: Microdata, column: str) -> bool:
        values = data.column(column)
        return bool(values.eq_missing(values.gather(head)).all())

    there = [c for c in columns if c in original.columns and c != household]
    return [c for c in there if shared(original, c) and not shared(masked, c)]


def _nearly_unique(data: Microdata, column: str) -> bool:
    """Whether more than half of the (first) records that have a value share it with nobody before them."""
    known = data.only([column]).slice(0, _LOOK).column(column).drop_nulls()
    dtype = known.dtype
    named = dtype in (pl.String, pl.Categorical, pl.Enum, pl.Date, pl.Datetime) or dtype.is_numeric()
    return named and len(known) >= _LEAST and 2 * known.n_unique() > len(known)
