"""Where each part of a plan would be carried out on an engine, and how many bytes that brings to one place.

Said before anything is started, from the types of the columns and the number of records alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from sfumato.contract.engine import bytes_per_record
from sfumato.contract.mask import Mask
from sfumato.data.microdata import BLOCK, Microdata
from sfumato.data.schema import Schema
from sfumato.errors import SfumatoError
from sfumato.plan.plan import Plan
from sfumato.run.looked_at import MOST

_PLACE: Final = {"memory": "in memory", "stream": "in memory", "spark": "to one executor"}
_DRIVER: Final = {"memory": "in memory", "stream": "in memory", "spark": "at the driver"}


@dataclass(frozen=True)
class Where:
    """How one step, measure or release is carried out; ``gathers`` bytes of ``columns`` come to one place."""

    what: str
    how: str
    gathers: int = 0
    columns: list[str] = field(default_factory=list)
    can: bool = True

    def __str__(self) -> str:
        return f"{self.what}: {self.how}"


def whereabouts(plan: Plan, data: Microdata, engine: str, *, parquet: bool = True) -> list[Where]:
    """Each step, measure and the release, by name."""
    n, schema = len(data), data.schema
    types: dict[str, pl.DataType] = dict(data._types)
    out = []
    if engine != "memory" and not parquet:
        out.append(
            Where("data", f"can't: --engine {engine} reads Parquet; write them as Parquet first", can=False)
        )
    for label, step in zip(plan.step_ids(), plan.steps, strict=True):
        out.append(_step(label, step, types, schema, n, engine))
        types = dict(step.types_after(types, schema))
    how = f"{_DRIVER[engine]}, on all {n:,} records"
    if engine != "memory" and n > MOST:
        how = f"{_DRIVER[engine]}, on a sample of about {MOST:,} records (whole households)"
    out += [Where(f"measure {label}", how) for label in plan.measure_ids()]
    return [*out, _release(plan, types, schema, n, engine)]


def _step(
    label: str, step: Mask, types: Mapping[str, pl.DataType], schema: Schema, n: int, engine: str
) -> Where:
    what = f"step {label}"
    if engine == "memory":
        return Where(what, "in memory")
    if step.locality == "rows":
        how = f"by blocks of {BLOCK:,} records"
        return Where(what, f"distributed, {how}" if engine == "spark" else f"streamed, {how}")
    empty = Microdata(pl.DataFrame(schema=dict(types)), schema.restricted_to(types))
    try:
        parts = [part.reads(empty) for part in step.apart(empty)]
    except SfumatoError as problem:
        return Where(what, f"can't be told: {problem.message}", can=False)
    read = max(parts, key=lambda columns: _width(columns, types))
    bytes_ = _width(read, types) * n * (2 if step.reads_original else 1)
    kind = {"column": "a column at a time: ", "keys": "keys, no amounts: "}.get(step.locality, "")
    kind = kind if len(parts) > 1 or step.locality == "keys" else ""
    named = ", ".join(read[:8]) + (" …" if len(read) > 8 else "")
    return Where(what, f"gathers {said(bytes_)} {_PLACE[engine]} ({kind}{named})", bytes_, read)


def _release(plan: Plan, types: Mapping[str, pl.DataType], schema: Schema, n: int, engine: str) -> Where:
    options, household = plan.release, schema.household
    if engine == "spark" and options.format != "parquet":
        how = f"can't: a cluster releases Parquet, and the plan says format = {options.format!r}"
        return Where("release", how, can=False)
    if engine == "memory":
        return Where("release", "in memory")
    how = (
        "distributed, by Spark's shuffle, a file per million records"
        if engine == "spark"
        else "by a sort on disk"
    )
    if household is None or household in options.drop or household not in types:
        return Where("release", how)
    bytes_ = _width([household], types) * n
    return Where(
        "release", f"{how}; gathers {said(bytes_)} {_PLACE[engine]} ({household})", bytes_, [household]
    )


def _width(columns: list[str], types: Mapping[str, pl.DataType]) -> int:
    return bytes_per_record({c: types[c] for c in columns if c in types})


def said(bytes_: int) -> str:
    """A number of bytes in words.

    >>> said(8_000_000)
    '8.0 MB'
    """
    size = float(bytes_)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
