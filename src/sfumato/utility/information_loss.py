"""Information loss of numbers (Domingo-Ferrer and Torra; Yancey, Winkler and Creecy)."""

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
from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.stats.pairing import PairedMoments, numeric_columns, paired_moments, twice

LOSSES = ("il1", "il1s", "il2", "il3", "il4", "il5")
SCORES = ("s0", "s1", "s2")
_TINY = 1e-9


@dataclass(frozen=True, kw_only=True)
class InformationLoss(UtilityMeasure):
    """How far values, means, covariances, variances and correlations of numbers have moved.

    Over n records and m columns of the original X and the masked Z:

    - ``il1``  = mean over cells of |x − z| / ½(|x| + |z|), where 0/0 counts 0 (at most 2);
    - ``il1s`` = mean over cells of |x − z| / (√2 S_j), S_j the standard deviation (n−1) of the
      original column (within a stratum: in the stratum);
    - ``il2``  = mean over columns of |x̄ − z̄| / |x̄|;
    - ``il3``  = mean over the m(m+1)/2 covariances of |Cov X − Cov Z| / |Cov X|;
    - ``il4``  = mean over the m variances of the same;
    - ``il5``  = mean over the m(m−1)/2 correlations of |Cor X − Cor Z|;
    - ``s0`` = (il2 + il3 + il4 + il5)/4, ``s1`` = (il1 + … + il5)/5,
      ``s2`` = (il1s + il2 + il4 + il5)/4.

    Lower is better; an untouched file gives exactly 0 everywhere. ``value`` is s0.

    **Small denominators.** A mean, variance or covariance of the original that is zero to rounding
    (below 1e-9 of the column's root mean square, or of the product of the two standard deviations)
    can't be divided by. Where the masked one is zero too, the term counts 0; else it is left out,
    counted in ``left_out`` and named in the notes. A loss none of whose terms is defined is NaN,
    never an infinity. Correlations need no division, and no inverse is taken, so columns that add
    up are no problem. ``il3`` is dominated by covariances near zero; ``il3_largest`` lists its
    largest terms.

    **Missing values.** A cell counts where both files have a value; ``suppressed`` counts the cells
    that only the original has.

    Reference: Yancey, Winkler, Creecy (2002), section 3.5; Domingo-Ferrer, Mateo-Sanz, Torra (2001).

    >>> import polars as pl, sfumato as sf
    >>> x = pl.DataFrame({"A": [1.0, 2.0, 3.0], "B": [2.0, 1.0, 6.0]})
    >>> z = pl.DataFrame({"A": [2.0, 1.0, 3.0], "B": [2.0, 1.0, 6.0]})
    >>> loss = sf.InformationLoss().measure(x, z)
    >>> round(loss.il1, 4), loss.il2, loss.il4, round(loss.il5, 4)
    (0.2222, 0.0, 0.0, 0.189)
    """

    name: ClassVar[str] = "information_loss"
    public_figures: ClassVar[tuple[str, ...]] = ("il1", "il1s", "il2", "il3", "il4", "il5", "s0", "s1", "s2")
    bounds: ClassVar[tuple[float, float]] = (0.0, math.inf)
    reference: ClassVar[str] = "Yancey, Winkler, Creecy (2002), section 3.5"

    columns: tuple[str, ...] = parameter(
        (), doc="The numeric columns; by default the sensitive ones.", columns="sensitive", numeric=True
    )
    within: tuple[str, ...] = parameter(
        (), doc="Measure each stratum of these columns of the original too.", columns=True
    )
    smallest_stratum: int = parameter(
        3, doc="Strata with fewer records than this are left out (and counted).", at_least=2
    )

    def _check(self) -> Sequence[Fault]:
        return twice(self.columns, "columns")

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        columns = numeric_columns(original, self.columns)
        moments = paired_moments(original, masked, columns)
        found = losses(moments)
        figures: dict[str, Any] = {**found.values, **found.counts, "il3_largest": found.largest}
        notes = [*found.notes]
        breakdown = found.by_column
        if self.within:
            strata, skipped = self._by_stratum(original, masked, columns)
            figures["by_stratum"], figures["strata_left_out"] = strata, skipped
            breakdown = strata
            if skipped:
                notes.append(f"{skipped:,} strata of fewer than {self.smallest_stratum} records are left out")
            numbers = strata.select(pl.col([*LOSSES, *SCORES]).fill_nan(None).mean())
            figures["mean_over_strata"] = numbers.to_dicts()[0]
        return Result(
            value=found.values["s0"],
            unit="loss (s0)",
            breakdown=breakdown,
            notes=tuple(notes),
            figures=figures,
        )

    def _by_stratum(
        self, original: Microdata, masked: Microdata, columns: tuple[str, ...]
    ) -> tuple[pl.DataFrame, int]:
        codes, k = original.codes(self.within)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=k))
        labels = original.select(list(self.within))
        rows: list[dict[str, Any]] = []
        skipped = 0
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            if end - start < self.smallest_stratum:
                skipped += 1
                continue
            part = losses(paired_moments(original, masked, columns, rows=order[start:end]))
            left_out = sum(part.counts["left_out"].values())
            label = labels.row(int(order[start]), named=True)
            rows.append({**label, "records": int(end - start), **part.values, "left_out": left_out})
        if not rows:
            raise MeasureError(
                f"no stratum of {' × '.join(self.within)} has {self.smallest_stratum} records",
                hint="measure within coarser strata",
            )
        return pl.DataFrame(rows, infer_schema_length=None), skipped


