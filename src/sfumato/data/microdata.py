"""Microdata: a Polars frame with a schema. The one place where pandas, Arrow and Polars meet.

>>> import polars as pl
>>> people = Microdata(
...     pl.DataFrame({"AREA": ["n", "n", "s"], "INCOME": [10, -9, 90]}),
...     Schema(keys=["AREA"], sensitive=["INCOME"], variables={"INCOME": {"missing": [-9], "top": 90}}),
... )
>>> people.missing("INCOME").tolist(), people.eligible("INCOME").tolist()
([False, True, False], [True, False, False])
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.differences import same_memory
from sfumato.data.extremes import refuse_extremes as refuse_extremes
from sfumato.data.face import Shown, face_of
from sfumato.data.schema import Range, Schema
from sfumato.errors import InputError, SchemaError, counted, did_you_mean, suggesting
from sfumato.parallel import in_threads

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from sfumato.cells import CellTable

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
T = TypeVar("T")

BLOCK: Final = 1 << 18
"""Records in a block. Fixed, so that what is added up block by block is the same bits everywhere."""


@suggesting
class Microdata:
    """A file about people: one row a record, one column a variable, and the schema that explains it.

    ``frame`` may be a Polars, pandas or Arrow frame (or a Polars LazyFrame, of which only the
    columns that are asked for are read). A Microdata is never changed; :meth:`with_columns` makes a
    new one that shares every untouched column.
    """

    def __init__(self, frame: Any, schema: Schema | Mapping[str, Any] | None = None) -> None:
        if isinstance(frame, Microdata):
            schema = frame.schema if schema is None else schema
            frame = frame._source
        self._source: pl.DataFrame | pl.LazyFrame = _as_polars(frame)
        if schema is None:
            schema = Schema()
        elif not isinstance(schema, Schema):
            schema = Schema.from_dict(schema)
        self._explained_by(schema)

    def _explained_by(self, schema: Schema) -> None:
        self.schema: Schema = schema
        for column, place in schema.named_columns().items():
            if column not in self._types:
                raise SchemaError(
                    f"{place} names the column {column!r}, which the data don't have",
                    hint=did_you_mean(column, self._types),
                    parameter=place,
                )

    # -- what it is -------------------------------------------------------------------------------

    @cached_property
    def _types(self) -> dict[str, pl.DataType]:
        if isinstance(self._source, pl.DataFrame):
            return dict(self._source.schema)
        return dict(self._source.collect_schema())

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The whole frame, in memory."""
        return self._source if isinstance(self._source, pl.DataFrame) else self._source.collect()

    @property
    def columns(self) -> list[str]:
        return list(self._types)

    @property
    def is_lazy(self) -> bool:
        """Whether the data are still on disk."""
        return not isinstance(self._source, pl.DataFrame) and "frame" not in self.__dict__

    @cached_property
    def _height(self) -> int:
        if self.is_lazy:
            assert isinstance(self._source, pl.LazyFrame)
            return int(self._source.select(pl.len()).collect().item())
        return self.frame.height

    def __len__(self) -> int:
        return self._height

    def __repr__(self) -> str:
        roles = ", ".join(f"{r}={v}" for r, v in self.schema.to_dict()["roles"].items())
        size = f"{counted(len(self), 'record')} × {len(self.columns)} columns"
        return f"Microdata({size}{'; ' + roles if roles else ''})"

    def head(self, rows: int = 5) -> pl.DataFrame:
        """The first records; of a lazy frame, only these are read."""
        first = self._source.head(rows)
        return first if isinstance(first, pl.DataFrame) else first.collect()

    def show(self, rows: int = 5, *, hidden: bool = True) -> Shown:
        """Roles, columns and first records for a notebook; ``hidden=False`` shows sensitive values too."""
        return Shown(face_of(self, rows, hidden=hidden))

    def _repr_html_(self) -> str:
        return face_of(self, 5, hidden=True)

    def dtype(self, column: str) -> pl.DataType:
        self._need(column)
        return self._types[column]

    def is_numeric(self, column: str) -> bool:
        return self.dtype(column).is_numeric()

    def kind(self, column: str) -> str:
        """The kind the schema gives; else continuous for numbers and dates, categorical otherwise."""
        said = self.schema[column].kind
        if said is not None:
            return said
        dtype = self.dtype(column)
        return "continuous" if dtype.is_numeric() or dtype.is_temporal() else "categorical"

    def _need(self, column: str) -> None:
        if column not in self._types:
            raise SchemaError(f"the data have no column {column!r}", hint=did_you_mean(column, self._types))

    # -- columns ----------------------------------------------------------------------------------

    def column(self, name: str) -> pl.Series:
        """One column; of a lazy frame, only this one is read."""
        self._need(name)
        return self.select([name]).to_series() if self.is_lazy else self.frame.get_column(name)

    def select(self, columns: Sequence[str]) -> pl.DataFrame:
        """Some columns as a frame; of a lazy frame, only these are read."""
        for name in columns:
            self._need(name)
        if self.is_lazy:
            assert isinstance(self._source, pl.LazyFrame)
            return self._source.select(list(columns)).collect()
        return self.frame.select(list(columns))

    def slice(self, start: int, length: int) -> Microdata:
        """Records start … start+length−1."""
        return Microdata(self.frame.slice(start, length), self.schema)

    def shares(self, other: Microdata, column: str) -> bool:
        """Whether another file's column is one and the same memory as this one's, so that it can't differ."""
        return same_memory(self.column(column), other.column(column))

    def take(self, rows: IntArray) -> Microdata:
        """Some records, in the order given."""
        return Microdata(self.frame[rows], self.schema)

    def only(self, columns: Sequence[str]) -> Microdata:
        """Some columns, with what the schema says of them."""
        return self.with_frame(self.select(columns))

    def with_flags(self, columns: Sequence[str]) -> list[str]:
        """Those of the columns that are there, with the flags of what was imputed in them."""
        there = [c for c in columns if c in self._types]
        flags = [self.schema[c].imputed for c in there]
        return list(dict.fromkeys([*there, *(f for f in flags if f is not None)]))

    def aggregate(
        self, partial: Callable[[Microdata, int], T], columns: Sequence[str] | None = None
    ) -> list[T]:
        """``partial(block, start)`` of every block of these columns, in the order of the file.

        How a file is looked at where it may be larger than memory, or on other machines: what is combined
        from the parts is the same wherever they were taken.

        >>> pay = Microdata(pl.DataFrame({"PAY": range(600_000)}))
        >>> [int(s) for s in pay.aggregate(lambda block, start: len(block))]
        [262144, 262144, 75712]
        """
        data = self if columns is None else self.only(self.with_flags(columns))
        return self._each(lambda start: partial(data.slice(start, BLOCK), start))

    def compare(
        self,
        after: Microdata,
        partial: Callable[[Microdata, Microdata, int], T],
        columns: Sequence[str] | None = None,
    ) -> list[T]:
        """``partial(block before, block after, start)`` of every block of two files with the same records.

        ``columns`` are those that either may have.
        """
        one, two = self, after
        if columns is not None:
            one, two = (d.only(d.with_flags(columns)) for d in (self, after))
        return self._each(lambda start: partial(one.slice(start, BLOCK), two.slice(start, BLOCK), start))

    def at_once(self, function: Callable[[Microdata], T]) -> T:
        """``function`` of these data: a look at whole columns, by whoever has room for them."""
        return function(self)

    def _each(self, function: Callable[[int], T]) -> list[T]:
        """``function(start)`` of every block, in their order."""
        return in_threads(function, range(0, len(self), BLOCK))

    def with_columns(self, columns: Mapping[str, pl.Series] | Iterable[pl.Series]) -> Microdata:
        """A new Microdata with some columns replaced or added; the others are shared, not copied."""
        series = [s.rename(n) for n, s in columns.items()] if isinstance(columns, Mapping) else list(columns)
        return Microdata(self.frame.with_columns(series), self.schema)

    def with_frame(self, frame: Any) -> Microdata:
        """The same schema over another frame (whose missing columns the schema forgets)."""
        frame = _as_polars(frame)
        names = frame.columns if isinstance(frame, pl.DataFrame) else frame.collect_schema().names()
        return Microdata(frame, self.schema.restricted_to(names))

    def with_schema(self, schema: Schema) -> Self:
        out = copy.copy(self)
        out._explained_by(schema)
        return out

    def with_roles(self, **roles: Any) -> Microdata:
        """The same data with some roles replaced, e.g. ``with_roles(keys=["AGE", "SEX"])``."""
        return self.with_schema(self.schema.with_roles(**roles))

    def with_variable(self, column: str, **details: Any) -> Microdata:
        """The same data with some details of a column replaced, e.g. ``top=100_000``."""
        return self.with_schema(self.schema.with_variable(column, **details))

    # -- what the values are ----------------------------------------------------------------------

    def missing(self, column: str) -> BoolArray:
        """Which values are missing: null, NaN, or one of the column's missing codes."""
        if not self.is_lazy and not self.schema[column].missing:
            series = self.column(column)
            if not series.null_count():  # the usual case, and asked for again and again
                floats = series.dtype.is_float()
                return np.isnan(series.to_numpy()) if floats else np.zeros(len(series), dtype=np.bool_)
        return self._flag(self.missing_expr(column))

    def missing_expr(self, column: str) -> pl.Expr:
        """:meth:`missing` as a Polars expression."""
        dtype, at = self.dtype(column), pl.col(column)
        flag = at.is_null()
        if dtype.is_float():
            flag |= at.is_nan().fill_null(False)
        for code in self.schema[column].missing:
            if isinstance(code, Range):
                if not dtype.is_numeric():
                    raise SchemaError(
                        f"{column} has a missing range, but its values aren't numbers",
                        parameter=f"variables.{column}.missing",
                    )
                inside = pl.lit(True)
                if code.low is not None:
                    inside &= at >= code.low
                if code.high is not None:
                    inside &= at <= code.high
                if dtype.is_float():
                    inside &= at.is_not_nan()
                flag |= inside.fill_null(False)
            elif isinstance(code, str) == (not dtype.is_numeric()):
                other = at.cast(pl.String) if not dtype.is_numeric() else at
                flag |= (other == code).fill_null(False)
        return flag

    def top_coded(self, column: str) -> BoolArray:
        """Which values stand at or beyond the column's top code."""
        return self._coded(column, self.schema[column].top, above=True)

    def bottom_coded(self, column: str) -> BoolArray:
        """Which values stand at or beyond the column's bottom code."""
        return self._coded(column, self.schema[column].bottom, above=False)

    def _coded(self, column: str, code: float | None, *, above: bool) -> BoolArray:
        if code is None:
            return np.zeros(len(self), dtype=np.bool_)
        if not self.dtype(column).is_numeric():
            word = "top" if above else "bottom"
            raise SchemaError(
                f"{column} has a {word} code, but holds {_type_word(self.dtype(column))}",
                hint=f"take `{word}` out of its variable, or read the column as numbers",
                parameter=f"variables.{column}.{word}",
            )
        beyond = pl.col(column) >= code if above else pl.col(column) <= code
        return self._flag(beyond.fill_null(False) & ~self.missing_expr(column))

    def imputed(self, column: str) -> BoolArray:
        """Which values the column's flag column marks as imputed."""
        flag = self.schema[column].imputed
        if flag is None:
            return np.zeros(len(self), dtype=np.bool_)
        at, dtype = pl.col(flag), self.dtype(flag)
        if dtype == pl.Boolean:
            return self._flag(at.fill_null(False))
        if not dtype.is_numeric():
            text = at.cast(pl.String).str.strip_chars()
            at = text.cast(pl.Float64, strict=False)
            unread = int(self._flag(at.is_null() & text.fill_null("").ne("")).sum())
            if unread:
                raise SchemaError(
                    f"{flag} should flag imputed values of {column}, but holds text in "
                    f"{counted(unread, 'record')}",
                    hint="recode it to 1 (imputed) and 0, or to true and false",
                )
        return self._flag((at.cast(pl.Float64).fill_nan(None) != 0).fill_null(False))

    def eligible(self, column: str) -> BoolArray:
        """Which values a mask may move: not missing, not imputed, not top- or bottom-coded."""
        variable = self.schema[column]
        ok = ~self.missing(column)
        if variable.top is not None:
            ok &= ~self.top_coded(column)
        if variable.bottom is not None:
            ok &= ~self.bottom_coded(column)
        if variable.imputed is not None:
            ok &= ~self.imputed(column)
        return ok

    def numbers(self, column: str, *, missing: float = np.nan) -> FloatArray:
        """The values as floats, with every missing value (null, NaN, code) as ``missing``."""
        dtype = self.dtype(column)
        if not (dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean):
            raise SchemaError(
                f"{column} holds {_type_word(dtype)}, where numbers are needed",
                hint="recode it first, or leave it out",
            )
        series = self.column(column)
        if dtype.is_temporal():
            series = series.to_physical()
        if dtype.is_float():
            refuse_extremes(series)
        out = series.cast(pl.Float64).to_numpy(writable=True)
        gone = self.missing(column)
        if gone.any():
            out[gone] = missing
        return out

    def matrix(self, columns: Sequence[str], *, missing: float = np.nan) -> FloatArray:
        """Several columns as one records × columns array (Fortran order: columns are contiguous)."""
        out = np.empty((len(self), len(columns)), dtype=np.float64, order="F")
        for j, column in enumerate(columns):
            out[:, j] = self.numbers(column, missing=missing)
        return out

    def codes(self, columns: str | Sequence[str]) -> tuple[IntArray, int]:
        """Dense codes 0 … k−1 of the distinct rows of these columns, and k.

        Codes follow the sorted order of the values (nulls first), so they depend on the values
        alone, not on the order of records. No columns gives a single class.
        """
        names = [columns] if isinstance(columns, str) else list(columns)
        if not names:
            return np.zeros(len(self), dtype=np.int64), 1
        # One column after another: dense ranks of a column, then of the pair (so far, column).
        total = np.zeros(len(self), dtype=np.int64)
        size = 1
        for name in names:
            series = self.column(name)
            if series.dtype in (pl.Categorical, pl.Enum):
                series = series.cast(pl.String)
            rank = series.rank("dense").cast(pl.Int64).fill_null(0).to_numpy()
            width = int(rank.max(initial=0)) + 1
            joint = total * width + rank
            # Dense again after each column, so that many wide columns can't overflow the product.
            dense = pl.Series(joint).rank("dense").to_numpy().astype(np.int64) - 1
            total, size = dense, int(dense.max(initial=-1)) + 1
        return total, max(size, 1) if len(self) else 0

    def households(self, column: str) -> tuple[IntArray, int]:
        """Dense codes 0 … k−1 of the households, and k; a record without one is a household of its own.

        >>> Microdata(pl.DataFrame({"HOME": [7, None, 7, None]})).households("HOME")[0].tolist()
        [0, 1, 0, 2]
        """
        codes, k = self.codes(column)
        alone = self.missing(column)
        if not alone.any():
            return codes, k
        codes = np.where(alone, k + np.cumsum(alone), codes)
        _, dense = np.unique(codes, return_inverse=True)
        return dense, int(dense.max()) + 1

    def _flag(self, expression: pl.Expr) -> BoolArray:
        needed = list(dict.fromkeys(expression.meta.root_names()))
        if not needed:
            return np.zeros(len(self), dtype=np.bool_)
        return self.select(needed).select(expression.alias("flag")).to_series().to_numpy().astype(np.bool_)

    # -- out --------------------------------------------------------------------------------------

    def cells(self, keys: Sequence[str] | None = None) -> CellTable:
        """The counts of every combination of these keys (the schema's keys by default)."""
        from sfumato.cells import CellTable

        return CellTable.of(self, keys if keys is not None else self.schema.keys)

    def to_pandas(self) -> pd.DataFrame:
        return self.frame.to_pandas()

    def to_arrow(self) -> pa.Table:
        return self.frame.to_arrow()


def as_microdata(data: Any) -> Microdata:
    """Microdata from whatever a person hands in."""
    return data if isinstance(data, Microdata) else Microdata(data)


def _as_polars(frame: Any) -> pl.DataFrame | pl.LazyFrame:
    if isinstance(frame, (pl.DataFrame, pl.LazyFrame)):
        return frame
    import narwhals as nw
    from narwhals.exceptions import DuplicateError

    try:
        neutral = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise InputError(
            f"data must be a Polars, pandas or Arrow frame, not {type(frame).__name__}",
            hint="read a file with sf.read(path)",
        ) from None
    except DuplicateError:
        names = [str(c) for c in getattr(frame, "columns", ())]
        twice = sorted({n for n in names if names.count(n) > 1})
        raise InputError(
            f"the data have two columns named {', '.join(map(repr, twice[:3]))}", hint="rename one of them"
        ) from None
    out: pl.DataFrame = neutral.to_polars()
    return out


def _type_word(dtype: pl.DataType) -> str:
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    return "true/false values" if dtype == pl.Boolean else f"values of type {dtype}"
