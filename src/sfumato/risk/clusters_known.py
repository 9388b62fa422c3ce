"""What attacks on a cluster shuffle share: an intruder who makes its clusters again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Grouped, of_kind
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.data.following import following
from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.errors import InputError, MeasureError
from sfumato.linkage.results import true_links
from sfumato.stats.clusters import digests
from sfumato.stats.levels import Levels
from sfumato.stats.partition import Partition, coded_columns, partitioned


@dataclass(frozen=True, kw_only=True)
class KnowsClusters(Attack):
    """An intruder who has every value of everybody and knows the method and its parameters."""

    compares_all: ClassVar[bool] = False

    columns: tuple[str, ...] = parameter(doc="The columns that were shuffled.", columns=True)
    smallest: int = parameter(20, doc="k: how many records a cluster had at least.", at_least=2)
    blind: tuple[str, ...] = parameter((), doc="Columns that clusters didn't look at.", columns=True)
    within: tuple[str, ...] = parameter((), doc="Columns whose strata nothing crossed.", columns=True)
    unit: str | None = parameter(
        None, doc="The column that said whose records belong together.", columns=True
    )
    blur: int = parameter(3, doc="Numbers of fewer records than this were averaged.", at_least=0)
    spread: int = parameter(1, doc="The least number of different sensitive values a cluster.", at_least=1)
    span_percent: float = parameter(
        0,
        doc="How many percent of a sensitive number's ranks a cluster spanned at least.",
        at_least=0,
        below=100,
    )
    truth: str | None = parameter(
        None, doc="The id column with the true links; by default record i belongs to record i.", columns=True
    )

    @classmethod
    def against(cls, step: Mask, data: Microdata, intruder: Intruder) -> Sequence[Attack]:
        return [
            cls(
                columns=fact.columns,
                smallest=fact.smallest,
                blind=fact.blind,
                within=fact.within,
                unit=fact.unit,
                blur=fact.blur,
                spread=fact.spread,
                span_percent=fact.span_percent,
            )
            for fact in of_kind(Grouped, step.discloses(data))
            if fact.deals and not fact.whole and cls.worth_trying(fact, data)
        ]

    @classmethod
    def worth_trying(cls, fact: Grouped, data: Microdata) -> bool:
        """Whether the attack has something to look for in such a file."""
        return True

    def clusters(self, data: Microdata) -> tuple[list[Levels], Partition]:
        """The shuffled columns in codes, blurred, and the clusters of these people."""
        if 2 * self.smallest > len(data):
            raise MeasureError(
                f"clusters of {self.smallest} need at least {2 * self.smallest} records, and the file has "
                f"{len(data):,}"
            )
        told = following(data.schema, self.columns)
        try:
            columns = coded_columns(data, told, self.blur)
            look_at = [c for c in told.dealt if c not in self.blind]
            return columns, self.parted(data, columns, look_at)
        except InputError as problem:
            raise MeasureError(problem.message, hint=problem.hint) from None

    def told(self, original: Microdata, masked: Microdata, partition: Partition) -> BoolArray:
        """Which clusters the release bears out: its rows hold their values, averaged or as they were."""
        truth = true_links(original, masked, self.truth)
        dealt = following(original.schema, self.columns)
        out = np.zeros(len(partition.sizes), np.bool_)
        for blur in {self.blur, 0}:
            out |= borne_out(coded_columns(original, dealt, blur), masked, partition, truth)
        return out

    def parted(self, data: Microdata, columns: Sequence[Levels], look_at: Sequence[str]) -> Partition:
        """The clusters by these codes."""
        return partitioned(
            data,
            columns,
            look_at,
            smallest=self.smallest,
            within=self.within,
            unit=self.unit,
            spread=self.spread,
            span_percent=self.span_percent,
        )


def borne_out(
    columns: Sequence[Levels], masked: Microdata, partition: Partition, truth: IntArray
) -> BoolArray:
    """The clusters whose released rows hold exactly the values that they should."""
    from sfumato.kernels.clusters import sum_digests

    many = len(partition.sizes)
    same = np.ones(many, np.bool_)
    if (truth < 0).any() or len(masked) != len(truth):
        return ~same
    for one in columns:
        if masked.dtype(one.name) != one.values[one.name].dtype:
            return np.zeros(many, np.bool_)
        # A released value is looked for among the levels; one that isn't there belongs nowhere.
        levels = pl.DataFrame({"value": one.values[one.name], "code": np.arange(len(one), dtype=np.int32)})
        levels = levels.unique("value", keep="first", maintain_order=True)
        rows = pl.DataFrame({"value": masked.column(one.name)})
        code = rows.join(levels, on="value", how="left", nulls_equal=True, maintain_order="left")["code"]
        plain = pl.DataFrame({"value": one.values[one.name]}).join(
            levels, on="value", how="left", nulls_equal=True, maintain_order="left"
        )["code"]
        after = code.fill_null(-1).to_numpy()[truth].astype(np.int32)
        before = plain.to_numpy()[one.codes].astype(np.int32)
        sums = [sum_digests(digests([c], len(c)), partition.label, many) for c in (before, after)]
        same &= sums[0] == sums[1]
    return same
