"""What would help most: every coarser class of every key, and blanking, by what each loses in all.

A recode of key k loses H(k) − H′(k) bits a record; a blank of its value loses what the key tells on average,
H′(k). Both are counted until nothing is unsafe: the recode, and then the values that would have to be blanked
in the records that are still unsafe (a hitting set for each cell; in a table of very many cells one value a
record, which is the least). Ranking by unsafe records alone would always favour the coarsest.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from sfumato.cells.marginals import Marginals, marginals
from sfumato.cells.suppression import each_record
from sfumato.contract.mask import Mask
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError
from sfumato.experiment.recodes import KeyLadders
from sfumato.workbench.cellview import View, reclassed

MOST_CELLS: Final = 20_000
MOST_KEYS: Final = 8


@dataclass(frozen=True)
class Help:
    """One way to fewer unsafe records."""

    key: str | None
    """None: no recode, blank what is left."""
    level: int
    words: str
    unsafe: int
    blanks: int
    """Values to blank after it."""
    bits: float
    mask: Mask | None = None


@dataclass(frozen=True)
class Rung:
    """One class of a key's ladder."""

    level: int
    words: str
    mask: Mask
    levels: int


@dataclass
class Ladders:
    """The ladders of a file's keys, made once."""

    _made: dict[Any, dict[str, list[Rung]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, data: Microdata, view: View) -> dict[str, list[Rung]]:
        said = (view.scenario.keys, tuple(repr(data.schema[k]) for k in view.scenario.keys))
        with self._lock:
            if said not in self._made:
                if len(self._made) > 8:
                    self._made.clear()
                self._made[said] = _rungs(data, view)
            return self._made[said]


def _rungs(data: Microdata, view: View) -> dict[str, list[Rung]]:
    ladders = KeyLadders.of(data, view.scenario.keys)
    out: dict[str, list[Rung]] = {}
    for key in view.scenario.keys:
        chain = ladders.chains[key]
        out[key] = []
        for level, place in enumerate(chain.of_level):
            if place < 0:
                continue
            mask = ladders.rungs[key][place]
            try:
                classes = reclassed(mask, view.table.levels[key], data)  # type: ignore[arg-type]
            except SfumatoError:
                continue
            out[key].append(Rung(level, chain.names[level], mask, classes.drop_nulls().n_unique()))
    return out


def helps(data: Microdata, view: View, ladders: dict[str, list[Rung]]) -> list[Help]:
    """Every way, the one of least loss in all first."""
    now, keys = view.now, view.scenario.keys
    records = max(view.table.records, 1)
    widest = [s for s in view.scenario.key_sets if len(s) == view.scenario.dimension]

    def lost(found: Marginals, classes: Mapping[str, pl.Series]) -> tuple[int, float]:
        told = sum(found.entropy[k] for k in keys)
        recoded = max(sum(now.entropy[k] for k in keys) - told, 0.0)
        blanked = _blanked(view, classes, found, widest)
        if blanked is None:  # too many cells to look at each: one value a record, of the average key
            return found.records_unsafe, float(recoded + found.records_unsafe * told / len(keys) / records)
        bits = sum(n * found.entropy[k] for k, n in blanked.items())
        return sum(blanked.values()), float(recoded + bits / records)

    values, bits = lost(now, view.classes)
    out = [Help(None, 0, "No recode: blank what is left", now.records_unsafe, values, bits)]
    for key in keys:
        for rung in ladders.get(key, []):
            if rung.levels >= now.levels[key]:
                continue
            classes = {**view.classes, key: reclassed(rung.mask, view.table.levels[key], data)}  # type: ignore[arg-type]
            found = marginals(view.table, classes, view.scenario.tolerance, widest)
            values, bits = lost(found, classes)
            out.append(Help(key, rung.level, rung.words, found.records_unsafe, values, bits, rung.mask))
    return sorted(out, key=lambda h: (h.bits, h.unsafe))


def _blanked(
    view: View, classes: Mapping[str, pl.Series], found: Marginals, widest: Sequence[tuple[str, ...]]
) -> dict[str, int] | None:
    """How many values of each key would be blanked, by cells; None where there are too many cells."""
    if not found.records_unsafe:
        return dict.fromkeys(view.scenario.keys, 0)
    if (
        len(view.table) > MOST_CELLS
        or len(view.scenario.keys) > MOST_KEYS
        or view.table.records < view.scenario.tolerance
    ):
        return None
    small = view.table
    for key, new in classes.items():
        small = small.recode(key, new)
    weights = np.array([1.0 + found.entropy[k] / 1e3 for k in small.keys])
    sets = [small.positions(s) for s in widest]
    bits = each_record(small, view.scenario.tolerance, sets, weights, exact=False).keys
    return {k: int(small.counts[(bits >> j & 1) == 1].sum()) for j, k in enumerate(small.keys)}
