"""Files and folders that are there whole or not at all.

A folder is filled beside its place under a hidden name, flushed to the disk, and renamed. Whoever
kills the process at any moment finds either the old state or the new one.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import ReleaseError

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


@contextmanager
def new_folder(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill; on leaving without an error it becomes ``target``.

    ``overwrite`` replaces an older release, and never anything else.
    """
    target = Path(target).absolute()
    if not overwrite and (target.exists() or target.is_symlink()):
        raise ReleaseError(
            f"{target} exists already; nothing was written",
            hint="choose another folder, or say --overwrite (overwrite=True)",
        )
    if overwrite and target.exists() and not target.is_dir():
        raise ReleaseError(f"{target} is a file; a release is a folder")
    if overwrite:
        refuse_foreign(target)
    with explained(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        work = target.parent / f".{target.name}.partial-{os.getpid()}-{secrets.token_hex(4)}"
        work.mkdir(mode=0o700)
    try:
        with explained(target):
            yield work
            flush(work)
            _put_in_place(work, target, overwrite)
            _flush_folder(target.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def refuse_foreign(folder: Path) -> None:
    """An error where the folder holds anything that no release wrote: replacing it would lose that."""
    listed = set()
    for bundle, prefix in (("internal", ""), ("public", "public/")):
        path = folder / bundle / "MANIFEST.json"
        try:
            names = json.loads(path.read_text(encoding="utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        listed |= {f"{prefix}{name}" for name in names} | {f"{bundle}/MANIFEST.json"}
    there = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    foreign = list(itertools.islice((name for name in there if name not in listed), 3))
    if foreign:
        named = ", ".join(foreign) + (" …" if foreign[2:] else "")
        raise ReleaseError(
            f"{folder} holds files that no release wrote ({named}); nothing was written",
            hint="choose another folder, or move them away first",
        )


@contextmanager
def explained(target: Path) -> Iterator[None]:
    """Errors of the operating system as sentences."""
    try:
        yield
    except OSError as problem:
        raise ReleaseError(
            f"{target} can't be written: {_reason(problem)}; nothing was released", hint=_advice(problem)
        ) from None


def flush(folder: Path) -> None:
    """Make sure that everything below a folder is on the disk."""
    for place, _, names in os.walk(folder):
        for name in names:
            handle = os.open(os.path.join(place, name), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        _flush_folder(Path(place))


def _flush_folder(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # not every system lets a folder be opened
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def _put_in_place(work: Path, target: Path, overwrite: bool) -> None:
    if overwrite and target.exists():
        if _exchange(work, target):
            return  # the old release now stands under the hidden name, and is removed with it
        aside = work.with_name(work.name.replace(".partial-", ".replaced-"))
        os.rename(target, aside)
        os.rename(work, target)
        shutil.rmtree(aside, ignore_errors=True)
        return
    try:
        # rename() would silently replace an empty folder that somebody made meanwhile.
        if target.exists():
            raise FileExistsError(errno.EEXIST, "it appeared while the release was being made")
        os.rename(work, target)
    except OSError as problem:
        if problem.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise ReleaseError(f"{target} appeared meanwhile; nothing was written over it") from None
        raise


def _exchange(one: Path, two: Path) -> bool:
    """Swap two names in one step, where the system can (Linux)."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(
        call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(two), ctypes.c_uint(_RENAME_EXCHANGE)) == 0
    )


def _sweep(target: Path) -> None:
    """Remove what killed processes left beside this target."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"(partial|replaced)-(\d+)-[0-9a-f]{8}$")
    for path in target.parent.iterdir():
        found = pattern.match(path.name)
        if found and not _alive(int(found.group(2))):
            shutil.rmtree(path, ignore_errors=True)


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _reason(problem: OSError) -> str:
    text = str(problem)
    if problem.errno == errno.ENOSPC or "No space left" in text:
        return "the disk is full"
    if problem.errno in (errno.EACCES, errno.EPERM) or "Permission denied" in text:
        return "there is no permission to write there"
    if problem.errno == errno.EROFS:
        return "the disk is read-only"
    if problem.errno == errno.ENOTDIR:
        return "part of its path is a file, not a folder"
    return problem.strerror or text


def _advice(problem: OSError) -> str:
    if problem.errno == errno.ENOSPC or "No space left" in str(problem):
        return "free some space, or release to another disk"
    return "choose a folder that you may write to"
