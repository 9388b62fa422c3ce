"""The table of formats: which suffix is read and written by what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema
from sfumato.errors import InputError, did_you_mean
from sfumato.io.files import replacing, written

Frame = pl.DataFrame | pl.LazyFrame
Reader = Callable[[Path, Schema | None, bool, dict[str, Any]], tuple[Frame, Schema]]
Writer = Callable[[Microdata, Path, bool, dict[str, Any]], None]

# The modules that do the work are imported when a file of theirs is met: `import sfumato` is quick.


def _read_delimited(
    file: Path, schema: Schema | None, lazy: bool, options: dict[str, Any]
) -> tuple[Frame, Schema]:
    from sfumato.io.delimited import Dialect, read_delimited

    tabs = bool({".tsv", ".tab"} & {s.casefold() for s in file.suffixes})
    return read_delimited(file, Dialect(**options), schema, lazy=lazy, tabs=tabs), Schema()


def _read_parquet(
    file: Path, schema: Schema | None, lazy: bool, options: dict[str, Any]
) -> tuple[Frame, Schema]:
    from sfumato.io.arrow import read_parquet

    return read_parquet(file, lazy=lazy, **options), Schema()


def _read_arrow(
    file: Path, schema: Schema | None, lazy: bool, options: dict[str, Any]
) -> tuple[Frame, Schema]:
    from sfumato.io.arrow import read_arrow

    return read_arrow(file, lazy=lazy, **options), Schema()


def _stat_reader(format: str) -> Reader:
    def read(file: Path, schema: Schema | None, lazy: bool, options: dict[str, Any]) -> tuple[Frame, Schema]:
        from sfumato.io.stat import read_stat

        return read_stat(file, format, **options)

    return read


def _read_fixed_width(
    file: Path, schema: Schema | None, lazy: bool, options: dict[str, Any]
) -> tuple[Frame, Schema]:
    from sfumato.io.argus import layout_beside
    from sfumato.io.fixed_width import read_fixed_width

    named = options.get("metadata") is not None or layout_beside(file) is not None
    if not named and file.suffix.casefold() in (".dat", ".raw"):  # which are delimited as often
        return _read_delimited(file, schema, lazy, {k: v for k, v in options.items() if k != "metadata"})
    return read_fixed_width(file, schema, **options)


def _read_spreadsheet(
    file: Path, schema: Schema | None, lazy: bool, options: dict[str, Any]
) -> tuple[Frame, Schema]:
    from sfumato.io.spreadsheet import read_spreadsheet

    return read_spreadsheet(file, **options), Schema()


def _read_r(file: Path, schema: Schema | None, lazy: bool, options: dict[str, Any]) -> tuple[Frame, Schema]:
    from sfumato.io.r_files import read_r

    return read_r(file, **options), Schema()


def _write_spreadsheet(data: Microdata, path: Path, overwrite: bool, options: dict[str, Any]) -> None:
    from sfumato.io.spreadsheet_write import write_xlsx

    with replacing(path, overwrite=overwrite) as part, written(path):
        write_xlsx(data.frame, part, path)


def _write_delimited(data: Microdata, path: Path, overwrite: bool, options: dict[str, Any]) -> None:
    from sfumato.io.delimited import write_delimited

    compress = path.suffix.casefold() == ".gz"
    if {".tsv", ".tab"} & {s.casefold() for s in path.suffixes}:
        options = {"delimiter": "\t", **options}
    with replacing(path, overwrite=overwrite) as part, written(path):
        write_delimited(data.frame, part, compress=compress, **options)


def _write_parquet(data: Microdata, path: Path, overwrite: bool, options: dict[str, Any]) -> None:
    from sfumato.io.arrow import write_parquet

    with replacing(path, overwrite=overwrite) as part, written(path):
        write_parquet(data.frame, part, **options)


def _write_arrow(data: Microdata, path: Path, overwrite: bool, options: dict[str, Any]) -> None:
    from sfumato.io.arrow import write_arrow

    with replacing(path, overwrite=overwrite) as part, written(path):
        write_arrow(data.frame, part, **options)


def _write_sav(data: Microdata, path: Path, overwrite: bool, options: dict[str, Any]) -> None:
    from sfumato.io.stat_write import write_sav

    with replacing(path, overwrite=overwrite) as part:
        write_sav(data, part, path, compress=path.suffix.casefold() == ".zsav", **options)


def _write_dta(data: Microdata, path: Path, overwrite: bool, options: dict[str, Any]) -> None:
    from sfumato.io.stat_write import write_dta

    with replacing(path, overwrite=overwrite) as part:
        write_dta(data, part, path, **options)


def _write_fixed_width(data: Microdata, path: Path, overwrite: bool, options: dict[str, Any]) -> None:
    from sfumato.io.fixed_width_write import write_fixed_width

    write_fixed_width(data, path, overwrite=overwrite, **options)


@dataclass(frozen=True)
class Format:
    """A family of files: its name in a plan, its suffixes, how it is read and written."""

    name: str
    suffixes: tuple[str, ...]
    read: Reader
    read_options: tuple[str, ...]
    write: Writer | None = None
    write_options: tuple[str, ...] = ()
    lazy: bool = False

    def checked(self, options: dict[str, Any], *, writing: bool = False) -> dict[str, Any]:
        """The options, where the format has them all."""
        known = self.write_options if writing else self.read_options
        for option in options:
            if option not in known:
                verb = "writing" if writing else "reading"
                raise InputError(
                    f"{verb} {self.name} has no option {option!r}", hint=did_you_mean(option, known)
                )
        return options


_COLUMNS: Final = ("columns", "allow_infinite")
_DELIMITED: Final = (
    "delimiter", "decimal", "encoding", "quote", "header", "null_values", "types", *_COLUMNS,
)  # fmt: skip
_DELIMITED_OUT: Final = ("delimiter", "decimal", "null_value", "include_header")
_STAT: Final = ("encoding", "columns", "guard")

_ALL: Final = (
    Format(
        "csv", (".csv", ".txt"), _read_delimited, _DELIMITED, _write_delimited, _DELIMITED_OUT, lazy=True
    ),
    Format(
        "tsv", (".tsv", ".tab"), _read_delimited, _DELIMITED, _write_delimited, _DELIMITED_OUT, lazy=True
    ),
    Format(
        "parquet", (".parquet", ".pq"), _read_parquet, _COLUMNS, _write_parquet, ("compression",), lazy=True
    ),
    Format(
        "arrow", (".arrow", ".feather", ".ipc"), _read_arrow, _COLUMNS,
        _write_arrow, ("compression",), lazy=True,
    ),
    Format("sav", (".sav", ".zsav"), _stat_reader("sav"), _STAT, _write_sav, ("file_label",)),
    Format("por", (".por",), _stat_reader("por"), ("columns", "guard")),
    Format("dta", (".dta",), _stat_reader("dta"), _STAT, _write_dta, ("file_label", "version")),
    Format("sas7bdat", (".sas7bdat",), _stat_reader("sas7bdat"), (*_STAT, "catalog")),
    Format("xpt", (".xpt", ".xport"), _stat_reader("xpt"), _STAT),
    Format("xlsx", (".xlsx",), _read_spreadsheet, ("sheet", *_COLUMNS), _write_spreadsheet),
    Format("spreadsheet", (".xlsm", ".xlsb", ".xls", ".ods"), _read_spreadsheet, ("sheet", *_COLUMNS)),
    Format("r", (".rds", ".rdata", ".rda"), _read_r, ("object", *_COLUMNS)),
    Format(
        "fixed_width", (".asc", ".saf", ".fwf", ".dat", ".raw"),
        _read_fixed_width, ("metadata", "encoding", "columns"),
        _write_fixed_width, ("separator", "encoding"),
    ),
)  # fmt: skip
FORMATS: Final[dict[str, Format]] = {f.name: f for f in _ALL}
"""Every format, by its name in a plan."""

SUFFIXES: Final[dict[str, Format]] = {
    **{s: f for f in _ALL for s in f.suffixes},
    **{f"{s}.gz": FORMATS[n] for n in ("csv", "tsv") for s in FORMATS[n].suffixes},
}


def format_of(file: Path, name: str | None = None) -> Format:
    """The format that a name or a file's suffix says."""
    if name is not None:
        if name in FORMATS:
            return FORMATS[name]
        if f".{name.casefold().lstrip('.')}" in SUFFIXES:
            return SUFFIXES[f".{name.casefold().lstrip('.')}"]
        raise InputError(f"there is no format {name!r}", hint=did_you_mean(name, FORMATS))
    lower = file.name.casefold()
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if lower.endswith(suffix):
            return SUFFIXES[suffix]
    said = f"the suffix {file.suffix!r}" if file.suffix else "no suffix"
    raise InputError(
        f"{file} has {said}, by which its format can't be told",
        hint=f"sfumato knows {', '.join(s for f in _ALL for s in f.suffixes)}; or pass format=…",
    )
