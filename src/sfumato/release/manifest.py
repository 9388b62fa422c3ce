"""The files of a bundle with their sizes and SHA-256 digests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato import __version__


def manifest(folder: Path, known: Mapping[str, dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """Every file below a folder; ``known`` are lines that were made where the files were written, by path."""
    files, known = {}, known or {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        files[path.relative_to(folder).as_posix()] = known.get(path.as_posix()) or line(path)
    return {"sfumato": __version__, **more, "files": files}


def line(path: Path) -> dict[str, Any]:
    """A file's size and digest."""
    with path.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}
