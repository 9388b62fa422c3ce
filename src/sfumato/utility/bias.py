"""BIAS and PERCENTAGE BIAS of class means, with their acceptable range (Moore)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.contract.measure import UtilityMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.codes import joint_codes
from sfumato.data.differences import changed
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.stats.acceptable_bias import acceptable_range, share_to_keep, verdict_on
from sfumato.stats.pairing import same_length


@dataclass(frozen=True, kw_only=True)
class PercentageBias(UtilityMeasure):
    """How far the means of classes have moved, in percent of the overall mean.

    BIAS² = (1/N) Σ_c n_c (mean before − mean after)² over the classes c of a set of keys, n_c and N
    counted before; PERCENTAGE BIAS = 100 · BIAS / |overall mean|. Each file's own keys say which class
    a record is in. ``value`` is the PERCENTAGE BIAS at the finest level (the most classes);
    ``average`` its mean over all levels, and the breakdown has every level. A class that is empty in
    one file has no mean there and is left out (``classes_left_out``, with its share of records).

    The acceptable range is p · n_s/N < PERCENTAGE BIAS < 100 · √(2f + f²) · s / |mean|: n_s records
    swapped, at least p percent of distortion on average for each; s the standard deviation, which
    the distortion may raise by the share f at most. ``verdict`` is "acceptable", "too little" or
    "too much"; where it is too much, ``advice`` says what share of the risky classes to swap:
    ``keep_share_a2`` = ratio² (Theorem A.2) and ``keep_share_a3``, which allows for pairs of risky
    classes (Theorem A.3).

    Reference: Moore (1996), Analysis of the confidentiality edit, sections X, XI, XIII, appendix A.

    >>> import polars as pl, sfumato as sf
    >>> before = pl.DataFrame({"REGION": [1, 1, 2, 2], "INCOME": [10, 20, 30, 40]})
    >>> after = pl.DataFrame({"REGION": [1, 1, 2, 2], "INCOME": [10, 30, 20, 40]})
    >>> found = sf.PercentageBias(of="INCOME", classes=["REGION"], f=0.1).measure(before, after)
    >>> found.bias, found.percentage_bias, found.verdict
    (5.0, 20.0, 'acceptable')
    """

    name: ClassVar[str] = "percentage_bias"
    public_figures: ClassVar[tuple[str, ...]] = ("percentage_bias", "bias", "verdict")
    bounds: ClassVar[tuple[float, float]] = (0.0, math.inf)
    reference: ClassVar[str] = "Moore (1996), Analysis of the confidentiality edit, sections X and XI"

    of: str = parameter(doc="The numeric column whose means are compared.", columns=True, numeric=True)
    classes: tuple[str, ...] | tuple[tuple[str, ...], ...] = parameter(
        (),
        doc="The keys that make the classes, or a list of such lists (several levels). By default the "
        "keys and the geography, then the same without its last key, and so on.",
        columns=True,
    )
    p: float = parameter(10.0, doc="The least mean distortion of a swapped record, in percent.", at_least=0)
    f: float = parameter(0.01, doc="The share by which the standard deviation may grow at most.", above=0)
    small_class: int = parameter(
        1, doc="Classes of at most this many records are those a swap is meant to protect.", at_least=1
    )

    def levels(self, data: Microdata) -> list[tuple[str, ...]]:
        """The sets of keys, each a level."""
        if self.classes:
            first = self.classes[0]
            if isinstance(first, str):
                return [tuple(str(c) for c in self.classes)]
            return [tuple(level) for level in self.classes]
        keys = tuple(dict.fromkeys([*data.schema.geography, *data.schema.keys]))
        if not keys:
            raise MeasureError("no classes were given", hint="name their keys with `classes`")
        return [keys[:k] for k in range(len(keys), 0, -1)]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        same_length(original, masked)
        x, z = original.numbers(self.of), masked.numbers(self.of)
        there = x[np.isfinite(x)]
        if np.isinf(x).any() or np.isinf(z).any():
            raise MeasureError(f"{self.of} has infinite values, which have no mean")
        if len(there) < 2:
            raise MeasureError(f"fewer than 2 records have a value of {self.of}")
        mean, sd = float(there.mean()), float(there.std(ddof=1))
        if abs(mean) <= 1e-9 * max(sd, float(np.abs(there).max())):
            raise MeasureError(
                f"the mean of {self.of} is zero, so no percentage of it can be taken",
                hint="look at `bias` by another measure (moment_ratios, information_loss.il1s)",
            )
        levels = self.levels(original)
        rows = [self._level(original, masked, level, x, z, mean) for level in levels]
        rows.sort(key=lambda row: -row["classes"])  # stable: the finest first
        finest = rows[0]
        moved = self._moved(original, masked, [c for level in levels for c in level])
        n_s = int(moved.sum())
        lower, upper = acceptable_range(mean, sd, n_s=n_s, n=len(original), p=self.p, f=self.f)
        bias = finest["percentage_bias"]
        verdict = verdict_on(bias, lower, upper) if n_s else "acceptable"
        figures: dict[str, Any] = {
            "bias": finest["bias"],
            "percentage_bias": bias,
            "average": float(np.mean([row["percentage_bias"] for row in rows])),
            "mean": mean,
            "standard_deviation": sd,
            "swapped": n_s,
            "lower": lower,
            "upper": upper,
            "acceptable_range": (lower, upper),
            "verdict": verdict,
            "acceptable": verdict == "acceptable",
            "classes_left_out": finest["left_out"],
        }
        notes = [f"{self.of}: {bias:.4g}% is {verdict}; the acceptable range is {lower:.3g}% to {upper:.4g}%"]
        if lower >= upper:
            notes.append(
                f"no bias is in that range: with {n_s:,} of {len(original):,} records changed, "
                f"p = {self.p:g} asks for more distortion than f = {self.f:g} allows; change fewer "
                "records, or choose another p or f"
            )
        if not n_s:
            notes = [f"no record of {self.of} or of its classes has changed"]
        if verdict == "too much":
            figures |= self._advice(original, finest["keys"], moved, upper / bias)
            notes.append(figures["advice"])
        if finest["left_out"]:
            notes.append(
                f"{finest['left_out']:,} of the finest classes are empty in one file and left out "
                f"({100 * finest['share_left_out']:.2f}% of the records)"
            )
        breakdown = pl.DataFrame([{**row, "keys": " × ".join(row["keys"])} for row in rows])
        return Result(
            value=bias, unit="percent of the mean", breakdown=breakdown, notes=tuple(notes), figures=figures
        )

    def _level(
        self,
        original: Microdata,
        masked: Microdata,
        keys: tuple[str, ...],
        x: FloatArray,
        z: FloatArray,
        mean: float,
    ) -> dict[str, Any]:
        before, after = joint_codes(original, masked, keys)[:2]
        bias, left_out, share = bias_of_means(x, z, before, after)
        return {
            "keys": keys,
            "classes": int(np.unique(before).size),
            "bias": bias,
            "percentage_bias": 100.0 * bias / abs(mean),
            "left_out": left_out,
            "share_left_out": share,
        }

    def _moved(self, original: Microdata, masked: Microdata, keys: Sequence[str]) -> BoolArray:
        """Which records had their value or one of their keys changed."""
        out = np.zeros(len(original), dtype=np.bool_)
        for column in dict.fromkeys([self.of, *keys]):
            one, two = original.column(column), masked.column(column)
            if changed(one, two):
                if one.dtype != two.dtype:
                    one, two = one.cast(pl.String), two.cast(pl.String)
                out |= one.ne_missing(two).to_numpy()
        return out

    def _advice(
        self, original: Microdata, keys: tuple[str, ...], moved: BoolArray, ratio: float
    ) -> dict[str, Any]:
        codes, _ = original.codes(keys)
        helpers = int((np.bincount(codes)[codes[moved]] > self.small_class).sum())
        total = int(moved.sum())
        a2, a3 = ratio**2, share_to_keep(ratio, total, helpers)
        return {
            "ratio": ratio,
            "helpers": helpers,
            "keep_share_a2": a2,
            "keep_share_a3": a3,
            "advice": (
                f"swap less: protect about {100 * a3:.1f}% of the small classes (Theorem A.3; at most "
                f"{100 * a2:.1f}% by Theorem A.2), or lower the tolerance until that many remain"
            ),
        }


def bias_of_means(
    before: FloatArray, after: FloatArray, classes: IntArray, classes_after: IntArray | None = None
) -> tuple[float, int, float]:
    """BIAS of class means: the bias, classes left out, and their share of the records.

    ``classes`` are codes ≥ 0 of each record's class, ``classes_after`` those in the masked file
    where they differ. NaN is missing. A mask that exchanges keys instead of values can pass the
    exchanged values with the old classes, which is Moore's own accounting.
    """
    after_codes = classes if classes_after is None else classes_after
    k = int(max(classes.max(initial=-1), after_codes.max(initial=-1))) + 1
    centre = float(np.nanmean(before)) if np.isfinite(before).any() else 0.0
    means, counts = [], []
    for values, codes in ((before, classes), (after, after_codes)):
        there = np.isfinite(values)
        n = np.bincount(codes[there], minlength=k)
        total = np.bincount(codes[there], weights=values[there] - centre, minlength=k)
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append(total / n)
        counts.append(n)
    n0, n1 = counts
    both = (n0 > 0) & (n1 > 0)
    lost = (n0 > 0) ^ (n1 > 0)
    records = int(n0.sum())
    if not both.any():
        raise MeasureError("no class has a mean in both files", hint="take coarser classes")
    gap = means[0][both] - means[1][both]
    bias = math.sqrt(float((n0[both] * gap * gap).sum()) / records)
    return bias, int(lost.sum()), float(n0[lost].sum()) / records
