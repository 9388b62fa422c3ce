"""The same plan on a Spark cluster: blocks of records are read, masked, judged and written by its executors.

The file, what the steps change and the release stand on a disk that the driver and all executors see. What
goes over the wire is small: which block, the step with what it was fitted to and the keys of its own draws
(never the seed), and back what a block says. A step that needs whole columns is carried out by one executor,
which reads those columns from the disk; no record passes through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

import numpy as np
import polars as pl

from sfumato.contract.engine import Finish, InParts, Mapped, Pieces, Work
from sfumato.data.microdata import BLOCK, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.engines import spark_context, spark_jobs
from sfumato.engines.columns import ChunkPlace, cut, write_chunk
from sfumato.engines.spark_keys import KeyOffice
from sfumato.engines.streaming import CHUNK, Streamed, Streaming
from sfumato.errors import EngineError

T = TypeVar("T")
PATIENCE: Final = 300.0
"""Seconds to wait for the first executor of a master that accepted us."""


class Sparked(Streamed, InParts):
    """A file whose columns stand on a disk that all executors see."""

    engine: Spark | None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        """As it travels to an executor: where the columns stand, and no way back to the driver."""
        return {**{k: v for k, v in self.__dict__.items() if k != "frame"}, "engine": None}

    def __copy__(self) -> Self:
        """One that stays here keeps its engine."""
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        return out

    def _each(self, function: Callable[[int], T]) -> list[T]:
        starts = range(0, self.records, BLOCK)
        return [function(s) for s in starts] if self.engine is None else self.engine.run(function, starts)

    def at_once(self, function: Callable[[Microdata], T]) -> T:
        return function(self) if self.engine is None else self.engine.run(function, [self])[0]

    def take(self, rows: IntArray) -> Microdata:
        """Some records: what the executors that read their blocks send."""
        order = np.argsort(rows, kind="stable")
        ends = np.searchsorted(rows[order], np.arange(0, self.records + BLOCK, BLOCK))
        blocks = [(int(k) * BLOCK, rows[order[ends[k] : ends[k + 1]]]) for k in np.flatnonzero(np.diff(ends))]
        assert self.engine is not None
        parts = self.engine.run(_Taken(self, BLOCK), blocks) if blocks else []
        frame = pl.concat(parts) if parts else self._read(self.columns, 0, 0)
        back = np.empty(len(rows), dtype=np.int64)
        back[order] = np.arange(len(rows))
        return Microdata(frame.select(pl.all().gather(pl.Series(back))), self.schema)

    def map_rows(
        self, function: Mapped, columns: Sequence[str], types: Mapping[str, pl.DataType], schema: Schema
    ) -> Self:
        if not types:
            return self.with_schema(schema)
        assert self.engine is not None
        place = self._new_place()
        self.engine.run(_Map(self.only(columns), function, dict(types), place), place.starts())
        return self._placed(place, types, schema)

    def at_one_place(
        self, work: Work, columns: Sequence[str], types: Mapping[str, pl.DataType]
    ) -> tuple[Self, Any]:
        assert self.engine is not None
        place = self._new_place()
        ((made, told),) = self.engine.run(_Whole(self.only(columns), work, place), [0])
        return (self._placed(place, made, self.schema) if made else self), told

    def each(self, function: Callable[[Any], T], items: Sequence[Any]) -> list[T]:
        assert self.engine is not None
        return self.engine.run(function, items)

    def spread(self, pieces: Pieces, items: Sequence[Any], parts: int, finish: Finish[T]) -> list[T]:
        assert self.engine is not None
        return self.engine.spread(pieces, items, parts, finish)

    def _new_place(self) -> ChunkPlace:
        assert self.engine is not None
        folder = self.new_folder()
        folder.mkdir(mode=0o700)
        return ChunkPlace(folder, self.records, self.engine.chunk)


# -- what executors do ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Taken:
    """Reads some records of a block."""

    data: Sparked
    block: int

    def __call__(self, chosen: tuple[int, IntArray]) -> pl.DataFrame:
        start, rows = chosen
        frame = self.data._read(self.data.columns, start, self.block)
        return frame.select(pl.all().gather(pl.Series(rows - start)))


@dataclass(frozen=True)
class _Map:
    """Makes new columns of some records and writes them to their place."""

    data: Sparked
    function: Mapped
    types: dict[str, pl.DataType]
    place: ChunkPlace

    def __call__(self, start: int) -> None:
        frame = self.function(self.data.slice(start, self.place.chunk), start)
        (made,) = self.data._checked(iter([frame]), self.types)
        write_chunk(self.place.folder, start // self.place.chunk, made)


@dataclass(frozen=True)
class _Whole:
    """Carries a step out on whole columns, here, and writes what it makes to its place."""

    data: Sparked
    work: Work
    place: ChunkPlace

    def __call__(self, _: int) -> tuple[dict[str, pl.DataType], Any]:
        data = self.data
        frame, told = self.work(Microdata(data.select(data.columns), data.schema))
        for number, part in enumerate(cut(frame, self.place.chunk) if frame.columns else ()):
            write_chunk(self.place.folder, number, part)
        return dict(frame.schema), told


@dataclass(frozen=True)
class _Greeting:
    """Says which sfumato there is, or nothing where a folder isn't seen."""

    folder: Path

    def __call__(self, _: int) -> str | None:
        return _versions() if self.folder.is_dir() else None


