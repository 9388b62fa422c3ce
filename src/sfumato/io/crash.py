"""A trial in a process of its own: a C library that a damaged file crashes takes only that one down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from sfumato.errors import InputError

_SECONDS: Final = 120
_TRIAL: Final = """
import sys
try:
    import pyreadstat
    getattr(pyreadstat, sys.argv[1])(sys.argv[2], metadataonly=True, output_format="dict")
except Exception:
    sys.exit(1)
"""


def refuse_crashing(file: Path, reader: str) -> None:
    """Raise an InputError where reading the file's metadata kills the process that does it."""
    if not sys.executable:
        return  # an interpreter inside another program: there is nothing to start
    try:
        trial = subprocess.run(
            [sys.executable, "-I", "-c", _TRIAL, reader, str(file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{file} is damaged: its metadata can't be read in {_SECONDS} seconds") from None
    except (OSError, ValueError):
        return
    # 0 and 1 are the trial's own ends (an ordinary error is reported by the real reading).
    if trial.returncode not in (0, 1):
        raise InputError(
            f"{file} is damaged: reading it crashes the library for such files",
            hint="export it again from the package that made it",
        )
