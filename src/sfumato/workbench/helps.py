"""What would help most: every coarser class of every key, and blanking, by what each loses in all.

A recode of key k loses H(k) − H′(k) bits a record; a blank loses what the values of a key tell on average.
Both are counted until nothing is unsafe: the recode, and then one value at least in every record that is
still unsafe. Ranking by unsafe records alone would always favour the coarsest.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from sfumato.cells.marginals import marginals
from sfumato.contract.mask import Mask
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError
from sfumato.experiment.recodes import KeyLadders
from sfumato.workbench.cellview import View, reclassed


@dataclass(frozen=True)
class Help:
    """One way to fewer unsafe records."""

    key: str | None
    """None: no recode, blank what is left."""
    level: int
    words: str
    unsafe: int
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

    def lost(unsafe: int, entropy: Any) -> float:
        told = sum(entropy[k] for k in keys)
        recoded = max(sum(now.entropy[k] for k in keys) - told, 0.0)
        return float(recoded + unsafe * told / len(keys) / records)

    out = [
        Help(
            None,
            0,
            "No recode: blank what is left",
            now.records_unsafe,
            lost(now.records_unsafe, now.entropy),
        )
    ]
    for key in keys:
        for rung in ladders.get(key, []):
            if rung.levels >= now.levels[key]:
                continue
            classes = reclassed(rung.mask, view.table.levels[key], data)  # type: ignore[arg-type]
            found = marginals(view.table, {**view.classes, key: classes}, view.scenario.tolerance, widest)
            out.append(
                Help(
                    key,
                    rung.level,
                    rung.words,
                    found.records_unsafe,
                    lost(found.records_unsafe, found.entropy),
                    rung.mask,
                )
            )
    return sorted(out, key=lambda h: (h.bits, h.unsafe))
