"""What a cluster shuffle promises, recomputed from the two files and the cluster log alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from sfumato.contract.guarantees import Guarantee
from sfumato.data.edit_check import broken, edits_of
from sfumato.data.edits import Edit
from sfumato.data.following import following
from sfumato.data.microdata import IntArray, Microdata
from sfumato.data.rules import broken_sums
from sfumato.errors import counted
from sfumato.masks.cluster_shuffle.deal import largest
from sfumato.masks.cluster_shuffle.keeping import Kept, kept
from sfumato.masks.cluster_shuffle.settings import Settings
from sfumato.parallel import in_threads
from sfumato.stats.clusters import digests
from sfumato.stats.levels import Levels, levels_of
from sfumato.stats.partition import coded_columns

_ROUNDING = 1e-4  # features are rounded to single precision while they are dealt


def promises(mask: Settings, data: Microdata, log: pl.DataFrame) -> list[Guarantee]:
    """The promises that the cluster log allows to check."""
    log = log.sort("record")
    told = following(data.schema, mask.columns)
    files = _Files(mask)
    out: list[Guarantee] = [
        ClustersOf(mask.smallest, mask.within, mask.unit, log),
        SameInClusters(told.dealt, mask.blur, log, files),
    ]
    if "kept" in log.columns and log["kept"][0] != "none":
        out.append(MomentsNear(log, files, data.schema.weight))
    out += [RuleAsOften(total, parts) for total, parts in told.totals]
    out += edit_promises(mask, data)
    return out


def edit_promises(mask: Settings, data: Microdata) -> list[Guarantee]:
    """A promise for every declared edit between columns that are all dealt."""
    changed = set(following(data.schema, mask.columns).changed)
    return [EditAsOften(e, changed, mask.blur) for e in edits_of(data.schema) if e.columns <= changed]


_NO_LOG = "the log doesn't have each record once"


def _clusters(log: pl.DataFrame, before: Microdata, after: Microdata) -> IntArray | None:
    """Each record's cluster by the log; None where the log isn't about these files."""
    if not (log.height == len(before) == len(after)):
        return None
    if not np.array_equal(log["record"].to_numpy(), np.arange(log.height)):
        return None
    return log["cluster"].to_numpy().astype(np.int64)


class _Files:
    """The two files in codes, for the promises that look at them: coded once."""

    def __init__(self, mask: Settings) -> None:
        self._mask = mask
        self._seen: tuple[Microdata, Microdata] | None = None
        self._coded: list[tuple[Levels, Levels]] = []

    def coded(self, before: Microdata, after: Microdata) -> list[tuple[Levels, Levels]]:
        """Each dealt column before (blurred) and after."""
        if self._seen is None or self._seen[0] is not before or self._seen[1] is not after:
            told = following(before.schema, self._mask.columns)

            first = coded_columns(before, told, self._mask.blur)
            second = in_threads(lambda c: levels_of(after, c, told.riders.get(c, ())), told.dealt)
            self._coded = list(zip(first, second, strict=True))
            self._seen = (before, after)
        return self._coded


@dataclass(frozen=True)
class ClustersOf(Guarantee):
    """Every cluster has at least k records of one stratum, and no unit has more than 1/k of them."""

    k: int
    within: tuple[str, ...]
    unit: str | None
    log: pl.DataFrame

    def describe(self) -> str:
        where = f", within {', '.join(self.within)}" if self.within else ""
        whose = f", no more than one in {self.k} of them of one {self.unit}" if self.unit else ""
        return f"every record is in a cluster of at least {self.k} records{where}{whose}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        label = _clusters(self.log, before, after)
        if label is None:
            return _NO_LOG
        sizes = np.bincount(label)
        small = int(((sizes > 0) & (sizes < self.k)).sum())
        if small:
            return f"{counted(small, 'cluster')} of fewer than {self.k} records"
        if self.within:
            stratum, many = before.codes(self.within)
            if len(np.unique(label * many + stratum)) > int((sizes > 0).sum()):
                return "a cluster has records of more than one stratum"
        if self.unit is not None:
            unit, many = before.households(self.unit)
            pairs, held = np.unique(label * many + unit, return_counts=True)
            over = int((held * self.k > sizes[pairs // many]).sum())
            if over:
                return f"{counted(over, 'unit')} with more than 1/{self.k} of a cluster's records"
        return None


@dataclass(frozen=True)
class SameInClusters(Guarantee):
    """Each cluster has the same values of each column, each as often as before (once blurred)."""

    columns: tuple[str, ...]
    blur: int
    log: pl.DataFrame
    files: _Files

    def describe(self) -> str:
        how = f", numbers of fewer than {self.blur} records averaged" if self.blur else ""
        return f"every cluster keeps its values of each of {counted(len(self.columns), 'column')}{how}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        from sfumato.kernels.clusters import sum_digests

        label = _clusters(self.log, before, after)
        if label is None:
            return _NO_LOG
        for one, two in self.files.coded(before, after):
            if len(one) != len(two) or any(
                not one.values[name].equals(two.values[name], null_equal=True, check_dtypes=True)
                for name in one.values
            ):
                return f"{one.name} has other values than before"
            many = int(label.max()) + 1
            sums = [sum_digests(digests([x.codes], len(label)), label, many) for x in (one, two)]
            off = int((sums[0] != sums[1]).sum())
            if off:
                return f"{one.name} has other values in {counted(off, 'cluster')}"
        return None


@dataclass(frozen=True)
class MomentsNear(Guarantee):
    """The cross moments that are kept are as near to the original's as the log says, in every region."""

    log: pl.DataFrame
    files: _Files
    weight: str | None = None

    @cached_property
    def stated(self) -> float:
        return float(self.log["moment_error"].max())  # type: ignore[arg-type]

    def describe(self) -> str:
        return f"every cross moment that is kept is within {self.stated + _ROUNDING:.2g} of the original's"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        if _clusters(self.log, before, after) is None:
            return _NO_LOG
        coded = self.files.coded(before, after)
        if any(len(one) != len(two) for one, two in coded):
            return "a column has other values than before"
        region = self.log["region"].to_numpy().astype(np.int64)
        what = kept([one for one, _ in coded], self.log["kept"][0], self.weight, more=self.log["more"][0])
        order = np.argsort(region, kind="stable")
        for rows in np.split(order, np.cumsum(np.bincount(region))[:-1]):
            allowed = float(self.log["moment_error"][int(rows[0])]) + _ROUNDING
            off = _largest_gap(coded, what, rows)
            if not off <= allowed:
                return f"a cross moment is off by {off:.3g}, more than {allowed:.3g}"
        return None


