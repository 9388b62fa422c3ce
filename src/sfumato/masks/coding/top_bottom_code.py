"""Top and bottom coding."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact
from sfumato.contract.engine import Locality
from sfumato.contract.guarantees import Guarantee, SameMoments
from sfumato.contract.mask import Mask, Notes, RowsMask
from sfumato.contract.parameters import Fault, parameter
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema, Variable
from sfumato.draws import Draws, as_seed
from sfumato.errors import MaskError, Problem
from sfumato.masks.coding.codes import SIDES, how_many, in_type, plain, replacement
from sfumato.masks.coding.guarantees import SharedExtreme, WithinCodes


@dataclass(frozen=True, kw_only=True)
class TopBottomCode(RowsMask):
    """Replace the values beyond a top code or a bottom code by that code.

    The codes are values (``top``, ``bottom``) or percents (``top_percent``, ``bottom_percent``). A
    number holds for every column, a table gives each column its own. With n eligible values, a top
    percent p makes the k-th largest of them the code, k = ⌈p·n/100⌉, so at least p percent of the
    values share the code; values that tie with it are coded too. Percents may be taken ``within``
    strata; each stratum then has codes of its own.

    A coded value is replaced by the code, or by the mean or the median of all values at or beyond
    it. The mean keeps the column's mean (in a column of whole numbers it is rounded, to even).
    Missing values stay. Values that were coded before stay coded: where the new code is stricter
    they take the new one. The masked file's schema has the codes, so that later steps know them.

    Reference: Hundepool, A. et al. (2012). Statistical Disclosure Control, section 3.6.3. Wiley.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"INCOME": [10, 20, 30, 400, 800]}))
    >>> sf.TopBottomCode(columns=["INCOME"], top=100).mask(data).frame["INCOME"].to_list()
    [10, 20, 30, 100, 100]
    >>> mean = sf.TopBottomCode(columns=["INCOME"], top_percent=40, replace="mean").mask(data)
    >>> mean.frame["INCOME"].to_list(), mean.schema["INCOME"].top
    ([10, 20, 30, 600, 600], 400)
    """

    # Polars splits an expression over the cores by itself, so the whole file is one chunk in memory:
    # nothing is sliced and glued together again.
    chunk_records: ClassVar[int] = sys.maxsize

    name: ClassVar[str] = "top_bottom_code"
    draws_nothing: ClassVar[bool] = True
    by_value: ClassVar[bool] = True
    reference: ClassVar[str] = "Hundepool et al. (2012), section 3.6.3"

    columns: tuple[str, ...] = parameter(
        doc="The columns to code.", columns="sensitive", numeric=True, public=True
    )
    top: float | Mapping[str, float] | None = parameter(
        None, doc="The top code: one number for all columns, or a table of column → number.", public=True
    )
    bottom: float | Mapping[str, float] | None = parameter(
        None, doc="The bottom code: one number for all columns, or a table of column → number.", public=True
    )
    top_percent: float | Mapping[str, float] | None = parameter(
        None,
        doc="How many percent of the eligible values are coded at the top.",
        at_least=0,
        at_most=100,
        public=True,
    )
    bottom_percent: float | Mapping[str, float] | None = parameter(
        None,
        doc="How many percent of the eligible values are coded at the bottom.",
        at_least=0,
        at_most=100,
        public=True,
    )
    replace: Literal["code", "mean", "median"] = parameter(
        "code",
        doc="What replaces a coded value: the code, or the mean or median of the coded values.",
        public=True,
    )
    within: tuple[str, ...] = parameter(
        (), doc="Percents are taken in each stratum of these columns.", columns=True, public=True
    )

    # -- what it says of itself -------------------------------------------------------------------

    def _check(self) -> Sequence[Fault]:
        out: list[Fault] = []
        if not self.columns:
            out.append(("`columns` must name at least one column", None, "columns"))
        for name in ("top", "bottom", "top_percent", "bottom_percent"):
            table = getattr(self, name)
            if isinstance(table, Mapping):
                extra = [c for c in table if c not in self.columns]
                if extra:
                    out.append((f"`{name}` names {extra[0]!r}, which isn't in `columns`", None, name))
        for column in self.columns:
            out += [
                (f"{column} has both `{side}` and `{side}_percent`", "give one of them", side)
                for side in SIDES
                if self._said(side, column) is not None and self._said(f"{side}_percent", column) is not None
            ]
            said = [self._said(s + p, column) for s in SIDES for p in ("", "_percent")]
            if all(code is None for code in said):
                out.append(
                    (f"{column} has no code", "give `top`, `bottom`, `top_percent` or `bottom_percent`")
                )
            low, high = self._said("bottom", column), self._said("top", column)
            if low is not None and high is not None and low >= high:
                out.append(
                    (f"the bottom code of {column} ({low:g}) isn't below its top code ({high:g})", None)
                )
            shares = [self._said(f"{s}_percent", column) or 0 for s in SIDES]
            if sum(shares) > 100:
                out.append((f"{column} is to be coded in more than 100 percent of its values", None))
            if column in self.within:
                out.append((f"{column} can't be coded within itself", "take it out of `within`"))
        if self.within and self.top_percent is None and self.bottom_percent is None:
            out.append(("`within` is for percents, and none is given", None, "within"))
        return out

    def _said(self, name: str, column: str) -> float | None:
        value = getattr(self, name)
        return value.get(column) if isinstance(value, Mapping) else value

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        for column in self.columns:
            if column in types and types[column].is_temporal():
                out.append(
                    Problem(0, f"{column} holds dates, which can't be coded", "recode them by `period`")
                )
            for side in SIDES:
                code = self._said(side, column)
                if code is not None and schema[column].is_missing_code(code):
                    hint = "coded values would look missing; take another code"
                    out.append(Problem(0, f"the {side} code {code:g} of {column} is a missing code", hint))
        return out

    def changes(self, data: Microdata) -> Sequence[str]:
        return self.columns

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        return ()  # whoever reads the release does the same to his own list

    def own_list(self, data: Microdata) -> Microdata:
        return self._apply(data, as_seed(0).draws(self.name), Notes())

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        out: list[Guarantee] = []
        for column in self.columns:
            if not self.within:
                codes = self._said("bottom", column), self._said("top", column)
                out.append(WithinCodes(column, *codes, exact=self.replace == "code"))
            for side in SIDES:
                percent = self._said(f"{side}_percent", column)
                if percent:
                    out.append(SharedExtreme(column, percent, side == "top", self.within))
            if self.replace == "mean" and data.dtype(column).is_float():
                tolerance = 1e-6 if data.dtype(column) == pl.Float32 else 1e-9
                out.append(SameMoments((column,), order=1, tolerance=tolerance))
        return out

    def released_variable(self, column: str, variable: Variable, masked: Microdata) -> Variable:
        """A code by percent is the value of the record at the cut. Where the mean or the median replaces
        the coded values, that value isn't in the file any more; what replaced it marks them as well."""
        if self.replace == "code" or column not in self.columns or column not in masked.columns:
            return variable
        values = masked.column(column).filter(~masked.missing(column))
        for side in SIDES:
            code = getattr(variable, side)
            if code is None or self._said(f"{side}_percent", column) is None:
                continue
            beyond = values.filter(values >= code if side == "top" else values <= code).cast(pl.Float64)
            shown: Any = beyond.min() if side == "top" else beyond.max()
            variable = replace(variable, **{side: shown})
        return variable

    # -- what it does -----------------------------------------------------------------------------

    @property
    def locality(self) -> Locality:
        """Codes given as values treat each record by itself; a percent, mean or median needs the column."""
        by_value = self.top_percent is None and self.bottom_percent is None and self.replace == "code"
        return "rows" if by_value else "column"

    def apart(self, data: Microdata) -> Sequence[Mask]:
        return self.by_column(data)

    def _fit(self, data: Microdata, draws: Draws, notes: Notes) -> Any:
        """The cut points and replacements: per column, or a frame of them with a row per stratum."""
        if self.within:
            return self._fit_strata(data, notes)
        return {column: self._fit_column(data, column, notes) for column in self.columns}

    def _fit_column(self, data: Microdata, column: str, notes: Notes) -> dict[str, Any]:
        dtype, at = data.dtype(column), pl.col(column)
        cut = {side: self._cut(data, column, side) for side in SIDES}
        meets = cut["top"] is not None and cut["bottom"] is not None and cut["bottom"] >= cut["top"]
        if meets:
            if data.column(column).filter(~data.missing(column)).n_unique() > 1:
                raise _met(column)
            notes.warn(f"{column} has a single value and was left alone")
            return {}
        state: dict[str, Any] = {}
        for side in SIDES:
            code = cut[side]
            if code is None:
                continue
            beyond = ~data.missing_expr(column) & (at >= code if side == "top" else at <= code)
            n, moved, coded = self._beyond(data, column, beyond, at != code)
            centre = new = code
            if self.replace != "code" and n:
                centre, new = replacement(coded, self.replace, dtype, column)
            self._judge(data, column, side, new, n, notes)
            if new != centre and dtype.is_integer():
                notes.warn(f"{column}: the {self.replace} of the coded values was rounded to a whole number")
            state[side] = (code, new)
            notes.figure(f"{side}_code", plain(code), column)
            notes.figure(f"{side}_coded", n, column)
            notes.figure(f"{side}_changed", n if new != code else moved, column)
            if new != code:
                notes.figure(f"{side}_replaced_by", plain(new), column)
            percent = self._said(f"{side}_percent", column)
            if percent and n > 0.02 * percent * len(data):
                share = 100 * n / len(data)
                notes.warn(f"{column}: ties make the {side}-coded share {share:.3g}%, not {percent:g}%")
        return state

    def _beyond(
        self, data: Microdata, column: str, beyond: pl.Expr, moves: pl.Expr
    ) -> tuple[int, int, list[Any]]:
        """How many values lie at or beyond a code, how many of them it moves, and (unless the code is what
        replaces them) the values themselves."""
        asked = [beyond.sum().alias("n"), (beyond & moves).sum().alias("moved")]

        def partial(block: Microdata, _start: int) -> tuple[int, int, list[Any]]:
            n, moved = block.frame.select(asked).row(0)
            values = [] if self.replace == "code" else block.frame.filter(beyond)[column].to_list()
            return n, moved, values

        parts = data.aggregate(partial, [column])
        return sum(p[0] for p in parts), sum(p[1] for p in parts), [v for p in parts for v in p[2]]

    def _cut(self, data: Microdata, column: str, side: str) -> Any:
        """The code of one side in the column's own type; None where nothing can be coded."""
        dtype = data.dtype(column)
        percent = self._said(f"{side}_percent", column)
        if percent is None:
            code = self._said(side, column)
            return None if code is None else in_type(code, dtype, top=side == "top")
        values = data.column(column).filter(data.eligible(column))
        k = how_many(len(values), percent)
        if not k:
            return None
        place = len(values) - k if side == "top" else k - 1
        if dtype.is_decimal() or dtype in (pl.Int128, pl.UInt128):  # NumPy has no such numbers
            return values.sort()[place]
        return np.partition(values.to_numpy(), place)[place].item()

    def _judge(self, data: Microdata, column: str, side: str, new: Any, n: int, notes: Notes) -> None:
        if isinstance(new, float) and not math.isfinite(new):
            raise MaskError(
                f"{self.name}: {column} holds infinite values, which have no {self.replace}",
                hint='use replace="code", or mark them as missing',
            )
        if n and data.schema[column].is_missing_code(new):
            raise MaskError(
                f"{self.name}: what replaces the {side}-coded values of {column} is a missing code",
                hint="take another code, or replace by another figure",
            )
        if self.replace == "code" or getattr(data.schema[column], side) is None:
            return
        coded = data.top_coded(column) if side == "top" else data.bottom_coded(column)
        if coded.any():
            notes.warn(
                f"{column}: {int(coded.sum()):,} values were {side}-coded before; their true values aren't "
                f"known, so the {self.replace} of the coded values is that of the codes"
            )

    def _fit_strata(self, data: Microdata, notes: Notes) -> pl.DataFrame:
        """A row per stratum: the cut point and the replacement of each column and side."""
        keys = list(self.within)
        frame = data.select([*keys, *self.columns]).with_columns(
            *(pl.Series(f"eligible {c}", data.eligible(c)) for c in self.columns),
            *(pl.Series(f"there {c}", ~data.missing(c)) for c in self.columns),
        )
        pairs = [(column, side) for column in self.columns for side in SIDES]
        cuts = [self._stratum_cut(data.dtype(c), c, side).alias(f"{side} {c}") for c, side in pairs]
        strata = frame.group_by(keys, maintain_order=True).agg(cuts)
        frame = frame.join(strata, on=keys, how="left", nulls_equal=True, maintain_order="left")
        for column in self.columns:
            low, high = pl.col(f"bottom {column}"), pl.col(f"top {column}")
            if frame.select((pl.col(f"there {column}") & (low >= high).fill_null(False)).any()).item():
                raise _met(column)
        news = []
        for column, side in pairs:
            at, code = pl.col(column), pl.col(f"{side} {column}")
            beyond = (at >= code if side == "top" else at <= code).fill_null(False)
            beyond &= pl.col(f"there {column}")
            notes.figure(f"{side}_coded", int(frame.select(beyond.sum()).item()), column)
            news.append(
                (code.first() if self.replace == "code" else at.filter(beyond)).alias(f"{side} new {column}")
            )
        replaced = frame.group_by(keys, maintain_order=True).agg(news)
        if self.replace != "code":
            for column, side in pairs:
                lists, dtype = replaced[f"{side} new {column}"].to_list(), data.dtype(column)
                centres = [replacement(v, self.replace, dtype, column)[1] if v else None for v in lists]
                replaced = replaced.with_columns(pl.Series(f"{side} new {column}", centres, dtype=dtype))
        for column, side in pairs:
            for new in replaced[f"{side} new {column}"].drop_nulls().unique():
                self._judge(data, column, side, new, 1, notes)
        notes.warn("the codes differ by stratum, so the schema of the masked file doesn't have them")
        return strata.join(replaced, on=keys, nulls_equal=True)

    def _stratum_cut(self, dtype: pl.DataType, column: str, side: str) -> pl.Expr:
        percent = self._said(f"{side}_percent", column)
        if percent is None:
            said = self._said(side, column)
            code = None if said is None else in_type(said, dtype, top=side == "top")
            return pl.lit(code, dtype=dtype).first()
        values = pl.col(column).filter(pl.col(f"eligible {column}"))
        k = (values.len() * (percent / 100) - 1e-9).ceil().cast(pl.Int64)
        ordered = values.sort(descending=side == "top")
        return pl.when(k > 0).then(ordered.get((k - 1).clip(0), null_on_oob=True))

    def _rows(self, chunk: Microdata, start: int, state: Any, draws: Draws) -> Microdata:
        frame = chunk.frame
        if isinstance(state, pl.DataFrame):
            keys = list(self.within)
            frame = frame.join(state, on=keys, how="left", nulls_equal=True, maintain_order="left")
            codes = {
                c: {s: (pl.col(f"{s} {c}"), pl.col(f"{s} new {c}")) for s in SIDES} for c in self.columns
            }
        else:
            codes = {
                c: {
                    s: (_literal(a, chunk.dtype(c)), _literal(b, chunk.dtype(c)))
                    for s, (a, b) in state[c].items()
                }
                for c in self.columns
            }
        touched = [c for c in self.columns if codes[c]]
        new = frame.select(_coded(chunk.missing_expr(c), c, codes[c]) for c in touched)
        return chunk.with_columns(new.get_columns())

    def _schema(self, data: Microdata, state: Any) -> Schema:
        schema = data.schema
        if self.within:
            return schema
        for column, codes in state.items():
            old, details = schema[column], {side: plain(code) for side, (code, _) in codes.items()}
            if "top" in details and old.top is not None:
                details["top"] = min(details["top"], old.top)
            if "bottom" in details and old.bottom is not None:
                details["bottom"] = max(details["bottom"], old.bottom)
            schema = schema.with_variable(column, **details)
        return schema


def _coded(missing: pl.Expr, column: str, codes: Mapping[str, Any]) -> pl.Expr:
    """The column with its values at or beyond a code replaced (missing values stay)."""
    at = out = pl.col(column)
    for side, (code, new) in codes.items():
        beyond = at >= code if side == "top" else at <= code
        out = pl.when(beyond & ~missing).then(new).otherwise(out)
    return out.alias(column)


def _literal(value: Any, dtype: pl.DataType) -> pl.Expr:
    return pl.lit(value, dtype=dtype)


def _met(column: str) -> MaskError:
    return MaskError(
        f"top_bottom_code: the top and the bottom code of {column} meet, so no value would be left",
        hint="the column has many ties: lower a percent, give the codes as values, or widen the strata",
    )
