"""Overlap of intervals over many masked files, with what the original gives kept."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl

from sfumato.data.differences import changed, same_memory
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.errors import MeasureError
from sfumato.stats.design import by_formula, formula_columns, frames_of
from sfumato.stats.intervals import estimable, overlap
from sfumato.stats.intervals import logistic as fitted
from sfumato.stats.strata import matched_strata

Interval = tuple[FloatArray, FloatArray]
J_K = "j_k "
"""How the figures of single coefficients are named in an experiment's frame."""
OF_THE_DATA = "C|poly|center|scale|standardize|bs|cr"
"""Functions of formulas that look at the data, so that a stratum's terms aren't rows of the whole file's."""
SMALL = 5000
"""Up to so many records the compiled small fit is quicker than the one in blocks."""


class Regression(Protocol):
    """What says which regression is compared, and how: ``IntervalOverlap`` does."""

    @property
    def formula(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def within(self) -> tuple[str, ...]: ...
    @property
    def level_percent(self) -> float: ...
    def interval(self, X: FloatArray, y: FloatArray) -> Interval: ...
    def measure(self, original: Any, masked: Any) -> Any: ...


def summary(j_k: Mapping[str, float], lost: int) -> dict[str, Any]:
    """The figures of an overlap that are numbers."""
    j = np.array(list(j_k.values()))
    apart = int((j < 0).sum())
    return {
        "value": float(j.mean()),
        "j": float(j.mean()),
        "coefficients": len(j),
        "non_overlaps": apart,
        "non_overlap_share": apart / len(j),
        "not_estimated": lost,
    }


def row_of_runs(name: str, parts: list[FloatArray], lost: int) -> dict[str, Any]:
    if not parts:
        raise MeasureError("there is no realisation to compare")
    known = np.concatenate(parts)
    means = np.array([p.mean() for p in parts if len(p)])
    if not len(known):
        raise MeasureError(f"{name}: no coefficient can be estimated in both files")
    return {
        "analysis": name,
        "realisations": len(parts),
        "average": float(known.mean()),
        "standard_error": float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else math.nan,
        "low": float(np.quantile(known, 0.05)),
        "high": float(np.quantile(known, 0.95)),
        "non_overlaps": int((known < 0).sum()),
        "intervals": len(known),
        "not_estimable": lost,
    }


class Analysis:
    """One regression of many masked files, with what the original gives kept.

    Where the short way isn't sure to give what the measure gives (missing values,
    functions that look at the data of a stratum, a response or categories that the original doesn't
    have), the measure itself is asked.
    """

    def __init__(self, data: Microdata, measure: Regression) -> None:
        self.data, self.measure = data, measure
        self.columns = formula_columns(measure.formula)
        self.before: dict[str, Interval] = {}
        self.whole = not (
            any(c not in data.columns or data.missing(c).any() for c in self.columns)
            or (measure.within and re.search(rf"\b({OF_THE_DATA})\s*\(", measure.formula))
        )
        if not self.whole:
            return
        try:
            self._look_at_the_original()
        except MeasureError:  # the measure says it better, or finds strata where it can be done
            self.whole = False

    def _look_at_the_original(self) -> None:
        from scipy.special import ndtri

        data, measure = self.data, self.measure
        self.quantile = float(ndtri(0.5 + measure.level_percent / 200.0))
        self.X, self.y, self.names = self._matrices(data)
        self.values = np.unique(self.y)
        self.additive = _Additive.of(data, measure.formula, self.X)
        self.labels: list[str] = []
        heads = []
        for label, rows, _ in matched_strata(data, data, measure.within):
            self.before[label] = self._interval(self.X, self.y, rows)
            self.labels.append(label)
            heads.append(int(rows[0]))
        if measure.within:
            self.heads = data.select(list(measure.within))[heads].with_row_index("stratum")

    def _matrices(self, masked: Microdata) -> tuple[FloatArray, FloatArray, list[str]]:
        one, two = frames_of(self.data, masked, self.columns)
        _, matrix = by_formula(self.measure.formula, one, two)
        response = matrix.lhs.to_numpy(dtype=np.float64)
        if response.shape[1] > 2:
            raise MeasureError("the response has more than two categories")
        return matrix.rhs.to_numpy(dtype=np.float64), response[:, -1], [str(c) for c in matrix.rhs.columns]

    def _changed_matrices(self, masked: Microdata) -> tuple[FloatArray, FloatArray]:
        """The matrices of a masked file, rebuilt only as far as its columns changed."""
        touched = [c for c in self.columns if _differs(self.data.column(c), masked.column(c))]
        if not touched:
            return self.X, self.y
        if self.additive is not None and not any(c not in self.additive.places for c in touched):
            X = self.additive.matrix(masked, self.X, touched)
            if X is not None:
                return X, self.y
        return self._matrices(masked)[:2]

    def _strata(self, masked: Microdata) -> Iterator[tuple[str, IntArray]]:
        """The records of each stratum in the masked file, by one join where it has no new stratum."""
        within = list(self.measure.within)
        if not within:
            yield "", np.arange(len(masked))
            return
        same = masked.select(within).schema == self.heads.select(within).schema
        codes = (
            masked.select(within).join(
                self.heads, on=within, how="left", nulls_equal=True, maintain_order="left"
            )["stratum"]
            if same
            else pl.Series([None])
        )
        if codes.null_count():
            yield from ((label, rows) for label, _, rows in matched_strata(self.data, masked, within))
            return
        at = codes.to_numpy()
        order = np.argsort(at, kind="stable")
        ends = np.cumsum(np.bincount(at, minlength=len(self.labels)))
        yield from zip(self.labels, np.split(order, ends[:-1]), strict=True)

    def _interval(self, X: FloatArray, y: FloatArray, rows: IntArray) -> Interval:
        part = np.asfortranarray(X[rows])
        if self.measure.family != "logistic" or len(self.values) != 2:
            return self.measure.interval(part, y[rows])
        # As the measure does, with the quantile and the two values looked up once.
        response = (y[rows] == self.values[1]).astype(np.float64)
        estimate, error = self._logistic(part, response)
        return estimate - self.quantile * error, estimate + self.quantile * error

    def _logistic(self, X: FloatArray, y: FloatArray) -> Interval:
        """Estimates and standard errors; NaN where there are none."""
        from sfumato.kernels.logistic_small import small_logistic

        estimate, error = np.full(X.shape[1], np.nan), np.full(X.shape[1], np.nan)
        if not 0 < y.sum() < len(y):
            return estimate, error
        keep = estimable(X)
        if len(y) <= SMALL and keep[0] and (X[:, 0] == 1.0).all():
            try:
                found, se, ok = small_logistic(np.asfortranarray(X[:, 1:][:, keep[1:]]), y)
            except np.linalg.LinAlgError:
                ok = False
            if ok:
                estimate[keep], error[keep] = found, se
        else:
            estimate[keep], error[keep] = fitted(X[:, keep], y)
        return estimate, error

    def overlaps(self, masked: Microdata) -> tuple[dict[str, float], int]:
        """J_k by its label (as the measure labels them), and how many coefficients can't be estimated."""
        found = self._short_way(masked) if self.whole and len(masked) == len(self.data) else None
        if found is None:
            result = self.measure.measure(self.data, masked)
            return dict(result.j_k), int(result.not_estimated)
        if not found[0]:
            raise MeasureError(
                "no coefficient can be estimated in both files", hint="take a smaller model or coarser strata"
            )
        return found

    def _short_way(self, masked: Microdata) -> tuple[dict[str, float], int] | None:
        try:
            if any(masked.missing(c).any() for c in self.columns):
                return None
            X, y = self._changed_matrices(masked)
            logistic = self.measure.family == "logistic"
            if X.shape != self.X.shape or (
                logistic and y is not self.y and not np.isin(y, self.values).all()
            ):
                return None
            unknown = (np.full(X.shape[1], np.nan),) * 2
            out: dict[str, float] = {}
            lost = 0
            for stratum, rows in self._strata(masked):
                low0, high0 = self.before.get(stratum, unknown)
                low1, high1 = self._interval(X, y, rows) if len(rows) else unknown
                ends = np.stack([low0, high0, low1, high1], axis=1)
                known = np.isfinite(ends).all(axis=1)
                lost += int((~known).sum())
                for k in np.flatnonzero(known):
                    a, b, c, d = ends[k].tolist()
                    label = f"{stratum}: {self.names[k]}" if stratum else self.names[k]
                    j = overlap((a, b), (c, d))
                    if math.isnan(j):  # the model fits one of the files exactly
                        lost += 1
                    else:
                        out[label] = j
        except MeasureError:
            return None
        return out, lost


@dataclass(frozen=True)
class _Additive:
    """A sum of plain columns: column → the places of its terms, and a category's levels."""

    places: dict[str, tuple[int, ...]]
    levels: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, data: Microdata, formula: str, X: FloatArray) -> _Additive | None:
        """None where the formula isn't such a sum, or its matrix isn't what this class would make."""
        right = [t.strip() for t in formula.split("~")[1].split("+")]
        if not all(re.fullmatch(r"[^\W\d]\w*", t) for t in right) or len(set(right)) < len(right):
            return None
        places: dict[str, tuple[int, ...]] = {}
        levels: dict[str, tuple[str, ...]] = {}
        at = 1
        # formulaic keeps the order of terms of one degree, the intercept first.
        for name in right:
            width = 1
            if data.kind(name) != "continuous":
                frame, _ = frames_of(data, data, [name])
                levels[name] = tuple(frame[name].cat.categories)
                width = len(levels[name]) - 1
            places[name] = tuple(range(at, at + width))
            at += width
        made = cls(places, levels)
        if at != X.shape[1]:
            return None
        again = made.matrix(data, X, right)
        return made if again is not None and np.array_equal(again, X) else None

    def matrix(self, masked: Microdata, X: FloatArray, columns: Sequence[str]) -> FloatArray | None:
        """X with these columns' terms from the masked file; None where a category is new."""
        out = X.copy()
        for name in columns:
            if name not in self.levels:
                out[:, self.places[name][0]] = masked.numbers(name)
                continue
            text = masked.column(name).cast(pl.String)
            if not text.is_in(self.levels[name]).all():
                return None
            for place, level in zip(self.places[name], self.levels[name][1:], strict=True):
                out[:, place] = (text == level).to_numpy()
        return out if np.isfinite(out).all() else None


def _differs(one: pl.Series, two: pl.Series) -> bool:
    return not same_memory(one, two) and changed(one, two) > 0
