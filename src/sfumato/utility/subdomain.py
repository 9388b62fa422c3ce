"""Subdomains of a file masked by noise (Kim 1990): means and covariances recovered from the release.

Noise with covariance d·Σ, Σ that of the whole file, inflates the covariance of a small, homogeneous
subdomain by far more than 1 + d. Since d and the release tell d·Σ, it can be taken out again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.contract.measure import UtilityMeasure
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.differences import changed
from sfumato.data.microdata import BoolArray, FloatArray, Microdata, as_microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import MeasureError, Problem, did_you_mean
from sfumato.stats.pairing import numeric_columns


@dataclass(frozen=True)
class SubdomainMoments:
    """Mean and covariance of a subdomain, as estimated from a release."""

    columns: tuple[str, ...]
    n: int
    mean: FloatArray
    covariance: FloatArray
    mean_standard_error: FloatArray
    """Of the noise alone: the records are taken as given."""
    covariance_standard_error: FloatArray
    uncorrected_mean: FloatArray
    uncorrected_covariance: FloatArray
    projected: bool = False
    """Whether the corrected matrix wasn't a covariance and was projected."""
    notes: tuple[str, ...] = field(default_factory=tuple)


def domain_of(data: Microdata, where: str | Mapping[str, Any]) -> BoolArray:
    """The records of a subdomain: an SQL condition, or a table column → value (or list of values)."""
    expression = domain_expr(where)
    return (
        data.select(_used(where)).select(expression.fill_null(False)).to_series().to_numpy().astype(np.bool_)
    )


def domain_expr(where: str | Mapping[str, Any]) -> pl.Expr:
    """The condition as a Polars expression."""
    if isinstance(where, Mapping):
        out = pl.lit(True)
        for column, value in where.items():
            many = list(value) if isinstance(value, (list, tuple)) else [value]
            out &= pl.col(column).is_in(many)
        return out
    try:
        return pl.sql_expr(where)
    except Exception as problem:  # Polars raises several kinds for what isn't SQL
        raise MeasureError(
            f"`where` can't be read: {str(problem).splitlines()[0]}",
            hint='write it as SQL, e.g. "AGE >= 65 AND SEX = \'f\'", or as a table { SEX = "f" }',
        ) from None


def _used(where: str | Mapping[str, Any]) -> list[str]:
    return (
        list(where)
        if isinstance(where, Mapping)
        else list(dict.fromkeys(domain_expr(where).meta.root_names()))
    )


