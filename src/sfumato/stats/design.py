"""Design matrices of two files in the same columns: main effects, products, or a formula.

A formula may use column names, numbers, the operators of formulas and a few functions; anything
else is refused before it is evaluated, since a formula in a plan must not be able to run code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.data.microdata import FloatArray, Microdata
from sfumato.errors import MeasureError, ParameterError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

FUNCTIONS = ("C", "log", "log10", "exp", "sqrt", "poly", "center", "scale", "standardize", "bs", "cr")
_TOKEN = re.compile(
    r"\s+|(?P<quoted>`[^`]+`)|(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|(?P<name>[^\W\d]\w*)|"
    r"(?P<power>\*\*)|(?P<sign>[~+\-*/:()^,=|])"
)
MAX_LEVELS = 200


@dataclass(frozen=True)
class Design:
    """The columns of a model, the same for both files (no intercept column), one file on the other."""

    stacked: FloatArray
    records: int
    """How many records of ``stacked`` are the original's; the masked file's follow."""
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def original(self) -> FloatArray:
        return self.stacked[: self.records]

    @property
    def masked(self) -> FloatArray:
        return self.stacked[self.records :]

    def identical(self) -> bool:
        """Whether both files have the same terms, record by record."""
        one, two = self.original, self.masked
        # Column by column: the first that moved settles it, without a pass over the others.
        return len(one) == len(two) and all(np.array_equal(one[:, j], two[:, j]) for j in range(one.shape[1]))


def formula_problem(formula: str) -> str | None:
    """What is wrong with a formula before any data are seen, or None."""
    place, last_name = 0, ""
    while place < len(formula):
        found = _TOKEN.match(formula, place)
        if not found:
            return f"the formula can't hold {formula[place]!r}"
        text = found.group()
        if text == "(" and last_name and last_name not in FUNCTIONS:
            return f"the formula can't call {last_name!r}; {did_you_mean(last_name, FUNCTIONS)}"
        if found.group("name") and text.startswith("__"):
            return f"the formula can't hold {text!r}"
        last_name = (found.group("name") or "") if not text.isspace() else last_name
        place = found.end()
    return None


def formula_columns(formula: str) -> list[str]:
    """The names in a formula that aren't functions."""
    out = []
    for found in _TOKEN.finditer(formula):
        if found.group("quoted"):
            out.append(found.group()[1:-1])
        elif found.group("name") and not re.match(r"\s*[(=]", formula[found.end() :]):
            # A word before "(" is a function, one before "=" its argument (degree=2).
            out.append(found.group())
    return list(dict.fromkeys(out))


def frames_of(original: Microdata, masked: Microdata, columns: Sequence[str]) -> tuple[Any, Any]:
    """Both files as pandas frames: missing values as NaN, categories with the levels of both files."""
    import pandas as pd

    one: dict[str, Any] = {}
    two: dict[str, Any] = {}
    for column in columns:
        if original.kind(column) == "continuous":
            one[column], two[column] = original.numbers(column), masked.numbers(column)
            continue
        texts = [_texts(d, column) for d in (original, masked)]
        levels = pd.Index(sorted({v for t in texts for v in t.drop_nulls().unique().to_list()}, key=_natural))
        one[column], two[column] = (pd.Categorical(t.to_list(), categories=levels) for t in texts)
    return pd.DataFrame(one), pd.DataFrame(two)


def _texts(data: Microdata, column: str) -> pl.Series:
    """The categories as text, whole numbers without a point; missing values (and codes) as null."""
    series, gone = data.column(column), data.missing(column)
    if series.dtype.is_float() and series.drop_nulls().drop_nans().is_finite().all():
        whole = series.cast(pl.Int64, strict=False)
        if (whole.cast(pl.Float64) == series).fill_null(True).all():
            series = whole
    return (
        series.cast(pl.String)
        .to_frame("v")
        .select(pl.when(pl.Series(~gone)).then(pl.col("v")).alias("v"))
        .to_series()
    )


def _natural(level: str) -> tuple[int, float, str]:
    try:
        return (0, float(level), level)
    except ValueError:
        return (1, 0.0, level)


