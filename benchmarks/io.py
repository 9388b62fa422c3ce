"""Reading and writing files, against the bare libraries beneath."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pyreadstat

import sfumato as sf
from harness import Table, Timing, arguments, time_it
from sfumato.io import write_chunks
from sfumato.plan.suggest.roles import suggest

ABOUT = """
One file of six whole-number columns, four of amounts with cents and two of text. Times are the best of
several runs on a shared machine, so the ratios of CPU time say more than those of wall time; `ratio` is
wall time over the yardstick's, `cpu ratio` CPU time over the yardstick's. Reading CSV types columns from
all their values; the second yardstick does so too, the first looks at 100 rows only.
Reading SPSS starts a process that tries the metadata first; its CPU time isn't in the ratio, its wall time
is. Peaks are above a warm start, where memory is used again: they are a lower bound.
"""


def frame(n: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"i{j}": rng.integers(0, 10 ** (j + 1), n) for j in range(6)}
    columns |= {f"f{j}": np.round(rng.lognormal(8, 1, n), 2) for j in range(4)}
    columns |= {f"s{j}": rng.choice(["north", "south", "east", "west"], n) for j in range(2)}
    return pl.DataFrame(columns)


def main() -> None:
    quick = arguments(ABOUT).quick
    n = 50_000 if quick else 200_000
    table = Table("io", "Files", ABOUT)
    repeat = 1 if quick else 3

    def row(what: str, ours: Timing, against: str, theirs: Timing) -> None:
        table.add(
            what=what, records=n, seconds=ours.seconds, against=against, ratio=ours.seconds / theirs.seconds,
            cpu_ratio=ours.cpu_seconds / max(theirs.cpu_seconds, 1e-9), peak_MiB=ours.peak_bytes / 2**20,
        )  # fmt: skip

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = frame(n)
        csv, parquet, sav = folder / "x.csv", folder / "x.parquet", folder / "x.sav"
        data.write_csv(csv)
        data.write_parquet(parquet)
        pyreadstat.write_sav(data, str(sav))

        ours = time_it(lambda: sf.read(csv), repeat=repeat)
        row("read CSV", ours, "polars.read_csv", time_it(lambda: pl.read_csv(csv), repeat=repeat))
        whole = time_it(lambda: pl.read_csv(csv, infer_schema_length=None), repeat=repeat)
        row("read CSV", ours, "polars.read_csv, all rows typed", whole)
        one = time_it(lambda: sf.read(csv, lazy=True).column("i3"), repeat=repeat)
        row("read CSV lazily, one column", one, "polars.read_csv, all rows typed", whole)

        ours = time_it(lambda: sf.read(parquet), repeat=repeat)
        bare = time_it(lambda: pl.read_parquet(parquet), repeat=repeat)
        row("read Parquet", ours, "polars.read_parquet", bare)
        one = time_it(lambda: sf.read(parquet, lazy=True).column("i3"), repeat=repeat)
        row("read Parquet lazily, one column", one, "polars.read_parquet", bare)

        ours = time_it(lambda: sf.read(sav), repeat=1)
        bare = time_it(
            lambda: pyreadstat.read_sav(str(sav), user_missing=True, output_format="polars"), repeat=1
        )
        row("read SPSS", ours, "pyreadstat.read_sav", bare)

        out = folder / "out.parquet"
        bare = time_it(lambda: data.write_parquet(out), repeat=repeat)
        ours = time_it(lambda: sf.write(data, out, overwrite=True), repeat=repeat)
        row("write Parquet", ours, "DataFrame.write_parquet", bare)
        size = 1 << 18
        parts = [data.slice(i, size) for i in range(0, n, size)]
        ours = time_it(lambda: write_chunks(out, iter(parts), overwrite=True), repeat=repeat)
        row("write_chunks, Parquet", ours, "DataFrame.write_parquet", bare)
        assert pq.read_metadata(out).num_rows == n
        text = folder / "out.csv"
        bare = time_it(lambda: data.write_csv(text), repeat=repeat)
        ours = time_it(lambda: write_chunks(text, iter(parts), overwrite=True), repeat=repeat)
        row("write_chunks, CSV", ours, "DataFrame.write_csv", bare)

        ours = time_it(lambda: suggest(data), repeat=1)
        row("suggest a schema", ours, "polars.read_csv, all rows typed", whole)
    if not quick:
        table.save()


if __name__ == "__main__":
    main()
