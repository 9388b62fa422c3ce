"""What a shuffle of households promises, recomputed from the two files and the cluster log alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.contract.guarantees import Guarantee
from sfumato.data.following import following
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.errors import counted
from sfumato.masks.cluster_shuffle.clauses import family_gaps
from sfumato.masks.cluster_shuffle.members import CHILD
from sfumato.masks.cluster_shuffle.promises import RuleAsOften, edit_promises
from sfumato.masks.cluster_shuffle.reading import Households, read
from sfumato.masks.cluster_shuffle.settings import Settings
from sfumato.stats.clusters import digests
from sfumato.stats.levels import CodeArray, Levels

_ROUNDING = 1e-4
_NO_LOG = "the log doesn't have each record once"


def household_promises(mask: Settings, data: Microdata, log: pl.DataFrame) -> list[Guarantee]:
    """The promises that the cluster log allows to check."""
    log = log.sort("record")
    files = _Files(mask, log)
    told = following(data.schema, mask.columns)
    out: list[Guarantee] = [HouseholdsOf(mask.smallest, mask.within, files), SameAmongHouseholds(files)]
    if files.log["kept"][0] != "none":
        out.append(HouseholdMoments(files))
    out.append(FamiliesApart(files))
    out += [RuleAsOften(total, parts) for total, parts in told.totals]
    out += edit_promises(mask, data)
    return out


class _Files:
    """The two files as households; read once."""

    def __init__(self, mask: Settings, log: pl.DataFrame) -> None:
        self.mask, self.log = mask, log
        self._seen: Microdata | None = None

    def homes(self, before: Microdata) -> Households:
        if self._seen is not before:
            self._homes = read(self.mask, before, following(before.schema, self.mask.columns))
            self._seen = before
        return self._homes

    def clusters(self, before: Microdata, after: Microdata) -> IntArray | None:
        """Each record's cluster, None where the log isn't about these files."""
        if not (self.log.height == len(before) == len(after)):
            return None
        if not np.array_equal(self.log["record"].to_numpy(), np.arange(self.log.height)):
            return None
        return self.log["cluster"].to_numpy().astype(np.int64)

    def slots(self, homes: Households) -> IntArray:
        """Who stands in each slot, by the log."""
        slot = self.log["slot"].to_numpy().astype(np.int64)
        who = np.full((len(homes.first), int(slot.max()) + 1), -1, np.int64)
        who[homes.mem.of, slot] = np.arange(len(slot))
        return who


def _codes_in(levels: Levels, name: str, series: pl.Series) -> CodeArray:
    """A column in the codes of these levels; −1 for a value that they don't have."""
    known = pl.DataFrame({"v": levels.values[name], "c": np.arange(len(levels), dtype=np.int32)})
    known = known.unique("v", keep="first", maintain_order=True)
    rows = pl.DataFrame({"v": series})
    if rows["v"].dtype != known["v"].dtype:
        return np.full(len(series), -1, np.int32)
    joined = rows.join(known, on="v", how="left", nulls_equal=True, maintain_order="left")
    return joined["c"].fill_null(-1).to_numpy().astype(np.int32)


@dataclass(frozen=True)
class HouseholdsOf(Guarantee):
    """Every household is in one cluster, of k households or more of one stratum."""

    k: int
    within: tuple[str, ...]
    files: _Files

    def describe(self) -> str:
        where = f", within {', '.join(self.within)}" if self.within else ""
        return f"every household is in a cluster of at least {self.k} households{where}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        label = self.files.clusters(before, after)
        if label is None:
            return _NO_LOG
        homes = self.files.homes(before)
        own = label[homes.first]
        if (own[homes.mem.of] != label).any():
            return "a household is in more than one cluster"
        sizes = np.bincount(own)
        small = int(((sizes > 0) & (sizes < self.k)).sum())
        if small:
            return f"{counted(small, 'cluster')} of fewer than {self.k} households"
        stratum, many = before.codes(self.within)
        if len(np.unique(label * many + stratum)) > int((sizes > 0).sum()):
            return "a cluster has households of more than one stratum"
        return None


