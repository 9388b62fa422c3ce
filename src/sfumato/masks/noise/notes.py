"""What the noise masks promise beyond the usual guarantees, and what they report of their cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.contract.guarantees import (
    Guarantee,
    exactness,
    lost_values,
    moment_error,
    over,
    refuse_loose,
    rows_by_group,
)
from sfumato.contract.mask import Notes
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.masks.noise.fit import type_range
from sfumato.masks.noise.sums import Rule, unique_rows


@dataclass(frozen=True)
class InflatedMoments(Guarantee):
    """Means stay and covariances are multiplied by a factor, in the records that are eligible throughout.

    ``strata`` maps the strata to the groups in which it holds (small strata are pooled).
    """

    columns: tuple[str, ...]
    factor: float
    tolerance: float = 1e-9
    within: tuple[str, ...] = ()
    strata: pl.DataFrame | None = None

    def __post_init__(self) -> None:
        refuse_loose(self.tolerance)

    def describe(self) -> str:
        larger = "are kept" if self.factor == 1 else f"are {self.factor:g} times as large"
        where = f" within {', '.join(self.within)}" if self.within else ""
        return (
            f"means of {', '.join(self.columns)} are kept and their covariances {larger}{where}, in records "
            f"without missing or coded values, {exactness(self.tolerance)}"
        )

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        whole = np.logical_and.reduce([before.eligible(c) for c in self.columns])
        x, z, group = before.matrix(self.columns), after.matrix(self.columns), self._groups(before)
        if not whole.all():
            x, z, group = x[whole], z[whole], group[whole]
        groups = rows_by_group(group)
        return lost_values(x, z) or over(
            [moment_error(x[rows], z[rows], factor=self.factor) for rows in groups], self.tolerance
        )

    def _groups(self, data: Microdata) -> IntArray:
        if self.strata is None:
            return np.zeros(len(data), dtype=np.int64)
        keys = self.strata.columns[:-1]
        joined = data.select(keys).join(
            self.strata, on=keys, how="left", nulls_equal=True, maintain_order="left"
        )
        return joined["__group"].to_numpy().astype(np.int64)


@dataclass(frozen=True)
class WithinBounds(Guarantee):
    """Every masked value of a column lies within its bounds."""

    column: str
    low: float | None = None
    high: float | None = None

    def describe(self) -> str:
        ends = [f"at least {self.low:g}"] if self.low is not None else []
        ends += [f"at most {self.high:g}"] if self.high is not None else []
        return f"{self.column} stays {' and '.join(ends)}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        values = after.numbers(self.column)[before.eligible(self.column)]
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        n = int((~((values >= low) & (values <= high))).sum())  # a value that is lost isn't within them
        return f"{n:,} values of {self.column} are out of bounds" if n else None


def note_residuals(
    columns: Sequence[str],
    data: Microdata,
    rules: Sequence[Rule],
    notes: Notes,
    *,
    way: str,
    zeros_kept: bool,
    zeros_flagged: bool,
) -> None:
    """How many totals differ from their sums, and what the published rule would give away."""
    residuals = []
    totals = {r.total for r in rules}
    for rule in rules:
        open_parts = [p for p in rule.components if p not in columns and p not in totals]
        if open_parts:
            alone = unique_rows([data.numbers(p) for p in open_parts])
            notes.figure("unique_on_unmasked_parts", alone, rule.total)
            notes.warn(
                f"{rule.total} is rebuilt with {', '.join(open_parts)} as they are, so that anyone can "
                f"compute them from the release, even if they are dropped: {alone:,} of {len(data):,} "
                "records are unique on them"
            )
        if rule.holds:
            continue
        values = {c: data.numbers(c) for c in (rule.total, *rule.components)}
        residual = np.nan_to_num(rule.residual(values))
        residuals.append(residual)
        off = int((residual != 0).sum())
        notes.figure("records_off_their_sum", off, rule.total)
        if way == "mask":
            how = (
                "its difference is masked where it isn't 0; which records those are can be seen"
                if zeros_kept
                else "the difference is masked in every record as one more component, so that the masked "
                "parts don't add up to it in any record"
            )
            notes.warn(
                f"{rule.total} isn't the sum of {', '.join(rule.components)} in {off:,} of {len(data):,} "
                f"records; {how}"
            )
    if way == "keep" and residuals:
        alone = unique_rows(residuals)
        notes.figure("unique_residuals", alone)
        more = ""
        if zeros_flagged:
            zero = [data.numbers(c) == 0 for c in columns]
            with_flags = unique_rows([*residuals, *zero])
            notes.figure("unique_residuals_with_zero_flags", with_flags)
            more = f" ({with_flags:,} with the zero flags)"
        which = ", ".join(r.total for r in rules if not r.holds)
        notes.warn(
            f'residual = "keep" releases the difference between {which} and the sum of the parts exactly: '
            f"{alone:,} of {len(data):,} records are unique on it{more}"
        )


def note_flat_strata(vector: Sequence[str], covariance: FloatArray, notes: Notes) -> None:
    """Strata in which a column doesn't vary get no noise on it: its values there are released as they are."""
    spread = np.array([np.diag(c) for c in covariance])
    for j, column in enumerate(vector):
        flat = int((spread[:, j] <= 0).sum())
        if 0 < flat < len(spread):
            notes.figure("strata_without_variation", flat, column)
            notes.warn(
                f"{column} doesn't vary in {flat:,} of {len(spread):,} strata (or has one value there): it "
                "gets no noise in them; use coarser strata to mask it"
            )


