"""Several copies of a release (Kim and Winkler 1995, section 4.2): what they tell, what they cost.

An analyst who gets different answers from two independently masked copies knows that the release
doesn't bear the analysis. Copies show variance, not common bias: a covariance that the noise inflates
is inflated in every copy, so correct first, then compare. And k copies of one file, averaged, have
noise of variance ratio d/k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sfumato.contract.measure import Measure
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import MeasureError

Analysis = str | Callable[[Microdata], Mapping[str, float]]
"""A formula (ordinary least squares: its coefficients), or a function → named estimates."""


@dataclass(frozen=True)
class CopyCheck:
    """Whether several copies agree on an analysis."""

    table: pl.DataFrame
    """One row an estimate: its value in each copy, mean, difference, whether it is flagged."""
    tolerance: float
    notes: tuple[str, ...]

    @property
    def plausible(self) -> bool:
        """Whether no estimate is flagged."""
        return not bool(self.table["flagged"].any())

    @property
    def flagged(self) -> list[str]:
        """The estimates that the copies disagree on."""
        return self.table.filter("flagged")["estimate"].to_list()


def independent_copies(
    mask: Any, data: Any, k: int = 2, *, seed: Seed | int | None = None
) -> list[Microdata]:
    """k releases of the same file by a mask or a plan, each with a seed of its own.

    The first copy has the seed itself, the others its children "copy 2", "copy 3" …
    """
    if k < 1:
        raise MeasureError(f"the number of copies must be at least 1, not {k}")
    first = as_seed(seed)
    seeds = [first, *(first.child(f"copy {i}") for i in range(2, k + 1))]
    given = as_microdata(data)
    if hasattr(mask, "mask"):
        return [mask.mask(given, seed=s) for s in seeds]
    return [mask.run(given, seed=s).masked for s in seeds]


def compare_copies(copies: Sequence[Any], analysis: Analysis, *, tolerance: float = 0.1) -> CopyCheck:
    """The two-copies plausibility check of an analysis.

    An estimate is flagged where two copies differ by more than ``tolerance`` times its mean size, or
    in sign. A formula is fitted by least squares; there a coefficient is also flagged where the
    copies differ by more than twice its standard error.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.decks.housing().slice(0, 3000)
    >>> noise = sf.AdditiveNoise(columns=["INCOME"], variance_ratio=0.01)
    >>> copies = independent_copies(noise, data, 2, seed=1)
    >>> check = compare_copies(copies, lambda d: {"mean income": d.frame["INCOME"].mean()})
    >>> check.plausible
    True
    """
    if len(copies) < 2:
        raise MeasureError("a comparison needs two copies or more", hint="sfumato run --copies 2")
    if not tolerance > 0:
        raise MeasureError(f"`tolerance` must be above 0, not {tolerance}")
    found = [_estimates(as_microdata(c), analysis) for c in copies]
    names = list(found[0][0])
    for other, _ in found[1:]:
        if list(other) != names:
            raise MeasureError("the analysis gives other estimates on one copy than on another")
    rows: list[dict[str, Any]] = []
    for name in names:
        values = np.array([float(v[name]) for v, _ in found])
        errors = np.array([e.get(name, np.nan) for _, e in found])
        middle, spread = float(values.mean()), float(np.ptp(values))
        relative = spread / abs(middle) if middle else (0.0 if spread == 0 else np.inf)
        sign = bool(np.sign(values).min() != np.sign(values).max())
        noisy = bool(np.isfinite(errors).all() and spread > 2 * errors.mean())
        row: dict[str, Any] = {"estimate": name}
        row |= {f"copy_{i + 1}": float(v) for i, v in enumerate(values)}
        row |= {"mean": middle, "difference": spread, "relative_difference": relative}
        row["flagged"] = bool(relative > tolerance or (sign and spread > 0) or noisy)
        rows.append(row)
    notes = (
        "agreement shows that the noise is small here; it doesn't show that there is no common bias: correct "
        "for the noise first (sfumato.utility.subdomain), then compare",
    )
    return CopyCheck(pl.DataFrame(rows), tolerance, notes)


def price_of_copies(
    original: Any, copies: Sequence[Any], attack: Measure, *, columns: Sequence[str] | None = None
) -> pl.DataFrame:
    """What an intruder gains who links the copies to each other and averages them.

    Averaging k copies divides d by k. The attack is run on one copy, on the mean of two, … of all;
    the copies are taken as linked without error, which is the worst case.
    """
    first = as_microdata(original)
    given = [as_microdata(c) for c in copies]
    if not given:
        raise MeasureError("there are no copies")
    names = list(columns) if columns is not None else _numeric_changes(first, given[0])
    rows = []
    for k in range(1, len(given) + 1):
        mean = {
            c: pl.Series(np.mean([g.numbers(c) for g in given[:k]], axis=0)).fill_nan(None) for c in names
        }
        rate = float(attack.measure(first, given[0].with_columns(mean)).value)
        rows.append({"copies": k, "noise_variance": 1.0 / k, "rate": rate})
    return pl.DataFrame(rows)


def _numeric_changes(original: Microdata, masked: Microdata) -> list[str]:
    from sfumato.data.differences import changed

    return [
        c
        for c in original.columns
        if original.is_numeric(c) and c in masked.columns and changed(original.column(c), masked.column(c))
    ]


def _estimates(data: Microdata, analysis: Analysis) -> tuple[dict[str, float], dict[str, float]]:
    if callable(analysis):
        return {str(k): float(v) for k, v in analysis(data).items()}, {}
    from formulaic import Formula
    from formulaic.errors import FormulaicError

    try:
        left, right = Formula(analysis).get_model_matrix(data.to_pandas(), na_action="drop")
    except (FormulaicError, ValueError, AttributeError, TypeError) as problem:
        raise MeasureError(
            f"the formula {analysis!r} can't be used: {str(problem).splitlines()[0]}",
            hint='write it as "WAGE ~ AGE + C(SEX)"',
        ) from None
    y, x = np.asarray(left, dtype=np.float64)[:, 0], np.asarray(right, dtype=np.float64)
    coefficients, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    names = [str(c) for c in right.columns]
    if rank < x.shape[1] or len(y) <= rank:
        raise MeasureError(f"the formula {analysis!r} has more terms than the data can tell apart")
    residual = y - x @ coefficients
    spread = np.sqrt(residual @ residual / (len(y) - rank) * np.diag(np.linalg.inv(x.T @ x)))
    return dict(zip(names, coefficients.tolist(), strict=True)), dict(
        zip(names, spread.tolist(), strict=True)
    )
