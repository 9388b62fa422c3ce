"""Where compiled kernels are kept when nothing can be written where numba looks."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato import kernels

NOWHERE = Path(os.devnull) / "below"


def test_nothing_changes_where_a_place_can_be_written(tmp_path: Path) -> None:
    assert kernels.fallback([NOWHERE, tmp_path / "cache"], tmp_path / "base") is None
    assert not (tmp_path / "base").exists()


def test_a_private_folder_where_none_can(tmp_path: Path) -> None:
    folder = kernels.fallback([NOWHERE], tmp_path)
    assert folder is not None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert kernels.fallback([NOWHERE], tmp_path) == folder


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_a_folder_that_somebody_else_could_fill_isnt_used(tmp_path: Path, trap: str) -> None:
    """Compiled code in it would be run."""
    name = tmp_path / f"sfumato-kernels-{os.getuid()}"
    if trap == "open":
        name.mkdir()
        name.chmod(0o777)
    elif trap == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        name.symlink_to(tmp_path / "theirs")
    else:
        name.write_text("x")
    folder = kernels.fallback([NOWHERE], tmp_path)
    assert folder is not None
    assert folder != name
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_read_only_install_and_home_still_runs(tmp_path: Path) -> None:
    """In a process of its own, with the places that numba knows made unwritable."""
    program = f"""
import logging, pathlib, sfumato.parallel, tempfile
logging.basicConfig(format="%(message)s")
tempfile.tempdir = {str(tmp_path)!r}
import importlib.util, sys
import numba.core.caching as caching
def refuse(self): raise OSError("read-only")
for name in ("InTreeCacheLocator", "UserWideCacheLocator"):
    locator = getattr(caching, name, None) or getattr(caching, "_" + name)
    locator.ensure_cache_path = refuse
real = pathlib.Path.mkdir
def mkdir(self, *a, **k):
    if not str(self).startswith({str(tmp_path)!r}):
        raise OSError(30, "Read-only file system")
    return real(self, *a, **k)
pathlib.Path.mkdir = mkdir
from sfumato.kernels.mdav import group_sorted
import numpy as np
groups = group_sorted(np.arange(6.0), 3).tolist()
print(len(set(groups[:3])), len(set(groups[3:])), groups[0] != groups[5])
"""
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1 1 True"
    assert done.stderr.count("compiled kernels are kept in") == 1
