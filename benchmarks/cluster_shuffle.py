"""Cluster shuffle against one Polars sort of the same frame.

Run: ``python benchmarks/cluster_shuffle.py [--quick]``; writes ``docs/benchmarks/cluster_shuffle.md``.
"""

from __future__ import annotations

import numpy as np
import polars as pl

import sfumato as sf
from harness import Table, arguments, time_it


def frame(n: int, columns: int = 13) -> pl.DataFrame:
    """Two categories, seven skewed whole amounts and four with zeros in half of the records, correlated."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3)) @ rng.normal(size=(3, columns)) + rng.normal(size=(n, columns))
    x /= x.std(axis=0)
    made: dict[str, np.ndarray] = {}
    for j in range(columns):
        if j < 2:
            made[f"C{j}"] = np.digitize(x[:, j], [-1.0, 0.0, 1.0]).astype(np.int8)
        elif j < 9:
            made[f"C{j}"] = np.rint(np.exp(8 + x[:, j])).astype(np.int64)
        else:
            made[f"C{j}"] = np.where(x[:, j] < 0, 0.0, np.rint(np.exp(6 + x[:, j])))
    return pl.DataFrame(made)


def main() -> None:
    options = arguments(__doc__ or "")
    table = Table(
        "cluster_shuffle",
        "Cluster shuffle",
        "The whole step at k = 20: clusters, deal, repair, audit, and every promise recomputed from the two "
        "files and the cluster log. The yardstick is one sort of the same frame in this run, "
        "`frame.sort(frame.columns)`: all its records by all its columns; at 1e6 × 13 the step may cost 40 "
        "of them. A sort by one column, which carries the others along, stands beside it.",
    )
    for n in (20_000,) if options.quick else (100_000, 1_000_000):
        data = frame(n)
        by_all = time_it(lambda d=data: d.sort(d.columns))
        by_one = time_it(lambda d=data: d.sort("C5"))
        for keep in ("moments", "none"):
            mask = sf.ClusterShuffle(columns=data.columns, keep=keep)
            mask.mask(sf.Microdata(data[:2000]), seed=1)  # compiles
            run = time_it(lambda d=data, m=mask: m.mask(sf.Microdata(d), seed=1), repeat=1, warm_up=False)
            table.add(
                records=n,
                columns=len(data.columns),
                keep=keep,
                CPU_s=run.cpu_seconds,
                times_a_sort_by_all_columns=run.cpu_seconds / by_all.cpu_seconds,
                times_a_sort_by_one=run.cpu_seconds / by_one.cpu_seconds,
                peak_MB=run.peak_bytes / 1e6,
            )
    if not options.quick:
        table.save()


if __name__ == "__main__":
    main()
