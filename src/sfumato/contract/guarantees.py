"""What a mask promises to keep, checked on the real output of every run.

A guarantee compares the file before the step with the file after it and says by how much it fails.
It is evidence, not trust: it recomputes from the data and knows nothing of how the mask works. Most are
:class:`ByBlocks`: judged from blocks of records, wherever these are.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from sfumato.data.differences import changed, changed_rows, same_memory
from sfumato.data.digest import Words, multiset_sums
from sfumato.data.microdata import Microdata
from sfumato.data.rules import Rule, broken_sums, judgeable, undefined, values_of
from sfumato.errors import ParameterError, counted
from sfumato.stats.pair_moments import PairMoments, combined


@dataclass(frozen=True)
class Check:
    """The outcome of one guarantee."""

    guarantee: str
    ok: bool
    detail: str = ""


class Guarantee(ABC):
    """Something that must hold between the file before and the file after a mask."""

    @abstractmethod
    def describe(self) -> str:
        """What is promised, in one sentence a steward can read. No original value may appear."""

    @abstractmethod
    def failure(self, before: Microdata, after: Microdata) -> str | None:
        """None where it holds; else which part fails and by how much."""

    def check(self, before: Microdata, after: Microdata) -> Check:
        problem = self.failure(before, after)
        return Check(self.describe(), problem is None, problem or "")


class ByBlocks(Guarantee):
    """A guarantee that is judged from what each block of records says: of any file, on any machine."""

    @abstractmethod
    def looks_at(self) -> Sequence[str]:
        """The columns that it needs."""

    @abstractmethod
    def partial(self, before: Microdata, after: Microdata) -> Any:
        """What one block of records says."""

    @abstractmethod
    def judged(self, parts: Sequence[Any]) -> str | None:
        """:meth:`failure`, from all blocks in their order."""

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        parts = before.compare(after, lambda one, two, _: self.partial(one, two), self.looks_at())
        return self.judged(parts)


@dataclass(frozen=True)
class SameRecords(Guarantee):
    """The number of records and the columns stay (apart from columns that are added on purpose)."""

    added: tuple[str, ...] = ()

    def describe(self) -> str:
        return "no record and no column is lost"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        if len(before) != len(after):
            return f"{len(before):,} records became {len(after):,}"
        was, now = set(before.columns), set(after.columns)  # a file may have thousands
        lost = [c for c in before.columns if c not in now]
        extra = [c for c in after.columns if c not in was and c not in self.added]
        if lost:
            return f"lost columns: {', '.join(lost)}"
        return f"unexpected columns: {', '.join(extra)}" if extra else None


@dataclass(frozen=True)
class Untouched(Guarantee):
    """Every column but these is the same, value for value."""

    but: tuple[str, ...]

    def describe(self) -> str:
        return f"every column but {_names(self.but)} is untouched" if self.but else "no column is touched"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        if len(before) != len(after):
            return f"{len(before):,} records became {len(after):,}"
        # Columns that are one and the same object need no look; that makes the check nearly free.
        there = set(after.columns) - set(self.but)
        for column in before.columns:
            if column not in there:
                continue
            if before.shares(after, column):
                continue
            n = changed(before.column(column), after.column(column))
            if n:
                return f"{column} changed in {counted(n, 'record')}"
        return None


def _new_key() -> bytes:
    return secrets.token_bytes(16)


@dataclass(frozen=True)
class SameMultiset(ByBlocks):
    """Each column holds the same values, each as often as before (within strata, if given).

    Judged by sums of keyed hashes, which two different multisets share with a chance of 2⁻¹²⁸: no sort,
    and no value has to meet another.
    """

    columns: tuple[str, ...]
    within: tuple[str, ...] = ()
    key: bytes = field(default_factory=_new_key, repr=False, compare=False)

    def describe(self) -> str:
        where = f" within {_names(self.within)}" if self.within else ""
        return f"the values of {_names(self.columns)} are the same set, each as often as before{where}"

    def looks_at(self) -> Sequence[str]:
        return (*self.columns, *self.within)

    def partial(self, before: Microdata, after: Microdata) -> dict[str, tuple[Words, Words, str]]:
        out = {}
        strata = before.select(self.within).get_columns()
        for column in self.columns:
            one, two = before.column(column), after.column(column)
            if one is two or same_memory(one, two):
                continue
            same = one.dtype == two.dtype
            word = "" if same else f"{column} was {one.dtype} and became {two.dtype}"
            both = [multiset_sums(pl.DataFrame([*strata, s]), self.key) for s in (one, two)]
            out[column] = (both[0], both[1], word)
        return out

    def judged(self, parts: Sequence[dict[str, tuple[Words, Words, str]]]) -> str | None:
        for column in self.columns:
            seen = [p[column] for p in parts if column in p]
            for _, _, word in seen:
                if word:
                    return word
            # Sums modulo 2^64; a block whose column is shared adds the same to both.
            if seen and (np.add.reduce([a - b for a, b, _ in seen]) != 0).any():
                return f"the values of {column} aren't the same set as before"
        return None


@dataclass(frozen=True)
class SameTable(ByBlocks):
    """The counts of every combination of these columns stay."""

    keys: tuple[str, ...]

    def describe(self) -> str:
        return f"the table of {' × '.join(self.keys)} keeps every count"

    def looks_at(self) -> Sequence[str]:
        return self.keys

    def partial(self, before: Microdata, after: Microdata) -> pl.DataFrame:
        """By how much each count changes; a count only changes through records that changed."""
        keys = list(self.keys)
        first, second = before.select(keys), after.select(keys)
        if first.schema == second.schema:
            off_rows = changed_rows(first, second)
            first, second = first.filter(off_rows), second.filter(off_rows)
        else:
            first, second = (f.cast(pl.String) for f in (first, second))
        signs = [first.with_columns(change=pl.lit(-1)), second.with_columns(change=pl.lit(1))]
        return self._added(signs)

    def judged(self, parts: Sequence[pl.DataFrame]) -> str | None:
        off = self._added(parts).height if parts else 0
        return f"{off:,} cells of {' × '.join(self.keys)} have another count" if off else None

    def _added(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        total = pl.col("change").sum()
        return pl.concat(frames).group_by(list(self.keys)).agg(total).filter(pl.col("change") != 0)


@dataclass(frozen=True)
class SumRule(ByBlocks):
    """A total equals the sum of its components in every record where it did before."""

    total: str
    components: tuple[str, ...]
    tolerance: float = 1e-6

    def describe(self) -> str:
        return f"{self.total} = {' + '.join(self.components)} in every record where it held before"

    def looks_at(self) -> Sequence[str]:
        return (self.total, *self.components)

    def partial(self, before: Microdata, after: Microdata) -> int:
        held = ~broken_sums(before, self.total, self.components, self.tolerance)
        return int((held & broken_sums(after, self.total, self.components, self.tolerance)).sum())

    def judged(self, parts: Sequence[int]) -> str | None:
        n = sum(parts)
        return f"the sum {self.total} is broken in {counted(n, 'record')}" if n else None


@dataclass(frozen=True)
class RuleKept(ByBlocks):
    """A rule of the schema holds in every record where it did before, or hides two of its members.

    ``moved``: missing values change places like others, so that one of them hides nothing.
    """

    rule: Rule
    moved: bool = False

    def describe(self) -> str:
        return f"{self.rule} in every record where it held before"

    def looks_at(self) -> Sequence[str]:
        return self.rule.members

    def partial(self, before: Microdata, after: Microdata) -> int:
        if not judgeable(after, self.rule):
            return 0  # a member became text; what that leaves to compute is looked at before a release
        members = self.rule.members
        now = values_of(after, members)
        there = np.sum([np.isfinite(now[m]) for m in members], axis=0)
        open_ = (there == len(members)) & ~self.rule.holds(now)
        if not self.moved:
            open_ |= there == len(members) - 1
        open_ &= ~(undefined(self.rule, now) & ~np.isfinite(now[self.rule.result]))
        return int((self.rule.holds(values_of(before, members)) & open_).sum()) if open_.any() else 0

    def judged(self, parts: Sequence[int]) -> str | None:
        n = sum(parts)
        return f"the rule {self.rule} is broken in {counted(n, 'record')}" if n else None


@dataclass(frozen=True)
class NothingLost(ByBlocks):
    """No value of these columns becomes missing, undefined or infinite.

    ``moved``: missing values may change places, but a column that had none gets none.
    """

    columns: tuple[str, ...]
    moved: bool = False

    def describe(self) -> str:
        return f"no value of {_names(self.columns)} is lost" if self.columns else "no value is lost"

    def looks_at(self) -> Sequence[str]:
        return self.columns

    def partial(self, before: Microdata, after: Microdata) -> dict[str, tuple[int, bool, str]]:
        """Of each column: how many values are lost, whether it had all, and its type."""
        out = {}
        for column in self.columns:
            if column not in before.columns or column not in after.columns:
                continue
            one, two = before.column(column), after.column(column)
            if same_memory(one, two):
                out[column] = (0, not self.moved or bool(_there(one).all()), str(one.dtype))
                continue
            had, has = _there(one), _there(two)
            out[column] = (int((had & ~has).sum()), bool(had.all()), str(one.dtype))
        return out

    def judged(self, parts: Sequence[dict[str, tuple[int, bool, str]]]) -> str | None:
        for column in self.columns:
            seen = [p[column] for p in parts if column in p]
            n = sum(lost for lost, _, _ in seen)
            if n and (not self.moved or all(had for _, had, _ in seen)):
                return (
                    f"{counted(n, 'value')} of {column} ({seen[0][2]}) "
                    f"{'is' if n == 1 else 'are'} missing or infinite afterwards"
                )
        return None


def _there(series: pl.Series) -> pl.Series:
    """Which values are neither null nor undefined nor infinite."""
    fine = series.is_not_null()
    return fine & series.is_finite().fill_null(False) if series.dtype.is_float() else fine


@dataclass(frozen=True)
class SameMoments(ByBlocks):
    """Means (order 1) or means and covariances (order 2) stay, to a relative tolerance.

    The error of a mean is measured against the column's standard deviation, that of a covariance
    against the product of the two. A mean is over all values of its column, a covariance over the
    records that have both; a value that is lost or infinite afterwards breaks the promise. With
    ``within`` it holds in every stratum.
    """

    columns: tuple[str, ...]
    order: int = 2
    tolerance: float = 1e-9
    within: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        refuse_loose(self.tolerance)

    def describe(self) -> str:
        what = "means" if self.order == 1 else "means and covariances"
        where = f" within {_names(self.within)}" if self.within else ""
        return f"{what} of {_names(self.columns)} are kept{where}, {exactness(self.tolerance)}"

    def looks_at(self) -> Sequence[str]:
        return (*self.columns, *self.within)

    def partial(self, before: Microdata, after: Microdata) -> MomentParts:
        x, z = before.matrix(self.columns), after.matrix(self.columns)
        there = np.isfinite(x)
        both = {
            stratum: (PairMoments.of(x[rows], there[rows]), PairMoments.of(z[rows], there[rows]))
            for stratum, rows in strata_of(before, self.within)
        }
        return MomentParts(int((there & ~np.isfinite(z)).sum()), both)

    def judged(self, parts: Sequence[MomentParts]) -> str | None:
        return judged_moments(parts, self.order, self.tolerance)


@dataclass(frozen=True)
class MomentParts:
    """What a block says of moments: values that are lost, and by stratum the moments before and after."""

    lost: int
    both: dict[Any, tuple[PairMoments, PairMoments]]


def judged_moments(
    parts: Sequence[MomentParts], order: int, tolerance: float, factor: float = 1.0
) -> str | None:
    """What to say of moments that should have stayed, or be ``factor`` times as large, in each stratum."""
    if problem := lost_values(sum(p.lost for p in parts)):
        return problem
    strata: dict[Any, list[tuple[PairMoments, PairMoments]]] = defaultdict(list)
    for part in parts:
        for stratum, both in part.both.items():
            strata[stratum].append(both)
    errors = [
        combined(one for one, _ in both).error(combined(two for _, two in both), order, factor)
        for both in strata.values()
    ]
    return over(errors, tolerance)


def lost_values(n: int) -> str | None:
    """What to say where so many values were there before and aren't numbers afterwards."""
    return f"{n:,} values are missing or infinite afterwards" if n else None


