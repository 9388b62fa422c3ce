"""The parts of a plan that aren't masks or measures: limits, and how a release is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from sfumato.errors import ParameterError

FORMAT: Final = 1
OFF: Final = "off"
"""What switches a step off: ``off = true`` keeps its table in the plan, but it isn't carried out."""
RELEASE_FORMATS: Final = ("parquet", "csv", "tsv", "arrow", "sav", "dta", "asc", "xlsx")


@dataclass(frozen=True)
class Limit:
    """A bound on a figure of a measure: ``linkage.rate = { at_most = 0.10 }``."""

    measure: str
    figure: str = "value"
    at_most: float | None = None
    at_least: float | None = None

    def __str__(self) -> str:
        bounds = []
        if self.at_most is not None:
            bounds.append(f"at most {self.at_most:g}")
        if self.at_least is not None:
            bounds.append(f"at least {self.at_least:g}")
        return f"{self.measure}.{self.figure} {' and '.join(bounds)}"

    def holds(self, value: float) -> bool:
        """Whether the value is within the bounds (an undefined value never is)."""
        if value != value:
            return False
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )


@dataclass(frozen=True)
class ReleaseOptions:
    """How a release is written.

    ``drop`` are columns that stay behind; ``identifiers`` are columns that lead to people by themselves
    (names, numbers, contacts) and are released all the same, which has to be said.
    """

    drop: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    shuffle: bool = True
    format: str = "parquet"
    name: str = "data"
    new_ids: bool = True
    publish_parameters: bool = False
    """Whether the public report gives the parameters of the masks; whoever has them attacks better."""
    secret_parameters: bool = False
    """What holds anyway: parameters aren't published unless the plan says so. Older plans say it."""

    def __post_init__(self) -> None:
        for name in ("drop", "identifiers"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        if self.publish_parameters and self.secret_parameters:
            raise ParameterError("`publish_parameters` and `secret_parameters` exclude each other")

    def to_dict(self) -> dict[str, Any]:
        out = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                out[f.name] = list(value) if isinstance(value, tuple) else value
        return out


def limits_of(content: Mapping[str, Any]) -> list[Limit]:
    """``{"linkage.rate": {…}}`` or ``{"linkage": {"rate": {…}}}`` → limits."""
    out = []
    for name, value in content.items():
        if not isinstance(value, Mapping):
            raise ParameterError(f"the limit {name!r} needs `at_most` or `at_least`")
        if value and set(value) <= {"at_most", "at_least"}:
            measure, _, figure = name.partition(".")
            out.append(Limit(measure, figure or "value", **value))
        else:
            for figure, bounds in value.items():
                if (
                    not isinstance(bounds, Mapping)
                    or not set(bounds) <= {"at_most", "at_least"}
                    or not bounds
                ):
                    raise ParameterError(f"the limit {name}.{figure} needs `at_most` or `at_least`")
                out.append(Limit(name, figure, **bounds))
    return out
