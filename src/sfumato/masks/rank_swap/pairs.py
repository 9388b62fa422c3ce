"""What a rank swap does to correlations between columns: predicted and achieved, pair by pair.

Moore's Lemma 1, E R(a′,b′) = R(a,a′) R(b,b′) R(a,b), holds where the regressions are linear. The
expected swapped value at each rank, E a′(r), predicts better: columns are swapped independently, so
E a′b′ of a record is the product of its two expectations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.data.microdata import FloatArray, IntArray
from sfumato.masks.rank_swap.far import Bounded
from sfumato.masks.rank_swap.ranks import AnyArray, Ranked
from sfumato.stats.rank_bounds import BoundedLaw

SAMPLE = 100_000
"""Pairs are compared on at most this many records, evenly spaced in the file."""


Expected = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class Sampled:
    """One column at the sampled records (NaN where its value may not move)."""

    column: str
    correlation: float
    before: FloatArray
    after: FloatArray
    expected: FloatArray
    expected_square: FloatArray


def sample(
    column: str,
    ranked: Ranked,
    rows: IntArray | None,
    new: AnyArray,
    source: AnyArray,
    expected: Callable[[IntArray], Expected],
    correlation: float,
    n_records: int,
) -> Sampled:
    """One swapped column at every so many records; ``new`` are its values once far ones took a code."""
    from sfumato.kernels.rank_swap import sampled_ranks

    bits = (max(1, n_records - 1) // SAMPLE).bit_length()
    ranks = np.empty(((n_records - 1) >> bits) + 1, dtype=np.int64)
    sampled_ranks(ranked.places, np.empty(0, dtype=np.int64) if rows is None else rows, bits, ranks)
    here = ranks >= 0
    moved = ranks[here]
    columns = []
    for part in (ranked.values[moved], new[source[moved]], *expected(moved)):
        out = np.full(len(ranks), np.nan)
        out[here] = part
        columns.append(out)
    return Sampled(column, correlation, *columns)


def expected_far(ranked: Ranked, new: AnyArray, bounded: Bounded, ranks: IntArray) -> Expected:
    """The expected value and square at some ranks of a swap within two bounds: the law's, those of the
    group (as if one could draw oneself), or the code."""
    core, bounds, far = bounded.part(ranked), bounded.bounds, bounded.far
    law = BoundedLaw(core.values, core.starts)
    if far is None:
        return law.expected(bounds.windows, bounds.distance, ranks)
    first = new.astype(np.float64)
    for start, stop in far.groups:
        first[start:stop] = first[start:stop].mean()
    e1, e2 = first[ranks], new[ranks].astype(np.float64) ** 2
    inside = far.core[ranks]
    at = np.searchsorted(np.flatnonzero(far.core), ranks[inside])
    e1[inside], e2[inside] = law.expected(bounds.windows, bounds.distance, at)
    return e1, e2


def pair_figures(samples: Sequence[Sampled]) -> list[dict[str, Any]]:
    """Original, Lemma 1's, predicted and achieved correlation of every pair of columns, over the
    records where both values may move (Moore's Table 2)."""
    out = []
    for a, b in itertools.combinations(samples, 2):
        both = np.isfinite(a.before) & np.isfinite(b.before)
        n = int(both.sum())
        if n < 3:
            continue
        original = _correlation(a.before[both], b.before[both])
        ea, eb = a.expected[both], b.expected[both]
        spread = math.sqrt(
            max(0.0, a.expected_square[both].mean() - ea.mean() ** 2)
            * max(0.0, b.expected_square[both].mean() - eb.mean() ** 2)
        )
        predicted = float((ea * eb).mean() - ea.mean() * eb.mean()) / spread if spread > 0 else math.nan
        out.append(
            {
                "columns": [a.column, b.column],
                "records": n,
                "original": original,
                "lemma": original * a.correlation * b.correlation,
                "predicted": predicted,
                "achieved": _correlation(a.after[both], b.after[both]),
            }
        )
    return out


def _correlation(x: FloatArray, y: FloatArray) -> float:
    # Sums of products rather than x @ y, whose library wakes threads of its own for so little.
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(float((x * x).sum()) * float((y * y).sum()))
    return float((x * y).sum()) / scale if scale > 0 else math.nan
