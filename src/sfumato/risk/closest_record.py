"""Distance to the closest record: is the release nearer to its people than to others?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.results import wilson

MOST_ASKED: Final = 2_000
MOST_LOOKED_AT: Final = 20_000
_OPAQUE: Final = (pl.Null, pl.Binary, pl.Object)


@dataclass(frozen=True, kw_only=True)
class ClosestRecord(RiskMeasure):
    """The share of persons who are closer to a released record than to any other person.

    For each original record: d_Z, the distance to the closest released record, and d_X, the distance to
    the closest other original one, each among equally many. If the release were a fresh sample of the
    same people's population, either would be the smaller one equally often: the share of d_Z < d_X
    (ties count half) is then 1/2. A release that copies or closely follows its records has up to 1; a
    release far from all people, by noise or by averaging, has less than 1/2, down to 0.

    ``holdout`` names a file of records of the same population that the mask never saw. Then the
    released records are asked: ``holdout_share`` is the share of them that are closer to an original
    record than to one of the holdout, which is 1/2 for a release that has learnt of people and not of
    persons; it is the value if it is given.

    The distance is Gower's: ranks in the original, as shares of the records, for numbers; 0 or 1 for
    categories and for a value that is missing on one side. ``copies`` is the number of original records
    alone with their values that stand in the release. At most 2,000 records are asked among 20,000.

    Reference: Platzer, M., Reutterer, T. (2021). Holdout-based empirical assessment of mixed-type synthetic
    data. Frontiers in Big Data 4, 679939; Gower, J. C. (1971). Biometrics 27, 857-871.

    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"A": [float(i * i) for i in range(50)], "B": [float(i) for i in range(50)]})
    >>> sf.ClosestRecord().measure(people, people).value
    1.0
    """

    name: ClassVar[str] = "closest_record"
    reference: ClassVar[str] = "Platzer, Reutterer (2021)"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    columns: tuple[str, ...] = parameter(
        (), doc="The columns to compare; by default all that both files have, but for ids.", columns=True
    )
    holdout: str | None = parameter(
        None, doc="A file of records of the same population that the mask never saw.", file=True
    )

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        columns = self.columns or compared(original, masked)
        if not columns:
            raise MeasureError("closest_record: the files have no column in common that could be compared")
        if len(original) < 2 or not len(masked):
            raise MeasureError("closest_record: it takes two original records and a released one at least")
        return closeness(original, masked, tuple(columns), draws, self._others(original, columns))

    def _others(self, original: Microdata, columns: tuple[str, ...]) -> Microdata | None:
        if self.holdout is None:
            return None
        from sfumato.io import read

        others = read(self.file(self.holdout))
        lost = [c for c in columns if c not in others.columns]
        if lost:
            raise MeasureError(f"closest_record: the holdout has no column {lost[0]!r}")
        if len(others) < 2:
            raise MeasureError("closest_record: the holdout has fewer than two records")
        return Microdata(others.frame.select(columns), original.schema.restricted_to(columns))


def closeness(
    original: Microdata,
    masked: Microdata,
    columns: tuple[str, ...],
    draws: Draws,
    others: Microdata | None = None,
) -> Result:
    """The result on these columns, with people who were never in the file where there are some."""
    space = Space(original, columns)
    files = [space.points(f, columns) for f in (original, masked, *([others] if others else []))]
    size = min(len(original) - 1, len(masked), MOST_LOOKED_AT)
    asked = sampled(draws, "asked", len(original), MOST_ASKED)
    near = sampled(draws, "originals", len(original), size + 1)
    own = np.searchsorted(near, asked)
    own = np.where((own < len(near)) & (near[np.minimum(own, len(near) - 1)] == asked), own, -1)
    to_people = _distances(taken(files[0], asked), taken(files[0], near), own)
    released = taken(files[1], sampled(draws, "released", len(masked), size + 1))
    to_release = _distances(taken(files[0], asked), released, np.full(len(asked), -1))
    share = _share(to_release, to_people)
    figures = {
        "people_share": share,
        "expected": 0.5,
        "copies": _copies(original, masked, columns),
        "median_distance_to_release": float(np.median(to_release)) / len(columns),
        "median_distance_to_people": float(np.median(to_people)) / len(columns),
    }
    value, n = share, len(asked)
    if others is not None:
        size = min(len(original), len(others), MOST_LOOKED_AT)
        asked = sampled(draws, "asked of the release", len(masked), MOST_ASKED)
        none = np.full(len(asked), -1)
        seen = taken(files[0], sampled(draws, "seen", len(original), size))
        unseen = taken(files[2], sampled(draws, "unseen", len(others), size))
        mine = taken(files[1], asked)
        value, n = _share(_distances(mine, seen, none), _distances(mine, unseen, none)), len(asked)
        figures["holdout_share"] = value
    note = "1/2 is what a fresh sample of the same population would have; above it the release remembers"
    return Result(
        value=value,
        unit="share of records",
        interval=wilson(value * n, n),
        figures=figures,
        notes=(note,),
    )


Points = tuple[FloatArray, npt.NDArray[np.int32]]


@dataclass(frozen=True)
class Space:
    """The original's columns as axes: sorted numbers, and the levels of categories."""

    original: Microdata
    columns: tuple[str, ...]

    def points(self, data: Microdata, columns: tuple[str, ...]) -> Points:
        numbers, codes = [], []
        for column in columns:
            if self._is_number(data, column):
                ordered = np.sort(self.original.numbers(column))
                ordered = ordered[~np.isnan(ordered)]
                value = data.numbers(column)
                place = (np.searchsorted(ordered, value) + np.searchsorted(ordered, value, "right")) / 2
                numbers.append(np.where(np.isnan(value), np.nan, place / max(len(ordered), 1)))
            else:
                codes.append(self._codes(data, column))
        n = len(data)
        return (
            np.ascontiguousarray(np.column_stack(numbers)) if numbers else np.zeros((n, 0)),
            np.ascontiguousarray(np.column_stack(codes)) if codes else np.zeros((n, 0), np.int32),
        )

    def _is_number(self, data: Microdata, column: str) -> bool:
        def holds(one: Microdata) -> bool:
            dtype = one.dtype(column)
            return dtype.is_numeric() or dtype.is_temporal()

        return self.original.kind(column) != "categorical" and holds(self.original) and holds(data)

    def _codes(self, data: Microdata, column: str) -> npt.NDArray[np.int32]:
        """A level's place among the original's; −1 for missing, −2 for one that the original hasn't."""
        levels = self.original.column(column).cast(pl.String).drop_nulls().unique().sort()
        place = data.column(column).cast(pl.String)
        out = place.replace_strict(levels, np.arange(len(levels)), default=-2, return_dtype=pl.Int32)
        gone = data.missing(column)
        return np.where(gone, -1, out.fill_null(-1).to_numpy()).astype(np.int32)


