"""Masks that do what none should, in a module that executors can import."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from sfumato.contract.guarantees import Guarantee, SameMultiset
from sfumato.contract.mask import RowsMask
from sfumato.contract.parameters import parameter
from sfumato.data.microdata import Microdata
from sfumato.draws import Draws


@dataclass(frozen=True, kw_only=True)
class Doubles(RowsMask):
    """Doubles a column. Where it is told a file that isn't there, it makes it and kills its executor."""

    name: ClassVar[str] = "doubles"
    column: str = parameter(doc="The column.", columns=True)
    marker: str = parameter(doc="The file.", default="")

    def changes(self, data: Microdata) -> Sequence[str]:
        return (self.column,)

    def _rows(self, chunk: Microdata, start: int, state: Any, draws: Draws) -> Microdata:
        if self.marker and start:
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
                os.kill(int(daemon[1]), signal.SIGKILL)
            except FileExistsError:
                pass
        return chunk.with_columns({self.column: chunk.column(self.column) * 2})


@dataclass(frozen=True, kw_only=True)
class Boasts(Doubles):
    """Promises what it doesn't keep."""

    name: ClassVar[str] = "boasts"

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        return [SameMultiset((self.column,))]


@dataclass(frozen=True, kw_only=True)
class Fails(Doubles):
    """Fails where it is carried out."""

    name: ClassVar[str] = "fails"

    def _rows(self, chunk: Microdata, start: int, state: Any, draws: Draws) -> Microdata:
        if start:
            raise pl.exceptions.ComputeError("no")
        return chunk
