"""What a mask promises to keep, checked on the real output of every run.

A guarantee compares the file before the step with the file after it and says by how much it fails.
It is evidence, not trust: it recomputes from the data and knows nothing of how the mask works.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from sfumato.data.differences import changed, changed_rows, same_memory
from sfumato.data.microdata import Microdata
from sfumato.data.rules import Rule, broken_sums, judgeable, undefined, values_of
from sfumato.errors import ParameterError, counted


# Types whose buffers Arrow can't show, or whose buffers don't tell their values.
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
            one, two = before.column(column), after.column(column)
            if one is two or same_memory(one, two):
                continue
            n = changed(one, two)
            if n:
                return f"{column} changed in {counted(n, 'record')}"
        return None


@dataclass(frozen=True)
class SameMultiset(Guarantee):
    """Each column holds the same values, each as often as before (within strata, if given)."""

    columns: tuple[str, ...]
    within: tuple[str, ...] = ()

    def describe(self) -> str:
        where = f" within {_names(self.within)}" if self.within else ""
        return f"the values of {_names(self.columns)} are the same set, each as often as before{where}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        strata = before.codes(self.within)[0] if self.within else None
        for column in self.columns:
            one, two = before.column(column), after.column(column)
            if one is two or same_memory(one, two):
                continue
            if one.dtype != two.dtype:
                return f"{column} was {one.dtype} and became {two.dtype}"
            first, second = pl.DataFrame({"value": one}), pl.DataFrame({"value": two})
            if strata is not None:
                first, second = (f.with_columns(stratum=pl.Series(strata)) for f in (first, second))
            by = first.columns
            if not first.sort(by).equals(second.sort(by), null_equal=True):
                return f"the values of {column} aren't the same set as before"
        return None


@dataclass(frozen=True)
class SameTable(Guarantee):
    """The counts of every combination of these columns stay."""

    keys: tuple[str, ...]

    def describe(self) -> str:
        return f"the table of {' × '.join(self.keys)} keeps every count"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        keys = list(self.keys)
        first, second = before.select(keys), after.select(keys)
        if first.height == second.height and first.schema == second.schema:
            # A count can only change through records that changed, so the others needn't be counted.
            off_rows = changed_rows(first, second)
            first, second = first.filter(off_rows), second.filter(off_rows)
        one = first.group_by(keys).len("before")
        two = second.group_by(keys).len("after")
        both = one.join(two, on=keys, how="full", nulls_equal=True).fill_null(0)
        off = int((both["before"].cast(pl.Int64) != both["after"].cast(pl.Int64)).sum())
        return f"{off:,} cells of {' × '.join(keys)} have another count" if off else None


@dataclass(frozen=True)
class SumRule(Guarantee):
    """A total equals the sum of its components in every record where it did before."""

    total: str
    components: tuple[str, ...]
    tolerance: float = 1e-6

    def describe(self) -> str:
        return f"{self.total} = {' + '.join(self.components)} in every record where it held before"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        held = ~broken_sums(before, self.total, self.components, self.tolerance)
        off = held & broken_sums(after, self.total, self.components, self.tolerance)
        n = int(off.sum())
        return f"the sum {self.total} is broken in {counted(n, 'record')}" if n else None


@dataclass(frozen=True)
class RuleKept(Guarantee):
    """A rule of the schema holds in every record where it did before, or hides two of its members.

    ``moved``: missing values change places like others, so that one of them hides nothing.
    """

    rule: Rule
    moved: bool = False

    def describe(self) -> str:
        return f"{self.rule} in every record where it held before"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        if not judgeable(after, self.rule):
            return None  # a member became text; what that leaves to compute is looked at before a release
        members = self.rule.members
        now = values_of(after, members)
        there = np.sum([np.isfinite(now[m]) for m in members], axis=0)
        open_ = (there == len(members)) & ~self.rule.holds(now)
        if not self.moved:
            open_ |= there == len(members) - 1
        open_ &= ~(undefined(self.rule, now) & ~np.isfinite(now[self.rule.result]))
        n = int((self.rule.holds(values_of(before, members)) & open_).sum()) if open_.any() else 0
        return f"the rule {self.rule} is broken in {counted(n, 'record')}" if n else None


@dataclass(frozen=True)
class NothingLost(Guarantee):
    """No value of these columns becomes missing, undefined or infinite.

    ``moved``: missing values may change places, but a column that had none gets none.
    """

    columns: tuple[str, ...]
    moved: bool = False

    def describe(self) -> str:
        return f"no value of {_names(self.columns)} is lost" if self.columns else "no value is lost"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        for column in self.columns:
            if column not in before.columns or column not in after.columns:
                continue
            one, two = before.column(column), after.column(column)
            if same_memory(one, two):
                continue
            had, has = _there(one), _there(two)
            n = int((had & ~has).sum()) if not self.moved or had.all() else 0
            if n:
                return (
                    f"{counted(n, 'value')} of {column} ({one.dtype}) "
                    f"{'is' if n == 1 else 'are'} missing or infinite afterwards"
                )
        return None


def _there(series: pl.Series) -> pl.Series:
    """Which values are neither null nor undefined nor infinite."""
    fine = series.is_not_null()
    return fine & series.is_finite().fill_null(False) if series.dtype.is_float() else fine


@dataclass(frozen=True)
class SameMoments(Guarantee):
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

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        x, z = before.matrix(self.columns), after.matrix(self.columns)
        strata = rows_by_group(before.codes(self.within)[0])
        return lost_values(x, z) or over(
            [_moment_error(x[rows], z[rows], self.order) for rows in strata], self.tolerance
        )


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


def lost_values(
    x: np.ndarray[tuple[int, int], np.dtype[np.float64]], z: np.ndarray[tuple[int, int], np.dtype[np.float64]]
) -> str | None:
    """What to say where a value was there before and isn't a number afterwards."""
    lost = int((np.isfinite(x) & ~np.isfinite(z)).sum())
    return f"{lost:,} values are missing or infinite afterwards" if lost else None