def note_flags(columns: Sequence[str], data: Microdata, notes: Notes) -> None:
    """What the zero flags give away: an exact key that survives the noise."""
    zero = [data.numbers(c) == 0 for c in columns]
    patterns = pl.DataFrame({str(j): z for j, z in enumerate(zero)}).n_unique()
    alone = unique_rows(zero)
    notes.figure("zero_patterns", patterns)
    notes.figure("unique_zero_patterns", alone)
    keys = [c for c in data.schema.keys if c not in columns]
    more = ""
    if keys:
        codes = data.codes(keys)[0]
        before, after = unique_rows([codes]), unique_rows([codes, *zero])
        notes.figure("unique_on_keys", before)
        notes.figure("unique_on_keys_with_zero_flags", after)
        more = f"; unique on the keys: {before:,} records without the flags, {after:,} with them"
    notes.warn(
        f"the zero flags are an exact key: {patterns:,} patterns, {alone:,} records alone with theirs{more}"
    )


def note_result(
    data: Microdata,
    masked: Microdata,
    columns: Sequence[str],
    bounds: tuple[dict[str, float], dict[str, float]],
    notes: Notes,
) -> None:
    """The variance ratio and mean change that came out, and what the bounds cost."""
    low, high = bounds
    for column in columns:
        one, two = data.column(column), masked.column(column)
        if one.dtype.is_temporal():
            one, two = one.to_physical(), two.to_physical()
        eligible = data.eligible(column)
        if not eligible.all():
            pick = pl.Series(eligible)
            one, two = one.filter(pick), two.filter(pick)
            notes.figure("values_left_alone", int((~eligible).sum()), column)
        variance, mean = one.var(), one.mean()
        if len(one) < 2 or not isinstance(variance, (int, float)) or not variance > 0:
            continue
        assert isinstance(mean, (int, float))
        after, middle = two.var(), two.mean()
        assert isinstance(after, (int, float))
        assert isinstance(middle, (int, float))
        notes.figure("variance_change", after / variance - 1.0, column)
        notes.figure("mean_change_in_deviations", (middle - mean) / variance**0.5, column)
        cut = _cut_off(one, two)
        if cut and column not in low and column not in high:
            notes.figure("values_cut_off", cut, column)
            notes.warn(
                f"{cut:,} values of {column} were put on an end of what {one.dtype} holds, which changes its "
                f"moments (variance {100 * (after / variance - 1.0):+.3g}%); cast it to a wider type"
            )
        if column in low or column in high:
            at = np.zeros(len(two), dtype=np.bool_)
            values = two.cast(pl.Float64).to_numpy()
            original = one.cast(pl.Float64).to_numpy()
            for ends in (low, high):
                if column in ends:
                    at |= (values == ends[column]) & (original != ends[column])
            notes.figure("values_put_on_a_bound", int(at.sum()), column)
            notes.warn(
                f"{column} is kept within its bounds: {int(at.sum()):,} values were put on a bound, and its "
                f"mean moved by {(middle - mean) / variance**0.5:+.3g} standard deviations"
            )


def _cut_off(before: pl.Series, after: pl.Series) -> int:
    """How many values moved to an end of what the column's type holds."""
    ends = [e for e in type_range(after.dtype) if np.isfinite(e)]
    if not ends:
        return 0
    return int((after.cast(pl.Float64).is_in(ends) & (after != before)).sum())


def leaves_range(
    data: Microdata, column: str, ratio: float, *, rescaled: bool, bounded: tuple[bool, bool]
) -> str | None:
    """A sentence where this noise is expected to take values below 0 that never are, or out of their range.

    Normal noise of variance d·Var(x) takes x beyond an end b with probability Φ((b − x) / √(d·Var)), or
    its opposite; rescaled, x and the noise shrink towards the mean by 1/√(1 + d).
    """
    from scipy.special import ndtr

    values = data.numbers(column)[data.eligible(column)]
    values = values[np.isfinite(values)]
    if len(values) < 2 or not values.std() > 0:
        return None
    low, high, scale = float(values.min()), float(values.max()), float(np.sqrt(ratio) * values.std())
    few = values[:: max(1, len(values) // 10_000)]
    if rescaled:
        few = values.mean() + (few - values.mean()) / np.sqrt(1 + ratio)
        scale /= np.sqrt(1 + ratio)
    negative = float(ndtr(-few / scale).mean()) if low >= 0 and not bounded[0] else 0.0
    beyond = 0.0 if bounded[0] else float(ndtr((low - few) / scale).mean())
    beyond += 0.0 if bounded[1] else float(ndtr((few - high) / scale).mean())
    if negative * len(values) >= 0.5:
        share = f"{100 * negative:.2g}%"
        return f"{column} has no negative value, and this noise would make about {share} of them negative"
    if beyond >= 0.01:
        return f"this noise would take about {100 * beyond:.2g}% of {column} out of the range that it has"
    return None