def over(errors: Sequence[float], tolerance: float) -> str | None:
    """What to say where a relative error is over its tolerance; an undefined one is."""
    worst = float(np.max(errors, initial=0.0))
    if not worst <= tolerance:
        return f"off by {worst:.3g} (relative), more than {tolerance:.3g}"
    return None


def strata_of(data: Microdata, within: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """The strata among some records, each by its values, and its rows."""
    if not within:
        yield (), slice(None)
        return
    keys = data.select(list(within))
    for rows in rows_by_group(data.codes(within)[0]):
        first = 0 if isinstance(rows, slice) else int(rows[0])
        yield tuple("NaN" if v != v else v for v in keys.row(first)), rows


MOST_PROMISED: Final = 0.05
"""The loosest tolerance of a promise of moments, in standard deviations: one beyond it says nothing."""


def exactness(tolerance: float) -> str:
    """A tolerance in words, relative to what it is a tolerance of.

    >>> exactness(0.0021)
    'to 0.0021 of a standard deviation'
    """
    return f"to {tolerance:.3g} of a standard deviation"


def refuse_loose(tolerance: float) -> None:
    """No promise of moments is looser than ``MOST_PROMISED``; a mask that can't keep it promises nothing."""
    if not tolerance <= MOST_PROMISED:
        raise ParameterError(
            f"moments kept {exactness(tolerance)} are no promise: at most {MOST_PROMISED:g} can be promised"
        )


def rows_by_group(
    group: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> list[np.ndarray[tuple[int], np.dtype[np.int64]] | slice]:
    """The records of each group 0, 1, …; all of them at once where there is one group."""
    sizes = np.bincount(group)
    if len(sizes) <= 1:
        return [slice(None)]
    return list(np.split(np.argsort(group, kind="stable"), np.cumsum(sizes)[:-1]))


def _names(columns: Sequence[str]) -> str:
    columns = list(columns)
    if len(columns) <= 6:
        return ", ".join(columns)
    return f"{', '.join(columns[:5])} and {len(columns) - 5} more"