def compared(original: Microdata, masked: Microdata) -> tuple[str, ...]:
    apart = {original.schema.id, original.schema.household}
    return tuple(
        c
        for c in original.columns
        if c in masked.columns
        and c not in apart
        and not any(f.dtype(c).is_nested() or f.dtype(c) in _OPAQUE for f in (original, masked))
    )


def sampled(draws: Draws, purpose: str, n: int, most: int) -> IntArray:
    """At most so many records, drawn by addressed bits, in order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.argsort(draws.stream(purpose=purpose).bits(0, n), kind="stable")[:most])


def taken(points: Points, rows: IntArray) -> Points:
    return points[0][rows], points[1][rows]


def _distances(asked: Points, among: Points, but: IntArray) -> FloatArray:
    from sfumato.kernels.nearest import nearest_distance

    return nearest_distance(*asked, *among, but)


def _share(one: FloatArray, two: FloatArray) -> float:
    """How often the first is the smaller distance; a tie counts half."""
    near = np.isclose(one, two, rtol=0, atol=1e-12)
    return float(np.where(near, 0.5, one < two).mean())


def _copies(original: Microdata, masked: Microdata, columns: tuple[str, ...]) -> int:
    first, second = original.select(columns), masked.select(columns)
    alone = first.filter(~first.is_duplicated())
    if alone.schema != second.schema:
        return 0
    return alone.join(second, on=list(columns), how="semi", nulls_equal=True).height
