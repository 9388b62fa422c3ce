"""How fast the census deck is made: households a minute, whole and in chunks written to Parquet.

The yardstick is the same number of records of the same width made of plain uniform draws by NumPy.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import sfumato as sf
from harness import Table, arguments, time_it


def plain(n: int, columns: int) -> pl.DataFrame:
    """As many columns of integer draws: what a frame of that size costs at the least."""
    rng = np.random.default_rng(1)
    return pl.DataFrame({f"c{i}": (rng.random(n) * 100).astype(np.int64) for i in range(columns)})


def to_parquet(n: int, chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for i, piece in enumerate(sf.decks.household_chunks(n, chunk=chunk)):
            piece.frame.write_parquet(Path(folder) / f"{i}.parquet")


def main() -> None:
    quick = arguments(__doc__ or "").quick
    n = 100_000 if quick else 500_000
    table = Table(
        "decks",
        "Making census households",
        "Target: at least 2 million households a minute. Rates are by CPU time, best of three. The yardstick "
        "is a frame of as many columns of plain uniform draws, made in the same run.",
    )
    width = len(sf.decks.households(1).columns)
    base = time_it(lambda: plain(n, width))
    for name, make in (
        ("households", lambda: sf.decks.households(n)),
        ("persons of them", lambda: sf.decks.persons(n)),
        ("households in chunks of 100,000, to Parquet", lambda: to_parquet(n, 100_000)),
    ):
        took = time_it(make)
        table.add(
            what=name,
            households=n,
            cpu_seconds=took.cpu_seconds,
            millions_a_minute=n / took.cpu_seconds * 60 / 1e6,
            times_plain_draws=took.cpu_seconds / base.cpu_seconds,
            peak_MiB=took.peak_bytes / 2**20,
        )
    if not quick:
        table.save()


if __name__ == "__main__":
    main()
