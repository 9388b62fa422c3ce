"""Microaggregation: small groups of similar records share their mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact, Grouped
from sfumato.contract.engine import Locality
from sfumato.contract.guarantees import Guarantee, SameMoments
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.per_household import PerHousehold
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MaskError
from sfumato.masks.noise.fit import refuse_huge
from sfumato.parallel import in_threads
from sfumato.stats.clusters import atoms, gather


@dataclass(frozen=True, kw_only=True)
class Microaggregate(PerHousehold):
    """Replace the values of k similar records by their mean.

    Records are grouped by MDAV (maximum distance to the average vector) on the standardised columns:
    the record farthest from the centroid of those left and its k − 1 nearest form a group, then the
    record farthest from it and its nearest, until fewer than 3k are left. Groups have k to 2k − 1
    records. With ``method="pca"`` records are sorted by their first principal component and cut into
    groups that are optimal along it: n log n in place of n²/k, for files too large for MDAV, at a
    greater loss. With ``together=False`` each column is grouped by itself, optimally (least
    within-group sum of squares): less is lost, and less protected, since groups differ from column
    to column.

    Means are kept; variances shrink by the within-group part, which is reported as
    ``information_loss_percent`` = 100 · SSE/SST on the standardised columns. Whole numbers are rounded.
    Records with a missing, imputed or top- or bottom-coded value in one of the columns stay as they
    are. MDAV takes time in proportion to n²/k in each stratum; ``method="halving"`` cuts the file across its
    longest axis first and gathers small parts by MDAV, in O(n log n): for files of more than some ten
    thousand records, at nearly the same loss. Its groups depend on the values alone (records alike in all
    columns are never parted), not on the order of the file.

    Reference: Domingo-Ferrer, J., Torra, V. (2005). Ordinal, continuous and heterogeneous k-anonymity
    through microaggregation. DMKD 11, 195-212; Hansen, S., Mukherjee, S. (2003). A polynomial algorithm
    for optimal univariate microaggregation. IEEE TKDE 15, 1043-1044.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"X": [1.0, 2.0, 9.0, 11.0]}))
    >>> sf.Microaggregate(columns=["X"], k=2).mask(data).frame["X"].to_list()
    [1.5, 1.5, 10.0, 10.0]
    """

    name: ClassVar[str] = "microaggregate"
    draws_nothing: ClassVar[bool] = True
    reference: ClassVar[str] = "Domingo-Ferrer, Torra (2005)"

    columns: tuple[str, ...] = parameter(
        doc="The columns to aggregate.", columns="sensitive", numeric=True, public=True
    )
    k: int = parameter(3, doc="How many records a group has at least.", at_least=2, public=True)
    within: tuple[str, ...] = parameter(
        (), doc="No group crosses the strata of these columns.", columns=True, public=True
    )
    method: Literal["mdav", "halving", "pca"] = parameter(
        "mdav",
        doc="Groups of several columns by MDAV; by cuts and then MDAV, or along the first principal "
        "component, for large files.",
        public=True,
    )
    together: bool = parameter(
        True, doc="Whether records are grouped on all columns at once, or each column by itself.", public=True
    )

    def _check(self) -> Sequence[Fault]:
        if not self.columns:
            return [("`columns` must name at least one column", None, "columns")]
        if self.method != "mdav" and not self.together:
            return [("`method` is about columns grouped together", "leave `together` out", "method")]
        both = [c for c in self.columns if c in self.within]
        if both:
            return [(f"{both[0]} can't be aggregated within itself", "take it out of `within`")]
        return ()

    @property
    def locality(self) -> Locality:
        return "file" if self.together else "column"

    def apart(self, data: Microdata) -> Sequence[Mask]:
        return (self,) if self.together else self.by_column(data)

    def changes(self, data: Microdata) -> Sequence[str]:
        return self.columns

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        blocks = [self.columns] if self.together else [(c,) for c in self.columns]
        return [Grouped(columns=block, within=self.within, smallest=self.k) for block in blocks]

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        promises: list[Guarantee] = [SharedValues(self.columns, self.k, self.within, self.together)]
        exact = tuple(c for c in self.columns if data.dtype(c).is_float())
        if exact:
            promises.append(SameMoments(exact, order=1, tolerance=1e-6 if _single(data, exact) else 1e-9))
        return promises

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        blocks = [self.columns] if self.together else [(c,) for c in self.columns]
        strata, n_strata = data.codes(self.within)
        new: dict[str, pl.Series] = {}
        for block in blocks:
            chosen = np.flatnonzero(eligible(data, block))
            for column in block:
                refuse_huge(data.column(column), "can't be averaged")
            values = data.matrix(block)[chosen]
            endless = [c for j, c in enumerate(block) if np.isinf(values[:, j]).any()]
            if endless:
                raise MaskError(
                    f"microaggregate: {', '.join(endless)} has infinite values, which have no mean",
                    hint="declare them as missing or top-coded, or mend them",
                )
            groups = self._groups(values, strata[chosen], n_strata)
            sizes = np.bincount(groups, minlength=1)
            loss = np.zeros(2)
            for j, column in enumerate(block) if len(chosen) else ():
                centre = float(values[:, j].mean())
                x = values[:, j] - centre
                means = np.bincount(groups, weights=x) / np.maximum(sizes, 1)
                spread = float((x**2).sum())
                if spread:
                    loss += [float(((x - means[groups]) ** 2).sum()) / spread, 1.0]
                new[column] = replaced(data.column(column), chosen, means[groups] + centre)
            name = "+".join(block)
            notes.figure("information_loss_percent", float(100 * loss[0] / loss[1]) if loss[1] else 0.0, name)
            notes.figure("groups", int((sizes > 0).sum()), name)
            notes.figure("records_aggregated", len(chosen), name)
        return data.with_columns(new)

    def _groups(self, values: FloatArray, strata: IntArray, n_strata: int) -> IntArray:
        """A group number for each record, stratum by stratum."""
        from sfumato.kernels.mdav import group_sorted, mdav

        if not len(values):
            return np.zeros(0, np.int64)
        spread = values.std(axis=0)
        standard = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        refuse_small(self.name, strata, n_strata, self.k)
        if self.method == "halving" and values.shape[1] > 1:
            codes = [np.unique(column, return_inverse=True)[1].astype(np.int32) for column in values.T]
            found = atoms(codes, strata)
            where = standard[found.first].astype(np.float32)
            return gather(where, found, strata[found.first], self.k).label[found.of]

        def work(rows: IntArray) -> tuple[IntArray, IntArray]:
            if values.shape[1] > 1 and self.method == "mdav":
                return rows, mdav(np.ascontiguousarray(standard[rows]), self.k)
            line = standard[rows, 0] if values.shape[1] == 1 else _first_component(standard[rows])
            ascending = np.argsort(line, kind="stable")
            return rows[ascending], group_sorted(np.ascontiguousarray(line[ascending]), self.k)

        return stratum_by_stratum(strata, n_strata, work)


def refuse_small(name: str, strata: IntArray, n_strata: int, k: int) -> None:
    """An error where a stratum has records, but too few for a group."""
    sizes = np.bincount(strata, minlength=n_strata)
    small = sizes[(sizes > 0) & (sizes < k)]
    if len(small):
        raise MaskError(
            f"{name}: {len(small):,} strata have fewer than k = {k} records "
            f"with values (the smallest has {int(small.min())})",
            hint="stratify by fewer or coarser columns, or lower `k`",
        )


def stratum_by_stratum(
    strata: IntArray, n_strata: int, work: Callable[[IntArray], tuple[IntArray, IntArray]]
) -> IntArray:
    """A group number for each record. ``work`` groups the records of one stratum, given in order, and says
    in which order it did."""
    order = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata, minlength=n_strata)
    ends = np.cumsum(sizes)
    parts = [order[end - size : end] for end, size in zip(ends, sizes, strict=True) if size]
    out = np.zeros(len(strata), np.int64)
    used = 0
    for rows, group in in_threads(work, parts):
        out[rows] = group + used
        used += int(group.max()) + 1
    return out


def _first_component(values: FloatArray) -> FloatArray:
    """The scores on the direction of largest variance; its largest loading is positive."""
    centred = values - values.mean(axis=0)
    direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    return np.asarray(centred @ (direction * np.sign(direction[np.argmax(np.abs(direction))])))


def eligible(data: Microdata, columns: Sequence[str]) -> BoolArray:
    """Which records have a value that may be changed in every column."""
    return np.asarray(np.logical_and.reduce([data.eligible(c) for c in columns]))


def _single(data: Microdata, columns: Sequence[str]) -> bool:
    return any(data.dtype(c) == pl.Float32 for c in columns)


def replaced(series: pl.Series, rows: IntArray, values: FloatArray) -> pl.Series:
    """The column with some values replaced, in its own type (whole numbers rounded)."""
    physical = series.to_physical()
    if physical.dtype.is_integer():
        values = np.rint(values)
    fresh = pl.Series(values).cast(physical.dtype)
    return physical.clone().scatter(rows, fresh).cast(series.dtype).rename(series.name)


@dataclass(frozen=True)
class SharedValues(Guarantee):
    """Every set of aggregated values is shared by at least k records (in its stratum)."""

    columns: tuple[str, ...]
    k: int
    within: tuple[str, ...]
    together: bool

    def describe(self) -> str:
        what = f"combination of {', '.join(self.columns)}" if self.together else "value"
        where = f" within {', '.join(self.within)}" if self.within else ""
        return f"every aggregated {what} is shared by at least {self.k} records{where}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        for block in [self.columns] if self.together else [(c,) for c in self.columns]:
            rows = eligible(before, block)
            if not rows.any():
                continue
            codes = after.codes([*self.within, *block])[0][rows]
            few = int((np.bincount(codes)[codes] < self.k).sum())
            if few:
                return f"{few:,} records share {', '.join(block)} with fewer than {self.k}"
        return None
