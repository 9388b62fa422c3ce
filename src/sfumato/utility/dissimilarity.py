"""The index of dissimilarity of a table of counts (the Census Bureau's D statistic)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.contract.measure import UtilityMeasure
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.stats.pairing import twice


@dataclass(frozen=True, kw_only=True)
class Dissimilarity(UtilityMeasure):
    """The share of a table's total that has moved to other cells: D = ½ Σ |X_i/X − Y_i/Y|.

    X_i and Y_i are the counts of cell i of ``table`` before and after, X and Y their totals. D lies
    in [0, 1]; 0 means that no share has changed, 0.15 that 15% of the total sits elsewhere.
    ``value`` is D over the whole file. With ``areas`` (coarse to fine; by default the schema's
    geography) D is also computed within every area of each level, membership taken from each file's
    own geography, which is how a swap of geographic codes shows: ``by_level`` has the distribution
    of D over the areas of a level, ``by_area`` every area. Nulls and missing codes are categories
    like others. An area that has records in only one file has no D and is counted in ``areas_lost``.

    Reference: Moore, R. A. (1996). Analysis of the confidentiality edit, section III.

    >>> import polars as pl, sfumato as sf
    >>> before = pl.DataFrame({"AGE": list("aaabbbbccccdddddeeee")})
    >>> after = pl.DataFrame({"AGE": list("aabbbbbcccdddddddeee")})
    >>> round(sf.Dissimilarity(table=["AGE"]).measure(before, after).value, 10)
    0.15
    """

    name: ClassVar[str] = "dissimilarity"
    public_figures: ClassVar[tuple[str, ...]] = ("d",)
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Moore (1996), Analysis of the confidentiality edit, section III"

    table: tuple[str, ...] = parameter(
        (), doc="The columns of the table; by default the keys.", columns="keys"
    )
    areas: tuple[str, ...] = parameter(
        (), doc="Geographic levels, coarse to fine; by default the schema's geography.", columns="geography"
    )

    def _check(self) -> Sequence[Fault]:
        return [*twice(self.table, "table"), *twice(self.areas, "areas")]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        table = self.table or original.schema.keys
        if not table:
            raise MeasureError("no table was given", hint="name its columns with `table`, or the role `keys`")
        levels = self.areas or tuple(
            g for g in original.schema.geography if g in masked.columns and g not in self.table
        )
        if not len(original) or not len(masked):
            raise MeasureError("the files have no records")
        counts = _counts(original, masked, [*levels, *(t for t in table if t not in levels)])
        cells = counts.group_by(list(table), maintain_order=True).agg(pl.col("before", "after").sum())
        whole = dissimilarity(cells["before"].to_numpy(), cells["after"].to_numpy())
        figures: dict[str, Any] = {"d": whole, "D": whole, "cells": cells.height}
        notes: list[str] = []
        breakdown: pl.DataFrame | None = None
        if levels:
            by_area = pl.concat([_by_area(counts, levels[: k + 1], table) for k in range(len(levels))])
            figures["areas_lost"] = int(by_area["d"].null_count())
            breakdown = _by_level(by_area, levels)
            figures["by_area"], figures["by_level"] = by_area, breakdown
            figures["mean_by_area"] = float(breakdown["mean"][-1])
            if figures["areas_lost"]:
                notes.append(f"{figures['areas_lost']:,} areas have records in only one file; they have no D")
            if not set(levels) & set(table):
                notes.append("over the whole file a swap of geography can't change this table; see by_level")
        return Result(
            value=whole,
            unit="share of the total moved",
            breakdown=breakdown,
            notes=tuple(notes),
            figures=figures,
        )


def dissimilarity(before: npt.ArrayLike, after: npt.ArrayLike) -> float:
    """D = ½ Σ |X_i/X − Y_i/Y| of two arrays of counts of the same cells.

    >>> round(dissimilarity([3, 4, 4, 5, 4], [2, 5, 3, 7, 3]), 10)
    0.15
    """
    x, y = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if x.shape != y.shape:
        raise MeasureError(f"the tables have {x.size} and {y.size} cells; D compares the same cells")
    if (x < 0).any() or (y < 0).any():
        raise MeasureError("a table of counts can't hold negative counts")
    if not x.sum() or not y.sum():
        raise MeasureError("D of an empty table isn't defined")
    return float(min(0.5 * np.abs(x / x.sum() - y / y.sum()).sum(), 1.0))


def _counts(original: Microdata, masked: Microdata, columns: list[str]) -> pl.DataFrame:
    """Every combination of the columns in either file, with its count before and after."""
    both = []
    for data, name in ((original, "before"), (masked, "after")):
        frame = data.select(columns).with_columns(
            (pl.col(c).cast(pl.String) for c in columns if data.dtype(c) in (pl.Categorical, pl.Enum)),
        )
        both.append(frame.group_by(columns).len(name).with_columns(pl.col(name).cast(pl.Int64)))
    counts = pl.concat(both, how="diagonal_relaxed").group_by(columns).agg(pl.col("before", "after").sum())
    # Sorted, so that the shares are always added up in one order and D is the same to the last bit.
    return counts.sort(columns)


def _by_area(counts: pl.DataFrame, level: Sequence[str], table: Sequence[str]) -> pl.DataFrame:
    """D within each area of one level (an area is named by its codes from the coarsest level on)."""
    level = list(level)
    keys = [*level, *(t for t in table if t not in level)]
    cells = counts.group_by(keys, maintain_order=True).agg(pl.col("before", "after").sum())
    x, y = pl.col("before") / pl.col("before").sum(), pl.col("after") / pl.col("after").sum()
    out = cells.group_by(level).agg(
        pl.when(pl.col("before").sum() * pl.col("after").sum() > 0)
        .then((0.5 * (x - y).abs().sum()).clip(0.0, 1.0))
        .alias("d"),
        pl.col("before", "after").sum(),
    )
    named = pl.concat_str([pl.col(c).cast(pl.String).fill_null("(missing)") for c in level], separator=" / ")
    return out.select(pl.lit(level[-1]).alias("level"), named.alias("area"), "d", "before", "after").sort(
        "area"
    )


def _by_level(by_area: pl.DataFrame, levels: Sequence[str]) -> pl.DataFrame:
    d, weight = pl.col("d"), pl.col("before")
    known = d.is_not_null()
    table = by_area.group_by("level").agg(
        known.sum().alias("areas"),
        ((d * weight).sum() / weight.filter(known).sum()).alias("mean"),
        d.median().alias("median"),
        d.quantile(0.9, "linear").alias("p90"),
        d.max().alias("maximum"),
        (d == 0).mean().alias("share_unchanged"),
    )
    order = {name: place for place, name in enumerate(levels)}
    return table.sort(pl.col("level").replace_strict(order, return_dtype=pl.Int64))
