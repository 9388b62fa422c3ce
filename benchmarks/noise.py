"""Noise masks against one line of NumPy: ``rng.standard_normal((n, 10)) @ L.T + X``.

``python benchmarks/noise.py [--quick]`` writes docs/benchmarks/noise.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from harness import Table, Timing, arguments, time_it

ABOUT = """
Correlated noise on 10 columns of doubles. The yardstick is `rng.standard_normal((n, 10)) @ L.T + X` in
NumPy, in the same run, with L given: it neither reads a frame, nor estimates a covariance, nor verifies
anything. Ours does all three, and its draws are addressed, so that they don't depend on threads or
chunks. Best of several runs. The machine is shared by others, so that CPU time is the fairer column;
two threads are judged by wall time, the best of several.
"""


def columns(m: int = 10) -> list[str]:
    return [f"C{j}" for j in range(m)]


def made(n: int, m: int = 10) -> np.ndarray[Any, np.dtype[np.float64]]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((n, m)) @ np.tril(rng.standard_normal((m, m))).T * 1000 + 20_000


def row(table: Table, what: str, timing: Timing, yard: Timing, n: int) -> None:
    table.add(
        what=what,
        records=n,
        seconds=timing.seconds,
        cpu_seconds=timing.cpu_seconds,
        times_numpy_wall=timing.seconds / yard.seconds,
        times_numpy_cpu=timing.cpu_seconds / yard.cpu_seconds,
        peak_MB=timing.peak_bytes / 1e6,
    )


def in_memory(table: Table, n: int) -> None:
    x = made(n)
    data = sf.Microdata(pl.DataFrame({c: x[:, j] for j, c in enumerate(columns())}))
    whole = sf.Microdata(data.frame.select(pl.all().round().cast(pl.Int64)))
    lower = np.linalg.cholesky(np.cov(x.T))
    rng = np.random.default_rng(2)
    yard = time_it(lambda: rng.standard_normal((n, 10)) @ lower.T + x, repeat=5)
    row(table, "NumPy: standard_normal @ L.T + X", yard, yard, n)
    noise = sf.AdditiveNoise(columns=columns(), variance_ratio=0.1)
    os.environ["SFUMATO_THREADS"] = "2"
    two = time_it(lambda: noise.mask(data, seed=1), repeat=5)
    row(table, "AdditiveNoise, 2 threads", two, yard, n)
    os.environ["SFUMATO_THREADS"] = "1"
    one = time_it(lambda: noise.mask(data, seed=1), repeat=5)
    row(table, f"AdditiveNoise, 1 thread ({one.seconds / two.seconds:.2f}x the time of 2)", one, yard, n)
    os.environ["SFUMATO_THREADS"] = "2"
    for what, mask, given in (
        ("AdditiveNoise, whole numbers (unbiased rounding)", noise, whole),
        (
            "AdditiveNoise, rescaled",
            sf.AdditiveNoise(columns=columns(), variance_ratio=0.1, rescale=True),
            data,
        ),
        ("AdditiveNoise, exact", sf.AdditiveNoise(columns=columns(), variance_ratio=0.1, exact=True), data),
        ("MixtureNoise", sf.MixtureNoise(columns=columns(), variance_ratio=0.1), data),
    ):
        row(table, what, time_it(lambda m=mask, g=given: m.mask(g, seed=1), repeat=2), yard, n)


STREAM = """
import sys, time, resource, polars as pl, pyarrow.parquet as pq, sfumato as sf
from sfumato.draws import Seed
from sfumato.contract.mask import Notes
source, target, step = sys.argv[1], sys.argv[2], 1 << 20
data = sf.Microdata(pl.scan_parquet(source))
mask = sf.AdditiveNoise(columns=data.columns, variance_ratio=0.1)
draws, start, cpu = Seed.from_int(1).draws("noise"), time.perf_counter(), time.process_time()
state, writer = mask._fit(data, draws, Notes()), None
for place in range(0, len(data), step):
    chunk = sf.Microdata(pl.scan_parquet(source).slice(place, step).collect(), data.schema)
    part = mask._rows(chunk, place, state, draws).frame.to_arrow()
    writer = writer or pq.ParquetWriter(target, part.schema)
    writer.write_table(part)
writer.close()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(time.perf_counter() - start, time.process_time() - cpu, peak)
"""


def streamed(table: Table, n: int) -> None:
    """Parquet in, Parquet out, in a process of its own, whose whole peak memory is counted."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.parquet", Path(folder) / "out.parquet"
        frame = pl.DataFrame({c: v for c, v in zip(columns(), made(n).T, strict=True)})
        frame.write_parquet(source)
        del frame
        out = subprocess.run(
            [sys.executable, "-c", STREAM, str(source), str(target)],
            check=True,
            capture_output=True,
            text=True,
        )
        seconds, cpu, gigabytes = (float(v) for v in out.stdout.split())
    table.add(
        what=f"AdditiveNoise, Parquet to Parquet; peak of the whole process {gigabytes:.2f} GB",
        records=n,
        seconds=seconds,
        cpu_seconds=cpu,
        peak_MB=gigabytes * 1e3,
    )


def main() -> None:
    args = arguments("noise masks against NumPy")
    table = Table("noise", "Noise", ABOUT)
    in_memory(table, 100_000 if args.quick else 1_000_000)
    streamed(table, 1_000_000 if args.quick else 10_000_000)
    if not args.quick:
        table.save()


if __name__ == "__main__":
    main()
