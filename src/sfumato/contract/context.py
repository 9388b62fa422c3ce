"""What a step or a measure may know beyond its parameters and the data it is given."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sfumato.contract.parameters import Declared, flat_names
from sfumato.data.microdata import Microdata
from sfumato.errors import Problem


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

    def file(self, path: str) -> Path:
        """Where a file that a parameter names is: paths start from the plan's folder."""
        return self.context.base / path

    def check_files(self) -> list[Problem]:
        """Every file that a parameter names and that isn't there."""
        out = []
        for name, declared in self.parameters().items():
            for path in flat_names(getattr(self, name)) if declared.metadata.get("file") else ():
                if not self.file(path).exists():
                    message = f"`{name}` names {path}, and there is no such file"
                    hint = f"paths start from the plan's folder, {self.context.base.resolve()}"
                    out.append(Problem(0, message, hint, parameter=name))
        return out

    def given(self, context: Context) -> Self:
        """This one, told of its surroundings; the same otherwise."""
        out = copy.copy(self)
        object.__setattr__(out, "_context", context)
        return out
