"""Rank swapping under control (Greenberg 1987, Moore 1996)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from sfumato.draws import Draws
from sfumato.guarantees import Guarantee, SameMultiset
from sfumato.masks._rank_order import scores
from sfumato.masks._rank_ranks import compressed, order_ties, rank, window_ranks
from sfumato.masks.base import Locality, Mask, Notes, in_threads
from sfumato.microdata import Microdata
from sfumato.parameters import parameter


@dataclass(frozen=True, kw_only=True)
class RankSwap(Mask):
    """Swap each value with another whose rank is near.

    The N values of a column that may move (not missing, imputed, top- or bottom-coded) are sorted.
    The lowest unswapped rank j takes a partner uniformly among the unswapped ranks of its window,
    j+1 … j+W with W = ⌊P·N/100⌋; the two records exchange their values; and so on (Moore's section
    VII).

    Reference: Moore, R. A. (1996). Controlled data-swapping techniques for masking public use
    microdata sets. US Bureau of the Census, Statistical Research Division RR 96-04.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"INCOME": [10, 40, 20, 30]}))
    >>> sf.RankSwap(columns=["INCOME"], window_percent=25).mask(data, seed=1).frame["INCOME"].to_list()
    [20, 30, 10, 40]
    """

    name: ClassVar[str] = "rank_swap"
    locality: ClassVar[Locality] = Locality.COLUMN
    reference: ClassVar[str] = "Moore (1996)"

    columns: tuple[str, ...] = parameter(doc="The columns to swap.", columns="sensitive")
    window_percent: float | dict[str, float] | None = parameter(
        None,
        doc="P: how many percent of the ranks the window spans (one number, or one for each column).",
        at_least=0,
        at_most=100,
        columns=True,
    )
    within: tuple[str, ...] = parameter((), doc="Nothing crosses the strata of these columns.", columns=True)

    def _check(self) -> Sequence[tuple[str, str | None]]:
        if not self.columns:
            return [("`columns` must name at least one column", None)]
        if self.window_percent is None:
            return [("give `window_percent`", None)]
        return ()

    def changes(self, data: Microdata) -> Sequence[str]:
        return self.columns

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        return [SameMultiset(self.columns, self.within)]

    def _percent(self, column: str) -> float:
        p = self.window_percent
        return float(p[column]) if isinstance(p, Mapping) else float(p or 0)

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        from sfumato.kernels.rank_swap import pair_uniform, write_values

        codes, n_strata = data.codes(self.within)

        def swap(column: str) -> pl.Series:
            series = data.column(column)
            score = scores(data, column, None)
            rows, (values, strata) = compressed(data.eligible(column), score.values, codes)
            ranked = rank(values, strata, n_strata)
            order_ties(ranked, draws, column)
            windows = window_ranks(self._percent(column), ranked.sizes)
            source = np.empty(len(ranked), ranked.places.dtype)
            pair_uniform(ranked.starts, windows, draws.stream(column, purpose="pairs").generator(), source)
            out = np.empty_like(values)
            write_values(ranked.values, ranked.places, source, out)
            whole = out
            if rows is not None:
                whole = score.values.copy()
                whole[rows] = out
            new = pl.Series(column, whole).cast(series.to_physical().dtype).cast(series.dtype)
            if series.null_count():
                new = pl.select(pl.when(series.is_not_null()).then(new)).to_series()
            return new

        return data.with_columns(dict(zip(self.columns, in_threads(swap, self.columns), strict=True)))
