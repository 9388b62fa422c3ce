"""Where a release may stand, and what it may replace: another release as it was written, nothing else.

A release names its files and their digests in its manifests. What isn't named there, or isn't what
it was when it was named, belongs to somebody: replacing it would lose it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sfumato.errors import ReleaseError, as_path

MANIFEST = "MANIFEST.json"
BUNDLES = (("internal", ""), ("public", "public/"))


def place_for(target: Path, *, overwrite: bool = False, inputs: Iterable[Path] = ()) -> Path:
    """The folder that a release is to become, links followed; an error where it may not be.

    ``overwrite`` allows an older release there; ``inputs`` are files that the release is made from.
    """
    target = Path(os.path.abspath(target))
    if not overwrite and (target.exists() or target.is_symlink()):
        raise ReleaseError(
            f"{target} exists already; nothing was written",
            hint="choose another folder, or say --overwrite (overwrite=True)",
        )
    if target.is_symlink():
        if not target.is_dir():
            raise ReleaseError(f"{target} is a link to no folder; nothing was written")
        target = Path(os.path.realpath(target))
    if target.exists() and not target.is_dir():
        raise ReleaseError(f"{target} is a file; a release is a folder")
    _refuse_place(target, inputs)
    refuse_foreign(target)
    return target


def refuse_foreign(folder: Path) -> None:
    """An error where the folder holds what no release wrote, or what was edited since."""
    listed = _listed(folder)
    if not folder.is_dir():
        return
    foreign = list(itertools.islice((name for name in _files(folder) if name not in listed), 3))
    if foreign:
        raise ReleaseError(
            f"{folder} holds files that no release wrote ({_some(foreign)}); nothing was written",
            hint="choose another folder, or move them away first",
        )
    edited = list(itertools.islice((n for n in _files(folder) if not _as_listed(folder / n, listed[n])), 3))
    if edited:
        raise ReleaseError(
            f"{folder} holds files that were changed after their release ({_some(edited)}); "
            "nothing was written",
            hint="choose another folder, or move them away first",
        )


def _refuse_place(target: Path, inputs: Iterable[Path]) -> None:
    """An error where a release must not stand: in another release, around its input, or underfoot.

    A bundle within ``public/`` would be handed out with it, its ``internal/`` as well.
    """
    real = Path(os.path.realpath(as_path(target)))
    for parent in dict.fromkeys([*target.parents, *real.parents]):
        if any(_ours(place / MANIFEST) for place in (parent, *(parent / bundle for bundle, _ in BUNDLES))):
            raise ReleaseError(
                f"{target} lies inside the release {parent}; nothing was written",
                hint="a release within another would be handed out with it: choose a folder outside",
            )
    for path in (Path(os.path.realpath(path)) for path in inputs):
        if real in path.parents:
            raise ReleaseError(
                f"{target} holds the plan's own input ({path.relative_to(real)}); nothing was written",
                hint="choose another folder, or move the input out of it first",
            )
        if path.parent.name == "public" and path.parent in (real, *real.parents):
            raise ReleaseError(
                f"{target} lies in the folder `public` of the plan's own input; nothing was written",
                hint="its internal part would stand among files to hand out: choose a folder outside",
            )
    here = _here()
    if target.exists() and real in (here, *here.parents):
        raise ReleaseError(
            f"this command runs inside {target}, which it can't replace under its own feet; "
            "nothing was written",
            hint="change to another folder first",
        )


def _here() -> Path:
    try:
        return Path(os.path.realpath(os.getcwd()))
    except OSError:  # the working folder is gone
        return Path(os.devnull)


def _ours(path: Path) -> bool:
    """Whether this is the manifest of a release."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and {"sfumato", "files"} <= set(content)


def _listed(folder: Path) -> dict[str, Any]:
    """Every file that a release says it wrote here → its size and digest (None: not known)."""
    out: dict[str, Any] = {}
    for bundle, prefix in reversed(BUNDLES):
        try:
            names = json.loads((folder / bundle / MANIFEST).read_text(encoding="utf-8"))["files"]
            out |= {f"{prefix}{name}": said for name, said in names.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        out.setdefault(f"{bundle}/{MANIFEST}", None)
    return out


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _as_listed(path: Path, said: Any) -> bool:
    """Whether a file is what its manifest says; a file whose digest nobody wrote down passes."""
    if said is None:
        return True
    try:
        if path.is_symlink() or path.stat().st_size != said["bytes"]:
            return False
        with path.open("rb") as handle:
            return bool(hashlib.file_digest(handle, "sha256").hexdigest() == said["sha256"])
    except (OSError, KeyError, TypeError):
        return False


def _some(names: list[str]) -> str:
    return ", ".join(names) + (" …" if names[2:] else "")