def corrected_moments(
    release: Any,
    where: str | Mapping[str, Any],
    columns: Sequence[str],
    *,
    variance_ratio: float,
    rescaled: bool = False,
    within: Sequence[str] = (),
) -> SubdomainMoments:
    """Mean and covariance of a subdomain of the original, from the release and d alone.

    Unscaled release Y: mean_D(Y), and V = Cov_D(Y) − d/(1+d)·Cov(Y). Rescaled release T: first undone,
    Y = √(1+d)·T − (√(1+d) − 1)·mean(T), which gives the same numbers. With ``within``, the strata of
    the noise, the inflation is the strata's average over the subdomain. The subdomain mustn't be
    formed by a masked column. Standard errors are those of the noise: Var(mean_j) = d·σ_jj/n_D and
    Var(V_jk) ≈ [d(σ_jj·v_k + σ_kk·v_j + 2σ_jk·v_jk) + d²(σ_jj·σ_kk + σ_jk²)]/n_D, for j = k (4dσ_jj·v_j
    + 2d²σ_jj²)/n_D. Where V isn't a covariance it is projected (negative eigenvalues set to 0).

    Reference: Kim, J. J. (1990). Subdomain estimation for the masked data. ASA Proc. Survey Research
    Methods, 456-461.

    >>> import polars as pl, sfumato as sf
    >>> release = sf.decks.housing().slice(0, 2000).with_roles(keys=[])
    >>> found = corrected_moments(release, "REGION = 1", ["INCOME", "TAXES"], variance_ratio=0.1)
    >>> found.covariance.shape
    (2, 2)
    """
    data = as_microdata(release)
    d = variance_ratio
    if not (np.isfinite(d) and d > 0):
        raise MeasureError(f"`variance_ratio` must be above 0, not {d}")
    inside = domain_of(data, where)
    y = data.matrix(columns)
    complete = np.isfinite(y).all(axis=1)
    y, inside = y[complete], inside[complete]
    strata = data.codes(list(within))[0][complete]
    n = int(inside.sum())
    if n < 2:
        raise MeasureError(f"the subdomain has {n} complete records; a covariance needs two", hint="widen it")
    raw_mean, raw = y[inside].mean(axis=0), _cov(y[inside])
    inflation = np.zeros((y.shape[1], y.shape[1]))
    for s in np.unique(strata):
        rows = strata == s
        if rescaled:
            b = np.sqrt(1 + d)
            y[rows] = b * y[rows] - (b - 1) * y[rows].mean(axis=0)
        share = (rows & inside).sum() / n
        if share and rows.sum() > 1:
            inflation += share * d / (1 + d) * _cov(y[rows])
    mean, inflated = y[inside].mean(axis=0), _cov(y[inside])
    v = inflated - inflation
    notes = []
    scale = np.sqrt(np.diag(inflated))
    scale[scale == 0] = 1.0
    values, vectors = np.linalg.eigh(v / np.outer(scale, scale))
    projected = bool(values[0] < -1e-10)
    if projected:
        v = ((vectors * np.clip(values, 0, None)) @ vectors.T) * np.outer(scale, scale)
        notes.append(
            "the corrected matrix wasn't a covariance (the noise exceeds the variation in the subdomain) and "
            "was projected: its small variances can't be trusted"
        )
    sigma = np.diag(inflation)  # d·σ_jj
    spread = np.clip(np.diag(v), 0, None)
    cross = np.outer(sigma, spread) + np.outer(spread, sigma) + 2 * inflation * v
    variance = (cross + np.outer(sigma, sigma) + inflation**2) / n
    lost = sigma > spread
    if lost.any():
        names = ", ".join(c for c, one in zip(columns, lost, strict=True) if one)
        notes.append(f"the noise is larger than the variation in the subdomain for {names}")
    return SubdomainMoments(
        tuple(columns),
        n,
        mean,
        v,
        np.sqrt(sigma / n),
        np.sqrt(np.clip(variance, 0, None)),
        raw_mean,
        raw,
        projected,
        tuple(notes),
    )