@dataclass(frozen=True)
class SameAmongHouseholds(Guarantee):
    """Each cluster has the values of each column that it had, once blurred; its ages are its own."""

    files: _Files

    def describe(self) -> str:
        return (
            "every cluster of households keeps its values of each column (numbers of few averaged), and "
            "every age of it is one that it had"
        )

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        from sfumato.kernels.clusters import sum_digests

        label = self.files.clusters(before, after)
        if label is None:
            return _NO_LOG
        homes = self.files.homes(before)
        for one, shared in zip(homes.columns, homes.shared, strict=True):
            if one.name in before.schema.sums:
                continue
            rows = homes.first if shared else np.arange(len(label))
            where, many = label[rows], int(label.max()) + 1
            for name in one.values:
                # Levels that blur has made alike, or that riders tell apart, count as one.
                was = _codes_in(one, name, one.values[name])[one.codes]
                now = _codes_in(one, name, after.column(name))[rows]
                if (now < 0).any():
                    return f"{name} has other values than before"
                if name == homes.age:
                    width = len(one)
                    if not np.isin(where * width + now, where * width + was).all():
                        return f"{name} has values that its cluster didn't have"
                    continue
                sums = [sum_digests(digests([c], len(c)), where, many) for c in (was, now)]
                off = int((sums[0] != sums[1]).sum())
                if off:
                    return f"{name} has other values in {counted(off, 'cluster')}"
            if shared and any(not _one_value(after, name, homes) for name in one.values):
                return f"{one.name} differs within a household"
        return None


def _one_value(data: Microdata, name: str, homes: Households) -> bool:
    codes, _ = data.codes([name])
    return bool((codes[homes.first][homes.mem.of] == codes).all())


@dataclass(frozen=True)
class HouseholdMoments(Guarantee):
    """The kept cross moments of members and households are as near to the original's as the log says."""

    files: _Files

    def describe(self) -> str:
        stated = float(self.files.log["moment_error"].max())  # type: ignore[arg-type]
        return f"every cross moment of a household's blocks that is kept is within {stated + _ROUNDING:.2g}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        from sfumato.kernels.shuffle import moment_gap

        if self.files.clusters(before, after) is None:
            return _NO_LOG
        homes = self.files.homes(before)
        wide = homes.wide
        codes = np.full_like(wide.codes, -1)
        who = self.files.slots(homes)
        for w, column in enumerate(wide.columns):
            if column.source < 0 or column.levels.name in before.schema.sums:
                codes[:, w] = wide.codes[:, w]
                continue
            now = _codes_in(column.levels, column.levels.name, after.column(column.levels.name))
            rows = homes.first if column.slot < 0 else who[:, column.slot]
            codes[:, w] = np.where(rows >= 0, now[rows], -1)
        tables = wide.table(self.files.log["kept"][0])
        read_back = [
            c.source >= 0 and c.levels.name not in before.schema.sums and _plain(c.levels)
            for c in wide.columns
        ]
        tables = [t if ok else [] for t, ok in zip(tables, read_back, strict=True)]
        first = np.concatenate([[0], np.cumsum([len(t) for t in tables])]).astype(np.int64)
        gap = np.abs(moment_gap(wide.features(codes, tables), wide.features(wide.codes, tables)))
        for block in wide.blocks:
            step = [(block.begin, block.end)]
            if block.apart:
                step = [(w, w + 1) for w in range(block.begin, block.end)]
            for a, b in step:
                gap[first[a] : first[b], first[a] : first[b]] = 0.0
        allowed = float(self.files.log["moment_error"].max()) + _ROUNDING  # type: ignore[arg-type]
        off = float(gap.max(initial=0.0))
        return None if off <= allowed else f"a cross moment is off by {off:.3g}, more than {allowed:.3g}"


def _plain(levels: Levels) -> bool:
    """Whether each level has a value of its own, so that codes can be read back from a file."""
    return levels.values[levels.name].n_unique() == len(levels)


@dataclass(frozen=True)
class FamiliesApart(Guarantee):
    """A child is as much younger than the reference person and the partner as the file has it."""

    files: _Files

    def describe(self) -> str:
        return "between the couple and a child there are as many years, at least and at most, as in the file"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        if self.files.clusters(before, after) is None:
            return _NO_LOG
        homes = self.files.homes(before)
        if homes.age is None or homes.relation is None:
            return None
        told = before.column(homes.relation)
        kinds = told.filter(pl.Series(homes.mem.relation == CHILD)).unique()
        child = after.column(homes.relation).is_in(kinds.implode()).fill_null(False).to_numpy()
        who = self.files.slots(homes)
        child[who[:, 0]] = False
        least, most = family_gaps(homes.mem)
        now, far = _gaps(after.numbers(homes.age), who, homes.mem.of, child)
        if any(n < g for n, g in zip(now, least, strict=True)) or far > most:
            return "a child is too near to or too far from its parents' ages"
        return None


def _gaps(age: FloatArray, who: IntArray, of: IntArray, child: CodeArray) -> tuple[list[float], float]:
    couple = np.where(who[:, :2] >= 0, age[who[:, :2]], np.nan)
    gaps = (couple[of] - age[:, None])[child & np.isfinite(age)]
    least = [float(np.nanmin(g)) if np.isfinite(g).any() else np.inf for g in gaps.T]
    young = np.fmin(gaps[:, 0], gaps[:, 1]) if gaps.shape[1] > 1 else gaps[:, 0]
    return least, float(np.nanmax(young)) if np.isfinite(young).any() else -np.inf
