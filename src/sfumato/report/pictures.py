"""The numbers behind a report's pictures: histograms, displacements, correlations, D by area."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.microdata import FloatArray, Microdata

if TYPE_CHECKING:
    from sfumato.run import Run

MOST_COLUMNS = 12
MOST_RECORDS = 200_000
"""Pictures of a larger file are drawn from every k-th record; a bar's error is then below 0.12 points."""
BARS = 32
LEAST_COUNT = 5
"""Bars of the original with fewer records than this are drawn as none, even internally: a report
travels further than it should."""


def pictures(run: Run, columns: list[str], *, public: bool) -> dict[str, Any]:
    """What is drawn; of the public report, nothing that the masked file doesn't show by itself."""
    touched = [c for s in run.steps for c, n in s.touched.items() if n]
    numbers = [
        c
        for c in dict.fromkeys(touched)
        if c in columns
        and c in run.original.columns
        and run.masked.is_numeric(c)
        and run.masked.kind(c) == "continuous"
        and run.masked.schema.role_of(c) in (None, "sensitive")
    ]
    out: dict[str, Any] = {"columns": [], "more_columns": max(0, len(numbers) - MOST_COLUMNS)}
    numbers = numbers[:MOST_COLUMNS]
    original, masked = _thinned(run.original, numbers), _thinned(run.masked, numbers)
    if len(masked) < len(run.masked):
        out["drawn_from"] = len(masked)
    for column in numbers:
        drawn = _histogram(original, masked, column, public=public)
        if drawn:
            out["columns"].append(drawn)
    if len(numbers) > 1 and len(run.masked) > 2:
        out["correlations"] = _correlations(original, masked, numbers, public=public)
    if not public:
        out["by_area"] = _by_area(run)
    return out


def _thinned(data: Microdata, columns: list[str]) -> Microdata:
    """These columns of every k-th record, where the file is large."""
    step = -(-len(data) // MOST_RECORDS)
    if step <= 1 or not columns:
        return data
    return data.with_frame(data.select(columns).gather_every(step))


def round_edges(low: float, high: float, bars: int = BARS) -> FloatArray:
    """Limits of about so many bars at round numbers (1, 2 or 5 times a power of ten).

    >>> round_edges(3.0, 97.0, 10).tolist()
    [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0]
    """
    if not high > low:
        high = low + max(abs(low), 1.0)
    raw = (high - low) / bars
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    return np.array([k * step for k in range(first, max(last, first + 1) + 1)])


def _histogram(original: Microdata, masked: Microdata, column: str, *, public: bool) -> dict[str, Any] | None:
    z = masked.numbers(column)
    there = z[np.isfinite(z)]
    if len(there) < LEAST_COUNT:
        return None
    x = original.numbers(column)
    source = there if public else np.concatenate([there, x[np.isfinite(x)]])
    low, high = np.quantile(source, [0.005, 0.995])
    edges = round_edges(float(low), float(high))
    out: dict[str, Any] = {
        "name": column,
        "label": masked.schema[column].label,
        "edges": edges.tolist(),
        "after": _shares(there, edges),
        "records": len(there),
    }
    if not public:
        known = x[np.isfinite(x)]
        out["before"] = _shares(known, edges, least=LEAST_COUNT)
        both = np.isfinite(x) & np.isfinite(z)
        sd = float(x[both].std()) if both.any() else 0.0
        if sd > 0:
            moved = (z - x)[both] / sd
            reach = float(np.quantile(np.abs(moved), 0.99)) or 1.0
            step = float(np.diff(round_edges(-reach, reach, 30))[0])
            bars = max(1, math.ceil(reach / step))
            # Centred on 0, so that the middle bar holds those that stayed.
            limits = np.array([(k - 0.5) * step for k in range(-bars, bars + 2)])
            out["displacement"] = {
                "edges": limits.tolist(),
                "share": _shares(moved, limits),
                "mean": float(np.abs(moved).mean()),
                "changed": float((moved != 0).mean()),
            }
    return out


def _shares(values: FloatArray, edges: FloatArray, least: int = 0) -> list[float]:
    """The share of values in each bar; those beyond the ends count in the outermost bars."""
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    if least:
        counts = np.where(counts < least, 0, counts)
    return [float(c) / max(len(values), 1) for c in counts]


def _correlations(
    original: Microdata, masked: Microdata, columns: list[str], *, public: bool
) -> dict[str, Any]:
    from sfumato.utility._paired import paired_moments

    moments = paired_moments(masked if public else original, masked, columns)

    def rows(matrix: FloatArray) -> list[list[float | None]]:
        return [[float(v) if math.isfinite(v) else None for v in row] for row in np.round(matrix, 4)]

    out: dict[str, Any] = {"columns": columns, "after": rows(moments.cor_z)}
    if not public:
        out["before"] = rows(moments.cor_x)
        out["difference"] = rows(moments.cor_z - moments.cor_x)
    return out


def _by_area(run: Run) -> list[dict[str, Any]]:
    """The distribution of D over areas, from a dissimilarity measure of the run."""
    for result in run.results:
        levels, areas = result.figures.get("by_level"), result.figures.get("by_area")
        if result.measure == "dissimilarity" and levels is not None and areas is not None:
            out = []
            for row in levels.to_dicts():
                d = areas.filter((areas["level"] == row["level"]) & areas["d"].is_not_null())["d"]
                edges = round_edges(0.0, max(float(d.max() or 0.0), 1e-6), 24)
                counts, _ = np.histogram(d.to_numpy(), bins=edges)
                out.append({**row, "edges": edges.tolist(), "counts": counts.tolist()})
            return out
    return []
