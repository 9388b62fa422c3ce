"""What a swap of geography or values did: counts by area, class means, records, risky classes left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.contract.measure import UtilityMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import BoolArray, Microdata, as_microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.stats.pairing import same_length
from sfumato.utility.bias import bias_of_means
from sfumato.utility.dissimilarity import Dissimilarity


@dataclass(frozen=True, kw_only=True)
class SwapEffects(UtilityMeasure):
    """The effects of a swap, before and after, in one table.

    For each level of the geography the index of dissimilarity D of ``table`` (mean over areas,
    largest); for each class level the PERCENTAGE BIAS of every column of ``of``; the records
    changed; the key combinations that fewer than ``tolerance`` records share, before and after, and
    how many of those before have no changed record (the tolerance failures left). ``value`` is the
    largest PERCENTAGE BIAS at the finest class level, 0 where no numeric column is named.

    Reference: Moore (1996), SRD RR96/06, sections III and XI.

    >>> import sfumato as sf
    >>> deck = sf.decks.housing()
    >>> masked = sf.ConfidentialityEdit2000(tolerance=2).mask(deck, seed=1)
    >>> found = sf.SwapEffects(of=["INCOME"], tolerance=2).measure(deck, masked)
    >>> found.records_changed, found.tolerance_failures_before, found.tolerance_failures_left
    (582, 473, 0)
    """

    name: ClassVar[str] = "swap_effects"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Moore (1996), SRD RR96/06, sections III and XI"

    of: tuple[str, ...] = parameter(
        (),
        doc="Numeric columns whose class means are compared; by default the sensitive ones.",
        columns="sensitive",
    )
    keys: tuple[str, ...] = parameter(
        (), doc="The keys that make the finest classes; by default the schema's.", columns="keys"
    )
    geography: tuple[str, ...] = parameter(
        (), doc="The geographic levels, coarse to fine; by default the schema's.", columns="geography"
    )
    table: tuple[str, ...] = parameter(
        (), doc="The columns of the table of D; by default the keys that aren't geography.", columns=True
    )
    levels: tuple[tuple[str, ...], ...] = parameter(
        (), doc="Sets of keys, each a class level; by default as in Moore's Table 7.", columns=True
    )
    tolerance: int = parameter(3, doc="Combinations of fewer records than this are risky.", at_least=1)

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        from sfumato.cells.keys import default_levels

        same_length(original, masked)
        schema = original.schema
        keys, areas = self.keys or schema.keys, self.geography or schema.geography
        if not keys:
            raise MeasureError("no keys were given", hint="name them with `keys`, or give the schema keys")
        of = self.of or tuple(c for c in schema.sensitive if original.is_numeric(c))
        table = self.table or tuple(k for k in keys if k not in areas) or keys
        rows: list[dict[str, Any]] = []
        by_area = None
        if areas:
            found = Dissimilarity(table=table, areas=areas).measure(original, masked)
            by_area = found.by_area
            for row in found.by_level.to_dicts():
                rows.append(_row("D, mean over areas", row["level"], after=row["mean"] or 0.0))
                rows.append(_row("D, largest", row["level"], after=row["maximum"] or 0.0))
        levels = self.levels or tuple(default_levels(keys, areas))
        worst, notes = 0.0, list[str]()
        for column in of:
            found_rows, finest = _bias_rows(original, masked, column, levels)
            if finest is None:
                notes.append(f"{column} has no mean to take a percentage of, and is left out")
                continue
            rows += found_rows
            worst = max(worst, finest)
        changed = _changed(original, masked)
        before, below = _risky(original, keys, self.tolerance)
        after, _ = _risky(masked, keys, self.tolerance)
        codes, _ = original.codes(keys)
        touched = np.zeros(int(codes.max(initial=0)) + 1, np.bool_)
        touched[codes[changed]] = True
        left = int((below & ~touched).sum())
        rows.append(_row("records changed", "file", after=int(changed.sum())))
        named = " × ".join(keys)
        if after:
            notes.append(
                "combinations of few records after the swap are partly false ones, which is the point"
            )
        rows.append(_row(f"combinations of fewer than {self.tolerance}", named, before=before, after=after))
        rows.append(_row("of them without a changed record", named, before=before, after=left))
        return Result(
            value=worst,
            unit="percent of the mean",
            breakdown=pl.DataFrame(rows, schema=_SCHEMA),
            figures={
                "records_changed": int(changed.sum()),
                "tolerance_failures_before": before,
                "tolerance_failures_after": after,
                "tolerance_failures_left": left,
                **({"d_by_area": by_area} if by_area is not None else {}),
            },
            notes=tuple(notes),
        )


_SCHEMA = {"effect": pl.String, "level": pl.String, "before": pl.Float64, "after": pl.Float64}


def effects(original: Any, masked: Any, **parameters: Any) -> pl.DataFrame:
    """The table of :class:`SwapEffects` (its parameters by name): effect, level, before, after."""
    found = SwapEffects(**parameters).measure(as_microdata(original), as_microdata(masked))
    assert found.breakdown is not None
    return found.breakdown


def _bias_rows(
    original: Microdata, masked: Microdata, column: str, levels: Sequence[tuple[str, ...]]
) -> tuple[list[dict[str, Any]], float | None]:
    """PERCENTAGE BIAS of a column at each level, and at the finest; None where it has no mean."""
    x, z = original.numbers(column), masked.numbers(column)
    there = x[np.isfinite(x)]
    mean = float(there.mean()) if len(there) else 0.0
    if abs(mean) <= 1e-9 * max(float(np.abs(there).max(initial=0.0)), 1e-300):
        return [], None
    rows, finest, most = [], 0.0, -1
    for level in levels:
        before, after = joint_codes(original, masked, level)[:2]
        try:
            bias = 100.0 * bias_of_means(x, z, before, after)[0] / abs(mean)
        except MeasureError:
            # No class has a mean in both files: nothing can be compared at this level.
            continue
        rows.append(_row(f"PERCENTAGE BIAS of {column}", " × ".join(level), after=bias))
        if int(before.max()) > most:
            most, finest = int(before.max()), bias
    return rows, finest


def _row(effect: str, level: str, *, before: float = 0.0, after: float) -> dict[str, Any]:
    return {"effect": effect, "level": level, "before": float(before), "after": float(after)}


def _changed(original: Microdata, masked: Microdata) -> BoolArray:
    """Which records differ in any column that both files have."""
    from sfumato.data.differences import same_memory

    out = np.zeros(len(original), np.bool_)
    for column in original.columns:
        if column not in masked.columns:
            continue
        one, two = original.column(column), masked.column(column)
        if same_memory(one, two):
            continue
        if one.dtype != two.dtype:
            one, two = one.cast(pl.String), two.cast(pl.String)
        out |= one.ne_missing(two).to_numpy()
    return out


def _risky(data: Microdata, keys: Sequence[str], tolerance: int) -> tuple[int, BoolArray]:
    codes, k = data.codes(keys)
    below = np.bincount(codes, minlength=k) < tolerance
    return int(below.sum()), below
