"""A file read as households: what is dealt of persons, what of households, what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from sfumato.data.following import Following
from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.masks.cluster_shuffle import rebuilt
from sfumato.masks.cluster_shuffle.blocks import Wide, wide_table
from sfumato.masks.cluster_shuffle.members import Members, members, named
from sfumato.masks.cluster_shuffle.rules import total_of
from sfumato.masks.cluster_shuffle.settings import Settings
from sfumato.stats.clusters import digests
from sfumato.stats.levels import Levels, blurred, levels_of
from sfumato.stats.partition import coded_columns


@dataclass(frozen=True)
class Households:
    """A file read as households."""

    columns: tuple[Levels, ...]
    """Every column that is dealt: by record, or by household where it is the household's."""
    shared: BoolArray
    """Which of them are the household's."""
    follows: tuple[rebuilt.Follows, ...]
    mem: Members
    wide: Wide
    age: str | None
    sex: str | None
    relation: str | None
    first: IntArray
    """A record of each household."""


def read(mask: Settings, data: Microdata, told: Following) -> Households:
    """The file's households: what is dealt of persons and of households, and what follows from them."""
    assert mask.unit is not None
    names = {what: getattr(mask, what) or named(told.dealt, what) for what in ("age", "sex", "relation")}
    age = names["age"]
    if age is not None and not (data.is_numeric(age)):
        age = names["age"] = None
    coded = coded_columns(data, told, mask.blur)
    plain = {age} if age is not None else set()
    coded = [levels_of(data, c.name, told.riders.get(c.name, ())) if c.name in plain else c for c in coded]
    for total, parts in told.totals:
        made = total_of(data, total, parts)
        if not made.exact and mask.sum_rule == "residual":
            frame = pl.DataFrame({total: made.residual})
            coded.append(blurred(levels_of(Microdata(frame), total), mask.blur))
    digest = digests([c.codes for c in coded], len(data)).view(np.int64)
    mem = members(
        data, mask.unit, age=age, sex=names["sex"], relation=names["relation"], adult=mask.adult_age,
        digest=digest,
    )  # fmt: skip
    first = mem.who[:, 0]
    spoken = set(names.values())
    shared = [
        c.name
        for c in coded
        if c.name in told.dealt and c.name not in spoken and (c.codes[first][mem.of] == c.codes).all()
    ]
    numbers = [c.name for c in coded if c.ordered and c.name in told.dealt and data.is_numeric(c.name)]
    house = [c for c in shared if c in numbers]
    follows = rebuilt.find(data, house, numbers, mem.of, first, age)
    gone = {f.name for f in follows}
    own = data.with_frame(data.frame[first])
    columns: list[Levels] = []
    for c in coded:
        if c.name in gone:
            continue
        if c.name in shared:
            step = data.schema[c.name]
            small = levels_of(own, c.name, told.riders.get(c.name, ()))
            c = blurred(small, mask.blur, step=step.unit, ordinal=step.kind == "ordinal")
            twin = next(
                (i for i, o in enumerate(columns) if o.name in shared and _equal(own, o.name, c.name)), None
            )
            if twin is not None:
                values = columns[twin].values
                series = values[columns[twin].name].cast(own.dtype(c.name)).rename(c.name)
                columns[twin] = replace(columns[twin], values={**values, c.name: series})
                continue
        columns.append(c)
    flags = np.array([c.name in shared for c in columns])
    persons = [(i, c) for i, c in enumerate(columns) if not flags[i]]
    house_ = [(i, c) for i, c in enumerate(columns) if flags[i]]
    wide = wide_table(persons, house_, mem, age=age, sex=names["sex"], relation=names["relation"])
    return Households(
        tuple(columns), flags, tuple(follows), mem, wide, age, names["sex"], names["relation"], first
    )


def _equal(data: Microdata, one: str, two: str) -> bool:
    a, b = data.column(one), data.column(two)
    if a.dtype.is_numeric() != b.dtype.is_numeric():
        return False
    return bool((a.eq_missing(b)).all()) if a.dtype.is_numeric() or a.dtype == b.dtype else False
