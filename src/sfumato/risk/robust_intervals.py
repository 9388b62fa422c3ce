"""Masked numbers that stand within an interval of the true ones, wider the farther out a record is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import MeasureError, Problem
from sfumato.stats.robust import robust_distances


@dataclass(frozen=True, kw_only=True)
class RobustIntervals(RiskMeasure):
    """Count the records with a masked number too near to the true one, for how far out they are.

    Columns are standardised by the original's means and standard deviations. Each record has a
    robust Mahalanobis distance RMD (minimum covariance determinant), and every value an interval of
    ± ``k`` · 0.05 · RMD around it: what is far out is known by a rougher guess.

    - ``rmdid1`` (the ``value``): the share of records with at least one masked value in its interval;
    - ``rmdid1_all``: with all of them; ``rmdid1_weighted``: the mean of 0.05 · RMD over those of rmdid1;
    - ``rmdid2``: of those in rmdid1, only records from which no other masked record is within
      ``close`` standard deviations: nobody else can be meant;
    - ``sdid`` (sdcMicro's dRisk): the share of records with at most one original value outside the
      masked value ± ``sd_share`` standard deviations of the masked column.

    sdcMicro's dRiskRMD standardises the masked columns by their own moments, which hides a shift;
    here both are in the original's units. Values missing in either file are in no interval.

    Reference: Templ, M., Meindl, B. (2008). Robust statistics meets SDC: new disclosure risk measures for
    continuous microdata masking. PSD 2008, LNCS 5262, 113-126; Mateo-Sanz, J. M., Sebé, F.,
    Domingo-Ferrer, J. (2004). Outlier protection in continuous microdata masking. PSD 2004, 201-215.

    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"X": [float(i * i) for i in range(40)], "Y": [float(i) for i in range(40)]})
    >>> found = sf.RobustIntervals(columns=["X", "Y"]).measure(people, people)
    >>> found.value, found.sdid
    (1.0, 1.0)
    """

    name: ClassVar[str] = "robust_intervals"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Templ, Meindl (2008)"
    setting: ClassVar[Literal["file", "population", "attribute", "values"]] = "values"
    per_record: ClassVar[str] = "flags"
    assumes: ClassVar[str] = (
        "the intruder knows which released record is whose, and takes a value near the true one for it"
    )

    columns: tuple[str, ...] = parameter((), doc="The columns to look at.", columns="sensitive", numeric=True)
    k: float = parameter(0.01, doc="How wide the robust intervals are.", above=0)
    close: float = parameter(
        0.05, doc="Within how many standard deviations another masked record hides this one.", above=0
    )
    sd_share: float = parameter(
        0.05, doc="The half width of sdid's intervals, in standard deviations.", above=0
    )

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        if not (self.columns or schema.sensitive):
            out.append(Problem(0, "no column was named", "give `columns`, or name sensitive ones"))
        return out

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        if len(original) != len(masked):
            raise MeasureError(f"the files have {len(original):,} and {len(masked):,} records")
        columns = [c for c in self.columns or original.schema.sensitive if original.is_numeric(c)]
        columns = [c for c in columns if c in masked.columns and masked.is_numeric(c)]
        if not columns or not len(original):
            raise MeasureError("robust_intervals: no column of numbers is in both files")
        x, z = original.matrix(columns), masked.matrix(columns)
        if np.isinf(x).any() or np.isinf(z).any():
            raise MeasureError(
                "robust_intervals: a column has infinite values", hint="declare them as missing"
            )
        distance = robust_distances(x)
        x, z = _standardised(x, x), _standardised(z, x)
        rough = 0.05 * distance
        near = np.abs(z - x) <= (self.k * rough)[:, None] + 1e-12
        any_near, all_near = (
            near.any(axis=1),
            (near | np.isnan(x) | np.isnan(z)).all(axis=1) & near.any(axis=1),
        )
        alone = np.zeros(len(x), np.bool_)
        rows = np.flatnonzero(any_near)
        alone[rows] = _nearest(z, rows) > self.close
        sdid = self._within_sd(original.matrix(columns), masked.matrix(columns))
        n = len(x)
        return Result(
            value=float(any_near.mean()),
            unit="share of records",
            breakdown=pl.DataFrame(
                {"column": columns, "values": (~np.isnan(x)).sum(axis=0), "near": near.sum(axis=0)}
            ),
            notes=("the intruder is assumed to know which released record is whose",),
            figures={
                "rate": float(any_near.mean()),
                "rmdid1": float(any_near.mean()),
                "rmdid1_all": float(all_near.mean()),
                "rmdid1_weighted": float(rough[any_near].sum() / n),
                "rmdid2": float((any_near & alone).mean()),
                "sdid": float(sdid.mean()),
            },
            confidential={
                "flags": any_near,
                "alone": any_near & alone,
                "distances": distance,
                "sdid_flags": sdid,
            },
        )

    def _within_sd(self, x: FloatArray, z: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """At most one original value outside its interval around the masked one."""
        half = self.sd_share * np.nanstd(z, axis=0, ddof=1) if len(z) > 1 else np.zeros(z.shape[1])
        with np.errstate(invalid="ignore"):
            outside = np.abs(x - z) > half + 1e-12 * np.abs(z)
        seen = (~np.isnan(x - z)).any(axis=1)
        return np.asarray((outside.sum(axis=1) <= 1) & seen)


def _standardised(values: FloatArray, by: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        centre, scale = np.nanmean(by, axis=0), np.nanstd(by, axis=0, ddof=1 if len(by) > 1 else 0)
    return np.asarray((values - centre) / np.where(scale > 0, scale, 1.0))


def _nearest(z: FloatArray, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> FloatArray:
    """How far the nearest other masked record is."""
    from scipy.spatial import cKDTree

    whole = np.nan_to_num(z)
    if len(whole) < 2:
        return np.full(len(rows), np.inf)
    found = np.asarray(cKDTree(whole).query(whole[rows], k=2)[0], np.float64)
    return found[:, 1]
