"""Results as a notebook shows them: value, interval, chance, before; notes and tables folded away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import polars as pl

from sfumato.drawing import Picture, dots, span
from sfumato.drawing.face import Html, face, listed, paragraph, table
from sfumato.errors import MeasureError

MOST_ROWS = 20


class Result(Protocol):
    """What a face needs of a result (which shows itself by this module)."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def unit(self) -> str: ...
    @property
    def interval(self) -> tuple[float, float] | None: ...
    @property
    def breakdown(self) -> pl.DataFrame | None: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def figures(self) -> Mapping[str, Any]: ...
    @property
    def direction(self) -> str: ...
    @property
    def bounds(self) -> tuple[float, float]: ...
    @property
    def chance(self) -> float | None: ...


class Results(Protocol):
    @property
    def before(self) -> Mapping[str, tuple[float, str]]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...


def result_face(result: Result) -> str:
    rows: list[list[Any]] = [["value", result.value]]
    if result.interval:
        rows.append(["interval", span(*result.interval)])
    if result.chance is not None:
        rows.append(["by chance", result.chance])
    rows.append(["unit", result.unit])
    rows += [[k.replace("_", " "), v] for k, v in result.figures.items() if k != "baseline" and _single(v)]
    return face(
        Html(f"<p><b>{paragraph(result.name or 'result')[3:-4]}</b> ({result.direction} is better)</p>"),
        table(["", ""], rows),
        listed(result.notes),
        breakdown(result),
    )


def breakdown(result: Result) -> Html:
    found = result.breakdown
    if found is None or not found.height:
        return Html("")
    rows = [[_cell(v) for v in row] for row in found.head(MOST_ROWS + 1).iter_rows()]
    grid = table([str(c).replace("_", " ") for c in found.columns], rows, most=MOST_ROWS)
    return Html(f"<details><summary>Table of {found.height:,} rows</summary>{grid}</details>")


def results_table(results: Results) -> Html:
    """One row a measure: before, after, its interval, chance, unit."""
    rows = []
    for r in results:
        before = results.before.get(r.name)
        rows.append(
            [
                r.name,
                before[0] if before else None,
                r.value,
                span(*r.interval) if r.interval else None,
                r.chance,
                r.unit,
                r.direction,
            ]
        )
    return table(["measure", "before", "value", "95% interval", "by chance", "unit", "better"], rows)


def results_face(results: Results, *parts: str) -> str:
    if not len(results):
        return face(*parts, "No results.")
    folded = [breakdown(r) for r in results if r.breakdown is not None]
    named = [
        Html(f"{paragraph(r.name, 'soft')}{b}")
        for r, b in zip([r for r in results if r.breakdown is not None], folded, strict=True)
    ]
    return face(*parts, results_table(results), *named)


def results_picture(results: Results) -> Picture:
    rows = [
        {
            "name": r.name,
            "value": r.value,
            "low": r.interval[0] if r.interval else None,
            "high": r.interval[1] if r.interval else None,
            "baseline": r.chance,
            "before": results.before[r.name][0] if r.name in results.before else None,
        }
        for r in results
        if r.bounds == (0.0, 1.0) and r.value == r.value
    ]
    return picture_of(rows, "rates")


def picture_of(rows: Sequence[dict[str, Any]], title: str) -> Picture:
    if not rows:
        raise MeasureError("there is no rate to draw: none of the measures is a share from 0 to 1")
    return Picture([dots(rows, "share", title=title[:1].upper() + title[1:])])


def _single(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _cell(value: Any) -> Any:
    return value if _single(value) else str(value)
