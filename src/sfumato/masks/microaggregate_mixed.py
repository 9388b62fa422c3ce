"""Microaggregation of mixed data: small groups of similar records share numbers and categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact, Grouped
from sfumato.contract.guarantees import Guarantee
from sfumato.contract.mask import Notes
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.per_household import PerHousehold
from sfumato.data.codes import code_column
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MaskError
from sfumato.masks.microaggregate import SharedValues, eligible, refuse_small, replaced, stratum_by_stratum
from sfumato.masks.noise.fit import refuse_huge


@dataclass(frozen=True, kw_only=True)
class MicroaggregateMixed(PerHousehold):
    """Replace numbers and categories of k similar records by their mean and most frequent value.

    Records are grouped by MDAV with Gower's distance: |a − b| over the column's range for numbers, 0
    or 1 for categories, added up over the columns. In a group (k to 2k − 1 records) a number becomes
    the group's mean (whole numbers rounded), a category its most frequent value (of equals, the
    first in order). So every combination of the columns is shared by at least k records.

    Means of numbers are kept up to rounding; frequencies of categories are not: rare ones vanish,
    and ``categories_changed`` says in how many records. Records with a missing, imputed or coded
    value in one of the columns stay as they are. Time grows with n²/k in each stratum.

    Reference: Gower, J. C. (1971). A general coefficient of similarity and some of its properties.
    Biometrics 27, 857-871; Domingo-Ferrer, J., Torra, V. (2005). Ordinal, continuous and heterogeneous
    k-anonymity through microaggregation. DMKD 11, 195-212.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"JOB": ["a", "a", "b", "b"], "PAY": [1.0, 2.0, 9.0, 11.0]}))
    >>> sf.MicroaggregateMixed(columns=["JOB", "PAY"], k=2).mask(data).frame.rows()
    [('a', 1.5), ('a', 1.5), ('b', 10.0), ('b', 10.0)]
    """

    name: ClassVar[str] = "microaggregate_mixed"
    draws_nothing: ClassVar[bool] = True
    reference: ClassVar[str] = "Gower (1971); Domingo-Ferrer, Torra (2005)"

    columns: tuple[str, ...] = parameter(
        doc="The columns to aggregate together, of any kind.", columns="sensitive", public=True
    )
    k: int = parameter(3, doc="How many records a group has at least.", at_least=2, public=True)
    within: tuple[str, ...] = parameter(
        (), doc="No group crosses the strata of these columns.", columns=True, public=True
    )

    def _check(self) -> Sequence[Fault]:
        if not self.columns:
            return [("`columns` must name at least one column", None, "columns")]
        both = [c for c in self.columns if c in self.within]
        if both:
            return [(f"{both[0]} can't be aggregated within itself", "take it out of `within`")]
        return ()

    def changes(self, data: Microdata) -> Sequence[str]:
        return self.columns

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        return [Grouped(columns=self.columns, within=self.within, smallest=self.k)]

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        return [SharedValues(self.columns, self.k, self.within, True)]

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        chosen = np.flatnonzero(eligible(data, self.columns))
        numbers = [c for c in self.columns if data.kind(c) == "continuous"]
        classes = [c for c in self.columns if c not in numbers]
        for column in numbers:
            refuse_huge(data.column(column), "can't be averaged")
        values = data.matrix(numbers)[chosen] if numbers else np.zeros((len(chosen), 0))
        if np.isinf(values).any():
            raise MaskError(
                "microaggregate_mixed: a column has infinite values, which have no mean",
                hint="declare them as missing or top-coded, or mend them",
            )
        coded = [code_column(data, c) for c in classes]
        codes = np.zeros((len(chosen), len(classes)), np.int64)
        for j, (column_codes, _) in enumerate(coded):
            codes[:, j] = column_codes[chosen]
        strata, n_strata = data.codes(self.within)
        groups = self._groups(values, codes, strata[chosen], n_strata)
        sizes = np.maximum(np.bincount(groups, minlength=1), 1)
        new: dict[str, pl.Series] = {}
        for j, column in enumerate(numbers):
            centre = float(values[:, j].mean()) if len(chosen) else 0.0
            means = np.bincount(groups, weights=values[:, j] - centre, minlength=1) / sizes
            new[column] = replaced(data.column(column), chosen, means[groups] + centre)
        for j, (column, (_, levels)) in enumerate(zip(classes, coded, strict=True)):
            most = _most_frequent(groups, codes[:, j], len(levels))
            series = data.column(column)
            fresh = levels.gather(most[groups]).cast(series.dtype)
            new[column] = series.clone().scatter(chosen, fresh).rename(column)
            notes.figure("categories_changed", int((most[groups] != codes[:, j]).sum()), column)
        notes.figure("groups", int(groups.max(initial=-1)) + 1)
        notes.figure("records_aggregated", len(chosen))
        return data.with_columns(new)

    def _groups(self, values: FloatArray, codes: IntArray, strata: IntArray, n_strata: int) -> IntArray:
        from sfumato.kernels.gower import mdav_gower

        if not len(values):
            return np.zeros(0, np.int64)
        refuse_small(self.name, strata, n_strata, self.k)
        span = np.ptp(values, axis=0) if values.shape[1] else np.zeros(0)
        scaled = (values - values.min(axis=0, initial=np.inf)) / np.where(span > 0, span, 1.0)

        def work(rows: IntArray) -> tuple[IntArray, IntArray]:
            one, two = np.ascontiguousarray(scaled[rows]), np.ascontiguousarray(codes[rows])
            return rows, mdav_gower(one, two, self.k)

        return stratum_by_stratum(strata, n_strata, work)


def _most_frequent(groups: IntArray, codes: IntArray, levels: int) -> IntArray:
    """The most frequent code of each group; of equals, the lowest."""
    if not len(groups):
        return np.zeros(1, np.int64)
    pairs, counts = np.unique(groups * max(levels, 1) + codes, return_counts=True)
    of, code = pairs // max(levels, 1), pairs % max(levels, 1)
    order = np.lexsort((-code, counts, of))
    last = np.append(np.flatnonzero(np.diff(of[order])), len(order) - 1)
    out = np.zeros(int(groups.max()) + 1, np.int64)
    out[of[order[last]]] = code[order[last]]
    return out
