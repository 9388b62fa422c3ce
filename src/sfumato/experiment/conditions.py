"""Recodes for conditions that a board insists on: k by count, l-diversity, t-closeness, k-map, δ-presence,
tolerances.

A condition is a risk measure whose ``value`` counts the records that violate it (its ``as_condition``).
The levels of least loss are searched for each, and the coarser level of each key taken; what the sample
flattered, or what several sensitive columns ask for together, is mended level by level until the measures
themselves count none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.generalise import Model
from sfumato.contract.measure import RiskMeasure
from sfumato.data.codes import code_column
from sfumato.data.microdata import IntArray, Microdata
from sfumato.errors import ParameterError
from sfumato.experiment.recodes import KeyLadders


def conditions_of(measures: Sequence[Any], data: Microdata) -> list[RiskMeasure]:
    """Those of the measures that are conditions on groups of keys."""
    return [m for m in measures if isinstance(m, RiskMeasure) and m.as_condition(data) is not None]


def levels_for(ladders: KeyLadders, asked: Sequence[RiskMeasure], data: Microdata) -> dict[str, int]:
    """A level for each key at which every condition holds for every record."""
    levels = dict.fromkeys(ladders.keys, 0)
    for one in asked:
        for key, level in _searched(ladders, one, data).items():
            levels[key] = max(levels[key], level)
    while not _held(ladders, asked, data, levels):
        finer = [k for k in ladders.keys if levels[k] < len(ladders.chains[k]) - 1]
        if not finer:
            names = ", ".join(m.name for m in asked)
            raise ParameterError(f"no recode of the keys meets {names}, not even with every key dropped")
        # The key that still has the most classes is the one that tells people apart.
        key = max(finer, key=lambda k: int(ladders.chains[k].maps[levels[k]].max()))
        levels[key] += 1
    return levels


def _searched(ladders: KeyLadders, one: RiskMeasure, data: Microdata) -> Mapping[str, int]:
    model = one.as_condition(data)
    assert model is not None
    more: dict[str, Any] = {}
    sensitive = [c for c in getattr(one, "sensitive", ()) or data.schema.sensitive if c in data.columns]
    if hasattr(one, "sensitive") and sensitive:
        more = _fewest(data, sensitive)
    if hasattr(one, "population"):
        people = getattr(one, "population", None)
        if people is None:
            more = {"sizes": _weights(one, data)}
        else:
            return _with_population(ladders, one, model, data)
    return ladders.search(model, suppress_at_most=0.0, **more).levels


def _fewest(data: Microdata, columns: Sequence[str]) -> dict[str, Any]:
    """The codes of the sensitive column with the fewest values, which is the hardest to keep diverse."""
    coded = [code_column(data, c) for c in columns]
    codes, levels = min(coded, key=lambda pair: len(pair[1]))
    return {"sensitive": codes, "values": len(levels)}


def _weights(one: RiskMeasure, data: Microdata) -> np.ndarray[Any, np.dtype[np.float64]]:
    weight = getattr(one, "weight", None) or data.schema.weight
    if weight is None:
        raise ParameterError(
            f"{one.name} needs to know the population", hint="name its file (population) or a weight"
        )
    return data.column(weight).cast(pl.Float64).fill_null(1.0).to_numpy()


def _with_population(
    ladders: KeyLadders, one: RiskMeasure, model: Model, data: Microdata
) -> Mapping[str, int]:
    """The population's records stand beside the file's: they count in sizes, not as records."""
    from sfumato.io import read

    path = one.file(str(one.population))  # type: ignore[attr-defined]
    people = read(path)
    keys = [k for k in ladders.keys if k in people.columns]
    if len(keys) < len(ladders.keys):
        lacking = next(k for k in ladders.keys if k not in keys)
        raise ParameterError(f"the population has no column {lacking!r}")
    types = {k: data.frame[k].dtype for k in keys}
    own = data.frame.select(keys)
    both = pl.concat([own, people.frame.select(pl.col(k).cast(types[k], strict=False) for k in keys)])
    union = KeyLadders.of(Microdata(both, replace(data.schema, **_bare(data, keys))), keys, like=ladders)
    n, m = own.height, people.frame.height
    counts: IntArray = np.repeat(np.array([1, 0], np.int64), [n, m])
    return union.search(model, suppress_at_most=0.0, counts=counts, sizes=1.0 - counts).levels


def _bare(data: Microdata, keys: Sequence[str]) -> dict[str, Any]:
    """Roles and details for a file that has the keys alone."""
    schema = data.schema
    return {
        "id": None,
        "household": None,
        "weight": None,
        "strata": (),
        "sensitive": (),
        "keys": tuple(k for k in schema.keys if k in keys),
        "geography": tuple(k for k in schema.geography if k in keys),
        "variables": {
            k: replace(v, sum_of=(), ratio_of=(), imputed=None)
            for k, v in schema.variables.items()
            if k in keys
        },
    }


def _held(
    ladders: KeyLadders, asked: Sequence[RiskMeasure], data: Microdata, levels: Mapping[str, int]
) -> bool:
    """Whether the measures themselves count no violation on the recoded file."""
    steps, dropped = ladders.steps(levels)
    masked = data
    for step in steps:
        masked = step.own_list(masked)
    kept = [k for k in ladders.keys if k not in dropped]
    if not kept:
        return True
    return all(on_keys(one, kept).measure(data, masked, steps=steps).value == 0 for one in asked)


def on_keys(one: RiskMeasure, kept: Sequence[str]) -> RiskMeasure:
    """The measure on those of its keys that are released."""
    if "keys" not in type(one).parameters() or getattr(one, "key_sets", None):
        return one
    own: Sequence[str] = one.keys  # type: ignore[attr-defined]
    return replace(one, keys=tuple(k for k in own if k in kept) if own else tuple(kept))  # type: ignore[call-arg]
