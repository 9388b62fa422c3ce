"""The model of stratum membership: a formula's columns, or columns that the sample supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sfumato.data.microdata import FloatArray, Microdata
from sfumato.errors import MaskError, MeasureError

RECORDS_PER_TERM = 5
"""Vittinghoff and McCulloch (2007): five records of the smaller class a parameter are enough."""
MAX_LEVELS = 20
"""At most so many categories of a covariate have terms of their own."""
OTHER, MISSING = "(other)", "(missing)"


@dataclass(frozen=True)
class StrataModel:
    """The terms of the propensity model, standardised over the records that take part.

    ``columns`` has a row for each term and a column for each such record, in the order of ``names``.
    """

    columns: FloatArray
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


Term = tuple[str, FloatArray]


def by_formula(data: Microdata, rows: pl.Series, formula: str) -> StrataModel:
    """The terms of a formula; missing numbers are filled with the mean and flagged by a term."""
    from sfumato.stats import design as _design

    right = formula.split("~", 1)[-1]
    names = _design.formula_columns(right)
    part = data.with_frame(data.select(names).filter(rows))
    _refuse_infinite(part, names)
    frame, _ = _design.frames_of(part, part.slice(0, 0), names)
    flags: list[Term] = []
    notes: list[str] = []
    for name in names:
        gone = frame[name].isna().to_numpy()
        if part.kind(name) != "continuous":
            frame[name], lumped = _lumped(frame[name])
            if lumped:
                notes.append(f"{name} has {lumped:,} more categories than {MAX_LEVELS}: one rest")
        if not gone.any():
            continue
        if gone.all():
            raise MaskError(f"every value of {name} is missing", hint="take it out of the formula")
        if part.kind(name) == "continuous":
            frame[name] = frame[name].fillna(frame[name].mean())
            flags.append((f"{name} missing", gone.astype(np.float64)))
        else:
            frame[name] = frame[name].cat.add_categories(MISSING).fillna(MISSING)
        notes.append(_gone_note(name, int(gone.sum())))
    try:
        matrix, _ = _design.by_formula(right, frame, frame.iloc[:2])
    except MeasureError as problem:
        raise MaskError(problem.message, hint=problem.hint) from None
    terms = [(str(n), matrix[n].to_numpy(dtype=np.float64)) for n in matrix.columns if n != "Intercept"]
    return _standardised([*terms, *flags], notes)


def _lumped(column: Any) -> tuple[Any, int]:
    """A pandas categorical with its commonest levels and one for the rest, and how many that one holds."""
    counts = column.value_counts(sort=False)
    counts = counts[counts > 0]
    if len(counts) <= MAX_LEVELS + 1:
        return column, 0
    own = counts.sort_values(ascending=False, kind="stable").index[:MAX_LEVELS].tolist()
    rare = column.notna() & ~column.isin(own)
    return column.cat.add_categories(OTHER).where(~rare, OTHER).cat.remove_unused_categories(), len(
        counts
    ) - len(own)


def automatic(data: Microdata, rows: pl.Series, columns: Sequence[str], smallest: int) -> StrataModel:
    """Terms that ``smallest`` records in the smaller stratum of a pair support.

    Main effects first: numbers as they are (missing ones filled with the mean and flagged), categories
    as indicators of their commonest levels. Then, where all of them fit, the products of each
    two-valued covariate with each number. What finds no place is named in the notes.
    """
    budget = max(1, smallest // RECORDS_PER_TERM)
    part = data.with_frame(data.select(list(columns)).filter(rows))
    _refuse_infinite(part, columns)
    numbers: list[Term] = []
    flags: list[Term] = []
    twofold: list[Term] = []
    texts: list[tuple[str, pl.Series]] = []
    notes: list[str] = []
    unknown: list[str] = []
    for column in columns:
        gone = part.missing(column)
        if gone.all():
            unknown.append(column)
            continue
        if gone.any():
            notes.append(_gone_note(column, int(gone.sum())))
        if part.kind(column) == "continuous":
            x = part.numbers(column)
            known = x[~gone]
            x[gone] = known.mean()
            low, high = known.min(), known.max()
            if low < high:
                two = bool(((known == low) | (known == high)).all())
                (twofold if two else numbers).append((column, x))
            if gone.any():
                flags.append((f"{column} missing", gone.astype(np.float64)))
        else:
            texts.append((column, _levels(part, column, gone)))
    if unknown:
        notes.append(f"every value of {', '.join(unknown)} is missing: left out of the model")
    singles = [*numbers, *twofold, *flags]
    spare = budget - len(singles)
    share = max(1, min(MAX_LEVELS, spare // max(1, len(texts)))) if spare > 0 else 1
    indicators: list[list[Term]] = []
    for column, text in texts:
        made, lumped = _indicators(column, text, share)
        indicators.append(made)
        if lumped:
            notes.append(f"{column} has {lumped:,} more categories than the model has room for: one rest")
    terms = [*numbers, *twofold, *(t for made in indicators for t in made), *flags]
    if len(terms) > budget:
        notes.append(
            f"the smallest stratum supports {budget} terms of the {len(terms)} there are; the small ridge "
            "keeps the fits defined, but name fewer `covariates`"
        )
    binary = [*twofold, *(made[0] for made in indicators if len(made) == 1)]
    products = [(f"{a}:{b}", x * y) for a, x in binary for b, y in numbers]
    if products and len(terms) + len(products) <= budget:
        terms += products
    elif products:
        notes.append(
            f"{len(products)} products of two-valued covariates with numbers aren't supported: left out"
        )
    return _standardised(terms, notes)


def _levels(part: Microdata, column: str, gone: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pl.Series:
    text = part.column(column).cast(pl.String).fill_null(MISSING)
    if gone.any():
        text = pl.DataFrame({"v": text}).select(
            pl.when(pl.Series(gone)).then(pl.lit(MISSING)).otherwise("v").alias("v")
        )["v"]
    return text


def _indicators(column: str, text: pl.Series, share: int) -> tuple[list[Term], int]:
    """Indicators of at most ``share`` levels after the commonest, and how many levels have none."""
    counts = text.alias("v").value_counts().sort(["count", "v"], descending=[True, False])
    levels = counts["v"].to_list()
    own = levels[1 : 1 + share]
    lumped = max(0, len(levels) - 1 - len(own))
    return [(f"{column}={v}", (text == v).cast(pl.Float64).to_numpy()) for v in own], lumped


def _standardised(terms: Sequence[Term], notes: Sequence[str]) -> StrataModel:
    kept: list[FloatArray] = []
    names: list[str] = []
    for name, x in terms:
        sd = float(x.std())
        if sd > 1e-12 * max(float(np.abs(x).max(initial=0.0)), 1e-300):
            kept.append((x - x.mean()) / sd)
            names.append(name)
    if not kept:
        raise MaskError(
            "no covariate with a known, varying value is left: the strata can't be compared",
            hint="name `covariates` that vary and aren't all missing",
        )
    return StrataModel(np.ascontiguousarray(np.stack(kept)), tuple(names), tuple(notes))


def _refuse_infinite(part: Microdata, columns: Sequence[str]) -> None:
    for column in columns:
        if part.dtype(column).is_float() and bool(part.column(column).is_infinite().any()):
            raise MaskError(
                f"the covariate {column} holds infinite values", hint="declare them missing or leave it out"
            )


def _gone_note(column: str, count: int) -> str:
    return f"{column} is missing in {count:,} records: filled with one value and flagged by a term"
