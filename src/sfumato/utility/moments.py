"""Ratios of means and covariances, original over masked, within strata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.contract.measure import UtilityMeasure
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.stats.pairing import numeric_columns, twice
from sfumato.stats.strata import matched_strata


@dataclass(frozen=True, kw_only=True)
class MomentRatios(UtilityMeasure):
    """Each mean and each covariance element of the original divided by that of the masked file.

    Within every stratum (membership by each file's own columns, so that swapped strata are seen),
    over the records that have all the columns. ``value`` is the median of |ratio − 1| over all means
    and covariances: 0 is best. ``mean_ratios`` and ``covariance_ratios`` have median, average and the
    5% and 95% quantiles; ``sign_changes`` is the share of covariances whose sign changed. The average
    of covariance ratios has no stable mean (a denominator may be near 0): quote the median. A ratio
    with a zero denominator is left out and counted; 0/0 counts as 1.

    Reference: Oganian, Lesaja (2016), section 3, tables 2 and 4.

    >>> import polars as pl, sfumato as sf
    >>> x = pl.DataFrame({"A": [1.0, 2.0, 3.0], "B": [3.0, 1.0, 2.0]})
    >>> z = pl.DataFrame({"A": [2.0, 4.0, 6.0], "B": [1.0, 2.0, 3.0]})
    >>> found = sf.MomentRatios().measure(x, z)
    >>> found.mean_ratios["median"], found.sign_changes
    (0.75, 0.3333333333333333)
    """

    name: ClassVar[str] = "moment_ratios"
    public_figures: ClassVar[tuple[str, ...]] = ("sign_changes",)
    bounds: ClassVar[tuple[float, float]] = (0.0, math.inf)
    reference: ClassVar[str] = "Oganian, Lesaja (2016), section 3"

    columns: tuple[str, ...] = parameter(
        (), doc="The numeric columns; by default the sensitive ones.", columns="sensitive", numeric=True
    )
    within: tuple[str, ...] = parameter((), doc="Compare within the strata of these columns.", columns=True)

    def _check(self) -> Sequence[Fault]:
        both = [c for c in self.columns if c in self.within]
        if both:
            return [(f"{both[0]} doesn't vary within itself", "take it out of `columns`")]
        return twice(self.columns, "columns")

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        if not len(original) or not len(masked):
            raise MeasureError("the files have no records")
        columns = tuple(c for c in numeric_columns(original, self.columns) if c not in self.within)
        one, two = original.matrix(columns), masked.matrix(columns)
        parts = []
        lost: list[str] = []
        for label, rows, rows_after in matched_strata(original, masked, self.within):
            x, z = _complete(one, rows), _complete(two, rows_after)
            if len(x) < 2 or len(z) < 2:
                lost.append(label)
                continue
            parts.append(_ratios(columns, x, z).with_columns(stratum=pl.lit(label)))
        if not parts:
            raise MeasureError("no stratum has 2 complete records in both files")
        table = pl.concat(parts).select(
            "stratum", "element", "kind", "original", "masked", "ratio", "sign_change"
        )
        known = table.drop_nulls("ratio")
        left_out = table.height - known.height
        if not known.height:
            raise MeasureError("no ratio is defined: every mean and covariance of the masked file is zero")
        covariances = table.filter(pl.col("kind") != "mean")
        signs = covariances["sign_change"]
        figures: dict[str, Any] = {
            "mean_ratios": _spread(known.filter(pl.col("kind") == "mean")["ratio"]),
            "covariance_ratios": _spread(known.filter(pl.col("kind") != "mean")["ratio"]),
            "sign_changes": float(signs.mean()) if len(signs) else 0.0,  # type: ignore[arg-type]
            "sign_changes_count": int(signs.sum()),
            "elements": table.height,
            "left_out": left_out,
            "strata_left_out": len(lost),
        }
        notes = []
        if left_out:
            notes.append(f"{left_out:,} ratios have a zero denominator and are left out")
        if lost:
            notes.append(f"{len(lost):,} strata have fewer than 2 complete records in one of the files")
        deviation = (known["ratio"] - 1.0).abs().median()
        return Result(
            value=float(deviation),  # type: ignore[arg-type]
            unit="median |ratio − 1|",
            breakdown=table,
            notes=tuple(notes),
            figures=figures,
        )


def _complete(matrix: FloatArray, rows: IntArray) -> FloatArray:
    part = matrix[rows]
    return np.asarray(part[np.isfinite(part).all(axis=1)])


def _ratios(columns: tuple[str, ...], x: FloatArray, z: FloatArray) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    mean_x, mean_z = x.mean(axis=0), z.mean(axis=0)
    cov_x, cov_z = (np.atleast_2d(np.cov(v, rowvar=False)) for v in (x, z))
    size = np.sqrt(mean_x**2 + np.diag(cov_x))
    for j, column in enumerate(columns):
        rows.append(_row(column, "mean", mean_x[j], mean_z[j], 1e-12 * size[j]))
        for k in range(j + 1):
            kind = "variance" if j == k else "covariance"
            name = column if j == k else f"{column} × {columns[k]}"
            scale = math.sqrt(max(cov_x[j, j] * cov_x[k, k], 0.0))
            rows.append(_row(name, kind, cov_x[j, k], cov_z[j, k], 1e-12 * scale))
    return pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"ratio": pl.Float64})


def _row(name: str, kind: str, before: float, after: float, zero: float) -> dict[str, Any]:
    gone, was = abs(after) <= zero, abs(before) <= zero
    ratio = (1.0 if was else None) if gone else float(before / after)
    flipped = bool(kind == "covariance" and not was and not gone and (before > 0) != (after > 0))
    return {
        "element": name,
        "kind": kind,
        "original": float(before),
        "masked": float(after),
        "ratio": ratio,
        "sign_change": flipped,
    }


def _spread(ratios: pl.Series) -> dict[str, float | None]:
    if not len(ratios):
        return {"median": None, "average": None, "p5": None, "p95": None}
    return {
        "median": float(ratios.median()),  # type: ignore[arg-type]
        "average": float(ratios.mean()),  # type: ignore[arg-type]
        "p5": ratios.quantile(0.05, "linear"),
        "p95": ratios.quantile(0.95, "linear"),
    }