def over(errors: Sequence[float], tolerance: float) -> str | None:
    """What to say where a relative error is over its tolerance; an undefined one is."""
    worst = float(np.max(errors, initial=0.0))
    if not worst <= tolerance:
        return f"off by {worst:.3g} (relative), more than {tolerance:.3g}"
    return None


def _moment_error(
    x: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    z: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    order: int,
) -> float:
    there = np.isfinite(x)
    if there.all():
        return moment_error(x, z, order)
    errors = [0.0]
    for j in range(x.shape[1]):
        own = there[:, j]
        errors.append(moment_error(x[own][:, [j]], z[own][:, [j]], order))
        for k in range(j) if order == 2 else ():
            both = own & there[:, k]
            errors.append(moment_error(x[both][:, [j, k]], z[both][:, [j, k]], order))
    return float(np.max(errors))


def moment_error(
    x: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    z: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    order: int = 2,
    factor: float = 1.0,
) -> float:
    """The largest relative error of a mean, or of a covariance that should be ``factor`` times as large."""
    if len(x) < 2:
        return 0.0
    middle, middle_after = x.mean(axis=0), z.mean(axis=0)
    centred = x - middle
    products = centred.T @ centred if order == 2 else np.diag(np.square(centred).sum(axis=0))
    scale = np.sqrt(np.diag(products) / len(x))
    scale[scale == 0] = np.maximum(np.abs(middle), 1.0)[scale == 0]
    error = np.abs((middle - middle_after) / scale).max()
    if order == 2:
        centred = z - middle_after
        change = (factor * products - centred.T @ centred) / np.outer(scale, scale)
        # np.maximum and not max: an undefined error must not pass for none.
        error = np.maximum(error, np.abs(change).max() / len(x))
    return float(error)


def _names(columns: Sequence[str]) -> str:
    columns = list(columns)
    if len(columns) <= 6:
        return ", ".join(columns)
    return f"{', '.join(columns[:5])} and {len(columns) - 5} more"
