"""Larger than memory, on one machine: Parquet in, Parquet out, a few blocks of records at a time.

The file stays where it is. What a step changes is written beside it, column by column, into a folder that is
gone when the engine is closed. A step that treats records by themselves sees a block at a time; one that
needs whole columns gets those, one column (and its strata) at a time where that is enough.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

import numpy as np
import polars as pl

from sfumato.contract.engine import Held, Mapped, Work
from sfumato.data.microdata import BLOCK, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.engines.columns import ParquetPlace, Place, cut, write_chunks
from sfumato.io.atomic import Scratch
from sfumato.parallel import in_turn

T = TypeVar("T")
CHUNK: Final = BLOCK
"""Records that are masked at a time."""


class Streamed(Held):
    """A file whose columns stand on a disk."""

    def __init__(
        self,
        places: Mapping[str, Place],
        types: Mapping[str, pl.DataType],
        records: int,
        schema: Schema,
        engine: Streaming,
    ) -> None:
        self.places, self.types, self.records, self.engine = dict(places), dict(types), records, engine
        self._explained_by(schema)

    # -- what it is -------------------------------------------------------------------------------

    @property
    def _types(self) -> dict[str, pl.DataType]:
        return self.types

    @property
    def _height(self) -> int:
        return self.records

    @property
    def _source(self) -> pl.DataFrame:  # type: ignore[override]
        return self.frame

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The whole file, in memory."""
        return self.select(self.columns)

    def column(self, name: str) -> pl.Series:
        return self.select([name]).to_series()

    def select(self, columns: Sequence[str]) -> pl.DataFrame:
        return self._read(columns, 0, None)

    def slice(self, start: int, length: int) -> Microdata:
        return Microdata(self._read(self.columns, start, length), self.schema)

    def only(self, columns: Sequence[str]) -> Self:
        types = {c: self.dtype(c) for c in columns}
        return type(self)(self.places, types, self.records, self.schema.restricted_to(types), self.engine)

    def take(self, rows: IntArray) -> Microdata:
        """Some records, block by block: never more of the file than a block."""
        order = np.argsort(rows, kind="stable")
        ends = np.searchsorted(rows[order], np.arange(0, self.records + BLOCK, BLOCK))
        parts = []
        for number, (low, high) in enumerate(itertools.pairwise(ends)):
            if low < high:
                here = pl.Series(rows[order[low:high]] - number * BLOCK)
                parts.append(self._read(self.columns, number * BLOCK, BLOCK).select(pl.all().gather(here)))
        frame = pl.concat(parts) if parts else self._read(self.columns, 0, 0)
        back = np.empty(len(rows), dtype=np.int64)
        back[order] = np.arange(len(rows))
        return Microdata(frame.select(pl.all().gather(pl.Series(back))), self.schema)

    def shares(self, other: Microdata, column: str) -> bool:
        return isinstance(other, Streamed) and self.places[column] is other.places[column]

    def _read(self, columns: Sequence[str], start: int, length: int | None) -> pl.DataFrame:
        by_place: dict[int, list[str]] = {}
        for name in columns:
            self._need(name)
            by_place.setdefault(id(self.places[name]), []).append(name)
        parts = [self.places[names[0]].read(names, start, length) for names in by_place.values()]
        return pl.concat(parts, how="horizontal").select(list(columns)) if parts else pl.DataFrame()

    # -- the operations ---------------------------------------------------------------------------

    def _each(self, function: Callable[[int], T]) -> list[T]:
        return list(in_turn(function, self.engine.told(range(0, self.records, BLOCK))))

    def map_rows(
        self, function: Mapped, columns: Sequence[str], types: Mapping[str, pl.DataType], schema: Schema
    ) -> Streamed:
        data, chunk = self.only(columns), self.engine.chunk
        starts = self.engine.told(range(0, self.records, chunk))
        made = in_turn(lambda start: function(data.slice(start, chunk), start), starts)
        return self._with(self._checked(made, types), types, schema)

    def at_one_place(
        self, work: Work, columns: Sequence[str], types: Mapping[str, pl.DataType]
    ) -> tuple[Streamed, Any]:
        frame, told = work(Microdata(self.select(columns), self.schema.restricted_to(columns)))
        made = {c: frame.schema[c] for c in frame.columns}
        return self._with(cut(frame, self.engine.chunk), made, self.schema), told

    def new_folder(self) -> Path:
        return self.engine.new_folder()

    @staticmethod
    def _checked(frames: Iterator[pl.DataFrame], types: Mapping[str, pl.DataType]) -> Iterator[pl.DataFrame]:
        for frame in frames:
            yield frame.select(pl.col(c).cast(t) if frame.schema[c] != t else c for c, t in types.items())

    def _with(
        self, frames: Iterator[pl.DataFrame], types: Mapping[str, pl.DataType], schema: Schema
    ) -> Streamed:
        if not types:
            return self.with_schema(schema)
        place = write_chunks(self.engine.new_folder(), frames, self.records, self.engine.chunk)
        return self._placed(place, types, schema)

    def _placed(self, place: Place, types: Mapping[str, pl.DataType], schema: Schema) -> Self:
        """These data with columns that stand elsewhere."""
        out = copy.copy(self)
        out.__dict__.pop("frame", None)
        out.places = {**self.places, **dict.fromkeys(types, place)}
        out.types = {**self.types, **types}
        out._explained_by(schema)
        return out


class Streaming:
    """The engine for files that are larger than memory."""

    name: ClassVar[str] = "stream"

    def __init__(
        self,
        scratch: Path | None = None,
        *,
        chunk: int = CHUNK,
    ) -> None:
        self.chunk = chunk
        self._scratch = Scratch(scratch)
        self._numbers = itertools.count()
        self.doing(lambda _share: None)

    def __enter__(self) -> Self:
        self._scratch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.__exit__()

    def hold(self, data: Microdata) -> Streamed:
        """A lazy file (of Parquet) as it stands; one in memory as it is there."""
        source = data._source
        scan = source if isinstance(source, pl.LazyFrame) else source.lazy()
        place = ParquetPlace(scan)
        return Streamed(dict.fromkeys(data.columns, place), data._types, len(data), data.schema, self)

    def new_folder(self) -> Path:
        return self._scratch.folder / f"{next(self._numbers):04d}"

    def doing(self, tell: Callable[[float], None]) -> None:
        self._tell, self._passes = tell, 0

    def told(self, starts: range) -> Iterator[int]:
        """The starts of the chunks of one pass over the file, with word of how far the work is.

        How many passes a step takes isn't known beforehand: each is said to be half of what is left.
        """
        left = 0.5**self._passes
        for number, start in enumerate(starts):
            self._tell(1 - left + left / 2 * number / len(starts))
            yield start
        self._passes += 1
