"""Read and write files about people. The suffix says the format; metadata go into the schema.

>>> import sfumato as sf, polars as pl, tempfile, pathlib
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> people = sf.Microdata(pl.DataFrame({"AREA": ["n", "s"], "INCOME": [10, None]}))
>>> sf.write(people, folder / "people.csv")
>>> sf.read(folder / "people.csv").frame["INCOME"].to_list()
[10, None]
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.data.merge import merged, numbers_with_words
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.data.schema import Schema
from sfumato.errors import InputError
from sfumato.io import files
from sfumato.io.formats import FORMATS, Format, format_of

if TYPE_CHECKING:
    from sfumato.io.chunks import write_chunks

__all__ = ["FORMATS", "Format", "format_of", "merged", "read", "write", "write_chunks"]


def __getattr__(name: str) -> Any:
    if name == "write_chunks":
        from sfumato.io.chunks import write_chunks

        return write_chunks
    raise AttributeError(f"module 'sfumato.io' has no attribute {name!r}")


def read(
    path: str | os.PathLike[str],
    schema: Schema | Mapping[str, Any] | None = None,
    *,
    lazy: bool = False,
    format: str | None = None,
    **options: Any,
) -> Microdata:
    """Read a file as Microdata; labels and missing codes that it carries go into the schema.

    Parameters
    ----------
    path
        The file. Its suffix says the format (``FORMATS``), unless ``format`` does. A folder of Parquet
        files is one file: their records in the order of their names.
    schema
        What is known of the columns; it is laid over what the file itself says, column by column.
    lazy
        Leave the data on disk and read columns when they are asked for (Parquet, Arrow and plain
        CSV; other formats are read at once).
    options
        Of the format: ``columns`` reads only some columns, ``allow_infinite`` lets infinities pass;
        delimited text has ``delimiter, decimal, encoding, quote, header, null_values, types``,
        statistical packages' files ``encoding``, fixed width ``metadata`` (the .rda file).
    """
    if schema is not None and not isinstance(schema, Schema):
        schema = Schema.from_dict(schema)
    file = files.existing(path, folders=True)
    if file.is_dir():  # a data set of several files, as Spark writes them
        format = format or "parquet"
    found = format_of(file, format or ("fixed_width" if "metadata" in options else None))
    if file.is_dir() and found.name != "parquet":
        files.existing(path)
    frame, own = found.read(file, schema, lazy, found.checked(options))
    if isinstance(frame, pl.DataFrame):
        frame = contiguous(frame)
    whole = merged(own, schema)
    data = Microdata(numbers_with_words(frame, whole), whole)
    if not len(data):
        raise InputError(f"{file} has columns but no records", hint="was it written completely?")
    return data


def contiguous(frame: pl.DataFrame) -> pl.DataFrame:
    """Each column in one piece: random access to pieces costs eight times as much.

    Column by column, each leaving its old pieces behind, so that there is never a second copy of the
    whole frame. The frame given is used up.
    """
    if all(series.n_chunks() == 1 for series in frame):
        return frame
    return pl.DataFrame([frame.drop_in_place(name).rechunk() for name in frame.columns])


def write(
    data: Any,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    overwrite: bool = False,
    **options: Any,
) -> None:
    """Write Microdata (or a frame) to a file, whole or not at all.

    The content goes to a temporary file beside the target, is synced to disk and then renamed. A
    file that is there already is left alone unless ``overwrite``. Labels and missing codes are
    written where the format has a place for them (SPSS, Stata, fixed width).
    """
    microdata, target = as_microdata(data), Path(path)
    found = format_of(target, format)
    if found.write is None:
        raise InputError(
            f"sfumato can't write {found.name} files",
            hint="write .csv, .parquet, .arrow, .sav, .dta, .xlsx or .asc",
        )
    if not microdata.columns:
        raise InputError(f"{target}: there is no column to write")
    found.write(microdata, target, overwrite, found.checked(options, writing=True))
