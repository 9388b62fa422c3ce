"""What an engine offers, and what a mask says of where its work can be done.

An engine holds a file somewhere: in memory, on a disk, on other machines. Whoever works on it uses a few
operations of the data it holds, and no more: read some columns (``select``), look at blocks of records and
combine what they say (``aggregate``, ``compare``), map records by their place (``map_rows``), and bring some
columns to one place, work there, and put new columns back by place (``at_one_place``). Draws are addressed by
place, so that the same code gives the same records on every engine.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema

Locality = Literal["rows", "column", "keys", "file"]
"""What a mask must see at one place to do its work:

- ``rows``: any records by themselves, once the file was looked at in parts;
- ``column``: a column at a time, with its strata;
- ``keys``: the keys, areas and households of all records, but no amounts;
- ``file``: every column that it reads.
"""

Mapped = Callable[[Microdata, int], pl.DataFrame]
"""New columns of some records, the first of which has this place in the file."""
Work = Callable[[Microdata], tuple[pl.DataFrame, Any]]
"""New columns of a whole file, and what there is to tell of them."""
T = TypeVar("T")
Pieces = Callable[[Any], Iterable[tuple[int, pl.DataFrame]]]
"""Records, by the number of the part that they belong to; of the first item, a piece for every part."""
Finish = Callable[[int, list[pl.DataFrame]], T]
"""What is made of all pieces of a part, which come in any order."""


class Held(Microdata):
    """Microdata that an engine holds: read in parts, and never as a whole unless ``frame`` is asked for."""

    @property
    def is_lazy(self) -> bool:
        return True

    @abstractmethod
    def map_rows(
        self, function: Mapped, columns: Sequence[str], types: Mapping[str, pl.DataType], schema: Schema
    ) -> Held:
        """These data with new columns (of these types), made from ``columns`` of each record by its place."""

    @abstractmethod
    def at_one_place(
        self, work: Work, columns: Sequence[str], types: Mapping[str, pl.DataType]
    ) -> tuple[Held, Any]:
        """These data with new columns, made from whole ``columns`` at one place, and what the work told."""

    @abstractmethod
    def new_folder(self) -> Path:
        """A place (not made yet) for work under way, gone when the engine is."""


class InParts(Held):
    """Held by many at once: each writes its own part of a release."""

    @abstractmethod
    def each(self, function: Callable[[Any], T], items: Sequence[Any]) -> list[T]:
        """``function(i)`` of each item, by whoever is free; the outcomes in their order."""

    @abstractmethod
    def spread(self, pieces: Pieces, items: Sequence[Any], parts: int, finish: Finish[T]) -> list[T]:
        """Records to the parts that they belong to: ``pieces(i)`` of every item, each with its part's number,
        are brought together by part, and ``finish(number, pieces)`` makes of each part what is told."""


class Engine(Protocol):
    """Where a plan is carried out."""

    name: ClassVar[str]

    def hold(self, data: Microdata) -> Microdata:
        """The file as this engine holds it."""

    def doing(self, tell: Callable[[float], None]) -> None:
        """From here on ``tell`` which share of the next piece of work is done."""

    def __enter__(self) -> Self:
        """Whatever the engine needs (a folder, a cluster) is there from here on …"""

    def __exit__(self, *_: object) -> None:
        """… to here: nothing is left behind."""


def bytes_per_record(types: Mapping[str, pl.DataType]) -> int:
    """About how many bytes a record of these columns takes where it is gathered.

    >>> bytes_per_record({"AGE": pl.Int8(), "PAY": pl.Float64(), "AREA": pl.String()})
    25
    """
    return sum(_width(t) for t in types.values())


def _width(dtype: pl.DataType) -> int:
    if dtype.is_integer() or dtype.is_float():
        return int("".join(c for c in str(dtype) if c.isdigit())) // 8
    return {pl.Boolean: 1, pl.Date: 4, pl.Categorical: 4, pl.Enum: 4, pl.Null: 0}.get(dtype.base_type(), 16)
