"""Risk measures of keys and populations against Polars group-bys."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from scipy.special import ndtr

sys.path.insert(0, str(Path(__file__).parent))
import sfumato as sf
from harness import Table, Timing, arguments, time_it
from sfumato.cells import CellTable
from sfumato.cells.population import population_counts

ABOUT = """Each line has a yardstick from the same run: one Polars group_by of the same keys over the same
records. Others used the machine at the same time, so the ratio of CPU times counts. The keys are
dependent and skewed. The log-linear lines fit all two-way interactions of six keys: of 8 million
combinations, and of a thousand million, of which all but a million are empty and enter through margins
only."""


def dependent(n: int, sizes: tuple[int, ...], seed: int = 1) -> pl.DataFrame:
    """Keys that share a normal factor, skewed towards their first levels."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=n)
    out = {}
    for j, size in enumerate(sizes):
        u = ndtr((0.6 * shared + rng.normal(size=n)) / np.sqrt(1.36))
        out[f"k{j}"] = (u**1.5 * size).astype(np.int16)
    return pl.DataFrame(out)


def main() -> None:
    quick = arguments(__doc__ or "").quick
    table = Table("risk", "Risk of keys and populations", ABOUT)
    n = 100_000 if quick else 1_000_000

    def row(case: str, work: Callable[[], object], yard: Timing, target: str = "", repeat: int = 1) -> None:
        timing = time_it(work, repeat=repeat, warm_up=repeat > 1)
        table.add(
            case=case,
            seconds=timing.seconds,
            cpu_seconds=timing.cpu_seconds,
            peak_MiB=round(timing.peak_bytes / 2**20),
            group_by_cpu_seconds=yard.cpu_seconds,
            cpu_ratio=timing.cpu_seconds / yard.cpu_seconds,
            target=target,
        )

    frame = dependent(n, (100, 50, 16, 10, 5, 2))
    keys = frame.columns
    data = sf.Microdata(frame)
    six = time_it(lambda: frame.group_by(keys).len())
    two_way = sf.PopulationRisk(keys=keys, interactions="two_way", sampling_percent=1)
    two_way.measure(data.slice(0, 1000))  # compiles
    row(
        f"log-linear, {n:,} records, 6 keys, all two-way",
        lambda: two_way.measure(data),
        six,
        "seconds, < 2 GiB",
    )
    rule = sf.PopulationRisk(keys=keys, model="dankar", sampling_percent=1)
    row("Dankar's rule", lambda: rule.measure(data), six)
    some = ["k1", "k2", "k3", "k4"]
    pay = np.random.default_rng(2).lognormal(7, 1, n).round(-1)
    few = frame.select(*some, pl.col("k0").alias("job"), pl.Series("pay", pay))
    people = sf.Microdata(few)
    yard = time_it(lambda: few.group_by(some).len(), repeat=5)
    for distance, column in (("equal", "job"), ("ordered", "pay")):
        near = sf.TCloseness(keys=some, sensitive=[column], distance=distance)
        case = f"t-closeness, {distance}, {n:,} records"
        row(case, lambda near=near: near.measure(people), yard, "5 group_bys", repeat=5)

    big = dependent(10 * n, (100, 50, 16, 10, 5, 2), seed=7)
    population = sf.Microdata(big)
    yard = time_it(lambda: big.group_by(keys).len(), repeat=2)
    sample = CellTable.of(data, keys)
    case = f"k-map, {n:,} records in a population of {10 * n:,}"
    row(case, lambda: population_counts(sample, population), yard, "3 group_bys", repeat=2)

    sets = sf.ThresholdViolations(keys=keys, max_dimension=3, tolerance=3)
    row("threshold violations, 6 keys, 41 sets", lambda: sets.measure(data), six)
    twelve = dependent(n, (2, 3, 4, 5, 6, 8, 8, 10, 12, 16, 20, 40), seed=3)
    yard = time_it(lambda: twelve.group_by(twelve.columns).len())
    for size in (3, 4, 12):
        suda = sf.Suda(keys=twelve.columns, max_size=size)
        case = f"SUDA, {n:,} records, 12 keys, sets of up to {size}"
        row(case, lambda s=suda: s.measure(sf.Microdata(twelve)), yard)
    if not quick:
        wide = dependent(n, (100, 100, 50, 20, 10, 10))
        many = sf.Microdata(wide)
        yard = time_it(lambda: wide.group_by(keys).len())
        row("log-linear, a thousand million combinations", lambda: two_way.measure(many), yard, "< 2 GiB")
        table.save()


if __name__ == "__main__":
    main()
