"""Write frames one after another into one file, so that a large file never needs a second copy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema
from sfumato.errors import InputError
from sfumato.io.arrow import plain, without_hidden_values
from sfumato.io.delimited import append_delimited, opened
from sfumato.io.files import replacing, written
from sfumato.io.formats import format_of

_ROWS_PER_GROUP: Final = 1 << 18


def write_chunks(
    path: str | os.PathLike[str],
    chunks: Iterable[pl.DataFrame],
    schema: Schema | Mapping[str, Any] | None = None,
    format: str | None = None,
    *,
    overwrite: bool = False,
    **options: Any,
) -> int:
    """Write the frames as one file, whole or not at all; returns the number of records.

    Parquet, Arrow and delimited text are streamed; the other formats must see the whole first. All
    frames must have the columns and types of the first. ``schema`` is a Schema (its labels and
    missing codes are written where the format has a place for them), or a Polars schema, which a
    file without any frame needs.
    """
    target = Path(path)
    found = format_of(target, format)
    streamed = _STREAMED.get(found.name)
    own = schema if isinstance(schema, Schema) else None
    types = None if own is not None or schema is None else pl.Schema(cast(Any, schema))
    frames = _Checked(chunks, types)
    settings = found.checked(options, writing=True)
    if streamed is None:
        if found.write is None:
            raise InputError(f"sfumato can't write {found.name} files")
        whole: pl.DataFrame = pl.concat([frames.first, *frames])
        found.write(Microdata(whole, own), target, overwrite, settings)
        return whole.height
    if found.name == "tsv":
        settings = {"delimiter": "\t", **settings}
    with replacing(target, overwrite=overwrite) as part:
        try:
            with written(target):
                streamed(frames, part, settings)
        finally:
            if frames.problem is not None:  # what the caller's own frames raised, as it was
                raise frames.problem from None
    return frames.rows


class _Checked:
    """The frames after the first, each checked against it; counts records and keeps a failure."""

    def __init__(self, chunks: Iterable[pl.DataFrame], types: pl.Schema | None) -> None:
        self._rest = iter(chunks)
        self.problem: BaseException | None = None
        first = next(self._rest, None)
        if first is None:
            if types is None:
                raise InputError("there is nothing to write", hint="pass a Polars schema for an empty file")
            first = pl.DataFrame(schema=types)
        self.first = plain(first)
        if not self.first.columns:
            raise InputError("there is no column to write")
        self.rows = self.first.height

    def __iter__(self) -> Iterator[pl.DataFrame]:
        try:
            for chunk in self._rest:
                frame = plain(chunk)
                if frame.schema != self.first.schema:
                    raise InputError("the frames don't all have the same columns and types")
                self.rows += frame.height
                yield frame
        except GeneratorExit:
            raise
        except BaseException as problem:
            self.problem = problem
            raise


def _parquet(frames: _Checked, part: Path, options: dict[str, Any]) -> None:
    from polars.io.plugins import register_io_source

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        yield frames.first
        yield from frames

    # Polars' own sink encodes columns on all cores, about twice as fast as Arrow's writer here.
    scan = register_io_source(source, schema=frames.first.schema)
    # Into an open file: after a failure its sink may still be at work, and would make the path anew.
    with part.open("wb") as out:
        scan.sink_parquet(out, row_group_size=_ROWS_PER_GROUP, **{"compression": "zstd", **options})


def _arrow(frames: _Checked, part: Path, options: dict[str, Any]) -> None:
    import pyarrow as pa

    first = without_hidden_values(frames.first)
    compression = options.get("compression", "zstd")
    settings = pa.ipc.IpcWriteOptions(compression=None if compression == "uncompressed" else compression)
    with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, first.schema, options=settings) as out:
        out.write_table(first)
        for frame in frames:
            out.write_table(without_hidden_values(frame))


def _delimited(frames: _Checked, part: Path, options: dict[str, Any]) -> None:
    with opened(part, compress=part.suffix.casefold() == ".gz") as out:
        append_delimited(frames.first, out, **options)
        for frame in frames:
            append_delimited(frame, out, **{**options, "include_header": False})


_STREAMED: Final[dict[str, Callable[[_Checked, Path, dict[str, Any]], None]]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "csv": _delimited,
    "tsv": _delimited,
}
