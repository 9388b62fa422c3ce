"""What the intruder of a scenario knows, and how many people live in the areas of a release.

>>> import polars as pl, sfumato as sf
>>> frame = pl.DataFrame({"AGE": [30, 40], "PAY": [1.5, 2.5], "RENT": [7.0, 7.0], "SICK": ["y", "n"]})
>>> data = sf.Microdata(frame, sf.Schema(keys=["AGE"], sensitive=["PAY", "RENT", "SICK"]))
>>> known_columns(data, data.columns, None), known_columns(data, data.columns, 1)
(('AGE', 'PAY', 'RENT', 'SICK'), ('AGE', 'PAY'))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import polars as pl

from sfumato.contract.known import is_number
from sfumato.data.microdata import Microdata

PLAUSIBLE: Final = (2.0, 5_000.0)
"""Between these a mean weight reads as a number of people; others are scaled or relative weights."""


def known_columns(data: Microdata, columns: Sequence[str], numbers: int | None) -> tuple[str, ...]:
    """All of the columns; or the keys and the ``numbers`` numbers of the most distinct values, which tell
    the most."""
    if numbers is None:
        return tuple(columns)
    keys = {*data.schema.keys, *data.schema.geography}
    others = [c for c in columns if c not in keys and is_number(data, c) and c != data.schema.weight]
    telling = sorted(others, key=lambda c: -data.column(c).n_unique())[:numbers]
    return tuple(c for c in columns if c in keys or c in telling)


def population_known(data: Microdata) -> bool:
    """Whether the file's weights read as numbers of people, so that areas can be judged."""
    weight = data.schema.weight
    if weight is None or not data.schema.geography:
        return False
    mean = data.column(weight).cast(pl.Float64).mean()
    return isinstance(mean, float) and PLAUSIBLE[0] <= mean <= PLAUSIBLE[1]


def smallest_area(data: Microdata, masked: Microdata, drop: Sequence[str] = ()) -> tuple[float, str]:
    """The persons for whom the smallest released area stands, by the weights as collected; and in words."""
    areas = [c for c in data.schema.geography if c in masked.columns and c not in drop]
    if not areas:
        return math.inf, "no area is released"
    if not population_known(data):
        return math.nan, (
            f"how many people live in the areas ({areas[-1]}) isn't known: there are no weights that read as "
            "numbers of people"
        )
    weight = data.schema.weight
    assert weight is not None
    frame = pl.DataFrame(
        {"area": masked.column(areas[-1]), "people": data.column(weight).cast(pl.Float64)}
    ).filter(pl.Series(~masked.missing(areas[-1])))
    by = frame.group_by("area").agg(pl.col("people").sum())
    least = float(by["people"].min() or 0.0)  # type: ignore[arg-type]
    return least, f"the smallest of {by.height:,} areas ({areas[-1]}) stands for {least:,.0f} people"