def _versions() -> str:
    """What must be the same everywhere for the same records to come out."""
    return ", ".join(f"{name} {version(name)}" for name in ("sfumato", "polars", "numpy", "scipy", "numba"))


def _driver(context: Any) -> tuple[str, str]:
    """Where the driver listens, and by which name executors reach it."""
    settings = context.getConf()
    host = settings.get("spark.driver.host", "127.0.0.1")
    return settings.get("spark.driver.bindAddress", host), host


# -- the engine -----------------------------------------------------------------------------------


class Spark(Streaming):
    """The engine for files that one machine is too small or too slow for.

    ``master`` is Spark's; without it, the context that is already there is used (and left), or else the one
    that Spark's own configuration names. ``scratch`` is a folder on a disk that all executors see.
    """

    name: ClassVar[str] = "spark"

    def __init__(
        self,
        master: str | None = None,
        scratch: Path | None = None,
        *,
        chunk: int = CHUNK,
        settings: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        super().__init__(scratch, chunk=chunk)
        self.master, self.settings, self.patience = master, dict(settings or {}), patience

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._found = spark_context.active() if self.master is None else None
            self.context = self._found or spark_context.started(
                self.master, self.settings, self._scratch.folder, self.patience
            )
            self._keys = ExitStack()
            self._keys.enter_context(KeyOffice(*_driver(self.context)))
            self._greet()
        except BaseException:
            super().__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._keys.close()
        try:
            if self._found is None:
                spark_context.ended(self.context)
        finally:
            super().__exit__()

    def hold(self, data: Microdata) -> Sparked:
        """A lazy file (of Parquet) as it stands; one in memory by way of the disk."""
        if isinstance(data._source, pl.DataFrame):
            path = self.new_folder().with_suffix(".parquet")
            data.frame.write_parquet(path)
            data = Microdata(pl.scan_parquet(path, glob=False), data.schema)
        held = super().hold(data)
        return Sparked(held.places, held.types, held.records, held.schema, self)

    def run(self, function: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        """``[function(i) for i in items]``, each by whichever executor is free."""
        with self._one_pass() as tell:
            return spark_jobs.in_executors(self.context, function, list(items), tell)

    def spread(self, pieces: Pieces, items: Sequence[Any], parts: int, finish: Finish[T]) -> list[T]:
        with self._one_pass() as tell:
            return spark_jobs.through_a_shuffle(self.context, pieces, items, parts, finish, tell)

    @contextmanager
    def _one_pass(self) -> Iterator[Callable[[float], None]]:
        """Each pass over the file is said to be half of what is left, as in :meth:`Streaming.told`."""
        left = 0.5**self._passes
        yield lambda share: self._tell(1 - left + left / 2 * share)
        self._passes += 1

    def _greet(self) -> None:
        """Ask the executors for their sfumato and whether they see our disk, before any work."""
        greetings = self.run(_Greeting(self._scratch.folder), range(2 * self.context.defaultParallelism))
        others = {g for g in greetings if g != _versions() and g is not None}
        if others:
            raise EngineError(
                f"executors have {' or '.join(sorted(others))}, and here is {_versions()}",
                hint="install the same versions on every machine",
            )
        if None in greetings:
            raise EngineError(
                f"executors don't see the folder {self._scratch.folder.parent}",
                hint="name one on a disk that all machines share: --scratch DIR; the data and the release "
                "must stand on one, too",
            )
