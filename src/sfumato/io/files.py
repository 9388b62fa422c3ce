"""What all readers and writers share: paths checked, errors explained, writes whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from sfumato.errors import InputError, SfumatoError, as_path

SHOWN = 5
"""How many rows or lines a message names."""

_PATHS = re.compile(r"(?:[A-Za-z]:)?[/\\][^\s'\"]+")


def existing(path: str | os.PathLike[str], *, folders: bool = False) -> Path:
    """The path of a file (or of a folder) that is there, can be read and isn't empty."""
    file = Path(path)
    try:
        mode = file.stat()
    except FileNotFoundError:
        raise InputError(f"{file}: there is no such file", hint=_neighbours(file)) from None
    except (OSError, ValueError) as problem:  # a null byte in the name, a name too long
        raise InputError(f"{file}: the file can't be opened: {_plainly(problem)}") from None
    if stat.S_ISDIR(mode.st_mode) and not folders:
        raise InputError(f"{file} is a folder, not a file", hint="name one file in it")
    if not os.access(file, os.R_OK):
        raise InputError(f"{file}: the file can't be read", hint="ask its owner for the right to read it")
    if stat.S_ISREG(mode.st_mode) and mode.st_size == 0:
        raise InputError(f"{file} is empty", hint="was it written completely?")
    return file


def _neighbours(file: Path) -> str:
    from sfumato.errors import nearest

    with contextlib.suppress(OSError):
        if not file.parent.is_dir():
            return f"the folder {file.parent} isn't there either"
        close = nearest(file.name, [p.name for p in file.parent.iterdir()])
        if close is not None:
            return f"did you mean {close!r}?"
    return "check the name and the folder"


def _plainly(problem: BaseException) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    text = str(problem).strip().split("\n")[0]
    return _PATHS.sub("…", text)[:200] or type(problem).__name__


@contextlib.contextmanager
def explained(file: Path, what: str, *, hint: str = "") -> Iterator[None]:
    """Turn whatever a reader of somebody else's raises into an InputError that names the file.

    Polars reports some broken files by a Rust panic, whose exception derives from BaseException;
    only that one, and no interrupt, is caught beside ordinary errors.
    """
    try:
        yield
    except (SfumatoError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except MemoryError:
        raise InputError(
            f"{file}: there isn't enough memory to read it", hint="read it with lazy=True, or fewer columns"
        ) from None
    except BaseException as problem:
        if not isinstance(problem, (Exception, pl.exceptions.PanicException)):
            raise
        raise InputError(
            f"{file} can't be read as {what}: {_plainly(problem)}",
            hint=hint or "it may be cut short or damaged, or its suffix may be wrong",
        ) from None


@contextlib.contextmanager
def written(target: Path) -> Iterator[None]:
    """Turn whatever a writer of somebody else's raises into an InputError that names the file."""
    try:
        yield
    except (SfumatoError, GeneratorExit, KeyboardInterrupt, SystemExit, OSError):
        raise  # an OSError is explained where the file is renamed
    except BaseException as problem:
        if not isinstance(problem, (Exception, pl.exceptions.PanicException)):
            raise
        raise InputError(f"{target} can't be written: {_plainly(problem)}") from None


def unique_names(file: Path, names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            places = [str(i + 1) for i, other in enumerate(names) if other == name]
            raise InputError(
                f"{file} has two columns named {name!r} (columns {', '.join(places[:SHOWN])})",
                hint="rename one of them in the file",
            )
        seen.add(name)


def rows_said(rows: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]], total: int) -> str:
    """Some row numbers in words: "row 3", "rows 3, 8 and 12", "rows 3, 8, … (41 in all)"."""
    shown = [f"{int(r):,}" for r in rows[:SHOWN]]
    if total == 1:
        return f"row {shown[0]}"
    if total <= SHOWN:
        return f"rows {', '.join(shown[:-1])} and {shown[-1]}"
    return f"rows {', '.join(shown)}, … ({total:,} in all)"


def refuse_infinities(file: Path, frame: pl.DataFrame) -> None:
    """Refuse infinite values, saying which column and rows hold them."""
    floats = [c for c, t in frame.schema.items() if t.is_float()]
    if not floats or not frame.height:
        return
    found = frame.select(pl.col(floats).is_infinite().any())
    for column in floats:
        if found[column][0]:
            at = frame[column].is_infinite().fill_null(False).arg_true()
            rows = (at.head(SHOWN) + 1).to_list()
            raise InputError(
                f"{file}: {column} holds infinite values, in {rows_said(rows, len(at))}",
                hint="give them a missing code, a top code or nothing (null) in the file",
            )


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its place, whole, when the block ends well.

    The temporary file is created anew (never through somebody's link), readable as the umask says,
    synced to disk before the rename, and removed when anything fails.
    """
    target = Path(path)
    check_target(target, overwrite=overwrite)
    # The suffix stays last, so that libraries which look at it see the right one.
    temporary = target.with_name(f".{secrets.token_hex(6)}.part{''.join(target.suffixes[-2:])}")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as problem:
        raise InputError(
            f"{target} can't be written: {_plainly(problem)}", hint="choose a folder that you may write to"
        ) from None
    try:
        yield temporary
        with open(temporary, "rb+") as handle:
            os.fsync(handle.fileno())
        if overwrite:
            os.replace(temporary, target)
        else:
            _rename_new(temporary, target)
        sync_folder(target.parent)
    except OSError as problem:
        raise InputError(
            f"{target} can't be written: {_plainly(problem)}",
            hint="is the disk full? nothing was changed",
        ) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse a target that is a folder, is there already, or whose folder isn't."""
    if as_path(target).is_dir():
        raise InputError(f"{target} is a folder", hint="name a file in it")
    if not overwrite and os.path.lexists(target):
        raise InputError(f"{target} is there already", hint="pass overwrite=True to replace it")
    if not target.parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}", hint="make it first")


def _rename_new(temporary: Path, target: Path) -> None:
    """Rename, but not over a file that has appeared since the check."""
    try:
        os.link(temporary, target)  # atomic, and fails where the target exists
    except FileExistsError:
        raise InputError(f"{target} is there already", hint="pass overwrite=True to replace it") from None
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise InputError(f"{target} is there already", hint="pass overwrite=True to replace it") from None
        os.replace(temporary, target)


def sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut, where the system allows it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
