"""The numbers behind a report's pictures: histograms, displacements, correlations, D by area."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.microdata import FloatArray, Microdata
from sfumato.report.classes import MOST_CLASSES, categories

if TYPE_CHECKING:
    from sfumato.run.run import Run

MOST_COLUMNS = 12
MOST_RECORDS = 200_000
"""Pictures of a larger file are drawn from every k-th record; a bar's error is then below 0.12 points."""
BARS = 32
LEAST_COUNT = 5
"""Bars of the original with fewer records than this aren't drawn, even internally: a report travels
further than it should."""


def pictures(run: Run, columns: list[str], *, public: bool) -> dict[str, Any]:
    """What is drawn; of the public report, nothing that the masked file doesn't show by itself."""
    (before, after), schema = run.looked_at, run.masked.schema
    touched = dict.fromkeys(c for s in run.steps for c, n in s.touched.items() if n)
    drawable = [
        c for c in touched if c in columns and c in before.columns and c not in (schema.id, schema.household)
    ]
    numbers = [c for c in drawable if _is_number(before, c) and _is_number(after, c)]
    original, masked = _thinned(before, drawable), _thinned(after, drawable)
    # A whole number of few values (a class, a count of children) is drawn as categories.
    few = {c for c in numbers if _few(original, c) and _few(masked, c)}
    classes = [c for c in drawable if c in few or (c not in numbers and not after.dtype(c).is_temporal())]
    out: dict[str, Any] = {"columns": [], "categories": [], "not_drawn": []}
    out["more_columns"] = len(set(numbers[MOST_COLUMNS:]) - few) + max(0, len(classes) - MOST_COLUMNS)
    numbers, classes = numbers[:MOST_COLUMNS], classes[:MOST_COLUMNS]
    if len(masked) < len(run.masked):
        out["drawn_from"] = len(masked)
    for column in (c for c in numbers if c not in few):
        drawn = _histogram(original, masked, column, public=public, paired=run.paired)
        if drawn:
            out["columns"].append(drawn)
    for column in classes:
        drawn = categories(original, masked, column, public=public, paired=run.paired)
        if drawn:
            out["categories"].append(drawn)
    there = {d["name"] for d in [*out["columns"], *out["categories"]]}
    out["not_drawn"] = [c for c in [*numbers, *classes] if c not in there]
    if len(numbers) > 1 and len(run.masked) > 2:
        out["correlations"] = _correlations(original, masked, numbers, public=public, paired=run.paired)
    if not public:
        out["by_area"] = _by_area(run)
    return out


def _is_number(data: Microdata, column: str) -> bool:
    return data.is_numeric(column) and data.kind(column) == "continuous"


def _few(data: Microdata, column: str) -> bool:
    return data.dtype(column).is_integer() and data.column(column).drop_nulls().n_unique() <= MOST_CLASSES


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
    # Without the dust of floating point: 0.3, not 0.30000000000000004.
    return np.array([float(f"{k * step:.12g}") for k in range(first, max(last, first + 1) + 1)])


def long_tailed(values: FloatArray) -> bool:
    """Whether equal bars would put most records into the first: never negative, and far beyond the median."""
    if not len(values) or values.min() < 0:
        return False
    low, high = np.quantile(values, [0.5, 0.995])
    return bool(high > 0 and low < high / 12)


def tail_edges(values: FloatArray) -> FloatArray:
    """0 and then 1, 2 and 5 times the powers of ten.

    >>> tail_edges(np.array([0.0, 3.0, 40.0, 700.0])).tolist()
    [0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
    """
    above = values[values > 0]
    low, high = np.quantile(above, [0.02, 0.995])
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high) + 1e-12)
    first = max(first, last - 8)
    grid = [float(f"{f}e{k}") for k in range(first, last + 1) for f in (1, 2, 5)]
    end = next(i for i, g in enumerate(grid) if g >= high)
    return np.array([0.0, *grid[: end + 1]])