def _largest_gap(coded: Sequence[tuple[Levels, Levels]], what: Kept, rows: IntArray) -> float:
    """The largest change of a kept mean product of two columns' features among these records."""
    before, after = (np.column_stack([pair[side].codes[rows] for pair in coded]) for side in (0, 1))
    aims = [None if one.aim is None else one.aim[rows] for one, _ in coded]
    now, then = what.features(after), what.features(before, aims)
    return largest(*what.gaps(now, what.row_weights(after), then, what.row_weights(before)))


@dataclass(frozen=True)
class EditAsOften(Guarantee):
    """A declared edit is broken in no more records than before (once numbers of few are averaged)."""

    edit: Edit
    dealt: set[str]
    blur: int

    def describe(self) -> str:
        return f"{self.edit} is broken in no more records than before"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        was, now = (int(broken(self.edit, d).sum()) for d in (before, after))
        if now <= was:
            return None
        told = following(before.schema, [c for c in self.edit.columns if c in before.columns])
        new = {
            c.name: c.values[c.name].gather(pl.Series(c.codes.astype("uint32")))
            for c in coded_columns(before, told, self.blur)
        }
        averaged = int(broken(self.edit, before.with_columns(new)).sum())
        return f"it is broken in {counted(now, 'record')}, before in {was:,}" if now > averaged else None


@dataclass(frozen=True)
class RuleAsOften(Guarantee):
    """A total is the sum of its parts in as many records as before: in all, where it was so in all."""

    total: str
    parts: tuple[str, ...]

    def describe(self) -> str:
        return f"{self.total} = {' + '.join(self.parts)} in as many records as before"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        was, now = (int(broken_sums(d, self.total, self.parts).sum()) for d in (before, after))
        return f"it is broken in {counted(now, 'record')}, before in {was:,}" if now > was else None
