"""The data file as the page sees it: read once, in a thread of its own, and looked at column by column."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError
from sfumato.plan.plan import Plan
from sfumato.workbench.errors import defect

BARS = 22
LOOKED_AT = 50_000
"""Pictures of columns are drawn from at most so many records, spread over the file."""


def mark_of(plan: Plan) -> str:
    """What tells one state of a data file from another."""
    try:
        stat = plan.data_file().stat()
    except (OSError, SfumatoError):
        return "none"
    options = json.dumps(dict(plan.read_options), sort_keys=True, default=str)
    return f"{stat.st_size}-{stat.st_mtime_ns}-{zlib.crc32(options.encode()):08x}"


class Opened:
    """One data file in memory, or why it isn't there."""

    def __init__(self, plan: Plan, look: Callable[[], None], told: Callable[[], None]) -> None:
        """``look`` is called when it is read, before it counts as ready; ``told`` when it does."""
        self.path: Path | None = plan.data_file() if plan.data_path else None
        self.name = Path(plan.data_path).name if plan.data_path else ""
        self.mark = mark_of(plan)
        self.options = dict(plan.read_options)
        self.file: Microdata | None = None
        self.problem = ""
        self.hint = ""
        self._look, self._told = look, told
        self._with_schema: tuple[Any, Microdata] | None = None
        self._facts: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._plan = plan
        self.ready = threading.Event()

    def start(self) -> None:
        """Read it, in a thread of its own."""
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def reading(self) -> bool:
        return not self.ready.is_set()

    def _read(self) -> None:
        try:
            self.file = self._plan.file_alone()
        except SfumatoError as problem:
            self.problem, self.hint = (
                self._without_paths(problem.message),
                self._without_paths(problem.hint or ""),
            )
        except MemoryError:
            self.problem = "the memory isn't enough to read it"
        except Exception as problem:
            self.problem = defect(problem)
        try:
            if self.file is not None:
                self._look()
        finally:
            self.ready.set()
            self._told()

    def _without_paths(self, text: str) -> str:
        """Messages name the file, never its folder."""
        if self.path is None:
            return text
        for whole in (str(self.path), str(self.path.absolute()), str(self.path.parent)):
            if len(whole) > 2:
                text = text.replace(whole, self.name or "the file")
        return text

    def changed(self, plan: Plan) -> bool:
        """Whether the file on disk isn't the one that was read."""
        return self.mark != mark_of(plan)

    def data(self, plan: Plan) -> Microdata:
        """The file with the plan's schema."""
        if self.file is None:
            raise SfumatoError(self.problem or "The file is still being read.")
        with self._lock:
            if self._with_schema is None or self._with_schema[0] != plan.schema:
                self._with_schema = (plan.schema, plan.with_schema_of(self.file))
            return self._with_schema[1]

    def facts(self, data: Microdata, column: str) -> dict[str, Any]:
        """Values, missing, ends and a small picture of one column."""
        key = (column, repr(data.schema[column]), data.kind(column))
        if key not in self._facts:
            self._facts[key] = look_at(data, column)
        return self._facts[key]


def look_at(data: Microdata, column: str) -> dict[str, Any]:
    """What the Data screen says of one column."""
    variable = data.schema[column]
    values = data.column(column)
    gone = np.asarray(data.missing(column), bool)
    n = len(values)
    out: dict[str, Any] = {"missing": int(gone.sum()), "records": n, "numeric": values.dtype.is_numeric()}
    try:
        out["values"] = int(values.filter(pl.Series(~gone)).n_unique()) if n else 0
    except pl.exceptions.PolarsError:  # a type without equality
        out["values"] = None
    step = max(1, n // LOOKED_AT)
    some = values.gather_every(step)
    held = some.filter(pl.Series(~gone[::step]))
    out["bars"], out["last"], out["first"] = _bars(data, column, held, out["values"] or 0)
    for end, at in (("top", variable.top), ("bottom", variable.bottom)):
        if at is not None and values.dtype.is_numeric():
            beyond = (values >= at) if end == "top" else (values <= at)
            there = int((beyond.fill_null(False).to_numpy() & ~gone).sum())
            out[f"{end}_share"] = there / max(n - out["missing"], 1)
    if values.dtype.is_numeric() and len(held):
        out["low"], out["high"] = float(held.min() or 0), float(held.max() or 0)  # type: ignore[arg-type]
        out["median"] = float(held.median() or 0)  # type: ignore[arg-type]
    return out


def _bars(data: Microdata, column: str, held: pl.Series, distinct: int) -> tuple[list[int], bool, bool]:
    """Counts of bars, and whether the last and the first are heaps at a code."""
    variable = data.schema[column]
    if not len(held) or column == data.schema.id:
        return [], False, False
    if held.dtype.is_numeric() and not held.dtype.is_decimal():
        x = held.cast(pl.Float64).drop_nans().to_numpy()
        x = x[np.isfinite(x)]
        if not len(x):
            return [], False, False
        if distinct <= BARS and data.kind(column) != "continuous":
            _, counts = np.unique(x, return_counts=True)
            return counts.tolist(), False, False
        low, high = float(x.min()), float(x.max())
        if variable.top is not None:
            high = min(high, float(variable.top))
        if not high > low:
            return [len(x)], False, False
        counts, _ = np.histogram(np.clip(x, low, high), bins=BARS, range=(low, high))
        heap = variable.top is not None and bool((x >= variable.top).any())
        return counts.tolist(), heap, variable.bottom is not None and bool((x <= variable.bottom).any())
    if distinct > 400:
        return [], False, False
    often = held.cast(pl.String, strict=False).value_counts(sort=True)["count"].to_list()
    return often[:BARS], False, False
