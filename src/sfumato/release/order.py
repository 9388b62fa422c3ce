"""In which order the records of a release stand, and the released records in that order.

The order is a sort by addressed bits, in memory or of a held file on its disk (:mod:`.external`); what comes
out is the same. Ids and households are numbered anew in the order of the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.contract.engine import Held
from sfumato.contract.mask import bound_to
from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.io.arrow import plain
from sfumato.release.external import sorted_frames

if TYPE_CHECKING:
    from sfumato.run.run import Run

CHUNK: Final = 1 << 20
PLACE, _CODE, _ALONE, _OLD = "\x1fplace", "\x1fhousehold", "\x1falone", "\x1fold "


@dataclass(frozen=True)
class Part:
    """Some records as they are released, where each stood, and how many kept an id of the original."""

    frame: pl.DataFrame
    source: IntArray
    same: dict[str, int]


def in_order(
    run: Run, columns: list[str], spread: Callable[[int], None] = lambda _records: None
) -> Iterator[Part]:
    """The released records, a million at a time: never a second copy of the whole file.

    ``spread`` is told how far a sort on a disk is before the first of them comes.
    """
    raw = _held(run, columns, spread) if isinstance(run.masked, Held) else _in_memory(run, columns)
    numbering = numbering_of(run, columns)
    start = 0
    for frame, household in raw:
        yield numbering.numbered(frame, start, household)
        start += frame.height


@dataclass(frozen=True)
class Numbering:
    """How the records of a release are numbered anew."""

    columns: list[str]
    roles: list[str]
    """The columns that are numbered anew, and must not be the original's."""
    id: str | None
    household: str | None
    records: int

    def numbered(self, frame: pl.DataFrame, start: int, household: IntArray | None) -> Part:
        """Some records in their order, the first of which is the release's record ``start``, with their
        households' new numbers (0 for none)."""
        fresh: list[pl.Series] = []
        if self.id is not None:
            numbers = np.arange(start + 1, start + frame.height + 1)
            fresh.append(_as_ids(numbers, self.id, frame.schema[self.id], self.records))
        if household is not None and self.household is not None:
            old = frame[self.household]
            ids = _as_ids(household, self.household, old.dtype, self.records)
            # Who has no household has none in the release.
            fresh.append(ids.zip_with(pl.Series(household > 0), old.cast(ids.dtype, strict=False)))
        part = frame.select(self.columns).with_columns(fresh)
        return Part(part, frame[PLACE].to_numpy().astype(np.int64), _same(part, frame, self.roles))

    def raw(self, masked: Microdata, original: Microdata, start: int, length: int) -> pl.DataFrame:
        """Some records as they stand, with the original's ids and their places."""
        frame = plain(masked.only(self.columns).slice(start, length).frame)
        old = original.only(self.roles).slice(start, length).frame.select(pl.all().name.prefix(_OLD))
        place = pl.DataFrame({PLACE: np.arange(start, start + frame.height, dtype=np.int64)})
        return pl.concat([frame, old, place] if self.roles else [frame, place], how="horizontal")


def numbering_of(run: Run, columns: list[str]) -> Numbering:
    was, now = run.original.schema, run.masked.schema
    roles = [c for c in dict.fromkeys([was.id, was.household]) if c is not None and c in columns]
    return Numbering(columns, roles, now.id if now.id in columns else None, now.household, len(run.masked))


def _same(part: pl.DataFrame, frame: pl.DataFrame, roles: list[str]) -> dict[str, int]:
    out = {}
    for role in roles:
        same = part[role].cast(pl.String) == frame[_OLD + role].cast(pl.String)
        out[role] = int(same.fill_null(False).sum())
    return out


