"""Which engine carries a plan out: the one asked for, or the one that fits the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sfumato.contract.engine import Engine, bytes_per_record
from sfumato.engines.memory import Memory
from sfumato.engines.streaming import Streaming
from sfumato.errors import InputError
from sfumato.io.arrow import is_parquet, parquet_files

SHARE: Final = 0.25
"""A file that takes more than this share of the memory isn't carried out in memory by itself: a step may
need its columns three times over."""


def engine_named(
    name: str, data: Path | None, *, scratch: Path | None = None, master: str | None = None
) -> Engine:
    """An engine by its name, for a plan's file."""
    if name == "memory":
        return Memory()
    if data is None or not is_parquet(data):
        raise InputError(
            f"--engine {name} reads Parquet, and the plan's data are {data.name if data else 'not named'}",
            hint="write them as Parquet first: sf.read(path), then sf.write(data, 'people.parquet')",
        )
    if name == "spark":
        from sfumato.engines.spark import Spark

        # Beside the data, where nothing else is said: that disk all executors see.
        return Spark(master, scratch or data.absolute().parent)
    return Streaming(scratch)


def too_large(path: Path) -> str | None:
    """A sentence where a Parquet file would take more than its share of the memory."""
    memory = _memory()
    if memory is None or not is_parquet(path) or not path.exists():
        return None
    needed = _size(path)
    if needed is None or needed <= SHARE * memory:
        return None
    return f"{path.name} would take {needed / 2**30:.1f} of {memory / 2**30:.1f} GiB of memory"


def _size(path: Path) -> int | None:
    """About how many bytes the file takes in memory."""
    import polars as pl

    try:
        scan = pl.scan_parquet(parquet_files(path), glob=False)
        width = bytes_per_record(dict(scan.collect_schema()))
        return width * int(scan.select(pl.len()).collect().item())
    except (OSError, InputError, pl.exceptions.PolarsError):
        return None  # whoever reads the file says what is wrong with it


def _memory() -> int | None:
    try:
        return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None
