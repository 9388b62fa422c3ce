"""What a measure found, and the results of several."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, overload

import polars as pl

from sfumato.contract.face import result_face, results_face, results_picture
from sfumato.data.plain import plain
from sfumato.drawing import Picture, number, span
from sfumato.errors import did_you_mean


@dataclass(frozen=True, repr=False)
class Result:
    """What a measure found.

    ``value`` is the headline number, ``interval`` its confidence (or Monte-Carlo) interval,
    ``breakdown`` a table of parts, ``unit`` what the number counts, ``notes`` what to know before
    quoting it. Every other figure is in ``figures`` and is an attribute too (``result.zone_rate``).
    ``confidential`` tables (links, risky records) go to internal reports only.
    """

    value: float
    unit: str = ""
    interval: tuple[float, float] | None = None
    breakdown: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()
    figures: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    confidential: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # Filled in by the measure that made it:
    name: str = ""
    measure: str = ""
    direction: str = "lower"
    bounds: tuple[float, float] = (float("-inf"), float("inf"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "figures", MappingProxyType(dict(self.figures)))
        object.__setattr__(self, "confidential", MappingProxyType(dict(self.confidential)))
        object.__setattr__(self, "notes", tuple(self.notes))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for place in ("figures", "confidential"):
            held = self.__dict__.get(place, {})
            if name in held:
                return held[name]
        there = [*self.__dict__.get("figures", {}), *self.__dict__.get("confidential", {}), "value"]
        raise AttributeError(f"this result has no {name!r}; {did_you_mean(name, there)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.figures, *self.confidential]

    def __reduce__(self) -> tuple[Any, ...]:
        content = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        content["figures"], content["confidential"] = dict(self.figures), dict(self.confidential)
        return _restore, (content,)

    @property
    def chance(self) -> float | None:
        """What blind guessing finds, where the measure knows it."""
        found = self.figures.get("baseline")
        return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None

    def __repr__(self) -> str:
        interval = f" ({span(*self.interval)})" if self.interval else ""
        chance = f", by chance {number(self.chance)}" if self.chance is not None else ""
        unit = f" {self.unit}" if self.unit else ""
        return f"Result({self.name or 'unnamed'}: {number(self.value, 4)}{interval}{chance}{unit})"

    def _repr_html_(self) -> str:
        return result_face(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the confidential part, as plain values."""
        return {
            "name": self.name,
            "measure": self.measure,
            "value": self.value,
            "unit": self.unit,
            "interval": list(self.interval) if self.interval else None,
            "direction": self.direction,
            "bounds": list(self.bounds),
            "figures": {k: plain(v) for k, v in self.figures.items()},
            "breakdown": self.breakdown.to_dicts() if self.breakdown is not None else None,
            "notes": list(self.notes),
        }


def _more(result: Result) -> str:
    parts = [span(*result.interval)] if result.interval else []
    parts += [f"by chance {number(result.chance)}"] if result.chance is not None else []
    return f" ({', '.join(parts)})" if parts else ""


def _restore(content: dict[str, Any]) -> Result:
    return Result(**content)


class Results(Sequence[Result]):
    """The results of several measures, by position and by name."""

    def __init__(
        self,
        results: Sequence[Result],
        before: Mapping[str, tuple[float, str]]
        | Callable[[], Mapping[str, tuple[float, str]]] = MappingProxyType({}),
    ) -> None:
        self._results = list(results)
        self._before = before

    @property
    def before(self) -> Mapping[str, tuple[float, str]]:
        """By name: the figure before masking and what it is; taken when it is first asked for."""
        if callable(self._before):
            self._before = dict(self._before())
        return self._before

    @overload
    def __getitem__(self, key: int | str) -> Result: ...
    @overload
    def __getitem__(self, key: slice) -> Results: ...
    def __getitem__(self, key: int | str | slice) -> Result | Results:
        if isinstance(key, str):
            for result in self._results:
                if key in (result.name, result.measure):
                    return result
            names = [r.name for r in self._results]
            raise KeyError(f"there is no result {key!r}; {did_you_mean(key, names)}")
        if isinstance(key, slice):
            return Results(self._results[key], self._before)
        return self._results[key]

    def __len__(self) -> int:
        return len(self._results)

    def __reduce__(self) -> tuple[Any, ...]:
        return Results, (self._results, dict(self.before))

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __contains__(self, key: object) -> bool:
        return any(key in (r.name, r.measure) for r in self._results) or key in self._results

    def __repr__(self) -> str:
        lines = [f"  {r.name}: {number(r.value, 4)}{_more(r)} {r.unit}".rstrip() for r in self._results]
        return "Results(\n" + "\n".join(lines) + "\n)"

    def _repr_html_(self) -> str:
        return results_face(self)

    def plot(self) -> Picture:
        """Rates of risk with their intervals, chance, and what they were before masking."""
        return results_picture(self)

    def to_frame(self) -> pl.DataFrame:
        """One row a measure."""
        return pl.DataFrame(
            {
                "measure": [r.name for r in self],
                "value": [float(r.value) for r in self],
                "low": [r.interval[0] if r.interval else None for r in self],
                "high": [r.interval[1] if r.interval else None for r in self],
                "unit": [r.unit for r in self],
                "better": [r.direction for r in self],
            }
        )
