"""The table of Oganian and Lesaja for any analyses: overlap of intervals over many realisations.

>>> import numpy as np, polars as pl, sfumato as sf
>>> x = np.arange(60.0)
>>> data = sf.Microdata(pl.DataFrame({"AREA": ["n", "s"] * 30, "X": x, "Y": x + 7 * np.sin(x)}))
>>> swap = sf.GroupSwap(strata=["AREA"], n_swap=4, covariates=["X", "Y"])
>>> slope = sf.IntervalOverlap(formula="Y ~ X", within=["AREA"])
>>> table = overlap_table(data, swap.realisations(data, 5, seed=1), {"slope": slope})
>>> table.select("analysis", "realisations", "intervals").row(0)
('slope', 5, 20)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from sfumato.data.microdata import FloatArray, as_microdata
from sfumato.stats.overlaps import Analysis, row_of_runs
from sfumato.utility.intervals import IntervalOverlap


def overlap_table(
    data: Any, realisations: Iterable[Any], analyses: Mapping[str, IntervalOverlap]
) -> pl.DataFrame:
    """J over all realisations and coefficients: average, central 90% range, non-overlaps.

    A row for each analysis: ``average`` J with the ``standard_error`` of the mean over realisations,
    ``low`` and ``high`` (the 5% and 95% quantiles of J_k over realisations and coefficients),
    ``non_overlaps`` (J_k < 0) of ``intervals``, and ``not_estimable``: coefficients that one of the two
    files doesn't give. The original is analysed once; a design matrix is built anew only
    where its columns changed.
    """
    data = as_microdata(data)
    workers = {name: Analysis(data, one) for name, one in analyses.items()}
    found: dict[str, list[FloatArray]] = {name: [] for name in workers}
    lost = dict.fromkeys(workers, 0)
    for masked in map(as_microdata, realisations):
        for name, worker in workers.items():
            j_k, unknown = worker.overlaps(masked)
            found[name].append(np.array(list(j_k.values())))
            lost[name] += unknown
    return pl.DataFrame([row_of_runs(name, parts, lost[name]) for name, parts in found.items()])
