"""Distances between the distributions of single columns, and correlation matrices before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.contract.measure import UtilityMeasure
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.stats.pairing import numeric_columns, paired_moments, same_length, twice


@dataclass(frozen=True, kw_only=True)
class Distributions(UtilityMeasure):
    """How far each column's distribution has moved: Kolmogorov-Smirnov and Wasserstein distances.

    KS = max |F(x) − G(x)| of the two distribution functions, in [0, 1]; the Wasserstein distance is
    ∫ |F − G| dx, in the column's own unit (``wasserstein``) and in standard deviations of the
    original (``wasserstein_sd``). ``displacement`` is the mean |x − z| of a record in standard
    deviations: a swap leaves KS and Wasserstein at 0 and shows there. ``value`` is the largest KS.
    ``correlations_before`` and ``correlations_after`` are the correlation matrices.

    Reference: Massey (1951); Villani (2009), remark 2.19.

    >>> import polars as pl, sfumato as sf
    >>> x, z = pl.DataFrame({"A": [1.0, 2.0, 3.0, 4.0]}), pl.DataFrame({"A": [2.0, 3.0, 4.0, 5.0]})
    >>> found = sf.Distributions().measure(x, z)
    >>> found.value, found.wasserstein["A"]
    (0.25, 1.0)
    """

    name: ClassVar[str] = "distributions"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Kolmogorov-Smirnov; Wasserstein"

    columns: tuple[str, ...] = parameter(
        (), doc="The numeric columns; by default the sensitive ones.", columns="sensitive", numeric=True
    )

    def _check(self) -> Sequence[Fault]:
        return twice(self.columns, "columns")

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        same_length(original, masked)
        columns = numeric_columns(original, self.columns)
        rows = []
        for column in columns:
            x, z = original.numbers(column), masked.numbers(column)
            both = np.isfinite(x) & np.isfinite(z)
            if not both.any():
                raise MeasureError(f"{column} has no value in both files", hint="leave it out")
            ks, wasserstein = distances(x[np.isfinite(x)], z[np.isfinite(z)])
            sd = float(x[both].std())
            moved = float(np.abs(x - z)[both].mean())
            rows.append(
                {
                    "column": column,
                    "ks": ks,
                    "wasserstein": wasserstein,
                    "wasserstein_sd": wasserstein / sd if sd > 0 else None,
                    "displacement": moved / sd if sd > 0 else None,
                    "changed": float((x != z)[both].mean()),
                }
            )
        table = pl.DataFrame(
            rows, schema_overrides={"wasserstein_sd": pl.Float64, "displacement": pl.Float64}
        )
        figures: dict[str, Any] = {
            name: dict(zip(table["column"], table[name], strict=True)) for name in table.columns[1:]
        }
        if len(columns) > 1:
            moments = paired_moments(original, masked, columns)
            for name, matrix in (("before", moments.cor_x), ("after", moments.cor_z)):
                figures[f"correlations_{name}"] = _square(columns, matrix)
        flat = [str(r["column"]) for r in rows if r["displacement"] is None]
        notes = (f"{', '.join(flat)} doesn't vary in the original",) if flat else ()
        return Result(
            value=float(table["ks"].max()),  # type: ignore[arg-type]
            unit="largest KS distance",
            breakdown=table,
            notes=notes,
            figures=figures,
        )


def distances(x: FloatArray, z: FloatArray) -> tuple[float, float]:
    """The Kolmogorov-Smirnov and the Wasserstein distance of two samples."""
    x, z = np.sort(x), np.sort(z)
    if len(x) == len(z) and np.array_equal(x, z):
        return 0.0, 0.0
    points = np.concatenate([x, z])
    points.sort()
    f = np.searchsorted(x, points, side="right") / len(x)
    g = np.searchsorted(z, points, side="right") / len(z)
    gap = np.abs(f - g)
    return float(gap.max()), float((gap[:-1] * np.diff(points)).sum())


def _square(columns: Sequence[str], matrix: FloatArray) -> pl.DataFrame:
    return pl.DataFrame({"column": list(columns), **{c: matrix[:, j] for j, c in enumerate(columns)}})