@dataclass(frozen=True, kw_only=True)
class Subdomain(UtilityMeasure):
    """How well means and covariances of a subdomain come back from a file masked by noise.

    ``value`` is the mean over the columns of |V_jj / Var_D(X_j) − 1|, V the covariance that an
    analyst of the release gets for the subdomain: corrected for the noise (see
    :func:`corrected_moments`), or as it stands with ``correct=False``. d and whether the release was
    rescaled are taken from the two files unless they are given; where the columns only exchanged their
    values (a swap) there is nothing to correct. For a subdomain formed by a masked
    column the correction doesn't hold: nothing is corrected, and the result tells how membership
    and means changed.

    Reference: Kim, J. J. (1990). Subdomain estimation for the masked data. ASA Proc. Survey Research
    Methods, 456-461; Kim and Winkler (1995), sections 3.2 and 3.3.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(1)
    >>> kind = rng.integers(0, 5, 4000)
    >>> frame = pl.DataFrame({"KIND": kind, "PAY": rng.normal(0, np.where(kind == 0, 1.0, 4.0))})
    >>> masked = sf.AdditiveNoise(columns=["PAY"], variance_ratio=0.2).mask(frame, seed=1)
    >>> rare = sf.Subdomain(where="KIND = 0", columns=["PAY"], variance_ratio=0.2)
    >>> plain = sf.Subdomain(where="KIND = 0", columns=["PAY"], correct=False)
    >>> one, two = sf.measure(frame, masked, rare, plain)
    >>> one.value < 0.3 < 2 < two.value
    True
    """

    name: ClassVar[str] = "subdomain"
    reference: ClassVar[str] = "Kim (1990)"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))

    where: str | Mapping[str, Any] = parameter(
        doc="The subdomain: an SQL condition, or a table column → value (or list of values)."
    )
    correct: bool = parameter(True, doc="Whether the noise is taken out of the covariance.")
    columns: tuple[str, ...] = parameter(
        (), doc="The columns whose moments are compared.", columns="sensitive", numeric=True
    )
    variance_ratio: float | None = parameter(
        None, doc="d of the noise; by default it is estimated from the two files.", above=0
    )
    rescaled: bool | None = parameter(None, doc="Whether the release was rescaled; by default, looked up.")
    within: tuple[str, ...] = parameter((), doc="The strata of the noise, if it had any.", columns=True)

    def _check(self) -> Sequence[Fault]:
        if not self.where:
            return [("`where` must say which subdomain", None, "where")]
        try:
            domain_expr(self.where)
        except MeasureError as problem:
            return [(problem.message, problem.hint)]
        return ()

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        out += [
            Problem(
                0,
                f"`where` names the column {c!r}, which the data don't have",
                did_you_mean(c, types),
                parameter="where",
            )
            for c in _used(self.where)
            if c not in types
        ]
        return out

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        used = _used(self.where)
        columns = self.columns or tuple(c for c in numeric_columns(original, ()) if c not in used)
        if not columns:
            raise MeasureError(
                "subdomain needs columns", hint="name them, or give columns the role sensitive"
            )
        formed_by = [c for c in used if changed(original.column(c), masked.column(c))]
        truth_in, masked_in = domain_of(original, self.where), domain_of(masked, self.where)
        x = original.matrix(columns)[truth_in]
        x = x[np.isfinite(x).all(axis=1)]
        if len(x) < 2:
            raise MeasureError(f"the subdomain has {len(x)} complete records; a covariance needs two")
        notes: list[str] = []
        d, rescaled = self._noise(original, masked, columns, notes)
        figures: dict[str, Any] = {"n": len(x), "n_masked": int(masked_in.sum()), "variance_ratio": d}
        if formed_by or not self.correct or d == 0:
            if formed_by:
                notes.insert(0, self._membership(formed_by, truth_in, masked_in, figures))
            found = _as_it_is(masked, masked_in, columns)
        else:
            found = corrected_moments(
                masked, self.where, columns, variance_ratio=d, rescaled=rescaled, within=self.within
            )
        figures["corrected"] = bool(self.correct and not formed_by and d)
        figures["rescaled"] = rescaled
        notes += found.notes
        mean, covariance = x.mean(axis=0), _cov(x)
        variance = np.diag(covariance)
        safe = np.where(variance > 0, variance, 1.0)
        error = np.abs(np.diag(found.covariance) / safe - 1)
        breakdown = pl.DataFrame(
            {
                "column": list(columns),
                "mean": found.mean,
                "mean_standard_error": found.mean_standard_error,
                "mean_change_in_deviations": (found.mean - mean) / np.sqrt(safe),
                "deviation": np.sqrt(np.clip(np.diag(found.covariance), 0, None)),
                "variance_error": error,
                "variance_standard_error": np.diag(found.covariance_standard_error) / safe,
                "uncorrected_variance_error": np.abs(np.diag(found.uncorrected_covariance) / safe - 1),
            }
        )
        figures |= {
            "mean": found.mean,
            "covariance": found.covariance,
            "mean_standard_error": found.mean_standard_error,
            "covariance_standard_error": found.covariance_standard_error,
            "variances": dict(zip(columns, np.diag(found.covariance).tolist(), strict=True)),
            "correlation": _correlation(found.covariance),
            "projected": found.projected,
            "sign_changes": int((np.sign(found.covariance) != np.sign(covariance)).sum() // 2),
        }
        return Result(
            float(error[variance > 0].mean()) if (variance > 0).any() else 0.0,
            unit="relative error of variances",
            breakdown=breakdown,
            notes=tuple(notes),
            figures=figures,
            confidential={
                "original_mean": mean,
                "original_covariance": covariance,
                "original_correlation": _correlation(covariance),
            },
        )

    def _noise(
        self, original: Microdata, masked: Microdata, columns: Sequence[str], notes: list[str]
    ) -> tuple[float, bool]:
        """d, and whether the release was rescaled: as given, else as the two files show it."""
        x, z = original.matrix(columns), masked.matrix(columns)
        whole = np.isfinite(x).all(axis=1) & np.isfinite(z).all(axis=1)
        x, z = x[whole], z[whole]
        if self.variance_ratio is None and np.array_equal(np.sort(x, axis=0), np.sort(z, axis=0)):
            if self.correct and not np.array_equal(x, z):
                notes.append("every column has its own values still (a swap): there is no noise to take out")
            return 0.0, bool(self.rescaled)
        x, z = x - x.mean(axis=0), z - z.mean(axis=0)
        usable = x.var(axis=0) > 0
        if not usable.any() or len(x) < 3:
            return self.variance_ratio or 0.0, bool(self.rescaled)
        x, z = x[:, usable], z[:, usable]
        slope = (x * z).mean(axis=0) / x.var(axis=0)
        ratio = float(np.median((z - slope * x).var(axis=0) / (np.maximum(slope, 1e-3) ** 2 * x.var(axis=0))))
        grown = float(np.median(z.var(axis=0) / x.var(axis=0))) - 1.0
        d = self.variance_ratio if self.variance_ratio is not None else (ratio if ratio > 1e-12 else 0.0)
        rescaled = self.rescaled if self.rescaled is not None else bool(d and grown < d / 2)
        if self.correct and (self.variance_ratio is None or self.rescaled is None) and d:
            said = "rescaled" if rescaled else "not rescaled"
            notes.append(f"d = {d:.4g} and a release that was {said}: as the two files show it")
        return d, rescaled

    def _membership(
        self, formed_by: Sequence[str], truth: BoolArray, masked: BoolArray, figures: dict[str, Any]
    ) -> str:
        both = int((truth & masked).sum())
        figures["stayed_in"] = both
        figures["left"] = int(truth.sum()) - both
        figures["came_in"] = int(masked.sum()) - both
        return (
            f"the subdomain is formed by {', '.join(formed_by)}, which was masked: membership depends on the "
            f"noise, so no correction holds; of {int(truth.sum()):,} records {figures['left']:,} left and "
            f"{figures['came_in']:,} others came in"
        )


def _as_it_is(data: Microdata, inside: BoolArray, columns: Sequence[str]) -> SubdomainMoments:
    y = data.matrix(columns)[inside]
    y = y[np.isfinite(y).all(axis=1)]
    if len(y) < 2:
        raise MeasureError(f"the subdomain of the masked file has {len(y)} complete records")
    none = np.full(len(columns), np.nan)
    matrix = np.full((len(columns), len(columns)), np.nan)
    return SubdomainMoments(
        tuple(columns), len(y), y.mean(axis=0), _cov(y), none, matrix, y.mean(axis=0), _cov(y)
    )


def _correlation(covariance: FloatArray) -> FloatArray:
    """NaN where a variance is 0."""
    deviation = np.sqrt(np.clip(np.diag(covariance), 0, None))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(covariance / np.outer(deviation, deviation))


def _cov(y: FloatArray) -> FloatArray:
    return np.atleast_2d(np.cov(y, rowvar=False))