def by_formula(formula: str, one: pd.DataFrame, two: pd.DataFrame) -> tuple[Any, Any]:
    """formulaic's model matrices of both files, built by the specification of the first."""
    import formulaic

    problem = formula_problem(formula)
    if problem:
        raise ParameterError(problem)
    try:
        first = formulaic.model_matrix(formula, one, context={}, na_action="drop")
        spec = first.model_spec
        second = spec.get_model_matrix(two, context={})
    except Exception as trouble:  # formulaic raises many kinds; each is a bad formula to our user
        text = str(trouble).splitlines()[0] if str(trouble) else type(trouble).__name__
        raise MeasureError(f"the formula {formula!r} can't be used: {text}") from None
    return first, second


def design_by_formula(formula: str, original: Microdata, masked: Microdata) -> Design:
    """The right-hand side of a formula as arrays; records with a missing value are dropped."""
    right = formula.split("~", 1)[-1]
    one, two = frames_of(original, masked, formula_columns(right))
    first, second = by_formula(right, one, two)
    names = [n for n in first.columns if n != "Intercept"]
    dropped = (len(one) - len(first)) + (len(two) - len(second))
    notes = [f"{dropped:,} records with a missing value are left out"] if dropped else []
    parts = [part[names].to_numpy(dtype=np.float64) for part in (first, second)]
    return Design(np.concatenate(parts), len(parts[0]), tuple(names), tuple(notes))


def main_effects(
    original: Microdata, masked: Microdata, columns: Sequence[str], *, interactions: bool = False
) -> Design:
    """Numbers as they are, categories as indicators (all levels but the first), with an indicator of
    missingness where values are missing; with ``interactions``, all products of two such columns of
    different variables as well."""
    parts: list[tuple[str, list[tuple[str, FloatArray, FloatArray]]]] = []
    notes: list[str] = []
    for column in columns:
        if original.kind(column) == "continuous":
            parts.append((column, _number(original, masked, column)))
        else:
            made, note = _indicators(original, masked, column)
            parts.append((column, made))
            notes += [note] if note else []
    flat = [(v, *terms) for v, made in parts for terms in made]
    ready = [(n, x, z) for _, n, x, z in flat]
    if interactions:
        for a in range(len(flat)):
            for b in range(a + 1, len(flat)):
                if flat[a][0] != flat[b][0]:
                    (_, n1, x1, z1), (_, n2, x2, z2) = flat[a], flat[b]
                    # Centred, so that a product isn't the sum of its factors once more.
                    c1, c2 = x1.mean(), x2.mean()
                    ready.append((f"{n1}:{n2}", (x1 - c1) * (x2 - c2), (z1 - c1) * (z2 - c2)))
    before, after = (len(ready[0][1]), len(ready[0][2])) if ready else (0, 0)
    stacked = np.empty((before + after, len(ready)), order="F")
    for j, (_, x, z) in enumerate(ready):
        stacked[:before, j], stacked[before:, j] = x, z
    return Design(stacked, before, tuple(n for n, _, _ in ready), tuple(notes))


def _number(original: Microdata, masked: Microdata, column: str) -> list[tuple[str, FloatArray, FloatArray]]:
    x, z = original.numbers(column), masked.numbers(column)
    gone_x, gone_z = np.isnan(x), np.isnan(z)
    if not gone_x.any() and not gone_z.any():
        return [(column, x, z)]
    there = x[~gone_x]
    fill = float(there.mean()) if len(there) else 0.0
    x[gone_x], z[gone_z] = fill, fill
    return [(column, x, z), (f"{column} missing", gone_x.astype(np.float64), gone_z.astype(np.float64))]


def _indicators(
    original: Microdata, masked: Microdata, column: str
) -> tuple[list[tuple[str, FloatArray, FloatArray]], str | None]:
    a, b = (_texts(d, column).fill_null("(missing)") for d in (original, masked))
    counts = pl.concat([a, b]).value_counts(sort=True)
    levels = counts.get_column(counts.columns[0]).to_list()
    note = None
    if len(levels) > MAX_LEVELS:
        note = f"{column} has {len(levels):,} categories; all but the {MAX_LEVELS} commonest count as one"
        levels = levels[:MAX_LEVELS]
        lump = pl.col("v").is_in(levels)
        a, b = (
            s.to_frame("v").select(pl.when(lump).then("v").otherwise(pl.lit("(other)"))).to_series()
            for s in (a, b)
        )
        levels = [*levels, "(other)"]
    out = []
    for level in sorted(levels, key=_natural)[1:]:
        x, z = ((s == level).cast(pl.Float64).to_numpy() for s in (a, b))
        out.append((f"{column}={level}", x, z))
    return out, note
