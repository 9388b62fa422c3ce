"""Files and folders that are there whole or not at all.

A folder is filled beside its place under a hidden name, flushed to the disk, and renamed. Whoever
kills the process at any moment finds either the old state or the new one.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from sfumato.errors import ReleaseError
from sfumato.io.replaceable import place_for, refuse_foreign

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_SCRATCH = "sfumato-scratch"
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


@contextmanager
def new_folder(target: Path, *, overwrite: bool = False, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """A folder to fill; on leaving without an error it becomes ``target``.

    ``overwrite`` replaces an older release as it was written, and never anything else; a symbolic
    link to one is followed. ``inputs`` are files that the release is made from.
    """
    with explained(target):
        target = place_for(target, overwrite=overwrite, inputs=inputs)
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        work = target.parent / f".{target.name}.partial-{_tag()}-{os.getpid()}-{secrets.token_hex(4)}"
        work.mkdir(mode=0o700)
    try:
        with explained(target), _held(work):
            yield work
            flush(work)
            _put_in_place(work, target, overwrite)
        # From here on it stands: nothing below may fail, or say that nothing was released.
        _flush_folder(target.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


class Scratch:
    """A folder for work under way, readable by its owner alone, that is gone at the end whatever happens.

    ``beside`` is the folder that it is made in (the system's place for temporary files by default). What a
    killed process left there is removed by the next one.
    """

    def __init__(self, beside: Path | None = None) -> None:
        self.beside = Path(tempfile.gettempdir()) if beside is None else beside
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with explained(self.beside):
            self.beside.mkdir(parents=True, exist_ok=True)
            _sweep(self.beside / _SCRATCH)
            name = f".{_SCRATCH}.partial-{_tag()}-{os.getpid()}-{secrets.token_hex(4)}"
            self.folder = self.beside / name
            self.folder.mkdir(mode=0o700)
        self._open.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._open.enter_context(_held(self.folder))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


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
    if target.is_symlink():
        raise ReleaseError(f"{target} became a link meanwhile; nothing was written over it")
    if overwrite and target.exists():
        refuse_foreign(target)  # somebody may have put a file there during the write
        if _exchange(work, target):
            # The old release now stands under the hidden name, and is removed with it: unless
            # somebody was quicker than the look above.
            try:
                refuse_foreign(work)
            except ReleaseError as problem:
                _exchange(work, target)
                problem.message = problem.message.replace(str(work), str(target))
                raise
            return
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
    """Remove what killed processes of this machine left beside this target.

    A number of a process says nothing in another container or on another host that shares the disk:
    folders with another tag are somebody else's, and stay.
    """
    pattern = re.compile(
        re.escape(f".{target.name}.") + r"(partial|replaced)-([0-9a-f]{8})-(\d+)-[0-9a-f]{8}$"
    )
    for path in target.parent.iterdir():
        found = pattern.match(path.name)
        if found and found.group(2) == _tag() and not _alive(int(found.group(3))) and not _locked(path):
            shutil.rmtree(path, ignore_errors=True)


def _tag() -> str:
    """Within what a number of a process means one process: this start of this machine, this container."""
    parts = [platform.node()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(os.readlink(path) if "/ns/" in path else Path(path).read_text(encoding="ascii"))
        except OSError:
            continue
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=4).hexdigest()


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The folder with a lock that the file system holds, where it can; it ends with the process."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Whether the lock could be had (also where the file system knows no locks)."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def _locked(folder: Path) -> bool:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return True
    try:
        return not _lock(handle)
    finally:
        os.close(handle)


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
