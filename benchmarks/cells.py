"""Key combinations: counting, recoding, suppression and SUDA against Polars group-bys."""

from __future__ import annotations

import itertools
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parent))
import sfumato as sf
from harness import Table, arguments, time_it
from sfumato.cells import CellTable, combinations_up_to
from sfumato.draws import Seed
from sfumato.masks.microaggregate import Microaggregate
from sfumato.masks.suppress import LocalSuppress
from sfumato.risk.suda import Suda
from sfumato.risk.tolerance import Tolerance

ABOUT = """Each line has a yardstick from the same run. Times are the best of a few (wall) on a
machine that others used at the same time, so ratios count, and the ratio of CPU times most: it feels
neighbours the least. `six` has six skewed keys of 2 to 40 levels, of which about 5% of the records are
unsafe at a tolerance of 3; `twenty` has twenty keys of 3 to 12 levels. A whole assessment
codes the keys, counts every combination and finds the unsafe ones of all keys together
and, where said, of all subsets."""


def six_keys(n: int, seed: int = 0) -> pl.DataFrame:
    """Six keys, skewed so that few records are rare: about 5% at 1e6 records."""
    rng = np.random.default_rng(seed)
    sizes = [40, 2, 12, 4, 6, 8]
    steep = [1.3, 0.2, 1.3, 1.2, 1.4, 1.5]
    # Smaller files have fewer levels, so that about as many records are unsafe.
    scale = min(1.0, (n / 1e6) ** 0.2)
    out = {}
    for j, (size, power) in enumerate(zip(sizes, steep, strict=True)):
        levels = max(2, round(size * scale))
        weight = 1 / np.arange(1, levels + 1) ** power
        out[f"k{j}"] = rng.choice(levels, n, p=weight / weight.sum())
    return pl.DataFrame(out)


def twenty_keys(n: int) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    out = {}
    for j in range(20):
        size = int(rng.integers(3, 13))
        weight = 1 / np.arange(1, size + 1) ** 1.6
        out[f"k{j}"] = rng.choice(size, n, p=weight / weight.sum())
    return pl.DataFrame(out)


def main() -> None:
    quick = arguments(__doc__ or "").quick
    table = Table("cells", "Key combinations", ABOUT)
    n = 100_000 if quick else 1_000_000

    def row(case: str, target: str, timing: object, yard: str, yard_seconds: float, yard_cpu: float) -> None:
        t = timing
        table.add(
            case=case,
            seconds=t.seconds,  # type: ignore[attr-defined]
            peak_MiB=round(t.peak_bytes / 2**20),  # type: ignore[attr-defined]
            yardstick=yard,
            yardstick_seconds=yard_seconds,
            ratio=t.seconds / yard_seconds,  # type: ignore[attr-defined]
            cpu_ratio=t.cpu_seconds / yard_cpu,  # type: ignore[attr-defined]
            target=target,
        )

    frame = six_keys(n)
    keys = frame.columns
    data = sf.Microdata(frame)
    group_by = time_it(lambda: frame.group_by(keys).len())
    yard = ("one group_by", group_by.seconds, group_by.cpu_seconds)
    whole = Tolerance(keys=keys, tolerance=3)
    assess = time_it(lambda: whole.assess(data))
    row(f"six, {n:.0e}: whole assessment", "≤ 3", assess, *yard)
    unsafe = assess.value.records_unsafe / n
    everything = Tolerance(keys=keys, tolerance=3, max_dimension=6)
    row(f"six, {n:.0e}: the same with all 63 subsets", "", time_it(lambda: everything.assess(data)), *yard)

    cells = data.cells(keys)
    classes = [v // 4 for v in range(len(cells.levels["k0"]))]
    recode = time_it(lambda: cells.recode("k0", classes), repeat=5)
    row(f"six, {n:.0e}: recode on {len(cells):,} cells", "≤ 0.06 s", recode, *yard)

    fewer = sf.Microdata(six_keys(n // 4))
    quarter = time_it(lambda: whole.assess(fewer))
    row("growth: 4 times the records", "about 4", assess, "a quarter", quarter.seconds, quarter.cpu_seconds)

    draws = Seed.from_int(1).draws("x")
    greedy = LocalSuppress(keys=keys, tolerance=3, method="greedy")
    t = time_it(lambda: greedy.carry_out(data, draws), repeat=2)
    own = ("assessment", assess.seconds, assess.cpu_seconds)
    row(f"LocalSuppress greedy, {n:.0e}, {100 * unsafe:.1f}% unsafe", "≤ 20", t, *own)

    m = n // 10
    small = sf.Microdata(six_keys(m))
    assess_small = time_it(lambda: whole.assess(small), repeat=5)
    share = assess_small.value.records_unsafe / m
    own = ("assessment", assess_small.seconds, assess_small.cpu_seconds)
    optimal = LocalSuppress(keys=keys, tolerance=3)
    t = time_it(lambda: optimal.carry_out(small, draws), repeat=2)
    row(f"LocalSuppress optimal, {m:.0e}, {100 * share:.1f}% unsafe", "≤ 50", t, *own)
    family = LocalSuppress(keys=keys, tolerance=3, max_dimension=3)
    t = time_it(lambda: family.carry_out(small, draws), repeat=2)
    row(f"LocalSuppress optimal, {m:.0e}, all sets up to 3", "", t, *own)

    wide = twenty_keys(n)
    triples = list(itertools.combinations(wide.columns, 3))
    sample = triples[::20]
    polars = time_it(lambda: [wide.group_by(s).len() for s in sample], repeat=1, warm_up=False)
    scale = len(triples) / len(sample)
    yard = (
        f"{len(triples):,} group_bys (from {len(sample)})",
        polars.seconds * scale,
        polars.cpu_seconds * scale,
    )
    micro = sf.Microdata(wide)
    t = time_it(lambda: CellTable.of(micro, wide.columns).assess(3, triples), repeat=1)
    row(f"twenty, {n:.0e}: all 1,140 triples, counted and flagged", "≤ 0.1, < 4 GiB", t, *yard)

    eight = six_keys(m, 3).with_columns(a=pl.int_range(m) % 7, b=pl.int_range(m) % 11)
    size = eight.estimated_size() / 2**20
    suda = Suda(keys=eight.columns)
    t = time_it(lambda: suda.measure(eight), repeat=1)
    tracemalloc.start()
    suda.measure(eight)
    traced = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    counted = time_it(
        lambda: [eight.group_by(s).len() for s in combinations_up_to(eight.columns, 8)], repeat=1
    )
    row(
        f"SUDA, {m:.0e} × 8 keys (frame {size:.1f} MiB, arrays at most {traced:.0f} MiB)",
        f"arrays ≤ {5 * size:.0f} MiB",
        t,
        "255 group_bys",
        counted.seconds,
        counted.cpu_seconds,
    )

    half = m // 2
    normal = np.random.default_rng(0).normal(size=(half, 5))
    every, fourth = (
        sf.Microdata(pl.DataFrame(x, schema=list("abcde"))) for x in (normal, normal[: half // 4])
    )
    mdav = Microaggregate(columns=list("abcde"), k=3)
    t = time_it(lambda: mdav.carry_out(fourth, draws), repeat=1)
    t4 = time_it(lambda: mdav.carry_out(every, draws), repeat=1, warm_up=False)
    row(f"MDAV, {half:.0e} × 5, k = 3", "about 16", t4, "a quarter of the records", t.seconds, t.cpu_seconds)
    if not quick:
        table.save()


if __name__ == "__main__":
    main()
