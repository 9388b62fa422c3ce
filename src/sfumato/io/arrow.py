"""Parquet and Arrow/Feather files.

What is written carries no metadata of its source (no pandas index, no path, no custom keys), no
categories that aren't in the data any more, and no values beneath nulls: a suppressed value that
still stands in an Arrow buffer behind its null would be a disclosure.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import InputError
from sfumato.io.files import explained, refuse_infinities, unique_names

if TYPE_CHECKING:
    import pyarrow as pa

_PARQUET = (".parquet", ".pq")
_ZERO: dict[Any, Any] = {pl.String: "", pl.Boolean: False}


def is_parquet(path: Path) -> bool:
    """Whether a path is a Parquet file by its name, or a folder of such files."""
    return path.suffix.casefold() in _PARQUET or path.is_dir()


def parquet_files(path: Path) -> list[Path]:
    """The file, or the files of a folder in the order of their names: the order of its records.

    What starts with a dot or an underscore (marks, checksums) holds no records.
    """
    path = path.absolute()  # whoever reads the records later may stand elsewhere
    if not path.is_dir():
        return [path]
    there = sorted(p for p in path.iterdir() if not p.name.startswith((".", "_")))
    files = [p for p in there if p.is_file() and p.suffix.casefold() in _PARQUET]
    if not files:
        raise InputError(f"{path} is a folder without Parquet files", hint="name a file, or such a folder")
    folders = [p.name for p in there if p.is_dir()]
    if folders:
        raise InputError(
            f"{path} has folders beside its Parquet files ({folders[0]} …)",
            hint="put all Parquet files of one data set into one folder",
        )
    return files


def read_parquet(
    file: Path, *, columns: list[str] | None = None, lazy: bool = False, allow_infinite: bool = False
) -> pl.DataFrame | pl.LazyFrame:
    """A Parquet file, or a folder of them; with ``lazy`` nothing but its schema is read yet."""
    with explained(file, "Parquet"):
        scan = pl.scan_parquet(parquet_files(file), glob=False)
        return _finish(file, scan, columns, lazy, allow_infinite)


def read_arrow(
    file: Path, *, columns: list[str] | None = None, lazy: bool = False, allow_infinite: bool = False
) -> pl.DataFrame | pl.LazyFrame:
    """An Arrow IPC file (Feather 2) or stream."""
    with explained(file, "Arrow"):
        with file.open("rb") as handle:
            magic = handle.read(6)
        if magic == b"ARROW1":
            return _finish(file, pl.scan_ipc(file, glob=False), columns, lazy, allow_infinite)
        if magic[:4] == b"FEA1":
            import pyarrow.feather

            frame = pl.from_arrow(pyarrow.feather.read_table(file))
        else:
            frame = pl.read_ipc_stream(file)
        assert isinstance(frame, pl.DataFrame)
        return _finish(file, frame.lazy(), columns, lazy, allow_infinite)


def _finish(
    file: Path, scan: pl.LazyFrame, columns: list[str] | None, lazy: bool, allow_infinite: bool
) -> pl.DataFrame | pl.LazyFrame:
    types = scan.collect_schema()
    unique_names(file, types.names())
    if not types:
        raise InputError(f"{file} has no columns")
    for name, dtype in types.items():
        if dtype.is_nested() or dtype in (pl.Object, pl.Binary):
            raise InputError(
                f"{file}: {name} holds values of type {dtype}, not numbers, text, dates or true/false",
                hint="spread nested values over columns of their own, or leave the column out (columns=…)",
            )
    if columns is not None:
        scan = scan.select(columns)
    if lazy:
        return scan
    frame = scan.collect()
    if not allow_infinite:
        refuse_infinities(file, frame)
    return frame


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame in types that everybody reads.

    Categories become text, since a dictionary can name values that were removed; whole numbers of
    128 bits, which only Polars knows, become those of 64.
    """
    names = [c for c, t in frame.schema.items() if t in (pl.Categorical, pl.Enum)]
    wide = [c for c, t in frame.schema.items() if t in (pl.Int128, pl.UInt128)]
    for column in wide:
        if frame[column].cast(pl.Int64, strict=False).null_count() > frame[column].null_count():
            raise InputError(
                f"{column} has whole numbers of more than 64 bits, which files have no place for",
                hint="make it text",
            )
    casts = [pl.col(names).cast(pl.String), pl.col(wide).cast(pl.Int64)]
    return frame.with_columns(casts) if names or wide else frame


def write_parquet(frame: pl.DataFrame, file: Path, *, compression: str = "zstd") -> None:
    options: dict[str, Any] = {"compression": compression}
    plain(frame).write_parquet(file, **options)


def write_arrow(frame: pl.DataFrame, file: Path, *, compression: str = "zstd") -> None:
    import pyarrow as pa

    table = without_hidden_values(plain(frame))
    options = pa.ipc.IpcWriteOptions(compression=None if compression == "uncompressed" else compression)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=1 << 18)


def without_hidden_values(frame: pl.DataFrame) -> pa.Table:
    """An Arrow table whose buffers hold nothing beneath nulls and nothing outside the frame.

    A column made null by a mask may keep its old value in the buffer that the null covers, and a
    slice may share its parent's text; Arrow files store buffers as they are (Parquet doesn't).
    """
    import pyarrow as pa

    oldest = pl.CompatLevel.oldest()
    arrays = []
    for series in frame.get_columns():
        series = series.rechunk()
        if series.dtype == pl.Null:
            arrays.append(pa.nulls(len(series)))
            continue
        array = series.to_arrow(compat_level=oldest)  # the old offset layout copies text out of shared views
        if series.null_count():
            zero = pl.Series([_ZERO.get(series.dtype.base_type(), 0)]).cast(series.dtype)[0]
            filled = series.fill_null(zero).to_arrow(compat_level=oldest)
            if filled.offset:
                filled = filled.take(pa.array(range(len(filled))))
            valid = pa.array(series.is_not_null().to_numpy())
            buffers = [valid.buffers()[1], *filled.buffers()[1:]]
            array = pa.Array.from_buffers(array.type, len(array), buffers, null_count=series.null_count())
        arrays.append(array)
    return pa.table(arrays, names=frame.columns)