def digest_of(frame: pl.DataFrame) -> int:
    """An order-sensitive digest of a chunk's values."""
    if not frame.height:
        return 0
    rows = frame.hash_rows(seed=1).to_numpy()
    place = np.arange(1, len(rows) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        return int(((rows ^ place) * np.uint64(0xBF58476D1CE4E5B9)).sum(dtype=np.uint64))


def place_type(records: int) -> Any:
    """What a record's place is written as."""
    return np.uint32 if records < 2**32 - 1 else np.uint64


def _as_ids(numbers: npt.NDArray[np.int64], name: str, dtype: pl.DataType, n: int) -> pl.Series:
    series = pl.Series(name, numbers, dtype=pl.Int64)
    if dtype.is_numeric():
        return series
    return series.cast(pl.String).str.zfill(len(str(n)))


# -- in memory ------------------------------------------------------------------------------------


def release_order(run: Run) -> npt.NDArray[np.int64]:
    """A random order of the records, from the secret seed; released households stay together.

    Where the household's number isn't released, neighbours in the file mustn't tell it.
    """
    n = len(run.masked)
    if not run.plan.release.shuffle:
        return np.arange(n)
    draws = bound_to(run.seed, run.original).draws("release")
    shuffled = draws.stream(purpose="order").permutation(n)
    household = kept_together(run)
    if household is None:
        return shuffled
    codes, size = run.masked.households(household)
    place = draws.stream(purpose="households").permutation(size)
    # Records in their shuffled order, then stably by their household's random place.
    return shuffled[np.argsort(place[codes[shuffled]], kind="stable")]


def kept_together(run: Run) -> str | None:
    """The household, where its number is released."""
    household = run.masked.schema.household
    return None if household in run.plan.release.drop else household


def _in_memory(run: Run, columns: list[str]) -> Iterator[tuple[pl.DataFrame, IntArray | None]]:
    # Categories as text, since a dictionary can name values that were removed; a gather from many
    # pieces is slow.
    frame, order = plain(run.masked.select(columns)).rechunk(), release_order(run)
    index = order.astype(np.uint32 if len(order) < 2**32 - 1 else np.uint64)
    old = run.original.select(numbering_of(run, columns).roles)
    home = run.masked.schema.household
    household = new_households(run.masked, home, order) if home is not None and home in columns else None
    for start in range(0, max(len(order), 1), CHUNK):
        rows = pl.Series(PLACE, index[start : start + CHUNK])
        part = frame.select(pl.all().gather(pl.lit(rows)))
        ids = old.select(pl.all().gather(pl.lit(rows)).name.prefix(_OLD))
        numbers = None if household is None else household[start : start + CHUNK]
        yield pl.concat([part, ids, rows.to_frame()], how="horizontal"), numbers


def new_households(data: Microdata, household: str, order: IntArray) -> IntArray:
    """Household numbers by first appearance in the release; 0 for a record without a household."""
    there = ~data.missing(household)[order]
    codes = data.codes(household)[0][order]
    _, first, back = np.unique(codes[there], return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(1, len(first) + 1)
    out = np.zeros(len(order), dtype=np.int64)
    out[there] = rank[back]
    return out


# -- on a disk ------------------------------------------------------------------------------------


def _held(
    run: Run, columns: list[str], spread: Callable[[int], None]
) -> Iterator[tuple[pl.DataFrame, IntArray | None]]:
    """The same from a held file: only the households' codes are whole in memory."""
    masked, n = run.masked, len(run.masked)
    assert isinstance(masked, Held)
    household, numbering = kept_together(run), numbering_of(run, columns)
    if not run.plan.release.shuffle:
        numbers = (
            new_households(masked, household, np.arange(n))
            if household is not None and household in columns
            else None
        )
        for start in range(0, max(n, 1), CHUNK):
            frame = numbering.raw(masked, run.original, start, CHUNK)
            yield frame, None if numbers is None else numbers[start : start + CHUNK]
        return
    draws = bound_to(run.seed, run.original).draws("release")
    stream = draws.stream(purpose="order")
    codes, alone, place = None, None, None
    if household is not None:
        codes, size = masked.households(household)
        alone, place = masked.missing(household), draws.stream(purpose="households").permutation(size)

    def keyed(start: int, length: int) -> tuple[pl.DataFrame, list[npt.NDArray[np.uint64]]]:
        frame = numbering.raw(masked, run.original, start, length)
        bits = stream.bits(start, frame.height)
        if codes is None or place is None or alone is None:
            return frame, [bits]
        here = slice(start, start + frame.height)
        frame = frame.with_columns(pl.Series(_CODE, codes[here]), pl.Series(_ALONE, alone[here]))
        return frame, [place[codes[here]].astype(np.uint64), bits]

    top = len(place) if place is not None else None
    counted = _Households()
    for frame in sorted_frames(keyed, n, masked.new_folder(), CHUNK, top, spread=spread):
        released = household is not None and household in columns
        yield frame, counted(frame[_CODE].to_numpy(), frame[_ALONE].to_numpy()) if released else None


class _Households:
    """Numbers households as they come, one whole household after the other."""

    def __init__(self) -> None:
        self._last, self._count = -1, 0

    def __call__(self, codes: IntArray, alone: BoolArray) -> IntArray:
        out = np.zeros(len(codes), dtype=np.int64)
        there = codes[~alone]
        if len(there):
            begins = np.concatenate([[there[0] != self._last], there[1:] != there[:-1]])
            out[~alone] = self._count + np.cumsum(begins)
            self._last, self._count = int(there[-1]), int(out[~alone][-1])
        return out
