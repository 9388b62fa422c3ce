"""Measures: they look at an original and a masked file and return a :class:`Result`.

Risk measures and attacks live in ``risk/``, utility measures in ``utility/``; both are this.

>>> import sfumato as sf
>>> loss = sf.measure(original, masked, sf.InformationLoss(columns=["INCOME"]))   # doctest: +SKIP
>>> loss[0].s0, loss["information_loss"].s0                                       # doctest: +SKIP
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, overload

import polars as pl

from sfumato.draws import Draws, Seed, as_seed
from sfumato.errors import MeasureError, Problem, did_you_mean
from sfumato.microdata import Microdata, as_microdata
from sfumato.parameters import Declared
from sfumato.schema import Schema


@dataclass(frozen=True)
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
            "figures": {k: _plain(v) for k, v in self.figures.items()},
            "breakdown": self.breakdown.to_dicts() if self.breakdown is not None else None,
            "notes": list(self.notes),
        }


def _restore(content: dict[str, Any]) -> Result:
    return Result(**content)


class Results(Sequence[Result]):
    """The results of several measures, by position and by name."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = list(results)

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
            return Results(self._results[key])
        return self._results[key]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __contains__(self, key: object) -> bool:
        return any(key in (r.name, r.measure) for r in self._results) or key in self._results

    def __repr__(self) -> str:
        lines = [f"  {r.name}: {r.value:.6g} {r.unit}".rstrip() for r in self._results]
        return "Results(\n" + "\n".join(lines) + "\n)"

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


@dataclass(frozen=True, kw_only=True)
class Measure(Declared):
    """The base of every measure. Direction and bounds are data, not prose."""

    direction: ClassVar[Literal["lower", "higher"]] = "lower"
    """Whether lower or higher values are better for those who use this measure."""
    bounds: ClassVar[tuple[float, float]] = (float("-inf"), float("inf"))
    side: ClassVar[Literal["risk", "utility"]] = "utility"
    files: ClassVar[Literal["both", "one"]] = "both"
    """"one": only one file is looked at (the masked one, or the only one given)."""
    reference: ClassVar[str] = ""

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        """What is wrong with this measure, from the schema and the column types alone."""
        return self.check_columns(types)

    @abstractmethod
    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        """The measure itself. Record i of one file is record i of the other. A measure of one file
        gets that file twice."""

    def measure(self, original: Any, masked: Any = None, *, seed: Seed | int | None = 0) -> Result:
        """The result on an original and a masked file (or on one, where one is enough)."""
        first = as_microdata(original)
        second = first if masked is None else as_microdata(masked)
        if masked is None and self.files == "both":
            raise MeasureError(
                f"{self.name} compares two files",
                hint=f"sf.measure(original, masked, {type(self).__name__}(…))",
            )
        if self.files == "one":
            first = second
        for data, which in ((first, "original"), (second, "masked")):
            problems = [p for p in self.check(data.schema, data._types) if p.severity == "error"]
            if problems:
                where = "" if first is second else f" (in the {which} file)"
                raise MeasureError(
                    "; ".join(f"{self.name}{where}: {p.message}" for p in problems),
                    hint="; ".join(dict.fromkeys(p.hint for p in problems if p.hint)) or None,
                )
        result = self._measure(first, second, as_seed(seed).draws(f"measure {self.id or self.name}"))
        return dataclasses.replace(
            result,
            name=self.id or self.name,
            measure=self.name,
            direction=self.direction,
            bounds=self.bounds,
        )


def measure(original: Any, *rest: Any, seed: Seed | int | None = 0) -> Results:
    """``measure(original, masked, *measures)``; of one file, ``measure(data, *measures)``.

    The seed matters only to measures that draw (shuffled ties, permutations, subsets); it isn't a
    secret, and the same seed gives the same result.
    """
    if not rest:
        raise MeasureError("no measure was given", hint="sf.measure(original, masked, sf.InformationLoss())")
    masked: Any = None
    if not isinstance(rest[0], Measure):
        masked, *rest = rest  # type: ignore[assignment]
    for one in rest:
        if not isinstance(one, Measure):
            hint = f"write {one.__name__}()" if isinstance(one, type) else "pass measures after the two files"
            raise MeasureError(f"{one!r} isn't a measure", hint=hint)
    if not rest:
        raise MeasureError("no measure was given", hint="sf.measure(original, masked, sf.InformationLoss())")
    first = as_microdata(original)
    second = None if masked is None else as_microdata(masked)
    return Results([one.measure(first, second, seed=seed) for one in rest])


def _plain(value: Any) -> Any:
    if isinstance(value, pl.DataFrame):
        return value.to_dicts()
    if isinstance(value, pl.Series):
        return value.to_list()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    return value
