"""What a step or a measure may know beyond its parameters and the data it is given."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sfumato.contract.parameters import Declared
from sfumato.data.microdata import Microdata


@dataclass(frozen=True)
class Context:
    """What a step may know beyond its parameters and the data it is given.

    ``base`` is the folder that the paths in its parameters start from (the plan's), ``original`` the
    file as it was before the first step, for steps that attack what earlier steps did.
    """

    base: Path = Path()
    original: Microdata | None = None


@dataclass(frozen=True, kw_only=True)
class Told(Declared):
    """Something declared that can be told of its surroundings."""

    @property
    def context(self) -> Context:
        """What this one was told beyond its parameters."""
        told: Context = self.__dict__.get("_context", Context())
        return told

    def given(self, context: Context) -> Self:
        """This one, told of its surroundings; the same otherwise."""
        out = copy.copy(self)
        object.__setattr__(out, "_context", context)
        return out