@dataclass(frozen=True)
class Losses:
    """Every loss of one file (or stratum), and what was left out of it."""

    values: dict[str, float]
    counts: dict[str, Any]
    by_column: pl.DataFrame
    largest: list[dict[str, Any]]
    notes: tuple[str, ...]


def losses(moments: PairedMoments) -> Losses:
    """IL1 … IL5 and s0 … s2 from the moments of the two files."""
    from sfumato.kernels.moments import ABSOLUTE, CELLS, ONLY_MASKED, ONLY_ORIGINAL, RELATIVE, ZERO_PAIRS

    columns, sums = moments.columns, moments.sums
    m = len(columns)
    cells = sums[CELLS]
    if (cells < 2).any():
        poor = [c for c, n in zip(columns, cells, strict=True) if n < 2]
        raise MeasureError(
            f"{', '.join(poor)}: fewer than 2 records have a value in both files",
            hint="leave the column out, or measure a larger file",
        )
    sd = moments.sd_x
    variance_x, variance_z = np.diag(moments.cov_x), np.diag(moments.cov_z)
    size = np.sqrt(moments.mean_x**2 + variance_x)

    moved = sums[ABSOLUTE] / cells
    il1s, ok1s = _relative(moved, math.sqrt(2.0) * sd, _TINY * size)
    il2, ok2 = _relative(np.abs(moments.mean_x - moments.mean_z), np.abs(moments.mean_x), _TINY * size)
    il4, ok4 = _relative(np.abs(variance_x - variance_z), variance_x, np.square(_TINY * size))
    low = np.tril_indices(m)
    below = np.tril_indices(m, -1)
    change = np.abs(moments.cov_x - moments.cov_z)[low]
    # On the diagonal the denominator is a variance: only a constant column's is zero to rounding.
    floor = np.where(low[0] == low[1], np.square(_TINY * size)[low[0]], _TINY * np.outer(sd, sd)[low])
    il3, ok3 = _relative(change, np.abs(moments.cov_x)[low], floor)
    il5 = np.abs(moments.cor_x - moments.cor_z)[below]
    ok5 = np.isfinite(il5)

    # IL1 and IL1s are means over cells, the others over columns or pairs.
    weights = np.where(ok1s, cells, 0.0)
    values = {
        "il1": float(sums[RELATIVE].sum() / cells.sum()),
        "il1s": float(np.where(ok1s, il1s, 0.0) @ weights / weights.sum()) if weights.any() else math.nan,
        "il2": _mean(il2, ok2),
        "il3": _mean(il3, ok3),
        "il4": _mean(il4, ok4),
        "il5": _mean(il5, ok5) if m > 1 else 0.0,
    }
    v = values
    values["s0"] = (v["il2"] + v["il3"] + v["il4"] + v["il5"]) / 4
    values["s1"] = (v["il1"] + v["il2"] + v["il3"] + v["il4"] + v["il5"]) / 5
    values["s2"] = (v["il1s"] + v["il2"] + v["il4"] + v["il5"]) / 4

    left_out = {
        "il1s": int((~ok1s).sum()),
        "il2": int((~ok2).sum()),
        "il3": int((~ok3).sum()),
        "il4": int((~ok4).sum()),
        "il5": int((~ok5).sum()),
    }
    pairs = [(columns[j], columns[k]) for j, k in zip(*low, strict=True)]
    notes = _notes(columns, pairs, {"il1s": ok1s, "il2": ok2, "il3": ok3, "il4": ok4}, v, m)
    suppressed = int(sums[ONLY_ORIGINAL].sum())
    if suppressed:
        notes.append(
            f"{suppressed:,} cells have a value only in the original; the losses compare the other cells"
        )
    appeared = int(sums[ONLY_MASKED].sum())
    if appeared:
        notes.append(f"{appeared:,} cells have a value only in the masked file")
    counts = {
        "records": moments.records,
        "cells": int(cells.sum()),
        "zero_cells": int(sums[ZERO_PAIRS].sum()),
        "suppressed": suppressed,
        "left_out": left_out,
    }
    with np.errstate(invalid="ignore"):
        per_column = pl.DataFrame(
            {
                "column": list(columns),
                "il1": sums[RELATIVE] / cells,
                "il1s": np.where(ok1s, il1s, np.nan),
                "il2": np.where(ok2, il2, np.nan),
                "il4": np.where(ok4, il4, np.nan),
            }
        )
    return Losses(values, counts, per_column, _largest(il3, ok3, pairs), tuple(notes))


