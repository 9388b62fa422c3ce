"""One loss for all masks: what an analyst of the release gets wrong."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl

from sfumato.contract.measure import UtilityMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import MeasureError, Problem, did_you_mean
from sfumato.stats.design import by_formula, formula_columns, formula_problem, frames_of
from sfumato.stats.reading import Reading, read_column

AS_IF: Final = 3_000
"""Intervals are those of a sample of this size: of a million records, no two would ever overlap."""
MOST_PAIRS: Final = 600
MOST_TERMS: Final = 60
MOST_RECORDS: Final = 100_000


@dataclass(frozen=True, kw_only=True)
class AnalystLoss(UtilityMeasure):
    """How much an analyst of the release gets wrong, on one scale for every mask.

    The release is read as an analyst would: a class stands for its values, evenly; a blank for the
    column's margin; a dropped column for all its values. Then

    - ``tables``: the mean index of dissimilarity ½ Σ|p − q| of the two-way tables (a number in tenths,
      zero and missing apart; the twelve most frequent levels of a category);
    - ``models``: 1 − the mean overlap of the 95% intervals of every number regressed on all other
      columns, both files read as samples of at most 3,000 records;
    - ``detail``: the mean share of the entropy of the categories that the classes have lost;
    - ``kept``: 1 − the mean overlap for each formula of ``keep``, where there is one.

    ``value`` is the mean of those that apply: 0 where nothing is lost, 1 where nothing is left. A mean
    can hide a column that is gone, so ``worst`` names the column that lost the most and
    ``worst_loss`` says how much; the breakdown has every column.
    It falls with the number of records, by sampling error: compare plans on one file.

    Reference: Karr, Kohnen, Oganian, Reiter, Sanil (2006) for the overlap; the index of dissimilarity
    as in Moore (1996); the reading and the mean are ours.

    >>> import polars as pl, sfumato as sf
    >>> x = pl.DataFrame({"SEX": ["f", "m"] * 20, "AGE": [20 + i % 30 for i in range(40)]})
    >>> sf.AnalystLoss().measure(x, x).value
    0.0
    """

    name: ClassVar[str] = "analyst_loss"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Karr et al. (2006); Moore (1996); the mean is ours"

    columns: tuple[str, ...] = parameter(
        (), doc="The columns to judge by (by default all but id, household and weight).", columns=True
    )
    keep: tuple[str, ...] = parameter(
        (), doc='Analyses that must survive, as in "WAGE ~ AGE + EDUC"; they enter the loss.'
    )

    def _check(self) -> Sequence[tuple[str, str | None]]:
        out: list[tuple[str, str | None]] = []
        for formula in self.keep:
            problem = formula_problem(formula)
            if problem:
                out.append((problem, None))
            elif formula.count("~") != 1 or not formula.split("~")[0].strip():
                out.append((f"{formula!r} needs a response: `y ~ a + b`", None))
        return out

    def check(self, schema: Schema, types: dict[str, Any]) -> list[Problem]:
        missing = [c for f in self.keep for c in formula_columns(f) if c not in types]
        return [
            *super().check(schema, types),
            *(
                Problem(0, f"`keep` names {c!r}, which the data don't have", did_you_mean(c, types))
                for c in dict.fromkeys(missing)
            ),
        ]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        names = self.columns or _judged(original)
        if not names:
            raise MeasureError("analyst_loss: there is no column to judge by")
        if not len(original) or not len(masked):
            raise MeasureError("analyst_loss: a file without records has nothing to lose")
        rows = _rows(len(original))
        readings = [read_column(original, masked, c, rows) for c in names]
        tables = _tables(readings)
        models = _models(readings)
        detail = {r.column: 1.0 - r.kept for r in readings if r.kind != "number" or r.kept < 1.0}
        kept = [_formula_loss(f, original, masked, rows) for f in self.keep]
        parts = {
            "tables": _mean(list(tables.values())),
            "models": _mean([v for one in models.values() for v in one]),
            "detail": _mean(list(detail.values())),
            "kept": _mean(kept),
        }
        there = [v for v in parts.values() if not math.isnan(v)]
        by_column = [_column(r.column, tables, models, detail) for r in readings]
        worst = max(by_column, key=lambda row: row["loss"])
        notes = [f"{f}: overlap {1 - v:.2f}" for f, v in zip(self.keep, kept, strict=True)]
        return Result(
            value=min(1.0, max(0.0, _mean(there))) if there else 0.0,
            unit="mean loss, 0 to 1",
            breakdown=pl.DataFrame(by_column, infer_schema_length=None).sort(
                "loss", descending=True, maintain_order=True
            ),
            notes=tuple(notes),
            figures={
                **{k: v for k, v in parts.items() if not math.isnan(v)},
                "worst": worst["column"],
                "worst_loss": worst["loss"],
            },
        )


def _judged(data: Microdata) -> tuple[str, ...]:
    apart = {data.schema.id, data.schema.household, data.schema.weight}
    return tuple(c for c in data.columns if c not in apart and _may_be_read(data, c))


def _may_be_read(data: Microdata, column: str) -> bool:
    """A column of text that is nearly unique is a name, and nobody's analysis."""
    dtype = data.dtype(column)
    if dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean:
        return True
    if dtype not in (pl.String, pl.Categorical, pl.Enum):
        return False
    return int(data.column(column).n_unique()) <= max(50, len(data) // 2)


def _rows(n: int) -> IntArray:
    """All records, or evenly spaced ones of a large file."""
    return np.arange(n) if n <= MOST_RECORDS else np.linspace(0, n - 1, MOST_RECORDS).astype(np.int64)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _tables(readings: Sequence[Reading]) -> dict[tuple[str, str], float]:
    pairs = list(itertools.combinations(readings, 2)) or [(readings[0], readings[0])]
    step = max(1, math.ceil(len(pairs) / MOST_PAIRS))
    out = {}
    for one, two in pairs[::step]:
        apart = one.table(two, released=False) - one.table(two, released=True)
        out[one.column, two.column] = float(0.5 * np.abs(apart).sum())
    return out


def _models(readings: Sequence[Reading]) -> dict[str, list[float]]:
    """1 − J of every coefficient, by response; from one matrix of cross products a file."""
    used: list[Reading] = []
    for one in readings:
        if sum(r.original_terms.shape[1] for r in used) + one.original_terms.shape[1] > MOST_TERMS:
            break
        used.append(one)
    widths = [r.original_terms.shape[1] for r in used]
    ends = np.cumsum([1, *widths])
    spans = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
    fits = []
    for released in (False, True):
        terms = [r.released_terms if released else r.original_terms for r in used]
        n = len(terms[0]) if terms else 0
        whole = np.column_stack([np.ones(n), *terms])
        fits.append((whole.T @ whole, n))
    if min(n for _, n in fits) == 0:
        return {}
    out: dict[str, list[float]] = {}
    for j, one in enumerate(used):
        if one.kind != "number":
            continue
        others = np.concatenate([[0], *(s for i, s in enumerate(spans) if i != j)]).astype(np.int64)
        first, second = (_fit(gram, n, others, int(spans[j][0])) for gram, n in fits)
        losses = _interval_losses(first, second)
        if len(losses):
            out[one.column] = losses.tolist()
    return out


Fit = tuple[FloatArray, FloatArray, np.ndarray[Any, np.dtype[np.bool_]]]


def _fit(gram: FloatArray, n: int, others: IntArray, at: int) -> Fit:
    """Coefficients, half widths of their intervals, and whether each can be estimated; from cross
    products."""
    G, g = gram[np.ix_(others, others)], gram[others, at]
    scale = np.sqrt(np.maximum(np.diag(G), 1e-300))
    w, U = np.linalg.eigh(G / np.outer(scale, scale))
    keep = w > 1e-7 * w.max()
    inverse = (U[:, keep] / w[keep]) @ U[:, keep].T
    known = (U[:, ~keep] ** 2).sum(axis=1) < 1e-3
    beta = inverse @ (g / scale)
    rest = max(float(gram[at, at] - beta @ (g / scale)), 0.0) / n
    error = np.sqrt(np.maximum(np.diag(inverse) * rest, 1e-30)) / scale
    return beta / scale, 2.0 * error * math.sqrt(max(1.0, n / AS_IF)), known & (np.diag(G) > 0)


def _interval_losses(first: Fit, second: Fit) -> FloatArray:
    (b1, h1, k1), (b2, h2, k2) = first, second
    shared = np.minimum(b1 + h1, b2 + h2) - np.maximum(b1 - h1, b2 - h2)
    with np.errstate(divide="ignore", invalid="ignore"):
        J = np.clip(0.5 * (shared / (2 * h1) + shared / (2 * h2)), 0.0, 1.0)
    J = np.where(k2, np.nan_to_num(J), 0.0)
    same = (b1 == b2) & (h1 == h2)
    return (1.0 - np.where(same, 1.0, J))[1:][k1[1:]]


def _formula_loss(formula: str, original: Microdata, masked: Microdata, rows: IntArray) -> float:
    """1 − mean overlap of a named regression; numbers in classes are read by their expected value."""
    columns = formula_columns(formula)
    # A number is a number to an analyst, in classes too; whatever else it is counted as.
    numbers = [c for c in columns if original.dtype(c).is_numeric() and original.kind(c) != "categorical"]
    new = {c: _expected(original, masked, c) for c in numbers if not masked.dtype(c).is_numeric()}
    two = masked.with_columns(new) if new else masked
    plain = {c: {"kind": "continuous", "order": ()} for c in numbers}
    original, two = (d.with_schema(_with(d.schema, plain)) for d in (original, two))
    try:
        first, second = by_formula(
            formula, *(f.iloc[rows[rows < len(f)]] for f in frames_of(original, two, columns))
        )
    except MeasureError:
        return 1.0
    fits = []
    for part in (first, second):
        y = part.lhs.to_numpy(dtype=np.float64)[:, -1]
        X = part.rhs.to_numpy(dtype=np.float64)
        whole = np.column_stack([X, y])
        gram = whole.T @ whole
        fits.append(_fit(gram, len(y), np.arange(X.shape[1]), X.shape[1]))
    losses = _interval_losses(*fits)
    return float(losses.mean()) if len(losses) else 1.0


def _expected(original: Microdata, masked: Microdata, column: str) -> pl.Series:
    """The mean of the original's distinct values in each released class."""
    from sfumato.data.recoding import label_span

    values = original.numbers(column)
    distinct = np.unique(values[~np.isnan(values)])
    gone = pl.Series(masked.missing(column))
    text = masked.column(column).cast(pl.String)
    text = text.to_frame("t").select(pl.when(~gone).then(pl.col("t"))).to_series()
    expected: dict[str, float] = {}
    for label in text.drop_nulls().unique().to_list():
        span = label_span(label)
        inside = distinct
        if span is not None:
            low = -math.inf if span.low is None else span.low
            inside = distinct[
                (distinct >= low) & (distinct <= (math.inf if span.high is None else span.high))
            ]
        expected[label] = float(inside.mean()) if len(inside) else math.nan
    out = text.replace_strict(list(expected), list(expected.values()), default=None, return_dtype=pl.Float64)
    return out.alias(column)


def _with(schema: Schema, details: dict[str, dict[str, Any]]) -> Schema:
    for column, said in details.items():
        missing = () if any(isinstance(m, str) for m in schema[column].missing) else schema[column].missing
        schema = schema.with_variable(column, missing=missing, **said)
    return schema


def _column(
    name: str, tables: dict[tuple[str, str], float], models: dict[str, list[float]], detail: dict[str, float]
) -> dict[str, Any]:
    in_tables = _mean([v for pair, v in tables.items() if name in pair])
    in_models = _mean(models.get(name, []))
    parts = [v for v in (in_tables, in_models, detail.get(name, math.nan)) if not math.isnan(v)]
    return {
        "column": name,
        "loss": _mean(parts) if parts else 0.0,
        "tables": None if math.isnan(in_tables) else in_tables,
        "models": None if math.isnan(in_models) else in_models,
        "detail": detail.get(name),
    }