def _histogram(
    original: Microdata, masked: Microdata, column: str, *, public: bool, paired: bool
) -> dict[str, Any] | None:
    z = masked.numbers(column)
    there = z[np.isfinite(z)]
    if len(there) < LEAST_COUNT:
        return None
    from sfumato.utility.distributions import distances

    x = original.numbers(column)
    source = there if public else np.concatenate([there, x[np.isfinite(x)]])
    uneven = long_tailed(source)
    if uneven:
        edges = tail_edges(source)
    else:
        # The outermost bars hold the tails, at least a few records each.
        tail = min(0.1, max(0.005, LEAST_COUNT / len(source)))
        low, high = np.quantile(source, [tail, 1 - tail])
        edges = round_edges(float(low), float(high), min(BARS, max(8, round(2 * len(there) ** (1 / 3)))))
    out: dict[str, Any] = {
        "name": column,
        "label": masked.schema[column].label,
        "edges": edges.tolist(),
        "after": _shares(there, edges),
        "records": len(there),
        "mean_after": float(there.mean()),
        "sd_after": float(there.std()),
    }
    if uneven:
        out["scale"] = "log"
    if not public:
        known = x[np.isfinite(x)]
        out["before"] = _shares(known, edges, least=LEAST_COUNT)
        if len(known):
            out |= {"mean_before": float(known.mean()), "sd_before": float(known.std())}
            out["ks"] = distances(known, there)[0]
        if not paired:
            return out
        both = np.isfinite(x) & np.isfinite(z)
        sd = float(x[both].std()) if both.any() else 0.0
        if sd > 0:
            every = (z - x)[both] / sd
            moved = every[every != 0]
            reach = float(np.quantile(np.abs(moved), 0.99)) if len(moved) else 1.0
            step = float(np.diff(round_edges(-reach, reach, 30))[0])
            bars = max(1, math.ceil(reach / step))
            # Of the records that changed; the middle bar holds those that hardly did.
            limits = np.array([(k - 0.5) * step for k in range(-bars, bars + 2)])
            out["displacement"] = {
                "edges": limits.tolist(),
                "share": _shares(moved, limits),
                "mean": float(np.abs(every).mean()),
                "changed": float((every != 0).mean()),
            }
    return out


def _shares(values: FloatArray, edges: FloatArray, least: int = 0) -> list[float | None]:
    """The share of values in each bar, None for fewer than ``least`` (but 0 for none).

    Those beyond the ends count in the outermost bars.
    """
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    return [float(c) / max(len(values), 1) if c == 0 or c >= least else None for c in counts]


def _correlations(
    original: Microdata, masked: Microdata, columns: list[str], *, public: bool, paired: bool
) -> dict[str, Any]:
    from sfumato.stats.pairing import paired_moments

    if public or not paired:
        # Each file by itself: the masked one alone, or two whose records belong to different people.
        after = paired_moments(masked, masked, columns).cor_z
        before = after if public else paired_moments(original, original, columns).cor_x
    else:
        moments = paired_moments(original, masked, columns)
        before, after = moments.cor_x, moments.cor_z

    def rows(matrix: FloatArray) -> list[list[float | None]]:
        return [[float(v) if math.isfinite(v) else None for v in row] for row in np.round(matrix, 4)]

    out: dict[str, Any] = {"columns": columns, "after": rows(after)}
    if not public:
        out["before"] = rows(before)
        out["difference"] = rows(after - before)
    return out


def _by_area(run: Run) -> list[dict[str, Any]]:
    """The distribution of D over areas, a part for each level of each dissimilarity of the run."""
    out = []
    tables = dict(zip(run.plan.measure_ids(), run.plan.measures, strict=True))
    for result in run.results:
        levels, areas = result.figures.get("by_level"), result.figures.get("by_area")
        if result.measure != "dissimilarity" or levels is None or areas is None:
            continue
        table = getattr(tables.get(result.name), "table", ()) or run.original.schema.keys
        for row in levels.to_dicts():
            d = areas.filter((areas["level"] == row["level"]) & areas["d"].is_not_null())["d"]
            part = {"measure": result.name, "table": list(table), **row}
            # One area, or nothing moved in any: a sentence says more than a picture.
            if len(d) > 1 and float(d.max() or 0.0) > 1e-9:
                edges = round_edges(0.0, float(d.max() or 0.0), 24)
                counts, _ = np.histogram(d.to_numpy(), bins=edges)
                part |= {"edges": edges.tolist(), "counts": counts.tolist()}
            out.append(part)
    return out
