"""A published figure beside ours, with a verdict: cells, claims, tables, and the run that fills them.

A verdict is computed, never typed. Published figures are kept as they were printed, so that their last
digit says how exact they are; ours are means over seeds with a standard error. The tolerance of a cell is

    half a unit of the last printed digit + an allowance + k·s·√(1/runs + 1/seeds),

s the standard deviation over seeds, ``runs`` the number of runs behind the published figure (1 where the
paper doesn't say), and k Student's quantile that a figure of the same law exceeds 27 times in 10,000 (3 for
many seeds, 3.5 for 20, 4.1 for 10; never more than 5, so that a few seeds don't excuse everything). The
allowance covers what neither explains, such as a synthetic file that stands in for the paper's; each table
states its own and where it comes from.

Nothing but times differs between two runs: figures are kept to ten digits, and tables of times are kept and
shown apart.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from sfumato.contract.mask import Mask, Notes
from sfumato.data.microdata import Microdata
from sfumato.draws import Seed

REPRODUCED: Final = "reproduced"
CONSISTENT: Final = "consistent, says little"
MISPRINT: Final = "misprint"
NOT: Final = "not reproduced"
STAND_IN: Final = "stand-in"
SHOWN: Final = "not comparable"
ABSENT: Final = "data not at hand"
HOLDS: Final = "holds"
FAILS: Final = "fails"

ARITHMETIC: Final = "arithmetic"
FITTED: Final = "fitted"

VERDICTS: Final = {
    REPRODUCED: "ours is within the tolerance of the printed figure",
    CONSISTENT: "ours is within the tolerance, but the tolerance is more than half of the printed figure: "
    "chance alone would often have put it there",
    MISPRINT: "the printed figure contradicts the paper's own formulas or other figures; ours is within the "
    "tolerance of what should stand there",
    NOT: "ours is outside the tolerance; the reason is given",
    STAND_IN: "the paper's data are confidential, and a synthetic deck stands in; the digits aren't judged, "
    "the pattern is",
    SHOWN: "shown and not judged: a time on another machine, an average that has no stable mean, or the rate "
    "of an intruder whom the paper doesn't describe",
    ABSENT: "the file isn't there; how to get it is said",
}


@dataclass(frozen=True)
class Cell:
    """One published figure and ours."""

    row: str
    column: str
    published: str
    """As printed."""
    ours: float | None
    error: float = 0.0
    """The standard error of ours over seeds; 0 where nothing is random."""
    tolerance: float = 0.0
    corrected: str = ""
    """What should have been printed, where it is a misprint."""
    reason: str = ""
    """Why it is a misprint, or why it can't be reproduced."""
    improved: str = ""
    """What our improved method gives."""
    standing: str = ""
    """STAND_IN, SHOWN or ABSENT, where the digits aren't judged."""
    basis: str = ""
    """ARITHMETIC where ours follows from other printed figures, FITTED where a deck was made to agree."""

    @property
    def verdict(self) -> str:
        if self.standing:
            return self.standing
        if self.ours is None or not math.isfinite(self.ours):
            return NOT
        right = self.corrected or self.published
        near = abs(self.ours - number(right)) <= self.tolerance + 1e-9
        if not near:
            return NOT
        if self.tolerance > max(abs(number(right)) / 2, half_unit(right)) + 1e-9:
            return CONSISTENT
        return MISPRINT if self.corrected else REPRODUCED


@dataclass(frozen=True)
class Claim:
    """A pattern the paper claims, as a sentence that a run can refute."""

    sentence: str
    holds: bool | None
    """None where the data aren't there."""
    detail: str
    ours: bool = False
    """Whether the sentence is ours (an improvement, a correction) and not the paper's."""
    reason: str = ""
    """Why it fails, where it does."""

    @property
    def verdict(self) -> str:
        return ABSENT if self.holds is None else HOLDS if self.holds else FAILS


