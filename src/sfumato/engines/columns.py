"""Columns on a disk: where each column of a held file stands, and how its records are read by their place."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import polars as pl


class Place(Protocol):
    """Where some columns stand."""

    def read(self, columns: Sequence[str], start: int, length: int | None) -> pl.DataFrame:
        """Records start … start+length−1 of these columns (all from ``start`` on, without a length)."""


@dataclass(frozen=True, eq=False)
class ParquetPlace:
    """The columns of a Parquet file (or of what Polars makes of one while it is read)."""

    scan: pl.LazyFrame

    def read(self, columns: Sequence[str], start: int, length: int | None) -> pl.DataFrame:
        return self.scan.select(list(columns)).slice(start, length).collect()


@dataclass(frozen=True, eq=False)
class ChunkPlace:
    """Columns in a folder of Arrow files, each of so many records (the last of fewer)."""

    folder: Path
    records: int
    chunk: int

    def starts(self) -> range:
        """The place of the first record of each file."""
        return range(0, self.records, self.chunk)

    def read(self, columns: Sequence[str], start: int, length: int | None) -> pl.DataFrame:
        end = self.records if length is None else min(self.records, start + length)
        first, last = start // self.chunk, max(start, end - 1) // self.chunk
        parts = []
        for number in range(first, last + 1):
            part = pl.read_ipc(_name(self.folder, number), columns=list(columns))
            low = max(start - number * self.chunk, 0)
            parts.append(part.slice(low, end - number * self.chunk - low))
        return pl.concat(parts, rechunk=len(parts) > 1)


def write_chunks(folder: Path, chunks: Iterable[pl.DataFrame], records: int, chunk: int) -> ChunkPlace:
    """Write frames of ``chunk`` records each (the last of fewer) into a new folder."""
    folder.mkdir(mode=0o700)
    for number, frame in enumerate(chunks):
        write_chunk(folder, number, frame)
    return ChunkPlace(folder, records, chunk)


def write_chunk(folder: Path, number: int, frame: pl.DataFrame) -> None:
    """Write one of the frames, whole or not at all: it may be made twice, and by two at once."""
    part = folder / f".{number}-{secrets.token_hex(8)}"
    frame.write_ipc(part, compression="uncompressed")
    part.replace(_name(folder, number))


def cut(frame: pl.DataFrame, chunk: int) -> Iterator[pl.DataFrame]:
    """A frame in pieces of ``chunk`` records; at least one."""
    for start in range(0, max(frame.height, 1), chunk):
        yield frame.slice(start, chunk)


def _name(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.arrow"
