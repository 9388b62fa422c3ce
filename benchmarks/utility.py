"""Utility measures against yardsticks in the same run, and how well an experiment fills the cores."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from harness import Table, arguments, time_it

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def files(n: int, m: int) -> tuple[Any, Any, sf.Microdata, sf.Microdata]:
    rng = np.random.default_rng(0)
    x = rng.lognormal(3, 1, (n, m))
    z = x * rng.uniform(0.9, 1.1, (n, m))
    names = [f"V{j}" for j in range(m)]
    return x, z, *(sf.Microdata(pl.DataFrame(v, schema=names)) for v in (x, z))


def information_loss(table: Table, n: int, repeat: int) -> None:
    x, z, one, two = files(n, 13)
    measure = sf.InformationLoss(columns=one.columns)
    yard = time_it(lambda: (np.cov(x, rowvar=False), np.abs(x - z).mean()), repeat=repeat)
    ours = time_it(lambda: measure.measure(one, two), repeat=repeat)
    table.add(
        case=f"InformationLoss {n:,} × 13",
        seconds=ours.seconds,
        cpu_seconds=ours.cpu_seconds,
        peak_MiB=ours.peak_bytes / 2**20,
        yardstick="np.cov + np.abs(x − z).mean()",
        its_seconds=yard.seconds,
        ratio=ours.cpu_seconds / yard.cpu_seconds,
        target="≤ 4",
    )


def information_loss_large(table: Table, n: int) -> None:
    names = [f"V{j}" for j in range(13)]
    rng = np.random.default_rng(1)
    one = pl.DataFrame({c: rng.lognormal(3, 1, n) for c in names})
    two = one.with_columns(pl.all() * 1.01)
    measure = sf.InformationLoss(columns=names)
    ours = time_it(lambda: measure.measure(one, two), repeat=1, warm_up=False)
    import psutil

    table.add(
        case=f"InformationLoss {n:,} × 13",
        seconds=ours.seconds,
        cpu_seconds=ours.cpu_seconds,
        peak_MiB=ours.peak_bytes / 2**20,
        yardstick="whole process, both files included",
        ratio=psutil.Process().memory_info().rss / 2**30,
        target="< 8 GiB",
    )


def propensity(table: Table, n: int, repeat: int) -> None:
    from sklearn.linear_model import LogisticRegression

    _, _, one, two = files(n // 2, 10)
    X = np.ascontiguousarray(np.concatenate([one.matrix(one.columns), two.matrix(two.columns)]))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.r_[np.zeros(n // 2), np.ones(n // 2)]
    yard = time_it(lambda: LogisticRegression(C=1e6).fit(X, y), repeat=repeat)
    for label, permutations in (("", 0), (" with its null (20 shuffles)", 20)):
        measure = sf.Propensity(columns=one.columns, permutations=permutations)
        ours = time_it(lambda measure=measure: measure.measure(one, two), repeat=repeat)
        table.add(
            case=f"Propensity {n:,} × 10 stacked{label}",
            seconds=ours.seconds,
            cpu_seconds=ours.cpu_seconds,
            peak_MiB=ours.peak_bytes / 2**20,
            yardstick="scikit-learn LogisticRegression, same matrix, standardised",
            its_seconds=yard.seconds,
            ratio=ours.cpu_seconds / yard.cpu_seconds,
            target="≤ 10",
        )


def experiment(table: Table, runs: int) -> None:
    """Efficiency = time that workers spend in runs / (wall time × workers), start-up included."""
    frame = pl.read_csv(SHARED / "CASCrefmicrodata.csv")
    data = sf.Microdata(frame)
    plan = sf.Plan(
        steps=[sf.RankSwap(id="ranks", columns=data.columns, window_percent=5)],
        measures=[
            sf.InformationLoss(columns=data.columns),
            sf.Linkage(known=data.columns, weights="equal"),
        ],
    )
    grid = sf.Experiment(plan, {"ranks.window_percent": [5, 10, 15, 20]}, replicates=runs // 4)
    cores = os.cpu_count() or 1
    grid.run(data, processes=1, tasks=list(grid.tasks())[:1])  # compiles
    begun = time.perf_counter()
    alone = grid.run(data, processes=1, seed=1)
    one = time.perf_counter() - begun
    begun = time.perf_counter()
    spread = grid.run(data, processes=cores, seed=1)
    wall = time.perf_counter() - begun
    busy = spread.frame.unique(["point", "replicate"])["seconds"].sum()
    table.add(
        case=f"experiment of {alone.ran} runs on CASC, {cores} processes",
        seconds=wall,
        yardstick="the same in one process",
        its_seconds=one,
        ratio=busy / (wall * cores),
        target="(share of the workers' time in runs)",
    )
    table.add(
        case=f"the same, speed-up over one process / {cores} cores",
        seconds=wall,
        yardstick="the same in one process",
        its_seconds=one,
        ratio=one / (wall * cores),
        target="≥ 0.8",
    )


def main() -> None:
    quick = arguments(__doc__ or "").quick
    table = Table(
        "utility",
        "Utility measures",
        "Ratios are of CPU time to a yardstick in the same run. The experiment has two: the share of the "
        "workers' time spent in runs (which counts waiting for a busy core as work), and the speed-up over "
        "one process divided by the cores, which is the efficiency asked for and needs a quiet machine.",
    )
    information_loss(table, 100_000 if quick else 1_000_000, 3)
    propensity(table, 100_000 if quick else 1_000_000, 2 if quick else 3)
    experiment(table, 8 if quick else 100)
    information_loss_large(table, 200_000 if quick else 10_000_000)
    if not quick:
        table.save()


if __name__ == "__main__":
    main()