def _relative(change: FloatArray, denominator: FloatArray, floor: FloatArray) -> tuple[FloatArray, BoolArray]:
    """change / denominator, and where it is defined.

    A denominator at or below its floor is zero to rounding: the term counts 0 where the change is
    too, and is undefined elsewhere.
    """
    zero = denominator <= floor
    with np.errstate(invalid="ignore", divide="ignore"):
        out = np.where(zero, 0.0, change / np.where(zero, 1.0, denominator))
    return out, np.asarray((~zero | (change <= floor)) & np.isfinite(out))


def _mean(terms: FloatArray, ok: BoolArray) -> float:
    return float(terms[ok].mean()) if ok.any() else math.nan


def _largest(il3: FloatArray, ok: BoolArray, pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    total = float(il3[ok].sum())
    if total == 0:
        return []
    order = [int(t) for t in np.argsort(np.where(ok, -il3, np.inf), kind="stable")[:5]]
    return [
        {
            "columns": " × ".join(dict.fromkeys(pairs[t])),
            "term": float(il3[t]),
            "share": float(il3[t] / total),
        }
        for t in order
        if ok[t] and il3[t] > 0
    ]


def _notes(
    columns: tuple[str, ...],
    pairs: list[tuple[str, str]],
    ok: dict[str, BoolArray],
    values: dict[str, float],
    m: int,
) -> list[str]:
    what = {
        "il1s": "their standard deviation is zero",
        "il2": "their mean is zero",
        "il3": "their covariance is zero",
        "il4": "their variance is zero",
    }
    notes = []
    for loss, good in ok.items():
        names = (
            [columns[i] for i in np.flatnonzero(~good)]
            if loss != "il3"
            else [" × ".join(dict.fromkeys(pairs[i])) for i in np.flatnonzero(~good)]
        )
        if names:
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            notes.append(
                f"{loss} leaves out {shown}: {what[loss]} in the original, so nothing can be relative to it"
            )
    undefined = [name for name in LOSSES if math.isnan(values[name])]
    if undefined:
        notes.append(f"{', '.join(undefined)} can't be computed: no term has a denominator; s0 … s2 follow")
    if m == 1:
        notes.append("one column has no correlation: il5 counts 0")
    return notes
