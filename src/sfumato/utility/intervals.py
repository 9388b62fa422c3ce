"""Overlap of the confidence intervals of regression coefficients."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.measure import UtilityMeasure, numbers
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import MeasureError, Problem, did_you_mean
from sfumato.stats.design import by_formula, formula_columns, formula_problem, frames_of
from sfumato.stats.intervals import estimable, exact_or_not, logistic, overlap
from sfumato.stats.overlaps import J_K, Analysis, row_of_runs, summary
from sfumato.stats.strata import matched_strata


@dataclass(frozen=True, kw_only=True)
class IntervalOverlap(UtilityMeasure):
    """How far a regression's confidence intervals from the two files overlap.

    J_k = ½ [(U_over − L_over)/(U_orig − L_orig) + (U_over − L_over)/(U_mask − L_mask)] for coefficient
    k, with L_over the larger of the two lower and U_over the smaller of the two upper ends. 1: the
    intervals coincide; negative: they are apart, by so much of their lengths. ``value`` is J, the
    mean over coefficients (and strata); ``non_overlaps`` counts J_k < 0, ``range`` is the central 90%
    of the J_k. Higher is better.

    ``formula`` is ``"y ~ a + b + a:b"``; categorical columns (text, or by the schema) become
    indicators with the levels of both files. ``family`` is "linear" (least squares, Student
    intervals) or "logistic" (maximum likelihood, Wald intervals; the response has two values, the
    larger counts as 1). With ``within`` the model is fitted in each stratum, whose members each
    file's own columns give. A coefficient that can't be estimated in one of the files (an aliased
    or constant term, separation, too few records) is named in ``not_estimable``, counted in
    ``not_estimated`` and left out of J.

    Reference: Karr, Kohnen, Oganian, Reiter, Sanil (2006); Oganian, Lesaja (2016), formula (2).

    >>> import polars as pl, sfumato as sf
    >>> x = pl.DataFrame({"y": [1.0, 2.1, 2.9, 4.2, 5.0], "a": [1.0, 2.0, 3.0, 4.0, 5.0]})
    >>> sf.IntervalOverlap(formula="y ~ a").measure(x, x).value
    1.0
    """

    name: ClassVar[str] = "interval_overlap"
    public_figures: ClassVar[tuple[str, ...]] = ("j", "non_overlaps", "coefficients")
    direction: ClassVar[Literal["lower", "higher"]] = "higher"
    bounds: ClassVar[tuple[float, float]] = (-math.inf, 1.0)
    reference: ClassVar[str] = "Karr et al. (2006); Oganian, Lesaja (2016), formula (2)"

    formula: str = parameter(doc='The regression, as in "INCOME ~ AGE + SEX".')
    family: Literal["linear", "logistic"] = parameter(
        "linear", doc="The kind of regression.", choices=("linear", "logistic")
    )
    within: tuple[str, ...] = parameter((), doc="Fit within each stratum of these columns.", columns=True)
    level_percent: float = parameter(95.0, doc="The level of the intervals.", above=0, below=100)

    def _check(self) -> Sequence[Fault]:
        problem = formula_problem(self.formula)
        if problem:
            return [(problem, None)]
        if self.formula.count("~") != 1 or not self.formula.split("~")[0].strip():
            return [("the formula needs a response: `y ~ a + b`", None)]
        return ()

    def check(self, schema: Schema, types: dict[str, Any]) -> list[Problem]:
        missing = [c for c in formula_columns(self.formula) if c not in types]
        return [
            *super().check(schema, types),
            *(
                Problem(
                    0,
                    f"`formula` names {c!r}, which the data don't have",
                    did_you_mean(c, types),
                    parameter="formula",
                )
                for c in missing
            ),
        ]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        one, two = frames_of(original, masked, formula_columns(self.formula))
        rows: list[dict[str, Any]] = []
        most = 0
        not_estimable: list[str] = []
        whole_strata = 0
        for label, before, after in matched_strata(original, masked, self.within):
            where = f" in {label}" if label else ""
            if not len(before) or not len(after):
                not_estimable.append(f"all{where}: the stratum is empty in one file")
                whole_strata += 1
                continue
            try:
                fits = self._fits(one.iloc[before], two.iloc[after])
            except MeasureError as problem:
                if not self.within:
                    raise
                not_estimable.append(f"all{where}: {problem.message}")
                whole_strata += 1
                continue
            names, (low0, high0), (low1, high1) = fits
            most = max(most, len(names))
            for k, name in enumerate(names):
                ends = (low0[k], high0[k], low1[k], high1[k])
                if not all(math.isfinite(e) for e in ends):
                    not_estimable.append(f"{name}{where}")
                    continue
                j_k = overlap((low0[k], high0[k]), (low1[k], high1[k]))
                if math.isnan(j_k):
                    not_estimable.append(f"{name}{where} (the model fits one file exactly)")
                    continue
                rows.append(
                    {
                        "stratum": label,
                        "coefficient": name,
                        "original_low": low0[k],
                        "original_high": high0[k],
                        "masked_low": low1[k],
                        "masked_high": high1[k],
                        "j": j_k,
                    }
                )
        if not rows:
            raise MeasureError(
                "no coefficient can be estimated in both files: " + "; ".join(not_estimable[:5]),
                hint="take a smaller model or coarser strata",
            )
        table = pl.DataFrame(rows)
        j = table["j"].to_numpy()
        apart = int((j < 0).sum())
        notes = []
        if not_estimable:
            shown = "; ".join(not_estimable[:8]) + ("; …" if len(not_estimable) > 8 else "")
            notes.append(f"{len(not_estimable)} coefficients can't be estimated in one of the files: {shown}")
        return Result(
            value=float(j.mean()),
            unit="mean overlap J",
            breakdown=table,
            notes=tuple(notes),
            figures={
                "j": float(j.mean()),
                "j_k": {_label(r): r["j"] for r in rows},
                "range": (float(np.quantile(j, 0.05)), float(np.quantile(j, 0.95))),
                "coefficients": len(rows),
                "non_overlaps": apart,
                "non_overlap_share": apart / len(rows),
                "not_estimable": not_estimable,
                # A stratum that gives none counts with all its coefficients.
                "not_estimated": len(not_estimable) + whole_strata * (most - 1),
            },
        )

    # -- over the runs of an experiment ---------------------------------------------------------------

    def prepared(self, original: Microdata) -> IntervalOverlap:
        again = copy.copy(self)
        object.__setattr__(again, "_analysis", Analysis(original, self))
        return again

    def figures(self, original: Microdata, masked: Microdata) -> list[tuple[str, float]]:
        """The figures, and each coefficient's J."""
        analysis: Analysis | None = self.__dict__.get("_analysis")
        if analysis is not None and analysis.data is original:
            j_k, lost = analysis.overlaps(masked)
        else:
            result = self.measure(original, masked)
            j_k, lost = dict(result.j_k), int(result.not_estimated)
        return [*numbers(summary(j_k, lost)), *((J_K + label, j) for label, j in j_k.items())]

    def table_of_runs(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        """The table of Oganian and Lesaja, a row for each point of the grid."""
        text = f"{self.formula}, in each {' × '.join(self.within)}" if self.within else self.formula
        rows = []
        for (point,), part in frame.group_by("point", maintain_order=True):
            each = part.filter(pl.col("figure").str.starts_with(J_K))
            parts = [p["value"].to_numpy() for _, p in each.group_by("replicate", maintain_order=True)]
            lost = part.filter(pl.col("figure") == "not_estimated")["value"].sum()
            if parts:
                row = row_of_runs(name, parts, int(lost))
                row["non_overlaps_per_run"] = row["non_overlaps"] / len(parts)
                rows.append({"point": point, **row, "family": self.family, "formula": text})
        return pl.DataFrame(rows)

    def _fits(self, one: Any, two: Any) -> tuple[list[str], Any, Any]:
        first, second = by_formula(self.formula, one, two)
        intervals = []
        for part in (first, second):
            response = part.lhs.to_numpy(dtype=np.float64)
            if not response.shape[1]:
                raise MeasureError("the response of the formula has no value")
            if response.shape[1] > 2:
                raise MeasureError(
                    f"the response has {response.shape[1]} categories; a regression needs a number or two",
                    hint="recode it, or compare one category with the others",
                )
            if response.shape[1] > 1:
                # A two-valued category: formulaic gives an indicator for each; the last counts as 1.
                response = response[:, -1:]
            X = part.rhs.to_numpy(dtype=np.float64)
            intervals.append(self.interval(X, response[:, 0]))
        return [str(c) for c in first.rhs.columns], *intervals  # type: ignore[return-value]

    def interval(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        from scipy.special import ndtri, stdtrit

        n, p = X.shape
        keep = estimable(X)
        estimate, error = np.full(p, np.nan), np.full(p, np.nan)
        tail = 0.5 + self.level_percent / 200.0
        if self.family == "linear":
            spare = n - int(keep.sum())
            if spare > 0 and keep.any():
                estimate[keep], error[keep] = exact_or_not(X[:, keep], y)
            quantile = float(stdtrit(spare, tail)) if spare > 0 else math.nan
        else:
            values = np.unique(y)
            if len(values) == 2:
                estimate[keep], error[keep] = logistic(X[:, keep], (y == values[1]).astype(np.float64))
            elif len(values) > 2:
                raise MeasureError("a logistic regression needs a response with two values")
            quantile = float(ndtri(tail))
        return estimate - quantile * error, estimate + quantile * error


def _label(row: dict[str, Any]) -> str:
    return f"{row['stratum']}: {row['coefficient']}" if row["stratum"] else str(row["coefficient"])