@dataclass
class Table:
    """A table or worked example of a paper."""

    title: str
    about: str
    cells: list[Cell] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    improved: str = ""
    """What the further column shows."""
    tolerance: str = ""
    """Where the allowances in the tolerances come from."""
    timing: bool = False
    """Whether ours are times, which no two runs share; then it is shown on the page of times."""
    seeds: int = 0

    def add(self, row: str, column: str, published: str, ours: Any, **more: Any) -> None:
        """Add a cell; a number is exact, a :class:`Mean` brings its error and tolerance along."""
        if isinstance(ours, Mean):
            self.seeds = max(self.seeds, ours.seeds)
            more.setdefault("tolerance", ours.tolerance(more.get("corrected") or published, more))
            more = {k: v for k, v in more.items() if k not in ("allowance", "runs")}
            cell = Cell(row, column, published, ours.value, ours.error, **more)
        else:
            allowance = more.pop("allowance", 0.0)
            more.pop("runs", None)
            more.setdefault("tolerance", half_unit(more.get("corrected") or published) + allowance)
            cell = Cell(row, column, published, None if ours is None else float(ours), **more)
        self.cells.append(cell)

    def formula(self, row: str, column: str, published: str, ours: float, reason: str, **more: Any) -> None:
        """Add a cell that the paper computed by a formula: where it is off, it is a misprint."""
        near = half_unit(published) + more.get("allowance", 0.0)
        if abs(ours - number(published)) > near:
            digits = len(published.partition(".")[2])
            more |= {"corrected": f"{ours:.{digits}f}", "reason": reason}
        self.add(row, column, published, ours, **{"basis": ARITHMETIC, **more})

    def claim(self, sentence: str, holds: Any, detail: str, **more: Any) -> None:
        self.claims.append(Claim(sentence, bool(holds), detail, **more))

    def absent(self, published: Iterable[tuple[str, str, str]], how: str) -> None:
        """Every published figure, with why there is none of ours."""
        self.about += f" {how}"
        self.cells += [
            Cell(row, column, value, None, standing=ABSENT, reason=how) for row, column, value in published
        ]


@dataclass(frozen=True)
class Mean:
    """A mean over seeds."""

    values: tuple[float, ...]

    @property
    def seeds(self) -> int:
        return len(self.values)

    @property
    def value(self) -> float:
        return float(np.mean(self.values))

    @property
    def spread(self) -> float:
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def error(self) -> float:
        return self.spread / math.sqrt(len(self.values))

    @property
    def factor(self) -> float:
        from scipy.special import stdtrit

        return float(min(5.0, stdtrit(max(1, len(self.values) - 1), 1 - 0.00135)))

    def tolerance(self, published: str, more: dict[str, Any]) -> float:
        chance = self.factor * self.spread * math.sqrt(1 / more.get("runs", 1) + 1 / len(self.values))
        return half_unit(published) + float(more.get("allowance", 0.0)) + chance


def number(printed: str) -> float:
    """The number that was printed.

    >>> number("35,717"), number("5:15"), number("~ 0.990"), number(".5")
    (35717.0, 315.0, 0.99, 0.5)
    """
    if re.fullmatch(r"\d+:\d\d", printed):
        minutes, seconds = printed.split(":")
        return 60.0 * int(minutes) + int(seconds)
    return float(printed.replace(",", "").replace("~", "").replace("%", "").strip())


def half_unit(printed: str) -> float:
    """Half a unit of the last printed digit.

    >>> half_unit("0.955"), half_unit("23,318")
    (0.0005, 0.5)
    """
    return 0.5 * 10.0 ** -len(printed.partition(".")[2].strip("%"))


