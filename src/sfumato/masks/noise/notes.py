"""What the noise masks promise beyond the usual guarantees, and what they report of their cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.contract.guarantees import (
    ByBlocks,
    MomentParts,
    exactness,
    judged_moments,
    refuse_loose,
    rows_by_group,
)
from sfumato.contract.mask import Notes
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.masks.noise.fit import type_range
from sfumato.masks.noise.sums import Rule, unique_rows
from sfumato.stats.pair_moments import PairMoments, combined


@dataclass(frozen=True)
class InflatedMoments(ByBlocks):
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

    def looks_at(self) -> Sequence[str]:
        return (*self.columns, *self.within)

    def partial(self, before: Microdata, after: Microdata) -> MomentParts:
        whole = np.logical_and.reduce([before.eligible(c) for c in self.columns])
        x, z, group = before.matrix(self.columns), after.matrix(self.columns), self._groups(before)
        if not whole.all():
            x, z, group = x[whole], z[whole], group[whole]
        there = np.isfinite(x)
        both = {
            int(group[rows][0]): (PairMoments.of(x[rows], there[rows]), PairMoments.of(z[rows], there[rows]))
            for rows in rows_by_group(group)
            if len(group[rows])
        }
        return MomentParts(int((there & ~np.isfinite(z)).sum()), both)

    def judged(self, parts: Sequence[MomentParts]) -> str | None:
        return judged_moments(parts, 2, self.tolerance, self.factor)

    def _groups(self, data: Microdata) -> IntArray:
        if self.strata is None:
            return np.zeros(len(data), dtype=np.int64)
        keys = self.strata.columns[:-1]
        joined = data.select(keys).join(
            self.strata, on=keys, how="left", nulls_equal=True, maintain_order="left"
        )
        return joined["__group"].to_numpy().astype(np.int64)


@dataclass(frozen=True)
class WithinBounds(ByBlocks):
    """Every masked value of a column lies within its bounds."""

    column: str
    low: float | None = None
    high: float | None = None

    def describe(self) -> str:
        ends = [f"at least {self.low:g}"] if self.low is not None else []
        ends += [f"at most {self.high:g}"] if self.high is not None else []
        return f"{self.column} stays {' and '.join(ends)}"

    def looks_at(self) -> Sequence[str]:
        return (self.column,)

    def partial(self, before: Microdata, after: Microdata) -> int:
        values = after.numbers(self.column)[before.eligible(self.column)]
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        return int((~((values >= low) & (values <= high))).sum())  # a value that is lost isn't within them

    def judged(self, parts: Sequence[int]) -> str | None:
        n = sum(parts)
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

    def partial(before: Microdata, after: Microdata, _start: int) -> dict[str, _Outcome]:
        return {c: _Outcome.of(before, after, c, low.get(c), high.get(c)) for c in columns}

    parts = data.compare(masked, partial, columns)
    for column in columns:
        seen = _Outcome.joined([p[column] for p in parts])
        if seen.left_alone:
            notes.figure("values_left_alone", seen.left_alone, column)
        n = float(seen.before.n[0, 0])
        variance = float(seen.before.squares[0, 0]) / (n - 1) if n > 1 else 0.0
        if not variance > 0:
            continue
        after = float(seen.after.squares[0, 0]) / (n - 1)
        moved = float(seen.after.mean[0, 0] - seen.before.mean[0, 0]) / variance**0.5
        notes.figure("variance_change", after / variance - 1.0, column)
        notes.figure("mean_change_in_deviations", moved, column)
        if seen.cut_off and column not in low and column not in high:
            notes.figure("values_cut_off", seen.cut_off, column)
            notes.warn(
                f"{seen.cut_off:,} values of {column} were put on an end of what {data.dtype(column)} holds, "
                f"which changes its moments (variance {100 * (after / variance - 1.0):+.3g}%); cast it to a "
                "wider type"
            )
        if column in low or column in high:
            notes.figure("values_put_on_a_bound", seen.on_bound, column)
            notes.warn(
                f"{column} is kept within its bounds: {seen.on_bound:,} values were put on a bound, and its "
                f"mean moved by {moved:+.3g} standard deviations"
            )


@dataclass(frozen=True)
class _Outcome:
    """What became of a column in some records."""

    left_alone: int
    cut_off: int
    on_bound: int
    before: PairMoments
    after: PairMoments

    @classmethod
    def of(
        cls, before: Microdata, after: Microdata, column: str, low: float | None, high: float | None
    ) -> _Outcome:
        one, two, eligible = before.column(column), after.column(column), before.eligible(column)
        if one.dtype.is_temporal():
            one, two = one.to_physical(), two.to_physical()
        if not eligible.all():
            pick = pl.Series(eligible)
            one, two = one.filter(pick), two.filter(pick)
        x, z = (s.cast(pl.Float64).to_numpy() for s in (one, two))
        at = np.zeros(len(z), dtype=np.bool_)
        for end in (low, high):
            if end is not None:
                at |= (z == end) & (x != end)
        moments = [PairMoments.of(v[:, None], np.isfinite(v)[:, None]) for v in (x, z)]
        return cls(int((~eligible).sum()), _cut_off(one, two), int(at.sum()), *moments)

    @staticmethod
    def joined(parts: Sequence[_Outcome]) -> _Outcome:
        return _Outcome(
            sum(p.left_alone for p in parts),
            sum(p.cut_off for p in parts),
            sum(p.on_bound for p in parts),
            combined(p.before for p in parts),
            combined(p.after for p in parts),
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

    every = max(1, len(data) // 10_000)

    def partial(block: Microdata, start: int) -> tuple[PairMoments, FloatArray, FloatArray]:
        values = block.numbers(column)
        fine = block.eligible(column) & np.isfinite(values)
        some = fine.copy()
        some[(np.arange(start, start + len(block)) % every) != 0] = False
        ends = values[fine]
        ends = np.array([ends.min(), ends.max()]) if len(ends) else ends
        return (
            PairMoments.of(values[fine][:, None], np.ones((int(fine.sum()), 1), np.bool_)),
            ends,
            values[some],
        )

    parts = data.aggregate(partial, [column])
    if not parts:
        return None
    whole = combined(p[0] for p in parts)
    n, mean, squares = (float(a[0, 0]) for a in (whole.n, whole.mean, whole.squares))
    if n < 2 or not squares > 0:
        return None
    ends, few = (np.concatenate([p[k] for p in parts]) for k in (1, 2))
    low, high, scale = float(ends.min()), float(ends.max()), float(np.sqrt(ratio * squares / n))
    if not len(few):
        return None
    if rescaled:
        few = mean + (few - mean) / np.sqrt(1 + ratio)
        scale /= np.sqrt(1 + ratio)
    negative = float(ndtr(-few / scale).mean()) if low >= 0 and not bounded[0] else 0.0
    beyond = 0.0 if bounded[0] else float(ndtr((low - few) / scale).mean())
    beyond += 0.0 if bounded[1] else float(ndtr((few - high) / scale).mean())
    if negative * n >= 0.5:
        share = f"{100 * negative:.2g}%"
        return f"{column} has no negative value, and this noise would make about {share} of them negative"
    if beyond >= 0.01:
        return f"this noise would take about {100 * beyond:.2g}% of {column} out of the range that it has"
    return None
