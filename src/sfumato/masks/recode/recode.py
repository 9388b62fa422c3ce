"""Global recoding: coarser classes for a column."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact
from sfumato.contract.guarantees import Guarantee
from sfumato.contract.mask import Notes, RowsMask
from sfumato.contract.parameters import Fault, held_type, parameter
from sfumato.data.hierarchy import Hierarchy
from sfumato.data.microdata import Microdata
from sfumato.data.recoding import (
    GlobalRecode,
    by_mapping,
    by_period,
    class_type,
    is_code,
    key_text,
    number_text,
    read_grc,
)
from sfumato.data.schema import Code, Range, Schema, Variable
from sfumato.draws import Draws, as_seed
from sfumato.errors import MaskError, Problem, SchemaError, SfumatoError
from sfumato.masks.recode.coarser import (
    SHOWN,
    Coarser,
    as_type,
    distinct_values,
    looked_up,
    missing_in,
    recoded_schema,
)


@dataclass(frozen=True, kw_only=True)
class Recode(RowsMask):
    """Replace the values of a column by coarser classes.

    The classes come from one of

    - ``width``: classes of equal width, origin + k·width up to the next; whole numbers get labels such
      as "20-29", other numbers "[20, 30)". Values under ``lowest`` and from ``highest`` upwards make
      one open class each ("<20", "90+"). ``labels="low"`` writes each class's lower end instead and
      keeps the column's type.
    - ``period``: dates and times by "decade", "year", "quarter", "month" or "day" ("1987-Q2");
      ``labels="low"`` writes the first moment of each period and keeps the type.
    - ``mapping``: a table of code → class. On numbers, ranges work too: "21-30", "-20" (up to 20),
      "61-" (61 and above), "1,2". Or the path of a mu-ARGUS ``.grc`` file, whose missing codes and
      code list are taken over.
    - ``hierarchy`` (a file, see :mod:`sfumato.data.hierarchy`; by default the one that the schema names) and
      ``level``, 0 being the original codes.

    A value outside the classes is an error that names it, unless ``other`` gives a class for the rest
    or ``keep_others`` leaves them as they are. Missing values stay missing. The schema of the masked
    file has the new classes: their order, their labels, no top and bottom codes.

    Reference: Hundepool, A. et al. (2012). Statistical Disclosure Control, section 3.6.2. Wiley.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [17, 24, 61, None]}))
    >>> sf.Recode(column="AGE", width=10, lowest=20, highest=60).mask(data).frame["AGE"].to_list()
    ['<20', '20-29', '60+', None]
    >>> sf.Recode(column="AGE", mapping={"-20": "young", "21-": "old"}).mask(data).frame["AGE"].to_list()
    ['young', 'old', 'old', None]
    """

    chunk_records: ClassVar[int] = sys.maxsize  # Polars looks a whole column up on all cores by itself

    name: ClassVar[str] = "recode"
    draws_nothing: ClassVar[bool] = True
    by_value: ClassVar[bool] = True
    reference: ClassVar[str] = "Hundepool et al. (2012), section 3.6.2"
    keeps_types: ClassVar[bool] = False

    column: str = parameter(doc="The column to recode.", columns=True, public=True)
    width: float | None = parameter(None, doc="The width of classes of equal width.", above=0, public=True)
    origin: float = parameter(0, doc="Where the first class of equal width starts.", public=True)
    lowest: float | None = parameter(None, doc="Values under it make one open class.", public=True)
    highest: float | None = parameter(None, doc="Values from it upwards make one open class.", public=True)
    labels: Literal["range", "low"] = parameter(
        "range",
        doc="What names a class of equal width or a period: its range, or its lower end.",
        public=True,
    )
    period: Literal["decade", "year", "quarter", "month", "day"] | None = parameter(
        None, doc="The period that a date or time is coarsened to.", public=True
    )
    mapping: Mapping[str, Any] | str | None = parameter(
        None, doc="A table of code or range → class, or the path of a mu-ARGUS .grc file."
    )
    hierarchy: str | None = parameter(
        None, doc="The path of a hierarchy file (by default the schema's).", file=True
    )
    level: int | None = parameter(
        None, doc="The level of the hierarchy; 0 is the original.", at_least=0, public=True
    )
    other: str | int | None = parameter(None, doc="The class of every value that is in no class.")
    keep_others: bool = parameter(
        False, doc="Whether values that are in no class stay as they are.", public=True
    )

    def __post_init__(self) -> None:
        # A number as a key is the number itself; in text, a leading minus would read as an open range.
        if isinstance(self.mapping, Mapping):
            plain = {key_text(code): name for code, name in self.mapping.items()}
            object.__setattr__(self, "mapping", plain)
        grc = self.hierarchy is not None and str(self.hierarchy).casefold().endswith(".grc")
        if grc and self.mapping is None and self.level in (None, 1):  # one level: a mapping
            for name, value in (("mapping", self.hierarchy), ("hierarchy", None), ("level", None)):
                object.__setattr__(self, name, value)
        super().__post_init__()

    def _check(self) -> Sequence[Fault]:
        out: list[Fault] = []
        by_level = self.hierarchy is not None or self.level is not None
        ways = [self.width is not None, self.mapping is not None, self.period is not None, by_level]
        if sum(ways) != 1:
            out.append(
                ("needs one of `width`, `mapping`, `period` and `hierarchy` with `level`", None, "width")
            )
        if self.hierarchy is not None and self.level is None:
            out.append(("`hierarchy` needs a `level`", "level = 1 is the first coarser one", "hierarchy"))
        if isinstance(self.mapping, Mapping):
            if not self.mapping:
                out.append(("`mapping` is empty", None, "mapping"))
            out += [
                (f"a class must be text or a whole number, not {name!r}", None)
                for name in self.mapping.values()
                if isinstance(name, bool) or not isinstance(name, (str, int))
            ]
        if self.width is None and (self.lowest is not None or self.highest is not None):
            out.append(
                ("`lowest` and `highest` go with `width`", 'in a mapping, write "-20" or "61-"', "lowest")
            )
        if self.lowest is not None and self.highest is not None and self.lowest >= self.highest:
            out.append(
                (f"`lowest` ({self.lowest:g}) must be below `highest` ({self.highest:g})", None, "lowest")
            )
        if self.other is not None and self.keep_others:
            out.append(("`other` and `keep_others` exclude each other", "give one of them", "other"))
        return out

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        if out:
            return out
        dtype = types[self.column]
        if self.width is not None and not dtype.is_numeric():
            out.append(
                Problem(
                    0,
                    f"`width` needs numbers, but {self.column} holds {held_type(dtype)}",
                    "use `period`" if dtype in (pl.Date, pl.Datetime) else "use `mapping` or `hierarchy`",
                    parameter="width",
                )
            )
        if self.period is not None and dtype not in (pl.Date, pl.Datetime):
            message = f"`period` needs dates, but {self.column} holds {held_type(dtype)}"
            out.append(
                Problem(
                    0,
                    message,
                    "use `width`" if dtype.is_numeric() else "read it as a date",
                    parameter="period",
                )
            )
        if self.level is not None and self.hierarchy is None and schema[self.column].hierarchy is None:
            out.append(
                Problem(
                    0, f"the schema names no hierarchy for {self.column}", "give `hierarchy`, the path of one"
                )
            )
            return out
        try:
            self._classes(schema[self.column])
        except SfumatoError as problem:
            out.append(Problem(0, problem.message, problem.hint))
        for total, parts in schema.sums.items():
            if self.column in (total, *parts):
                out.append(
                    Problem(0, f"recoding {self.column} ends the sum rule of {total}", None, "warning")
                )
        return out

    def types_after(self, types: dict[str, pl.DataType], schema: Schema) -> dict[str, pl.DataType]:
        dtype = types.get(self.column)
        if dtype is None or self.level == 0 or ((self.width or self.period) and self.labels == "low"):
            return types
        made: pl.DataType = pl.String()
        if self.mapping is not None:
            try:
                source = self._classes(schema[self.column])
            except SfumatoError:  # the check says so
                return types
            names = list(source.mapping.values()) if isinstance(source, GlobalRecode) else []
            made = class_type(dtype, [*names, *([self.other] if self.other is not None else [])])
        return {**types, self.column: made}

    def changes(self, data: Microdata) -> Sequence[str]:
        return (self.column,)

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        return ()  # whoever reads the release does the same to his own list

    def own_list(self, data: Microdata) -> Microdata:
        return self._apply(data, as_seed(0).draws(self.name), Notes())

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        return [Coarser(self.column)]

    # -- the core: distinct values → classes ------------------------------------------------------

    def class_of(
        self, values: pl.Series, variable: Variable | None = None, *, show: bool = True
    ) -> pl.Series:
        """The class of each value: the recode itself, on a column or on its distinct values alone.

        Nulls and the variable's missing codes stay what they are (as text where classes are text; NaN
        becomes null there). ``show=False`` keeps values out of error messages.
        """
        variable = variable or Variable()
        missing = missing_in(values, variable)
        there = values.filter(~missing)
        classes, dtype = self._classify(there, variable, show=show)
        self._no_clash(classes, variable)
        kept = as_type(values, dtype)
        index = pl.Series(np.flatnonzero(~missing.to_numpy()), dtype=pl.UInt32)
        out = kept.clone()
        return out.scatter(index, classes.cast(dtype)) if len(index) else out

    def _classes(self, variable: Variable) -> Hierarchy | GlobalRecode | None:
        """What the files say (None for a width or a period), read and checked."""
        if self.width is not None or self.period is not None:
            return None
        if isinstance(self.mapping, str):
            return read_grc(self.mapping, self.context.base)
        if self.mapping is not None:
            return GlobalRecode(self.mapping)
        path = self.hierarchy or variable.hierarchy
        if path is None:
            raise SchemaError(f"the schema names no hierarchy for {self.column}")
        hierarchy = Hierarchy.read(path, self.context.base)
        if self.level is not None and self.level > hierarchy.height:
            raise SchemaError(
                f"{path} has no level {self.level}", hint=f"its levels are 0 (original) to {hierarchy.height}"
            )
        return hierarchy

    def _classify(
        self, values: pl.Series, variable: Variable, *, show: bool
    ) -> tuple[pl.Series, pl.DataType]:
        source = self._classes(variable)
        if self.period is not None:
            low = self.labels == "low"
            found = by_period(values, self.period, low=low)
            dtype = values.dtype if low else pl.String()
        elif source is None:
            found, dtype = self._by_width(values)
        elif isinstance(source, Hierarchy):
            if self.level == 0:
                return values, values.dtype
            found, dtype = source.class_of(values, self.level or 0), pl.String()
        else:
            found, dtype = by_mapping(values, source.mapping, self.other)
        lost = found.is_null()
        if lost.any():
            if self.other is not None:
                text = pl.Series([self.other]).cast(dtype)
                found = found.fill_null(text[0])
            elif self.keep_others:
                found = found.zip_with(~lost, as_type(values, dtype))
            else:
                raise self._uncovered(values.filter(lost), show=show)
        return found, dtype

    def _by_width(self, values: pl.Series) -> tuple[pl.Series, pl.DataType]:
        assert self.width is not None
        whole = values.dtype.is_integer() and all(float(x).is_integer() for x in (self.width, self.origin))
        x = values.cast(pl.Float64).to_numpy()
        with np.errstate(invalid="ignore"):
            low = self.origin + np.floor((x - self.origin) / self.width) * self.width
        # A class that an open one cuts starts or ends at the cut.
        bottom = -math.inf if self.lowest is None else self.lowest
        top = math.inf if self.highest is None else self.highest
        start, end = np.maximum(low, bottom), np.minimum(low + self.width, top)
        under, over = x < bottom, (x >= top) & (self.highest is not None)
        if self.labels == "low":
            lows = np.where(under, -math.inf, np.where(over, top, start))
            if under.any():
                raise MaskError(
                    f"recode: values of {self.column} under `lowest` have no lower end",
                    hint='use labels="range", or leave `lowest` out',
                )
            out = pl.Series(lows, nan_to_null=True)
            return (out.cast(pl.Int64).cast(values.dtype) if whole else out.cast(values.dtype)), values.dtype
        key = np.where(under, -math.inf, np.where(over, math.inf, start))
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        names = pl.Series(
            [
                self._name(float(start[i]), float(end[i]), bool(under[i]), bool(over[i]), whole=whole)
                if under[i] or over[i] or math.isfinite(start[i])
                else None
                for i in first
            ],
            dtype=pl.String,
        )
        return names.gather(pl.Series(place, dtype=pl.UInt32)).rename(values.name), pl.String()

    def _name(self, start: float, end: float, under: bool, over: bool, *, whole: bool) -> str:
        if under:
            return f"<{number_text(self.lowest)}"
        if over:
            return f"{number_text(self.highest)}+"
        if not whole or not (start.is_integer() and end.is_integer()):
            return f"[{number_text(start)}, {number_text(end)})"
        if end - 1 == start:
            return number_text(start)
        return (
            f"{number_text(start)}-{number_text(end - 1)}"
            if start >= 0
            else f"{number_text(start)} to {number_text(end - 1)}"
        )

    def _uncovered(self, values: pl.Series, *, show: bool) -> MaskError:
        distinct = values.unique().sort()
        what = f"{len(distinct):,} values" if len(distinct) != 1 else "1 value"
        named = ""
        if show:
            listed = ", ".join(str(v) for v in distinct.head(SHOWN).to_list())
            named = f": {listed}" + (" …" if len(distinct) > SHOWN else "")
        return MaskError(
            f"recode: {what} of {self.column} are in no class{named}",
            hint="add a class, or give `other` (one class for the rest) or keep_others = true",
        )

    def _no_clash(self, classes: pl.Series, variable: Variable) -> None:
        for name in classes.unique().drop_nulls():
            if variable.is_missing_code(name):
                raise MaskError(
                    f"recode: the class {name!r} of {self.column} is a missing code",
                    hint="name the class otherwise",
                )

    # -- on a file --------------------------------------------------------------------------------

    def _fit(self, data: Microdata, draws: Draws, notes: Notes) -> tuple[pl.Series, pl.Series]:
        distinct = distinct_values(data, self.column).sort()
        show = data.schema.role_of(self.column) != "sensitive"
        classes = self.class_of(distinct, data.schema[self.column], show=show)
        notes.figure("values_before", distinct.drop_nulls().len())
        notes.figure("classes_after", classes.drop_nulls().n_unique())
        return distinct, classes

    def _rows(self, chunk: Microdata, start: int, state: Any, draws: Draws) -> Microdata:
        distinct, classes = state
        return chunk.with_columns({self.column: looked_up(chunk.column(self.column), distinct, classes)})

    def _schema(self, data: Microdata, state: Any) -> Schema:
        return recoded_schema(data.schema, self.column, self._details(data, *state))

    def _details(self, data: Microdata, distinct: pl.Series, classes: pl.Series) -> dict[str, Any]:
        variable = data.schema[self.column]
        source = self._classes(variable)
        if self.level == 0:
            return {}
        text = classes.dtype == pl.String
        gone = missing_in(distinct, variable)
        missing: list[Code | Range] = list(variable.missing)
        if text:
            missing = list(dict.fromkeys(classes.filter(gone).drop_nulls().to_list()))
            missing += [
                str(m) for m in variable.missing if not isinstance(m, Range) and str(m) not in missing
            ]
        there = pl.DataFrame({"v": distinct, "c": classes}).filter(~gone)
        order = tuple(there.unique("c", keep="first", maintain_order=True)["c"].drop_nulls().to_list())
        labels: dict[Code, str] = {}
        if isinstance(source, GlobalRecode):
            code = (lambda c: c) if text else int
            missing += [code(m) for m in source.missing if is_code(m, text) and code(m) not in missing]
            labels = {code(c): name for c, name in source.labels.items() if is_code(c, text)}
        dtype = data.dtype(self.column)
        ordered = (dtype.is_numeric() or dtype.is_temporal()) and variable.kind != "categorical"
        return {
            "kind": "ordinal" if ordered else "categorical",
            "order": order if ordered and text else (),
            "missing": tuple(missing),
            "labels": labels,
        }
