"""Kernels: numba functions on plain arrays, nogil and cached. No frames, no strings.

Each has a slow, obvious twin in ``tests/reference`` that it is compared with. Compiled kernels are kept
beside the source or in the user's cache. Where neither can be written (a read-only install and home),
they are kept in a private temporary folder, which is said once. Whoever waits for the compiler is told
so (``sfumato.waiting``); ``sfumato warm`` compiles beforehand.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.waiting import tell


def writable(folder: Path) -> bool:
    """Whether a file can be made in this folder (which is made if need be), as numba tries it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def cache_places() -> list[Path]:
    """Where numba looks by itself: beside the source, and in the user's cache."""
    home = os.path.expanduser("~")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    if sys.platform == "darwin":
        cache = os.path.join(home, "Library", "Caches")
    elif sys.platform == "win32":
        cache = os.environ.get("LOCALAPPDATA", home)
    return [Path(__file__).parent / "__pycache__", Path(cache) / "numba"]


def fallback(places: Sequence[Path], base: Path) -> Path | None:
    """A private folder for compiled kernels where none of the places can be written; None where one can.

    Compiled code is run, so the folder must be one that nobody else can write to.
    """
    if any(writable(place) for place in places):
        return None
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = base / f"sfumato-kernels-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        seen = folder.lstat()
        ours = stat.S_ISDIR(seen.st_mode) and seen.st_uid == user and not seen.st_mode & 0o077
    except OSError:
        ours = False
    if ours and writable(folder):
        return folder
    once = Path(tempfile.mkdtemp(prefix="sfumato-kernels-", dir=base))
    atexit.register(shutil.rmtree, once, ignore_errors=True)
    return once


def _provide_cache() -> None:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    folder = fallback(cache_places(), Path(tempfile.gettempdir()))
    if folder is None:
        return
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:  # it read the environment when it was imported
        sys.modules["numba"].config.CACHE_DIR = str(folder)
    logging.getLogger("sfumato").warning(
        "neither the installation nor the home folder can be written: compiled kernels are kept in %s", folder
    )


_provide_cache()


def _watch() -> None:
    """Say so when the compiler begins: the first kernel may be followed by a minute of others."""
    from numba.core import event

    class Watch(event.Listener):
        begun = False

        def on_start(self, event: Any) -> None:
            if not self.begun:
                self.begun = True
                tell(
                    "compiling kernels, once for this installation (`sfumato warm` does it beforehand): "
                    "up to a minute"
                )

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Watch())  # type: ignore[no-untyped-call]


_watch()
