"""Hierarchies of codes: each original code and its coarser classes.

A hierarchy file has one line per original code: the code, then its class at level 1, at level 2 …,
separated by semicolons (the CSV files of ARX are such files). Level 0 is the code itself. Classes must
nest: records that share a class at one level share it at every coarser one.

>>> ages = Hierarchy.of([("21", "20-29", "*"), ("25", "20-29", "*"), ("34", "30-39", "*")])
>>> ages.class_of(pl.Series(["34", "21"]), level=1).to_list()
['30-39', '20-29']
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from sfumato.errors import InputError, SchemaError, as_path

_SHOWN = 8


@dataclass(frozen=True)
class Hierarchy:
    """Original codes (level 0) and their classes at each coarser level, as text."""

    levels: tuple[tuple[str, ...], ...]
    """One tuple per level, all as long as there are codes."""
    source: str = "the hierarchy"
    _class: tuple[Mapping[str, str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        maps: list[dict[str, str]] = []
        for level in range(len(self.levels)):
            first: dict[str, str] = {}
            for code, name in zip(self.levels[0], self.levels[level], strict=True):
                if first.setdefault(code, name) != name:
                    raise SchemaError(
                        f"{self.source} puts {code!r} into two classes of level {level}: "
                        f"{first[code]!r} and {name!r}",
                        hint="each original code may stand on one line only",
                    )
            maps.append(first)
        self._check_nesting()
        object.__setattr__(self, "_class", tuple(maps))

    def _check_nesting(self) -> None:
        for level in range(1, len(self.levels) - 1):
            parents: dict[str, set[str]] = {}
            for name, parent in zip(self.levels[level], self.levels[level + 1], strict=True):
                parents.setdefault(name, set()).add(parent)
            torn = {name: above for name, above in parents.items() if len(above) > 1}
            if torn:
                listed = [f"{n!r} is in {_listed(sorted(above))}" for n, above in list(torn.items())[:_SHOWN]]
                raise SchemaError(
                    f"{self.source} doesn't nest at level {level + 1}: {'; '.join(listed)}",
                    hint="a class must lie in one class of the next level",
                )

    @property
    def height(self) -> int:
        """The coarsest level."""
        return len(self.levels) - 1

    @classmethod
    def of(cls, rows: Iterable[Sequence[str]], source: str = "the hierarchy") -> Hierarchy:
        """From lines of (code, class at level 1, class at level 2, …)."""
        rows = [tuple(str(cell) for cell in row) for row in rows]
        if not rows:
            raise SchemaError(f"{source} is empty")
        for place, row in enumerate(rows, start=1):
            if len(row) != len(rows[0]):
                raise SchemaError(
                    f"{source} has {len(rows[0])} levels on line 1 and {len(row)} on line {place}",
                    hint="each line needs a class for every level",
                )
        return cls(tuple(zip(*rows, strict=True)), source)

    @classmethod
    def read(cls, path: str | Path, base: Path = Path()) -> Hierarchy:
        """From a file with one code a line, separated by semicolons (or tabs, or commas)."""
        text = file_text(path, "hierarchy", base)
        head = text.lstrip("\n").split("\n", 1)[0]
        separator = next((s for s in (";", "\t", ",") if s in head), ";")
        rows = [row for row in csv.reader(text.splitlines(), delimiter=separator) if row]
        return cls.of([[cell.strip() for cell in row] for row in rows], str(path))

    def class_of(self, values: pl.Series, level: int) -> pl.Series:
        """The class of each value at this level; null where the value is null or not in the hierarchy."""
        if not 0 <= level <= self.height:
            raise SchemaError(
                f"{self.source} has no level {level}", hint=f"its levels are 0 (original) to {self.height}"
            )
        names = values.cast(pl.String)
        codes = list(self._class[level])
        found = names.replace_strict(
            codes, [self._class[level][c] for c in codes], default=None, return_dtype=pl.String
        )
        return found.rename(values.name)

    def classes(self, level: int) -> tuple[str, ...]:
        """The classes of a level, in the order of the file."""
        return tuple(dict.fromkeys(self.levels[level]))


def file_text(path: str | Path, what: str, base: Path = Path()) -> str:
    """The text of a small file of codes, its line ends as newlines.

    A relative path starts from ``base``, and messages give the path as it was written: an absolute one
    would put the owner's folders into a report.
    """
    try:
        raw = (base / as_path(path)).read_bytes()
    except OSError as problem:
        raise InputError(f"the {what} file {path} can't be read: {problem.strerror}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _listed(names: Sequence[Any]) -> str:
    return " and ".join(repr(n) for n in names[:3]) + (" …" if len(names) > 3 else "")
