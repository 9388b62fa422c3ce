"""A release of data that many hold: a folder of Parquet files, each written and read back by one of them.

Read in the order of their names the files hold the records in the order that a single file would have. Which
file a record goes to, and where in it, its addressed bits say; households are numbered at one place, from
their column alone. The driver sees counts and digests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.contract.engine import InParts
from sfumato.contract.mask import bound_to
from sfumato.data.microdata import Microdata
from sfumato.draws import Stream
from sfumato.errors import ReleaseError
from sfumato.release.manifest import line
from sfumato.release.order import (
    PLACE,
    Numbering,
    digest_of,
    kept_together,
    new_households,
    numbering_of,
    place_type,
)

if TYPE_CHECKING:
    from sfumato.run.run import Run

PART: Final = 1 << 20
"""About how many records a file has."""
_HOME, _NUMBER, _BITS = "\x1fhome", "\x1fnumber", "\x1fbits"


@dataclass(frozen=True)
class WrittenPart:
    """What went into one file."""

    name: str
    digest: int
    records: int
    as_it_was: bool
    same: dict[str, int]
    types: dict[str, pl.DataType]


def write_parts(run: Run, columns: list[str], folder: Path, places: Path) -> list[WrittenPart]:
    """Write the released records into ``folder``, and where each stood into ``places``."""
    masked = run.masked
    assert isinstance(masked, InParts)
    folder.mkdir(mode=0o755)
    places.mkdir(mode=0o700)
    draws = bound_to(run.seed, run.original).draws("release")
    shuffle, household = run.plan.release.shuffle, kept_together(run)
    numbering = numbering_of(run, columns)
    top = 0
    if household is not None:
        order = draws.stream(purpose="households") if shuffle else None
        masked, top = masked.at_one_place(_Homes(household, order), [household], _HOME_TYPES)
        assert isinstance(masked, InParts)
    parts = max(1, -(-len(masked) // PART))
    stream = draws.stream(purpose="order") if shuffle else None
    source = _Source(masked, run.original, numbering, stream, household is not None, top, parts, PART)
    starts = range(0, len(masked), PART)
    counts = np.sum(masked.each(source.counts, starts), axis=0) if shuffle else np.full(parts, PART)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    finish = _Finish(numbering, folder, places, first.tolist(), household is not None)
    if shuffle:
        return masked.spread(source.pieces, starts, parts, finish)
    return masked.each(_AsItStands(source, finish), starts)


# -- what is done where the records are -----------------------------------------------------------

_HOME_TYPES: Final[dict[str, pl.DataType]] = {_HOME: pl.UInt64(), _NUMBER: pl.Int64()}


@dataclass(frozen=True)
class _Homes:
    """Each record's household: its place in the release's order of households, and its new number."""

    household: str
    order: Stream | None

    def __call__(self, data: Microdata) -> tuple[pl.DataFrame, int]:
        if self.order is None:
            number = new_households(data, self.household, np.arange(len(data)))
            return pl.DataFrame({_HOME: np.zeros(len(data), np.uint64), _NUMBER: number}), 0
        codes, size = data.households(self.household)
        alone = data.missing(self.household)
        place = self.order.permutation(size)
        counted = np.zeros(size, np.bool_)
        counted[place[codes[~alone]]] = True  # who has none is a household of his own, without a number
        number = np.where(alone, 0, np.cumsum(counted)[place[codes]])
        return pl.DataFrame({_HOME: place[codes].astype(np.uint64), _NUMBER: number}), size


@dataclass(frozen=True)
class _Source:
    """Records as they stand, with the keys that they are sorted by."""

    masked: InParts
    original: Microdata
    numbering: Numbering
    stream: Stream | None
    homes: bool
    top: int
    """Households sort by their place among so many; 0 where records sort by their bits alone."""
    parts: int
    size: int
    """Records that are read at a time."""

    def counts(self, start: int) -> npt.NDArray[np.int64]:
        """How many records go to each part."""
        homes = self._homes(start).get_column(_HOME).to_numpy() if self.homes else None
        length = min(self.size, len(self.masked) - start)
        return np.bincount(self._which(homes, self._bits(start, length)), minlength=self.parts)

    def raw(self, start: int) -> pl.DataFrame:
        frame = self.numbering.raw(self.masked, self.original, start, self.size)
        if self.stream is not None:
            frame = frame.with_columns(pl.Series(_BITS, self._bits(start, frame.height)))
        return frame.with_columns(self._homes(start).get_columns()) if self.homes else frame

    def pieces(self, start: int) -> Iterator[tuple[int, pl.DataFrame]]:
        frame = self.raw(start)
        homes = frame.get_column(_HOME).to_numpy() if self.homes else None
        which = self._which(homes, frame.get_column(_BITS).to_numpy())
        order = np.argsort(which, kind="stable")
        frame = frame.select(pl.all().gather(pl.Series(order)))
        ends = np.searchsorted(which[order], np.arange(self.parts + 1))
        for number in range(self.parts):
            low, high = int(ends[number]), int(ends[number + 1])
            if low < high or start == 0:
                yield number, frame.slice(low, high - low)

    def _bits(self, start: int, length: int) -> npt.NDArray[np.uint64]:
        assert self.stream is not None
        return self.stream.bits(start, length)

    def _homes(self, start: int) -> pl.DataFrame:
        return self.masked.only([_HOME, _NUMBER]).slice(start, self.size).frame

    def _which(
        self, homes: npt.NDArray[np.uint64] | None, bits: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.int64]:
        """The part of each record: an even share of the households, or of all there can be of bits."""
        parts = np.uint64(self.parts)
        if homes is not None:
            return (homes * parts // np.uint64(max(self.top, 1))).astype(np.int64)
        return ((bits >> np.uint64(32)) * parts >> np.uint64(32)).astype(np.int64)


@dataclass(frozen=True)
class _Finish:
    """Writes one part in its order. It may be written twice, and by two at once: it is the same file."""

    numbering: Numbering
    folder: Path
    places: Path
    first: list[int]
    homes: bool

    def __call__(self, number: int, pieces: list[pl.DataFrame]) -> WrittenPart:
        from sfumato.io import write_chunks

        frame = pl.concat(pieces, rechunk=True)
        keys = [c for c in (_HOME, _BITS) if c in frame.columns]
        frame = frame.sort([*keys, PLACE])
        start = self.first[number]
        made = self.numbering.numbered(frame, start, frame[_NUMBER].to_numpy() if self.homes else None)
        name = part_name(number)
        write_chunks(self.folder / name, [made.frame], format="parquet", overwrite=True)
        stood = (made.source + 1).astype(place_type(self.numbering.records))
        order = pl.DataFrame({"source_record": stood})
        write_chunks(self.places / name, [order], format="parquet", overwrite=True, compression="lz4")
        as_it_was = bool((made.source == np.arange(len(made.source)) + start).all())
        types = dict(made.frame.schema)
        return WrittenPart(name, digest_of(made.frame), frame.height, as_it_was, made.same, types)


@dataclass(frozen=True)
class _AsItStands:
    """Writes a part of a release that keeps its order."""

    source: _Source
    finish: _Finish

    def __call__(self, start: int) -> WrittenPart:
        return self.finish(start // self.source.size, [self.source.raw(start)])


def part_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


# -- the look back --------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartRead:
    """What a file holds when it is read back, and the manifest's lines for it and for its places."""

    digest: int
    records: int
    columns: list[str]
    metadata: bool
    lines: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class _ReadBack:
    folder: Path
    places: Path

    def __call__(self, name: str) -> PartRead:
        import pyarrow.parquet as pq

        frame = pl.read_parquet(self.folder / name)
        metadata = pq.read_metadata(self.folder / name).metadata or {}
        foreign = any(k != b"ARROW:schema" for k in metadata)
        both = {p.as_posix(): line(p) for p in (self.folder / name, self.places / name)}
        return PartRead(digest_of(frame), frame.height, frame.columns, foreign, both)


def check_parts(
    run: Run, folder: Path, places: Path, columns: list[str], written: list[WrittenPart]
) -> dict[str, dict[str, Any]]:
    """Every file read back by whoever is free; the manifest's lines, by path."""
    assert isinstance(run.masked, InParts)
    names = [part.name for part in written]
    there = sorted(p.name for p in folder.iterdir())
    if there != sorted(names) or sorted(p.name for p in places.iterdir()) != sorted(names):
        raise ReleaseError("the release has other files than were written; nothing was released")
    back = run.masked.each(_ReadBack(folder, places), names)
    for part, read in zip(written, back, strict=True):
        if read.columns != columns or (read.records, read.digest) != (part.records, part.digest):
            raise ReleaseError("the released file isn't what was written; nothing was released")
        if read.metadata:
            raise ReleaseError("the released file carries metadata; nothing was released")
    return {path: line for read in back for path, line in read.lines.items()}