@dataclass
class Context:
    """How a reproduction runs: how many seeds, where the data are, whom to tell of progress."""

    seeds: int = 20
    quick: bool = False
    data: Path | None = None
    tell: Callable[[str], None] = print
    memo: dict[Any, Any] = field(default_factory=dict)
    """What several tables share, so that it is made once."""

    @property
    def factor(self) -> float:
        return 5.0 if self.quick else 3.0

    def count(self, share: float = 1.0, least: int = 3) -> int:
        """How many seeds a table takes: a share of the usual number, but ``least`` at least (quick: 2)."""
        return max(2 if self.quick else least, round(self.seeds * share))

    def mean(self, values: Sequence[float]) -> Mean:
        return Mean(tuple(float(v) for v in values))

    def means(self, rows: Sequence[dict[str, float]]) -> dict[str, Mean]:
        """The mean of each named figure over runs."""
        return {name: self.mean([row[name] for row in rows]) for name in rows[0]}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """``make()``, made once."""
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def file(self, name: str) -> Path | None:
        path = self.data / name if self.data else None
        return path if path and path.is_file() else None


def carry_out(mask: Mask, data: Microdata, seed: int, purpose: str) -> tuple[Microdata, Notes]:
    """The masked data and what the mask has to say, with draws of their own for each purpose."""
    masked, notes, _ = mask.carry_out(data, Seed.from_int(seed).draws(f"reproduce {purpose}"))
    return masked, notes


# -- a paper's results, kept as plain values ------------------------------------------------------


@dataclass
class Paper:
    """One paper rerun."""

    key: str
    title: str
    reference: str
    about: str
    tables: list[Table]
    seeds: int
    quick: bool
    seconds: float = 0.0

    def cells(self) -> list[tuple[Table, Cell]]:
        return [(t, c) for t in self.tables for c in t.cells]

    def claims(self) -> list[tuple[Table, Claim]]:
        return [(t, c) for t in self.tables for c in t.claims]

    def count(self, verdict: str) -> int:
        return sum(c.verdict == verdict for _, c in self.cells())

    def to_json(self, *, timing: bool | None = None) -> dict[str, Any]:
        """Plain values: all tables, or only those of times, or only the others."""

        def plain(cell: Cell) -> dict[str, Any]:
            row = {k: _ten_digits(v) for k, v in vars(cell).items() if k == "ours" or v not in ("", 0.0)}
            return {**row, "verdict": cell.verdict}

        return {
            **{k: v for k, v in vars(self).items() if k not in ("tables", "seconds")},
            **({} if timing is False else {"seconds": self.seconds}),
            "tables": [
                {
                    **{k: v for k, v in vars(t).items() if k not in ("cells", "claims")},
                    "cells": [plain(c) for c in t.cells],
                    "claims": [{**vars(c), "verdict": c.verdict} for c in t.claims],
                }
                for t in self.tables
                if timing is None or t.timing == timing
            ],
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Paper:
        def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
            return {k: v for k, v in row.items() if k not in names}

        tables = [
            Table(
                **without(t, "cells", "claims"),
                cells=[Cell(**without(c, "verdict")) for c in t["cells"]],
                claims=[Claim(**without(c, "verdict")) for c in t["claims"]],
            )
            for t in content["tables"]
        ]
        return replace(cls(**{**without(content, "tables"), "tables": []}), tables=tables)


def _ten_digits(value: Any) -> Any:
    """A number to ten digits, so that the order of a sum doesn't show; None where it isn't finite."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.10g}") if math.isfinite(value) else None


def save(papers: Sequence[Paper], folder: Path) -> None:
    """Keep the figures, and apart from them the times."""
    for name, timing in (("figures.json", False), ("times.json", True)):
        content = [p.to_json(timing=timing) for p in papers]
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        (folder / name).write_text(text + "\n", encoding="utf-8")


def load(folder: Path) -> list[Paper]:
    """What :func:`save` kept; nothing where there is nothing, or what an earlier version kept."""
    parts = []
    for name in ("figures.json", "times.json"):
        path = folder / name
        if not path.is_file():
            return []
        parts.append([Paper.from_json(p) for p in json.loads(path.read_text(encoding="utf-8"))])
    times = {p.key: p for p in parts[1]}
    return [
        replace(p, tables=[*p.tables, *times[p.key].tables], seconds=times[p.key].seconds)
        if p.key in times
        else p
        for p in parts[0]
    ]
